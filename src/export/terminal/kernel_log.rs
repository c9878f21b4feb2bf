//! The kernel's log in the terminal.

use super::super::status::{Figure, KernelLogPart, MessagePart, Status};
use super::Written;
use crate::model::kernel_log::{During, MessageKind};
use crate::model::source::Source;
use crate::units::{Bytes, Seconds};
use std::fmt::Write;

/// What was seen since boot: a line a kind. Where the log cannot be read, why, and what helps.
pub(super) fn kernel_log(out: &mut String, status: &Status) -> Written {
    match &status.kernel_log {
        Figure::Value(log) => seen(out, status, log)?,
        Figure::Missing { missing } => {
            let source = status.sources.get(Source::KernelLog.as_str());
            let why = source.and_then(|source| source.message.as_deref());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            writeln!(out, "Kernel log: not read ({missing}){why}")?;
        }
    }
    writeln!(out)
}

fn seen(out: &mut String, status: &Status, log: &KernelLogPart) -> Written {
    let mut all: Vec<(&str, u64)> = MessageKind::ALL
        .iter()
        .filter_map(|kind| Some((kind.as_str(), *log.messages.get(kind.as_str())?)))
        .filter(|(_, count)| *count > 0)
        .collect();
    if all.is_empty() {
        writeln!(out, "Kernel log: nothing of note since boot ({})", log.place)?;
    } else {
        writeln!(out, "Kernel log, since boot ({})", log.place)?;
    }
    // The latest first.
    all.sort_by(|(a, _), (b, _)| {
        let last = |kind: &str| log.last.get(kind).copied().unwrap_or_default();
        last(b).total_cmp(&last(a))
    });
    for (kind, count) in all {
        let last = log.last.get(kind).map(|at| Seconds((status.at - at).max(0.0)));
        let last = last.map(|ago| format!(", last {ago} ago")).unwrap_or_default();
        let recent = log
            .recent
            .get(kind)
            .map(|recent| format!(", {recent} within {}", Seconds(log.recent_seconds)));
        let recent = recent.unwrap_or_default();
        let about = match kind {
            _ if kind == MessageKind::Xid.as_str() => xids(log),
            _ if kind == MessageKind::DriverNoMemory.as_str() => no_memory(log),
            _ => program(log, kind),
        };
        writeln!(out, "  {kind:<24} {count:>6}{last}{recent}{about}")?;
    }
    if log.lost > 0 {
        writeln!(out, "  {} lines were lost before they could be read", log.lost)?;
    }
    Ok(())
}

fn xids(log: &KernelLogPart) -> String {
    let all: Vec<String> = log.xids.iter().map(|(xid, count)| format!("{xid} ({count})")).collect();
    let last = last(log, MessageKind::Xid.as_str()).and_then(|last| last.workload.as_deref());
    let last = last.map(|class| format!("; the last one of {class}")).unwrap_or_default();
    format!(": {}{last}", all.join(", "))
}

/// The last one of a kind.
fn last<'a>(log: &'a KernelLogPart, kind: &str) -> Option<&'a MessagePart> {
    log.latest.iter().rev().find(|message| message.kind == kind)
}

/// What the jobs did when the last one came, and how often they did what since the start.
fn no_memory(log: &KernelLogPart) -> String {
    let last = last(log, MessageKind::DriverNoMemory.as_str());
    let told = last.and_then(|last| {
        let during = last.during.as_deref()?;
        let during = During::ALL.iter().find(|one| one.as_str() == during)?;
        Some(format!(": {}", during.told(last.jobs.as_deref())))
    });
    let counts = During::ALL.iter().filter_map(|during| {
        let count = log.no_memory.get(during.as_str()).filter(|count| **count > 0)?;
        Some(format!("{} {count}", during.as_str()))
    });
    let counts: Vec<String> = counts.collect();
    let all = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    told.unwrap_or_default() + &all
}

/// The program that the last one of a kind is about.
fn program(log: &KernelLogPart, kind: &str) -> String {
    let Some(last) = last(log, kind) else { return String::new() };
    let Some(name) = &last.program else { return String::new() };
    let class = last.workload.as_deref().map(|class| format!(" ({class})")).unwrap_or_default();
    let victim = last.victim.as_ref();
    let beside = victim.and_then(|victim| victim.tiny_beside_unaccounted.as_ref());
    let tiny = victim.zip(beside).map(|(victim, beside)| {
        let bytes = |figure: &Figure<u64>| figure.value().map(|bytes| Bytes(*bytes).to_string());
        let own = bytes(&victim.anonymous).map(|own| format!(": {own} of its own"));
        let beside =
            bytes(beside).map(|bytes| format!(", while the kernel had no account of {bytes}"));
        format!(", a tiny victim{}{}", own.unwrap_or_default(), beside.unwrap_or_default())
    });
    format!(": {name}{class}{}", tiny.unwrap_or_default())
}
