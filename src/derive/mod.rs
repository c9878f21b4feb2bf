//! Pure state machines: (state, snapshot, thresholds) to (state, verdicts).
//!
//! No clock, no input or output, no logging, no metric names. Time enters through the snapshot.

pub mod partition;
pub mod pool;
pub mod slope;
pub mod window;

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
}

/// Derives everything from one snapshot.
pub fn derive(state: &mut State, snapshot: &Snapshot, thresholds: &Thresholds) -> Verdicts {
    Verdicts {
        pool: pool::derive(&mut state.pool, snapshot, thresholds),
        hottest: hottest(&snapshot.zones),
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
