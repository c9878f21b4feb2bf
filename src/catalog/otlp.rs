//! The catalog as OpenTelemetry has it: names, units and kinds of instruments, and attributes of points.
//!
//! A metric goes under the name of a semantic convention where it meets that convention's definition, and
//! under `gb10.` otherwise. Every convention that is used is a row of [`CONVENTIONS`]; what has none follows
//! from the metric's own row, so that a backend with Prometheus's names gets those of a scrape back.

use super::{Kind, Label, Metric, PREFIX, Sample, metrics};
use crate::model::frame::Frame;
use crate::units::Unit;
use std::borrow::Cow;

/// The version of the conventions that names and attributes are of.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// What kind of instrument a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The last value counts.
    Gauge,
    /// A monotonic sum.
    Counter,
    /// A sum that may fall: values of several points may be added up.
    UpDownCounter,
}

impl Form {
    /// Its name in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::UpDownCounter => "up-down counter",
        }
    }
}

/// One attribute of a point.
pub type Attribute = (&'static str, Label);

/// A metric that meets the definition of a semantic convention.
pub struct Convention {
    /// The metric.
    pub metric: &'static Metric,
    /// The name of the convention.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its kind of instrument.
    pub form: Form,
    /// Its attributes, from the values of the metric's labels.
    attributes: fn(&[Label]) -> Vec<Attribute>,
    /// What the attributes are, for the reference.
    pub says: &'static str,
}

const GPU: &str = "gpu";

/// The part of the box that a GPU is.
fn gpu(labels: &[Label]) -> Label {
    format!("{GPU}{}", labels.first().map_or("", |index| index)).into()
}

fn hardware(labels: &[Label]) -> Vec<Attribute> {
    vec![("hw.id", gpu(labels)), ("hw.type", GPU.into())]
}

fn zone(labels: &[Label]) -> Vec<Attribute> {
    let zone = labels.first().cloned().unwrap_or_default();
    vec![("hw.id", format!("thermal_zone.{zone}").into()), ("hw.sensor_location", zone)]
}

/// Every convention that is used. A pool that CPU and GPU share is the system's memory and no GPU's, so
/// nothing is sent as `hw.gpu.memory.*`; what belongs to CUDA's view alone keeps a name of its own.
pub const CONVENTIONS: &[Convention] = &[
    Convention {
        metric: &metrics::POOL_SIZE_BYTES,
        name: "system.memory.limit",
        unit: "By",
        form: Form::UpDownCounter,
        attributes: |_| vec![],
        says: "",
    },
    Convention {
        metric: &metrics::POOL_USED_BYTES,
        name: "system.memory.usage",
        unit: "By",
        form: Form::UpDownCounter,
        attributes: |_| vec![("system.memory.state", "used".into())],
        says: "system.memory.state = used",
    },
    Convention {
        metric: &metrics::POOL_AVAILABLE_BYTES,
        name: "system.memory.usage",
        unit: "By",
        form: Form::UpDownCounter,
        attributes: |_| vec![("system.memory.state", "available".into())],
        says: "system.memory.state = available",
    },
    Convention {
        metric: &metrics::MEMORY_MAJOR_FAULTS_TOTAL,
        name: "system.paging.faults",
        unit: "{fault}",
        form: Form::Counter,
        attributes: |_| vec![("system.paging.fault.type", "major".into())],
        says: "system.paging.fault.type = major",
    },
    Convention {
        metric: &metrics::GPU_UTILIZATION_RATIO,
        name: "hw.gpu.utilization",
        unit: "1",
        form: Form::Gauge,
        attributes: |labels| {
            let mut all = hardware(labels);
            all.push(("hw.gpu.task", "general".into()));
            all
        },
        says: "hw.id = gpu and its index, hw.type = gpu, hw.gpu.task = general",
    },
    Convention {
        metric: &metrics::GPU_TEMPERATURE_CELSIUS,
        name: "hw.temperature",
        unit: "Cel",
        form: Form::Gauge,
        attributes: |labels| {
            vec![
                ("hw.id", format!("{}.die", gpu(labels)).into()),
                ("hw.parent", gpu(labels)),
                ("hw.sensor_location", "GPU_DIE".into()),
            ]
        },
        says: "hw.id = gpu, its index and .die, hw.parent = gpu and its index, hw.sensor_location = GPU_DIE",
    },
    Convention {
        metric: &metrics::ZONE_TEMPERATURE_CELSIUS,
        name: "hw.temperature",
        unit: "Cel",
        form: Form::Gauge,
        attributes: zone,
        says: "hw.id = thermal_zone. and the zone, hw.sensor_location = the zone",
    },
    Convention {
        metric: &metrics::ZONE_TRIP_CELSIUS,
        name: "hw.temperature.limit",
        unit: "Cel",
        form: Form::Gauge,
        attributes: |labels| {
            let mut all = zone(labels);
            all.push(("hw.limit_type", "high.critical".into()));
            all
        },
        says: "hw.id = thermal_zone. and the zone, hw.sensor_location = the zone, hw.limit_type = high.critical",
    },
    Convention {
        metric: &metrics::GPU_POWER_WATTS,
        name: "hw.power",
        unit: "W",
        form: Form::Gauge,
        attributes: hardware,
        says: "hw.id = gpu and its index, hw.type = gpu",
    },
    Convention {
        metric: &metrics::GPU_ENERGY_JOULES_TOTAL,
        name: "hw.energy",
        unit: "J",
        form: Form::Counter,
        attributes: hardware,
        says: "hw.id = gpu and its index, hw.type = gpu",
    },
    Convention {
        metric: &metrics::PROCESS_CPU_SECONDS_TOTAL,
        name: "process.cpu.time",
        unit: "s",
        form: Form::Counter,
        attributes: |_| vec![],
        says: "",
    },
    Convention {
        metric: &metrics::PROCESS_RESIDENT_MEMORY_BYTES,
        name: "process.memory.usage",
        unit: "By",
        form: Form::UpDownCounter,
        attributes: |_| vec![],
        says: "",
    },
    Convention {
        metric: &metrics::PROCESS_VIRTUAL_MEMORY_BYTES,
        name: "process.memory.virtual",
        unit: "By",
        form: Form::UpDownCounter,
        attributes: |_| vec![],
        says: "",
    },
    Convention {
        metric: &metrics::PROCESS_OPEN_FDS,
        name: "process.unix.file_descriptor.count",
        unit: "{file_descriptor}",
        form: Form::UpDownCounter,
        attributes: |_| vec![],
        says: "",
    },
    Convention {
        metric: &metrics::PROCESS_THREADS,
        name: "process.thread.count",
        unit: "{thread}",
        form: Form::UpDownCounter,
        attributes: |_| vec![],
        says: "",
    },
];

/// One metric of an instrument.
#[derive(Clone, Copy)]
pub struct Part {
    /// The metric.
    pub metric: &'static Metric,
    /// Its convention, if it has one.
    pub convention: Option<&'static Convention>,
}

/// What is sent under one name: one metric of the catalog, or those that share a convention.
#[derive(Clone)]
pub struct Instrument {
    /// Name.
    pub name: Cow<'static, str>,
    /// Unit (UCUM); empty for what has none.
    pub unit: Cow<'static, str>,
    /// Kind.
    pub form: Form,
    /// The metrics.
    pub parts: Vec<Part>,
}

impl Instrument {
    /// What it is.
    #[must_use]
    pub fn description(&self) -> &'static str {
        self.parts.first().map_or("", |part| part.metric.help)
    }

    /// Its points in a frame. What was not read has none.
    #[must_use]
    pub fn points(&self, frame: &Frame) -> Vec<(Vec<Attribute>, f64)> {
        let of = |part: &Part| {
            let samples = super::samples(part.metric, frame);
            samples
                .into_iter()
                .map(|sample| (part.attributes(&sample), sample.value))
                .collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(of).collect()
    }

    /// What a backend that stores Prometheus's names makes of it.
    #[must_use]
    pub fn prometheus(&self) -> String {
        prometheus(&self.name, &self.unit, self.form)
    }
}

impl Part {
    /// The attributes of a sample. An empty label says nothing in Prometheus, and is no attribute here.
    #[must_use]
    pub fn attributes(&self, sample: &Sample) -> Vec<Attribute> {
        if let Some(convention) = self.convention {
            return (convention.attributes)(&sample.labels);
        }
        let pairs = self.metric.labels.iter().copied().zip(sample.labels.iter().cloned());
        pairs.filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Every instrument, in the order of the catalog.
#[must_use]
pub fn instruments() -> Vec<Instrument> {
    let mut all: Vec<Instrument> = Vec::new();
    for metric in super::all() {
        let convention = CONVENTIONS.iter().find(|row| row.metric.name == metric.name);
        let part = Part { metric, convention };
        let (name, unit, form) = match convention {
            Some(row) => (row.name.into(), row.unit.into(), row.form),
            None => (own_name(metric).into(), own_unit(metric), own_form(metric)),
        };
        match all.iter_mut().find(|instrument| instrument.name == name) {
            Some(instrument) => instrument.parts.push(part),
            None => all.push(Instrument { name, unit, form, parts: vec![part] }),
        }
    }
    all
}

const fn own_form(metric: &Metric) -> Form {
    match metric.kind {
        Kind::Counter => Form::Counter,
        Kind::Gauge | Kind::Info | Kind::StateSet => Form::Gauge,
    }
}

/// The stem of a metric's name: without what Prometheus's names say of kind and unit.
fn stem(metric: &Metric) -> &'static str {
    let bare = |name: &'static str| name.strip_prefix(PREFIX).unwrap_or(name);
    let name = bare(metric.name);
    let name = name.strip_suffix("_total").unwrap_or(name);
    let suffix = metric.unit.metric_suffix().unwrap_or_default();
    match name.strip_suffix(suffix).and_then(|stem| stem.strip_suffix('_')) {
        // A name is never a namespace of others, which gb10.throttle would be, and never another metric's:
        // reasons of the driver and their seconds are two.
        Some(stem) if stem.contains('_') && !super::all().any(|other| bare(other.name) == stem) => {
            stem
        }
        _ => name,
    }
}

/// `gb10.`, the family, and the rest: `gb10.pool.available_min`.
fn own_name(metric: &Metric) -> String {
    let stem = stem(metric);
    let (family, rest) = stem.split_once('_').unwrap_or((stem, ""));
    let dot = if rest.is_empty() { "" } else { "." };
    format!("gb10.{family}{dot}{rest}")
}

/// UCUM has no unit for things that are counted: the thing stands in braces.
fn own_unit(metric: &Metric) -> Cow<'static, str> {
    match metric.unit {
        Unit::Count => {
            let word = stem(metric).rsplit('_').next().unwrap_or_default();
            // Processes, but losses and such are none of ours.
            let thing = word.strip_suffix("sses").map(|w| format!("{w}ss"));
            let thing = thing.or_else(|| word.strip_suffix('s').map(str::to_owned));
            thing.map_or(Cow::Borrowed(""), |thing| format!("{{{thing}}}").into())
        }
        unit => ucum(unit).into(),
    }
}

const fn ucum(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "By",
        Unit::BytesPerSecond => "By/s",
        Unit::Seconds => "s",
        Unit::Celsius => "Cel",
        Unit::Watts => "W",
        Unit::Joules => "J",
        Unit::Hertz => "Hz",
        Unit::Ratio => "1",
        _ => "",
    }
}

/// The name that Prometheus's receiver and its like store by default (translation strategy
/// `UnderscoreEscapingWithSuffixes`).
#[must_use]
pub fn prometheus(name: &str, unit: &str, form: Form) -> String {
    let mut tokens: Vec<&str> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|token| !token.is_empty())
        .collect();
    let word = match unit {
        "By" => "bytes",
        "s" => "seconds",
        "Cel" => "celsius",
        "W" => "watts",
        "J" => "joules",
        "Hz" => "hertz",
        "1" if form == Form::Gauge => "ratio",
        _ => "",
    };
    if !word.is_empty() && !tokens.contains(&word) {
        tokens.push(word);
    }
    if form == Form::Counter {
        tokens.retain(|token| *token != "total");
        tokens.push("total");
    }
    tokens.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_has_no_convention_gets_its_name_back() {
        for instrument in instruments() {
            let [Part { metric, convention: None }] = instrument.parts[..] else { continue };
            let own = metric.name.starts_with("process_");
            let wanted =
                if own { format!("{PREFIX}{}", metric.name) } else { metric.name.to_owned() };
            assert_eq!(instrument.prometheus(), wanted, "{}", instrument.name);
        }
    }

    #[test]
    fn names_follow_the_rules_of_instruments() {
        let all = instruments();
        let names: BTreeSet<&str> = all.iter().map(|i| &*i.name).collect();
        assert_eq!(names.len(), all.len(), "each name once");
        for instrument in &all {
            let name = &*instrument.name;
            // The library takes an instrument with another name for none, without a word.
            assert!(
                name.len() < 256 && name.starts_with(|c: char| c.is_ascii_alphabetic()),
                "{name}"
            );
            assert!(
                name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)),
                "{name}"
            );
            let conventional = instrument.parts.iter().all(|part| part.convention.is_some());
            // The conventions have hw.temperature and hw.temperature.limit; own names keep the rule.
            let below = names.iter().any(|other| other.starts_with(&format!("{name}.")));
            assert!(conventional || !below, "{name} is a namespace");
            assert!(conventional || name.starts_with("gb10."), "{name}");
            assert!(!name.starts_with("hw.gpu.memory"), "{name}: one pool is nobody's own memory");
            let alone = instrument.parts.len() == 1;
            assert!(conventional || alone, "{name} is two metrics");
            // Whoever shares a name agrees on unit and kind.
            for row in instrument.parts.iter().filter_map(|part| part.convention) {
                assert_eq!((&*instrument.unit, instrument.form), (row.unit, row.form), "{name}");
                assert_eq!(row.form == Form::Counter, row.metric.kind == Kind::Counter, "{name}");
                let unit = ucum(row.metric.unit);
                assert!(unit == row.unit || row.metric.unit == Unit::Count, "{name} {unit}");
            }
        }
    }

    #[test]
    fn every_convention_is_met_by_a_metric() {
        let parts: Vec<Part> = instruments().into_iter().flat_map(|i| i.parts).collect();
        assert_eq!(parts.iter().filter(|p| p.convention.is_some()).count(), CONVENTIONS.len());
        assert_eq!(parts.len(), super::super::all().count());
    }
}
