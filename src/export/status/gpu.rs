//! The GPU's part of the status document.

use super::{Figure, Map, bytes, map};
use crate::model::frame::Frame;
use crate::model::gpu::{ClockKind, EventReason, Gpu, TIMED};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{GpuMemory, Hidden, Holder};
use crate::units::{Celsius, Count, Hertz, Ratio, Seconds, SignedBytes, Watts};
use serde::{Deserialize, Serialize};

/// Through what the GPU was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriverPart {
    /// `nvml` or `nvidia_smi`.
    pub via: Figure<String>,
    /// The driver's version.
    pub version: Figure<String>,
    /// The NVML library's version.
    pub library: Figure<String>,
    /// What was loaded or run.
    pub path: Figure<String>,
    /// The newest CUDA version that it serves.
    pub cuda: Figure<String>,
    /// Xid errors by GPU and number, `0:13`.
    pub xids: Figure<Map<u64>>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuPart {
    /// The driver's index.
    pub index: u32,
    /// Product name.
    pub name: Figure<String>,
    /// Whether it shares the pool: shared, separate, unknown.
    pub sharing: String,
    /// What that rests on.
    pub basis: String,
    /// What the driver says about memory.
    pub memory_report: String,
    /// Its figures, whatever they are worth, in bytes.
    pub memory_reported: Map<Figure<u64>>,
    /// Share of time in which a kernel ran.
    pub utilization: Figure<f64>,
    /// Temperature.
    pub celsius: Figure<f64>,
    /// Margin to the highest operating temperature.
    pub margin_celsius: Figure<f64>,
    /// Power, mean of a second.
    pub watts: Figure<f64>,
    /// Clocks by name.
    pub clock_hertz: Map<Figure<f64>>,
    /// Highest clocks by name.
    pub clock_max_hertz: Map<Figure<f64>>,
    /// Performance state.
    pub performance_state: Figure<u64>,
    /// Event reasons that hold.
    pub event_reasons: Figure<Vec<String>>,
    /// Time under event reasons since the driver was loaded.
    pub event_seconds: Map<Figure<f64>>,
    /// Processes.
    pub processes: Figure<u64>,
    /// Processes without a figure.
    pub processes_without_figure: Figure<u64>,
    /// Whether something uses it that its process lists do not show; nothing where that is not known.
    pub hidden_processes: Option<bool>,
}

/// Who holds what the kernel has no account of, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnaccountedPart {
    /// How far to trust it.
    pub attribution: String,
    /// By holder.
    pub holders: Map<Figure<u64>>,
    /// What the driver charges to processes, before it is cut.
    pub charged: Figure<u64>,
    /// How many processes those are.
    pub processes: Figure<u64>,
    /// What remained while nothing computed.
    pub idle_remainder: Figure<u64>,
}

/// CUDA's view of memory, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CudaPart {
    /// What its query calls free.
    pub free: Figure<u64>,
    /// Room that exists and that it does not show. Negative where the kernel would give less.
    pub blind: Figure<i64>,
}

fn text(reading: &Reading<String>) -> Figure<String> {
    Figure::of(reading.as_ref().map_err(|m| *m), Clone::clone)
}

pub(super) fn driver(frame: &Frame) -> DriverPart {
    let gpus = &frame.snapshot.gpus;
    DriverPart {
        via: Figure::of(gpus.via, |via| via.as_str().to_owned()),
        version: text(&gpus.driver),
        library: text(&gpus.library),
        path: text(&gpus.path),
        cuda: text(&gpus.cuda),
        xids: Figure::of(gpus.xids.as_ref().map_err(|m| *m), |xids| {
            let seen = xids.iter().filter(|(_, count)| **count > 0);
            seen.map(|((gpu, xid), count)| (format!("{gpu}:{xid}"), *count)).collect()
        }),
    }
}

pub(super) fn gpus(frame: &Frame) -> Vec<GpuPart> {
    let memory = frame.verdicts.gpus.iter().flatten();
    frame.snapshot.gpus.each().zip(memory).map(|(gpu, memory)| one(gpu, *memory)).collect()
}

fn one(gpu: &Gpu, memory: GpuMemory) -> GpuPart {
    let hertz = |clocks: &[Reading<Hertz>]| {
        map(ClockKind::ALL, ClockKind::as_str, |i, _| Figure::of(clocks[i], |Hertz(h)| h))
    };
    let figures = gpu.memory;
    let processes = gpu.processes.as_ref().map_err(|m| *m);
    let without = |list: &Vec<_>| list.iter().filter(|p: &&_| figureless(p)).count() as u64;
    GpuPart {
        index: gpu.index,
        name: text(&gpu.name),
        sharing: memory.sharing.as_str().to_owned(),
        basis: memory.basis.as_str().to_owned(),
        memory_report: memory.report.as_str().to_owned(),
        memory_reported: [
            ("total", figures.map(|m| m.total)),
            ("free", figures.map(|m| m.free)),
            ("used", figures.map(|m| m.used)),
        ]
        .map(|(name, figure)| (name.to_owned(), bytes(figure)))
        .into(),
        utilization: Figure::of(gpu.utilization, |Ratio(share)| share),
        celsius: Figure::of(gpu.temperature, |Celsius(c)| c),
        margin_celsius: Figure::of(gpu.margin, |Celsius(c)| c),
        watts: Figure::of(gpu.mean_power(), |Watts(w)| w),
        clock_hertz: hertz(&gpu.clocks),
        clock_max_hertz: hertz(&gpu.clocks_max),
        performance_state: Figure::of(gpu.performance_state, |Count(state)| state),
        event_reasons: Figure::of(gpu.event_reasons, |Count(mask)| {
            let holds = EventReason::ALL.iter().filter(|reason| mask & reason.bit() != 0);
            holds.map(|reason| reason.as_str().to_owned()).collect()
        }),
        event_seconds: TIMED
            .iter()
            .zip(gpu.event_seconds)
            .map(|(reason, time)| (reason.as_str().to_owned(), Figure::of(time, |Seconds(s)| s)))
            .collect(),
        processes: Figure::of(processes, |list| list.len() as u64),
        processes_without_figure: Figure::of(processes, without),
        hidden_processes: match memory.hidden {
            Hidden::Yes => Some(true),
            Hidden::No => Some(false),
            Hidden::Unknown => None,
        },
    }
}

const fn figureless(process: &crate::model::gpu::GpuProcess) -> bool {
    matches!(process.memory, Err(Missing::NotAvailable | Missing::Unsupported))
}

pub(super) fn unaccounted(frame: &Frame) -> UnaccountedPart {
    let u = &frame.verdicts.unaccounted;
    UnaccountedPart {
        attribution: u.attribution.as_str().to_owned(),
        holders: map(Holder::ALL, Holder::as_str, |_, holder| bytes(u.part(holder))),
        charged: bytes(u.charged),
        processes: Figure::of(u.processes, |count| count),
        idle_remainder: bytes(u.idle_remainder),
    }
}

pub(super) fn cuda(frame: &Frame) -> CudaPart {
    let v = &frame.verdicts;
    CudaPart { free: bytes(v.cuda_free), blind: Figure::of(v.cuda_blind, |SignedBytes(b)| b) }
}
