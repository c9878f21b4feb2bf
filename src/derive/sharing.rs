//! Which GPU shares the pool.
//!
//! What the driver says about memory is contested for these machines: nothing at all, success with
//! zeros, about the whole pool. So the answer rests on what the part is before what it says, and a GPU
//! of which neither is known stays unknown.

use crate::model::gpu::{Gpu, GpuProcess};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Basis, GpuMemory, MemoryReport, Sharing};
use crate::model::snapshot::Snapshot;
use crate::thresholds::Thresholds;
use crate::units::Bytes;

/// PCI device and vendor of a GB10.
const GB10_DEVICE: &str = "0x2E1210DE";
/// In the name of a GB10.
const GB10_NAME: &str = "GB10";
/// In the names of other parts that share their machine's memory.
const INTEGRATED: [&str; 4] = ["N1X", "RTX Spark", "Thor", "Orin"];

/// Judges every GPU.
pub(super) fn derive(snapshot: &Snapshot, t: &Thresholds) -> Reading<Vec<GpuMemory>> {
    let devices = snapshot.gpus.devices.as_ref().map_err(|reason| *reason)?;
    let arm = snapshot.kernel.arch.as_deref() == Ok("aarch64");
    Ok(devices.iter().map(|gpu| judge(gpu, snapshot.meminfo.total, arm, t)).collect())
}

fn judge(gpu: &Gpu, pool: Reading<Bytes>, arm: bool, t: &Thresholds) -> GpuMemory {
    let part = part(gpu);
    let addressing = matches!(gpu.addressing_mode.as_deref(), Ok("ATS" | "HMM"));
    let report = match gpu.memory {
        Ok(figures) if figures.total == Bytes(0) => MemoryReport::Zero,
        Ok(figures) => {
            let share = pool.ok().and_then(|pool| figures.total.share_of(pool)).map(|r| r.0);
            let alike = |share: f64| (share - 1.0).abs() <= t.whole_pool_within.0;
            match (part, share) {
                (None, Some(share)) if arm && addressing && alike(share) => MemoryReport::WholePool,
                (None, _) => MemoryReport::Dedicated,
                (Some(_), Some(share)) if share < t.carve_out_below.0 => MemoryReport::CarveOut,
                (Some(_), Some(_)) => MemoryReport::WholePool,
                (Some(_), None) => MemoryReport::Failed,
            }
        }
        Err(Missing::Unsupported | Missing::NotAvailable | Missing::NoSymbol) => {
            MemoryReport::Unsupported
        }
        Err(_) => MemoryReport::Failed,
    };
    let (sharing, basis) = match (part, report) {
        (Some(basis), _) => (Sharing::Shared, basis),
        (None, MemoryReport::Unsupported) if addressing => {
            (Sharing::Shared, Basis::NoFigureAndAddressing)
        }
        (None, MemoryReport::Dedicated) => (Sharing::Separate, Basis::OwnFigure),
        _ => (Sharing::Unknown, Basis::Nothing),
    };
    GpuMemory { index: gpu.index, report, sharing, basis, hidden: hidden(gpu) }
}

/// What the part is, where that settles it.
fn part(gpu: &Gpu) -> Option<Basis> {
    let name = gpu.name.as_deref().unwrap_or_default();
    let words = |known: &str| name.contains(known);
    if gpu.pci_device_id.as_deref().is_ok_and(|id| id.eq_ignore_ascii_case(GB10_DEVICE))
        || name.split_ascii_whitespace().any(|word| word == GB10_NAME)
    {
        return Some(Basis::Gb10);
    }
    INTEGRATED.iter().any(|known| words(known)).then_some(Basis::IntegratedPart)
}

/// No process in the lists, and yet the GPU is busy or in the state that only a context keeps it in:
/// without one it falls to P8.
fn hidden(gpu: &Gpu) -> bool {
    let nobody = gpu.processes.as_ref().is_ok_and(Vec::is_empty);
    let busy = gpu.utilization.is_ok_and(|share| share.0 > 0.0);
    let context = gpu.performance_state.is_ok_and(|state| state.0 == 0);
    nobody && (busy || context)
}

/// What the driver charges to the processes of one GPU, and whether every one has a figure.
pub(super) fn charged(processes: &[GpuProcess]) -> (Bytes, bool) {
    let sum = processes.iter().filter_map(|process| process.memory.ok()).sum();
    (sum, processes.iter().all(|process| process.memory.is_ok()))
}
