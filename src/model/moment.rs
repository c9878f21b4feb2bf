//! A point in time, as data.

use std::time::Duration;

/// One instant on both clocks. Made by the clock module or by a replay, never here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// On a clock that never goes back; its zero means nothing.
    pub mono: Duration,
    /// Since 1970, as far as the box knows.
    pub wall: Duration,
}

impl Moment {
    /// Time from `earlier` to this moment, zero if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.mono.saturating_sub(earlier.mono)
    }
}
