//! What happened: verdict and health transitions as a bounded list, each logged once.

use crate::model::event::{Event, EventKind, Severity};
use crate::model::frame::{Boot, Health};
use crate::model::moment::Moment;
use crate::model::pool::{Exhaustion, Reader, Verdicts};
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, Source, SourceState};
use crate::units::{Bytes, GIB, SignedBytes};
use std::sync::Arc;

/// Older events are forgotten.
const KEPT: usize = 256;

#[derive(Default)]
pub(super) struct Journal {
    events: Arc<Vec<Event>>,
    number: u64,
    sources: [Option<SourceState>; Source::COUNT],
    missed: [u64; Lane::ALL.len()],
    below_reserve: bool,
    imminent: bool,
    unclean: bool,
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
    ) {
        let at = snapshot.at;
        for &source in Source::ALL {
            self.note_source(at, source, health);
        }
        self.note_lanes(at, health);
        self.note_pool(at, verdicts);
        if boot.unclean == Ok(true) && !self.unclean {
            self.unclean = true;
            let seen = boot
                .previous_seen
                .map_or_else(|_| "unknown".to_owned(), |s| format!("{s} s since 1970"));
            self.push(
                at,
                EventKind::BootUnclean,
                Severity::Warning,
                "boot",
                format!(
                    "the box went down without stopping the exporter; last seen alive at {seen}"
                ),
            );
        }
    }

    fn note_source(&mut self, at: Moment, source: Source, health: &Health) {
        let now = &health.sources[source.index()];
        let before = std::mem::replace(&mut self.sources[source.index()], now.state);
        let Some(state) = now.state.filter(|state| before != Some(*state)) else { return };
        // What a machine does not have is no event when the exporter starts.
        if before.is_none()
            && matches!(state, SourceState::Ok | SourceState::NotPresent | SourceState::Disabled)
        {
            return;
        }
        let severity = match state {
            SourceState::Ok | SourceState::NotPresent | SourceState::Disabled => Severity::Info,
            // Without meminfo there is no pool: the exporter is blind until somebody acts.
            _ if source == Source::Meminfo => Severity::Error,
            _ => Severity::Warning,
        };
        let was = before.map_or("unread", SourceState::as_str);
        let why = now.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
        self.push(
            at,
            EventKind::SourceChanged,
            severity,
            source.as_str(),
            format!("{was} -> {}{why}", state.as_str()),
        );
    }

    /// A lane that starts to miss rounds is noted once, and once more when it has caught up.
    fn note_lanes(&mut self, at: Moment, health: &Health) {
        for &lane in Lane::ALL {
            let now = health.lanes[lane as usize];
            let before = std::mem::replace(&mut self.missed[lane as usize], now.missed);
            if now.missed > before && now.stuck_on.is_none() {
                self.push(
                    at,
                    EventKind::TicksMissed,
                    Severity::Info,
                    lane.as_str(),
                    format!(
                        "{} rounds missed, {} since the start",
                        now.missed - before,
                        now.missed
                    ),
                );
            }
        }
    }

    fn note_pool(&mut self, at: Moment, verdicts: &Verdicts) {
        let pool = &verdicts.pool;
        let available = pool.available.map_or_else(|m| m.as_str().to_owned(), |b| b.to_string());
        if std::mem::replace(&mut self.below_reserve, pool.below_reserve) != pool.below_reserve {
            let (kind, severity) = if pool.below_reserve {
                (EventKind::ReserveBroken, Severity::Warning)
            } else {
                (EventKind::ReserveRestored, Severity::Info)
            };
            let headroom = pool.headroom[Reader::Available as usize]
                .map_or_else(|m| m.as_str().to_owned(), |h: SignedBytes| h.to_string());
            self.push(
                at,
                kind,
                severity,
                "pool",
                format!("available {available}, headroom {headroom}"),
            );
        }
        if std::mem::replace(&mut self.imminent, pool.imminent) != pool.imminent {
            match pool.exhaustion {
                Exhaustion::Falling { to_reserve, slope, over } if pool.imminent => {
                    self.push(at, EventKind::ExhaustionImminent, Severity::Error, "pool",
                        format!("available {available}, falling {:.2} GiB/s over {over}, reserve in {to_reserve}",
                            -slope.0 / Bytes(GIB).as_f64()));
                }
                _ => self.push(
                    at,
                    EventKind::ExhaustionOver,
                    Severity::Info,
                    "pool",
                    format!("available {available}, no longer near the reserve"),
                ),
            }
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
        self.number += 1;
        match severity {
            Severity::Error => tracing::error!(event = kind.as_str(), subject, "{evidence}"),
            Severity::Warning => tracing::warn!(event = kind.as_str(), subject, "{evidence}"),
            Severity::Info => tracing::info!(event = kind.as_str(), subject, "{evidence}"),
        }
        // Copied on change only, and frames that still hold the old list keep it.
        let events = Arc::make_mut(&mut self.events);
        if events.len() == KEPT {
            events.remove(0);
        }
        events.push(Event { number: self.number, at, kind, severity, subject, evidence });
    }
}
