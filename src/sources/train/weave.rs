//! Two runs that write into one file and sign nothing: their step numbers alternate between two sequences.

/// A sequence goes on within so many steps: loggers report every step, every ten, every fifty.
const NEAR: u64 = 100;
/// Numbers that fall by less are lines out of order.
const SLACK: u64 = 2;
/// So often a number must fall back to where the lower sequence was left. A run that is resumed again and
/// again falls back to a checkpoint, never to the number behind the one that it left by a leap.
const TURNS: u32 = 3;

/// What the numbers so far say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weave {
    /// Where the upper sequence was left by a fall, and the lower one by a leap back to the upper.
    upper: Option<u64>,
    lower: Option<u64>,
    turns: u32,
    /// The line of the first fall.
    began: Option<u64>,
    /// It is known: from which line on.
    from: Option<u64>,
    /// From there on, the last numbers of the first run and of the other.
    first: Option<u64>,
    other: Option<u64>,
}

/// Whether a number goes on where a sequence was left.
fn goes_on(number: u64, left: Option<u64>) -> bool {
    left.is_some_and(|left| left < number && number - left <= NEAR)
}

impl Weave {
    /// With what the end of a log says of its beginning.
    pub(super) fn known(from: u64) -> Self {
        Self { from: Some(from), ..Self::default() }
    }

    /// From which line on two runs write.
    pub(super) const fn from(&self) -> Option<u64> {
        self.from
    }

    /// Whether a step is of the first run, by its number and the one that counted before it.
    pub(super) fn first(&mut self, line: u64, number: u64, before: Option<u64>) -> bool {
        if self.from.is_some_and(|from| line >= from) {
            return self.split(number, before);
        }
        let Some(before) = before else { return true };
        if number + SLACK < before {
            if goes_on(number, self.lower) {
                self.turns += 1;
            } else {
                (self.turns, self.began) = (0, Some(line));
            }
            (self.upper, self.lower) = (Some(before), None);
        } else if number > before && goes_on(number, self.upper) {
            (self.lower, self.upper) = (Some(before), None);
        }
        if self.turns < TURNS {
            return true;
        }
        self.from = self.began;
        (self.first, self.other) = (self.upper, Some(number));
        false
    }

    fn split(&mut self, number: u64, before: Option<u64>) -> bool {
        let Some(first) = self.first.or(before) else {
            self.first = Some(number);
            return true;
        };
        let mine = match self.other {
            None => number + SLACK >= first,
            Some(other) => number.abs_diff(first) < number.abs_diff(other),
        };
        self.first = Some(if mine { number } else { first });
        if !mine {
            self.other = Some(number);
        }
        mine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(numbers: &[u64]) -> (Option<u64>, Vec<u64>) {
        let (mut weave, mut last) = (Weave::default(), None);
        let mut kept = Vec::new();
        for (line, number) in (1..).zip(numbers) {
            if weave.first(line, *number, last) {
                last = Some(*number);
                kept.push(*number);
            }
        }
        (weave.from(), kept)
    }

    #[test]
    fn two_sequences_are_told_apart() {
        let numbers = [997, 998, 1000, 10, 1001, 11, 1002, 1003, 12, 1004, 13, 14, 1005, 15, 1006];
        let (from, kept) = counted(&numbers);
        assert_eq!(from, Some(4));
        assert_eq!(&kept[kept.len() - 2..], [1005, 1006]);
        let mut weave = Weave::known(4);
        let mut last = None;
        let first: Vec<u64> = (1..)
            .zip(numbers)
            .filter(|(line, number)| {
                let first = weave.first(*line, *number, last);
                last = if first { Some(*number) } else { last };
                first
            })
            .map(|(_, number)| number)
            .collect();
        assert_eq!(first, [997, 998, 1000, 1001, 1002, 1003, 1004, 1005, 1006]);
    }

    /// Resumed again and again from one checkpoint, and lines of several processes out of order.
    #[test]
    fn one_run_is_not_taken_for_two() {
        let crash: Vec<u64> = (0..6).flat_map(|n| (50..=100 + n).map(|step| step * 10)).collect();
        assert_eq!(counted(&crash), (None, crash.clone()));
        let mixed: Vec<u64> = (10..50).flat_map(|n| [n, n - 2, n - 1]).collect();
        assert_eq!(counted(&mixed).0, None);
    }
}
