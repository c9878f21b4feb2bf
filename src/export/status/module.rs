//! The module's part of the status document.

use super::{Figure, Map, map};
use crate::model::frame::Frame;
use crate::model::module::{EnergyRail, Limit, Rail};
use crate::units::{Count, Joules, Watts};
use serde::{Deserialize, Serialize};

/// The module's power controller, by the labels of the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModulePart {
    /// Power by rail. Rails contain one another.
    pub power_watts: Map<Figure<f64>>,
    /// Limits by name.
    pub limits: Map<LimitPart>,
    /// Energy by rail since the exporter first read it.
    pub energy_joules: Map<Figure<f64>>,
    /// Whether the processor hot signal holds.
    pub prochot: Figure<bool>,
    /// The controller's level of limiting.
    pub level: Figure<u64>,
}

/// A power limit, in watts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitPart {
    /// What counts against it now.
    pub used_watts: Figure<f64>,
    /// The limit.
    pub limit_watts: Figure<f64>,
}

/// Nothing where nothing is known: most boxes do not have the driver.
pub(super) fn module(frame: &Frame) -> Option<ModulePart> {
    let m = &frame.verdicts.module;
    let watts = |reading| Figure::of(reading, |Watts(watts)| watts);
    m.known().then(|| ModulePart {
        power_watts: map(Rail::ALL, Rail::as_str, |_, rail| watts(m.power(rail))),
        limits: map(Limit::ALL, Limit::as_str, |_, limit| LimitPart {
            used_watts: watts(m.budget(limit)),
            limit_watts: watts(m.limit(limit)),
        }),
        energy_joules: map(EnergyRail::ALL, EnergyRail::as_str, |_, rail| {
            Figure::of(m.energy(rail), |Joules(joules)| joules)
        }),
        prochot: Figure::of(m.prochot, |on| on),
        level: Figure::of(m.level, |Count(level)| level),
    })
}
