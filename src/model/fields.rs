//! The field table: every reading, once.
//!
//! `readings!` declares a group of readings as a struct and, from the same lines, its rows of the
//! table. Captures, JSON, CSV, the list of what is missing and the documents iterate [`all`].

use super::reading::{Quantity, Reading, Value};
use super::snapshot::Snapshot;
use super::source::Source;
use super::{gpu, machine, memory, pressure, process, sensors, training, workload};
use crate::units::Unit;

/// Whether every machine has the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Every supported kernel has it: when it is missing, the source has a fault.
    Required,
    /// Depends on kernel version, configuration or hardware: may be missing on a healthy box.
    Optional,
}

/// Receives the values of a field: the member's key (empty for a field with one value) and its
/// reading.
pub type Visitor<'a> = &'a mut dyn FnMut(&str, Reading<Value<'_>>);

/// One reading of the table.
pub struct Field {
    /// Stable name, `group.name`, with the kernel's own spelling where there is one.
    pub id: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Whether every machine has it.
    pub presence: Presence,
    /// Which source reads it.
    pub source: Source,
    /// What it is, for people.
    pub doc: &'static str,
    /// Hands out its values from a snapshot.
    pub visit: fn(&Snapshot, Visitor<'_>),
    /// Puts a value, or the reason why there is none, into a snapshot: what a replayed machine is made
    /// of. The key is that of a member, empty for a field with one value; false when there is no such
    /// member, or it cannot have that value.
    pub set: fn(&mut Snapshot, &str, Reading<Value<'_>>) -> bool,
}

/// Puts a value into the place of a reading; false when it cannot have it.
pub fn put<T: Quantity>(place: &mut Reading<T>, value: Reading<Value<'_>>) -> bool {
    *place = match value {
        Err(reason) => Err(reason),
        Ok(value) => match T::from_value(&value) {
            Some(value) => Ok(value),
            None => return false,
        },
    };
    true
}

/// The member of a list by its key.
pub fn member<'a, T>(
    list: &'a mut Reading<Vec<T>>,
    key: &str,
    name: impl Fn(&T) -> &str,
) -> Option<&'a mut T> {
    list.as_mut().ok()?.iter_mut().find(|item| name(item) == key)
}

/// The field and the member that `id` or `id[key]` names.
#[must_use]
pub fn named(name: &str) -> Option<(&'static Field, &str)> {
    let (id, key) = match name.split_once('[') {
        Some((id, key)) => (id, key.strip_suffix(']')?),
        None => (name, ""),
    };
    all().find(|field| field.id == id).map(|field| (field, key))
}

/// Every reading, group by group.
pub fn all() -> impl Iterator<Item = &'static Field> {
    [
        memory::Meminfo::FIELDS,
        memory::Vmstat::FIELDS,
        memory::FAMILIES,
        pressure::Pressure::FIELDS,
        sensors::FAMILIES,
        gpu::FIELDS,
        training::FAMILIES,
        machine::Load::FIELDS,
        machine::Uptime::FIELDS,
        machine::Stat::FIELDS,
        machine::VmSettings::FIELDS,
        machine::Kernel::FIELDS,
        machine::Os::FIELDS,
        machine::Dmi::FIELDS,
        machine::Nvidia::FIELDS,
        workload::FIELDS,
        process::Process::FIELDS,
    ]
    .into_iter()
    .flatten()
}

/// A group of readings that one source fills.
pub trait Group {
    /// The group with every reading missing for one reason.
    fn absent(reason: super::reading::Missing) -> Self;
}

/// Declares a group: the struct, its `absent` form and its rows of the field table.
///
/// With `keyed`, also `put`, which stores the number of a kernel's `name value` line.
macro_rules! readings {
    (
        $(#[$doc:meta])*
        $name:ident from $source:ident at $member:ident as $prefix:literal {
            $( $(#[doc = $text:literal])+ $field:ident: $ty:ty = $presence:ident $key:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $text])+ pub $field: $crate::model::reading::Reading<$ty>, )+
        }

        impl $crate::model::fields::Group for $name {
            fn absent(reason: $crate::model::reading::Missing) -> Self {
                Self { $( $field: Err(reason), )+ }
            }
        }

        impl $name {
            /// This group's rows of the field table.
            pub const FIELDS: &'static [$crate::model::fields::Field] = &[
                $( $crate::model::fields::Field {
                    id: concat!($prefix, ".", $key),
                    unit: <$ty as $crate::model::reading::Quantity>::UNIT,
                    presence: $crate::model::fields::Presence::$presence,
                    source: $crate::model::source::Source::$source,
                    doc: concat!($($text),+),
                    visit: |snapshot, out| {
                        use $crate::model::reading::Quantity;
                        out("", snapshot.$member.$field.as_ref().map(Quantity::value).map_err(|m| *m));
                    },
                    set: |snapshot, key, value| {
                        key.is_empty()
                            && $crate::model::fields::put(&mut snapshot.$member.$field, value)
                    },
                }, )+
            ];
        }
    };
    (
        keyed
        $(#[$doc:meta])*
        $name:ident from $source:ident at $member:ident as $prefix:literal {
            $( $(#[doc = $text:literal])+ $field:ident: $ty:ty = $presence:ident $key:literal, )+
        }
    ) => {
        readings! {
            $(#[$doc])*
            $name from $source at $member as $prefix {
                $( $(#[doc = $text])+ $field: $ty = $presence $key, )+
            }
        }

        impl $name {
            /// Stores the reading that the kernel calls `key`. Other keys are ignored, and their
            /// values not even parsed: most lines of vmstat are nobody's business here.
            pub fn put(&mut self, key: &str, raw: impl FnOnce() -> $crate::model::reading::Reading<$crate::model::reading::Raw>) {
                use $crate::model::reading::FromRaw;
                match key {
                    $( $key => self.$field = raw().and_then(<$ty>::from_raw), )+
                    _ => {}
                }
            }

            /// The kernel's names of the readings that every supported kernel has and that are
            /// missing here.
            pub fn missing_required(&self) -> impl Iterator<Item = &'static str> {
                use $crate::model::fields::Presence;
                [ $( (Presence::$presence == Presence::Required && self.$field.is_err(), $key), )+ ]
                    .into_iter()
                    .filter_map(|(missing, key)| missing.then_some(key))
            }
        }
    };
}

/// A row for a field with one value per member of a family (a zone, a swap area): `each` yields
/// `(key, reading)` pairs from the family's list.
macro_rules! family {
    ($id:literal, $unit:ident, $presence:ident, $source:ident, $doc:literal,
     $member:ident, |$item:ident, $out:ident| $body:expr, |$place:ident, $value:ident| $set:expr) => {
        $crate::model::fields::Field {
            id: $id,
            unit: $crate::units::Unit::$unit,
            presence: $crate::model::fields::Presence::$presence,
            source: $crate::model::source::Source::$source,
            doc: $doc,
            visit: |snapshot, $out| match &snapshot.$member {
                Ok(items) => items.iter().for_each(|$item| $body),
                Err(reason) => $out("", Err(*reason)),
            },
            set: |snapshot, key, $value| {
                match (
                    $crate::model::fields::member(&mut snapshot.$member, key, |i| &i.name),
                    $value,
                ) {
                    (Some($place), $value) => $set,
                    // The whole list.
                    (None, Err(reason)) if key.is_empty() => {
                        snapshot.$member = Err(reason);
                        true
                    }
                    (None, _) => false,
                }
            },
        }
    };
}
