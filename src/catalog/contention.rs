//! Whether jobs fight, what the kernel has to do about it, and what is still held after a job has ended.

use super::{Label, Samples, flag, metric, rows};
use crate::model::contention::{ContentionState, Orphan, PressureState, Symptom};
use crate::model::frame::Frame;
use crate::model::pool::Reader;
use crate::units::{Bytes, Count, Ratio, Seconds, SignedBytes};

/// Orphans of a class and unit, seen ones and suspected ones.
fn orphaned(f: &Frame, out: &mut Samples) {
    let orphans: &[Orphan] = &f.verdicts.release.orphans;
    for (i, orphan) in orphans.iter().enumerate() {
        let alike = |other: &&Orphan| {
            (&other.class, &other.unit, other.seen) == (&orphan.class, &orphan.unit, orphan.seen)
        };
        if orphans[..i].iter().any(|other| alike(&other)) {
            continue;
        }
        let held: Bytes = orphans.iter().filter(alike).map(|orphan| orphan.held).sum();
        let class = Label::Owned(orphan.class.as_str().to_owned());
        let proof = if orphan.seen { "seen" } else { "suspected" };
        out.add([class, Label::Owned(orphan.unit.to_string()), proof.into()], held.as_f64());
    }
}

rows![
    CONTENTION_STATE = metric!(
        "gb10_contention_state",
        StateSet,
        None,
        ["state"],
        [Gpu, Processes, Meminfo],
        Stable,
        "derived",
        "Whether the jobs on the box fit together: none (at most one that counts), shared (they fit, with the reserve), overcommitted (two or more heavy ones, or their sizes and caps are more than the pool without its reserve), evicting (overcommitted or little left, and memory in use is proven to be taken away and read back), unknown (a cap that would decide cannot be seen). A job is judged by its cap, not by its presence.",
        |f, out| for state in ContentionState::ALL {
            out.add([state.as_str().into()], flag(*state == f.verdicts.contention.state));
        }
    ),
    CONTENTION_HEAVY_JOBS = metric!(
        "gb10_contention_heavy_jobs",
        Gauge,
        Count,
        [],
        [Gpu, Processes],
        Stable,
        "derived",
        "Jobs that hold 4 GiB (contention.heavy_from) without a cap, or hold or may take half of the pool (contention.heavy_share). Absent when the cap of one that may be cannot be seen.",
        |f, out| out.one(f.verdicts.contention.heavy, |n| Count(n).as_f64())
    ),
    CONTENTION_UNCAPPED_JOBS = metric!(
        "gb10_contention_uncapped_jobs",
        Gauge,
        Count,
        [],
        [Gpu, Processes],
        Stable,
        "derived",
        "Jobs that hold something and that nothing bounds, or that hold more than their bound.",
        |f, out| out.one(f.verdicts.contention.uncapped, |n| Count(n).as_f64())
    ),
    CONTENTION_COMMITTED_RATIO = metric!(
        "gb10_contention_committed_ratio",
        Gauge,
        Ratio,
        [],
        [Gpu, Processes, Meminfo],
        Stable,
        "derived",
        "What the jobs hold or may take by their caps, whichever is more of each, as a share of the pool. Those without a cap count with what they hold. May be above 1.",
        |f, out| out.one(f.verdicts.contention.committed, |Ratio(share)| share)
    ),
    PRESSURE_STATE = metric!(
        "gb10_pressure_state",
        StateSet,
        None,
        ["state"],
        [Meminfo, Vmstat, Pressure],
        Stable,
        "derived",
        "How hard it is to get memory: comfortable, tight (little is left: how many boxes are meant to run), reclaiming (programs have to reclaim memory themselves), thrashing (what was reclaimed is read back at once, and work stands still for it), exhausted (nothing is left, or something was killed for want of memory), unknown. The level alone is never more than tight, and a load that will fit is no crisis.",
        |f, out| for state in PressureState::ALL {
            out.add([state.as_str().into()], flag(*state == f.verdicts.pressed.state));
        }
    ),
    EVICTION_SYMPTOM = metric!(
        "gb10_eviction_symptom",
        Gauge,
        None,
        ["symptom", "proof"],
        [Vmstat, Buddyinfo, Gpu, Processes],
        Stable,
        "derived",
        "1 while a sign shows that memory was taken from somebody, each by its own figures. proof=\"proven\": anonymous_refaults, swap_in, workload_faults (of a job that has settled, beside another). proof=\"context\": file_refaults and kernel_reclaim (normal for large data sets), residency_lost (a server that sleeps does that on purpose), contiguity_lost. That one job's GPU pages are taken for another's cannot be seen on this hardware and is never claimed.",
        |f, out| for symptom in Symptom::ALL {
            let proof = if symptom.proves() { "proven" } else { "context" };
            let sign = f.verdicts.pressed.sign(*symptom);
            out.each([symptom.as_str().into(), proof.into()], sign.shows, flag);
        }
    ),
    RELEASE_PENDING_BYTES = metric!(
        "gb10_release_pending_bytes",
        Gauge,
        Bytes,
        [],
        [Gpu, Processes, Meminfo],
        Stable,
        "derived",
        "What is still held of jobs that have ended: what nobody has an account of has grown by this much since, and never more than they held. Pages in the driver's pools are not in it. 0 when nothing is; absent where the driver's processes cannot be read.",
        |f, out| out.one(f.verdicts.release.pending, Bytes::as_f64)
    ),
    RELEASE_LAG_SECONDS = metric!(
        "gb10_release_lag_seconds",
        Gauge,
        Seconds,
        [],
        [Gpu, Processes, Meminfo],
        Stable,
        "derived",
        "How long the last release took after its job had ended, or has taken so far. Absent before there was one.",
        |f, out| out.one(f.verdicts.release.lag, |Seconds(s)| s)
    ),
    WORKLOAD_ORPHANED_BYTES = metric!(
        "gb10_workload_orphaned_bytes",
        Gauge,
        Bytes,
        ["workload", "unit", "proof"],
        [Gpu, Processes],
        Stable,
        "derived",
        "What workers without their server hold that do nothing (orphan.from, orphan.for). proof=\"seen\": the server ended under the exporter's eyes; \"suspected\": its end was not seen. Absent when there are none.",
        orphaned
    ),
    POOL_SAFE_TO_START_BYTES = metric!(
        "gb10_pool_safe_to_start_bytes",
        Gauge,
        Bytes,
        ["reader"],
        [Meminfo, Gpu, Processes],
        Stable,
        "derived",
        "What the next job can take: headroom above the reserve less what running jobs may still take by their caps. Memory that is still being released is not in it yet. May be negative. Absent while a job without a visible bound loads: nobody knows where that ends.",
        |f, out| for (reader, safe) in Reader::ALL.iter().zip(f.verdicts.release.safe) {
            out.each([reader.as_str().into()], safe, SignedBytes::as_f64);
        }
    ),
];
