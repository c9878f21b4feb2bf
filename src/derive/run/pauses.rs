//! Pauses of a run, and which of them are stalls.
//!
//! Every run pauses: it evaluates, it saves. Such pauses come at equal distances in steps, or are short.
//! One that is neither is a stall: a job that hung, a node that swapped, a disk that did not answer.

use super::clockwork::span;
use crate::model::training::{Stretch, StretchKind};
use crate::thresholds::Thresholds;
use crate::units::{Count, Seconds};
use std::collections::VecDeque;
use std::time::Duration;

/// Pauses that are remembered of a run. Each is compared with the others once a second.
const MAX_PAUSES: usize = 64;
/// Pauses are alike when the longer one is at most this many times as long.
const ALIKE: f64 = 2.0;

/// A pause: from the report before it to the one behind it, and the steps between them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pause {
    from: Duration,
    to: Duration,
    steps: u64,
    /// Steps since the run began, up to its end.
    position: u64,
}

impl Pause {
    fn length(&self) -> f64 {
        self.to.saturating_sub(self.from).as_secs_f64()
    }

    /// What it took beyond the time that its steps should have taken.
    fn lost(&self, base: f64) -> f64 {
        self.length() - span(base, self.steps).unwrap_or_default().as_secs_f64()
    }

    fn alike(&self, other: &Self) -> bool {
        let (a, b) = (self.length(), other.length());
        a.max(b) <= a.min(b) * ALIKE
    }
}

/// The long pauses of a run, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses(VecDeque<Pause>);

/// From which length on a pause is a stall, in a run of this pace.
pub(super) fn limit(base: f64, t: &Thresholds) -> f64 {
    t.run_stall_for.0.max(base * Count(t.run_stall_steps.0).as_f64())
}

impl Pauses {
    /// Notes a pause, unless it is much too short to be a stall. One that is forgotten for it and was a stall
    /// is handed back.
    pub(super) fn note(
        &mut self,
        (from, to): (Duration, Duration),
        (steps, position): (u64, u64),
        base: Option<f64>,
        t: &Thresholds,
    ) -> Option<Stretch> {
        let pause = Pause { from, to, steps, position };
        // Shorter ones are no stalls and not alike to any.
        if pause.length() < t.run_stall_for.0 / ALIKE {
            return None;
        }
        let full = self.0.len() == MAX_PAUSES;
        let oldest = self.0.front().copied().filter(|_| full);
        let stall = oldest.and_then(|oldest| self.stall(&oldest, base?, t));
        if full {
            self.0.pop_front();
        }
        self.0.push_back(pause);
        stall
    }

    /// Those that are stalls, in a run of this pace.
    pub(super) fn stalls(&self, base: f64, t: &Thresholds) -> Vec<Stretch> {
        self.0.iter().filter_map(|pause| self.stall(pause, base, t)).collect()
    }

    /// The longest pause that comes at equal distances.
    pub(super) fn usual(&self) -> Option<Duration> {
        let usual = self.0.iter().filter(|pause| self.regular(pause));
        usual.map(|pause| pause.to.saturating_sub(pause.from)).max()
    }

    fn stall(&self, pause: &Pause, base: f64, t: &Thresholds) -> Option<Stretch> {
        let lost = pause.lost(base);
        if lost < limit(base, t) || self.regular(pause) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
        let steps = pause.steps.max(1) as f64;
        Some(Stretch {
            kind: StretchKind::Stall,
            from: pause.from,
            to: pause.to,
            ratio: pause.length() / steps / base,
            steps: pause.steps,
            lost: Seconds(lost),
        })
    }

    /// Whether it is one of at least three like it at equal distances.
    fn regular(&self, pause: &Pause) -> bool {
        let others: Vec<i128> = self
            .0
            .iter()
            .filter(|other| *other != pause && other.alike(pause))
            .map(|other| i128::from(other.position) - i128::from(pause.position))
            .collect();
        let slack = i128::from(pause.steps) * 2;
        let there = |at: i128| others.iter().any(|other| (other - at).abs() <= slack);
        others.iter().filter(|by| by.abs() > slack).any(|by| there(-by) || there(by * 2))
    }
}
