//! Contention, pressure and release, in the terminal.

use super::super::status::{Figure, OrphanPart, Status};
use super::Written;
use crate::model::contention::{ContentionState, PressureState};
use crate::model::pool::Reader;
use crate::units::{Bytes, Seconds, SignedBytes};
use std::fmt::Write;

/// States that somebody has to act on.
const BAD: [ContentionState; 2] = [ContentionState::Overcommitted, ContentionState::Evicting];

/// Headlines: what somebody has to act on.
pub(super) fn alarms(out: &mut String, status: &Status) -> Written {
    let contention = &status.contention;
    if is_bad(&contention.state) {
        writeln!(out, "!! JOBS ARE {}", contention.state.to_uppercase())?;
        parts(out, &contention.evidence)?;
        if let Some(first) = &contention.stop_first {
            writeln!(out, "   To do: stop {first}.")?;
        }
        writeln!(out)?;
    }
    let pressure = &status.pressure;
    let bad = [PressureState::Thrashing, PressureState::Exhausted].map(PressureState::as_str);
    if bad.contains(&pressure.state.as_str()) {
        writeln!(out, "!! MEMORY IS {}", pressure.state.to_uppercase())?;
        parts(out, &pressure.evidence)?;
        writeln!(out)?;
    }
    Ok(())
}

fn is_bad(state: &str) -> bool {
    BAD.map(ContentionState::as_str).contains(&state)
}

/// A line for each part of the evidence.
fn parts(out: &mut String, evidence: &str) -> Written {
    evidence.split("; ").try_for_each(|part| writeln!(out, "   {part}"))
}

/// How the jobs get along, after the list of them.
pub(super) fn contention(out: &mut String, status: &Status) -> Written {
    let contention = &status.contention;
    let quiet = [ContentionState::None, ContentionState::Unknown].map(ContentionState::as_str);
    if !contention.claims.is_empty()
        && (!quiet.contains(&contention.state.as_str()) || contention.claims.len() > 1)
    {
        let share = contention.committed_ratio.value().map(|share| share * 100.0);
        let share = share.map(|share| format!(", {share:.0} % of the pool committed"));
        let share = share.unwrap_or_default();
        // Who and how much is said at the top where somebody has to act on it.
        if is_bad(&contention.state) {
            writeln!(out, "Jobs: {}{share}; see above\n", contention.state)?;
        } else {
            writeln!(out, "Jobs: {}{share}", contention.state)?;
            parts(out, &contention.evidence)?;
            writeln!(out)?;
        }
    }
    release(out, status)
}

fn release(out: &mut String, status: &Status) -> Written {
    let release = &status.release;
    let pending = release.pending.value().copied().unwrap_or(0);
    let orphans = &release.orphans;
    if pending == 0 && orphans.is_empty() && release.waits_for.is_none() {
        return Ok(());
    }
    let left = pending > 0 || !orphans.is_empty();
    writeln!(out, "{}", if left { "Not given back" } else { "Before the next job" })?;
    if pending > 0 {
        let lag = release.lag_seconds.value().map(|lag| format!(" for {}", Seconds(*lag)));
        let lag = lag.unwrap_or_default();
        writeln!(out, "  {} of jobs that have ended, still held{lag}", Bytes(pending))?;
    }
    orphans.iter().try_for_each(|orphan| writeln!(out, "  {}", orphaned(orphan)))?;
    if let Some(waits) = &release.waits_for {
        writeln!(out, "  The next job waits for {waits}.")?;
    }
    if let Some(Figure::Value(safe)) = release.safe_to_start.get(Reader::Available.as_str()) {
        writeln!(out, "  Safe to start now: {}", SignedBytes(*safe))?;
    }
    writeln!(out)
}

fn orphaned(orphan: &OrphanPart) -> String {
    let OrphanPart { workload, unit, pid, held, seen, idle_seconds } = orphan;
    let (held, idle) = (Bytes(*held), Seconds(*idle_seconds));
    let why = if *seen { "its server has ended" } else { "its server is not to be seen" };
    let sure = if *seen { "ORPHAN" } else { "suspected orphan" };
    format!("{sure}: {workload} ({unit}, pid {pid}) holds {held}, idle for {idle}; {why}")
}
