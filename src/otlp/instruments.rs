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
use std::sync::{Arc, Weak};
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
        let temporality = match temporality {
            Temporality::Cumulative => opentelemetry_sdk::metrics::Temporality::Cumulative,
            Temporality::Delta => opentelemetry_sdk::metrics::Temporality::Delta,
            Temporality::LowMemory => opentelemetry_sdk::metrics::Temporality::LowMemory,
        };
        let reader = Asked(Arc::new(ManualReader::builder().with_temporality(temporality).build()));
        let provider =
            SdkMeterProvider::builder().with_reader(reader.clone()).with_resource(resource).build();
        let meter = provider.meter_with_scope(scope(version));
        let pinned = Arc::new(Pinned::default());
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
    let observe = move |to: &dyn AsyncInstrument<f64>| {
        for (attributes, value) in points(&instrument, &pinned) {
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
fn points(instrument: &Instrument, pinned: &Pinned) -> Vec<(Vec<KeyValue>, f64)> {
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
