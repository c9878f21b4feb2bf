//! Pressure, reclaim and eviction: the kernel's counters.

use super::{Samples, metric, rows};
use crate::model::frame::Frame;
use crate::model::reading::Reading;
use crate::units::{Bytes, Count, Seconds};

/// A count of pages as bytes, for machines whose page size is known.
fn in_bytes(f: &Frame, pages: Reading<Count>) -> Reading<Bytes> {
    Ok(Bytes(pages?.0.saturating_mul(f.verdicts.pool.page_size?.0)))
}

fn stalls(f: &Frame, out: &mut Samples) {
    let p = &f.snapshot.pressure;
    for (resource, kind, total) in [
        ("cpu", "some", p.cpu_some),
        ("memory", "some", p.memory_some),
        ("memory", "full", p.memory_full),
        ("io", "some", p.io_some),
        ("io", "full", p.io_full),
    ] {
        out.each([resource.into(), kind.into()], total, |s: Seconds| s.0);
    }
}

rows![
    PRESSURE_STALL_SECONDS_TOTAL = metric!(
        "gb10_pressure_stall_seconds_total",
        Counter,
        Seconds,
        ["resource", "kind"],
        [Pressure],
        Stable,
        "/proc/pressure",
        "Time that work stood still for want of the resource: some tasks, or all of them. Lags on these boxes, and disk pressure alone is normal during a load.",
        stalls
    ),
    MEMORY_REFAULTS_TOTAL = metric!(
        "gb10_memory_refaults_total",
        Counter,
        Count,
        ["kind"],
        [Vmstat],
        Stable,
        "/proc/vmstat workingset_refault",
        "Pages read back soon after they were reclaimed. Anonymous ones mean that programs' own memory was evicted; file ones are normal for a streaming dataset.",
        |f, out| {
            out.each(["anonymous".into()], f.snapshot.vmstat.refault_anon, Count::as_f64);
            out.each(["file".into()], f.snapshot.vmstat.refault_file, Count::as_f64);
        }
    ),
    MEMORY_SWAP_IN_BYTES_TOTAL = metric!(
        "gb10_memory_swap_in_bytes_total",
        Counter,
        Bytes,
        [],
        [Vmstat],
        Stable,
        "/proc/vmstat pswpin",
        "Memory read from swap.",
        |f, out| out.one(in_bytes(f, f.snapshot.vmstat.swap_in), Bytes::as_f64)
    ),
    MEMORY_SWAP_OUT_BYTES_TOTAL = metric!(
        "gb10_memory_swap_out_bytes_total",
        Counter,
        Bytes,
        [],
        [Vmstat],
        Stable,
        "/proc/vmstat pswpout",
        "Memory written to swap.",
        |f, out| out.one(in_bytes(f, f.snapshot.vmstat.swap_out), Bytes::as_f64)
    ),
    MEMORY_MAJOR_FAULTS_TOTAL = metric!(
        "gb10_memory_major_faults_total",
        Counter,
        Count,
        [],
        [Vmstat],
        Stable,
        "/proc/vmstat pgmajfault",
        "Page faults that waited for a disk.",
        |f, out| out.one(f.snapshot.vmstat.major_faults, Count::as_f64)
    ),
    MEMORY_RECLAIM_BYTES_TOTAL = metric!(
        "gb10_memory_reclaim_bytes_total",
        Counter,
        Bytes,
        ["by"],
        [Vmstat],
        Stable,
        "/proc/vmstat pgsteal",
        "Memory taken back from caches and programs: by the background reclaimer (kswapd), by programs that had to do it themselves while allocating (direct), by khugepaged, or on request (proactive).",
        |f, out| {
            let v = &f.snapshot.vmstat;
            for (by, pages) in [
                ("kswapd", v.steal_kswapd),
                ("direct", v.steal_direct),
                ("khugepaged", v.steal_khugepaged),
                ("proactive", v.steal_proactive),
            ] {
                out.each([by.into()], in_bytes(f, pages), Bytes::as_f64);
            }
        }
    ),
    MEMORY_ALLOCATION_STALLS_TOTAL = metric!(
        "gb10_memory_allocation_stalls_total",
        Counter,
        Count,
        [],
        [Vmstat],
        Stable,
        "/proc/vmstat allocstall",
        "Allocations that had to reclaim memory first, in all zones.",
        |f, out| {
            let v = &f.snapshot.vmstat;
            let rest = [v.stall_dma, v.stall_dma32, v.stall_movable].into_iter().flatten();
            out.one(v.stall_normal, |n: Count| {
                rest.clone().fold(n.as_f64(), |sum, c| sum + c.as_f64())
            });
        }
    ),
    MEMORY_COMPACTIONS_TOTAL = metric!(
        "gb10_memory_compactions_total",
        Counter,
        Count,
        ["result"],
        [Vmstat],
        Stable,
        "/proc/vmstat compact",
        "Attempts to make large contiguous blocks while a program waited, by result.",
        |f, out| {
            out.each(["success".into()], f.snapshot.vmstat.compact_success, Count::as_f64);
            out.each(["failure".into()], f.snapshot.vmstat.compact_fail, Count::as_f64);
        }
    ),
    MEMORY_OOM_KILLS_TOTAL = metric!(
        "gb10_memory_oom_kills_total",
        Counter,
        Count,
        [],
        [Vmstat],
        Stable,
        "/proc/vmstat oom_kill",
        "Processes that the kernel killed for want of memory. GPU memory does not count when it picks one, so small bystanders die.",
        |f, out| out.one(f.snapshot.vmstat.oom_kill, Count::as_f64)
    ),
    MEMORY_CACHE_DROPS_TOTAL = metric!(
        "gb10_memory_cache_drops_total",
        Counter,
        Count,
        ["cache"],
        [Vmstat],
        Experimental,
        "/proc/vmstat drop_pagecache, drop_slab",
        "Times that somebody flushed a cache by hand.",
        |f, out| {
            out.each(["page_cache".into()], f.snapshot.vmstat.drop_pagecache, Count::as_f64);
            out.each(["slab".into()], f.snapshot.vmstat.drop_slab, Count::as_f64);
        }
    ),
];
