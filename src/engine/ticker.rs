//! The ticker: once a second, one frame.

use super::boots::BootLog;
use super::core::Core;
use super::keeper::{Keeper, Kept};
use super::lane::{Round, periods_between};
use super::{Shared, StartError};
use crate::derive::State;
use crate::model::frame::{Boot, Exporter, Health};
use crate::model::moment::Moment;
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, Source, SourceState};
use crate::thresholds::Thresholds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

const PERIOD: Duration = Lane::Fast.period();
/// How long a tick waits for the fast lane's round before it goes on without it.
const GRACE: Duration = Duration::from_millis(300);
/// How long the very first frame waits for all lanes, so that the first scrape is complete.
const FIRST_GRACE: Duration = Duration::from_secs(1);
/// Derivation needs little stack.
const STACK: usize = 256 * 1024;

struct Ticker {
    shared: Arc<Shared>,
    keeper: Option<Keeper>,
    core: Core,
}

/// Starts the ticker's thread.
pub(super) fn spawn(
    shared: Arc<Shared>,
    exporter: Exporter,
    keeper: Option<Keeper>,
) -> Result<(), StartError> {
    let mut ticker = Ticker { shared, keeper, core: Core::new(exporter) };
    std::thread::Builder::new()
        .name("ticker".to_owned())
        .stack_size(STACK)
        .spawn(move || ticker.run())
        .map(drop)
        .map_err(|e| StartError::Thread("ticker", e))
}

impl Ticker {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let bell = &shared.bell;
        bell.wait(FIRST_GRACE, |rung| rung.stop || rung.rounds.iter().all(|rounds| *rounds > 0));
        let mut due = shared.clock.now();
        let mut failing = false;
        loop {
            // A panic in a derivation costs this frame. The frame before it ages and is then refused
            // to scrapes, so that nobody is shown a frozen value.
            let failed = catch_unwind(AssertUnwindSafe(|| self.tick())).is_err();
            if failed && !failing {
                tracing::error!("a tick failed; this is a bug, please report it");
            }
            failing = failed;
            let seen = bell.wait(Duration::ZERO, |_| true);
            let now = shared.clock.now();
            due.mono += PERIOD * u32::try_from(periods_between(due, now, PERIOD) + 1).unwrap_or(1);
            let patience = due.mono.saturating_sub(now.mono) + GRACE;
            let fast = Lane::Fast as usize;
            let rung = bell.wait(patience, |r| r.stop || r.rounds[fast] > seen.rounds[fast]);
            if rung.stop {
                break;
            }
        }
        if let Some(keeper) = self.keeper.take()
            && self.core.boots.stop(shared.clock.now())
        {
            keeper.finish(kept(&self.core.boots, &self.core.state));
        }
        bell.ring(|rung| rung.done = true);
    }

    fn tick(&mut self) {
        let now = self.shared.clock.now();
        let thresholds = self.shared.settings.load().thresholds;
        let (snapshot, health) = assemble(&self.shared, now, &thresholds);
        let boot = self.note_boot(&snapshot);
        let frame = self.core.tick(snapshot, health, boot, self.shared.exports.now(), &thresholds);
        self.shared.frame.store(Some(Arc::new(frame)));
        self.shared.bell.ring(|rung| rung.frames += 1);
    }

    /// Notes in the boot log that this boot is alive.
    fn note_boot(&mut self, snapshot: &Snapshot) -> Boot {
        let Some(keeper) = &mut self.keeper else {
            return Boot { unclean: Err(Missing::Disabled), previous_seen: Err(Missing::Disabled) };
        };
        let loaded = match keeper.loaded() {
            Ok(loaded) => loaded,
            Err(reason) => return Boot { unclean: Err(reason), previous_seen: Err(reason) },
        };
        if let Some(kept) = loaded {
            self.core.boots = BootLog::stored(kept.boots);
            self.core.state.idle.load(kept.idle_remainders);
            self.core.state.throttle.load(kept.gpus);
            self.core.state.workload.load(kept.workloads);
        }
        if let Ok(id) = &snapshot.kernel.boot_id {
            let booted = snapshot.stat.boot_time.ok().map(|time| time.0);
            if self.core.boots.alive(id, booted, snapshot.at) {
                keeper.keep(kept(&self.core.boots, &self.core.state));
            }
        }
        self.core.boots.verdict()
    }
}

/// What is to be remembered from run to run.
fn kept(boots: &BootLog, state: &State) -> Kept {
    Kept {
        boots: boots.boots.clone(),
        idle_remainders: state.idle.entries().to_vec(),
        gpus: state.throttle.entries(),
        workloads: state.workload.entries(),
    }
}

/// Puts the lanes' last rounds together, and drops what is hung or too old.
fn assemble(shared: &Shared, now: Moment, thresholds: &Thresholds) -> (Snapshot, Health) {
    let mut snapshot = Snapshot::absent(now, Missing::Pending);
    let mut health = Health::default();
    for &lane in Lane::ALL {
        shared.slots[lane as usize].with(|round| {
            assemble_lane(lane, round, now, thresholds, &mut snapshot, &mut health);
        });
    }
    (snapshot, health)
}

fn assemble_lane(
    lane: Lane,
    round: &Round,
    now: Moment,
    thresholds: &Thresholds,
    snapshot: &mut Snapshot,
    health: &mut Health,
) {
    let stuck_on = round
        .reading
        .filter(|(_, since)| now.since(*since) > round.patience)
        .map(|(source, _)| source);
    let periods = u32::try_from(thresholds.age_limit_periods.0).unwrap_or(u32::MAX);
    let age_limit = round.period.saturating_mul(periods);
    let lane_health = &mut health.lanes[lane as usize];
    *lane_health = round.health;
    lane_health.stuck_on = stuck_on;
    if round.reading.is_some() {
        lane_health.missed += periods_between(round.due, now, round.period);
    }
    for source in lane.sources() {
        let index = source.index();
        let one = &mut health.sources[index];
        one.clone_from(&round.sources[index]);
        snapshot.take(source, &round.snapshot);
        if one.state == Some(SourceState::Disabled) {
            continue;
        }
        let age = round.snapshot.read_at[index].map(|at| now.since(at));
        let too_old = age.is_some_and(|age| age > age_limit);
        // What is being read while its last value has become too old has not come back, whatever patience is
        // left: it is not the lane that is late.
        let waits = round.reading.map(|(source, _)| source);
        if stuck_on == Some(source) || (too_old && waits == Some(source)) {
            snapshot.lose(source, Missing::Hung);
            one.state = Some(SourceState::Hung);
            one.message = Some("reading it has not come back".into());
            one.duration = None;
        } else if too_old || (stuck_on.is_some() && age.is_none()) {
            snapshot.lose(source, Missing::Stale);
            one.state = Some(SourceState::Failed);
            one.message = Some(late(lane, stuck_on.or(waits)));
        }
    }
}

fn late(lane: Lane, stuck_on: Option<Source>) -> Arc<str> {
    match stuck_on {
        Some(source) => {
            format!("the {} lane waits for {}", lane.as_str(), source.describe()).into()
        }
        None => format!("the {} lane is late", lane.as_str()).into(),
    }
}
