//! Pressure and eviction: whether memory in use is taken away, and what the kernel and the driver say.

use super::super::super::colour;
use super::super::super::panel::{Lines, Number, Panel, Shelf};
use super::super::super::query::of;
use super::super::super::verdict::{pressure as verdict, symptom_mappings, symptoms};
use crate::catalog::links::Panel as Place;
use crate::catalog::metrics::{
    DRIVER_NO_MEMORY_TOTAL, GPU_XID_ERRORS_TOTAL, KERNEL_MESSAGES_LOST_TOTAL,
    KERNEL_MESSAGES_TOTAL, MEMORY_ALLOCATION_STALLS_TOTAL, MEMORY_CACHE_DROPS_TOTAL,
    MEMORY_COMPACTIONS_TOTAL, MEMORY_MAJOR_FAULTS_TOTAL, MEMORY_OOM_KILLS_TOTAL,
    MEMORY_RECLAIM_BYTES_TOTAL, MEMORY_REFAULTS_TOTAL, MEMORY_SWAP_IN_BYTES_TOTAL,
    MEMORY_SWAP_OUT_BYTES_TOTAL, PRESSURE_STALL_SECONDS_TOTAL, SOURCE_STATE,
};
use crate::model::source::{Source, SourceState};

pub(super) fn shelves() -> Vec<Shelf> {
    vec![
        Shelf::Title("Pressure and eviction"),
        Shelf::Panels(8, vec![states(), stalls(8)]),
        Shelf::Panels(8, vec![swap_and_reclaim(8), faults(), allocation()]),
        Shelf::Panels(8, vec![messages(12), super::pool::pinned(), drops()]),
    ]
}

fn states() -> Panel {
    Panel::states(Number::Linked(Place::Pressure), "Pressure and signs of eviction")
        .says(
            "The pressure verdict, and each sign that memory was taken from somebody. Proven are anonymous \
             refaults, swap-in and faults of a settled job; the others prove nothing: file refaults and reclaim \
             in the background are normal wherever large files are read. Whether GPU pages of one job are taken \
             for another cannot be seen on these machines.",
        )
        .when_empty("the box does not answer")
        .wide(16)
        .shows(verdict().worst(&[]), "pressure")
        .shows(symptoms(&["symptom"]), "{{symptom}}")
        .called(verdict().mappings())
        .called(symptom_mappings())
}

/// Time that work stood still.
pub(in crate::grafana) fn stalls(width: u32) -> Panel {
    let stall = |resource: &str, kind: &str| {
        of(&PRESSURE_STALL_SECONDS_TOTAL).is("resource", resource).is("kind", kind).rate().max(&[])
    };
    Panel::lines(Number::Own(140), "Time stood still for want of", Lines::default())
        .says(
            "Share of time in which some or all tasks waited. Memory near 0 is normal, and no early sign here: \
             boxes went down with it at 0. Disk alone is normal during a load.",
        )
        .when_empty("this kernel tells no pressure (CONFIG_PSI), or no answer")
        .wide(width)
        .draws(stall("memory", "full"), "memory, all tasks", colour::VERMILION)
        .draws(stall("memory", "some"), "memory, some tasks", colour::ORANGE)
        .draws(stall("io", "full"), "disk, all tasks", colour::BLUE)
        .draws(stall("cpu", "some"), "CPU, some tasks", colour::GREY)
}

/// What is swapped, read back and taken back.
pub(in crate::grafana) fn swap_and_reclaim(width: u32) -> Panel {
    let by = |by: &str| of(&MEMORY_RECLAIM_BYTES_TOTAL).matching("by", by).rate().sum(&[]);
    Panel::lines(Number::Linked(Place::SwapAndReclaim), "Swap and reclaim", Lines::default())
        .says(
            "Memory that is written to swap and read from it, and taken back from caches and programs. Reclaim in \
             the background (kswapd) at the rate of a disk is normal while large files are read. Swap-in of more \
             than some MiB a second, or programs that reclaim themselves (direct), are not.",
        )
        .when_empty("the kernel does not tell, or no answer")
        .wide(width)
        .draws(of(&MEMORY_SWAP_IN_BYTES_TOTAL).rate().sum(&[]), "swapped in", colour::VERMILION)
        .draws(of(&MEMORY_SWAP_OUT_BYTES_TOTAL).rate().sum(&[]), "swapped out", colour::ORANGE)
        .draws(by("direct"), "reclaimed by programs", colour::PURPLE)
        .draws(by("kswapd|khugepaged|proactive"), "reclaimed in the background", colour::CACHE)
}

fn faults() -> Panel {
    let refaults = |kind: &str| of(&MEMORY_REFAULTS_TOTAL).is("kind", kind).rate().sum(&[]);
    Panel::lines(Number::Own(141), "Refaults and major faults", Lines::default())
        .says(
            "Pages read back soon after they were reclaimed, and faults that waited for a disk. Anonymous refaults \
             are programs' own memory, and near 0 is normal; file refaults are normal for a data set larger than \
             the cache, major faults while programs start.",
        )
        .when_empty("the kernel does not tell, or no answer")
        .wide(8)
        .draws(refaults("anonymous"), "anonymous refaults", colour::VERMILION)
        .draws(refaults("file"), "file refaults", colour::CACHE)
        .draws(of(&MEMORY_MAJOR_FAULTS_TOTAL).rate().sum(&[]), "major faults", colour::ORANGE)
}

fn allocation() -> Panel {
    let compactions = |result: &str| of(&MEMORY_COMPACTIONS_TOTAL).is("result", result).rate();
    Panel::lines(Number::Own(142), "Allocations that had to wait", Lines::default())
        .says(
            "Allocations that had to reclaim memory first, and attempts to make large blocks. 0 is normal. Failures \
             while memory is free mean that it is in pieces.",
        )
        .when_empty("the kernel does not tell, or no answer")
        .wide(8)
        .draws(of(&MEMORY_ALLOCATION_STALLS_TOTAL).rate().sum(&[]), "had to reclaim", colour::ORANGE)
        .draws(compactions("success").sum(&[]), "compactions", colour::BLUE)
        .draws(compactions("failure").sum(&[]), "compactions that fail", colour::VERMILION)
}

/// What the kernel and the driver say.
pub(in crate::grafana) fn messages(width: u32) -> Panel {
    let lines = Lines { bars: true, ..Lines::default() };
    let log = Source::KernelLog.as_str();
    let unread = of(&SOURCE_STATE).is("source", log).without("state", SourceState::Ok.as_str());
    Panel::lines(Number::Linked(Place::KernelMessages), "Kernel and driver messages", lines)
        .says(
            "Messages by kind, and processes killed for want of memory. None is normal; some lines of \
             driver no memory while a model loads are normal, too, and a burst while jobs serve is not. Xid 13 and \
             31 are an application's own faults. Where the log is not read there are no messages, which proves nothing: \
             the dashed line says so.",
        )
        .when_empty("no answer")
        .wide(width)
        .coloured(vec![
            ("/^driver_no_memory/".to_owned(), colour::SKY),
            ("/^oom_/".to_owned(), colour::ORANGE),
            ("/^hung_task/".to_owned(), colour::BLUE),
            ("/^xid/".to_owned(), colour::YELLOW),
        ])
        .shows(of(&KERNEL_MESSAGES_TOTAL).increase().sum(&["kind"]).only("> 0"), "{{kind}}")
        .shows(of(&GPU_XID_ERRORS_TOTAL).increase().sum(&["xid"]).only("> 0"), "Xid {{xid}} by NVML")
        .draws(of(&MEMORY_OOM_KILLS_TOTAL).increase().sum(&[]), "killed for want of memory", colour::VERMILION)
        .draws(no_memory("serving"), "no memory while serving", colour::PURPLE)
        .draws(of(&KERNEL_MESSAGES_LOST_TOTAL).increase().sum(&[]), "lines lost", colour::BLUE)
        .compares(unread.max(&[]), "1: the log is not read", colour::GREY)
}

fn no_memory(during: &str) -> super::super::super::query::Query {
    of(&DRIVER_NO_MEMORY_TOTAL).is("during", during).increase().sum(&[])
}

fn drops() -> Panel {
    let lines = Lines { bars: true, ..Lines::default() };
    Panel::lines(Number::Own(143), "Cache flushes", lines)
        .says("Times that somebody dropped a cache: step one after an out of memory, between runs. None is normal.")
        .when_empty("the kernel does not tell, or no answer")
        .wide(4)
        .coloured(vec![
            ("/^page_cache/".to_owned(), colour::CACHE),
            ("/^slab/".to_owned(), colour::GREY),
        ])
        .shows(of(&MEMORY_CACHE_DROPS_TOTAL).increase().sum(&["cache"]), "{{cache}}")
}
