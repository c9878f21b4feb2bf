//! One lane: a thread that reads its sources at a fixed period that does not drift.

use super::{Shared, StartError, lock};
use crate::model::frame::{LaneHealth, SourceHealth};
use crate::model::moment::Moment;
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, Source, SourceState};
use crate::sources::{self, Files, ReadError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A lane needs little stack: it parses small files.
const STACK: usize = 256 * 1024;

/// Where a lane puts what it has read.
pub(super) struct Slot {
    inner: Mutex<Round>,
}

/// The last finished round of a lane, and what it is reading right now.
#[derive(Clone)]
pub(super) struct Round {
    pub snapshot: Snapshot,
    pub sources: [SourceHealth; Source::COUNT],
    pub health: LaneHealth,
    /// The source being read, and since when.
    pub reading: Option<(Source, Moment)>,
    /// When the round in progress was due.
    pub due: Moment,
}

impl Slot {
    pub(super) fn new(started: Moment) -> Self {
        Self {
            inner: Mutex::new(Round {
                snapshot: Snapshot::absent(started, Missing::Pending),
                sources: std::array::from_fn(|_| SourceHealth::default()),
                health: LaneHealth::default(),
                reading: None,
                due: started,
            }),
        }
    }

    /// Looks at the slot; never waits for a read.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut Round) -> R) -> R {
        look(&mut lock(&self.inner))
    }
}

/// Starts the lane's thread.
pub(super) fn spawn(
    lane: Lane,
    shared: Arc<Shared>,
    files: Arc<dyn Files + Send + Sync>,
) -> Result<(), StartError> {
    std::thread::Builder::new()
        .name(lane.as_str().to_owned())
        .stack_size(STACK)
        .spawn(move || run(lane, &shared, files.as_ref()))
        .map(drop)
        .map_err(|e| StartError::Thread(lane.as_str(), e))
}

fn run(lane: Lane, shared: &Shared, files: &dyn Files) {
    let slot = &shared.slots[lane as usize];
    let period = lane.period();
    let mut due = shared.clock.now();
    loop {
        slot.with(|round| round.due = due);
        read_round(lane, shared, files);
        let missed = slot.with(|round| {
            // Asked for under the lock: the ticker, which counts a round in progress as it stands,
            // must never have seen a later time than the one that counts in the end.
            let now = shared.clock.now();
            let missed = periods_between(due, now, period);
            round.health.ticks += 1;
            round.health.missed += missed;
            round.health.last = Some(now);
            round.reading = None;
            missed
        });
        let rounds_late = u32::try_from(missed).unwrap_or(u32::MAX);
        due.mono = due.mono.saturating_add(period.saturating_mul(rounds_late.saturating_add(1)));
        shared.bell.round(lane);
        let rest = due.mono.saturating_sub(shared.clock.now().mono);
        if shared.bell.sleep(rest) {
            return;
        }
    }
}

/// Whole periods from `due` to `now`: rounds that should have begun meanwhile.
pub(super) fn periods_between(due: Moment, now: Moment, period: Duration) -> u64 {
    let late = now.since(due).as_nanos() / period.as_nanos().max(1);
    u64::try_from(late).unwrap_or(u64::MAX)
}

/// Reads every source of the lane and stores the round as a whole, so that a frame never mixes two
/// rounds of one lane.
fn read_round(lane: Lane, shared: &Shared, files: &dyn Files) {
    let slot = &shared.slots[lane as usize];
    let mut next = slot.with(|round| round.clone());
    let collectors = shared.settings.load().collectors;
    for source in lane.sources() {
        if !collectors[source.index()] {
            next.snapshot.lose(source, Missing::Disabled);
            next.snapshot.read_at[source.index()] = None;
            next.sources[source.index()] =
                SourceHealth { state: Some(SourceState::Disabled), ..SourceHealth::default() };
            continue;
        }
        let began = shared.clock.now();
        slot.with(|round| round.reading = Some((source, began)));
        let result = guarded(source, files, &mut next.snapshot);
        let ended = shared.clock.now();
        next.snapshot.read_at[source.index()] = Some(ended);
        note(&mut next.sources[source.index()], &result, ended.since(began));
    }
    slot.with(|round| {
        round.snapshot = next.snapshot;
        round.sources = next.sources;
    });
}

/// A source that panics on something nobody thought of loses its own readings, not the lane.
fn guarded(source: Source, files: &dyn Files, into: &mut Snapshot) -> Result<(), ReadError> {
    catch_unwind(AssertUnwindSafe(|| sources::read(source, files, into))).unwrap_or_else(|_| {
        into.lose(source, Missing::Failed);
        Err(ReadError::malformed(source.describe(), "the reader gave up on it; this is a bug"))
    })
}

fn note(health: &mut SourceHealth, result: &Result<(), ReadError>, took: Duration) {
    health.duration = Some(took);
    match result {
        Ok(()) => {
            health.state = Some(SourceState::Ok);
            health.message = None;
        }
        Err(error) => {
            let state = SourceState::from(error.reason());
            health.state = Some(state);
            if !matches!(state, SourceState::NotPresent | SourceState::Disabled) {
                health.errors += 1;
            }
            let text = error.to_string();
            if health.message.as_deref() != Some(&text) {
                health.message = Some(text.into());
            }
        }
    }
}
