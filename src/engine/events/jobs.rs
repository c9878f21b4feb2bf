//! Jobs that come and go, that fight, and that leave something behind.

use super::{EventKind, Journal, Severity};
use crate::model::contention::{ContentionState, Ended, PressureState};
use crate::model::moment::Moment;
use crate::model::pool::Verdicts;
use crate::model::workload::{Job, JobId, Phase};
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;

/// What was noted of the jobs.
#[derive(Default)]
pub(super) struct Noted {
    /// Those that hold GPU memory, by pid and start; none before the first look.
    holding: Option<BTreeSet<JobId>>,
    contention: Settling<ContentionState>,
    pressure: Settling<PressureState>,
    pending: bool,
    orphans: BTreeSet<u32>,
}

/// A state as it was last noted. Worse ones are noted at once, better ones when they have lasted.
struct Settling<S> {
    noted: Option<S>,
    better: Option<(S, Moment)>,
}

impl<S> Default for Settling<S> {
    fn default() -> Self {
        Self { noted: None, better: None }
    }
}

impl<S: Copy + PartialEq> Settling<S> {
    /// Whether this one is to be noted now, and the state that was noted before.
    fn change(&mut self, now: S, worse: bool, at: Moment, settle: Duration) -> (bool, Option<S>) {
        if self.noted == Some(now) {
            self.better = None;
            return (false, self.noted);
        }
        if !worse && self.noted.is_some() {
            match self.better {
                Some((better, since)) if better == now => {
                    if at.since(since) < settle {
                        return (false, self.noted);
                    }
                }
                _ => {
                    self.better = Some((now, at));
                    return (false, self.noted);
                }
            }
        }
        self.better = None;
        (true, self.noted.replace(now))
    }
}

/// How much a state asks of its reader.
const fn of_contention(state: ContentionState) -> Severity {
    match state {
        ContentionState::Evicting | ContentionState::Overcommitted => Severity::Warning,
        _ => Severity::Info,
    }
}

const fn of_pressure(state: PressureState) -> Severity {
    match state {
        PressureState::Exhausted => Severity::Error,
        PressureState::Thrashing => Severity::Warning,
        _ => Severity::Info,
    }
}

impl Journal {
    pub(super) fn note_jobs(&mut self, at: Moment, verdicts: &Verdicts, t: &Thresholds) {
        let settle = Duration::try_from_secs_f64(t.event_settle.0).unwrap_or_default();
        self.note_holders(at, verdicts, t);
        for ended in &verdicts.release.ended {
            self.note_end(at, ended, t);
        }
        self.note_contention(at, verdicts, settle);
        self.note_pressure(at, verdicts, settle);
        self.note_release(at, verdicts);
        self.note_orphans(at, verdicts);
    }

    /// Who was there when the exporter started is no news.
    fn note_holders(&mut self, at: Moment, verdicts: &Verdicts, t: &Thresholds) {
        let Ok(jobs) = &verdicts.workloads.jobs else { return };
        // Who is not seen while a list cannot be read is still there.
        let Some(present) = &verdicts.workloads.present else { return };
        let id = Job::id;
        let holds = |job: &&Job| job.sight.runs() && job.gpu.is_ok_and(|gpu| gpu >= t.job_small);
        let known =
            self.jobs.holding.get_or_insert_with(|| jobs.iter().filter(holds).map(id).collect());
        known.retain(|known| present.contains(known));
        let new: Vec<&Job> =
            jobs.iter().filter(holds).filter(|job| known.insert(id(job))).collect();
        for job in new {
            let cap = match job.cap.bytes {
                Ok(bytes) => format!("cap {} {bytes}", job.cap.kind.as_str()),
                Err(_) => format!("cap {}", job.cap.kind.as_str()),
            };
            let (class, unit, pid) = (job.class.as_str(), &job.unit, job.pid);
            let evidence = format!("{class} ({unit}, pid {pid}) holds GPU memory; {cap}");
            self.push(at, EventKind::JobHolds, Severity::Info, "jobs", evidence);
        }
    }

    /// One that ends before it has settled has failed, or was stopped: that is not known.
    fn note_end(&mut self, at: Moment, ended: &Ended, t: &Thresholds) {
        let early = matches!(ended.phase, Ok(Phase::Starting | Phase::Loading | Phase::Warming));
        if ended.held < t.job_small && !early {
            return;
        }
        let phase = ended.phase.map_or("", Phase::as_str);
        let (class, unit, held) = (ended.class.as_str(), &ended.unit, ended.held);
        let phase = if phase.is_empty() { String::new() } else { format!(", was {phase}") };
        let evidence = format!("{class} ({unit}) has ended; held {held}{phase}");
        self.push(at, EventKind::JobEnded, Severity::Info, "jobs", evidence);
    }

    fn note_contention(&mut self, at: Moment, verdicts: &Verdicts, settle: Duration) {
        let contention = &verdicts.contention;
        let severity = of_contention(contention.state);
        let before = self.jobs.contention.noted;
        let worse =
            severity == Severity::Warning && before.is_none_or(|before| before < contention.state);
        let (changed, was) = self.jobs.contention.change(contention.state, worse, at, settle);
        if !changed {
            return;
        }
        // That nothing is wrong when the exporter starts is no news, nor is that it cannot be told.
        let quiet = |state: ContentionState| of_contention(state) == Severity::Info;
        if quiet(contention.state) && was.is_none_or(quiet) {
            return;
        }
        let was = was.map(|was| format!(", was {}", was.as_str())).unwrap_or_default();
        let first = contention.stop_first.as_ref().map(|first| format!(". To do: stop {first}"));
        let (state, why) = (contention.state.as_str(), &contention.evidence);
        let evidence = format!("{state}{was}: {why}{}", first.unwrap_or_default());
        self.push(at, EventKind::Contention, severity, "jobs", evidence);
    }

    fn note_pressure(&mut self, at: Moment, verdicts: &Verdicts, settle: Duration) {
        let pressed = &verdicts.pressed;
        if pressed.state == PressureState::Unknown {
            return;
        }
        let before = self.jobs.pressure.noted;
        let worse = before.is_none_or(|before| before < pressed.state);
        let (changed, was) = self.jobs.pressure.change(pressed.state, worse, at, settle);
        if !changed {
            return;
        }
        // Room that comes and goes is what a box does all day.
        let quiet = |state: PressureState| state <= PressureState::Reclaiming;
        if quiet(pressed.state) && was.is_none_or(quiet) {
            return;
        }
        let was = was.map(|was| format!(", was {}", was.as_str())).unwrap_or_default();
        let evidence = format!("{}{was}: {}", pressed.state.as_str(), pressed.evidence);
        self.push(at, EventKind::Pressure, of_pressure(pressed.state), "pool", evidence);
    }

    fn note_release(&mut self, at: Moment, verdicts: &Verdicts) {
        let release = &verdicts.release;
        let Ok(pending) = release.pending else { return };
        let now = pending > Bytes(0);
        if std::mem::replace(&mut self.jobs.pending, now) == now {
            return;
        }
        let evidence = if now {
            format!("{pending} of jobs that have ended are still held")
        } else if release.gave_up {
            "what ended jobs held was not given back; it is not followed any longer".to_owned()
        } else {
            let lag = release.lag.map(|lag| format!(" after {lag}")).unwrap_or_default();
            format!("what ended jobs held is given back{lag}")
        };
        self.push(at, EventKind::Release, Severity::Info, "jobs", evidence);
    }

    fn note_orphans(&mut self, at: Moment, verdicts: &Verdicts) {
        let orphans = &verdicts.release.orphans;
        self.jobs.orphans.retain(|pid| orphans.iter().any(|orphan| orphan.pid == *pid));
        for orphan in orphans.iter() {
            if !self.jobs.orphans.insert(orphan.pid) {
                continue;
            }
            let (class, unit, pid, held) =
                (orphan.class.as_str(), &orphan.unit, orphan.pid, orphan.held);
            let (why, advice) = if orphan.seen {
                ("its server has ended", "stop it")
            } else {
                ("suspected: its server is not to be seen", "look whose it is, then stop it")
            };
            let evidence = format!(
                "{class} ({unit}, pid {pid}) holds {held} and has done nothing for {}; {why}. To do: {advice}",
                orphan.idle
            );
            self.push(at, EventKind::Orphan, Severity::Warning, "jobs", evidence);
        }
    }
}
