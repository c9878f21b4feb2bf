//! Temperatures and what else the board's sensors say.

use super::fields::{Field, put};
use super::reading::{Quantity, Reading, Value};
use crate::units::{Celsius, Joules, Unit, Watts};

/// One ACPI thermal zone.
///
/// A GB10 has seven, all of type `acpitz`, without labels. Which one is the die is contested, so a
/// zone is named by its ACPI path where that is readable and by its index otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct ThermalZone {
    /// `TSOC`, or `thermal_zone0` where the ACPI path is not to be had.
    pub name: String,
    /// Driver's type, `acpitz`.
    pub kind: Reading<String>,
    /// Temperature now.
    pub temperature: Reading<Celsius>,
    /// The trip at which the firmware cuts power, where it states one.
    pub critical: Reading<Celsius>,
}

/// What a hwmon input measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SensorValue {
    /// A temperature.
    Temperature(Celsius),
    /// A power.
    Power(Watts),
    /// A running energy total, of whatever width the chip has.
    Energy(Joules),
    /// A fan's figure as the chip gives it; ACPI fans report states here, not revolutions.
    Fan(u64),
    /// A state of the chip as it gives it: a flag or a level, not a measurement.
    State(u64),
}

impl SensorValue {
    /// The value in its unit.
    #[must_use]
    pub const fn value(&self) -> Value<'static> {
        match *self {
            Self::Temperature(Celsius(v)) | Self::Power(Watts(v)) | Self::Energy(Joules(v)) => {
                Value::Float(v)
            }
            Self::Fan(v) | Self::State(v) => Value::Uint(v),
        }
    }

    /// Its unit.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Temperature(_) => Unit::Celsius,
            Self::Power(_) => Unit::Watts,
            Self::Energy(_) => Unit::Joules,
            Self::Fan(_) | Self::State(_) => Unit::Count,
        }
    }
}

/// What a hwmon sensor's name ends with when it is the limit of the input and not the input.
pub const CAP: &str = ".cap";

/// One input of one hwmon chip, the limit of one, or one of the chip's states.
#[derive(Clone, Debug, PartialEq)]
pub struct HwmonSensor {
    /// `spbm.power1.sys_total`: chip by name (the order of chips changes), input, label if any.
    /// `spbm.power11.pl1.cap` is the limit of an input, `spbm.prochot` a state.
    pub name: String,
    /// Its value.
    pub value: Reading<SensorValue>,
}

/// A sensor's name in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorName<'a> {
    /// The chip.
    pub chip: &'a str,
    /// What the input's file is called, without its number: `power`.
    pub kind: &'a str,
    /// The driver's label, empty where there is none.
    pub label: &'a str,
    /// Whether it is the limit of the input.
    pub cap: bool,
}

impl HwmonSensor {
    /// Its name in parts.
    #[must_use]
    pub fn parts(&self) -> SensorName<'_> {
        let (chip, rest) = self.name.split_once('.').unwrap_or((&self.name, ""));
        let (rest, cap) = rest.strip_suffix(CAP).map_or((rest, false), |input| (input, true));
        let (input, label) = rest.split_once('.').unwrap_or((rest, ""));
        let kind = input.trim_end_matches(|c: char| c.is_ascii_digit());
        SensorName { chip, kind, label, cap }
    }

    /// Takes another value of the kind that it has; false when it cannot.
    pub fn set(&mut self, value: Reading<Value<'_>>) -> bool {
        self.value = match (&self.value, value) {
            (_, Err(reason)) => Err(reason),
            (Ok(kind), Ok(value)) => {
                let (number, whole) = match value {
                    Value::Uint(n) => (crate::units::Count(n).as_f64(), Some(n)),
                    Value::Float(x) => (x, None),
                    // The inputs of a chip have units of their own, so an amount comes as it is written.
                    Value::Text(text) => match kind.unit().parse(text, "") {
                        Ok(number) => (number, text.parse().ok()),
                        Err(_) => return false,
                    },
                };
                Ok(match (kind, whole) {
                    (SensorValue::Temperature(_), _) => SensorValue::Temperature(Celsius(number)),
                    (SensorValue::Power(_), _) => SensorValue::Power(Watts(number)),
                    (SensorValue::Energy(_), _) => SensorValue::Energy(Joules(number)),
                    (SensorValue::Fan(_), Some(n)) => SensorValue::Fan(n),
                    (SensorValue::State(_), Some(n)) => SensorValue::State(n),
                    (SensorValue::Fan(_) | SensorValue::State(_), None) => return false,
                })
            }
            // Which kind it would be is not known.
            (Err(_), Ok(_)) => return false,
        };
        true
    }
}

/// Thermal zones.
pub type Zones = Reading<Vec<ThermalZone>>;
/// hwmon inputs.
pub type Hwmon = Reading<Vec<HwmonSensor>>;

/// Rows of the field table for what comes in lists.
pub const FAMILIES: &[Field] = &[
    family!(
        "thermal_zone.temp",
        Celsius,
        Optional,
        Thermal,
        " Temperature of an ACPI thermal zone.",
        zones,
        |zone, out| out(&zone.name, zone.temperature.as_ref().map(Quantity::value).map_err(|m| *m)),
        |zone, value| put(&mut zone.temperature, value)
    ),
    family!(
        "thermal_zone.critical",
        Celsius,
        Optional,
        Thermal,
        " Temperature at which the firmware says it cuts power.",
        zones,
        |zone, out| out(&zone.name, zone.critical.as_ref().map(Quantity::value).map_err(|m| *m)),
        |zone, value| put(&mut zone.critical, value)
    ),
    family!(
        "hwmon.input",
        None,
        Optional,
        Hwmon,
        " A hwmon input in the unit that its kind has (celsius, watts, joules, a fan's figure, a state); of a chip that keeps to limits also these, as `.cap`, and its states.",
        hwmon,
        |sensor, out| out(
            &sensor.name,
            sensor.value.as_ref().map(SensorValue::value).map_err(|m| *m)
        ),
        |sensor, value| sensor.set(value)
    ),
];
