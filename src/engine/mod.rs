//! Lanes read, the ticker derives, everybody else takes the last frame.
//!
//! ```text
//!  fast, sensors, gpu  --+
//!  logs, messages      --+--> slots --> ticker: assemble, derive, note events --> frame (one Arc)
//!  processes, slow     --+                 \--> keeper: the state file, on a thread of its own
//! ```
//!
//! Each lane, the ticker and the keeper is one plain OS thread. A file that blocks stops its lane; a
//! disk that blocks stops the keeper; the ticker waits for neither, and marks what is late.

pub mod boots;
mod core;
mod events;
mod exports;
mod keeper;
mod lane;
pub mod player;
mod ticker;

use crate::clock::Clock;
use crate::config::Config;
use crate::model::frame::{Exporter, Frame};
use crate::model::gpu::GpuChoice;
use crate::model::source::{Lane, Source};
use crate::sources::Machine;
use crate::thresholds::Thresholds;
use arc_swap::{ArcSwap, ArcSwapOption};
pub use exports::Tally;
use lane::Slot;
pub use lane::limits;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a stopping engine waits for its last write to the state file.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// What may change while an engine runs. Each round and each tick uses one as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The numbers that decide.
    pub thresholds: Thresholds,
    /// Which sources are read, by [`Source::index`].
    pub collectors: [bool; Source::COUNT],
    /// How the GPU is asked.
    pub gpu: GpuChoice,
}

impl Settings {
    /// Those of a configuration.
    #[must_use]
    pub const fn of(config: &Config) -> Self {
        Self { thresholds: config.thresholds, collectors: config.collectors, gpu: config.gpu }
    }
}

/// What an engine needs.
pub struct Options {
    /// The machine.
    pub machine: Arc<dyn Machine + Send + Sync>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What may change later.
    pub settings: Settings,
    /// Where the state file lives; without it nothing is remembered from run to run.
    pub state_directory: Option<PathBuf>,
    /// Version and commit.
    pub version: (&'static str, &'static str),
}

/// Why an engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A thread could not be made.
    #[error("cannot start the {0} thread")]
    Thread(&'static str, #[source] std::io::Error),
}

/// Why there is no frame to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFrame {
    /// The exporter has just started.
    #[error("no reading has been taken yet")]
    NotYet,
    /// The ticker stopped.
    #[error("the last frame is {} s old: the exporter's own tick has stopped", .0.as_secs())]
    TooOld(Duration),
}

/// What the threads share.
struct Shared {
    clock: Arc<dyn Clock>,
    slots: [Slot; Lane::ALL.len()],
    settings: ArcSwap<Settings>,
    frame: ArcSwapOption<Frame>,
    bell: Bell,
    exports: Arc<Tally>,
}

/// Wakes the ticker when the fast lane has finished a round, and everybody when the engine stops.
///
/// Two conditions on one state: lanes sleep on `stopped` alone, so that they are not woken every
/// second for each other's sake.
#[derive(Default)]
struct Bell {
    state: Mutex<Rung>,
    changed: Condvar,
    stopped: Condvar,
}

#[derive(Default, Clone, Copy)]
struct Rung {
    /// Rounds finished, by lane.
    rounds: [u64; Lane::ALL.len()],
    /// Frames published.
    frames: u64,
    stop: bool,
    /// The ticker has come to its end.
    done: bool,
}

impl Bell {
    fn ring(&self, change: impl FnOnce(&mut Rung)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// A lane has finished a round. The first rounds are news to those who wait for a complete frame;
    /// after that only the fast lane's are waited for.
    fn round(&self, lane: Lane) {
        let mut state = lock(&self.state);
        let rounds = &mut state.rounds[lane as usize];
        *rounds += 1;
        if lane == Lane::Fast || *rounds == 1 {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Tells everybody to stop.
    fn stop(&self) {
        self.ring(|rung| rung.stop = true);
        self.stopped.notify_all();
    }

    /// Sleeps for `rest`, or until the engine stops: true then.
    fn sleep(&self, rest: Duration) -> bool {
        let guard = lock(&self.state);
        let (guard, _) = self
            .stopped
            .wait_timeout_while(guard, rest, |rung| !rung.stop)
            .unwrap_or_else(PoisonError::into_inner);
        guard.stop
    }

    /// Waits until `enough` or until `patience` is over, and tells how things stand.
    fn wait(&self, patience: Duration, enough: impl Fn(&Rung) -> bool) -> Rung {
        let guard = lock(&self.state);
        let (guard, _) = self
            .changed
            .wait_timeout_while(guard, patience, |rung| !enough(rung))
            .unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

/// A lock that a panicking thread has left is still good: what it guards is replaced whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running engine.
pub struct Engine {
    shared: Arc<Shared>,
    machine: Arc<dyn Machine + Send + Sync>,
}

impl Engine {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread could not be made.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let started = options.clock.now();
        let shared = Arc::new(Shared {
            clock: options.clock,
            slots: std::array::from_fn(|lane| Slot::new(Lane::ALL[lane], started)),
            settings: ArcSwap::from_pointee(options.settings),
            frame: ArcSwapOption::empty(),
            bell: Bell::default(),
            exports: Arc::default(),
        });
        for &lane in Lane::ALL {
            lane::spawn(lane, Arc::clone(&shared), Arc::clone(&options.machine))?;
        }
        let keeper = options.state_directory.map(keeper::Keeper::start).transpose()?;
        let exporter =
            Exporter { version: options.version.0, revision: options.version.1, started };
        ticker::spawn(Arc::clone(&shared), exporter, keeper)?;
        Ok(Self { shared, machine: options.machine })
    }

    /// Replays a scenario instead of reading a machine: `speed` of its seconds in one. At its end the last
    /// frame stays, and grows no older.
    ///
    /// # Errors
    /// A thread could not be made.
    pub fn replay(player: player::Player, speed: f64) -> Result<Self, StartError> {
        let clock = Arc::new(player::Paced::new(player.scenario().start));
        let settings = Settings::of(&Config::default());
        let shared = Arc::new(Shared {
            clock: Arc::<player::Paced>::clone(&clock),
            slots: std::array::from_fn(|lane| Slot::new(Lane::ALL[lane], clock.now())),
            settings: ArcSwap::from_pointee(settings),
            frame: ArcSwapOption::empty(),
            bell: Bell::default(),
            exports: Arc::default(),
        });
        let machine = Arc::new(player::Nothing);
        player::spawn(player, Arc::clone(&shared), clock, speed)?;
        Ok(Self { shared, machine })
    }

    /// The last frame.
    ///
    /// # Errors
    /// There is none yet, or it is too old to be served.
    pub fn frame(&self) -> Result<Arc<Frame>, NoFrame> {
        let frame = self.shared.frame.load_full().ok_or(NoFrame::NotYet)?;
        let age = self.shared.clock.now().since(frame.snapshot.at);
        // One period more than a reading may have: a frame is at most that much older than its own.
        let periods = frame.thresholds.age_limit_periods.0.saturating_add(1);
        let limit = Lane::Fast.period().saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX));
        if age > limit { Err(NoFrame::TooOld(age)) } else { Ok(frame) }
    }

    /// Waits until `count` frames have been made since the start, or `patience` is over.
    pub fn wait_for_frames(&self, count: u64, patience: Duration) {
        self.shared.bell.wait(patience, |rung| rung.frames >= count || rung.done);
    }

    /// Waits for another frame than the first `seen`, or until `patience` is over, and tells how many there
    /// have been.
    #[must_use]
    pub fn wait_for_frame_after(&self, seen: u64, patience: Duration) -> u64 {
        self.shared.bell.wait(patience, |rung| rung.frames > seen || rung.stop).frames
    }

    /// Where exports are counted, for the next frames.
    #[must_use]
    pub fn exports(&self) -> Arc<Tally> {
        Arc::clone(&self.shared.exports)
    }

    /// Uses other settings from the next round and tick on. What was learned is kept.
    pub fn reconfigure(&self, settings: Settings) {
        self.shared.settings.store(Arc::new(settings));
    }

    /// Stops, and notes in the state file that the stop was orderly. Waits for neither a lane that
    /// hangs nor, for long, a disk that does.
    pub fn stop(&self) {
        self.shared.bell.stop();
        self.shared.bell.wait(STOP_PATIENCE, |rung| rung.done);
        self.machine.stop();
    }
}
