//! What happened: verdict and health transitions as a bounded list, each logged once.
//!
//! Bad news is noted at once. Good news is noted when it has lasted for a while (threshold
//! `event.settle`): a sensor that hangs every few seconds is one event and not hundreds, which would
//! push everything else out of the list.

use crate::model::event::{Event, EventKind, Severity};
use crate::model::frame::{Boot, Health, SourceHealth};
use crate::model::moment::Moment;
use crate::model::pool::{Exhaustion, Pool, Reader, Verdicts};
use crate::model::reading::Reading;
use crate::model::sharing::{Basis, Sharing};
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, Source, SourceState};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, GIB};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

mod jobs;
mod kernel_log;
mod throttle;
mod training;

/// Older events are forgotten.
const KEPT: usize = 256;

#[derive(Default)]
pub(super) struct Journal {
    events: Arc<Vec<Event>>,
    number: u64,
    sources: [Followed; Source::COUNT],
    lanes: [Late; Lane::ALL.len()],
    below_reserve: bool,
    imminent: bool,
    unclean: bool,
    /// Whether each GPU shares the pool, as it was last noted.
    sharing: BTreeMap<u32, (Sharing, Moment)>,
    /// Xid errors that were noted, and when last.
    xids: BTreeMap<(u32, u32), (u64, Moment)>,
    /// How each GPU works.
    throttle: throttle::Noted,
    /// What the kernel had said.
    kernel: kernel_log::Noted,
    /// What was told of each training run.
    runs: BTreeMap<String, training::ToldRun>,
    /// The jobs.
    jobs: jobs::Noted,
}

/// A source's state as it was last noted, and since when it has been well.
#[derive(Default)]
struct Followed {
    noted: Option<SourceState>,
    well_since: Option<Moment>,
    /// A trouble other than the noted one, and since when.
    other: Option<(SourceState, Moment)>,
}

/// A lane that misses rounds: how many it had missed before, how many now, and when the last one.
#[derive(Default)]
struct Late {
    before: u64,
    missed: u64,
    last: Option<Moment>,
}

/// States in which nothing is wrong.
const fn well(state: SourceState) -> bool {
    matches!(state, SourceState::Ok | SourceState::NotPresent | SourceState::Disabled)
}

/// A figure, or in its place the reason why there is none.
fn told<T: std::fmt::Display>(reading: Reading<T>) -> String {
    reading.map_or_else(|reason| reason.as_str().to_owned(), |value| value.to_string())
}

impl Journal {
    /// The list, oldest first.
    pub(super) fn events(&self) -> Arc<Vec<Event>> {
        Arc::clone(&self.events)
    }

    /// Compares with what was known and notes what has changed.
    pub(super) fn note(
        &mut self,
        snapshot: &Snapshot,
        health: &Health,
        verdicts: &Verdicts,
        boot: Boot,
        thresholds: &Thresholds,
    ) {
        let at = snapshot.at;
        let settle = Duration::from_secs_f64(thresholds.event_settle.0);
        for &source in Source::ALL {
            self.note_source(at, source, &health.sources[source.index()], settle);
        }
        for &lane in Lane::ALL {
            self.note_lane(at, lane, health.lanes[lane as usize].missed, settle);
        }
        self.note_sharing(snapshot, verdicts, settle);
        self.note_xids(snapshot, verdicts, settle);
        self.note_kernel(snapshot, verdicts, thresholds);
        self.note_throttle(at, &verdicts.throttle);
        self.note_runs(at, verdicts);
        self.note_jobs(at, verdicts, thresholds);
        self.note_reserve(at, &verdicts.pool);
        self.note_exhaustion(at, &verdicts.pool);
        if boot.unclean == Ok(true) && !self.unclean {
            self.unclean = true;
            let seen = boot.previous_seen.map(|s| format!("{s} s since 1970"));
            let evidence = format!(
                "the box went down without stopping the exporter; last seen alive at {}",
                told(seen)
            );
            self.push(at, EventKind::BootUnclean, Severity::Warning, "boot", evidence);
        }
    }

    fn note_source(&mut self, at: Moment, source: Source, now: &SourceHealth, settle: Duration) {
        let Some(state) = now.state else { return };
        let followed = &mut self.sources[source.index()];
        let before = followed.noted;
        if before == Some(state) {
            (followed.well_since, followed.other) = (None, None);
            return;
        }
        // From one trouble to another: a driver that fails and hangs by turns is one trouble until it has
        // lasted as another.
        if let Some(noted) = before
            && !well(noted)
            && !well(state)
        {
            match followed.other {
                Some((other, since)) if other == state => {
                    if at.since(since) < settle {
                        return;
                    }
                }
                _ => {
                    followed.other = Some((state, at));
                    return;
                }
            }
        }
        if well(state) {
            // What a machine has or does not have is no event when the exporter starts.
            let Some(before) = before else {
                followed.noted = Some(state);
                return;
            };
            let since = *followed.well_since.get_or_insert(at);
            if !well(before) && at.since(since) < settle {
                return;
            }
        }
        followed.noted = Some(state);
        (followed.well_since, followed.other) = (None, None);
        let severity = match state {
            // What was there and is gone is news: a driver that was unloaded, a mount that went away.
            SourceState::NotPresent if before == Some(SourceState::Ok) => Severity::Warning,
            state if well(state) => Severity::Info,
            // Without meminfo there is no pool: the exporter is blind until somebody acts.
            _ if source == Source::Meminfo => Severity::Error,
            _ => Severity::Warning,
        };
        let was = before.map_or("unread", SourceState::as_str);
        let why = now.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
        let evidence = format!("{was} -> {}{why}", state.as_str());
        self.push(at, EventKind::SourceChanged, severity, source.as_str(), evidence);
    }

    /// A lane that begins to miss rounds is noted, and again when it has caught up, with the number.
    fn note_lane(&mut self, at: Moment, lane: Lane, missed: u64, settle: Duration) {
        let known = &mut self.lanes[lane as usize];
        let evidence = if missed > known.missed {
            let begins = known.last.is_none();
            if begins {
                known.before = known.missed;
            }
            (known.missed, known.last) = (missed, Some(at));
            begins.then(|| "a round was still running when the next was due".to_owned())
        } else if known.last.is_some_and(|last| at.since(last) >= settle) {
            known.last = None;
            Some(format!("keeps its period again; {} rounds missed", missed - known.before))
        } else {
            None
        };
        if let Some(evidence) = evidence {
            self.push(at, EventKind::TicksMissed, Severity::Info, lane.as_str(), evidence);
        }
    }

    /// Said once for each GPU, and again if it turns out otherwise: on a machine with a card of its own
    /// memory nothing here is about that card. A GPU that fails to tell for a while is what it was.
    fn note_sharing(&mut self, snapshot: &Snapshot, verdicts: &Verdicts, settle: Duration) {
        let at = snapshot.at;
        for (gpu, memory) in snapshot.gpus.each().zip(verdicts.gpus.iter().flatten()) {
            let Ok(name) = &gpu.name else { continue };
            if let Some((noted, when)) = self.sharing.get(&gpu.index)
                && (*noted == memory.sharing
                    || memory.sharing == Sharing::Unknown
                    || at.since(*when) < settle)
            {
                continue;
            }
            self.sharing.insert(gpu.index, (memory.sharing, at));
            let what = match memory.sharing {
                Sharing::Shared if memory.basis == Basis::NoFigureAndAddressing => {
                    "shares the pool with the CPU, it seems"
                }
                Sharing::Shared => "shares the pool with the CPU",
                Sharing::Separate => "has memory of its own; the pool is the CPU's alone",
                Sharing::Unknown => "may or may not share the pool",
            };
            let (report, basis) = (memory.report.as_str(), memory.basis.as_str());
            let evidence =
                format!("GPU {} {name} {what} (basis {basis}, memory report {report})", gpu.index);
            self.push(at, EventKind::GpuMemory, Severity::Info, "gpu", evidence);
        }
    }

    /// A storm of errors is one line a while, with the number.
    fn note_xids(&mut self, snapshot: &Snapshot, verdicts: &Verdicts, settle: Duration) {
        let Ok(xids) = &snapshot.gpus.xids else { return };
        let at = snapshot.at;
        for (&(gpu, xid), &count) in xids {
            let (noted, when) = self.xids.get(&(gpu, xid)).copied().unwrap_or((0, at));
            // Fewer: another GPU has taken its place.
            let noted = noted.min(count);
            if count == noted || (noted > 0 && at.since(when) < settle) {
                continue;
            }
            self.xids.insert((gpu, xid), (count, at));
            let by_kernel = self.kernel.xids.get(&u64::from(xid));
            if noted == 0 && by_kernel.is_some_and(|when| at.since(*when) < settle) {
                continue;
            }
            let of = kernel_log::of_job(verdicts, xid.into(), at, settle);
            let evidence = format!("GPU {gpu}: Xid {xid}{of}, {count} since the exporter started");
            self.push(at, EventKind::Xid, Severity::Warning, "gpu", evidence);
        }
    }

    fn note_reserve(&mut self, at: Moment, pool: &Pool) {
        let Ok(broken) = pool.below_reserve else { return };
        if std::mem::replace(&mut self.below_reserve, broken) == broken {
            return;
        }
        let (kind, severity) = if broken {
            (EventKind::ReserveBroken, Severity::Warning)
        } else {
            (EventKind::ReserveRestored, Severity::Info)
        };
        let headroom = told(pool.headroom[Reader::Available as usize]);
        let evidence = format!("available {}, headroom {headroom}", told(pool.available));
        self.push(at, kind, severity, "pool", evidence);
    }

    fn note_exhaustion(&mut self, at: Moment, pool: &Pool) {
        let Ok(imminent) = pool.imminent else { return };
        if std::mem::replace(&mut self.imminent, imminent) == imminent {
            return;
        }
        let available = told(pool.available);
        if let (true, Exhaustion::Falling { to_reserve, slope, over }) = (imminent, pool.exhaustion)
        {
            let rate = -slope.0 / Bytes(GIB).as_f64();
            let evidence = format!(
                "available {available}, falling {rate:.2} GiB/s over {over}, reserve in {to_reserve}"
            );
            self.push(at, EventKind::ExhaustionImminent, Severity::Error, "pool", evidence);
        } else if !imminent {
            let evidence = format!("available {available}, above the reserve and not near it");
            self.push(at, EventKind::ExhaustionOver, Severity::Info, "pool", evidence);
        }
    }

    fn push(
        &mut self,
        at: Moment,
        kind: EventKind,
        severity: Severity,
        subject: &'static str,
        evidence: String,
    ) {
        let event = kind.as_str();
        match severity {
            Severity::Error => tracing::error!(event, subject, "{evidence}"),
            Severity::Warning => tracing::warn!(event, subject, "{evidence}"),
            Severity::Info => tracing::info!(event, subject, "{evidence}"),
        }
        self.keep(Event { number: 0, at, kind, severity, subject, evidence, episode: None });
    }

    /// Adds to the list. Copied on change only, and frames that still hold the old list keep it.
    fn keep(&mut self, mut event: Event) {
        self.number += 1;
        event.number = self.number;
        let events = Arc::make_mut(&mut self.events);
        if events.len() == KEPT {
            events.remove(oldest_of_most(&events[..]));
        }
        events.push(event);
    }
}

/// Of the severity that there is most of, the oldest one: a box that works in bursts, or a sensor that fails
/// by turns, must not push out what somebody has to see.
fn oldest_of_most(events: &[Event]) -> usize {
    let count = |severity| events.iter().filter(|e| e.severity == severity).count();
    let most = Severity::ALL.iter().copied().rev().max_by_key(|severity| count(*severity));
    events.iter().position(|e| Some(e.severity) == most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        let time = Duration::from_secs(seconds);
        Moment { mono: time, wall: time }
    }

    fn said(journal: &Journal) -> Vec<&str> {
        journal.events.iter().map(|e| e.evidence.as_str()).collect()
    }

    fn source(journal: &mut Journal, second: u64, state: SourceState) {
        let health = SourceHealth { state: Some(state), ..SourceHealth::default() };
        journal.note_source(at(second), Source::Thermal, &health, SETTLE);
    }

    #[test]
    fn a_source_that_flaps_is_one_event_until_it_has_settled() {
        let mut journal = Journal::default();
        source(&mut journal, 0, SourceState::Ok);
        assert_eq!(said(&journal), [""; 0], "well from the start");
        for second in 1..60 {
            let state = if second % 3 == 0 { SourceState::Hung } else { SourceState::Ok };
            source(&mut journal, second, state);
        }
        assert_eq!(said(&journal), ["ok -> hung"]);
        for second in 60..88 {
            source(&mut journal, second, SourceState::Ok);
        }
        assert_eq!(said(&journal).len(), 1, "not yet");
        source(&mut journal, 88, SourceState::Ok);
        assert_eq!(said(&journal), ["ok -> hung", "hung -> ok"]);
        source(&mut journal, 91, SourceState::Failed);
        source(&mut journal, 92, SourceState::Denied);
        assert_eq!(said(&journal)[2..], ["ok -> failed"], "bad news at once, once");
        for second in 93..200 {
            let state = if second % 2 == 0 { SourceState::Failed } else { SourceState::Hung };
            source(&mut journal, second, state);
        }
        assert_eq!(said(&journal).len(), 3, "one trouble");
        for second in 200..231 {
            source(&mut journal, second, SourceState::Denied);
        }
        assert_eq!(said(&journal)[2..], ["ok -> failed", "failed -> denied"], "it has lasted");
    }

    #[test]
    fn a_source_that_is_bad_from_the_start_is_noted_and_one_that_is_not_there_is_not() {
        let mut journal = Journal::default();
        source(&mut journal, 0, SourceState::NotPresent);
        assert_eq!(said(&journal), [""; 0]);
        source(&mut journal, 1, SourceState::Ok);
        assert_eq!(said(&journal), ["not_present -> ok"], "a sensor that appears is news at once");
        let mut journal = Journal::default();
        source(&mut journal, 0, SourceState::Denied);
        assert_eq!(said(&journal), ["unread -> denied"]);
    }

    #[test]
    fn a_lane_that_misses_rounds_is_told_twice_with_the_number() {
        let mut journal = Journal::default();
        for (second, missed) in [(0, 0), (1, 1), (2, 2), (4, 7), (33, 7), (34, 7), (90, 7), (91, 8)]
        {
            journal.note_lane(at(second), Lane::Sensors, missed, SETTLE);
        }
        assert_eq!(
            said(&journal),
            [
                "a round was still running when the next was due",
                "keeps its period again; 7 rounds missed",
                "a round was still running when the next was due",
            ]
        );
    }

    /// Neither a flood of news nor one of warnings pushes out an error.
    #[test]
    fn a_flood_of_one_kind_pushes_out_its_own() {
        let mut journal = Journal::default();
        let mut push = |n, severity| {
            journal.push(at(n), EventKind::SourceChanged, severity, "x", String::new());
        };
        push(0, Severity::Error);
        push(1, Severity::Warning);
        (2..1000).for_each(|n| push(n, Severity::Info));
        (1000..2000).for_each(|n| push(n, Severity::Warning));
        let count = |severity| journal.events.iter().filter(|e| e.severity == severity).count();
        assert_eq!(count(Severity::Error), 1);
        assert!((100..=128).contains(&count(Severity::Info)), "{}", count(Severity::Info));
        assert_eq!(journal.events.len(), KEPT);
        let mut last = 0;
        for event in journal.events.iter() {
            assert!(event.number > last, "in their order");
            last = event.number;
        }
    }

    #[test]
    fn the_list_is_bounded_and_keeps_the_newest() {
        let mut journal = Journal::default();
        for n in 0..1000 {
            journal.push(at(n), EventKind::SourceChanged, Severity::Info, "x", n.to_string());
        }
        assert_eq!(journal.events.len(), KEPT);
        assert_eq!(
            journal.events.last().map(|e| (e.number, e.evidence.as_str())),
            Some((1000, "999"))
        );
    }
}
