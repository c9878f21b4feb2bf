//! A run's pace: how long a step takes, against the run's own first steady minutes, and where it was slow.
//!
//! Step time is the first sign that something holds a box back, and some slow states show nowhere else. The
//! only measure of what a step should take is the run itself, so the pace is learned from its own steady
//! beginning, and nothing is said before. Single long steps (a checkpoint, an evaluation) are no slow run:
//! the pause in them is taken out, and is told only if it is a stall.

mod clockwork;
mod pauses;

use super::slope::median;
use crate::model::reading::{Missing, Reading};
use crate::model::training::{Faster, Pace, ShortSpells, Step, Stretch, StretchKind};
use crate::thresholds::Thresholds;
use crate::units::Seconds;
use clockwork::{Between, Clockwork, Interval, TOGETHER, span};
use pauses::Pauses;
use std::collections::VecDeque;
use std::time::Duration;

/// A median of fewer steps can be moved by two of them.
const SMOOTH_STEPS: u64 = 5;
/// More reports than this are not kept, whatever the windows.
const MAX_KEPT: usize = 8_000;
/// Stretches remembered of a run that goes on; those before them are counted.
const MAX_STRETCHES: usize = 256;
/// A number this small after a larger one is another run's.
const BEGINS: u64 = 2;

/// A stretch that goes on: up to its last slow step, and what came after that, which may be the end of it.
#[derive(Clone, Debug)]
struct Open {
    from: Duration,
    sure: Sums,
    tail: Sums,
}

/// Intervals, summed up.
#[derive(Clone, Debug, Default)]
struct Sums {
    to: Duration,
    steps: u64,
    lost: f64,
    all: Vec<f64>,
}

impl Sums {
    fn take(&mut self, other: &mut Self) {
        self.to = self.to.max(other.to);
        self.steps = self.steps.saturating_add(other.steps);
        self.lost += other.lost;
        self.all.append(&mut other.all);
        // Of a stretch of days the last hours tell the ratio.
        let old = self.all.len().saturating_sub(MAX_KEPT);
        self.all.drain(..old);
        *other = Self::default();
    }
}

/// A run as it goes on.
#[derive(Clone, Debug, Default)]
pub struct State {
    clockwork: Clockwork,
    began: Option<Duration>,
    kept: VecDeque<Interval>,
    baseline: Option<f64>,
    steady: Option<(Duration, Duration)>,
    open: Option<Open>,
    stretches: Vec<Stretch>,
    /// Stretches that are over, and the time lost in them.
    over: (u64, f64),
    /// Short steps that are being taken together.
    together: Option<Interval>,
    number: Option<u64>,
    /// When the present run began; the log may hold several.
    run_began: Option<Duration>,
    /// A long step whose successor tells whether there was a pause in it or the run has become slow.
    held: Option<Interval>,
    newest: Option<(Duration, Seconds)>,
    pauses: Pauses,
    /// Steps since the run began.
    position: u64,
    short: ShortSpells,
    /// Since when it has been faster than its own steady minutes, and the best that has lasted.
    fast_since: Option<Duration>,
    faster: Option<Faster>,
}

impl State {
    /// Takes a report in.
    pub fn take(&mut self, step: &Step, t: &Thresholds) {
        if let (Some(then), Some(now)) = (self.number, step.number)
            && now <= BEGINS
            && then > BEGINS * 4
        {
            self.begin_anew(t);
        }
        self.number = step.number.or(self.number);
        let Some(Between { interval, idle_from }) = self.clockwork.between(step) else { return };
        self.position = self.position.saturating_add(interval.steps);
        if let Some(from) = idle_from {
            self.pause((from, interval.to), interval.steps, t);
        }
        let whole = match self.together.take() {
            Some(before)
                if before.to <= interval.from + TOGETHER
                    && (interval.short() || !pauses(&interval, before.seconds, t)) =>
            {
                before.with(interval)
            }
            Some(before) => {
                self.sift(before, t);
                interval
            }
            None => interval,
        };
        if whole.short() {
            self.together = Some(whole);
        } else {
            self.sift(whole, t);
        }
    }

    /// The log ends here: nothing more tells what its last long step and its last slow steps were.
    pub fn end(&mut self, t: &Thresholds) {
        self.release(t);
        if let Some(spell) = self.open.as_ref().map(|open| self.told(open)) {
            add_short(&mut self.short, &spell, t);
        }
    }

    /// A long step that has no successor had a pause in it.
    fn release(&mut self, t: &Thresholds) {
        let pace = self.smooth(t);
        if let (Some(held), Some(pace)) = (self.held.take(), pace) {
            self.without_pause(held, pace, t);
        }
    }

    /// A step that is much longer than those before it has a pause in it, unless the next one is as long.
    fn sift(&mut self, whole: Interval, t: &Thresholds) {
        self.newest = Some((whole.to, Seconds(whole.seconds)));
        let pace = self.smooth(t);
        if let (Some(held), Some(pace)) = (self.held.take(), pace) {
            if pauses(&whole, pace, t) && !pauses(&held, whole.seconds, t) {
                self.add(held, t);
                return self.add(whole, t);
            }
            self.without_pause(held, pace, t);
        }
        if pace.is_some_and(|pace| pauses(&whole, pace, t)) {
            self.held = Some(whole);
        } else {
            self.add(whole, t);
        }
    }

    /// Its steps took what steps take; the rest is the pause.
    fn without_pause(&mut self, held: Interval, pace: f64, t: &Thresholds) {
        if held.counted {
            self.pause((held.from, held.to), held.steps, t);
        }
        let Some(length) = span(pace, held.steps) else { return };
        self.add(Interval { from: held.to.saturating_sub(length), seconds: pace, ..held }, t);
    }

    fn pause(&mut self, within: (Duration, Duration), steps: u64, t: &Thresholds) {
        let stall = self.pauses.note(within, (steps, self.position), self.baseline, t);
        self.keep(stall);
    }

    /// Remembers stretches that are over.
    fn keep(&mut self, stretches: impl IntoIterator<Item = Stretch>) {
        for stretch in stretches {
            self.over = (self.over.0 + 1, self.over.1 + stretch.lost.0);
            if self.stretches.len() == MAX_STRETCHES {
                self.stretches.remove(0);
            }
            self.stretches.push(stretch);
        }
    }

    /// Another run in the same log has a pace of its own.
    fn begin_anew(&mut self, t: &Thresholds) {
        self.release(t);
        self.close(t);
        let stalls = self.stalls(t);
        self.keep(stalls);
        (self.baseline, self.steady, self.run_began, self.together) = (None, None, None, None);
        (self.held, self.fast_since, self.position) = (None, None, 0);
        self.pauses = Pauses::default();
        self.kept.clear();
    }

    /// Stalls of the present run.
    fn stalls(&self, t: &Thresholds) -> Vec<Stretch> {
        self.baseline.map(|base| self.pauses.stalls(base, t)).unwrap_or_default()
    }

    /// How long it may be silent before it is called stalled: longer than any pause that it is known to make.
    #[must_use]
    pub fn patience(&self, t: &Thresholds) -> Option<Duration> {
        let base = self.baseline?;
        let limit = Duration::try_from_secs_f64(base + pauses::limit(base, t)).ok()?;
        let usual = self.pauses.usual().unwrap_or_default();
        Some(limit.max(usual + usual / 2))
    }

    /// Spells that were too short to be told one by one.
    #[must_use]
    pub fn short_spells(&self, t: &Thresholds) -> ShortSpells {
        let judged = self
            .steady
            .zip(self.kept.back())
            .map_or(Duration::ZERO, |((_, from), last)| last.to.saturating_sub(from));
        let share = judged.as_secs_f64() * t.run_short_share.0;
        let many = self.short.count > 0 && self.short.together.0 >= share;
        ShortSpells { many, ..self.short }
    }

    /// Whether it was faster later, for as long as a slow stretch must last.
    #[must_use]
    pub const fn faster(&self) -> Option<Faster> {
        self.faster
    }

    fn add(&mut self, interval: Interval, t: &Thresholds) {
        self.began.get_or_insert(interval.from);
        let began = *self.run_began.get_or_insert(interval.from);
        self.kept.push_back(interval);
        if self.baseline.is_none() {
            self.learn(began, t);
        }
        let longest = Duration::from_secs_f64(t.run_baseline.0 + t.run_smooth.0);
        let old = |i: &Interval| interval.to.saturating_sub(i.to) > longest;
        let few = usize::try_from(t.run_baseline_steps.0).unwrap_or(MAX_KEPT);
        while self.kept.len() > MAX_KEPT
            || (self.kept.len() > few && self.kept.front().is_some_and(old))
        {
            self.kept.pop_front();
        }
        self.judge(interval, t);
    }

    /// How the run goes.
    #[must_use]
    pub fn pace(&self, t: &Thresholds) -> Pace {
        Pace {
            step: self.smooth(t).map(Seconds).ok_or(Missing::Pending),
            baseline: self.baseline.map(Seconds).ok_or(Missing::Pending),
            slow: self.slow(t),
        }
    }

    /// When it began and how far it has come, by the log's clock.
    #[must_use]
    pub fn span(&self) -> Option<(Duration, Duration)> {
        Some((self.began?, self.kept.back()?.to))
    }

    /// The steady minutes that its pace is of.
    #[must_use]
    pub const fn steady(&self) -> Option<(Duration, Duration)> {
        self.steady
    }

    /// The newest step time: when, and how long.
    #[must_use]
    pub const fn newest(&self) -> Option<(Duration, Seconds)> {
        self.newest
    }

    /// The stretches that are over, and the one that goes on if it has lasted; oldest first.
    #[must_use]
    pub fn stretches(&self, t: &Thresholds) -> Vec<Stretch> {
        let present = self.stalls(t).into_iter().chain(self.ongoing(t));
        let mut all: Vec<Stretch> = self.stretches.iter().copied().chain(present).collect();
        all.sort_by_key(|stretch| stretch.from);
        all
    }

    /// The stretch that goes on, if it has lasted.
    #[must_use]
    pub fn ongoing(&self, t: &Thresholds) -> Option<Stretch> {
        self.open.as_ref().map(|open| self.told(open)).filter(|stretch| lasts(stretch, t))
    }

    /// Whether it is slow now, for long enough to be told.
    fn slow(&self, t: &Thresholds) -> Reading<bool> {
        self.baseline.ok_or(Missing::Pending)?;
        Ok(self.ongoing(t).is_some())
    }

    /// Stretches and the time lost in them, so far.
    #[must_use]
    pub fn total(&self, t: &Thresholds) -> (u64, f64) {
        let (mut count, mut lost) = self.over;
        for stretch in self.stalls(t).into_iter().chain(self.ongoing(t)) {
            (count, lost) = (count + 1, lost + stretch.lost.0);
        }
        (count, lost)
    }

    /// The pace is the median of the first time in which the run was steady: as long as it should be, and
    /// longer where that holds too few steps.
    fn learn(&mut self, began: Duration, t: &Thresholds) {
        let Some(newest) = self.kept.back().copied() else { return };
        let warm = began + Duration::from_secs_f64(t.run_warm_up.0);
        let window = Duration::from_secs_f64(t.run_baseline.0);
        let pause = Duration::from_secs_f64(t.run_stall_for.0);
        let (mut seen, mut steps) = (Vec::<Interval>::new(), 0_u64);
        for one in self.kept.iter().rev() {
            // What lies before a stall is of other minutes.
            let apart = seen.last().is_some_and(|next| next.from.saturating_sub(one.to) >= pause);
            if one.from < warm || apart {
                break;
            }
            steps += one.figures;
            seen.push(*one);
            let long = newest.to.saturating_sub(one.from) >= window;
            if long && steps >= t.run_baseline_steps.0 {
                break;
            }
        }
        let Some(first) = seen.last() else { return };
        let whole = newest.to.saturating_sub(first.from) >= window;
        if !whole || steps < t.run_baseline_steps.0 || seen.len() < 2 {
            return;
        }
        let (late, early) = seen.split_at(seen.len() / 2);
        let of =
            |part: &[Interval]| median(&mut part.iter().map(|i| i.seconds).collect::<Vec<_>>());
        let (Some(early), Some(late), Some(whole)) = (of(early), of(late), of(&seen)) else {
            return;
        };
        if (early - late).abs() <= whole * t.run_steady.0 {
            self.baseline = Some(whole);
            self.steady = Some((first.from, newest.to));
        }
    }

    /// The median step of the last while.
    fn smooth(&self, t: &Thresholds) -> Option<f64> {
        let newest = self.kept.back()?.to;
        let window = Duration::from_secs_f64(t.run_smooth.0);
        let (mut all, mut steps) = (Vec::new(), 0_u64);
        for one in self.kept.iter().rev() {
            if steps >= SMOOTH_STEPS && newest.saturating_sub(one.to) > window {
                break;
            }
            steps += one.figures;
            all.push(one.seconds);
        }
        if steps < SMOOTH_STEPS { None } else { median(&mut all) }
    }

    fn judge(&mut self, newest: Interval, t: &Thresholds) {
        let (Some(base), Some(pace)) = (self.baseline, self.smooth(t)) else { return };
        let slow = |seconds: f64| seconds >= base * (1.0 + t.run_slow_from.0);
        let back = base * (1.0 + t.run_slow_from.0 - t.run_slow_hysteresis.0);
        self.judge_fast(newest, base / pace, t);
        if let Some(open) = &mut self.open {
            open.add(newest, base, back);
            if pace < back {
                self.close(t);
            }
        } else if slow(pace) {
            // It began with the first of the slow ones.
            let trail: Vec<Interval> =
                self.kept.iter().rev().take_while(|i| slow(i.seconds)).copied().collect();
            let mut open = Open::new(trail.last().copied().unwrap_or(newest));
            for interval in trail.iter().rev() {
                open.add(*interval, base, back);
            }
            self.open = Some(open);
        }
    }

    fn judge_fast(&mut self, newest: Interval, ratio: f64, t: &Thresholds) {
        if ratio < 1.0 + t.run_slow_from.0 {
            self.fast_since = None;
            return;
        }
        let from = *self.fast_since.get_or_insert(newest.from);
        let lasted = newest.to.saturating_sub(from).as_secs_f64() >= t.run_slow_for.0;
        if lasted && self.faster.is_none_or(|best| best.ratio < ratio) {
            let from = self.faster.map_or(from, |best| best.from);
            self.faster = Some(Faster { from, ratio });
        }
    }

    /// Ends the stretch with its last slow step.
    fn close(&mut self, t: &Thresholds) {
        let Some(open) = self.open.take() else { return };
        let stretch = self.told(&open);
        add_short(&mut self.short, &stretch, t);
        self.keep(Some(stretch).filter(|stretch| lasts(stretch, t)));
    }

    fn told(&self, open: &Open) -> Stretch {
        let pace = median(&mut open.sure.all.clone()).unwrap_or(0.0);
        Stretch {
            kind: StretchKind::Slow,
            from: open.from,
            to: open.sure.to,
            ratio: pace / self.baseline.unwrap_or(f64::INFINITY),
            steps: open.sure.steps,
            lost: Seconds(open.sure.lost.max(0.0)),
        }
    }
}

/// One more short spell, if it is one.
fn add_short(spells: &mut ShortSpells, stretch: &Stretch, t: &Thresholds) {
    if !lasts(stretch, t) {
        spells.count += 1;
        spells.together.0 += stretch.to.saturating_sub(stretch.from).as_secs_f64();
        spells.lost.0 += stretch.lost.0;
    }
}

/// Whether a step is so much longer than the pace that there is a pause in it.
fn pauses(interval: &Interval, pace: f64, t: &Thresholds) -> bool {
    interval.seconds > pace * t.run_pause_from.0
}

fn lasts(stretch: &Stretch, t: &Thresholds) -> bool {
    stretch.to.saturating_sub(stretch.from).as_secs_f64() >= t.run_slow_for.0
}

impl Open {
    fn new(first: Interval) -> Self {
        let sure = Sums { to: first.from, ..Sums::default() };
        Self { from: first.from, sure, tail: Sums::default() }
    }

    fn add(&mut self, interval: Interval, base: f64, back: f64) {
        self.tail.to = interval.to;
        self.tail.steps = self.tail.steps.saturating_add(interval.steps);
        self.tail.lost += over(interval, base);
        self.tail.all.push(interval.seconds);
        if interval.seconds >= back {
            self.sure.take(&mut self.tail);
        }
    }
}

/// Time that the steps took beyond their pace.
#[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
fn over(interval: Interval, base: f64) -> f64 {
    (interval.seconds - base) * interval.steps as f64
}

#[cfg(test)]
mod tests;
