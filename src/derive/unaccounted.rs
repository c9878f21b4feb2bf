//! Who holds what no counter of the kernel claims.
//!
//! GPU allocations are in no line of /proc/meminfo. The driver charges them to processes; what is
//! left is the driver's own overhead (a few hundred MiB on drivers of the 580 series), pools of freed
//! pages (drivers from 590.44 on, up to tens of GiB), network buffers, and whatever else. The overhead
//! differs from box to box, so it is learned: the smallest remainder that was seen while nothing
//! computed on the GPU.

use super::sharing::charged;
use crate::model::gpu::{Gpu, ProcessList};
use crate::model::pool::{Partition, Segment};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Attribution, GpuMemory, Holder, IdleRemainder, Sharing, Unaccounted};
use crate::model::snapshot::Snapshot;
use crate::thresholds::Thresholds;
use crate::units::Bytes;

/// Boots remembered.
const KEPT: usize = 8;

/// The idle remainders that were learned, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    entries: Vec<IdleRemainder>,
}

impl Idle {
    /// Takes over what was stored. What was learned before it had been read comes on top.
    pub fn load(&mut self, stored: Vec<IdleRemainder>) {
        let learned = std::mem::replace(&mut self.entries, stored);
        for entry in learned {
            self.learn(&entry.boot_id, &entry.driver, entry.bytes);
        }
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
        attributed: Err(reason),
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
    let pools = pools(snapshot, remainder, idle_remainder, charged.complete, t);
    let attributed = charged.sum.min(unaccounted);
    Unaccounted {
        attribution: match (clamped, charged.complete) {
            (true, _) => Attribution::Clamped,
            (false, true) => Attribution::Complete,
            (false, false) => Attribution::Partial,
        },
        parts: [Ok(attributed), pools, Ok(remainder.less(pools.unwrap_or(Bytes(0))))],
        attributed: Ok(charged.sum),
        idle_remainder,
    }
}

/// What is charged on the GPUs that share the pool, or why that is not known.
fn charge(snapshot: &Snapshot, gpus: &[GpuMemory]) -> Result<Charged, (Attribution, Missing)> {
    let mut all = Charged { sum: Bytes(0), complete: true, idle: true };
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
        if memory.hidden {
            return Err((Attribution::Hidden, Missing::NotAvailable));
        }
        let (sum, complete) = charged(processes);
        all.sum = all.sum.plus(sum);
        all.complete &= complete;
        all.idle &= idle(gpu);
    }
    match (shared, all.complete) {
        (0, true) => Err((Attribution::NotShared, Missing::NotPresent)),
        (0, false) => Err((Attribution::Unknown, Missing::NotAvailable)),
        _ => Ok(all),
    }
}

fn idle(gpu: &Gpu) -> bool {
    let computes = |list: &Vec<crate::model::gpu::GpuProcess>| {
        list.iter().any(|process| {
            process.lists[ProcessList::Compute as usize] || process.lists[ProcessList::Mps as usize]
        })
    };
    gpu.utilization.is_ok_and(|share| share.0 == 0.0)
        && gpu.processes.as_ref().is_ok_and(|list| !computes(list))
}

/// The share of the driver's page pools. That they are switched on is no evidence that they hold
/// anything: only a remainder far above what the driver needs when idle is. Without such evidence
/// their share is not known, and stays with the unknown.
fn pools(
    snapshot: &Snapshot,
    remainder: Bytes,
    idle_remainder: Reading<Bytes>,
    complete: bool,
    t: &Thresholds,
) -> Reading<Bytes> {
    match snapshot.nvidia.pools_on() {
        Ok(true) => {
            let usual =
                idle_remainder.map_or(t.idle_remainder_max, |b| b.max(t.idle_remainder_floor));
            let excess = remainder.less(usual);
            if complete && excess >= t.page_pools_from {
                Ok(excess)
            } else {
                Err(Missing::NotAvailable)
            }
        }
        Ok(false) | Err(Missing::NotPresent) => Ok(Bytes(0)),
        Err(reason) => Err(reason),
    }
}
