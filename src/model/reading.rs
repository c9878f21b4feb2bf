//! A value, or why there is none.

use crate::units::{Bytes, Celsius, Count, Hertz, Joules, KIB, Ratio, Seconds, Unit, Watts};

states! {
    /// Why a reading has no value. It is exported beside the absent value.
    Missing {
        /// Not read yet: the exporter has just started.
        Pending = "pending",
        /// This kernel or this machine does not have it.
        NotPresent = "not_present",
        /// The exporter may not read it.
        Denied = "denied",
        /// It was read and is not what the kernel documents: cut short, not a number, too large.
        Malformed = "malformed",
        /// Reading it failed with an input/output error.
        Failed = "failed",
        /// Reading it has not come back: the file or the driver behind it blocks.
        Hung = "hung",
        /// The last value is too old to be called a reading.
        Stale = "stale",
        /// Switched off by the operator.
        Disabled = "disabled",
        /// The driver says that this device does not have it (NVML's return code 3, `[Not Supported]`).
        Unsupported = "unsupported",
        /// The device has it and gives no figure: `[N/A]`, a process without an amount.
        NotAvailable = "not_available",
        /// The GPU has fallen off the bus.
        Lost = "lost",
        /// The NVIDIA driver is not loaded.
        NoDriver = "no_driver",
        /// The loaded driver and its library are of different versions: an upgrade without a reboot.
        VersionMismatch = "version_mismatch",
        /// There is no NVML library, or no nvidia-smi, to ask.
        NoLibrary = "no_library",
        /// The NVML library is older than the question.
        NoSymbol = "no_symbol",
    }
}

/// What every input and every derived figure is: a value, or the reason why there is none.
///
/// It is a `Result`, so that `?` carries the reason of a missing input into whatever needs it. It
/// is data all the same: nothing failed when a reading is missing, the machine just did not say.
pub type Reading<T> = Result<T, Missing>;

/// A reading's value in the form in which JSON, CSV and captures take it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number in the field's unit.
    Uint(u64),
    /// A number in the field's unit. Always finite: a source drops what is not.
    Float(f64),
    /// A name or an identity.
    Text(&'a str),
}

/// A type that a field of the table can hold.
pub trait Quantity {
    /// The unit of the field's values.
    const UNIT: Unit;
    /// The value in that unit.
    fn value(&self) -> Value<'_>;
    /// From a value in that unit, if it can be one.
    fn from_value(value: &Value<'_>) -> Option<Self>
    where
        Self: Sized;
}

/// A whole number that is not negative, from a number.
fn whole(value: &Value<'_>) -> Option<u64> {
    match *value {
        Value::Uint(n) => Some(n),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates, and negative ones are out"
        )]
        Value::Float(x) => (x >= 0.0).then(|| x.round() as u64),
        Value::Text(_) => None,
    }
}

impl Quantity for Bytes {
    const UNIT: Unit = Unit::Bytes;
    fn value(&self) -> Value<'_> {
        Value::Uint(self.0)
    }
    fn from_value(value: &Value<'_>) -> Option<Self> {
        whole(value).map(Self)
    }
}

impl Quantity for Count {
    const UNIT: Unit = Unit::Count;
    fn value(&self) -> Value<'_> {
        Value::Uint(self.0)
    }
    fn from_value(value: &Value<'_>) -> Option<Self> {
        whole(value).map(Self)
    }
}

impl Quantity for String {
    const UNIT: Unit = Unit::None;
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
    fn from_value(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some((*text).to_owned()),
            _ => None,
        }
    }
}

macro_rules! float_quantity {
    ($($name:ident),+) => { $(
        impl Quantity for $name {
            const UNIT: Unit = Unit::$name;
            fn value(&self) -> Value<'_> {
                Value::Float(self.0)
            }
            fn from_value(value: &Value<'_>) -> Option<Self> {
                match *value {
                    Value::Uint(n) => Some(Self(Count(n).as_f64())),
                    Value::Float(x) => Some(Self(x)).filter(|_| x.is_finite()),
                    Value::Text(_) => None,
                }
            }
        }
    )+ };
}
float_quantity!(Celsius, Watts, Joules, Seconds, Hertz, Ratio);

/// The value of a kernel's `name value` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A number without a unit.
    Plain(u64),
    /// A number of "kB", by which the kernel means KiB.
    Kib(u64),
}

/// A type that a `name value` line of the kernel can fill. A line with the wrong unit is malformed:
/// an amount of memory that lacks its "kB" was cut short.
pub trait FromRaw: Sized {
    /// From the line's value.
    fn from_raw(raw: Raw) -> Reading<Self>;
}

impl FromRaw for Bytes {
    fn from_raw(raw: Raw) -> Reading<Self> {
        match raw {
            Raw::Kib(kib) if kib <= u64::MAX / KIB => Ok(Self::from_kib(kib)),
            _ => Err(Missing::Malformed),
        }
    }
}

impl FromRaw for Count {
    fn from_raw(raw: Raw) -> Reading<Self> {
        match raw {
            Raw::Plain(count) => Ok(Self(count)),
            Raw::Kib(_) => Err(Missing::Malformed),
        }
    }
}
