//! The module's power controller, from the inputs of the optional hwmon driver `spbm`.
//!
//! Inputs are found by the chip's name and the label that the driver writes; their numbers and the
//! chips' order are nobody's promise. Of several such chips, which no box has, the first counts.
//!
//! # Energy
//!
//! The firmware counts energy in registers of 32 bits, in millijoules: each begins anew at 4.29 MJ,
//! after half a day at 100 W. A [`Meter`] adds up the steps between readings, so that what is exported
//! never falls. It starts at 0 with the first reading. Were it to start at what the register holds, an
//! exporter restarted after a wrap would show less than before, and Prometheus, which takes that for a
//! counter begun anew at 0, would make up as much energy as the register holds.
//!
//! A step, modulo the wrap, is energy if the box can have used it in the time since the reading
//! before. Otherwise the register was set to something else (the driver or the firmware began anew, or
//! a reading was wrong), and counting goes on from there with nothing added: a little is lost, where
//! a wrap's 4.29 MJ would have been made up.
//!
//! What cannot be known: whether a register has wrapped more than once between two readings, which
//! takes half a day without any, or that it began anew while nobody looked for three hours or more,
//! in which a wrap is possible as well. The first counts too little, the second up to one wrap too
//! much.

use crate::model::module::{EnergyRail, Limit, Module, Rail};
use crate::model::moment::Moment;
use crate::model::reading::{Missing, Reading};
use crate::model::sensors::{HwmonSensor, SensorValue};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::units::{Count, Joules, Watts};
use std::array::from_fn;
use std::time::Duration;

/// The driver's name for its chip.
const CHIP: &str = "spbm";
/// Where the registers begin anew, in millijoules.
const WRAP: u64 = 1 << 32;
/// More than any of these boxes draws: the supply is rated 240 W, the highest limit that the driver
/// accepts is 300 W.
const MOST: u128 = 400;
/// By how much the time of a reading may be off: a round's time is its end, and a file that hung may
/// have been read long before.
const SLACK: Duration = Duration::from_secs(60);

/// What is remembered between snapshots.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    meters: [Meter; EnergyRail::ALL.len()],
}

/// One energy register, followed. The same round seen twice is a step of nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    last: Option<(Moment, u64)>,
    /// In millijoules.
    total: u64,
}

impl Meter {
    fn take(&mut self, at: Moment, register: Joules) -> Joules {
        let now = register.whole_milli();
        let step = match self.last.replace((at, now)) {
            None => 0,
            Some((then, last)) => {
                step(last, now).filter(|step| possible(*step, elapsed(then, at))).unwrap_or(0)
            }
        };
        self.total = self.total.saturating_add(step);
        Joules::from_milli(self.total)
    }
}

/// From one register value to the next. One past 32 bits was widened by the driver and does not wrap.
const fn step(last: u64, now: u64) -> Option<u64> {
    if now >= last {
        Some(now - last)
    } else if last < WRAP {
        Some(WRAP - last + now)
    } else {
        None
    }
}

/// By the clock that says more: the steady one stands still while the box is suspended, and the
/// registers do not.
fn elapsed(then: Moment, at: Moment) -> Duration {
    at.mono.saturating_sub(then.mono).max(at.wall.saturating_sub(then.wall))
}

/// Whether the box can have used so many millijoules: watts times milliseconds.
fn possible(step: u64, over: Duration) -> bool {
    u128::from(step) <= MOST.saturating_mul(over.saturating_add(SLACK).as_millis())
}

/// The chip's sensors, or why there are none.
#[derive(Clone, Copy)]
struct Chip<'a>(Reading<&'a [HwmonSensor]>);

impl Chip<'_> {
    fn find(self, kind: &str, label: &str, cap: bool) -> Reading<SensorValue> {
        let mut ours = self.0?.iter().map(|sensor| (sensor.parts(), sensor.value));
        let found = ours.find(|(parts, _)| {
            (parts.chip, parts.kind, parts.label, parts.cap) == (CHIP, kind, label, cap)
        });
        found.map_or(Err(Missing::NotPresent), |(_, value)| value)
    }

    fn watts(self, label: &str, cap: bool) -> Reading<Watts> {
        match self.find("power", label, cap)? {
            SensorValue::Power(watts) => Ok(watts),
            _ => Err(Missing::Malformed),
        }
    }

    /// Writing 0 to a limit resets it: 0 is no limit of no power, it is none.
    fn limit(self, label: &str) -> Reading<Watts> {
        self.watts(label, true)
            .and_then(|limit| if limit.0 > 0.0 { Ok(limit) } else { Err(Missing::NotAvailable) })
    }

    fn energy(self, label: &str) -> Reading<Joules> {
        match self.find("energy", label, false)? {
            SensorValue::Energy(joules) => Ok(joules),
            _ => Err(Missing::Malformed),
        }
    }

    fn state(self, file: &str) -> Reading<u64> {
        match self.find(file, "", false)? {
            SensorValue::State(state) => Ok(state),
            _ => Err(Missing::Malformed),
        }
    }
}

/// What the driver tells, with energy that never falls.
pub(super) fn derive(state: &mut State, snapshot: &Snapshot) -> Module {
    let chip = Chip(snapshot.hwmon.as_deref().map_err(|reason| *reason));
    let at = snapshot.read_at[Source::Hwmon.index()].unwrap_or(snapshot.at);
    Module {
        power: from_fn(|i| chip.watts(Rail::ALL[i].as_str(), false)),
        budget: from_fn(|i| chip.watts(Limit::ALL[i].as_str(), false)),
        limit: from_fn(|i| chip.limit(Limit::ALL[i].as_str())),
        energy: from_fn(|i| {
            let register = chip.energy(EnergyRail::ALL[i].as_str())?;
            Ok(state.meters[i].take(at, register))
        }),
        prochot: chip.state("prochot").and_then(|state| match state {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Missing::Malformed),
        }),
        level: chip.state("pl_level").map(Count),
    }
}

#[cfg(test)]
mod tests;
