//! What ended jobs have not given back: stopping is not releasing.
//!
//! When a job ends its row is gone from the driver's list, and memory that the driver still holds for it
//! becomes part of what nobody has an account of. So what is pending is what that has grown by since the
//! job was there, and never more than the job held.

use super::window::{Extreme, Keep};
use crate::model::contention::{Ended, Orphan, Release};
use crate::model::moment::Moment;
use crate::model::pool::{Pool, Reader, Segment};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Attribution, Holder, Unaccounted};
use crate::model::workload::{CapKind, Job, JobId, Phase, Sight, View, Workloads};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Ratio, Seconds, SignedBytes};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The driver's lists and the kernel's figures are read a second apart.
const SETTLES: Duration = Duration::from_secs(5);
/// A driver takes a job off its list before the job is gone, or after it: what it held in this time counts.
const LATELY: Duration = Duration::from_secs(30);

/// What is remembered.
#[derive(Clone, Debug)]
pub struct State {
    /// The jobs of the last look, and the most that each held lately.
    before: BTreeMap<JobId, (Ended, Extreme)>,
    /// What nobody had an account of before the first of the ends that are pending.
    unknown: Option<Bytes>,
    /// The least of that lately.
    calm: Extreme,
    /// Jobs that have ended and may not have given everything back.
    ended: VecDeque<(Duration, Bytes)>,
    /// When the jobs of the last release had ended, and when it was over.
    lag: Option<(Duration, Option<Duration>)>,
    /// Since when each job without a server has done nothing.
    idle: BTreeMap<JobId, Duration>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            before: BTreeMap::new(),
            unknown: None,
            calm: Extreme::new(Keep::Min, LATELY),
            ended: VecDeque::new(),
            lag: None,
            idle: BTreeMap::new(),
        }
    }
}

/// Derives what is pending. `pooled` tells whether the driver keeps freed pages in pools.
pub fn derive(
    state: &mut State,
    (at, pooled): (Moment, Reading<bool>),
    pool: &Pool,
    unaccounted: &Unaccounted,
    workloads: &Workloads,
    t: &Thresholds,
) -> Release {
    let jobs = workloads.jobs.as_deref().map(Vec::as_slice);
    // Who is not seen has ended only where everybody could be.
    let ended = match (jobs, &workloads.present) {
        (Ok(jobs), Some(present)) => state.note_ends(at, jobs, present, t),
        _ => Vec::new(),
    };
    // What the driver still charges to one that has ended has an owner by name only.
    let unburied = jobs.unwrap_or_default().iter().filter(|job| job.sight == Sight::Ended);
    let unburied: Bytes = unburied.filter_map(|job| job.in_pool.ok()).sum();
    let unknown = nobodys(unaccounted, pool, pooled);
    let (pending, gave_up) = state.pending(at.mono, unknown, unburied, t);
    let lag = state.note_lag(at.mono, pending, t);
    let jobs = jobs.map_err(|reason| *reason);
    let full = workloads.view == Ok(View::Full);
    let orphans = jobs.map_or_else(|_| Vec::new(), |jobs| state.orphans(at.mono, jobs, full, t));
    let (safe, waits_for) = safe(pool, jobs, pending, t);
    Release { pending, gave_up, lag, ended, orphans: Arc::new(orphans), safe, waits_for }
}

/// What nobody has an account of, the driver's pools excluded. When a job has ended and its memory is still
/// held, its GPU stays in the state that only a context keeps it in, and nobody is listed: then all that is
/// unaccounted is nobody's.
fn nobodys(unaccounted: &Unaccounted, pool: &Pool, pooled: Reading<bool>) -> Reading<Bytes> {
    match unaccounted.attribution {
        Attribution::Complete | Attribution::Estimated | Attribution::Clamped => {
            unaccounted.part(Holder::Unknown)
        }
        Attribution::Hidden if matches!(pooled, Ok(false) | Err(Missing::NotPresent)) => {
            pool.partition.as_ref().map_err(|reason| *reason)?.part(Segment::Unaccounted)
        }
        Attribution::Hidden | Attribution::Partial | Attribution::Unknown => {
            Err(Missing::NotAvailable)
        }
        Attribution::NotShared => Err(Missing::NotPresent),
    }
}

impl State {
    /// Notes which jobs have ended since the last look. One whose processes go on in another job has not.
    fn note_ends(
        &mut self,
        at: Moment,
        jobs: &[Job],
        present: &BTreeSet<JobId>,
        t: &Thresholds,
    ) -> Vec<Ended> {
        let mut ends = Vec::new();
        let gone: Vec<JobId> =
            self.before.keys().filter(|id| !present.contains(id)).copied().collect();
        for id in gone {
            let Some((mut ended, _)) = self.before.remove(&id) else { continue };
            // What its workers go on holding is theirs now.
            let its = jobs.iter().filter(|job| job.left == Some(id));
            ended.held = ended.held.less(its.map(Job::held).sum());
            ended.at = at;
            if ended.held >= t.release_from {
                self.unknown = self.unknown.or(self.calm.get().map(Bytes));
                self.ended.push_back((at.mono, ended.held));
            }
            ends.push(ended);
        }
        for job in jobs.iter().filter(|job| job.sight.runs()) {
            let known = self.before.entry(job.id());
            let (class, unit, phase) = (job.class.clone(), job.unit.clone(), job.phase);
            let new = || {
                let (class, unit) = (class.clone(), unit.clone());
                let ended = Ended { at, class, unit, held: Bytes(0), phase };
                (ended, Extreme::new(Keep::Max, LATELY))
            };
            let (ended, most) = known.or_insert_with(new);
            if let Ok(Bytes(held)) = job.in_pool {
                most.push(at.mono, held);
            }
            let held = most.get().map_or(ended.held, Bytes);
            *ended = Ended { at, class, unit, held, phase };
        }
        ends
    }

    /// What is still held of them, and whether some of it was given up as nobody's just now.
    fn pending(
        &mut self,
        now: Duration,
        unknown: Reading<Bytes>,
        unburied: Bytes,
        t: &Thresholds,
    ) -> (Reading<Bytes>, bool) {
        let limit = Duration::try_from_secs_f64(t.release_for.0).unwrap_or_default();
        let before = self.ended.len();
        while self.ended.front().is_some_and(|(at, _)| now.saturating_sub(*at) > limit) {
            self.ended.pop_front();
        }
        let gave_up = before > 0 && self.ended.is_empty();
        if gave_up {
            self.lag = None;
        }
        let unknown = match unknown {
            Ok(unknown) => unknown,
            Err(reason) => return (Err(reason), gave_up),
        };
        if self.ended.is_empty() {
            self.unknown = None;
            if gave_up {
                self.calm = Extreme::new(Keep::Min, LATELY);
            }
            self.calm.push(now, unknown.0);
            return (Ok(Bytes(0)), gave_up);
        }
        let Some(before) = self.unknown else { return (Err(Missing::Pending), gave_up) };
        let held: Bytes = self.ended.iter().map(|(_, held)| *held).sum();
        let pending = unknown.less(before).plus(unburied).min(held);
        if pending >= t.release_from {
            return (Ok(pending), gave_up);
        }
        // It may not have left the list that it is charged on: the balance is told by what comes then.
        let since = self.ended.back().map_or(now, |(at, _)| *at);
        if now.saturating_sub(since) >= SETTLES {
            self.ended.clear();
        }
        (Ok(Bytes(0)), gave_up)
    }

    /// A release begins when its jobs have ended, if anything is left of them at all.
    fn note_lag(
        &mut self,
        now: Duration,
        pending: Reading<Bytes>,
        t: &Thresholds,
    ) -> Reading<Seconds> {
        let much = pending.map(|pending| pending >= t.release_from);
        let first = self.ended.front().map(|(at, _)| *at);
        match (&mut self.lag, much) {
            (Some((_, until @ None)), Ok(false)) => *until = Some(now),
            (None | Some((_, Some(_))), Ok(true)) => self.lag = first.map(|first| (first, None)),
            _ => {}
        }
        match self.lag {
            None => Err(Missing::NotPresent),
            Some((from, until)) => {
                pending?;
                Ok(Seconds(until.unwrap_or(now).saturating_sub(from).as_secs_f64()))
            }
        }
    }

    /// Workers without their server that hold much and do nothing.
    fn orphans(&mut self, now: Duration, jobs: &[Job], full: bool, t: &Thresholds) -> Vec<Orphan> {
        // Where not everybody is to be seen a server may well be there.
        let may_be = |job: &&Job| {
            (job.left.is_some() || job.worker && full)
                && job.in_pool.is_ok_and(|held| held >= t.orphan_from)
        };
        let candidates: Vec<&Job> = jobs.iter().filter(may_be).collect();
        let known: Vec<JobId> = candidates.iter().map(|job| job.id()).collect();
        self.idle.retain(|id, _| known.contains(id));
        let mut orphans = Vec::new();
        for (job, id) in candidates.into_iter().zip(known) {
            let works = job.phase == Ok(Phase::Serving)
                || job.cpus.is_ok_and(|Ratio(cpus)| cpus >= t.job_busy_cpus.0);
            if works || job.cpus.is_err() {
                self.idle.remove(&id);
                continue;
            }
            let since = *self.idle.entry(id).or_insert(now);
            let idle = Seconds(now.saturating_sub(since).as_secs_f64());
            if idle.0 >= t.orphan_for.0 {
                let (class, unit) = (job.class.clone(), job.unit.clone());
                let held = job.held();
                orphans.push(Orphan {
                    class,
                    unit,
                    pid: job.pid,
                    held,
                    seen: job.left.is_some(),
                    idle,
                });
            }
        }
        orphans
    }
}

/// Whether a job without a bound may be on its way to more. Of one that was there before the exporter that is
/// not known at once.
fn grows(job: &Job, t: &Thresholds) -> bool {
    let holds = job.in_pool.is_ok_and(|held| held >= t.job_small);
    match job.phase {
        Ok(Phase::Starting | Phase::Loading | Phase::Warming) => true,
        Ok(Phase::Unknown) => holds && job.settled.is_err(),
        _ => false,
    }
}

/// What the next job can take. Memory that is still being released is not available yet and so not in it.
fn safe(
    pool: &Pool,
    jobs: Reading<&[Job]>,
    pending: Reading<Bytes>,
    t: &Thresholds,
) -> ([Reading<SignedBytes>; Reader::ALL.len()], Option<String>) {
    let jobs = match jobs {
        Ok(jobs) => jobs,
        Err(reason) => return ([Err(reason); Reader::ALL.len()], None),
    };
    let mut waits = Vec::new();
    if let Ok(bytes) = pending
        && bytes > Bytes(0)
    {
        waits.push(format!("{bytes} of a job that has ended to be given back"));
    }
    let (mut may_take, mut open) = (Ok(Bytes(0)), false);
    for job in jobs {
        match (job.cap.kind, job.cap.bytes) {
            (CapKind::Whole | CapKind::FractionOfFree, Ok(cap)) if !job.cap.exceeded => {
                may_take = may_take.and_then(|sum| Ok(sum.plus(cap.less(job.in_pool?))));
            }
            _ if grows(job, t) => {
                // Nobody knows where a load without a bound ends.
                open = true;
                let does = match job.phase {
                    Ok(Phase::Unknown) | Err(_) => "has not been watched for long enough",
                    Ok(Phase::Starting) => "is starting",
                    Ok(_) => "is loading",
                };
                waits.push(format!("{} ({}), which {does}", job.class.as_str(), job.unit));
            }
            _ => {}
        }
    }
    let safe = pool.headroom.map(|headroom| {
        if open {
            return Err(Missing::Pending);
        }
        let taken = i64::try_from(may_take?.0).unwrap_or(i64::MAX);
        Ok(SignedBytes(headroom?.0.saturating_sub(taken)))
    });
    (safe, (!waits.is_empty()).then(|| waits.join("; ")))
}

#[cfg(test)]
mod tests;
