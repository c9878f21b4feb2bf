//! The GPU, and what it has to do with the pool.

use super::{Label, Samples, flag, metric, rows};
use crate::model::frame::Frame;
use crate::model::gpu::{ClockKind, EventReason, Gpu, GpuProcess, MemoryFigures, TIMED};
use crate::model::reading::Reading;
use crate::model::sharing::{Attribution, CudaFreeSource, Hidden, Holder, MemoryReport, Sharing};
use crate::units::{Bytes, Celsius, Count, Hertz, Joules, Ratio, Seconds, SignedBytes, Watts};

fn index(gpu: &Gpu) -> Label {
    gpu.index.to_string().into()
}

/// One sample for each GPU that gives the reading.
fn each<T>(
    f: &Frame,
    out: &mut Samples,
    reading: impl Fn(&Gpu) -> Reading<T>,
    value: impl Fn(T) -> f64,
) {
    for gpu in f.snapshot.gpus.each() {
        out.each([index(gpu)], reading(gpu), &value);
    }
}

fn celsius(Celsius(degrees): Celsius) -> f64 {
    degrees
}

fn watts(Watts(watts): Watts) -> f64 {
    watts
}

fn clocks(f: &Frame, out: &mut Samples, of: impl Fn(&Gpu) -> &[Reading<Hertz>; 4]) {
    for gpu in f.snapshot.gpus.each() {
        for (kind, clock) in ClockKind::ALL.iter().zip(of(gpu)) {
            out.each([index(gpu), kind.as_str().into()], *clock, |Hertz(hertz)| hertz);
        }
    }
}

/// A figure of the process lists, of GPUs whose lists are not known to hide somebody.
fn listed(f: &Frame, out: &mut Samples, figure: impl Fn(&[GpuProcess]) -> f64) {
    for (gpu, memory) in f.snapshot.gpus.each().zip(f.verdicts.gpus.iter().flatten()) {
        if let (Ok(list), false) = (&gpu.processes, memory.hidden == Hidden::Yes) {
            out.add([index(gpu)], figure(list));
        }
    }
}

/// The driver's figures, of GPUs that have memory of their own and of no other: for the others they are
/// no memory of the GPU.
fn reported(f: &Frame, out: &mut Samples, figure: impl Fn(MemoryFigures) -> Bytes) {
    for (gpu, memory) in f.snapshot.gpus.each().zip(f.verdicts.gpus.iter().flatten()) {
        if memory.report == MemoryReport::Dedicated {
            out.each([index(gpu)], gpu.memory, |figures| figure(figures).as_f64());
        }
    }
}

rows![
    GPU_INFO = metric!(
        "gb10_gpu_info",
        Info,
        None,
        [
            "gpu",
            "name",
            "uuid",
            "bus",
            "pci_device_id",
            "vbios",
            "compute_capability",
            "addressing_mode"
        ],
        [Gpu],
        Stable,
        "NVML, nvidia-smi",
        "What each GPU is. A label that the driver does not tell is empty.",
        |f, out| for gpu in f.snapshot.gpus.each() {
            let text =
                |reading: &Reading<String>| Label::Owned(reading.clone().unwrap_or_default());
            out.add(
                [
                    index(gpu),
                    text(&gpu.name),
                    text(&gpu.uuid),
                    text(&gpu.bus),
                    text(&gpu.pci_device_id),
                    text(&gpu.vbios),
                    text(&gpu.compute_capability),
                    text(&gpu.addressing_mode),
                ],
                1.0,
            );
        }
    ),
    GPU_DRIVER_INFO = metric!(
        "gb10_gpu_driver_info",
        Info,
        None,
        ["via", "driver", "library", "cuda", "path"],
        [Gpu],
        Stable,
        "NVML, nvidia-smi",
        "Through what the GPU is asked, and the versions of what answers: driver, NVML library, newest CUDA that it serves, and the file that was loaded or run.",
        |f, out| {
            let gpus = &f.snapshot.gpus;
            if let Ok(via) = gpus.via {
                let text =
                    |reading: &'_ Reading<String>| reading.as_deref().ok().map(str::to_owned);
                let labels =
                    [text(&gpus.driver), text(&gpus.library), text(&gpus.cuda), text(&gpus.path)];
                let [driver, library, cuda, path] = labels.each_ref().map(Option::as_deref);
                out.info([Some(via.as_str()), driver, library, cuda, path]);
            }
        }
    ),
    GPU_UTILIZATION_RATIO = metric!(
        "gb10_gpu_utilization_ratio",
        Gauge,
        Ratio,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML utilization, nvidia-smi utilization.gpu",
        "Share of the last sampling period in which a kernel ran. A busy GB10 says 0.96.",
        |f, out| each(f, out, |g| g.utilization, |Ratio(share)| share)
    ),
    GPU_TEMPERATURE_CELSIUS = metric!(
        "gb10_gpu_temperature_celsius",
        Gauge,
        Celsius,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML, nvidia-smi temperature.gpu",
        "Temperature of the GPU. The board's hottest zone reads about ten degrees more, and it is the one that cuts the power.",
        |f, out| each(f, out, |g| g.temperature, celsius)
    ),
    GPU_TEMPERATURE_MARGIN_CELSIUS = metric!(
        "gb10_gpu_temperature_margin_celsius",
        Gauge,
        Celsius,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML margin temperature, nvidia-smi temperature.gpu.tlimit",
        "Degrees left to the highest operating temperature. Software throttling starts long before it is used up.",
        |f, out| each(f, out, |g| g.margin, celsius)
    ),
    GPU_POWER_WATTS = metric!(
        "gb10_gpu_power_watts",
        Gauge,
        Watts,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML power average, nvidia-smi power.draw",
        "Power of the GPU alone, mean of a second. CPU, memory and network come on top; the driver does not report them.",
        |f, out| each(f, out, Gpu::mean_power, watts)
    ),
    GPU_POWER_INSTANT_WATTS = metric!(
        "gb10_gpu_power_instant_watts",
        Gauge,
        Watts,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML power instant, nvidia-smi power.draw.instant",
        "Power of the GPU alone at an instant.",
        |f, out| each(f, out, |g| g.power_instant, watts)
    ),
    GPU_ENERGY_JOULES_TOTAL = metric!(
        "gb10_gpu_energy_joules_total",
        Counter,
        Joules,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML total energy consumption",
        "Energy of the GPU alone since the driver was loaded.",
        |f, out| each(f, out, |g| g.energy, |Joules(joules)| joules)
    ),
    GPU_CLOCK_HERTZ = metric!(
        "gb10_gpu_clock_hertz",
        Gauge,
        Hertz,
        ["gpu", "clock"],
        [Gpu],
        Stable,
        "NVML, nvidia-smi clocks.*",
        "Clocks now. The SM clock is the one that throttling lowers; a GB10 does not tell its memory clock.",
        |f, out| clocks(f, out, |g| &g.clocks)
    ),
    GPU_CLOCK_MAX_HERTZ = metric!(
        "gb10_gpu_clock_max_hertz",
        Gauge,
        Hertz,
        ["gpu", "clock"],
        [Gpu],
        Stable,
        "NVML, nvidia-smi clocks.max.*",
        "Highest clocks. A busy GB10 runs its SMs at 2.0 to 2.5 GHz of 3.0; that is no throttling.",
        |f, out| clocks(f, out, |g| &g.clocks_max)
    ),
    GPU_PERFORMANCE_STATE = metric!(
        "gb10_gpu_performance_state",
        Gauge,
        None,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML, nvidia-smi pstate",
        "Performance state, 0 the fastest. A GB10 is in 0 while a CUDA context is open, even an idle one, and falls to 8 without.",
        |f, out| each(f, out, |g| g.performance_state, Count::as_f64)
    ),
    GPU_EVENT_REASON = metric!(
        "gb10_gpu_event_reason",
        Gauge,
        None,
        ["gpu", "reason"],
        [Gpu],
        Stable,
        "NVML clocks event reasons, nvidia-smi clocks_event_reasons.active",
        "1 for each reason that holds the clocks where they are now; several can hold at once. idle is one of them, and sw_power_cap is normal under full load.",
        |f, out| for gpu in f.snapshot.gpus.each() {
            if let Ok(Count(mask)) = gpu.event_reasons {
                for reason in EventReason::ALL {
                    let on = flag(mask & reason.bit() != 0);
                    out.add([index(gpu), reason.as_str().into()], on);
                }
            }
        }
    ),
    GPU_EVENT_REASON_SECONDS_TOTAL = metric!(
        "gb10_gpu_event_reason_seconds_total",
        Counter,
        Seconds,
        ["gpu", "reason"],
        [Gpu],
        Stable,
        "NVML field values (nanoseconds), nvidia-smi clocks_event_reasons_counters.* (microseconds)",
        "Time under an event reason since the driver was loaded. Counts what a glance at the reasons misses. Hours of sw_power_cap are normal.",
        |f, out| for gpu in f.snapshot.gpus.each() {
            for (reason, seconds) in TIMED.iter().zip(gpu.event_seconds) {
                out.each([index(gpu), reason.as_str().into()], seconds, |Seconds(s)| s);
            }
        }
    ),
    GPU_XID_ERRORS_TOTAL = metric!(
        "gb10_gpu_xid_errors_total",
        Counter,
        Count,
        ["gpu", "xid"],
        [Gpu],
        Stable,
        "NVML events",
        "Xid errors since the exporter started. Those that these machines are known for are counted from zero; if several occur between two rounds, all are counted under the last number.",
        |f, out| for ((gpu, xid), count) in f.snapshot.gpus.xids.iter().flatten() {
            let labels = [gpu.to_string().into(), xid.to_string().into()];
            out.add(labels, Count(*count).as_f64());
        }
    ),
    GPU_PROCESSES = metric!(
        "gb10_gpu_processes",
        Gauge,
        Count,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML process lists, nvidia-smi --query-compute-apps",
        "Processes that have a context on the GPU, each once. Absent when the GPU is in use and its lists are empty, as in a container without the host's pids.",
        |f, out| listed(f, out, |list| Count(list.len() as u64).as_f64())
    ),
    GPU_PROCESSES_MEMORY_BYTES = metric!(
        "gb10_gpu_processes_memory_bytes",
        Gauge,
        Bytes,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML process lists, nvidia-smi --query-compute-apps",
        "Memory that the driver charges to the processes on the GPU: each process once, with the largest figure of any list. Processes without a figure are not in it; gb10_pool_attribution says partial then.",
        |f, out| listed(f, out, |list| {
            list.iter().filter_map(|process| process.memory.ok()).sum::<Bytes>().as_f64()
        })
    ),
    GPU_MEMORY_REPORT = metric!(
        "gb10_gpu_memory_report",
        StateSet,
        None,
        ["gpu", "state"],
        [Gpu, Meminfo],
        Stable,
        "NVML memory info, nvidia-smi memory.total",
        "What the driver says when it is asked for memory: unsupported (the normal answer of a GB10), zero, whole_pool, carve_out, dedicated, failed.",
        |f, out| for gpu in f.verdicts.gpus.iter().flatten() {
            for state in MemoryReport::ALL {
                let labels = [gpu.index.to_string().into(), state.as_str().into()];
                out.add(labels, flag(*state == gpu.report));
            }
        }
    ),
    GPU_MEMORY_SHARING = metric!(
        "gb10_gpu_memory_sharing",
        StateSet,
        None,
        ["gpu", "state"],
        [Gpu, Meminfo, Kernel],
        Stable,
        "NVML and /proc/meminfo",
        "Whether the GPU shares the pool with the CPU: shared, separate (a discrete card), unknown.",
        |f, out| for gpu in f.verdicts.gpus.iter().flatten() {
            for state in Sharing::ALL {
                let labels = [gpu.index.to_string().into(), state.as_str().into()];
                out.add(labels, flag(*state == gpu.sharing));
            }
        }
    ),
    GPU_MEMORY_REPORTED_SIZE_BYTES = metric!(
        "gb10_gpu_memory_reported_size_bytes",
        Gauge,
        Bytes,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML memory info, nvidia-smi memory.total",
        "Memory of a GPU that has memory of its own. Absent for one that shares the pool, whatever its driver says.",
        |f, out| reported(f, out, |m| m.total)
    ),
    GPU_MEMORY_REPORTED_USED_BYTES = metric!(
        "gb10_gpu_memory_reported_used_bytes",
        Gauge,
        Bytes,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML memory info, nvidia-smi memory.used",
        "Used memory of a GPU that has memory of its own.",
        |f, out| reported(f, out, |m| m.used)
    ),
    GPU_MEMORY_REPORTED_FREE_BYTES = metric!(
        "gb10_gpu_memory_reported_free_bytes",
        Gauge,
        Bytes,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML memory info, nvidia-smi memory.free",
        "Free memory of a GPU that has memory of its own.",
        |f, out| reported(f, out, |m| m.free)
    ),
    CUDA_FREE_BYTES = metric!(
        "gb10_cuda_free_bytes",
        Gauge,
        Bytes,
        ["source"],
        [Gpu, Meminfo],
        Stable,
        "/proc/meminfo MemFree",
        "What cudaMemGetInfo calls free. On a GB10 that is MemFree to the byte; absent on a machine that is not proven to be one (gb10_gpu_memory_sharing), and without a driver.",
        |f, out| {
            let source = CudaFreeSource::Meminfo.as_str();
            out.each([source.into()], f.verdicts.cuda_free, Bytes::as_f64);
        }
    ),
    CUDA_BLIND_BYTES = metric!(
        "gb10_cuda_blind_bytes",
        Gauge,
        Bytes,
        [],
        [Gpu, Meminfo],
        Stable,
        "MemAvailable - MemFree",
        "Room that exists and that cudaMemGetInfo does not show, nearly all of it page cache. Programs that believe CUDA fail although it is there. Negative where the kernel would give less than CUDA promises.",
        |f, out| out.one(f.verdicts.cuda_blind, SignedBytes::as_f64)
    ),
    POOL_UNACCOUNTED_BYTES = metric!(
        "gb10_pool_unaccounted_bytes",
        Gauge,
        Bytes,
        ["holder"],
        [Gpu, Meminfo, Nvidia],
        Stable,
        "NVML process lists, /proc/meminfo, /proc/driver/nvidia/params",
        "Who holds what the kernel has no account of: gpu_processes (by the driver's figures), page_pools (pages that the driver keeps; only where it has pools on and the remainder is far above what the idle box needs), unknown. The parts that are there add up to the segment unaccounted. Absent without a GPU that shares the pool, or when its processes cannot be seen.",
        |f, out| for holder in Holder::ALL {
            out.each([holder.as_str().into()], f.verdicts.unaccounted.part(*holder), Bytes::as_f64);
        }
    ),
    POOL_ATTRIBUTION = metric!(
        "gb10_pool_attribution",
        StateSet,
        None,
        ["state"],
        [Gpu, Meminfo],
        Stable,
        "NVML process lists",
        "How far gb10_pool_unaccounted_bytes can be trusted: complete, estimated (what nothing else explains is put down to page pools), partial (a process without a figure), clamped (more is charged to processes than is unaccounted), hidden (the GPU is in use and no process is listed), not_shared, unknown.",
        |f, out| for state in Attribution::ALL {
            let on = flag(*state == f.verdicts.unaccounted.attribution);
            out.add([state.as_str().into()], on);
        }
    ),
    POOL_IDLE_REMAINDER_BYTES = metric!(
        "gb10_pool_idle_remainder_bytes",
        Gauge,
        Bytes,
        [],
        [Gpu, Meminfo],
        Stable,
        "learned, kept in the state file",
        "The smallest part of the pool that nothing accounted for while nothing computed on this box's GPU, with this driver: what holder unknown amounts to when all is well. Absent until learned.",
        |f, out| out.one(f.verdicts.unaccounted.idle_remainder, Bytes::as_f64)
    ),
];
