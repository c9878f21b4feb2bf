//! When something is sent, and what is counted and said about it: transitions, not turns.

use super::LAST;
use super::instruments::Instruments;
use super::records::Records;
use super::resource::{Who, resource};
use super::transport::Way;
use crate::clock::{Clock, System};
use crate::config::otlp::Otlp;
use crate::engine::Engine;
use crate::model::event::Event;
use crate::model::frame::Frame;
use crate::model::push::{ExportResult, Signal};
use opentelemetry_otlp::{LogExporter, MetricExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_secs(1);
/// The longest pause after log records that were not taken.
const SLOWEST: Duration = Duration::from_secs(60);
/// More than the library's own end of an export, which comes first.
const SLACK: Duration = Duration::from_millis(500);

/// What is sent, and in whose name.
pub(super) struct Sending {
    pub(super) engine: Arc<Engine>,
    pub(super) otlp: Otlp,
    pub(super) who: Who,
    pub(super) version: &'static str,
}

/// Sends until it is told to stop, and once more then.
pub(super) async fn run(sending: Sending, ways: Vec<Way>, mut stop: watch::Receiver<bool>) {
    let Some(frame) = first_frame(&sending.engine, &mut stop).await else { return };
    let resource = resource(&sending.who, &sending.otlp, &frame);
    let of = |signal| ways.iter().find(|way| way.target.signal == signal);
    tokio::join!(
        metrics(&sending, of(Signal::Metrics), &resource, stop.clone()),
        logs(&sending, of(Signal::Logs), &resource, stop.clone()),
    );
}

/// Whoever knows the box: the first frame.
async fn first_frame(engine: &Engine, stop: &mut watch::Receiver<bool>) -> Option<Arc<Frame>> {
    loop {
        if let Ok(frame) = engine.frame() {
            return Some(frame);
        }
        tokio::select! {
            () = stopped(stop) => return None,
            () = tokio::time::sleep(LOOK / 10) => {}
        }
    }
}

/// Comes back when everything is to end. Whoever would say so may be gone as well.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn metrics(
    sending: &Sending,
    way: Option<&Way>,
    resource: &Resource,
    mut stop: watch::Receiver<bool>,
) {
    let Some(way) = way else { return };
    let exporter = match way.metrics(sending.otlp.temporality) {
        Ok(exporter) => exporter,
        Err(what) => return tracing::error!("metrics are not sent: {what}"),
    };
    let instruments = Instruments::new(resource.clone(), sending.otlp.temporality, sending.version);
    let mut voice = Voice::new(sending, way);
    let mut turns = tokio::time::interval(sending.otlp.interval);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            _ = turns.tick() => {}
        }
        // Each turn is over before the next one.
        let limit = (way.target.timeout + SLACK).min(sending.otlp.interval);
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            () = send_metrics(sending, &exporter, &instruments, limit, &mut voice) => {}
        }
    }
    send_metrics(sending, &exporter, &instruments, LAST, &mut voice).await;
}

async fn send_metrics(
    sending: &Sending,
    exporter: &MetricExporter,
    instruments: &Instruments,
    limit: Duration,
    voice: &mut Voice<'_>,
) {
    // Without a frame nothing is known that could be told, and an old one is not told again.
    let Ok(frame) = sending.engine.frame() else { return };
    match instruments.collect(frame) {
        Ok(data) => voice.heard(within(limit, exporter.export(&data)).await),
        Err(what) => voice.heard(Err(what)),
    }
}

async fn logs(
    sending: &Sending,
    way: Option<&Way>,
    resource: &Resource,
    mut stop: watch::Receiver<bool>,
) {
    let Some(way) = way else { return };
    let mut exporter = match way.logs() {
        Ok(exporter) => exporter,
        Err(what) => return tracing::error!("log records are not sent: {what}"),
    };
    exporter.set_resource(resource);
    let records = Records::new(sending.version);
    let mut voice = Voice::new(sending, way);
    // The last event that was taken.
    let mut sent = 0;
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            () = tokio::time::sleep(voice.pause()) => {}
        }
        let limit = way.target.timeout + SLACK;
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            () = send_logs(sending, &exporter, &records, limit, &mut sent, &mut voice) => {}
        }
    }
    send_logs(sending, &exporter, &records, LAST, &mut sent, &mut voice).await;
}

/// Sends what has happened since. The list of events is bounded: what a collector misses while it is away
/// for long falls out of it.
async fn send_logs(
    sending: &Sending,
    exporter: &LogExporter,
    records: &Records,
    limit: Duration,
    sent: &mut u64,
    voice: &mut Voice<'_>,
) {
    let Ok(frame) = sending.engine.frame() else { return };
    let fresh: Vec<Event> = frame.events.iter().filter(|e| e.number > *sent).cloned().collect();
    let Some(last) = fresh.last().map(|event| event.number) else { return };
    let all = records.of(&fresh);
    let batch: Vec<_> = all.iter().map(|record| (record, &records.scope)).collect();
    let result = within(limit, exporter.export(LogBatch::new(&batch))).await;
    if result.is_ok() {
        *sent = last;
    }
    voice.heard(result);
}

async fn within(
    limit: Duration,
    export: impl Future<Output = OTelSdkResult>,
) -> Result<(), String> {
    match tokio::time::timeout(limit, export).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(OTelSdkError::InternalFailure(what))) => Err(what),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs_f64())),
    }
}

/// Counts exports, and says when a collector stops and begins again to take them.
struct Voice<'a> {
    engine: &'a Engine,
    way: &'a Way,
    /// Exports that failed since one was taken.
    failures: u32,
    /// Whether some of the last export was rejected.
    rejected: bool,
}

impl<'a> Voice<'a> {
    fn new(sending: &'a Sending, way: &'a Way) -> Self {
        Self { engine: &sending.engine, way, failures: 0, rejected: false }
    }

    fn heard(&mut self, result: Result<(), String>) {
        let (signal, url) = (self.way.target.signal, &self.way.target.url);
        let (told, failure) = (signal.as_str(), self.way.note.failure());
        let Err(what) = result else {
            self.engine.exports().count(signal, ExportResult::Delivered);
            if std::mem::take(&mut self.failures) > 0 {
                tracing::info!("{url} takes {told} again");
            }
            let rejected = self.way.note.rejected();
            if let (Some(what), false) = (&rejected, self.rejected) {
                tracing::warn!("{url} takes only some of the {told}: {what}");
            }
            self.rejected = rejected.is_some();
            return;
        };
        self.engine.exports().count(signal, ExportResult::Failed);
        if self.failures == 0 {
            let what = failure.unwrap_or(what);
            tracing::warn!("{url} does not take {told}, and goes on being tried: {what}");
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// How long to wait before log records: one second, and after failures two, four, up to a minute.
    fn pause(&self) -> Duration {
        let steps = 2_u32.saturating_pow(self.failures.min(6));
        let jitter = Duration::from_nanos((System.now().wall.subsec_nanos() / 2).into());
        let jitter = if self.failures == 0 { Duration::ZERO } else { jitter };
        (LOOK * steps).min(SLOWEST) + jitter
    }
}
