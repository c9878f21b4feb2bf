//! Events as log records.

use crate::clock::system_time;
use crate::model::event::{Event, EventKind, Severity};
use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider};
use opentelemetry::{InstrumentationScope, logs};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogProcessor, SdkLogRecord, SdkLogger, SdkLoggerProvider};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// The library makes a record only on its way to a processor: this one keeps it.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SdkLogRecord>>>);

impl Kept {
    fn take(&self) -> Vec<SdkLogRecord> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LogProcessor for Kept {
    fn emit(&self, record: &mut SdkLogRecord, _: &InstrumentationScope) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record.clone());
    }
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Names of events: those of the list, below the namespace of the exporter.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| EventKind::ALL.iter().map(|kind| format!("gb10.{}", kind.as_str())).collect());

/// Makes records.
pub(super) struct Records {
    kept: Kept,
    logger: SdkLogger,
    pub(super) scope: InstrumentationScope,
    /// Lives as long as its logger.
    _provider: SdkLoggerProvider,
}

impl Records {
    pub(super) fn new(version: &'static str) -> Self {
        let kept = Kept::default();
        let provider = SdkLoggerProvider::builder().with_log_processor(kept.clone()).build();
        let scope = super::instruments::scope(version);
        let logger = provider.logger_with_scope(scope.clone());
        Self { kept, logger, scope, _provider: provider }
    }

    /// One record an event, in their order.
    pub(super) fn of(&self, events: &[Event]) -> Vec<SdkLogRecord> {
        for event in events {
            let mut record = self.logger.create_log_record();
            record.set_event_name(&NAMES[event.kind as usize]);
            record.set_timestamp(system_time(event.at));
            let (number, text) = match event.severity {
                Severity::Info => (logs::Severity::Info, "INFO"),
                Severity::Warning => (logs::Severity::Warn, "WARN"),
                Severity::Error => (logs::Severity::Error, "ERROR"),
            };
            record.set_severity_number(number);
            record.set_severity_text(text);
            record.set_body(AnyValue::String(event.evidence.clone().into()));
            record.add_attribute("gb10.subject", event.subject);
            // Counts from 1 with each start of the exporter: a gap is an event that was not sent.
            record.add_attribute(
                "gb10.event.number",
                i64::try_from(event.number).unwrap_or(i64::MAX),
            );
            self.logger.emit(record);
        }
        self.kept.take()
    }
}
