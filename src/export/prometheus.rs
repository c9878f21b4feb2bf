//! Prometheus text format 0.0.4, through the prometheus crate's encoder.

use crate::catalog::{self, Kind, Metric, Sample};
use crate::model::frame::Frame;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric as Series, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};

/// What the format is called in HTTP. The version matters: Prometheus 3 refuses a scrape without it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The frame as a scrape.
///
/// # Panics
/// Never: the encoder writes to memory and refuses only empty families, which are left out.
#[must_use]
pub fn encode(frame: &Frame) -> Vec<u8> {
    let families: Vec<MetricFamily> = catalog::all()
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
