//! One GPU: what is remembered of it, and what a round makes of that.

use super::clocks::{self, Clocks};
use super::extremes::Windows;
use super::history::{self, History, Means, Sample};
use super::judge::{self, Judge};
use super::{Around, unreachable, words};
use crate::model::gpu::Gpu;
use crate::model::moment::Moment;
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::throttle::{
    CapBasis, Cost, Episode, Input, LearnedGpu, Minute, Throttle, ThrottleState, Transition,
};
use crate::thresholds::Thresholds;
use crate::units::{Celsius, Hertz, Ratio, Seconds, Watts};
use std::sync::Arc;
use std::time::Duration;

/// A GPU that is gone for longer does not come back as the same.
const LONG_GONE: Duration = Duration::from_secs(600);
/// No SM clock lies outside; a file may.
const CLOCKS: std::ops::RangeInclusive<f64> = 1.0e8..=4.0e9;

/// A stay in a state, as it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    state: ThrottleState,
    start: Moment,
    peak: Option<f64>,
    power: (f64, u32),
    lost: Option<f64>,
}

impl Stay {
    const fn new(state: ThrottleState, start: Moment) -> Self {
        Self { state, start, peak: None, power: (0.0, 0), lost: None }
    }

    fn take(&mut self, sample: &Sample, lost: Option<f64>) {
        let higher = |a: Option<f64>, b: f64| Some(a.map_or(b, |a| a.max(b)));
        if let Ok(celsius) = sample.temperature {
            self.peak = higher(self.peak, celsius);
        }
        if let Ok(watts) = sample.power {
            self.power = (self.power.0 + watts, self.power.1 + 1);
        }
        if let Some(lost) = lost {
            self.lost = higher(self.lost, lost);
        }
    }

    fn episode(&self, end: Option<Moment>) -> Episode {
        let (sum, count) = self.power;
        let mean = (count > 0).then(|| Watts(sum / f64::from(count)));
        Episode {
            state: self.state,
            start: self.start,
            end,
            peak: self.peak.map(Celsius).ok_or(Missing::Pending),
            power: mean.ok_or(Missing::Pending),
            clock_lost: self.lost.map(Ratio).ok_or(Missing::Pending),
        }
    }
}

/// What is remembered of one GPU.
#[derive(Clone, Debug)]
pub(super) struct One {
    /// Whose the learned clock is: GPU, driver, boot. None until all three are known.
    identity: Option<[String; 3]>,
    /// The module's limit, as it was last told.
    limit: Option<f64>,
    pub(super) history: History,
    judge: Judge,
    clocks: Clocks,
    windows: Windows,
    stay: Stay,
    episodes: [u64; ThrottleState::COUNTED.len()],
    seconds: [f64; ThrottleState::COUNTED.len()],
    last: Option<Arc<Transition>>,
    said: Option<Throttle>,
}

/// What a look at the last while found.
pub(super) struct Found {
    state: ThrottleState,
    evidence: String,
    minute: Means,
    basis: Option<CapBasis>,
    thermal_share: Reading<Ratio>,
    slow: Reading<bool>,
    missing: [Option<Missing>; Input::ALL.len()],
}

impl One {
    pub(super) fn new(at: Moment) -> Self {
        Self {
            identity: None,
            limit: None,
            history: History::default(),
            judge: Judge::default(),
            clocks: Clocks::default(),
            windows: Windows::default(),
            stay: Stay::new(ThrottleState::Unknown, at),
            episodes: Default::default(),
            seconds: Default::default(),
            last: None,
            said: None,
        }
    }

    /// Whether another GPU has taken the place of the one that this is about.
    pub(super) fn is_another(&self, gpu: &Gpu) -> bool {
        match (&self.identity, &gpu.uuid) {
            // Those whose driver told no UUID at first go by another name.
            (Some([known, ..]), Ok(uuid)) => known.starts_with("GPU-") && known != uuid,
            _ => false,
        }
    }

    /// Whether it has been gone for so long that it is forgotten.
    pub(super) fn is_long_gone(&self, now: Moment) -> bool {
        self.history.last().is_none_or(|last| now.mono.saturating_sub(last.at) > LONG_GONE)
    }

    /// The driver does not tell of it. After a moment nothing is known but a fault that is not disproved.
    pub(super) fn go_blind(&mut self, at: Moment, reason: Missing, t: &Thresholds) {
        // The means of a minute are still means of it when the driver has been silent for half of one.
        let grace = Duration::from_secs_f64(t.first_after.0);
        if self.history.last().is_some_and(|last| at.mono.saturating_sub(last.at) <= grace) {
            return;
        }
        self.judge.blind();
        let why = format!("the driver does not tell ({})", reason.as_str());
        let (state, evidence) = if self.judge.fault {
            (ThrottleState::PowerDelivery, words::latched(&why))
        } else {
            (ThrottleState::Unknown, why)
        };
        self.pass(state, at, &evidence);
        let Some(said) = &mut self.said else { return };
        *said = Throttle {
            evidence,
            signature: Err(reason),
            basis: None,
            costs: [Err(reason); Cost::ALL.len()],
            unreachable: unreachable([Some(reason); Input::ALL.len()]),
            minute: Minute {
                utilization: Err(reason),
                power: Err(reason),
                temperature: Err(reason),
                clock: Err(reason),
            },
            baseline: Err(reason),
            clock_lost: Err(reason),
            thermal_share: Err(reason),
            cap: Err(reason),
            ..said.clone()
        };
    }

    /// Takes over what an earlier run has learned about this GPU.
    pub(super) fn recall(&mut self, gpu: &Gpu, snapshot: &Snapshot, stored: &mut Vec<LearnedGpu>) {
        let (Ok(driver), Ok(boot)) = (&snapshot.gpus.driver, &snapshot.kernel.boot_id) else {
            return;
        };
        // A round without it changes nothing: the identity that is known stays.
        let name = match (&self.identity, &gpu.uuid) {
            (Some([name, ..]), _) => name.clone(),
            (None, Ok(uuid)) => uuid.clone(),
            (None, Err(_)) => gpu.bus.clone().unwrap_or_else(|_| gpu.index.to_string()),
        };
        if self.identity.as_ref().is_some_and(|[_, known, _]| known != driver) {
            // With another driver the clocks are other clocks.
            stored.extend(self.learned());
            self.clocks = Clocks::default();
        }
        let [name, driver, boot] =
            self.identity.insert([name, driver.clone(), boot.clone()]).each_ref();
        let is = |entry: &LearnedGpu| entry.gpu == *name && entry.driver == *driver;
        let Some(at) = stored.iter().position(is) else { return };
        let known = stored.remove(at);
        let sane = |clock: &f64| CLOCKS.contains(clock);
        let clock = known.clock.filter(sane);
        self.clocks.learned = self.clocks.learned.into_iter().chain(clock).reduce(f64::max);
        if self.clocks.cap.is_none() {
            self.clocks.remembered = known.cap.filter(sane);
        }
        // A fault is of its boot: what a new one does shows by itself within minutes.
        self.judge.fault |= known.power_fault && known.boot_id == *boot;
    }

    /// As it is to be stored.
    pub(super) fn learned(&self) -> Option<LearnedGpu> {
        let [gpu, driver, boot_id] = self.identity.clone()?;
        let (clock, cap) = (self.clocks.learned, self.clocks.cap.or(self.clocks.remembered));
        let power_fault = self.judge.fault;
        (clock.is_some() || cap.is_some() || power_fault).then_some(LearnedGpu {
            gpu,
            driver,
            boot_id,
            clock,
            cap,
            power_fault,
        })
    }

    /// Takes a round in and judges.
    pub(super) fn take(&mut self, gpu: &Gpu, around: &Around, t: &Thresholds) {
        let mut sample = Sample::of(gpu, around.at.mono);
        (sample.held, sample.spare, sample.slow) = (around.held, around.spare, around.slow);
        let before = self.history.last().map(|s| s.at);
        self.history.push(gpu, sample, t);
        self.windows.push(&sample);
        self.clocks.look(&self.history, t);
        if let (Some(before), Some(i)) = (before, self.stay.state.counted()) {
            // Across a gap nobody knows.
            let passed = sample.at.saturating_sub(before);
            self.seconds[i] += if passed <= history::gap(t) { passed.as_secs_f64() } else { 0.0 };
        }
        let minutes = self.history.minutes(judge::minutes_of(t.throttle_window));
        // The sensors may be silent for a moment while the minute is still one of theirs.
        let told = minutes.first().is_some_and(|minute| minute.spare.is_some());
        self.limit = around.limit.or(self.limit.filter(|_| told));
        let found = self.judge(&minutes, around, t);
        self.pass(found.state, around.at, &found.evidence);
        let lost = minutes.first().and_then(|minute| self.judge.lost_now(*minute));
        self.stay.take(&sample, lost.map(|Ratio(lost)| lost));
        self.said = Some(self.verdict(gpu.index, found, t));
    }

    /// The state, and what it rests on.
    fn judge(&mut self, minutes: &[Means], around: &Around, t: &Thresholds) -> Found {
        let (history, judge) = (&self.history, &mut self.judge);
        let missing = history.missing();
        let minute = minutes.first().copied().unwrap_or_default();
        let starved = judge.fault(history, t);
        let blind = [Input::Utilization, Input::Power]
            .map(|input| missing[input as usize].map(|why| (input, why)));
        if blind.iter().any(Option::is_some) || !history.covers(t.first_after) {
            judge.blind();
            let why = words::unknown(&blind, t);
            let (state, evidence) = if judge.fault {
                (ThrottleState::PowerDelivery, words::latched(&why))
            } else {
                (ThrottleState::Unknown, why)
            };
            let thermal_share =
                Err(missing[Input::ThermalSeconds as usize].unwrap_or(Missing::Pending));
            return Found {
                state,
                evidence,
                minute,
                basis: None,
                thermal_share,
                slow: around.slow,
                missing,
            };
        }
        judge.load(minute, t);
        judge.follow(history, minutes, t);
        let stretch = judge.signature(history, minutes, t);
        let thermal_share = history.thermal_share(t.event_window);
        // What was before somebody capped the clock is nothing to compare with.
        let before = |cap: f64| {
            let base = judge.baseline().map_or(0.0, |base| base.clock.0);
            cap < base * (1.0 - t.clock_hysteresis.0)
        };
        let held_down = self.clocks.cap.is_some_and(before) || clocks::looks_capped(history, t);
        let lost = judge.clock_cost(minutes, held_down, t);
        judge.event_cost(thermal_share, t);
        judge.step_cost(around.slow);
        judge.thermal(history, thermal_share, t);
        let basis = judge.cap(minutes, self.limit, t);
        let spins = judge.stalled(history, t);
        let lost_now = judge.lost_now(minute);
        let limit = self.limit;
        let told = words::Told { minutes, stretch, thermal_share, lost, limit, lost_now };
        let (state, evidence) = if judge.fault {
            (ThrottleState::PowerDelivery, told.fault(starved, t))
        } else if judge.thermal.0 {
            (ThrottleState::Thermal, told.thermal(judge, t))
        } else if judge.stalled.0 {
            (ThrottleState::StalledBusy, told.stalled(spins, t))
        } else if judge.signature.0 {
            (ThrottleState::HeatingAtCap, told.signature(t))
        } else if let Some(basis) = basis {
            (ThrottleState::AtPowerCap, told.cap(basis, t))
        } else if judge.idle.0 {
            (ThrottleState::Idle, told.minute())
        } else {
            (ThrottleState::Nominal, told.nominal(starved, spins, t))
        };
        Found { state, evidence, minute, basis, thermal_share, slow: around.slow, missing }
    }

    /// Everything that is told of it.
    fn verdict(&self, index: u32, found: Found, t: &Thresholds) -> Throttle {
        let why = |input: Input| found.missing[input as usize].unwrap_or(Missing::Pending);
        let can = unreachable(found.missing);
        let never = can.iter().find(|u| u.state == ThrottleState::HeatingAtCap);
        let signature = match never {
            Some(never) => Err(never.reason),
            None if self.history.covers(t.throttle_window) => Ok(self.judge.signature.0),
            None => Err(Missing::Pending),
        };
        let baseline = self.judge.baseline().ok_or(why(Input::SmClock));
        let of = |cost: Cost, basis: Reading<()>| basis.map(|()| self.judge.costs[cost as usize].0);
        let minute = found.minute;
        Throttle {
            index,
            now: self.stay.episode(None),
            evidence: found.evidence,
            signature,
            basis: found.basis,
            costs: [
                of(Cost::Clock, baseline.map(|_| ())),
                of(Cost::Events, found.thermal_share.map(|_| ())),
                of(Cost::StepTime, found.slow.map(|_| ())),
            ],
            unreachable: can,
            minute: Minute {
                utilization: minute.utilization.map(Ratio).ok_or(why(Input::Utilization)),
                power: minute.power.map(Watts).ok_or(why(Input::Power)),
                temperature: minute.temperature.map(Celsius).ok_or(why(Input::Temperature)),
                clock: minute.clock.map(Hertz).ok_or(why(Input::SmClock)),
            },
            baseline,
            clock_lost: self.judge.lost_now(minute).ok_or(why(Input::SmClock)),
            thermal_share: found.thermal_share,
            cap: self.clocks.cap(),
            learned: self.clocks.learned(t),
            cap_changes: self.clocks.changes,
            cap_changed: self.clocks.changed,
            extremes: Default::default(),
            episodes: self.episodes,
            seconds: self.seconds.map(Seconds),
            last: self.last.clone(),
        }
    }

    /// Goes over to a state, if it is another one.
    fn pass(&mut self, to: ThrottleState, at: Moment, evidence: &str) {
        if self.stay.state == to {
            return;
        }
        let ended = self.stay.episode(Some(at));
        let number = self.last.as_ref().map_or(1, |last| last.number + 1);
        self.last =
            Some(Arc::new(Transition { number, at, ended, to, evidence: evidence.to_owned() }));
        self.stay = Stay::new(to, at);
        if let Some(i) = to.counted() {
            self.episodes[i] += 1;
        }
    }

    /// The verdict as it stands at `now`.
    pub(super) fn tell(&mut self, now: Moment) -> Option<Throttle> {
        let extremes = self.windows.read(now.mono, self.history.last());
        let said = self.said.as_ref()?;
        Some(Throttle {
            now: self.stay.episode(None),
            extremes,
            episodes: self.episodes,
            seconds: self.seconds.map(Seconds),
            last: self.last.clone(),
            ..said.clone()
        })
    }
}
