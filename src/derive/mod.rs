//! Pure state machines: (state, snapshot, thresholds) to (state, verdicts).
//!
//! No clock, no input or output, no logging, no metric names. Time enters through the snapshot.

#[cfg(test)]
mod bench;
mod board;
mod causes;
pub mod compare;
pub mod contention;
mod kernel_log;
mod module;
pub mod partition;
pub mod pool;
pub mod pressure;
mod rates;
pub mod release;
pub mod run;
mod sharing;
pub mod slope;
pub mod throttle;
mod training;
pub mod unaccounted;
pub mod window;
pub mod workload;

pub use sharing::GB10_DEVICE;

use crate::model::pool::Verdicts;
use crate::model::reading::{Missing, Reading};
use crate::model::sensors::Zones;
use crate::model::snapshot::Snapshot;
use crate::thresholds::Thresholds;
use crate::units::Celsius;

/// What the derivations remember from one snapshot to the next.
#[derive(Clone, Debug, Default)]
pub struct State {
    pool: pool::State,
    parts: sharing::Known,
    board: board::State,
    module: module::State,
    training: training::State,
    contended: causes::Contended,
    kernel_log: kernel_log::State,
    /// What was learned about the idle box; the engine keeps it from run to run.
    pub idle: unaccounted::Idle,
    /// How the GPUs work, and what was learned about them.
    pub throttle: throttle::State,
    /// Who holds the pool, and what was learned about workloads.
    pub workload: workload::State,
    pressure: pressure::State,
    release: release::State,
}

impl State {
    /// What is left of it when the machine has rebooted: what was learned.
    #[must_use]
    pub fn rebooted(self) -> Self {
        Self {
            throttle: self.throttle.rebooted(),
            workload: self.workload.rebooted(),
            idle: self.idle,
            ..Self::default()
        }
    }
}

/// Derives everything from one snapshot.
pub fn derive(state: &mut State, snapshot: &Snapshot, thresholds: &Thresholds) -> Verdicts {
    let pool = pool::derive(&mut state.pool, snapshot, thresholds);
    let gpus = sharing::derive(&mut state.parts, snapshot, thresholds);
    let unaccounted =
        unaccounted::derive(&mut state.idle, snapshot, &pool.partition, &gpus, thresholds);
    let cuda_free = sharing::cuda_free(&state.parts, snapshot, &gpus, pool.free);
    let cuda_blind = cuda_free.and_then(|free| Ok(pool.available?.signed_less(free)));
    let hottest = hottest(&snapshot.zones);
    let board_max = board::derive(&mut state.board, snapshot, &hottest);
    let module = module::derive(&mut state.module, snapshot);
    let mut training = training::derive(&mut state.training, snapshot, thresholds);
    let throttle = throttle::derive(
        &mut state.throttle,
        snapshot,
        &pool.partition,
        &gpus,
        &module,
        training::slow(&snapshot.training, &training),
        thresholds,
    );
    let workloads = workload::derive(&mut state.workload, snapshot, &pool, &gpus, thresholds);
    let beside = kernel_log::Beside {
        workloads: &workloads,
        partition: pool.partition.as_ref().map_err(|reason| *reason),
        class_of: &|pid| state.workload.class_of(pid, snapshot, &workloads),
    };
    let kernel_log = kernel_log::derive(&mut state.kernel_log, snapshot, &beside, thresholds);
    let pressed = pressure::derive(&mut state.pressure, snapshot, &pool, &workloads, thresholds);
    let contention = contention::derive(&workloads, &pool, &pressed, thresholds);
    let release = release::derive(
        &mut state.release,
        (snapshot.at, snapshot.nvidia.pools_on()),
        &pool,
        &unaccounted,
        &workloads,
        thresholds,
    );
    state.contended.look(snapshot.at, &training, &contention, thresholds);
    for run in &mut training {
        let contended = state.contended.told(run, &contention, thresholds);
        run.causes = causes::live(run, &throttle, contended, thresholds);
    }
    Verdicts {
        pool,
        hottest,
        board_max,
        module,
        gpus,
        unaccounted,
        cuda_free,
        cuda_blind,
        training,
        kernel_log,
        throttle,
        workloads,
        pressed,
        contention,
        release,
    }
}

/// The board's temperature is that of its hottest zone: any of them can cut the power, and the die
/// reads about ten degrees less.
fn hottest(zones: &Zones) -> Reading<(String, Celsius)> {
    let zones = zones.as_ref().map_err(|reason| *reason)?;
    let mut reason = Missing::NotPresent;
    let mut hottest: Option<(&str, Celsius)> = None;
    for zone in zones {
        match zone.temperature {
            Ok(t) if hottest.is_none_or(|(_, h)| t.0 > h.0) => hottest = Some((&zone.name, t)),
            Ok(_) => {}
            Err(why) => reason = why,
        }
    }
    hottest.map(|(name, t)| (name.to_owned(), t)).ok_or(reason)
}
