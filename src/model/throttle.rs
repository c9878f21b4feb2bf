//! What holds a GPU back: heat, a limit, a fault of its power, or nothing.

use super::moment::Moment;
use super::pool::Window;
use super::reading::{Missing, Reading};
use crate::units::{Celsius, Hertz, Ratio, Seconds, Watts};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

states! {
    /// How a GPU works. One at a time, the gravest that holds.
    ThrottleState {
        /// It has next to nothing to do.
        Idle = "idle",
        /// It works, and nothing of what is below holds. A plateau of power, a clock cap of the owner's and
        /// the first minutes in which a job heats up are normal.
        Nominal = "nominal",
        /// It works at its power limit. That is the platform, no fault.
        AtPowerCap = "at_power_cap",
        /// It has worked for the whole window with flat power while the temperature climbed or was high.
        /// Good to know; whether it costs anything is another question.
        HeatingAtCap = "heating_at_cap",
        /// Heat, and a proof that it costs work.
        Thermal = "thermal",
        /// It is busy at a fraction of its clock and power, and the driver gives no reason: the supply does
        /// not deliver. Kept until a busy sample is normal or the machine has rebooted.
        PowerDelivery = "power_delivery",
        /// It says that it is busy and draws as little power as one that waits: something spins.
        StalledBusy = "stalled_busy",
        /// Utilization or power cannot be read.
        Unknown = "unknown",
    }
}

impl ThrottleState {
    /// The states that are counted: in each of them something holds the GPU back.
    pub const COUNTED: [Self; 5] = [
        Self::AtPowerCap,
        Self::HeatingAtCap,
        Self::Thermal,
        Self::PowerDelivery,
        Self::StalledBusy,
    ];

    /// What somebody who is woken by it does first; nothing for a state that asks for nothing.
    #[must_use]
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Thermal => {
                Some("look at fans, vents and the room; a lower clock cap costs less than heat")
            }
            Self::PowerDelivery => Some(
                "if nobody has locked the clock (nvidia-smi -rgc undoes that), switch off, pull the plug for five minutes, start again",
            ),
            Self::StalledBusy => {
                Some("look for what the job waits for: a peer, a lock, a dead process")
            }
            _ => None,
        }
    }

    /// Its place among those that are counted.
    #[must_use]
    pub fn counted(self) -> Option<usize> {
        Self::COUNTED.iter().position(|state| *state == self)
    }
}

states! {
    /// What a state is judged by.
    Input {
        /// Share of time in which a kernel ran.
        Utilization = "utilization",
        /// Power of the GPU.
        Power = "power",
        /// Temperature of the GPU.
        Temperature = "temperature",
        /// The SM clock.
        SmClock = "sm_clock",
        /// The event reasons that hold.
        EventReasons = "event_reasons",
        /// The running times of the thermal reasons.
        ThermalSeconds = "thermal_seconds",
        /// The memory that the GPU's jobs hold.
        HeldMemory = "held_memory",
        /// The step time of a training run that is followed.
        StepTime = "step_time",
    }
}

/// What each state needs: at least one input of each group. Without it that state cannot be reached, and
/// the others can.
pub const NEEDS: [(ThrottleState, &[&[Input]]); 7] = [
    (ThrottleState::Idle, &[&[Input::Utilization], &[Input::Power]]),
    (ThrottleState::Nominal, &[&[Input::Utilization], &[Input::Power]]),
    (ThrottleState::AtPowerCap, &[&[Input::Utilization], &[Input::Power]]),
    (ThrottleState::HeatingAtCap, &[&[Input::Utilization], &[Input::Power], &[Input::Temperature]]),
    (
        ThrottleState::Thermal,
        &[
            &[Input::Utilization],
            &[Input::Power],
            &[Input::Temperature, Input::EventReasons, Input::ThermalSeconds],
            &[Input::SmClock, Input::ThermalSeconds, Input::EventReasons, Input::StepTime],
        ],
    ),
    (
        ThrottleState::PowerDelivery,
        &[&[Input::Utilization], &[Input::Power], &[Input::SmClock], &[Input::EventReasons]],
    ),
    (
        ThrottleState::StalledBusy,
        &[&[Input::Utilization], &[Input::Power], &[Input::SmClock], &[Input::HeldMemory]],
    ),
];

states! {
    /// A proof that heat costs work.
    Cost {
        /// The SM clock is below that of the job's own first steady minutes, at like power and utilization.
        Clock = "clock",
        /// The driver's running times of the thermal reasons grow, or where it has none such a reason holds
        /// in a good part of the samples.
        Events = "events",
        /// Steps of a training run take longer than in its own first steady minutes.
        StepTime = "step_time",
    }
}

states! {
    /// What tells that a GPU is at its power limit.
    CapBasis {
        /// The module is at the limit that it states.
        Module = "module",
        /// The GPU's own power: high, and near its own maximum.
        Inferred = "inferred",
    }
}

states! {
    /// What happened to a clock cap.
    CapChange {
        /// One is in force that was not.
        Appeared = "appeared",
        /// One that was in force is not any more.
        Lost = "lost",
    }
}

/// A state that cannot be reached, and the input that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The state.
    pub state: ThrottleState,
    /// What is missing.
    pub input: Input,
    /// Why.
    pub reason: Missing,
}

/// The last minute of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minute {
    /// Share of time in which a kernel ran.
    pub utilization: Reading<Ratio>,
    /// Power.
    pub power: Reading<Watts>,
    /// Temperature.
    pub temperature: Reading<Celsius>,
    /// SM clock.
    pub clock: Reading<Hertz>,
}

/// The job's own first steady minutes: what a later clock is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    /// SM clock.
    pub clock: Hertz,
    /// Power.
    pub power: Watts,
    /// Utilization.
    pub utilization: Ratio,
}

/// A stay in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// The state.
    pub state: ThrottleState,
    /// When it began.
    pub start: Moment,
    /// When it ended; nothing while it lasts.
    pub end: Option<Moment>,
    /// Highest temperature.
    pub peak: Reading<Celsius>,
    /// Mean power.
    pub power: Reading<Watts>,
    /// The most of its clock that a minute lost against the job's own baseline.
    pub clock_lost: Reading<Ratio>,
}

/// From one state to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// Position since the exporter started, from 1.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// The stay that ended.
    pub ended: Episode,
    /// The state that began.
    pub to: ThrottleState,
    /// What that rests on.
    pub evidence: String,
}

/// Extremes within a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes {
    /// Lowest power.
    pub power_min: Reading<Watts>,
    /// Highest power.
    pub power_max: Reading<Watts>,
    /// Highest temperature.
    pub temperature_max: Reading<Celsius>,
    /// Lowest SM clock.
    pub clock_min: Reading<Hertz>,
    /// Highest SM clock.
    pub clock_max: Reading<Hertz>,
}

impl Default for Extremes {
    fn default() -> Self {
        let none = Missing::Pending;
        Self {
            power_min: Err(none),
            power_max: Err(none),
            temperature_max: Err(none),
            clock_min: Err(none),
            clock_max: Err(none),
        }
    }
}

/// How a GPU works, and what that rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    /// The driver's index.
    pub index: u32,
    /// The stay in the present state.
    pub now: Episode,
    /// What it rests on.
    pub evidence: String,
    /// Whether power was flat while the temperature climbed or was high, under load.
    pub signature: Reading<bool>,
    /// What tells that it is at its power limit, if it is.
    pub basis: Option<CapBasis>,
    /// The proofs that heat costs work, by [`Cost`].
    pub costs: [Reading<bool>; Cost::ALL.len()],
    /// States that cannot be reached.
    pub unreachable: Vec<Unreachable>,
    /// The last minute.
    pub minute: Minute,
    /// The job's first steady minutes; pending until there were some.
    pub baseline: Reading<Baseline>,
    /// What the last minute's clock is below that, of whatever cause; pending while the GPU is not busy.
    pub clock_lost: Reading<Ratio>,
    /// Share of time under a thermal reason.
    pub thermal_share: Reading<Ratio>,
    /// The clock cap that is in force; not present when there is none, pending while that is not known.
    pub cap: Reading<Hertz>,
    /// The highest SM clock seen under load.
    pub learned: Reading<Hertz>,
    /// How often a cap appeared and was lost, by [`CapChange`].
    pub cap_changes: [u64; CapChange::ALL.len()],
    /// The last change of the cap: which, and the cap.
    pub cap_changed: Option<(CapChange, Hertz)>,
    /// Extremes, by [`Window`].
    pub extremes: [Extremes; Window::ALL.len()],
    /// Stays that began since the exporter started, by [`ThrottleState::COUNTED`].
    pub episodes: [u64; ThrottleState::COUNTED.len()],
    /// Time in them.
    pub seconds: [Seconds; ThrottleState::COUNTED.len()],
    /// The last transition.
    pub last: Option<Arc<Transition>>,
}

impl Throttle {
    /// Its state.
    #[must_use]
    pub const fn state(&self) -> ThrottleState {
        self.now.state
    }
}

/// What was learned about a GPU: for one driver, and its faults and caps for one boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnedGpu {
    /// Its identity: UUID, else PCI address, else index.
    pub gpu: String,
    /// The driver's version.
    pub driver: String,
    /// The boot in which this was last so.
    pub boot_id: String,
    /// The highest SM clock under load, in Hz.
    pub clock: Option<f64>,
    /// The clock cap that was in force, in Hz.
    pub cap: Option<f64>,
    /// Whether its power was not delivered, and not since proven to be.
    pub power_fault: bool,
}
