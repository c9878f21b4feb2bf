//! Which GPU shares the pool.
//!
//! What the driver says about memory is contested for these machines: nothing at all, success with
//! zeros, about the whole pool. So the answer rests on what the part is before what it says, and a GPU
//! of which neither is known stays unknown. What a part is does not change while its driver hangs, so
//! it is remembered.

use crate::model::gpu::{Gpu, GpuProcess, Via};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Basis, GpuMemory, Hidden, MemoryReport, Sharing};
use crate::model::snapshot::Snapshot;
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use std::collections::BTreeMap;

/// PCI device and vendor of a GB10.
pub const GB10_DEVICE: &str = "0x2E1210DE";
/// In the name of a GB10.
const GB10_NAME: &str = "GB10";
/// In the names of other parts that share their machine's memory.
const INTEGRATED: [&str; 4] = ["N1X", "RTX Spark", "Thor", "Orin"];
/// Products that have a GB10, whether or not it answers.
const GB10_PRODUCTS: [&str; 2] = ["DGX_Spark", "DGX Spark"];

/// What each GPU was when it could last be told, by index: a part that is known to share its machine's
/// memory, or another one.
pub(super) type Known = BTreeMap<u32, Option<Basis>>;

/// Judges every GPU.
pub(super) fn derive(
    known: &mut Known,
    snapshot: &Snapshot,
    t: &Thresholds,
) -> Reading<Vec<GpuMemory>> {
    let devices = snapshot.gpus.devices.as_ref().map_err(|reason| *reason)?;
    known.retain(|index, _| devices.iter().any(|gpu| gpu.index == *index));
    // Only a machine that is known to be of another kind is none on which CPU and GPU share memory.
    let arm = snapshot.kernel.arch.as_deref().map_or(None, |arch| Some(arch == "aarch64"));
    let smi = snapshot.gpus.via == Ok(Via::NvidiaSmi);
    let mut judge_one = |gpu: &Gpu| {
        if gpu.name.is_ok() || gpu.pci_device_id.is_ok() {
            let before = known.get(&gpu.index).copied().flatten();
            // A card that has told its own memory once is that card while it fails to.
            let own = before.filter(|b| *b == Basis::OwnFigure && gpu.memory.is_err());
            known.insert(gpu.index, part(gpu).or(own));
        }
        let part = known.get(&gpu.index).copied().flatten();
        let verdict = judge(gpu, part, snapshot.meminfo.total, Machine { arm, smi }, t);
        if verdict.basis == Basis::OwnFigure {
            known.insert(gpu.index, Some(Basis::OwnFigure));
        }
        verdict
    };
    Ok(devices.iter().map(&mut judge_one).collect())
}

/// What CUDA calls free. On a GB10 it is MemFree to the byte; nobody has shown it for another part.
/// While the driver does not answer, the box is still what it was.
pub(super) fn cuda_free(
    known: &Known,
    snapshot: &Snapshot,
    gpus: &Reading<Vec<GpuMemory>>,
    free: Reading<Bytes>,
) -> Reading<Bytes> {
    let is_gb10 = match gpus {
        Ok(gpus) => gpus.iter().any(|gpu| gpu.basis == Basis::Gb10),
        Err(
            Missing::Pending
            | Missing::Hung
            | Missing::Stale
            | Missing::Failed
            | Missing::Malformed
            | Missing::Denied,
        ) => {
            let product = snapshot.dmi.product_name.as_deref().unwrap_or_default();
            known.values().any(|part| *part == Some(Basis::Gb10))
                || GB10_PRODUCTS.iter().any(|known| product.contains(known))
        }
        Err(reason) => return Err(*reason),
    };
    if is_gb10 { free } else { Err(Missing::NotPresent) }
}

/// What else decides.
#[derive(Clone, Copy)]
struct Machine {
    /// Whether it is of the only kind on which CPU and GPU share memory; none when that is not known.
    arm: Option<bool>,
    /// Whether nvidia-smi answers, whose `[N/A]` stands for "not supported".
    smi: bool,
}

fn judge(
    gpu: &Gpu,
    part: Option<Basis>,
    pool: Reading<Bytes>,
    machine: Machine,
    t: &Thresholds,
) -> GpuMemory {
    let own = part == Some(Basis::OwnFigure);
    let part = part.filter(|_| !own);
    let addressing = matches!(gpu.addressing_mode.as_deref(), Ok("ATS" | "HMM"));
    let report = match gpu.memory {
        Ok(figures) if figures.total == Bytes(0) => MemoryReport::Zero,
        Ok(figures) => {
            let share = pool.ok().and_then(|pool| figures.total.share_of(pool)).map(|r| r.0);
            let alike = |share: f64| (share - 1.0).abs() <= t.whole_pool_within.0;
            match (part, share) {
                (None, share) if !own && addressing && machine.arm != Some(false) => match share {
                    Some(share) if alike(share) => MemoryReport::WholePool,
                    Some(_) => MemoryReport::Dedicated,
                    None => MemoryReport::Failed,
                },
                (None, _) => MemoryReport::Dedicated,
                (Some(_), Some(share)) if share < t.carve_out_below.0 => MemoryReport::CarveOut,
                (Some(_), Some(_)) => MemoryReport::WholePool,
                (Some(_), None) => MemoryReport::Failed,
            }
        }
        Err(Missing::Unsupported) => MemoryReport::Unsupported,
        Err(Missing::NotAvailable) if machine.smi => MemoryReport::Unsupported,
        Err(_) => MemoryReport::Failed,
    };
    // No x86 machine shares its memory with an NVIDIA GPU, whatever a driver fails to tell.
    let (sharing, basis) = match (part, report) {
        (Some(basis), _) => (Sharing::Shared, basis),
        (None, _) if own => (Sharing::Separate, Basis::OwnFigure),
        (None, MemoryReport::Unsupported) if addressing && machine.arm == Some(true) => {
            (Sharing::Shared, Basis::NoFigureAndAddressing)
        }
        (None, MemoryReport::Dedicated) => (Sharing::Separate, Basis::OwnFigure),
        _ => (Sharing::Unknown, Basis::Nothing),
    };
    GpuMemory { index: gpu.index, report, sharing, basis, hidden: hidden(gpu, basis) }
}

/// What the part is, where that settles it.
fn part(gpu: &Gpu) -> Option<Basis> {
    let name = gpu.name.as_deref().unwrap_or_default();
    if gpu.pci_device_id.as_deref().is_ok_and(|id| id.eq_ignore_ascii_case(GB10_DEVICE))
        || name.split_ascii_whitespace().any(|word| word == GB10_NAME)
    {
        return Some(Basis::Gb10);
    }
    INTEGRATED.iter().any(|known| name.contains(known)).then_some(Basis::IntegratedPart)
}

/// Whether the lists leave somebody out: nobody is listed, and yet the GPU is busy, or a GB10 is in the
/// state that only a context keeps it in (without one it falls to P8; of other parts that is not known).
/// A GPU that is busy beside nothing but graphics contexts may be busy with those.
fn hidden(gpu: &Gpu, basis: Basis) -> Hidden {
    if !gpu.lists_everybody() {
        return Hidden::Unknown;
    }
    if gpu.computes() {
        return Hidden::No;
    }
    let nobody = gpu.processes.as_ref().is_ok_and(Vec::is_empty);
    let context = match (gpu.performance_state, basis) {
        (Ok(state), Basis::Gb10) => Some(state.0 == 0),
        (Err(_), Basis::Gb10) => None,
        _ => Some(false),
    };
    let in_use = match (gpu.utilization.map(|share| share.0 > 0.0), context) {
        (Ok(true), _) => Some(true),
        (_, Some(true)) if nobody => Some(true),
        (Ok(false), Some(_)) => Some(false),
        _ => None,
    };
    match in_use {
        Some(false) => Hidden::No,
        Some(true) if nobody => Hidden::Yes,
        _ => Hidden::Unknown,
    }
}

/// What the driver charges to the processes of one GPU, and whether every one has a figure.
pub(super) fn charged(processes: &[GpuProcess]) -> (Bytes, bool) {
    let sum = processes.iter().filter_map(|process| process.memory.ok()).sum();
    (sum, processes.iter().all(|process| process.memory.is_ok()))
}
