//! The order of steps: which of several reports counts, and where a run begins anew.

use super::weave::Weave;
use crate::model::training::{LogRemark, Step};
use std::time::Duration;

/// Resumptions that are told, and ranks that are told apart, at most.
const MOST_RESUMED: usize = 16;
const MOST_RANKS: u32 = 1024;
/// How far a run's own clock may fall back between lines of several processes.
const SLACK: Duration = Duration::from_secs(5);

/// What the steps so far say of the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    last: Option<Step>,
    /// Steps of the bars before this one, where every epoch has a bar of its own.
    base: u64,
    lowest: Option<u32>,
    ranks: Vec<u64>,
    resumed: Vec<u64>,
    seen: Seen,
    weave: Weave,
}

/// What any of the steps had.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    any: bool,
    wall: bool,
    seconds: bool,
    smoothed: bool,
    zone_assumed: bool,
    year_assumed: bool,
}

impl Course {
    /// Of a log in which two runs are known to write from a line on.
    pub(super) fn woven(from: u64) -> Self {
        Self { weave: Weave::known(from), ..Self::default() }
    }

    /// From which line on two runs write.
    pub(super) const fn weaves(&self) -> Option<u64> {
        self.weave.from()
    }

    /// The lowest rank that reports.
    pub(super) fn lowest(&self) -> Option<u32> {
        self.lowest
    }

    /// What came before was no run.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Whether any step was told.
    pub(super) fn begun(&self) -> bool {
        self.seen.any
    }

    /// Whether a number is the first one.
    pub(super) fn fresh(&self) -> bool {
        self.last.is_none()
    }

    pub(super) fn resumed(&mut self, line: u64) {
        if self.resumed.len() < MOST_RESUMED && self.resumed.last() != Some(&line) {
            self.resumed.push(line);
        }
    }

    /// The stamps of a step left something out.
    pub(super) fn assumed(&mut self, zone: bool, year: bool) {
        self.seen.zone_assumed |= zone;
        self.seen.year_assumed |= year;
    }

    /// The step, if it is one more. `epochs`: bars that begin again when they are done go on.
    pub(super) fn take(&mut self, mut step: Step, epochs: bool) -> Option<Step> {
        if !self.rank(step.rank) || !self.follows(&step, epochs) {
            return None;
        }
        self.last = Some(step);
        self.note(&step);
        if self.base > 0 {
            step.number = step.number.and_then(|number| number.checked_add(self.base));
            step.of = None;
        }
        Some(step)
    }

    pub(super) fn note(&mut self, step: &Step) {
        self.seen.any = true;
        self.seen.wall |= step.wall.is_some();
        self.seen.seconds |= step.seconds.is_some();
        self.seen.smoothed |= step.smoothed.is_some();
    }

    /// Whether a process's steps count: the lowest rank's, and those that nobody signed.
    fn rank(&mut self, rank: Option<u32>) -> bool {
        let Some(rank) = rank.map(|rank| rank.min(MOST_RANKS - 1)) else { return true };
        let (word, bit) = (rank as usize / 64, rank % 64);
        if self.ranks.len() <= word {
            self.ranks.resize(word + 1, 0);
        }
        self.ranks[word] |= 1 << bit;
        if self.lowest.is_some_and(|lowest| rank < lowest) {
            self.forget();
        }
        let lowest = self.lowest.map_or(rank, |lowest| lowest.min(rank));
        self.lowest = Some(lowest);
        rank == lowest
    }

    fn follows(&mut self, step: &Step, epochs: bool) -> bool {
        let Some(last) = self.last else { return true };
        let (Some(number), Some(before)) = (step.number, last.number) else { return true };
        if number != before && !(epochs && last.of == Some(before)) {
            let first = self.weave.first(step.line, number, Some(before));
            if !first {
                return false;
            }
        }
        if number == before {
            // A bar drawn again, or another process that says the same, unless it tells more.
            return (step.seconds.is_some() && last.seconds.is_none())
                || (step.wall.is_some() && last.wall.is_none());
        }
        if number > before {
            let fell = |now: Duration, then: Duration| now + SLACK < then;
            if step.elapsed.zip(last.elapsed).is_some_and(|(now, then)| fell(now, then)) {
                self.resumed(step.line);
            }
            return true;
        }
        if epochs && last.of == Some(before) {
            self.base = self.base.saturating_add(before);
        } else if before - number <= 2 && number > 1 {
            // Lines of several processes overtake each other.
            return false;
        } else {
            self.resumed(step.line);
        }
        true
    }

    pub(super) fn remarks(&self, left_out: u64) -> Vec<LogRemark> {
        let Seen { any, wall, seconds, smoothed, zone_assumed, year_assumed } = self.seen;
        let ranks = self.ranks.iter().map(|word| word.count_ones()).sum::<u32>();
        let told = [
            (any && !wall, LogRemark::NoTimeStamps),
            (zone_assumed, LogRemark::ZoneAssumed),
            (year_assumed, LogRemark::YearAssumed),
            (ranks > 1, LogRemark::Ranks(ranks)),
            (smoothed && !seconds && !wall, LogRemark::SmoothedOnly),
            (left_out > 0, LogRemark::LeftOut(left_out)),
        ];
        let woven = self.weave.from();
        // What looks like a run that begins anew is the other one.
        let resumed = self.resumed.iter().filter(|line| woven.is_none_or(|from| **line < from));
        let resumed = resumed.map(|line| LogRemark::Resumed(*line));
        let told = told.into_iter().filter(|(so, _)| *so).map(|(_, remark)| remark);
        told.chain(woven.map(LogRemark::Interleaved)).chain(resumed).collect()
    }
}
