//! A value, or why there is none.

use crate::units::{Bytes, Celsius, Count, Joules, Seconds, Unit, Watts};

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
}

impl Quantity for Bytes {
    const UNIT: Unit = Unit::Bytes;
    fn value(&self) -> Value<'_> {
        Value::Uint(self.0)
    }
}

impl Quantity for Count {
    const UNIT: Unit = Unit::Count;
    fn value(&self) -> Value<'_> {
        Value::Uint(self.0)
    }
}

impl Quantity for String {
    const UNIT: Unit = Unit::None;
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

macro_rules! float_quantity {
    ($($name:ident),+) => { $(
        impl Quantity for $name {
            const UNIT: Unit = Unit::$name;
            fn value(&self) -> Value<'_> {
                Value::Float(self.0)
            }
        }
    )+ };
}
float_quantity!(Celsius, Watts, Joules, Seconds);

/// A type that a `name value` line of the kernel can fill.
pub trait FromRaw {
    /// From the number in base units (the parser has already applied "kB").
    fn from_raw(raw: u64) -> Self;
}

impl FromRaw for Bytes {
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

impl FromRaw for Count {
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}
