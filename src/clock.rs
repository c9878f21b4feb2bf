//! The only caller of the clock. Everything else is handed a [`Moment`].

use crate::model::moment::Moment;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime};

/// Tells the time. The system's in production, a scenario's in a replay.
pub trait Clock: Send + Sync {
    /// Now, on both clocks.
    fn now(&self) -> Moment;
}

/// The machine's clocks.
///
/// The steady one stands still while the box is suspended: rounds that could not take place then are
/// not missed, and every lane reads within a period of waking.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Clock for System {
    fn now(&self) -> Moment {
        Moment { mono: read(ClockId::Monotonic), wall: read(ClockId::Realtime) }
    }
}

/// A moment as those libraries want it that have no type of their own for it.
#[must_use]
pub fn system_time(at: Moment) -> SystemTime {
    SystemTime::UNIX_EPOCH + at.wall
}

/// A clock before its zero (a box whose wall clock says 1969) reads as zero.
fn read(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}
