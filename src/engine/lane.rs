//! One lane: a thread that reads its sources at a fixed period that does not drift.

use super::{Settings, Shared, StartError, lock};
use crate::config::Config;
use crate::model::frame::{LaneHealth, SourceHealth};
use crate::model::gpu::{GpuChoice, Via};
use crate::model::moment::Moment;
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, Source, SourceState};
use crate::sources::gpu::{Limits, Pace};
use crate::sources::{self, Machine, ReadError};
use crate::thresholds::Thresholds;
use crate::units::Seconds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A lane needs little stack: it parses small files.
const STACK: usize = 256 * 1024;
/// NVIDIA's library is called on its lane's stack, and was written for one of the usual size. Only what
/// it touches costs memory.
const STACK_FOR_DRIVER: usize = 8 * 1024 * 1024;

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
    /// The lane's period at present.
    pub period: Duration,
    /// How long one source may take before it is called hung.
    pub patience: Duration,
}

impl Slot {
    pub(super) fn new(lane: Lane, started: Moment) -> Self {
        let settings = Settings::of(&Config::default());
        let (period, patience) = rhythm(lane, &settings, Err(Missing::Pending));
        Self {
            inner: Mutex::new(Round {
                snapshot: Snapshot::absent(started, Missing::Pending),
                sources: std::array::from_fn(|_| SourceHealth::default()),
                health: LaneHealth::default(),
                reading: None,
                due: started,
                period,
                patience,
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
    machine: Arc<dyn Machine + Send + Sync>,
) -> Result<(), StartError> {
    std::thread::Builder::new()
        .name(lane.as_str().to_owned())
        .stack_size(if lane == Lane::Gpu { STACK_FOR_DRIVER } else { STACK })
        .spawn(move || run(lane, &shared, machine.as_ref()))
        .map(drop)
        .map_err(|e| StartError::Thread(lane.as_str(), e))
}

fn run(lane: Lane, shared: &Shared, machine: &dyn Machine) {
    let slot = &shared.slots[lane as usize];
    let mut due = shared.clock.now();
    loop {
        let period = slot.with(|round| {
            let settings = **shared.settings.load();
            round.due = due;
            (round.period, round.patience) = rhythm(lane, &settings, round.snapshot.gpus.via);
            round.period
        });
        read_round(lane, shared, machine);
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

/// How often a lane reads, and how long one source may take before it is called hung. A program that
/// is run for each reading is run less often.
fn rhythm(lane: Lane, settings: &Settings, via: Reading<Via>) -> (Duration, Duration) {
    let of = |seconds: Seconds| Duration::from_secs_f64(seconds.0);
    let t = &settings.thresholds;
    let smi = (of(t.smi_period), of(t.smi_deadline));
    let nvml = (of(t.gpu_period), of(t.gpu_deadline));
    match (lane, settings.gpu, via) {
        (Lane::Gpu, GpuChoice::Smi, _) | (Lane::Gpu, GpuChoice::Auto, Ok(Via::NvidiaSmi)) => smi,
        (Lane::Gpu, GpuChoice::Nvml, _) | (Lane::Gpu, GpuChoice::Auto, Ok(Via::Nvml)) => nvml,
        // Which of them it will be is not known yet.
        (Lane::Gpu, ..) => (nvml.0, nvml.1.max(smi.1)),
        _ => (lane.period(), of(t.hung_after)),
    }
}

/// Whole periods from `due` to `now`: rounds that should have begun meanwhile.
pub(super) fn periods_between(due: Moment, now: Moment, period: Duration) -> u64 {
    let late = now.since(due).as_nanos() / period.as_nanos().max(1);
    u64::try_from(late).unwrap_or(u64::MAX)
}

/// Reads every source of the lane and stores the round as a whole, so that a frame never mixes two
/// rounds of one lane.
fn read_round(lane: Lane, shared: &Shared, machine: &dyn Machine) {
    let slot = &shared.slots[lane as usize];
    let mut next = slot.with(|round| round.clone());
    let settings = **shared.settings.load();
    let now = || shared.clock.now().mono;
    let pace = pace(&settings, &now);
    for source in lane.sources() {
        if !settings.collectors[source.index()] {
            next.snapshot.lose(source, Missing::Disabled);
            next.snapshot.read_at[source.index()] = None;
            next.sources[source.index()] =
                SourceHealth { state: Some(SourceState::Disabled), ..SourceHealth::default() };
            continue;
        }
        let began = shared.clock.now();
        slot.with(|round| round.reading = Some((source, began)));
        let result = guarded(source, machine, &pace, &mut next.snapshot);
        let ended = shared.clock.now();
        next.snapshot.read_at[source.index()] = Some(ended);
        note(&mut next.sources[source.index()], &result, ended.since(began));
    }
    slot.with(|round| {
        round.snapshot = next.snapshot;
        round.sources = next.sources;
    });
}

/// How long a round of questions to the GPU may take, and how often a driver that is not there is asked.
#[must_use]
pub fn limits(t: &Thresholds) -> Limits {
    let of = |seconds: Seconds| Duration::from_secs_f64(seconds.0);
    Limits {
        deadline: of(t.gpu_deadline),
        smi_deadline: of(t.smi_deadline),
        retry_first: of(t.gpu_retry_first),
        retry_max: of(t.gpu_retry_max),
    }
}

/// What a round of questions to the GPU is held to.
fn pace<'a>(settings: &Settings, now: &'a dyn Fn() -> Duration) -> Pace<'a> {
    let limits = limits(&settings.thresholds);
    Pace { choice: settings.gpu, limits, now }
}

/// A source that panics on something nobody thought of loses its own readings, not the lane.
fn guarded(
    source: Source,
    machine: &dyn Machine,
    pace: &Pace<'_>,
    into: &mut Snapshot,
) -> Result<(), ReadError> {
    let read = AssertUnwindSafe(|| sources::read(source, machine, pace, into));
    catch_unwind(read).unwrap_or_else(|_| {
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
