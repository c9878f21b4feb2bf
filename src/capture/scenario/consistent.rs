//! What hangs together is kept together: a scenario says what is known, and the rest follows by the
//! rules that docs/SCENARIOS.md states.

use crate::model::gpu::{EventReason, Gpu};
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::workload::{IS, Proc};
use crate::units::{Bytes, Celsius, Count, Ratio};
use std::collections::BTreeSet;

/// The readings that follow others where they are not set themselves.
pub(super) const TOGETHER: [&str; 16] = [
    "processes.resident",
    "meminfo.AnonPages",
    "meminfo.SwapFree",
    "uptime.since_boot",
    "meminfo.MemFree",
    "meminfo.MemAvailable",
    "meminfo.Cached",
    "meminfo.Inactive(file)",
    "vmstat.nr_slab_unreclaimable",
    "buddyinfo.free_blocks",
    "vmstat.nr_free_pages",
    "gpu.power",
    "gpu.power_average",
    "gpu.power_instant",
    "gpu.margin",
    "gpu.event_reasons",
];

/// Applies the rules to a snapshot in which the fields `touched` were set and the processes with the pids
/// `over` have ended.
pub(super) fn keep(
    now: &mut Snapshot,
    beginning: &Snapshot,
    touched: &[&str],
    over: &BTreeSet<u32>,
) {
    let set = |id: &str| touched.contains(&id);
    processes(now, beginning, &set, over);
    gpus(now, beginning, &set);
    pool(now, beginning, &set);
    blocks(now, beginning, &set);
}

/// A process that is over holds nothing on a GPU, and what processes take is in the sums of the kernel.
fn processes(
    now: &mut Snapshot,
    beginning: &Snapshot,
    set: &dyn Fn(&str) -> bool,
    over: &BTreeSet<u32>,
) {
    for gpu in now.gpus.devices.iter_mut().flatten() {
        if let Ok(rows) = &mut gpu.processes
            && rows.iter().any(|process| over.contains(&process.pid))
        {
            rows.retain(|process| !over.contains(&process.pid));
            gpu.recount();
        }
    }
    let before = beginning.processes.list.as_deref().unwrap_or_default();
    for proc in now.processes.list.iter_mut().flatten() {
        let then = before.iter().find(|then| then.name == proc.name);
        resident(proc, then, set("processes.resident"));
        // Counters that nobody speaks of stand still.
        if proc.cpu.is_ok() && proc.major_faults == Err(Missing::NotPresent) {
            proc.major_faults = Ok(Count(0));
        }
    }
    if now.processes.list.is_err() {
        return;
    }
    let sum = |snapshot: &Snapshot, of: fn(&Proc) -> Reading<Bytes>| {
        let list = snapshot.processes.list.iter().flatten();
        list.filter_map(|proc| of(proc).ok()).map(|bytes| i128::from(bytes.0)).sum::<i128>()
    };
    let moved = |of| sum(now, of) - sum(beginning, of);
    let (anonymous, swapped) = (moved(|p| p.anonymous), moved(|p| p.swap));
    if !set("meminfo.AnonPages") {
        plus(&mut now.meminfo.anon_pages, anonymous);
    }
    if !set("meminfo.SwapFree") {
        plus(&mut now.meminfo.swap_free, -swapped);
    }
}

/// Adds a change to what is there.
fn plus(reading: &mut Reading<Bytes>, change: i128) {
    if let Ok(bytes) = reading {
        let sum = (i128::from(bytes.0) + change).clamp(0, i128::from(u64::MAX));
        bytes.0 = u64::try_from(sum).unwrap_or(u64::MAX);
    }
}

/// What is resident of a process is the sum of its parts: of one of which a part is said, the parts that
/// are not are none.
fn resident(proc: &mut Proc, then: Option<&Proc>, set: bool) {
    let parts = |proc: &Proc| [proc.anonymous, proc.file, proc.shared];
    if parts(proc).iter().all(Reading::is_err) {
        return;
    }
    for part in [&mut proc.anonymous, &mut proc.file, &mut proc.shared] {
        if *part == Err(Missing::NotPresent) {
            *part = Ok(Bytes(0));
        }
    }
    let sum = |proc: &Proc| -> i128 {
        parts(proc).iter().flatten().map(|bytes| i128::from(bytes.0)).sum()
    };
    if proc.resident == Err(Missing::NotPresent) {
        proc.resident = Ok(Bytes(0));
        let all = sum(proc);
        plus(&mut proc.resident, all);
    } else if let (false, Some(then)) = (set, then) {
        let change = sum(proc) - sum(then);
        plus(&mut proc.resident, change);
    }
}

/// The change of an amount since the beginning, where it was set.
fn change(set: bool, now: Reading<Bytes>, then: Reading<Bytes>) -> i128 {
    match (set, now, then) {
        (true, Ok(now), Ok(then)) => i128::from(now.0) - i128::from(then.0),
        _ => 0,
    }
}

/// What the driver charges to processes of GPUs that have no memory figure of their own.
fn charged(snapshot: &Snapshot) -> i128 {
    let shared = snapshot.gpus.each().filter(|gpu| gpu.memory.is_err());
    let processes = shared.flat_map(|gpu| gpu.processes.iter().flatten());
    processes.filter_map(|process| process.memory.ok()).map(|bytes| i128::from(bytes.0)).sum()
}

/// Free and available memory follow each other, and what programs, GPU processes and the page cache
/// take is taken from them.
fn pool(now: &mut Snapshot, beginning: &Snapshot, set: &dyn Fn(&str) -> bool) {
    let then = &beginning.meminfo;
    let gpu =
        if set("gpu.process_memory") || set(IS) { charged(now) - charged(beginning) } else { 0 };
    let m = &mut now.meminfo;
    let taken =
        gpu + change(
            set("meminfo.AnonPages") || set("processes.anonymous") || set(IS),
            m.anon_pages,
            then.anon_pages,
        ) + change(set("meminfo.SUnreclaim"), m.s_unreclaim, then.s_unreclaim)
            + change(set("meminfo.PageTables"), m.page_tables, then.page_tables)
            + change(set("meminfo.KernelStack"), m.kernel_stack, then.kernel_stack);
    let cached = change(set("meminfo.Cached"), m.cached, then.cached)
        + change(set("meminfo.Buffers"), m.buffers, then.buffers)
        + change(set("meminfo.SReclaimable"), m.s_reclaimable, then.s_reclaimable);
    let (Ok(total), Ok(free), Ok(available)) = (m.total, then.free, then.available) else { return };
    let (free, available) = (i128::from(free.0), i128::from(available.0));
    let free_now = change(set("meminfo.MemFree"), m.free, then.free);
    let available_now = change(set("meminfo.MemAvailable"), m.available, then.available);
    let (free, available) = match (set("meminfo.MemFree"), set("meminfo.MemAvailable")) {
        (true, true) => return,
        (false, false) => (free - taken - cached, available - taken),
        (true, false) => (free + free_now, available + free_now + cached),
        (false, true) => (free + available_now - cached, available + available_now),
    };
    let within =
        |bytes: i128| Bytes(u64::try_from(bytes.clamp(0, i128::from(total.0))).unwrap_or(0));
    if !set("meminfo.MemFree") && m.free.is_ok() {
        m.free = Ok(within(free));
        // What free memory cannot give the kernel takes from the page cache.
        if let (true, Ok(bytes)) = (free < 0, m.cached) {
            m.cached = Ok(within(i128::from(bytes.0) + free));
        }
    }
    if !set("meminfo.MemAvailable") && m.available.is_ok() {
        m.available = Ok(within(available));
    }
    // Pages that are read or given up are mostly inactive ones.
    if !set("meminfo.Inactive(file)")
        && let (Ok(now), Ok(was), Ok(inactive)) = (m.cached, then.cached, m.inactive_file)
    {
        let change = i128::from(now.0) - i128::from(was.0);
        m.inactive_file = Ok(within(i128::from(inactive.0) + change));
    }
    // The page size is told by comparing the two.
    if set("meminfo.SUnreclaim")
        && !set("vmstat.nr_slab_unreclaimable")
        && let (Ok(now_slab), Ok(was), Ok(pages)) =
            (m.s_unreclaim, then.s_unreclaim, &mut now.vmstat.nr_slab_unreclaimable)
    {
        let scaled = u128::from(pages.0) * u128::from(now_slab.0) / u128::from(was.0.max(1));
        pages.0 = u64::try_from(scaled).unwrap_or(u64::MAX);
    }
}

/// Free blocks of every size become fewer or more as free memory does.
fn blocks(now: &mut Snapshot, beginning: &Snapshot, set: &dyn Fn(&str) -> bool) {
    let (Ok(free), Ok(then)) = (now.meminfo.free, beginning.meminfo.free) else { return };
    if free == then || then == Bytes(0) {
        return;
    }
    let scaled = |count: u64| {
        let scaled = u128::from(count) * u128::from(free.0) / u128::from(then.0);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    if !set("buddyinfo.free_blocks") {
        for zone in now.blocks.iter_mut().flatten() {
            let counts = zone.by_order.iter().map(|count| scaled(*count)).collect();
            zone.put(counts);
        }
    }
    if let (false, Ok(pages)) = (set("vmstat.nr_free_pages"), &mut now.vmstat.nr_free_pages) {
        pages.0 = scaled(pages.0);
    }
}

/// Power has three readings and one truth; the margin is what the temperature leaves.
fn gpus(now: &mut Snapshot, beginning: &Snapshot, set: &dyn Fn(&str) -> bool) {
    let before: Vec<Gpu> = beginning.gpus.each().cloned().collect();
    for gpu in now.gpus.devices.iter_mut().flatten() {
        if set("gpu.power") {
            if !set("gpu.power_average") {
                gpu.power_average = gpu.power;
            }
            if !set("gpu.power_instant") {
                gpu.power_instant = gpu.power;
            }
        }
        // The driver says "idle" of a GPU that does nothing, and of no other.
        if set("gpu.utilization")
            && !set("gpu.event_reasons")
            && let (Ok(Ratio(share)), Ok(Count(mask))) = (gpu.utilization, gpu.event_reasons)
        {
            let idle = EventReason::Idle.bit();
            gpu.event_reasons = Ok(Count(if share > 0.0 { mask & !idle } else { mask | idle }));
        }
        let then = before.iter().find(|then| then.index == gpu.index);
        if let Some(Gpu { temperature: Ok(then), margin: Ok(margin), .. }) = then
            && set("gpu.temperature")
            && !set("gpu.margin")
        {
            gpu.margin = gpu.temperature.map(|now| Celsius(margin.0 + then.0 - now.0));
        }
    }
}
