//! What holds, one condition after the other: each begins at its limit and ends beyond it.

use super::history::{History, MINUTE, Means};
use super::{share, window};
use crate::model::gpu::EventReason;
use crate::model::reading::{Missing, Reading};
use crate::model::throttle::{Baseline, CapBasis, Cost};
use crate::thresholds::Thresholds;
use crate::units::{Celsius, Hertz, Ratio, Seconds, Watts};
use std::time::Duration;

/// Sums of decimal fractions miss their limits by less than this.
const HAIR: f64 = 1e-9;

/// A condition that begins at one limit and lasts until another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latch(pub bool);

impl Latch {
    fn set(&mut self, begins: bool, lasts: bool) -> bool {
        self.0 = if self.0 { lasts } else { begins };
        self.0
    }
}

/// A stretch of work: from when the GPU was busy until it was not for a while.
#[derive(Clone, Copy, Debug)]
struct Job {
    since: Duration,
    /// When it was last busy.
    busy: Duration,
    baseline: Option<Baseline>,
}

/// What a range of minutes shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub power: (f64, f64),
    pub temperature: (f64, f64),
}

/// Samples that show something, of those that could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub shown: usize,
    pub of: usize,
}

/// The conditions of one GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Judge {
    pub busy: Latch,
    pub idle: Latch,
    pub at_cap: Latch,
    pub signature: Latch,
    /// Each way to be warm ends where it began: a box that has climbed to 82 degrees is not hot for that.
    hot: Latch,
    climbs: Latch,
    pub costs: [Latch; Cost::ALL.len()],
    pub thermal: Latch,
    pub stalled: Latch,
    /// Kept until it is disproved.
    pub fault: bool,
    /// What counts for a fault came after this.
    fault_from: Duration,
    job: Option<Job>,
}

impl Judge {
    /// What the job's later minutes are compared with.
    pub(super) fn baseline(&self) -> Option<Baseline> {
        self.job.and_then(|job| job.baseline)
    }

    /// What a busy minute's clock is below that of the job's first steady minutes.
    pub(super) fn lost_now(&self, minute: Means) -> Option<Ratio> {
        let (base, clock) = (self.baseline()?, minute.clock?);
        self.busy.0.then(|| Ratio((1.0 - clock / base.clock.0).max(0.0)))
    }

    /// Whether the GPU is busy or idle by its last minute; without it, neither.
    pub(super) fn load(&mut self, minute: Means, t: &Thresholds) {
        let share = minute.utilization;
        let is = |limit: f64| share.is_some_and(|share| share >= limit - HAIR);
        let beyond = t.utilization_hysteresis.0;
        self.busy.set(is(t.busy_from.0), is(t.busy_from.0 - beyond));
        let below = |limit: f64| share.is_some_and(|share| share < limit - HAIR);
        self.idle.set(below(t.idle_below.0), below(t.idle_below.0 + beyond));
    }

    /// Follows the job, and learns what its first steady minutes are like.
    pub(super) fn follow(&mut self, history: &History, minutes: &[Means], t: &Thresholds) {
        let Some(now) = history.last().map(|s| s.at) else { return };
        // Not busy, or not seen at all: the driver may have been silent for hours.
        let gap = window(t.job_gap);
        if self.job.is_some_and(|job| now.saturating_sub(job.busy) >= gap) {
            self.job = None;
        }
        if !self.busy.0 {
            return;
        }
        let job = self.job.get_or_insert(Job { since: now, busy: now, baseline: None });
        job.busy = now;
        let whole = now.saturating_sub(job.since) >= window(t.throttle_window);
        // Minutes that heat has slowed down would teach that this is normal.
        let hot = history
            .thermal_share(t.throttle_window)
            .is_ok_and(|Ratio(share)| share >= t.event_share.0);
        if job.baseline.is_none() && whole && !hot {
            job.baseline = steady(minutes, t);
        }
    }

    /// Whether power was flat while the temperature climbed or was high, for the whole window.
    pub(super) fn signature(
        &mut self,
        history: &History,
        minutes: &[Means],
        t: &Thresholds,
    ) -> Reading<Stretch> {
        let stretch = if history.covers(t.throttle_window) { stretch(minutes) } else { None };
        let (first, last) = stretch.map_or((0.0, 0.0), |s| s.temperature);
        let warmer = |by: f64, limit: Celsius| stretch.is_some() && by >= limit.0 - HAIR;
        let cooler = |limit: Celsius| Celsius(limit.0 - t.temperature_hysteresis.0);
        let hot = self.hot.set(warmer(last, t.hot_from), warmer(last, cooler(t.hot_from)));
        // A climb within the job's first minutes is its start.
        let settled = self.job.is_some_and(|job| {
            let since = history.last().map_or(Duration::ZERO, |s| s.at.saturating_sub(job.since));
            since >= window(t.warm_up) + window(t.throttle_window)
        });
        let counts = settled && last >= t.climb_above.0 - HAIR;
        let climbed = if counts { last - first } else { 0.0 };
        let climbs =
            self.climbs.set(warmer(climbed, t.climb_from), warmer(climbed, cooler(t.climb_from)));
        let holds = |loose: f64| {
            let Some(Stretch { power: (lowest, highest), .. }) = stretch else { return false };
            let busy = t.busy_from.0 - loose * t.utilization_hysteresis.0 - HAIR;
            let flat = t.flat_range.0 + loose * t.power_hysteresis.0 + HAIR;
            minutes.iter().all(|m| m.utilization.is_some_and(|share| share >= busy))
                && highest - lowest <= flat
                && highest < t.supply_rated.0
                && (hot || climbs)
        };
        let (begins, lasts) = (holds(0.0), holds(1.0));
        self.signature.set(begins, lasts);
        stretch.ok_or(Missing::Pending)
    }

    /// Whether heat costs clock: the last minutes against the job's first steady ones, those of like power
    /// and utilization only. A clock that follows the work is no cost.
    ///
    /// Nor is one that somebody holds down: that is what owners do against heat.
    pub(super) fn clock_cost(
        &mut self,
        minutes: &[Means],
        held_down: bool,
        t: &Thresholds,
    ) -> Reading<Ratio> {
        let latch = &mut self.costs[Cost::Clock as usize];
        let Some(base) = self.job.and_then(|job| job.baseline) else {
            latch.0 = false;
            return Err(Missing::Pending);
        };
        let alike: Vec<f64> = minutes
            .iter()
            .filter(|m| like(m, base.power.0, t))
            .filter(|m| {
                let apart = |share: f64| (share - base.utilization.0).abs();
                m.utilization.is_some_and(|share| apart(share) <= t.like_utilization.0 + HAIR)
            })
            .filter_map(|m| m.clock.map(|clock| 1.0 - clock / base.clock.0))
            .collect();
        let enough = share(alike.len(), minutes.len()) >= t.alike_share.0 - HAIR;
        let lost = |lost: &f64| *lost >= t.clock_lost.0 - HAIR;
        let enough = enough && !held_down;
        let begins = enough && alike.iter().all(lost);
        // It is back when the newest minute that can be compared shows it.
        let kept = t.clock_lost.0 - t.clock_hysteresis.0 + HAIR;
        let lasts = enough && alike.first().is_some_and(|lost| *lost > kept);
        latch.set(begins, lasts);
        if enough {
            alike.first().copied().map(Ratio).ok_or(Missing::Pending)
        } else {
            Err(Missing::Pending)
        }
    }

    /// Whether the driver's own counters say that heat costs time.
    pub(super) fn event_cost(&mut self, thermal: Reading<Ratio>, t: &Thresholds) {
        let at_least = |limit: f64| thermal.is_ok_and(|Ratio(share)| share >= limit - HAIR);
        let (begins, lasts) =
            (at_least(t.event_share.0), at_least(t.event_share.0 - t.event_hysteresis.0));
        self.costs[Cost::Events as usize].set(begins, lasts);
    }

    /// Whether the steps of a training run are slow.
    pub(super) fn step_cost(&mut self, slow: Reading<bool>) {
        let slow = slow == Ok(true);
        self.costs[Cost::StepTime as usize].set(slow, slow);
    }

    /// Heat that costs something. A thermal reason that a single sample shows costs nothing.
    pub(super) fn thermal(&mut self, history: &History, thermal: Reading<Ratio>, t: &Thresholds) {
        let bits = EventReason::SwThermal.bit() | EventReason::HwThermal.bit();
        let reason = thermal.is_ok_and(|Ratio(share)| share > 0.0)
            || history
                .recent(window(t.event_window))
                .any(|s| s.reasons.is_ok_and(|mask| mask & bits != 0));
        let cost = self.costs.iter().any(|latch| latch.0) && !self.idle.0;
        let heat = self.signature.0 || reason;
        // A pause in the work ends the signature and not the heat.
        self.thermal.set(cost && heat, cost && (heat || self.hot.0));
    }

    /// Whether it works at its limit: the module's where that is told (what is left of it, and the limit),
    /// else by its own power.
    pub(super) fn cap(
        &mut self,
        minutes: &[Means],
        limit: Option<f64>,
        t: &Thresholds,
    ) -> Option<CapBasis> {
        let minute = minutes.first().copied().unwrap_or_default();
        let (basis, power, least) = if let (Some(spare), Some(limit)) = (minute.spare, limit) {
            (CapBasis::Module, limit - spare, limit * (1.0 - t.cap_power_within.0))
        } else {
            let highest = minutes.iter().filter_map(|m| m.power).fold(0.0, f64::max);
            let near = highest * (1.0 - t.cap_power_within.0);
            (CapBasis::Inferred, minute.power.unwrap_or(0.0), t.cap_power_from.0.max(near))
        };
        let at_least = |limit: f64| self.busy.0 && power >= limit - HAIR;
        let (begins, lasts) = (at_least(least), at_least(least - t.power_hysteresis.0));
        self.at_cap.set(begins, lasts).then_some(basis)
    }

    /// Busy at a fraction of its clock and power, and no reason given.
    pub(super) fn fault(&mut self, history: &History, t: &Thresholds) -> Shown {
        let Some(newest) = history.last() else { return Shown::default() };
        // A GPU that spins runs at full clocks on the power of an idle one: that proves nothing.
        let normal = newest.busy(t)
            && newest.clock.is_ok_and(|clock| clock >= t.fault_normal_clock.0)
            && newest.power.is_ok_and(|watts| watts > t.fault_power_max.0);
        if normal && self.fault {
            self.fault = false;
            // What was seen before this proof proves nothing any more.
            self.fault_from = newest.at;
        }
        let (mut seen, mut all) = (Shown::default(), 0_usize);
        let of_window = |at: Duration| at > self.fault_from || self.fault_from.is_zero();
        for s in history.recent(window(t.fault_window)).filter(|s| of_window(s.at)) {
            all += 1;
            let (Ok(power), Ok(clock), Ok(reasons)) = (s.power, s.clock, s.reasons) else {
                continue;
            };
            if !s.busy(t) {
                continue;
            }
            seen.of += 1;
            let starved = clock <= t.fault_clock_max.0 && power <= t.fault_power_max.0;
            // The idle bit is no reason: it is set on every GPU that waits.
            seen.shown += usize::from(starved && reasons & !EventReason::Idle.bit() == 0);
        }
        let reaches = newest.at.saturating_sub(self.fault_from).as_secs_f64();
        let whole = history.covers(t.fault_window)
            && (self.fault_from.is_zero() || reaches >= t.fault_window.0);
        if whole
            && share(seen.of, all) >= t.fault_busy_share.0 - HAIR
            && share(seen.shown, seen.of) >= t.fault_share.0 - HAIR
        {
            self.fault = true;
        }
        seen
    }

    /// Busy at full clocks with the power of one that waits, and not because it loads.
    pub(super) fn stalled(&mut self, history: &History, t: &Thresholds) -> Shown {
        let over = window(t.stall_window);
        let mut seen = Shown::default();
        for s in history.recent(over) {
            seen.of += 1;
            let spins = s.busy(t)
                && s.power.is_ok_and(|watts| watts < t.stall_power_below.0)
                && s.clock.is_ok_and(|clock| clock >= t.stall_clock_from.0);
            seen.shown += usize::from(spins);
        }
        let steady = history.growth(over).is_some_and(|grown| grown < t.loading_from);
        let can = steady && history.covers(t.stall_window);
        let part = share(seen.shown, seen.of);
        let begins = can && part >= t.stall_share.0 - HAIR;
        let lasts = can && part >= t.stall_share.0 - t.stall_share_hysteresis.0 - HAIR;
        self.stalled.set(begins, lasts);
        seen
    }

    /// Nothing can be told any more, but for a fault that is not disproved.
    pub(super) fn blind(&mut self) {
        let fault = (self.fault, self.fault_from);
        *self = Self { job: self.job, fault: fault.0, fault_from: fault.1, ..Self::default() };
    }
}

/// The first steady minutes: nearly all of them busy and of like power.
fn steady(minutes: &[Means], t: &Thresholds) -> Option<Baseline> {
    let mut powers: Vec<f64> = minutes.iter().filter_map(|m| m.power).collect();
    powers.sort_by(f64::total_cmp);
    let middle = *powers.get(powers.len() / 2)?;
    let alike: Vec<(f64, f64, f64)> = minutes
        .iter()
        .filter(|m| like(m, middle, t))
        .filter_map(|m| Some((m.clock?, m.power?, m.utilization?)))
        .filter(|(.., share)| *share >= t.busy_from.0 - HAIR)
        .collect();
    if share(alike.len(), minutes.len()) < t.alike_share.0 - HAIR {
        return None;
    }
    let mean = |of: fn(&(f64, f64, f64)) -> f64| {
        let count = u32::try_from(alike.len()).unwrap_or(u32::MAX);
        alike.iter().map(of).sum::<f64>() / f64::from(count)
    };
    Some(Baseline {
        clock: Hertz(mean(|m| m.0)),
        power: Watts(mean(|m| m.1)),
        utilization: Ratio(mean(|m| m.2)),
    })
}

fn like(minute: &Means, power: f64, t: &Thresholds) -> bool {
    minute.power.is_some_and(|watts| (watts - power).abs() <= power * t.like_power.0 + HAIR)
}

/// What the minutes show, when there is something of each of them.
fn stretch(minutes: &[Means]) -> Option<Stretch> {
    let (first, last) = (minutes.last()?.temperature?, minutes.first()?.temperature?);
    let mut power = (f64::INFINITY, f64::NEG_INFINITY);
    for minute in minutes {
        let watts = minute.power?;
        power = (power.0.min(watts), power.1.max(watts));
    }
    Some(Stretch { power, temperature: (first, last) })
}

/// How many minutes a window has.
pub(super) fn minutes_of(over: Seconds) -> usize {
    usize::try_from(window(over).as_secs() / MINUTE.as_secs()).unwrap_or(1).max(2)
}
