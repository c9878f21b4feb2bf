//! A slope that one odd sample cannot turn: the median of the slopes between all pairs of samples
//! (Theil and Sen).

use crate::units::BytesPerSecond;
use std::collections::VecDeque;
use std::time::Duration;

/// Fewer samples than this give no slope.
const MIN_SAMPLES: usize = 3;

/// The samples of the last while, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    kept: VecDeque<(Duration, u64)>,
}

impl Samples {
    /// Adds a sample and drops what is older than `length`.
    pub fn push(&mut self, at: Duration, value: u64, length: Duration) {
        self.kept.push_back((at, value));
        while self.kept.front().is_some_and(|&(old, _)| at.saturating_sub(old) > length) {
            self.kept.pop_front();
        }
    }

    /// The robust slope of the samples of the last `length`, if there are enough.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "differences of byte counts, far below 2^53")]
    pub fn slope(&self, length: Duration) -> Option<BytesPerSecond> {
        let &(newest, _) = self.kept.back()?;
        let recent: Vec<_> =
            self.kept.iter().filter(|&&(at, _)| newest.saturating_sub(at) <= length).collect();
        if recent.len() < MIN_SAMPLES {
            return None;
        }
        let mut slopes = Vec::with_capacity(recent.len() * (recent.len() - 1) / 2);
        for (i, &&(t0, v0)) in recent.iter().enumerate() {
            for &&(t1, v1) in &recent[i + 1..] {
                let seconds = t1.saturating_sub(t0).as_secs_f64();
                if seconds > 0.0 {
                    slopes.push((v1 as f64 - v0 as f64) / seconds);
                }
            }
        }
        median(&mut slopes).map(BytesPerSecond)
    }
}

pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| even);
    Some(lower.map_or(upper, |lower| f64::midpoint(lower, upper)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[u64]) -> Samples {
        let mut out = Samples::default();
        for (i, value) in values.iter().enumerate() {
            out.push(Duration::from_secs(i as u64), *value, Duration::from_secs(30));
        }
        out
    }

    #[test]
    fn a_straight_fall_has_its_slope_and_one_spike_does_not_change_it() {
        let straight = samples(&[1000, 900, 800, 700, 600, 500]);
        assert_eq!(straight.slope(Duration::from_secs(5)), Some(BytesPerSecond(-100.0)));
        let spiked = samples(&[1000, 900, 5000, 700, 600, 500]);
        assert_eq!(spiked.slope(Duration::from_secs(5)), Some(BytesPerSecond(-100.0)));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), Some(5.0));
    }

    #[test]
    fn two_samples_are_no_slope() {
        assert_eq!(samples(&[]).slope(Duration::from_secs(5)), None);
        assert_eq!(samples(&[5, 4]).slope(Duration::from_secs(5)), None);
        assert_eq!(samples(&[9, 9, 9]).slope(Duration::from_secs(5)), Some(BytesPerSecond(0.0)));
    }

    #[test]
    fn old_samples_are_dropped() {
        let mut s = samples(&[1; 40]);
        assert_eq!(s.kept.len(), 31);
        s.push(Duration::from_secs(1000), 1, Duration::from_secs(30));
        assert_eq!(s.kept.len(), 1);
    }
}
