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
mod one;
#[cfg(test)]
mod tests;
mod words;

use crate::model::module::{Limit, Module};
use crate::model::moment::Moment;
use crate::model::pool::{Partition, Segment};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Basis, GpuMemory, Sharing};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::throttle::{Input, LearnedGpu, NEEDS, Throttle, Unreachable};
use crate::thresholds::Thresholds;
use crate::units::{Seconds, Watts};
use one::One;
use std::collections::BTreeMap;
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

/// What the rest of the machine says about the GPU's work.
struct Around {
    at: Moment,
    held: Reading<u64>,
    spare: Reading<f64>,
    limit: Option<f64>,
    slow: Reading<bool>,
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
    slow: Reading<bool>,
    t: &Thresholds,
) -> Vec<Throttle> {
    let devices = match &snapshot.gpus.devices {
        Ok(devices) => devices,
        Err(reason) => return blind(state, snapshot.at, *reason, t),
    };
    let known: Vec<u32> =
        memory.iter().flatten().filter(|gpu| is_known(**gpu)).map(|gpu| gpu.index).collect();
    let judged = |index: u32| known.contains(&index);
    let read = snapshot.read_at[Source::Gpu.index()];
    let fresh = read.is_some() && read != state.read;
    state.read = read;
    let limit = module.limit(Limit::Pl1).ok().map(|Watts(watts)| watts);
    let spare = module.budget(Limit::Pl1).and_then(|used| Ok(module.limit(Limit::Pl1)?.0 - used.0));
    let held = partition.as_ref().map_err(|reason| *reason);
    let held = held.and_then(|parts| parts.part(Segment::Unaccounted)).map(|bytes| bytes.0);
    let around = Around { at: read.unwrap_or(snapshot.at), held, spare, limit, slow };
    for gpu in devices.iter().filter(|gpu| judged(gpu.index)) {
        let one = state.gpus.entry(gpu.index).or_insert_with(|| One::new(snapshot.at));
        if one.is_another(gpu) {
            state.stored.extend(one.learned());
            *one = One::new(snapshot.at);
        }
        one.recall(gpu, snapshot, &mut state.stored);
        if fresh {
            one.take(gpu, &around, t);
        }
    }
    // One that is gone may be back in a second, with its counters; what turns out to be no GB10 is not.
    let there = |index: u32| devices.iter().any(|gpu| gpu.index == index);
    for (index, one) in &mut state.gpus {
        if !there(*index) {
            one.go_blind(snapshot.at, Missing::Lost, t);
        }
    }
    let (at, stored) = (snapshot.at, &mut state.stored);
    state.gpus.retain(|index, one| {
        let keep = if there(*index) { judged(*index) } else { !one.is_long_gone(at) };
        if !keep {
            stored.extend(one.learned());
        }
        keep
    });
    state.gpus.values_mut().filter_map(|one| one.tell(snapshot.at)).collect()
}

/// The driver does not answer: of the GPUs that it had nothing is known, but for faults that are not
/// disproved.
fn blind(state: &mut State, at: Moment, reason: Missing, t: &Thresholds) -> Vec<Throttle> {
    for one in state.gpus.values_mut() {
        one.go_blind(at, reason, t);
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
