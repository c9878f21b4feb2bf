//! The metric table: every output, once. Each row turns a frame into samples.
//!
//! Prometheus text, the references and the tests that lint names iterate [`all`]. A row whose input
//! is missing gives no sample: an absent value is absent.

mod contention;
mod gpu;
mod health;
pub mod history;
mod kernel_log;
pub mod links;
mod machine;
mod memory;
mod module;
pub mod otlp;
mod pool;
mod power;
mod process;
mod training;
pub mod verdicts;
mod workload;

/// Every row by its name.
pub mod metrics {
    pub use super::contention::*;
    pub use super::gpu::*;
    pub use super::health::*;
    pub use super::kernel_log::*;
    pub use super::machine::*;
    pub use super::memory::*;
    pub use super::module::*;
    pub use super::pool::*;
    pub use super::power::*;
    pub use super::process::*;
    pub use super::training::*;
    pub use super::workload::*;
}

use crate::model::frame::Frame;
use crate::model::reading::Reading;
use crate::model::source::Source;
use crate::units::Unit;
use std::borrow::Cow;

/// What kind of series a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, until the kernel or the exporter restarts.
    Counter,
    /// Always 1; the labels are the content.
    Info,
    /// One series a state, exactly one of them 1.
    StateSet,
}

impl Kind {
    /// Its name in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Info => "info",
            Self::StateSet => "state set",
        }
    }
}

/// Whether a metric's name and labels may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Frozen: `tests/golden/names.txt` holds it.
    Stable,
    /// May change in a minor version.
    Experimental,
}

/// One metric.
pub struct Metric {
    /// Full name.
    pub name: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Unit.
    pub unit: Unit,
    /// Label names, in the order of the values that `read` gives.
    pub labels: &'static [&'static str],
    /// The sources that it comes from; none for what is said about the exporter itself.
    pub sources: &'static [Source],
    /// What it is, and what is odd about it on these machines.
    pub help: &'static str,
    /// Where the figure comes from.
    pub from: &'static str,
    /// Whether it may change.
    pub stability: Stability,
    /// Takes its samples from a frame.
    pub read: fn(&Frame, &mut Samples),
}

impl Metric {
    /// Whether its values are points in time.
    #[must_use]
    pub fn is_point_in_time(&self) -> bool {
        self.name.ends_with("_timestamp_seconds")
    }
}

/// One sample: label values in the order of the metric's labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Label values.
    pub labels: Vec<Cow<'static, str>>,
    /// Value, always finite.
    pub value: f64,
}

/// The samples of one metric.
#[derive(Debug, Default)]
pub struct Samples {
    taken: Vec<Sample>,
}

/// A label value: a name from a closed set is not copied.
pub type Label = Cow<'static, str>;

impl Samples {
    /// One sample with labels. A value that is not finite is no value.
    pub fn add<const N: usize>(&mut self, labels: [Label; N], value: f64) {
        if value.is_finite() {
            self.taken.push(Sample { labels: labels.into(), value });
        }
    }

    /// One sample without labels, if there is a value.
    pub fn one<T>(&mut self, reading: Reading<T>, value: impl Fn(T) -> f64) {
        self.each([], reading, value);
    }

    /// One sample with labels, if there is a value.
    pub fn each<T, const N: usize>(
        &mut self,
        labels: [Label; N],
        reading: Reading<T>,
        value: impl Fn(T) -> f64,
    ) {
        if let Ok(v) = reading {
            self.add(labels, value(v));
        }
    }

    /// An info metric's sample: labels whose values are not known are empty.
    pub fn info<const N: usize>(&mut self, labels: [Option<&str>; N]) {
        self.add(labels.map(|l| Cow::Owned(l.unwrap_or_default().to_owned())), 1.0);
    }

    /// The samples.
    #[must_use]
    pub fn into_vec(self) -> Vec<Sample> {
        self.taken
    }
}

/// What every name of a series begins with, but for those of the exporter's own process.
pub const PREFIX: &str = "gb10_";

/// A boolean as a sample.
pub(crate) fn flag(on: bool) -> f64 {
    if on { 1.0 } else { 0.0 }
}

/// Every metric, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    [
        pool::ROWS,
        gpu::ROWS,
        power::ROWS,
        training::ROWS,
        workload::ROWS,
        contention::ROWS,
        memory::ROWS,
        kernel_log::ROWS,
        machine::ROWS,
        module::ROWS,
        health::ROWS,
        process::ROWS,
    ]
    .into_iter()
    .flatten()
}

/// A metric's samples from a frame.
#[must_use]
pub fn samples(metric: &Metric, frame: &Frame) -> Vec<Sample> {
    let mut out = Samples::default();
    (metric.read)(frame, &mut out);
    out.into_vec()
}

/// Declares rows of the table. Each is a constant, so that rules and dashboards name a metric by what
/// the compiler knows; the names of series are written here and nowhere else.
macro_rules! rows {
    ($($row:ident = $metric:expr),+ $(,)?) => {
        $(
            #[doc = concat!("The row `", stringify!($row), "`.")]
            pub const $row: $crate::catalog::Metric = $metric;
        )+
        pub(super) const ROWS: &[$crate::catalog::Metric] = &[$($row),+];
    };
}
use rows;

/// Writes a row of the table.
macro_rules! metric {
    ($name:literal, $kind:ident, $unit:ident, [$($label:literal),* $(,)?], [$($source:ident),*], $stability:ident, $from:literal, $help:literal, $read:expr) => {
        $crate::catalog::Metric {
            name: $name,
            kind: $crate::catalog::Kind::$kind,
            unit: $crate::units::Unit::$unit,
            labels: &[$($label),*],
            sources: &[$($crate::model::source::Source::$source),*],
            help: $help,
            from: $from,
            stability: $crate::catalog::Stability::$stability,
            read: $read,
        }
    };
}
use metric;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_follow_the_conventions() {
        let mut seen = BTreeSet::new();
        for metric in all() {
            let name = metric.name;
            assert!(seen.insert(name), "{name} is there twice");
            // The names of a process's own metrics are the same in every exporter.
            let own = process::ROWS.iter().any(|row| row.name == name);
            let prefix = if own { "process_" } else { "gb10_" };
            assert!(name.starts_with(prefix), "{name}");
            assert!(
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "{name}"
            );
            assert_eq!(metric.kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert_eq!(metric.kind == Kind::Info, name.ends_with("_info"), "{name}");
            let stem = name.strip_suffix("_total").unwrap_or(name);
            if let Some(suffix) = metric.unit.metric_suffix() {
                assert!(stem.ends_with(suffix), "{name} is in {suffix}");
            }
            for unit in Unit::ALL.iter().filter_map(|u| u.metric_suffix()) {
                let suffixed = stem.ends_with(&format!("_{unit}"));
                assert!(!suffixed || metric.unit.as_str() == unit, "{name} says {unit} and is not");
            }
            assert!(
                metric.help.ends_with('.') && !metric.help.contains('\n'),
                "{name}: {}",
                metric.help
            );
            for label in metric.labels {
                assert!(
                    !["type", "job", "instance", "le", "quantile"].contains(label),
                    "{name} {label}"
                );
                assert!(
                    label.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
                    "{name} {label}"
                );
            }
        }
        assert!(seen.len() > 30);
    }
}
