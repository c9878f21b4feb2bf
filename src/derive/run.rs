//! A run's pace: how long a step takes, against the run's own first steady minutes, and where it was slow.
//!
//! Step time is the first sign that something holds a box back, and some slow states show nowhere else. The
//! only measure of what a step should take is the run itself, so the pace is learned from its own steady
//! beginning, and nothing is said before. Single long steps (a checkpoint, an evaluation) are no slow run:
//! a median does not see them.

use super::slope::median;
use crate::model::reading::{Missing, Reading};
use crate::model::training::{Pace, Step, Stretch};
use crate::thresholds::Thresholds;
use crate::units::Seconds;
use std::collections::VecDeque;
use std::time::Duration;

/// A median of fewer steps can be moved by two of them.
const SMOOTH_STEPS: u64 = 5;
/// Progress bars tell whole seconds: over this time that is 5 %.
const BAR_RESOLUTION: Duration = Duration::from_secs(20);
/// Shorter steps are taken together: a log may tell ten thousand of them in a second, and a minute of them
/// says no more than sixty figures do.
const TOGETHER: Duration = Duration::from_secs(1);
/// More reports than this are not kept, whatever the windows.
const MAX_KEPT: usize = 8_000;
/// Stretches remembered of a run that goes on; those before them are counted.
const MAX_STRETCHES: usize = 256;
/// A number this small after a larger one is another run's.
const BEGINS: u64 = 2;

/// Steps that went by between two reports.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    from: Duration,
    to: Duration,
    steps: u64,
    /// How long one of them took.
    seconds: f64,
}

impl Interval {
    /// Both as one: a step took what it took on the average.
    #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
    fn with(self, next: Self) -> Self {
        let (a, b) = (self.steps as f64, next.steps as f64);
        Self {
            from: self.from,
            to: next.to.max(self.to),
            steps: self.steps.saturating_add(next.steps),
            seconds: (self.seconds * a + next.seconds * b) / (a + b),
        }
    }
}

/// What turns reports into intervals.
#[derive(Clone, Debug, Default)]
struct Clockwork {
    before: Option<(Duration, Option<u64>)>,
    /// For logs that tell durations and no times.
    sum: Duration,
    /// Progress bars begin at zero again with each epoch, and with each run that is resumed: what had been
    /// reached by then, and the last bar's time.
    base: Duration,
    elapsed: Duration,
}

impl Clockwork {
    /// What lies between this report and the one before it, if it can be told.
    fn interval(&mut self, step: &Step) -> Option<Interval> {
        let told = step.seconds.or_else(|| token_time(step)).map(|Seconds(s)| s);
        let time = step.wall.or_else(|| step.elapsed.map(|elapsed| self.of_bar(elapsed)));
        let Some(at) = time else { return self.by_durations(step, told.or(smoothed(step))?) };
        let before = self.before.replace((at, step.number));
        let (then, number) = before.unwrap_or((at, None));
        let advanced = match (number, step.number) {
            (Some(then), Some(now)) if now > then => Some(now - then),
            // The same bar, drawn again: nothing has happened yet.
            (Some(then), Some(now)) if now == then => {
                self.before = before;
                return None;
            }
            _ => None,
        };
        // A clock that was set back, or another run.
        let passed = at.checked_sub(then).filter(|passed| !passed.is_zero());
        if let Some(seconds) = told {
            let steps = advanced.unwrap_or(1);
            let whole = span(seconds, steps)?;
            return Some(Interval { from: at.saturating_sub(whole), to: at, steps, seconds });
        }
        let (steps, passed) = (advanced?, passed?);
        if step.wall.is_none() && passed < BAR_RESOLUTION {
            self.before = before;
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
        let seconds = passed.as_secs_f64() / steps as f64;
        Some(Interval { from: then, to: at, steps, seconds })
    }

    /// A bar's time as one that goes on.
    fn of_bar(&mut self, elapsed: Duration) -> Duration {
        if elapsed < self.elapsed {
            self.base += self.elapsed;
        }
        self.elapsed = elapsed;
        self.base + elapsed
    }

    fn by_durations(&mut self, step: &Step, seconds: f64) -> Option<Interval> {
        let number = self.before.and_then(|(_, number)| number);
        let steps = match (number, step.number) {
            (Some(then), Some(now)) if now > then => now - then,
            (Some(then), Some(now)) if now == then => return None,
            _ => 1,
        };
        let from = self.sum;
        self.sum = self.sum.saturating_add(span(seconds, steps)?);
        self.before = Some((self.sum, step.number));
        Some(Interval { from, to: self.sum, steps, seconds })
    }
}

/// The time of so many steps; nothing for what cannot be a time.
#[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
fn span(seconds: f64, steps: u64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds * steps as f64).ok().filter(|_| seconds > 0.0)
}

fn smoothed(step: &Step) -> Option<f64> {
    step.smoothed.map(|Seconds(s)| s)
}

/// A server's step is a token.
fn token_time(step: &Step) -> Option<Seconds> {
    let rate = step.tokens_per_second.filter(|rate| *rate > 0.0 && rate.is_finite())?;
    step.number.is_none().then(|| Seconds(1.0 / rate))
}

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
        let Some(interval) = self.clockwork.interval(step) else { return };
        let whole = match self.together.take() {
            Some(before) if before.to <= interval.from + TOGETHER => before.with(interval),
            Some(before) => {
                self.add(before, t);
                interval
            }
            None => interval,
        };
        if whole.to.saturating_sub(whole.from) < TOGETHER {
            self.together = Some(whole);
        } else {
            self.add(whole, t);
        }
    }

    /// Another run in the same log has a pace of its own.
    fn begin_anew(&mut self, t: &Thresholds) {
        self.close(t);
        (self.baseline, self.steady, self.run_began, self.together) = (None, None, None, None);
        self.kept.clear();
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
    pub fn newest(&self) -> Option<(Duration, Seconds)> {
        self.kept.back().map(|i| (i.to, Seconds(i.seconds)))
    }

    /// The stretches that are over, and the one that goes on if it has lasted; oldest first.
    #[must_use]
    pub fn stretches(&self, t: &Thresholds) -> Vec<Stretch> {
        let open = self.ongoing(t);
        self.stretches.iter().copied().chain(open).collect()
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
        let open = self.ongoing(t);
        let (count, lost) = self.over;
        (count + u64::from(open.is_some()), lost + open.map_or(0.0, |s| s.lost.0))
    }

    /// The pace is the median of the first time in which the run was steady: as long as it should be, and
    /// longer where that holds too few steps.
    fn learn(&mut self, began: Duration, t: &Thresholds) {
        let Some(newest) = self.kept.back().copied() else { return };
        let warm = began + Duration::from_secs_f64(t.run_warm_up.0);
        let window = Duration::from_secs_f64(t.run_baseline.0);
        let (mut seen, mut steps) = (Vec::new(), 0_u64);
        for one in self.kept.iter().rev() {
            if one.from < warm {
                break;
            }
            steps += one.steps;
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
            steps += one.steps;
            all.push(one.seconds);
        }
        if steps < SMOOTH_STEPS { None } else { median(&mut all) }
    }

    fn judge(&mut self, newest: Interval, t: &Thresholds) {
        let (Some(base), Some(pace)) = (self.baseline, self.smooth(t)) else { return };
        let slow = |seconds: f64| seconds >= base * (1.0 + t.run_slow_from.0);
        let back = base * (1.0 + t.run_slow_from.0 - t.run_slow_hysteresis.0);
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

    /// Ends the stretch with its last slow step.
    fn close(&mut self, t: &Thresholds) {
        let Some(open) = self.open.take() else { return };
        let stretch = self.told(&open);
        if !lasts(&stretch, t) {
            return;
        }
        self.over = (self.over.0 + 1, self.over.1 + stretch.lost.0);
        if self.stretches.len() == MAX_STRETCHES {
            self.stretches.remove(0);
        }
        self.stretches.push(stretch);
    }

    fn told(&self, open: &Open) -> Stretch {
        let pace = median(&mut open.sure.all.clone()).unwrap_or(0.0);
        Stretch {
            from: open.from,
            to: open.sure.to,
            ratio: pace / self.baseline.unwrap_or(f64::INFINITY),
            steps: open.sure.steps,
            lost: Seconds(open.sure.lost.max(0.0)),
        }
    }
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
