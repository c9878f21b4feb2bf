//! Who holds what no counter of the kernel claims.
//!
//! GPU allocations are in no line of /proc/meminfo. The driver charges them to processes; what is
//! left is the driver's own overhead (a few hundred MiB on drivers of the 580 series), pools of freed
//! pages (drivers from 590.44 on, up to tens of GiB), network buffers, and whatever else. The overhead
//! differs from box to box, so it is learned: the smallest remainder that was seen while nothing
//! computed on the GPU.

use super::sharing::charged;
use crate::model::gpu::Gpu;
use crate::model::pool::{Partition, Segment};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{
    Attribution, GpuMemory, Hidden, Holder, IdleRemainder, Sharing, Unaccounted,
};
use crate::model::snapshot::Snapshot;
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use std::collections::BTreeSet;

/// Boots remembered.
const KEPT: usize = 8;

/// What was learned about the idle box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The idle remainders, oldest first.
    entries: Vec<IdleRemainder>,
    /// What exceeded it when nothing computed last: the most that pools can have held since.
    excess: Option<Bytes>,
}

impl Idle {
    /// Takes over what was stored. What was learned before it had been read comes on top.
    pub fn load(&mut self, stored: Vec<IdleRemainder>) {
        let learned = std::mem::replace(&mut self.entries, stored);
        for entry in learned {
            self.learn(&entry.boot_id, &entry.driver, entry.bytes);
        }
        let excess = self.entries.len().saturating_sub(KEPT);
        self.entries.drain(..excess);
    }

    /// As it is to be stored.
    #[must_use]
    pub fn entries(&self) -> &[IdleRemainder] {
        &self.entries
    }

    /// The remainder of this boot, or the last one with the same driver.
    fn get(&self, boot_id: &str, driver: &str) -> Reading<Bytes> {
        let mut same = self.entries.iter().rev().filter(|entry| entry.driver == driver);
        let this = same.clone().find(|entry| entry.boot_id == boot_id);
        this.or_else(|| same.next()).map(|entry| entry.bytes).ok_or(Missing::Pending)
    }

    fn learn(&mut self, boot_id: &str, driver: &str, bytes: Bytes) {
        let this = |entry: &&mut IdleRemainder| entry.boot_id == boot_id && entry.driver == driver;
        if let Some(entry) = self.entries.iter_mut().find(this) {
            entry.bytes = entry.bytes.min(bytes);
            return;
        }
        self.entries.push(IdleRemainder {
            boot_id: boot_id.to_owned(),
            driver: driver.to_owned(),
            bytes,
        });
        let excess = self.entries.len().saturating_sub(KEPT);
        self.entries.drain(..excess);
    }
}

/// What the driver charges to the processes of the GPUs that share the pool.
struct Charged {
    sum: Bytes,
    complete: bool,
    /// Whose it is.
    pids: BTreeSet<u32>,
    /// Nothing computes: no process with a compute context, and no kernel ran.
    idle: bool,
}

/// Attributes.
pub(super) fn derive(
    idle: &mut Idle,
    snapshot: &Snapshot,
    partition: &Reading<Partition>,
    gpus: &Reading<Vec<GpuMemory>>,
    t: &Thresholds,
) -> Unaccounted {
    let nothing = |attribution, reason| Unaccounted {
        attribution,
        parts: [Err(reason); Holder::ALL.len()],
        charged: Err(reason),
        processes: Err(reason),
        idle_remainder: Err(reason),
    };
    let unaccounted = partition.as_ref().map_err(|m| *m);
    let unaccounted = match unaccounted.and_then(|p| p.part(Segment::Unaccounted)) {
        Ok(bytes) => bytes,
        Err(reason) => return nothing(Attribution::Unknown, reason),
    };
    let charged = match gpus.as_ref().map_err(|m| (Attribution::Unknown, *m)) {
        Ok(gpus) => charge(snapshot, gpus),
        Err(why) => Err(why),
    };
    let charged = match charged {
        Ok(charged) => charged,
        Err((attribution, reason)) => return nothing(attribution, reason),
    };
    let remainder = unaccounted.less(charged.sum);
    let clamped = charged.sum > unaccounted;
    let key = snapshot.kernel.boot_id.as_deref().ok().zip(snapshot.gpus.driver.as_deref().ok());
    if let Some((boot_id, driver)) = key
        && charged.idle
        && charged.complete
        && !clamped
        && remainder <= t.idle_remainder_max
    {
        idle.learn(boot_id, driver, remainder);
    }
    let idle_remainder =
        key.map_or(Err(Missing::NotAvailable), |(boot_id, driver)| idle.get(boot_id, driver));
    let pools = pools(idle, snapshot, remainder, idle_remainder, &charged, t);
    let unknown = Ok(remainder.less(pools.unwrap_or(Bytes(0))));
    let (attribution, rest) = match (clamped, charged.complete, pools) {
        // What processes hold beside it is not nothing, it is not known.
        (true, ..) => (Attribution::Clamped, [Err(Missing::NotAvailable); 2]),
        (false, false, _) => (Attribution::Partial, [pools, unknown]),
        (false, true, Ok(Bytes(1..))) => (Attribution::Estimated, [pools, unknown]),
        (false, true, _) => (Attribution::Complete, [pools, unknown]),
    };
    Unaccounted {
        attribution,
        parts: [Ok(charged.sum.min(unaccounted)), rest[0], rest[1]],
        charged: Ok(charged.sum),
        processes: Ok(charged.pids.len() as u64),
        idle_remainder,
    }
}

/// What is charged on the GPUs that share the pool, or why that is not known.
fn charge(snapshot: &Snapshot, gpus: &[GpuMemory]) -> Result<Charged, (Attribution, Missing)> {
    let mut all = Charged { sum: Bytes(0), complete: true, pids: BTreeSet::new(), idle: true };
    let mut shared = 0;
    for (gpu, memory) in snapshot.gpus.each().zip(gpus) {
        match memory.sharing {
            Sharing::Separate => continue,
            Sharing::Unknown => {
                all.complete = false;
                continue;
            }
            Sharing::Shared => shared += 1,
        }
        let processes = gpu.processes.as_ref().map_err(|m| (Attribution::Unknown, *m))?;
        match memory.hidden {
            Hidden::Yes => return Err((Attribution::Hidden, Missing::NotAvailable)),
            Hidden::Unknown => all.complete = false,
            Hidden::No => {}
        }
        let (sum, complete) = charged(processes);
        all.sum = all.sum.plus(sum);
        all.complete &= complete;
        all.pids.extend(processes.iter().map(|process| process.pid));
        all.idle &= idle(gpu);
    }
    match (shared, all.complete) {
        (0, true) => Err((Attribution::NotShared, Missing::NotPresent)),
        (0, false) => Err((Attribution::Unknown, Missing::NotAvailable)),
        _ => Ok(all),
    }
}

fn idle(gpu: &Gpu) -> bool {
    gpu.utilization.is_ok_and(|share| share.0 == 0.0) && !gpu.computes()
}

/// The share of the driver's page pools. That they are switched on is no evidence that they hold
/// anything: a remainder far above what the driver needs is, when nothing computes that may hold it
/// without a figure. While something does, they hold at most what they held before.
fn pools(
    idle: &mut Idle,
    snapshot: &Snapshot,
    remainder: Bytes,
    idle_remainder: Reading<Bytes>,
    charged: &Charged,
    t: &Thresholds,
) -> Reading<Bytes> {
    match snapshot.nvidia.pools_on() {
        Ok(true) => {}
        Ok(false) | Err(Missing::NotPresent) => return Ok(Bytes(0)),
        Err(reason) => return Err(reason),
    }
    if !charged.complete {
        return Err(Missing::NotAvailable);
    }
    let usual = idle_remainder.map_or(t.idle_remainder_max, |b| b.max(t.idle_remainder_floor));
    let excess = remainder.less(usual);
    if charged.idle {
        idle.excess = Some(excess);
    }
    match idle.excess.map(|most| excess.min(most)) {
        Some(held) if held >= t.page_pools_from => Ok(held),
        _ => Err(Missing::NotAvailable),
    }
}
