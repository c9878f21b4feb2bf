//! What a service manager is told: ready, still watching, stopping.
//!
//! The watchdog is fed on the evidence of the fast lane's rounds and of nothing else: an exporter
//! whose web server answers while its readings stand still is one to restart. Without
//! `NOTIFY_SOCKET` nothing is told to anybody.

use crate::engine::Engine;
use crate::model::source::Lane;
use anyhow::Context;
use sd_notify::NotifyState;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

/// The thread looks at a number and sends a word.
const STACK: usize = 128 * 1024;

/// Feeds the watchdog until it is dropped.
pub(super) struct Watchdog {
    _stop: Option<Sender<()>>,
}

impl Watchdog {
    /// Starts feeding, if the service manager asks for it.
    pub(super) fn start(engine: &Arc<Engine>) -> anyhow::Result<Self> {
        let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else {
            return Ok(Self { _stop: None });
        };
        let (stop, stopped) = channel();
        let engine = Arc::clone(engine);
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                let mut fed = Fed::default();
                // Half of the limit, so that one word that comes late costs nothing.
                while stopped.recv_timeout(limit / 2) == Err(RecvTimeoutError::Timeout) {
                    if fed.advanced(fast_ticks(&engine)) {
                        tell(NotifyState::Watchdog);
                    }
                }
            })
            .context("cannot start the watchdog thread")?;
        Ok(Self { _stop: Some(stop) })
    }
}

/// How far the fast lane had come when the watchdog was last fed.
#[derive(Default)]
struct Fed(u64);

impl Fed {
    /// Whether the lane has come further. Without a frame the ticker itself stands still.
    fn advanced(&mut self, ticks: Option<u64>) -> bool {
        let Some(ticks) = ticks.filter(|ticks| *ticks > self.0) else { return false };
        self.0 = ticks;
        true
    }
}

fn fast_ticks(engine: &Engine) -> Option<u64> {
    engine.frame().ok().map(|frame| frame.health.lanes[Lane::Fast as usize].ticks)
}

/// The listeners are bound and the first frame was waited for.
pub(super) fn ready() {
    tell(NotifyState::Ready);
}

/// The configuration is being read again; [`ready`] follows.
pub(super) fn reloading() {
    tell(NotifyState::Reloading);
}

/// The exporter has been told to stop.
pub(super) fn stopping() {
    tell(NotifyState::Stopping);
}

/// A service manager that does not listen is no reason to stop serving.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!("the service manager cannot be told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lane_that_moves_feeds_the_watchdog() {
        let mut fed = Fed::default();
        let looks = [None, Some(0), Some(1), Some(1), Some(3), None, Some(3), Some(4)];
        let told: Vec<_> = looks.into_iter().map(|ticks| fed.advanced(ticks)).collect();
        assert_eq!(told, [false, false, true, false, true, false, false, true]);
    }
}
