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
use crate::model::moment::Moment;
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
    let instruments = Instruments::new(resource.clone(), sending.otlp.temporality, sending.version);
    let mut pusher =
        Metrics { sending, way, instruments, exporter: None, voice: Voice::new(sending, way) };
    let mut turns = tokio::time::interval(sending.otlp.interval);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Each turn is over before the next one.
    let limit = (way.target.timeout + SLACK).min(sending.otlp.interval);
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            _ = turns.tick() => {}
        }
        if let Some(rest) = until_stop(pusher.send(limit), &mut stop).await {
            return pusher.send(rest).await;
        }
    }
    pusher.send(LAST).await;
}

/// Lets an export come to its end, also when it is stopped meanwhile, and tells what is left then of the
/// time for the last one.
async fn until_stop(
    export: impl Future<Output = ()>,
    stop: &mut watch::Receiver<bool>,
) -> Option<Duration> {
    tokio::pin!(export);
    tokio::select! {
        biased;
        () = &mut export => return None,
        () = stopped(stop) => {}
    }
    let began = System.now();
    let _ = tokio::time::timeout(LAST, &mut export).await;
    Some(LAST.saturating_sub(System.now().since(began)))
}

/// Whoever sends metrics.
struct Metrics<'a> {
    sending: &'a Sending,
    way: &'a Way,
    instruments: Instruments,
    /// With its connection; none after a failure. A connection that has gone silent looks alive, and by gRPC
    /// the next export would go the same way.
    exporter: Option<MetricExporter>,
    voice: Voice<'a>,
}

impl Metrics<'_> {
    async fn send(&mut self, limit: Duration) {
        // Without a frame nothing is known that could be told, and an old one is not told again.
        let Ok(frame) = self.sending.engine.frame() else { return };
        let exporter = match self.exporter.take() {
            Some(exporter) => Ok(exporter),
            None => self.way.metrics(),
        };
        let result = match (exporter, self.instruments.collect(frame)) {
            (Ok(exporter), Ok(data)) => {
                let result = within(limit, exporter.export(&data)).await;
                self.exporter = result.is_ok().then_some(exporter);
                result
            }
            (Err(what), _) | (_, Err(what)) => Err(what),
        };
        self.voice.heard(result);
    }
}

async fn logs(
    sending: &Sending,
    way: Option<&Way>,
    resource: &Resource,
    mut stop: watch::Receiver<bool>,
) {
    let Some(way) = way else { return };
    let records = Records::new(sending.version);
    let voice = Voice::new(sending, way);
    let mut pusher = Logs { sending, way, resource, records, exporter: None, taken: None, voice };
    let limit = way.target.timeout + SLACK;
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            () = tokio::time::sleep(pusher.voice.pause()) => {}
        }
        if let Some(rest) = until_stop(pusher.send(limit), &mut stop).await {
            return pusher.send(rest).await;
        }
    }
    pusher.send(LAST).await;
}

/// Whoever sends log records.
struct Logs<'a> {
    sending: &'a Sending,
    way: &'a Way,
    resource: &'a Resource,
    records: Records,
    exporter: Option<LogExporter>,
    /// The start of the exporter, from which events are numbered, and the last event that was taken.
    taken: Option<(Moment, u64)>,
    voice: Voice<'a>,
}

impl Logs<'_> {
    /// Sends what has happened since. The list of events is bounded: what a collector misses while it is away
    /// for long falls out of it.
    async fn send(&mut self, limit: Duration) {
        let Ok(frame) = self.sending.engine.frame() else { return };
        // In a replay the box may reboot, and its exporter begins anew.
        let started = frame.exporter.started;
        let taken = self.taken.filter(|(since, _)| *since == started).map_or(0, |(_, last)| last);
        let fresh: Vec<Event> =
            frame.events.iter().filter(|event| event.number > taken).cloned().collect();
        let Some(last) = fresh.last().map(|event| event.number) else { return };
        let exporter = match self.exporter.take() {
            Some(exporter) => Ok(exporter),
            None => self.way.logs().map(|mut exporter| {
                exporter.set_resource(self.resource);
                exporter
            }),
        };
        let result = match exporter {
            Ok(exporter) => {
                let all = self.records.of(&fresh);
                let batch: Vec<_> =
                    all.iter().map(|record| (record, &self.records.scope)).collect();
                let result = within(limit, exporter.export(LogBatch::new(&batch))).await;
                self.exporter = result.is_ok().then_some(exporter);
                result
            }
            Err(what) => Err(what),
        };
        // What is refused for good would be refused again, and keep what follows from being told.
        let refused = self.way.note.refused() || result.as_ref().is_err_and(|what| is_final(what));
        if result.is_ok() || refused {
            self.taken = Some((started, last));
        }
        self.voice.heard(result);
    }
}

/// Codes of gRPC with which OpenTelemetry's specification forbids to try again.
const FINAL: [&str; 8] = [
    "InvalidArgument",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "Unauthenticated",
    "FailedPrecondition",
    "Unimplemented",
    "Internal",
];
/// What the library says before a code.
const CODE: &str = "gRPC code: ";

fn is_final(what: &str) -> bool {
    what.split_once(CODE).is_some_and(|(_, code)| FINAL.iter().any(|last| code.starts_with(last)))
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

/// What the library says of a call that failed, without its own name and without saying it twice.
fn plain(what: &str, limit: Duration) -> String {
    let Some((_, code)) = what.split_once(CODE) else { return what.to_owned() };
    if code.contains("Timeout expired") || code.starts_with("DeadlineExceeded") {
        return format!("no answer within {} s", limit.as_secs_f64());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in code.split(": ") {
        if parts.last() != Some(&part) {
            parts.push(part);
        }
    }
    parts.join(": ")
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
        let (signal, url) = (self.way.target.signal, self.way.target.shown());
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
            let what = failure.unwrap_or_else(|| plain(&what, self.way.target.timeout));
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
