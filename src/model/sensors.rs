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
}

impl SensorValue {
    /// The value in its unit.
    #[must_use]
    pub const fn value(&self) -> Value<'static> {
        match *self {
            Self::Temperature(Celsius(v)) | Self::Power(Watts(v)) | Self::Energy(Joules(v)) => {
                Value::Float(v)
            }
            Self::Fan(v) => Value::Uint(v),
        }
    }

    /// Its unit.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Temperature(_) => Unit::Celsius,
            Self::Power(_) => Unit::Watts,
            Self::Energy(_) => Unit::Joules,
            Self::Fan(_) => Unit::Count,
        }
    }
}

/// One input of one hwmon chip.
#[derive(Clone, Debug, PartialEq)]
pub struct HwmonSensor {
    /// `spbm.power1.sys_total`: chip by name (the order of chips changes), input, label if any.
    pub name: String,
    /// Its value.
    pub value: Reading<SensorValue>,
}

impl HwmonSensor {
    /// Takes another value of the kind that it has; false when it cannot.
    pub fn set(&mut self, value: Reading<Value<'_>>) -> bool {
        self.value = match (&self.value, value) {
            (_, Err(reason)) => Err(reason),
            (Ok(kind), Ok(value)) => {
                let number = match value {
                    Value::Uint(n) => crate::units::Count(n).as_f64(),
                    Value::Float(x) => x,
                    Value::Text(_) => return false,
                };
                Ok(match kind {
                    SensorValue::Temperature(_) => SensorValue::Temperature(Celsius(number)),
                    SensorValue::Power(_) => SensorValue::Power(Watts(number)),
                    SensorValue::Energy(_) => SensorValue::Energy(Joules(number)),
                    SensorValue::Fan(_) => match value {
                        Value::Uint(n) => SensorValue::Fan(n),
                        _ => return false,
                    },
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
        " A hwmon input in the unit that its kind has (celsius, watts, joules, a fan's figure).",
        hwmon,
        |sensor, out| out(
            &sensor.name,
            sensor.value.as_ref().map(SensorValue::value).map_err(|m| *m)
        ),
        |sensor, value| sensor.set(value)
    ),
];
