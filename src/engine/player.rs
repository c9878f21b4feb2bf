//! Replays a scenario through the derivations of a live machine, on the scenario's own clock.
//!
//! Each second of the scenario is one frame. Lanes are read as a live engine would read them at best:
//! the slow one every five seconds, one that hangs not at all.

mod runs;

use super::boots::BootLog;
use super::core::Core;
use super::{Shared, StartError, lock};
use crate::capture::scenario::{Beginning, KernelLines, Reboot, Scenario};
use crate::clock::Clock;
use crate::model::frame::{Exporter, Frame, Health, SourceHealth};
use crate::model::gpu::Gpus;
use crate::model::moment::Moment;
use crate::model::push::Exports;
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, Source, SourceState};
use crate::sources::gpu::Pace;
use crate::sources::{FileError, Files, Machine, ReadError};
use crate::thresholds::Thresholds;
use crate::units::{Count, Seconds};
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
    kernel: KernelLines,
    time: Duration,
    /// Reboots that are over.
    boots: usize,
    /// When the machine last came up.
    up: Duration,
    /// The training runs that the scenario tells of.
    runs: runs::Runs,
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
        let kernel = KernelLines::of(&scenario, Duration::ZERO);
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
            kernel,
            time: Duration::ZERO,
            boots: 0,
            up: Duration::ZERO,
            runs: runs::Runs::default(),
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
            // Another process runs after it, which knows what the state file has kept.
            let started = self.moment();
            let mut core = Core::new(Exporter { started, ..self.core.exporter });
            core.replay.clone_from(&self.core.replay);
            core.state = std::mem::take(&mut self.core.state).rebooted();
            core.boots = BootLog::stored(std::mem::take(&mut self.core.boots.boots));
            self.core = core;
            self.read = Snapshot::absent(started, Missing::Pending);
            self.health = Health::default();
            self.runs = runs::Runs::default();
            self.up = reboot.at + reboot.down;
            self.kernel = KernelLines::of(&self.scenario, self.up);
        }
        self.boots = reboots.len();
    }

    /// The machine's own clocks go on, unless the scenario sets them.
    fn keep_time(&self, now: &mut Snapshot) {
        let then = &self.beginning.snapshot;
        let running = self.time.saturating_sub(self.up).as_secs_f64();
        if !self.scenario.says("uptime.since_boot") {
            let before = |s: Seconds| if self.boots == 0 { s.0 } else { 0.0 };
            now.uptime.since_boot = then.uptime.since_boot.map(|s| Seconds(before(s) + running));
        }
        if self.boots > 0 && !self.scenario.says("stat.btime") {
            let booted = (self.scenario.start + self.up).as_secs();
            now.stat.boot_time = then.stat.boot_time.map(|_| Count(booted));
        }
    }

    /// Reads what is due into the lanes' last rounds.
    fn read_lanes(&mut self, now: &Snapshot) {
        let at = self.moment();
        for &lane in Lane::ALL {
            let hang = self.scenario.hangs.iter().find(|h| {
                self.up <= h.from && h.lane == lane && h.from <= self.time && self.time < h.until
            });
            let health = &mut self.health.lanes[lane as usize];
            let patience = match lane {
                Lane::Gpu => self.thresholds.gpu_deadline,
                _ => self.thresholds.hung_after,
            };
            if let Some(hang) = hang {
                let late = self.time.saturating_sub(hang.from).as_secs_f64() > patience.0;
                health.stuck_on = lane.sources().next().filter(|_| late);
                if self.time > hang.from
                    && self.time.as_secs().is_multiple_of(lane.period().as_secs())
                {
                    health.missed += 1;
                }
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
                let told = source == Source::Training && now.training.is_ok();
                let read = &self.beginning.results[source.index()];
                note(one, if told { &Ok(()) } else { read });
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
                let age = self.read.read_at[source.index()].map(|at| snapshot.at.since(at));
                let periods =
                    u32::try_from(self.thresholds.age_limit_periods.0).unwrap_or(u32::MAX);
                // What was read before is good until it is too old.
                if !hung && age.is_some_and(|age| age <= lane.period() * periods) {
                    continue;
                }
                let reason = if hung { Missing::Hung } else { Missing::Stale };
                snapshot.lose(source, reason);
                let one = &mut health.sources[source.index()];
                one.state = Some(if hung { SourceState::Hung } else { SourceState::Failed });
                let waits = stuck.map_or("", Source::describe);
                one.message = Some(if hung {
                    "reading it has not come back".into()
                } else {
                    format!("the {} lane waits for {waits}", lane.as_str()).into()
                });
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
                // A machine that is down answers nothing.
                let frame = frame.map(|mut frame| {
                    *lock(&clock.0) = frame.snapshot.at;
                    frame.exports = shared.exports.now();
                    Arc::new(frame)
                });
                shared.frame.store(frame);
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
    type Item = (Duration, Option<Frame>);

    /// The next second and its frame; the seconds in which the machine is down have none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.time > self.scenario.length {
            return None;
        }
        let time = self.time;
        if self.down().is_some() {
            self.time += STEP;
            return Some((time, None));
        }
        self.note_reboots();
        let mut now = self.scenario.at(&self.beginning.snapshot, time);
        self.keep_time(&mut now);
        now.kernel_log = self.kernel.at(&self.scenario, time);
        now.at = self.moment();
        self.runs.go(&mut now, self.boots);
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
        let frame = self.core.tick(snapshot, health, boot, Exports::default(), &self.thresholds);
        self.time += STEP;
        Some((time, Some(frame)))
    }
}
