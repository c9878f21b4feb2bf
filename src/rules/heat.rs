//! Heat and power: what is a fault, what is the platform, and what is only good to know.

use super::expr::{Context, Shown};
use super::{Alert, Condition, DYING, Group, Is, Record, Severity, When, on};
use crate::catalog::links::AlertName;
use crate::catalog::metrics;
use crate::model::gpu::{ClockKind, EventReason};
use crate::model::pool::Window;
use crate::model::throttle::{CapChange, ThrottleState};

const fn in_state(state: &'static [(&'static str, &'static [&'static str])]) -> Condition {
    Condition::new(&metrics::THROTTLE_STATE, state, Is::AtLeast(on))
}

/// Whether heat costs work, while that can be told: a driver that hangs says `unknown`, and that is not the end of heat.
pub(super) static THERMAL_KNOWN: Record = Record {
    name: "instance:gb10_throttle_state:thermal_known",
    group: Group::Heat,
    is: |c| {
        let state =
            |state: ThrottleState| c.of(&metrics::THROTTLE_STATE, &[("state", state.as_str())]);
        format!(
            "{}\nunless on (job, instance, gpu)\n{} == 1",
            state(ThrottleState::Thermal),
            state(ThrottleState::Unknown)
        )
    },
};

/// Heat costs work.
const fn thermal() -> Condition {
    Condition { recorded: Some(&THERMAL_KNOWN), ..in_state(THERMAL) }
}

const THERMAL: &[(&str, &[&str])] = &[("state", &[ThrottleState::Thermal.as_str()])];
const POWER: &[(&str, &[&str])] = &[("state", &[ThrottleState::PowerDelivery.as_str()])];
const STALLED: &[(&str, &[&str])] = &[("state", &[ThrottleState::StalledBusy.as_str()])];
const AT_CAP: &[(&str, &[&str])] = &[("state", &[ThrottleState::AtPowerCap.as_str()])];
const BY_HARDWARE: &[(&str, &[&str])] =
    &[("reason", &[EventReason::HwThermal.as_str(), EventReason::HwSlowdown.as_str()])];

/// What the GPU and the board say.
fn figures(c: &Context<'_>) -> String {
    format!(
        "GPU {}, {}, SM clock {}, busy {}; hottest zone of the board {}, at most {} within a quarter of an hour",
        c.last(&metrics::GPU_TEMPERATURE_CELSIUS, &[], Shown::Celsius),
        c.last(&metrics::GPU_POWER_WATTS, &[], Shown::Watts),
        c.last(&metrics::GPU_CLOCK_HERTZ, &[("clock", ClockKind::Sm.as_str())], Shown::Hertz),
        c.last(&metrics::GPU_UTILIZATION_RATIO, &[], Shown::Share),
        c.last(&metrics::BOARD_TEMPERATURE_CELSIUS, &[], Shown::Celsius),
        hottest(c),
    )
}

/// The board's hottest zone within a quarter of an hour.
pub(super) fn hottest(c: &Context<'_>) -> String {
    let window = [("window", Window::FifteenMinutes.as_str())];
    c.last(&metrics::BOARD_TEMPERATURE_MAX_CELSIUS, &window, Shown::Celsius)
}

pub(super) const ROWS: &[Alert] = &[
    Alert {
        name: AlertName::ThermalThrottling,
        severity: Severity::Critical,
        group: Group::Heat,
        when: When::Both(
            thermal(),
            Condition::new(&metrics::GPU_EVENT_REASON, BY_HARDWARE, Is::AtLeast(on)),
        ),
        outlives: DYING,
        wait: 0,
        keep: 120,
        summary: "Heat costs work, and the hardware itself slows the GPU down.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. First: stop or pause the job; boards switch themselves off from 93 °C on. \
                 Then see to the air.",
                figures(c)
            )
        },
        fires: &["hardware-slows-down"],
        silent: &["heat-costs-time", "heat-costs-clock", "saturated-at-82"],
    },
    Alert {
        name: AlertName::ThermalThrottling,
        severity: Severity::Warning,
        group: Group::Heat,
        when: When::Series(thermal()),
        outlives: DYING,
        wait: 60,
        keep: 300,
        summary: "Heat costs work.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. Clock lost against the job's first minutes: {}. First: see to the air; a \
                 clock cap (nvidia-smi -lgc 0,2100) costs little and cools by ten degrees.",
                figures(c),
                c.last(&metrics::THROTTLE_CLOCK_LOST_RATIO, &[], Shown::Share)
            )
        },
        fires: &["hardware-slows-down", "heat-costs-clock", "heat-costs-time"],
        silent: &[
            "heating-up",
            "saturated-at-82",
            "thermal-burst",
            "prefill-decode",
            "heat-plateau",
            "capped-by-owner",
            "module-at-its-limit",
            "training-beside-serving",
            "slow-climb",
        ],
    },
    Alert {
        name: AlertName::PowerDeliveryFault,
        severity: Severity::Critical,
        group: Group::Heat,
        when: When::Series(in_state(POWER)),
        outlives: DYING,
        wait: 0,
        keep: 300,
        summary: "The GPU is busy at a fraction of its clock and power: the supply does not deliver.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. The driver knows no reason; neither a reboot nor a clock setting helps. \
                 First: shut down and take the supply off the wall and off the box for a minute.",
                figures(c)
            )
        },
        fires: &["power-not-delivered", "safety-mode"],
        silent: &[
            "capped-by-owner",
            "decode-an-hour",
            "load-from-disk",
            "idle-at-full-clock",
            "power-unreadable",
            "page-pools",
        ],
    },
    Alert {
        name: AlertName::BoardHot,
        severity: Severity::Critical,
        group: Group::Heat,
        when: When::Series(Condition::new(
            &metrics::BOARD_TEMPERATURE_CELSIUS,
            &[],
            Is::AtLeast(|t| t.alert_board_critical.0),
        )),
        outlives: DYING,
        wait: 15,
        keep: 120,
        summary: "The board is where boxes switch themselves off.",
        says: |c| {
            format!("{{{{ $labels.instance }}}}: {}. First: stop or pause the job now.", figures(c))
        },
        fires: &["hardware-slows-down"],
        silent: &["heating-up", "heat-costs-clock"],
    },
    Alert {
        name: AlertName::BoardHot,
        severity: Severity::Warning,
        group: Group::Heat,
        when: When::Series(Condition::new(
            &metrics::BOARD_TEMPERATURE_CELSIUS,
            &[],
            Is::AtLeast(|t| t.alert_board_hot.0),
        )),
        outlives: 0,
        wait: 600,
        keep: 300,
        summary: "The board has been hot for ten minutes.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. First: see to the air, then cap the clock.",
                figures(c)
            )
        },
        fires: &["hardware-slows-down"],
        silent: &["heating-up", "heat-costs-clock"],
    },
    Alert {
        name: AlertName::StalledBusy,
        severity: Severity::Warning,
        group: Group::Heat,
        when: When::Series(in_state(STALLED)),
        outlives: 0,
        wait: 60,
        keep: 120,
        summary: "The GPU is busy without doing work.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. A job waits, mostly for a peer that is gone. First: look at the other \
                 machines of the run.",
                figures(c)
            )
        },
        fires: &["spinning"],
        silent: &["load-from-disk", "idle-at-full-clock", "decode-an-hour"],
    },
    Alert {
        name: AlertName::ThrottleSignature,
        severity: Severity::Info,
        group: Group::Heat,
        when: When::Series(Condition::new(&metrics::THROTTLE_SIGNATURE, &[], Is::AtLeast(on))),
        outlives: 0,
        wait: 0,
        keep: 0,
        summary: "Flat power well under the supply's rating and a high or rising temperature, under load.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. No proof that it costs anything: GB10ThermalThrottling says so when it does.",
                figures(c)
            )
        },
        fires: &["slow-climb", "heat-costs-clock"],
        silent: &["heating-up", "decode-an-hour", "idle-day"],
    },
    Alert {
        name: AlertName::AtPowerCap,
        severity: Severity::Info,
        group: Group::Heat,
        when: When::Series(in_state(AT_CAP)),
        outlives: 0,
        wait: 900,
        keep: 0,
        summary: "The GPU works at the power that the platform sustains.",
        says: |c| {
            format!("{{{{ $labels.instance }}}}: {}. This is the platform, no fault.", figures(c))
        },
        fires: &["saturated-at-82", "power-cap-counter"],
        silent: &["decode-an-hour", "idle-day"],
    },
    Alert {
        name: AlertName::ClockCapLost,
        severity: Severity::Info,
        group: Group::Heat,
        when: When::Series(Condition::new(
            &metrics::GPU_CLOCK_CAP_CHANGES_TOTAL,
            &[("change", &[CapChange::Lost.as_str()])],
            Is::Grew { by: on, within: 3600 },
        )),
        outlives: 0,
        wait: 0,
        keep: 0,
        summary: "A clock cap that was there is gone.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. A reboot or a reset of the driver loses it. If it was meant: set it anew, \
                 and in a unit that runs at boot.",
                figures(c)
            )
        },
        fires: &["cap-lost"],
        silent: &["capped-by-owner", "training-under-a-cap"],
    },
];
