//! How each GPU works: one state, by the means of minutes, with what it rests on.
//!
//! The signature of heat on these machines is power that stays flat, well under what the supply is rated
//! for, while the temperature climbs or has climbed. A plateau alone is the platform. Heat becomes a fault
//! when it costs something, and that must be shown: clock against the job's own beginning, or time by the
//! driver's counters. What each state needs is in [`NEEDS`]; an input that is missing takes those states
//! away and no others.
//!
//! The numbers are those of a GB10, so no other GPU is judged.

mod clocks;
mod extremes;
mod history;
mod judge;
#[cfg(test)]
mod tests;
mod words;

use crate::model::gpu::Gpu;
use crate::model::module::{Limit, Module};
use crate::model::moment::Moment;
use crate::model::pool::{Partition, Segment};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Basis, GpuMemory, Sharing};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::throttle::{
    CapBasis, Cost, Episode, Input, LearnedGpu, Minute, NEEDS, Throttle, ThrottleState, Transition,
    Unreachable,
};
use crate::thresholds::Thresholds;
use crate::units::{Celsius, Hertz, Ratio, Seconds, Watts};
use clocks::Clocks;
use extremes::Windows;
use history::{History, MINUTE, Means, Sample};
use judge::Judge;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// GPUs and drivers remembered.
const KEPT: usize = 16;

/// A share of a whole; nothing of nothing is none.
#[expect(clippy::cast_precision_loss, reason = "numbers of samples")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn window(seconds: Seconds) -> Duration {
    Duration::from_secs_f64(seconds.0)
}

/// What is remembered of all GPUs.
#[derive(Clone, Debug, Default)]
pub struct State {
    gpus: BTreeMap<u32, One>,
    /// What earlier runs have learned and no GPU has claimed yet.
    stored: Vec<LearnedGpu>,
    read: Option<Moment>,
}

impl State {
    /// Takes over what was stored.
    pub fn load(&mut self, stored: Vec<LearnedGpu>) {
        self.stored = stored;
    }

    /// As it is to be stored.
    #[must_use]
    pub fn entries(&self) -> Vec<LearnedGpu> {
        let mut all = self.stored.clone();
        all.extend(self.gpus.values().filter_map(One::learned));
        let excess = all.len().saturating_sub(KEPT);
        all.drain(..excess);
        all
    }

    /// What is left when the machine has rebooted: what the state file has kept.
    #[must_use]
    pub(super) fn rebooted(&self) -> Self {
        Self { stored: self.entries(), ..Self::default() }
    }
}

/// A stay in a state, as it goes on.
#[derive(Clone, Copy, Debug)]
struct Stay {
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
struct One {
    /// Whose the learned clock is: GPU, driver, boot. None until all three are known.
    identity: Option<[String; 3]>,
    history: History,
    judge: Judge,
    clocks: Clocks,
    windows: Windows,
    stay: Stay,
    episodes: [u64; ThrottleState::COUNTED.len()],
    seconds: [f64; ThrottleState::COUNTED.len()],
    last: Option<Arc<Transition>>,
    said: Option<Throttle>,
}

/// What the rest of the machine says about the GPU's work.
struct Around {
    at: Moment,
    held: Reading<u64>,
    spare: Reading<f64>,
    limit: Option<f64>,
}

/// What a look at the last while found.
struct Found {
    state: ThrottleState,
    evidence: String,
    minute: Means,
    basis: Option<CapBasis>,
    thermal_share: Reading<Ratio>,
    missing: [Option<Missing>; Input::ALL.len()],
}

/// Whether the numbers are about this GPU: a GB10, or one of which no more is known than that it shares
/// the pool. Other parts that share their machine's memory have powers and clocks of their own.
fn is_known(gpu: GpuMemory) -> bool {
    gpu.sharing == Sharing::Shared && gpu.basis != Basis::IntegratedPart
}

/// Judges every GB10.
pub(super) fn derive(
    state: &mut State,
    snapshot: &Snapshot,
    partition: &Reading<Partition>,
    memory: &Reading<Vec<GpuMemory>>,
    module: &Module,
    t: &Thresholds,
) -> Vec<Throttle> {
    let devices = match &snapshot.gpus.devices {
        Ok(devices) => devices,
        Err(reason) => return blind(state, snapshot.at, *reason),
    };
    let known: Vec<u32> =
        memory.iter().flatten().filter(|gpu| is_known(**gpu)).map(|gpu| gpu.index).collect();
    let judged = |index: u32| known.contains(&index);
    // What was learned of one that is gone is kept.
    let gone = |index: &u32| !judged(*index) || !devices.iter().any(|gpu| gpu.index == *index);
    let learned = state.gpus.iter().filter(|(index, _)| gone(index));
    let learned: Vec<_> = learned.filter_map(|(_, one)| one.learned()).collect();
    state.stored.extend(learned);
    state.gpus.retain(|index, _| !gone(index));
    let read = snapshot.read_at[Source::Gpu.index()];
    let fresh = read.is_some() && read != state.read;
    state.read = read;
    let limit = module.limit(Limit::Pl1).ok().map(|Watts(watts)| watts);
    let spare = module.budget(Limit::Pl1).and_then(|used| Ok(module.limit(Limit::Pl1)?.0 - used.0));
    let held = partition.as_ref().map_err(|reason| *reason);
    let held = held.and_then(|parts| parts.part(Segment::Unaccounted)).map(|bytes| bytes.0);
    let around = Around { at: read.unwrap_or(snapshot.at), held, spare, limit };
    for gpu in devices.iter().filter(|gpu| judged(gpu.index)) {
        let one = state.gpus.entry(gpu.index).or_insert_with(|| One::new(snapshot.at));
        one.recall(gpu, snapshot, &mut state.stored);
        if fresh {
            one.take(gpu, &around, t);
        }
    }
    state.gpus.values_mut().filter_map(|one| one.tell(snapshot.at)).collect()
}

/// The driver does not answer: of the GPUs that it had nothing is known, but for faults that are not
/// disproved.
fn blind(state: &mut State, at: Moment, reason: Missing) -> Vec<Throttle> {
    for one in state.gpus.values_mut() {
        one.judge.blind();
        let now =
            if one.judge.fault { ThrottleState::PowerDelivery } else { ThrottleState::Unknown };
        if one.stay.state == now {
            continue;
        }
        let evidence = format!("the driver does not tell ({})", reason.as_str());
        one.pass(now, at, &evidence);
        let Some(said) = &mut one.said else { continue };
        *said = Throttle {
            evidence,
            signature: Err(reason),
            basis: None,
            minute: Minute {
                utilization: Err(reason),
                power: Err(reason),
                temperature: Err(reason),
                clock: Err(reason),
            },
            unreachable: unreachable([Some(reason); Input::ALL.len()]),
            thermal_share: Err(reason),
            ..said.clone()
        };
    }
    state.gpus.values_mut().filter_map(|one| one.tell(at)).collect()
}

/// The states that cannot be reached without the inputs that are missing.
fn unreachable(missing: [Option<Missing>; Input::ALL.len()]) -> Vec<Unreachable> {
    let mut out = Vec::new();
    for (state, groups) in NEEDS {
        for group in groups {
            let reasons = group.iter().map(|input| missing[*input as usize]);
            // One of a group is enough.
            if !reasons.clone().all(|reason| reason.is_some()) {
                continue;
            }
            for (&input, reason) in group.iter().zip(reasons) {
                // An input can stand in two groups.
                let told = out.iter().any(|u: &Unreachable| (u.state, u.input) == (state, input));
                if let (Some(reason), false) = (reason, told) {
                    out.push(Unreachable { state, input, reason });
                }
            }
        }
    }
    out
}

impl One {
    fn new(at: Moment) -> Self {
        Self {
            identity: None,
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

    /// Takes over what an earlier run has learned about this GPU.
    fn recall(&mut self, gpu: &Gpu, snapshot: &Snapshot, stored: &mut Vec<LearnedGpu>) {
        let (Ok(driver), Ok(boot)) = (&snapshot.gpus.driver, &snapshot.kernel.boot_id) else {
            return;
        };
        let name = gpu.uuid.as_ref().or(gpu.bus.as_ref()).ok();
        let name = name.cloned().unwrap_or_else(|| gpu.index.to_string());
        let [name, driver, boot] =
            self.identity.insert([name, driver.clone(), boot.clone()]).each_ref();
        let is = |entry: &LearnedGpu| entry.gpu == *name && entry.driver == *driver;
        let Some(at) = stored.iter().position(is) else { return };
        let known = stored.remove(at);
        let learned = self.clocks.learned;
        self.clocks.learned =
            known.clock.map_or(learned, |k| Some(learned.map_or(k, |l| l.max(k))));
        if self.clocks.cap.is_none() {
            self.clocks.remembered = known.cap;
        }
        // A fault is of its boot: what a new one does shows by itself within minutes.
        self.judge.fault |= known.power_fault && known.boot_id == *boot;
    }

    /// As it is to be stored.
    fn learned(&self) -> Option<LearnedGpu> {
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
    fn take(&mut self, gpu: &Gpu, around: &Around, t: &Thresholds) {
        let mut sample = Sample::of(gpu, around.at.mono);
        (sample.held, sample.spare) = (around.held, around.spare);
        let before = self.history.last().map(|s| s.at);
        self.history.push(gpu, sample, t);
        self.windows.push(&sample);
        self.clocks.look(&self.history, t);
        if let (Some(before), Some(i)) = (before, self.stay.state.counted()) {
            // Across a gap nobody knows.
            let passed = sample.at.saturating_sub(before);
            self.seconds[i] += if passed <= MINUTE { passed.as_secs_f64() } else { 0.0 };
        }
        let minutes = self.history.minutes(judge::minutes_of(t.throttle_window));
        let found = self.judge(&minutes, around, t);
        self.pass(found.state, around.at, &found.evidence);
        let lost = self.judge.baseline().zip(minutes.first().and_then(|m| m.clock));
        let lost = lost.map(|(base, clock)| (1.0 - clock / base.clock.0).max(0.0));
        self.stay.take(&sample, lost.filter(|_| self.judge.busy.0));
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
            return Found { state, evidence, minute, basis: None, thermal_share, missing };
        }
        judge.load(minute, t);
        judge.follow(history, minutes, t);
        let stretch = judge.signature(history, minutes, t);
        let thermal_share = history.thermal_share(t.event_window);
        let lost = judge.clock_cost(minutes, t);
        judge.event_cost(thermal_share, t);
        judge.thermal(history, thermal_share, t);
        let basis = judge.cap(minutes, around.limit, t);
        let spins = judge.stalled(history, t);
        let told = words::Told { minutes, stretch, thermal_share, lost, limit: around.limit };
        let (state, evidence) = if judge.fault {
            (ThrottleState::PowerDelivery, told.fault(starved, t))
        } else if judge.thermal.0 {
            (ThrottleState::Thermal, told.thermal(judge, t))
        } else if judge.stalled.0 {
            (ThrottleState::StalledBusy, told.stalled(spins, t))
        } else if judge.signature.0 {
            (ThrottleState::HeatingAtCap, told.signature(t))
        } else if let Some(basis) = basis {
            (ThrottleState::AtPowerCap, told.cap(basis))
        } else if judge.idle.0 {
            (ThrottleState::Idle, told.minute())
        } else {
            (ThrottleState::Nominal, told.minute())
        };
        Found { state, evidence, minute, basis, thermal_share, missing }
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
            ],
            unreachable: can,
            minute: Minute {
                utilization: minute.utilization.map(Ratio).ok_or(why(Input::Utilization)),
                power: minute.power.map(Watts).ok_or(why(Input::Power)),
                temperature: minute.temperature.map(Celsius).ok_or(why(Input::Temperature)),
                clock: minute.clock.map(Hertz).ok_or(why(Input::SmClock)),
            },
            baseline,
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
    fn tell(&mut self, now: Moment) -> Option<Throttle> {
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
