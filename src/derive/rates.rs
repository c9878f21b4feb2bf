//! Rates of the kernel's counters over a window.

use crate::model::reading::{Missing, Reading};
use crate::units::Count;
use std::collections::VecDeque;
use std::time::Duration;

/// A counter's samples of the last while, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    kept: VecDeque<(Duration, f64)>,
    missing: Option<Missing>,
}

impl Rate {
    /// Takes in what the counter reads now. One that has fallen counts anew: the machine was rebooted, or it is
    /// another machine's.
    pub(super) fn push(&mut self, at: Duration, value: Reading<f64>, window: Duration) {
        let value = match value {
            Ok(value) => value,
            Err(reason) => {
                self.kept.clear();
                self.missing = Some(reason);
                return;
            }
        };
        self.missing = None;
        if self.kept.back().is_some_and(|(_, last)| value < *last) {
            self.kept.clear();
        }
        if self.kept.back().is_none_or(|(last, _)| at > *last) {
            self.kept.push_back((at, value));
        }
        // One sample from before the window stays: what lies between it and the next is in part of the window.
        while self.kept.get(1).is_some_and(|(then, _)| at.saturating_sub(*then) >= window) {
            self.kept.pop_front();
        }
    }

    /// The mean of the window a second. A window that is not full yet is taken as if the rest of it had been
    /// quiet: a burst is not extrapolated.
    pub(super) fn get(&self, window: Duration) -> Reading<f64> {
        if let Some(reason) = self.missing {
            return Err(reason);
        }
        match (self.kept.front(), self.kept.back()) {
            (Some((from, first)), Some((to, last))) if to > from => {
                let passed = to.saturating_sub(*from).max(window).as_secs_f64();
                Ok((last - first) / passed)
            }
            _ => Err(Missing::Pending),
        }
    }
}

/// A count as a number.
pub(super) fn number(reading: Reading<Count>) -> Reading<f64> {
    reading.map(Count::as_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_rate_is_the_mean_of_the_window() {
        let mut rate = Rate::default();
        rate.push(at(0), Ok(0.0), WINDOW);
        assert_eq!(rate.get(WINDOW), Err(Missing::Pending));
        for second in 1..=300_u32 {
            rate.push(at(second.into()), Ok(f64::from(second) * 100.0), WINDOW);
        }
        assert!((rate.get(WINDOW).unwrap() - 100.0).abs() < 1.0);
        assert!(rate.kept.len() < 35, "bounded");
        for second in 301..=340 {
            rate.push(at(second), Ok(30_000.0), WINDOW);
        }
        assert!(rate.get(WINDOW).unwrap() < 1e-9, "nothing for a window");
    }

    #[test]
    fn a_burst_at_the_start_is_not_extrapolated() {
        let mut rate = Rate::default();
        rate.push(at(0), Ok(0.0), WINDOW);
        rate.push(at(1), Ok(300.0), WINDOW);
        assert!((rate.get(WINDOW).unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_missing_or_falls_begins_anew() {
        let mut rate = Rate::default();
        for second in 0..40_u32 {
            rate.push(at(second.into()), Ok(f64::from(second) * 100.0), WINDOW);
        }
        rate.push(at(40), Err(Missing::Denied), WINDOW);
        assert_eq!(rate.get(WINDOW), Err(Missing::Denied));
        rate.push(at(41), Ok(5.0), WINDOW);
        rate.push(at(42), Ok(3.0), WINDOW);
        assert_eq!(rate.get(WINDOW), Err(Missing::Pending));
    }
}
