//! Who holds the pool: workloads, by class and unit.

use super::{Label, Samples, metric, rows};
use crate::model::frame::Frame;
use crate::model::reading::Reading;
use crate::model::workload::{CapKind, Job, Phase, View, Workload};
use crate::units::{Bytes, Count};

/// One sample for each workload that has the figure.
fn each<T>(
    f: &Frame,
    out: &mut Samples,
    figure: impl Fn(&Workload) -> Reading<T>,
    value: impl Fn(T) -> f64,
) {
    for workload in f.verdicts.workloads.totals.iter().flat_map(|all| all.iter()) {
        out.each(labels(workload), figure(workload), &value);
    }
}

fn labels(workload: &Workload) -> [Label; 2] {
    [Label::Owned(workload.class.as_str().to_owned()), Label::Owned(workload.unit.to_string())]
}

fn bytes(bytes: Bytes) -> f64 {
    bytes.as_f64()
}

fn count(count: Count) -> f64 {
    count.as_f64()
}

/// How many jobs of each workload are in which state.
fn states<const N: usize>(
    f: &Frame,
    out: &mut Samples,
    names: [&'static str; N],
    counts: impl Fn(&Workload) -> Reading<[u64; N]>,
) {
    for workload in f.verdicts.workloads.totals.iter().flat_map(|all| all.iter()) {
        // One that has no job now has no state either.
        let Some(counts) = counts(workload).ok().filter(|_| workload.processes > 0) else {
            continue;
        };
        for (name, jobs) in names.iter().zip(counts) {
            let [class, unit] = labels(workload);
            out.add([class, unit, (*name).into()], Count(jobs).as_f64());
        }
    }
}

fn names<T: Copy, const N: usize>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> [&'static str; N] {
    std::array::from_fn(|i| all.get(i).copied().map_or("", &name))
}

/// Jobs whose bound is none, because they hold more.
fn exceeded(f: &Frame, out: &mut Samples) {
    for workload in f.verdicts.workloads.totals.iter().flat_map(|all| all.iter()) {
        let of = |job: &&Job| job.class == workload.class && job.unit == workload.unit;
        let jobs = f.verdicts.workloads.jobs.iter().flat_map(|jobs| jobs.iter()).filter(of);
        let (mut bounded, mut over) = (0, 0);
        for job in jobs.filter(|job| job.cap.bytes.is_ok()) {
            bounded += 1;
            over += u64::from(job.cap.exceeded);
        }
        if bounded > 0 {
            out.add(labels(workload), Count(over).as_f64());
        }
    }
}

rows![
    WORKLOAD_GPU_MEMORY_BYTES = metric!(
        "gb10_workload_gpu_memory_bytes",
        Gauge,
        Bytes,
        ["workload", "unit"],
        [Gpu, Processes],
        Stable,
        "NVML",
        "What the driver charges to the jobs of a class in a unit, on all GPUs. On a GB10 it is part of the pool, and neither resident memory nor a control group shows it. Memory that CUDA manages is under-reported. The unit \"other\" are those beyond job.shown.",
        |f, out| each(f, out, |w| w.gpu, bytes)
    ),
    WORKLOAD_RESIDENT_BYTES = metric!(
        "gb10_workload_resident_bytes",
        Gauge,
        Bytes,
        ["workload", "unit"],
        [Processes],
        Stable,
        "/proc/PID/status VmRSS",
        "Resident memory of the jobs' processes, mapped files included. Pages that several processes share are counted in each. Memory of the GPU is not in it.",
        |f, out| each(f, out, |w| w.resident, bytes)
    ),
    WORKLOAD_SWAP_BYTES = metric!(
        "gb10_workload_swap_bytes",
        Gauge,
        Bytes,
        ["workload", "unit"],
        [Processes],
        Stable,
        "/proc/PID/status VmSwap",
        "Memory of the jobs' processes that is in swap.",
        |f, out| each(f, out, |w| w.swap, bytes)
    ),
    WORKLOAD_GROUP_MEMORY_BYTES = metric!(
        "gb10_workload_group_memory_bytes",
        Gauge,
        Bytes,
        ["workload", "unit"],
        [Processes],
        Stable,
        "cgroup memory.current",
        "What the control groups of the jobs account for. The driver's allocations for the GPU are not in it, and limits of it do not bind them: compare gb10_workload_gpu_memory_bytes. A group that holds other programs as well counts them, too.",
        |f, out| each(f, out, |w| w.group, bytes)
    ),
    WORKLOAD_MAJOR_FAULTS_TOTAL = metric!(
        "gb10_workload_major_faults_total",
        Counter,
        Count,
        ["workload", "unit"],
        [Processes],
        Stable,
        "/proc/PID/stat majflt",
        "Page faults of the jobs' processes that waited for a disk, since the exporter first saw the workload. What a process counted before that is not in it, and what one has counted stays in it when it ends.",
        |f, out| each(f, out, |w| w.major_faults, count)
    ),
    WORKLOAD_PROCESSES = metric!(
        "gb10_workload_processes",
        Gauge,
        Count,
        ["workload", "unit"],
        [Processes],
        Stable,
        "/proc",
        "Processes of the jobs. 0 for a workload whose last job has ended within the hour.",
        |f, out| each(f, out, |w| Ok(Count(w.processes)), count)
    ),
    WORKLOAD_STARTS_TOTAL = metric!(
        "gb10_workload_starts_total",
        Counter,
        Count,
        ["workload", "unit"],
        [Processes],
        Stable,
        "/proc",
        "Jobs that began while the exporter was watching. Those that were there before it are not in it.",
        |f, out| each(f, out, |w| w.starts, count)
    ),
    WORKLOAD_ENDS_TOTAL = metric!(
        "gb10_workload_ends_total",
        Counter,
        Count,
        ["workload", "unit", "phase"],
        [Processes],
        Stable,
        "derived",
        "Jobs that ended while the exporter was watching, by what they were doing: a loop of restarts shows as ends while starting, loading or warming. Why they ended is not said.",
        |f, out| for workload in f.verdicts.workloads.totals.iter().flat_map(|all| all.iter()) {
            for (phase, ends) in Phase::ALL.iter().zip(workload.ends.iter().flatten()) {
                let [class, unit] = labels(workload);
                out.add([class, unit, phase.as_str().into()], Count(*ends).as_f64());
            }
        }
    ),
    WORKLOAD_CAP_BYTES = metric!(
        "gb10_workload_cap_bytes",
        Gauge,
        Bytes,
        ["workload", "unit"],
        [Processes],
        Stable,
        "the jobs' flags",
        "What the jobs may take of GPU memory by their own flags, added up; of a key-value cache alone where that is all that has a size (gb10_workload_cap_kind). Absent when one of them has no bound or one that cannot be seen: no default is assumed. A control group's limit is none: it does not bind the GPU's memory.",
        |f, out| each(f, out, |w| w.cap, bytes)
    ),
    WORKLOAD_CAP_KIND = metric!(
        "gb10_workload_cap_kind",
        Gauge,
        Count,
        ["workload", "unit", "kind"],
        [Processes],
        Stable,
        "the jobs' flags",
        "Jobs by what bounds their GPU memory: whole (a share of the pool), kv_only (the key-value cache alone), fraction_of_free (a share of what was free at the start), fixed (what they have loaded), none, unknown (hidden in a file, a wrapper or the Python interface).",
        |f, out| states(f, out, names(CapKind::ALL, CapKind::as_str), |w| Ok(w.cap_kinds))
    ),
    WORKLOAD_CAP_EXCEEDED = metric!(
        "gb10_workload_cap_exceeded",
        Gauge,
        Count,
        ["workload", "unit"],
        [Gpu, Processes],
        Stable,
        "the jobs' flags and NVML",
        "Jobs that hold more than their bound, job.cap_tolerance and job.cap_overshoot included: for them it is no bound. Absent where no job has one in bytes.",
        exceeded
    ),
    WORKLOAD_PHASE = metric!(
        "gb10_workload_phase",
        Gauge,
        Count,
        ["workload", "unit", "phase"],
        [Gpu, Processes],
        Stable,
        "derived",
        "Jobs by what they do: starting, loading (what they hold grows), warming (it stopped growing a moment ago, or something compiles), serving (settled and at work; of a trainer, training), idle (settled and at rest), unknown. Absent for launchers, compilers and the desktop.",
        |f, out| states(f, out, names(Phase::ALL, Phase::as_str), |w| w.phases)
    ),
    WORKLOAD_LOAD_PEAK_BYTES = metric!(
        "gb10_workload_load_peak_bytes",
        Gauge,
        Bytes,
        ["workload", "unit"],
        [Gpu, Processes],
        Stable,
        "derived",
        "The most that a job of the workload held while it loaded, GPU memory and resident memory together, as far back as the state file goes. A load can take twice the model for a while. Absent until a load was seen.",
        |f, out| each(f, out, |w| w.load_peak, bytes)
    ),
    WORKLOAD_VIEW = metric!(
        "gb10_workload_view",
        StateSet,
        None,
        ["view"],
        [Processes],
        Stable,
        "/proc and NVML",
        "How much of the box's processes can be seen: full, own_only (other users' are hidden), other_namespace (the GPU is used by processes that are not to be seen here), nobody (the GPU is in use and its driver lists nobody), unknown.",
        |f, out| if let Ok(now) = f.verdicts.workloads.view {
            for view in View::ALL {
                out.add([view.as_str().into()], super::flag(*view == now));
            }
        }
    ),
];
