//! Replays a scenario through the derivations of a live machine, on the scenario's own clock.
//!
//! Each second of the scenario is one frame. Lanes are read as a live engine would read them at best:
//! the slow one every five seconds, one that hangs not at all.

use super::boots::BootLog;
use super::core::Core;
use super::{Shared, StartError, lock};
use crate::capture::scenario::{Beginning, Reboot, Scenario};
use crate::clock::Clock;
use crate::model::frame::{Exporter, Frame, Health, SourceHealth};
use crate::model::gpu::Gpus;
use crate::model::moment::Moment;
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, SourceState};
use crate::sources::gpu::Pace;
use crate::sources::{FileError, Files, Machine, ReadError};
use crate::thresholds::Thresholds;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The distance of two frames.
pub const STEP: Duration = Duration::from_secs(1);

/// A scenario on its way.
pub struct Player {
    scenario: Scenario,
    beginning: Beginning,
    thresholds: Thresholds,
    core: Core,
    /// The last round of each source, as lanes keep it.
    read: Snapshot,
    health: Health,
    time: Duration,
    /// Reboots that are over.
    boots: usize,
}

impl Player {
    /// At the beginning of a scenario.
    #[must_use]
    pub fn new(
        scenario: Scenario,
        thresholds: Thresholds,
        version: (&'static str, &'static str),
    ) -> Self {
        let beginning = scenario.first();
        let started = Moment { mono: Duration::ZERO, wall: scenario.start };
        let exporter = Exporter { version: version.0, revision: version.1, started };
        let read = Snapshot::absent(started, Missing::Pending);
        let mut core = Core::new(exporter);
        core.replay = Some(scenario.title.as_str().into());
        Self {
            scenario,
            beginning,
            thresholds,
            core,
            read,
            health: Health::default(),
            time: Duration::ZERO,
            boots: 0,
        }
    }

    /// The scenario.
    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    fn moment(&self) -> Moment {
        Moment { mono: self.time, wall: self.scenario.start + self.time }
    }

    /// The reboot that is going on.
    fn down(&self) -> Option<Reboot> {
        let reboots = self.scenario.reboots.iter().copied();
        reboots.into_iter().find(|r| r.at <= self.time && self.time < r.at + r.down)
    }

    /// Forgets what a reboot makes the exporter forget.
    fn note_reboots(&mut self) {
        let over = |r: &&Reboot| r.at + r.down <= self.time;
        let reboots: Vec<Reboot> = self.scenario.reboots.iter().filter(over).copied().collect();
        for reboot in reboots.iter().skip(self.boots) {
            if reboot.clean {
                let at = Moment { mono: reboot.at, wall: self.scenario.start + reboot.at };
                self.core.boots.stop(at);
            }
            self.core.state = std::mem::take(&mut self.core.state).rebooted();
            self.core.boots = BootLog::stored(std::mem::take(&mut self.core.boots.boots));
            self.read = Snapshot::absent(self.moment(), Missing::Pending);
            self.health = Health::default();
        }
        self.boots = reboots.len();
    }

    /// Reads what is due into the lanes' last rounds.
    fn read_lanes(&mut self, now: &Snapshot) {
        let at = self.moment();
        for &lane in Lane::ALL {
            let hang = self
                .scenario
                .hangs
                .iter()
                .find(|h| h.lane == lane && h.from <= self.time && self.time < h.until);
            let health = &mut self.health.lanes[lane as usize];
            let patience = match lane {
                Lane::Gpu => self.thresholds.gpu_deadline,
                _ => self.thresholds.hung_after,
            };
            if let Some(hang) = hang {
                let late = self.time.saturating_sub(hang.from).as_secs_f64() > patience.0;
                health.stuck_on = lane.sources().next().filter(|_| late);
                health.missed += 1;
                continue;
            }
            health.stuck_on = None;
            let period = lane.period().as_secs();
            if !self.time.as_secs().is_multiple_of(period) && health.ticks > 0 {
                continue;
            }
            health.ticks += 1;
            health.last = Some(at);
            for source in lane.sources() {
                self.read.take(source, now);
                self.read.read_at[source.index()] = Some(at);
                let one = &mut self.health.sources[source.index()];
                note(one, &self.beginning.results[source.index()]);
            }
        }
    }

    /// What a frame sees of the lanes' rounds.
    fn seen(&self) -> (Snapshot, Health) {
        let (mut snapshot, mut health) = (self.read.clone(), self.health.clone());
        snapshot.at = self.moment();
        for &lane in Lane::ALL {
            let stuck = health.lanes[lane as usize].stuck_on;
            for source in lane.sources().filter(|_| stuck.is_some()) {
                let hung = stuck == Some(source);
                let reason = if hung { Missing::Hung } else { Missing::Stale };
                snapshot.lose(source, reason);
                let one = &mut health.sources[source.index()];
                one.state = Some(if hung { SourceState::Hung } else { SourceState::Failed });
                one.message = Some("reading it has not come back".into());
            }
        }
        (snapshot, health)
    }
}

/// The clock of a replay: it shows the time of the last frame.
pub(super) struct Paced(Mutex<Moment>);

impl Paced {
    pub(super) const fn new(start: Duration) -> Self {
        Self(Mutex::new(Moment { mono: Duration::ZERO, wall: start }))
    }
}

impl Clock for Paced {
    fn now(&self) -> Moment {
        *lock(&self.0)
    }
}

/// No machine: a replay has nothing to stop.
pub(super) struct Nothing;

impl Files for Nothing {
    fn text(&self, _: &str) -> Result<String, FileError> {
        Err(FileError::NotPresent)
    }

    fn names(&self, _: &str) -> Result<Vec<String>, FileError> {
        Err(FileError::NotPresent)
    }
}

impl Machine for Nothing {
    fn gpu(&self, _: &Pace<'_>, _: &mut Gpus) -> Result<(), ReadError> {
        Err(FileError::NotPresent.at("/"))
    }
}

/// Starts the thread that publishes a replay's frames.
pub(super) fn spawn(
    player: Player,
    shared: Arc<Shared>,
    clock: Arc<Paced>,
    speed: f64,
) -> Result<(), StartError> {
    let pause = STEP.div_f64(speed.max(0.001));
    std::thread::Builder::new()
        .name("replay".to_owned())
        .spawn(move || {
            for (_, frame) in player {
                *lock(&clock.0) = frame.snapshot.at;
                shared.frame.store(Some(Arc::new(frame)));
                shared.bell.ring(|rung| rung.frames += 1);
                if shared.bell.sleep(pause) {
                    break;
                }
            }
            shared.bell.ring(|rung| rung.done = true);
        })
        .map(drop)
        .map_err(|e| StartError::Thread("replay", e))
}

fn note(health: &mut SourceHealth, result: &Result<(), ReadError>) {
    match result {
        Ok(()) => (health.state, health.message) = (Some(SourceState::Ok), None),
        Err(error) => {
            health.state = Some(error.reason().into());
            health.message = Some(error.to_string().into());
        }
    }
}

impl Iterator for Player {
    type Item = (Duration, Frame);

    /// The next frame and its time; the seconds in which the machine is down have none.
    fn next(&mut self) -> Option<Self::Item> {
        while let Some(down) = self.down() {
            self.time = (down.at + down.down).max(self.time + STEP);
        }
        if self.time > self.scenario.length {
            return None;
        }
        self.note_reboots();
        let mut now = self.scenario.at(&self.beginning.snapshot, self.time);
        if let Ok(id) = &mut now.kernel.boot_id {
            // Every boot has an identity of its own.
            *id = format!("{id}.{}", self.boots);
        }
        self.read_lanes(&now);
        let (snapshot, health) = self.seen();
        if let Ok(id) = &snapshot.kernel.boot_id {
            let booted = snapshot.stat.boot_time.ok().map(|time| time.0);
            self.core.boots.alive(id, booted, snapshot.at);
        }
        let boot = self.core.boots.verdict();
        let frame = self.core.tick(snapshot, health, boot, self.thresholds);
        let time = self.time;
        self.time += STEP;
        Some((time, frame))
    }
}
