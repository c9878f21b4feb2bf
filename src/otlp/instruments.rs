//! The catalog as instruments of the SDK. Their callbacks read one pinned frame, so that an export is one
//! frame.
//!
//! Start times of sums are the library's: the time at which this was made. A counter of the kernel that was
//! there before says its whole value all the same.

use crate::catalog::otlp::{Attribute, Form, Instrument, SCHEMA_URL, instruments};
use crate::config::otlp::Temporality;
use crate::model::frame::Frame;
use arc_swap::ArcSwapOption;
use opentelemetry::metrics::{AsyncInstrument, Meter, MeterProvider};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, ManualReader, Pipeline, SdkMeterProvider};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The name of what makes the data.
const SCOPE: &str = "gb10-exporter";

/// A reader that is asked and has no time of its own.
#[derive(Clone, Debug)]
struct Asked(Arc<ManualReader>);

impl MetricReader for Asked {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }
    fn collect(&self, rm: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(rm)
    }
    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }
    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }
    fn temporality(&self, kind: InstrumentKind) -> opentelemetry_sdk::metrics::Temporality {
        self.0.temporality(kind)
    }
}

/// The frame that callbacks read, and whether one of them has failed.
#[derive(Default)]
struct Pinned {
    frame: ArcSwapOption<Frame>,
    failed: AtomicBool,
    /// Counters are told as what was added.
    delta: bool,
}

/// Points of one instrument.
type Points = Vec<(Vec<KeyValue>, f64)>;

/// What a counter has added since it was seen first, and its value then: the library takes the first value
/// that it sees for an addition, and a value that falls for a negative one.
#[derive(Default)]
struct Added {
    seen: Vec<(Vec<KeyValue>, f64, f64)>,
}

impl Added {
    /// Counters as sums of what was added. One that is absent is forgotten here as it is by the library, and
    /// begins anew.
    fn of(&mut self, points: Points) -> Points {
        let before = std::mem::take(&mut self.seen);
        for (attributes, value) in points {
            let known = before.iter().find(|(known, ..)| *known == attributes);
            let sum = known.map_or(0.0, |(_, last, sum)| sum + (value - last).max(0.0));
            self.seen.push((attributes, value, sum));
        }
        self.seen.iter().map(|(attributes, _, sum)| (attributes.clone(), *sum)).collect()
    }
}

/// Every instrument, and who asks them.
pub(super) struct Instruments {
    reader: Asked,
    pinned: Arc<Pinned>,
    /// Lives as long as its instruments.
    _provider: SdkMeterProvider,
}

impl Instruments {
    pub(super) fn new(resource: Resource, temporality: Temporality, version: &'static str) -> Self {
        let delta = temporality == Temporality::Delta;
        let temporality = match temporality {
            Temporality::Cumulative => opentelemetry_sdk::metrics::Temporality::Cumulative,
            Temporality::Delta => opentelemetry_sdk::metrics::Temporality::Delta,
            Temporality::LowMemory => opentelemetry_sdk::metrics::Temporality::LowMemory,
        };
        let reader = Asked(Arc::new(ManualReader::builder().with_temporality(temporality).build()));
        let provider =
            SdkMeterProvider::builder().with_reader(reader.clone()).with_resource(resource).build();
        let meter = provider.meter_with_scope(scope(version));
        let pinned = Arc::new(Pinned { delta, ..Pinned::default() });
        for instrument in instruments() {
            register(&meter, instrument, &pinned);
        }
        Self { reader, pinned, _provider: provider }
    }

    /// A frame as data.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn collect(&self, frame: Arc<Frame>) -> Result<ResourceMetrics, String> {
        self.pinned.frame.store(Some(frame));
        let mut data = ResourceMetrics::default();
        let collected = self.reader.collect(&mut data).map_err(|error| error.to_string());
        self.pinned.frame.store(None);
        collected.map(|()| data)
    }
}

/// Who makes the data.
pub(super) fn scope(version: &'static str) -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE).with_version(version).with_schema_url(SCHEMA_URL).build()
}

/// Makes one instrument of the library. It is asked through its callback, and needs no other holder.
fn register(meter: &Meter, instrument: Instrument, pinned: &Arc<Pinned>) {
    let (name, unit) = (instrument.name.clone(), instrument.unit.clone());
    let (description, form) = (instrument.description(), instrument.form);
    let pinned = Arc::clone(pinned);
    let added = (pinned.delta && form == Form::Counter).then(Mutex::<Added>::default);
    let observe = move |to: &dyn AsyncInstrument<f64>| {
        let mut points = points(&instrument, &pinned);
        if let Some(added) = &added {
            points = added.lock().unwrap_or_else(PoisonError::into_inner).of(points);
        }
        for (attributes, value) in points {
            to.observe(value, &attributes);
        }
    };
    match form {
        Form::Gauge => drop(
            meter
                .f64_observable_gauge(name)
                .with_unit(unit)
                .with_description(description)
                .with_callback(observe)
                .build(),
        ),
        Form::Counter => drop(
            meter
                .f64_observable_counter(name)
                .with_unit(unit)
                .with_description(description)
                .with_callback(observe)
                .build(),
        ),
        Form::UpDownCounter => drop(
            meter
                .f64_observable_up_down_counter(name)
                .with_unit(unit)
                .with_description(description)
                .with_callback(observe)
                .build(),
        ),
    }
}

/// What an instrument has to say of the pinned frame. It reads memory alone and cannot block; a panic costs
/// this instrument's points.
fn points(instrument: &Instrument, pinned: &Pinned) -> Points {
    let Some(frame) = pinned.frame.load_full() else { return Vec::new() };
    let Ok(points) = catch_unwind(AssertUnwindSafe(|| instrument.points(&frame))) else {
        if !pinned.failed.swap(true, Ordering::Relaxed) {
            let name = &instrument.name;
            tracing::error!("{name} cannot be told; this is a bug, please report it");
        }
        return Vec::new();
    };
    points.into_iter().map(|(of, value)| (of.into_iter().map(key_value).collect(), value)).collect()
}

fn key_value((name, value): Attribute) -> KeyValue {
    let value: Value = match value {
        std::borrow::Cow::Borrowed(text) => text.into(),
        std::borrow::Cow::Owned(text) => text.into(),
    };
    KeyValue::new(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_begin_with_what_was_seen_first_and_never_fall() {
        let mut added = Added::default();
        let point = |value: f64| vec![(vec![KeyValue::new("kind", "file")], value)];
        let mut sum = |points: Points| added.of(points).first().map(|(_, sum)| *sum);
        // Since the boot 90460 faults: none of them is new.
        assert_eq!(sum(point(90460.0)), Some(0.0));
        assert_eq!(sum(point(90470.0)), Some(10.0));
        assert_eq!(sum(point(5.0)), Some(10.0), "a counter that began anew");
        assert_eq!(sum(point(8.0)), Some(13.0));
        assert_eq!(sum(Vec::new()), None, "what was not read is not told");
        assert_eq!(sum(point(100.0)), Some(0.0));
    }
}
