//! Whether the jobs fit together: by what bounds them, not by their presence.

use crate::model::contention::{Claim, Contention, ContentionState, Pressed, PressureState};
use crate::model::naming::OTHER;
use crate::model::pool::Pool;
use crate::model::reading::Missing;
use crate::model::workload::{CapKind, Family, Job, Phase, Sight, View, Workloads};
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use std::sync::Arc;

/// What a job claims, and how that is known.
struct Judged<'a> {
    job: &'a Job,
    claim: Claim,
    /// Nobody can see what bounds it.
    unseen: bool,
}

/// Derives whether the jobs fight.
#[must_use]
pub fn derive(workloads: &Workloads, pool: &Pool, pressed: &Pressed, t: &Thresholds) -> Contention {
    let (jobs, size) = match (&workloads.jobs, pool.size) {
        (Ok(jobs), Ok(size)) => (jobs, size),
        (Err(reason), _) => return unknown(*reason, reason.as_str().to_owned()),
        (_, Err(reason)) => return unknown(reason, reason.as_str().to_owned()),
    };
    if let Err(reason) = workloads.driver {
        let evidence = format!("what the jobs hold on the GPU is not read ({})", reason.as_str());
        return unknown(reason, evidence);
    }
    let counted: Vec<&Job> = jobs.iter().filter(|job| counts(job, size, t)).collect();
    if let Some(job) = counted.iter().find(|job| job.in_pool.is_err()) {
        let reason = job.in_pool.err().unwrap_or(Missing::NotAvailable);
        return unknown(
            reason,
            format!("what the jobs hold on the GPU is not read ({})", reason.as_str()),
        );
    }
    let on_gpu = |job: &&&Job| job.in_pool.is_ok_and(|gpu| gpu >= t.job_small);
    let beside = counted.iter().any(|job| on_gpu(&job));
    let judged: Vec<Judged<'_>> = counted.iter().map(|job| judge(job, size, beside, t)).collect();
    let partial = workloads.view != Ok(View::Full);
    decide(&judged, size, partial, pressed, t)
}

fn unknown(reason: Missing, evidence: String) -> Contention {
    Contention {
        state: ContentionState::Unknown,
        evidence,
        stop_first: None,
        claims: Arc::default(),
        heavy: Err(reason),
        uncapped: Err(reason),
        committed: Err(reason),
    }
}

/// Whether a job has a part in it: it holds something, or may come to.
fn counts(job: &Job, size: Bytes, t: &Thresholds) -> bool {
    if job.class.class.family() == Family::Desktop && job.held() < t.heavy_from {
        return false;
    }
    let on_gpu = job.in_pool.is_err() || job.in_pool.is_ok_and(|gpu| gpu >= t.job_small);
    on_gpu || job.held() >= t.heavy_from || claims(job, size) >= t.heavy_from
}

/// What it holds or may take, whichever is more.
fn claims(job: &Job, size: Bytes) -> Bytes {
    let held = job.held();
    let gpu = job.in_pool.unwrap_or_default();
    let host = held.less(gpu);
    let bound = match (job.cap.kind, job.cap.bytes) {
        (CapKind::Whole | CapKind::FractionOfFree, Ok(bytes)) if !job.cap.exceeded => {
            gpu.max(bytes)
        }
        // On top of the weights while they are loaded for the first time; after that it is part of what it holds.
        (CapKind::KvOnly, Ok(bytes)) if first_load(job) => gpu.plus(bytes),
        (CapKind::KvOnly, Ok(bytes)) => gpu.max(bytes).max(job.settled.unwrap_or_default()),
        _ => gpu,
    };
    bound.plus(host).min(size.max(held))
}

/// Whether a job that began under the exporter's eyes loads for the first time.
const fn first_load(job: &Job) -> bool {
    matches!(job.sight, Sight::Begun)
        && job.settled.is_err()
        && matches!(job.phase, Ok(Phase::Starting | Phase::Loading))
}

const fn settled(job: &Job) -> bool {
    matches!(job.phase, Ok(Phase::Serving | Phase::Idle))
}

fn judge<'a>(job: &'a Job, size: Bytes, beside: bool, t: &Thresholds) -> Judged<'a> {
    let (held, claims) = (job.held(), claims(job, size));
    let half = size.scaled(t.heavy_share.0);
    let uncapped = job.cap.kind == CapKind::None || job.cap.exceeded;
    // A share of what nobody has seen is a cap that cannot be seen.
    let unseen = match job.cap.kind {
        CapKind::Unknown => true,
        CapKind::FractionOfFree => job.cap.bytes.is_err() && !settled(job),
        _ => false,
    };
    // On the GPU or beside it: what a small run has of both is not a heavy one.
    let gpu = job.in_pool.unwrap_or_default();
    let much = gpu.max(held.less(gpu)) >= t.heavy_from;
    let notebook = job.class.class.family() == Family::Notebook;
    // A build is the CPU's business until it is beside a job of the GPU.
    let much = much && (beside || job.class.class.family() != Family::Compiler);
    let heavy = if claims >= half {
        Ok(true)
    } else if uncapped && much && notebook {
        // One that nobody types in is nobody's run: it holds what it holds. When a cell runs it counts.
        match job.phase {
            Ok(Phase::Idle) => Ok(false),
            Ok(Phase::Unknown) | Err(_) => Err(Missing::Pending),
            Ok(_) => Ok(true),
        }
    } else if uncapped {
        Ok(much)
    } else if unseen {
        Err(Missing::NotAvailable)
    } else {
        Ok(false)
    };
    let (class, unit) = (job.class.clone(), job.unit.clone());
    let claim = Claim { class, unit, pid: job.pid, held, claims, heavy, uncapped };
    Judged { job, claim, unseen }
}

fn decide(
    judged: &[Judged<'_>],
    size: Bytes,
    partial: bool,
    pressed: &Pressed,
    t: &Thresholds,
) -> Contention {
    let room = size.less(t.reserve);
    let committed: Bytes = judged.iter().map(|one| one.claim.claims).sum();
    let surely = judged.iter().filter(|one| one.claim.heavy == Ok(true)).count();
    let perhaps = judged.iter().filter(|one| one.claim.heavy.is_err()).count();
    let several = judged.len() > 1;
    let over = several && (surely >= 2 || committed > room);
    // What a job may take whose cap nobody sees is anything: that it fits is not known either.
    let may_be_over = several && (perhaps > 0 || judged.iter().any(|one| one.unseen));
    let state = match () {
        () if over => ContentionState::Overcommitted,
        () if partial || may_be_over => ContentionState::Unknown,
        () if several => ContentionState::Shared,
        () => ContentionState::None,
    };
    let little = matches!(
        pressed.state,
        PressureState::Tight
            | PressureState::Reclaiming
            | PressureState::Thrashing
            | PressureState::Exhausted
    );
    let proven: Vec<String> = pressed
        .proven()
        .map(|(symptom, sign)| format!("{}: {}", symptom.as_str(), sign.evidence))
        .collect();
    let evicting = several && !proven.is_empty() && (over || little);
    let state = if evicting { ContentionState::Evicting } else { state };
    let mut parts: Vec<String> = judged.iter().map(told).collect();
    parts.push(format!("together {committed} of {room} above the reserve"));
    if state == ContentionState::Unknown {
        parts.push(if partial && !may_be_over {
            "not all of the box's processes can be seen".to_owned()
        } else {
            "what would decide it cannot be seen".to_owned()
        });
    }
    parts.extend(proven.into_iter().filter(|_| evicting));
    let bad = matches!(state, ContentionState::Overcommitted | ContentionState::Evicting);
    let mut claims: Vec<Claim> = judged.iter().map(|one| one.claim.clone()).collect();
    claims.sort_by_key(|claim| std::cmp::Reverse(claim.claims));
    Contention {
        state,
        evidence: parts.join("; "),
        stop_first: if bad { stop_first(judged, t) } else { None },
        claims: Arc::new(claims),
        heavy: if perhaps == 0 { Ok(surely as u64) } else { Err(Missing::NotAvailable) },
        uncapped: Ok(judged.iter().filter(|one| one.claim.uncapped).count() as u64),
        committed: committed.share_of(size).ok_or(Missing::NotAvailable),
    }
}

/// A job and its claim in words.
fn told(one: &Judged<'_>) -> String {
    let Judged { job, claim, unseen } = one;
    let Claim { held, claims, .. } = claim;
    let name = name(job);
    let cap = match job.cap.kind {
        _ if job.cap.exceeded => ", more than its cap allows".to_owned(),
        _ if *unseen => ", its cap cannot be seen".to_owned(),
        CapKind::None => ", without a cap".to_owned(),
        _ if claims > held => format!(", may take {claims}"),
        _ => String::new(),
    };
    let heavy = if claim.heavy == Ok(true) { ", heavy" } else { "" };
    format!("{name} holds {held}{cap}{heavy}")
}

fn name(job: &Job) -> String {
    if &*job.unit == OTHER {
        return job.class.as_str().to_owned();
    }
    format!("{} ({}, pid {})", job.class.as_str(), job.unit, job.pid)
}

/// The newest of those that hold much and that nothing is seen to bound: the others were there and had room.
/// Where all have a bound, the newest of the heavy ones, and of all where none is.
fn stop_first(judged: &[Judged<'_>], t: &Thresholds) -> Option<String> {
    let newest = |which: &dyn Fn(&Judged<'_>) -> bool| {
        let those = judged.iter().filter(|one| which(one));
        those.max_by(|a, b| a.job.started.0.total_cmp(&b.job.started.0))
    };
    let much = |one: &Judged<'_>| one.claim.held >= t.heavy_from;
    let open = |one: &Judged<'_>| {
        (one.claim.uncapped && one.claim.heavy == Ok(true)) || (one.unseen && much(one))
    };
    let uncapped = newest(&open).map(|one| {
        let seen = if one.unseen { " is seen to bound" } else { " bounds" };
        (one, format!("the newest of those that nothing{seen}"))
    });
    let heavy = || {
        newest(&|one| one.claim.heavy == Ok(true))
            .map(|one| (one, "the newest of the heavy ones".to_owned()))
    };
    let any = || newest(&|_| true).map(|one| (one, "the newest".to_owned()));
    let (one, why) = uncapped.or_else(heavy).or_else(any)?;
    // What a server compiles while it starts is over by itself; to stop it is to stop the start.
    let compiles = one.job.class.class.family() == Family::Compiler;
    if compiles && judged.iter().any(|one| one.job.compiles) {
        return None;
    }
    Some(format!("{}: {why}", name(one.job)))
}

#[cfg(test)]
mod tests;
