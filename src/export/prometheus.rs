//! Prometheus text format 0.0.4, through the prometheus crate's encoder.

use crate::catalog::{self, Kind, Metric, Sample};
use crate::model::frame::Frame;
use crate::model::source::Source;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric as Series, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};
use std::borrow::Cow;

/// What the format is called in HTTP. The version matters: Prometheus 3 refuses a scrape without it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Which sources a scrape asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    wanted: [bool; Source::COUNT],
}

/// Why a scrape's selection makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionError {
    /// Both ways at once.
    Combined,
    /// Not a collector.
    Unknown(String),
}

impl std::fmt::Display for SelectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Combined => f.write_str("collect[] and exclude[] cannot be combined"),
            Self::Unknown(name) => {
                let names: Vec<_> = Source::ALL.iter().map(|source| source.as_str()).collect();
                write!(f, "unknown collector {name:?}; expected one of {}", names.join(", "))
            }
        }
    }
}

impl Selection {
    /// From the parameters `collect[]` and `exclude[]` of a scrape's URL, as node_exporter has them;
    /// none when there is neither.
    ///
    /// # Errors
    /// Both are there, or a name is unknown.
    pub fn from_query<'a>(
        parameters: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
    ) -> Result<Option<Self>, SelectionError> {
        let mut way = None;
        let mut named = [false; Source::COUNT];
        for (key, name) in parameters {
            let collect = match &*key {
                "collect[]" => true,
                "exclude[]" => false,
                _ => continue,
            };
            if way.is_some_and(|before| before != collect) {
                return Err(SelectionError::Combined);
            }
            way = Some(collect);
            let source = Source::ALL.iter().find(|source| source.as_str() == name);
            let source = source.ok_or_else(|| SelectionError::Unknown(name.into_owned()))?;
            named[source.index()] = true;
        }
        Ok(way.map(|collect| Self { wanted: named.map(|named| named == collect) }))
    }

    /// A metric is wanted when one of its sources is; what is said about the exporter always is.
    fn takes(self, metric: &Metric) -> bool {
        metric.sources.is_empty() || metric.sources.iter().any(|source| self.wanted[source.index()])
    }
}

/// The frame as a scrape, of everything or of a selection.
///
/// # Panics
/// Never: the encoder writes to memory and refuses only empty families, which are left out.
#[must_use]
pub fn encode(frame: &Frame, selection: Option<Selection>) -> Vec<u8> {
    let families: Vec<MetricFamily> = catalog::all()
        .filter(|metric| selection.is_none_or(|selection| selection.takes(metric)))
        .filter_map(|metric| family(metric, catalog::samples(metric, frame)))
        .collect();
    let mut out = Vec::with_capacity(32 * 1024);
    TextEncoder::new().encode(&families, &mut out).expect("writing to memory cannot fail");
    out
}

fn family(metric: &Metric, samples: Vec<Sample>) -> Option<MetricFamily> {
    if samples.is_empty() {
        return None;
    }
    let mut family = MetricFamily::default();
    family.set_name(metric.name.to_owned());
    family.set_help(metric.help.to_owned());
    family.set_field_type(match metric.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge | Kind::Info | Kind::StateSet => MetricType::GAUGE,
    });
    family.set_metric(samples.into_iter().map(|sample| series(metric, sample)).collect());
    Some(family)
}

fn series(metric: &Metric, sample: Sample) -> Series {
    let labels = metric
        .labels
        .iter()
        .zip(sample.labels)
        .map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(value.into_owned());
            pair
        })
        .collect();
    let mut series = Series::from_label(labels);
    if metric.kind == Kind::Counter {
        let mut counter = Counter::default();
        counter.set_value(sample.value);
        series.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(sample.value);
        series.set_gauge(gauge);
    }
    series
}
