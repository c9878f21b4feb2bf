//! Extremes over rolling windows, in constant memory a sample and constant time on average.

use std::collections::VecDeque;
use std::time::Duration;

/// Which end of the values a window keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// The extreme of the samples not older than the window.
///
/// Holds only samples that can still become the extreme, oldest first, each better than all after
/// it; so it never holds more than one sample a tick of the window.
#[derive(Clone, Debug)]
pub struct Extreme<T = u64> {
    keep: Keep,
    length: Duration,
    candidates: VecDeque<(Duration, T)>,
}

impl<T: Copy + PartialOrd> Extreme<T> {
    /// An empty window.
    #[must_use]
    pub const fn new(keep: Keep, length: Duration) -> Self {
        Self { keep, length, candidates: VecDeque::new() }
    }

    /// Changes the length from now on. A longer window fills up only with what comes.
    pub const fn resize(&mut self, length: Duration) {
        self.length = length;
    }

    /// Adds a sample taken at `at`.
    pub fn push(&mut self, at: Duration, value: T) {
        let beaten = |old: T| match self.keep {
            Keep::Min => old >= value,
            Keep::Max => old <= value,
        };
        while self.candidates.back().is_some_and(|&(_, old)| beaten(old)) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((at, value));
        self.forget(at);
    }

    /// Drops samples that are older than the window at `now`.
    pub fn forget(&mut self, now: Duration) {
        while self.candidates.front().is_some_and(|&(at, _)| now.saturating_sub(at) > self.length) {
            self.candidates.pop_front();
        }
    }

    /// The extreme, if there is a sample in the window.
    #[must_use]
    pub fn get(&self) -> Option<T> {
        self.candidates.front().map(|&(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the plain definition.
        #[test]
        fn it_is_the_extreme_of_the_samples_in_the_window(
            values in proptest::collection::vec(0_u64..50, 1..200),
            length in 1_u64..30,
            max in any::<bool>(),
        ) {
            let keep = if max { Keep::Max } else { Keep::Min };
            let mut window = Extreme::new(keep, Duration::from_secs(length));
            for (i, value) in values.iter().enumerate() {
                window.push(Duration::from_secs(i as u64), *value);
                let from = i.saturating_sub(usize::try_from(length).unwrap());
                let in_window = values[from..=i].iter().copied();
                let want = if max { in_window.max() } else { in_window.min() };
                prop_assert_eq!(window.get(), want);
                prop_assert!(window.candidates.len() as u64 <= length + 1);
            }
        }
    }

    #[test]
    fn a_window_without_recent_samples_is_empty() {
        let mut window = Extreme::new(Keep::Min, Duration::from_secs(60));
        assert_eq!(window.get(), None);
        window.push(Duration::from_secs(1), 7);
        window.forget(Duration::from_secs(61));
        assert_eq!(window.get(), Some(7), "exactly as old as the window");
        window.forget(Duration::from_secs(62));
        assert_eq!(window.get(), None);
    }
}
