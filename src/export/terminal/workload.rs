//! Who holds the pool, in the terminal.

use super::super::status::{CapPart, Figure, JobPart, Status};
use super::Written;
use crate::model::sharing::Holder;
use crate::model::workload::{CapKind, View};
use crate::units::{Bytes, GIB, MIB};
use std::fmt::Write;

const TITLE: &str = "Who holds the pool";
/// Jobs shown one by one.
const SHOWN: usize = 10;
/// Smaller ones are counted only: a desktop's programs, and contexts that hold nothing.
const WORTH: u64 = 512 * MIB;
/// More than this that nobody holds is a line of its own.
const NOTED: u64 = 4 * GIB;

/// A line of the table.
struct Line {
    name: String,
    gpu: String,
    host: String,
    swap: String,
    phase: String,
    cap: String,
}

/// A line a job, the largest first; what no job holds; and what hides some of them.
pub(super) fn holders(out: &mut String, status: &Status) -> Written {
    let holders = &status.holders;
    let Figure::Value(jobs) = &holders.jobs else { return Ok(()) };
    let hint = holders
        .view
        .value()
        .filter(|view| ![View::Full, View::Unknown].map(View::as_str).contains(&view.as_str()));
    let nobody = nobody(status);
    if jobs.is_empty() && hint.is_none() && nobody.is_empty() {
        return Ok(());
    }
    // One that loads or serves is worth a line before it holds anything, and what is not known is not small.
    let worth = |job: &&JobPart| {
        held(job) >= WORTH || job.phase.value().is_some() || job.gpu_memory.value().is_none()
    };
    let (shown, rest): (Vec<&JobPart>, Vec<&JobPart>) = jobs.iter().partition(worth);
    let lines: Vec<Line> = shown.iter().take(SHOWN).map(|job| line(job)).chain(nobody).collect();
    let more = shown.len().saturating_sub(SHOWN) + rest.len();
    let smaller = shown.iter().skip(SHOWN).chain(&rest);
    let together: Bytes = smaller.map(|job| Bytes(held(job))).sum();
    match (lines.is_empty(), more) {
        (true, 0) => writeln!(out, "{TITLE}")?,
        (true, more) => writeln!(out, "{TITLE}: {more} small ones, {together} together")?,
        (false, more) => {
            table(out, &lines)?;
            if more > 0 {
                writeln!(out, "  and {more} smaller, {together} together")?;
            }
        }
    }
    if let Some(hint) = hint.and(holders.hint.as_deref()) {
        writeln!(out, "  {hint}")?;
    }
    limits(out, &shown)?;
    writeln!(out)
}

/// The lines in columns, below one heading that is the section's as well. Nobody sees a column of
/// swap on a box that does not swap.
fn table(out: &mut String, lines: &[Line]) -> Written {
    let width = |of: fn(&Line) -> &str, least: usize| {
        lines.iter().map(|line| of(line).chars().count()).max().unwrap_or(0).max(least)
    };
    let name = width(|line| &line.name, TITLE.len() - 2);
    let swap = width(|line| &line.swap, 0);
    let heading = Line {
        name: String::new(),
        gpu: "GPU".to_owned(),
        host: "CPU".to_owned(),
        swap: "swap".to_owned(),
        phase: "phase".to_owned(),
        cap: "cap".to_owned(),
    };
    let mut row = |start: &str, line: &Line| {
        let Line { gpu, host, phase, cap, .. } = line;
        let swap = match swap {
            0 => String::new(),
            width => format!("  {:>width$}", line.swap, width = width.max("swap".len())),
        };
        let text = format!("{start}  {gpu:>10}  {host:>10}{swap}  {phase:<8}  {cap}");
        writeln!(out, "{}", text.trim_end())
    };
    row(&format!("{TITLE:<width$}", width = name + 2), &heading)?;
    lines.iter().try_for_each(|line| row(&format!("  {:<name$}", line.name), line))
}

fn line(job: &JobPart) -> Line {
    let swap = job.swap.value().filter(|bytes| **bytes >= MIB);
    let phase = job.phase.value().cloned();
    // That nothing bounds a desktop is no news.
    let cap = cap(&job.cap).filter(|_| phase.is_some() || job.cap.kind != CapKind::None.as_str());
    Line {
        name: format!("{} ({}, pid {})", job.workload, job.unit, job.pid),
        gpu: amount(&job.gpu_memory),
        host: amount(&job.host),
        swap: swap.map(|bytes| Bytes(*bytes).to_string()).unwrap_or_default(),
        phase: phase.unwrap_or_default(),
        cap: cap.unwrap_or_default(),
    }
}

/// A figure, or why it is not there, in a word.
fn amount(figure: &Figure<u64>) -> String {
    match figure {
        Figure::Value(bytes) => Bytes(*bytes).to_string(),
        Figure::Missing { missing } if missing == "not_present" => String::new(),
        Figure::Missing { missing } => missing.clone(),
    }
}

/// What is gone from the pool and no process has.
fn nobody(status: &Status) -> Vec<Line> {
    let rows = [(Holder::PagePools, "the driver's page pools"), (Holder::Unknown, "nobody known")];
    let told = rows.into_iter().filter_map(|(holder, name)| {
        let bytes = *status.unaccounted.holders.get(holder.as_str())?.value()?;
        (bytes > NOTED).then(|| Line {
            name: name.to_owned(),
            gpu: Bytes(bytes).to_string(),
            host: String::new(),
            swap: String::new(),
            phase: String::new(),
            cap: String::new(),
        })
    });
    told.collect()
}

fn held(job: &JobPart) -> u64 {
    let of = |figure: &Figure<u64>| figure.value().copied().unwrap_or(0);
    of(&job.gpu_memory).saturating_add(of(&job.host))
}

/// A limit that somebody set and relies on: who holds more on the GPU already, and that it may be so.
fn limits(out: &mut String, jobs: &[&JobPart]) -> Written {
    let limited = |job: &&&JobPart| {
        job.group_limit.value().is_some() && job.gpu_memory.value().is_some_and(|gpu| *gpu >= WORTH)
    };
    let past: Vec<String> = jobs
        .iter()
        .filter(limited)
        .filter(|job| job.gpu_memory.value() > job.group_limit.value())
        .map(|job| job.pid.to_string())
        .collect();
    if !jobs.iter().any(|job| limited(&job)) {
        return Ok(());
    }
    let past = match past.as_slice() {
        [] => String::new(),
        past => format!("; past it: pid {}", past.join(", ")),
    };
    writeln!(out, "  The limit of a container or unit does not bind the GPU's memory{past}.")
}

/// The bound in words.
fn cap(cap: &CapPart) -> Option<String> {
    let kind = CapKind::ALL.iter().find(|kind| kind.as_str() == cap.kind)?;
    let share = cap.share.map(|share| share.to_string()).unwrap_or_default();
    let of = if *kind == CapKind::FractionOfFree { " of what was free" } else { "" };
    let bytes = cap.bytes.value().map(|bytes| Bytes(*bytes).to_string());
    let words = match (kind, bytes) {
        (CapKind::Whole | CapKind::FractionOfFree, Some(bytes)) => format!("{share}{of} = {bytes}"),
        (CapKind::Whole | CapKind::FractionOfFree, None) => format!("{share}{of}"),
        (CapKind::KvOnly, bytes) => format!("cache {}", bytes.unwrap_or_default()),
        (CapKind::Fixed, _) => "what it has loaded".to_owned(),
        (CapKind::None, _) => "none".to_owned(),
        (CapKind::Unknown, _) => "not seen".to_owned(),
    };
    Some(if cap.exceeded { format!("{words}, EXCEEDED") } else { words })
}
