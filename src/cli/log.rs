//! The log: one line an event on standard error, as logfmt or as JSON, with the same keys in both.

use crate::config::{Config, LogFormat};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, time};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Changes how much is logged while the exporter runs.
pub(super) struct Verbosity(Box<dyn Fn(LevelFilter) + Send + Sync>);

impl Verbosity {
    /// Logs as much as the more talkative of two levels.
    pub(super) fn set_louder(&self, a: &str, b: &str) {
        (self.0)(parsed(a).max(parsed(b)));
    }

    /// Logs this much from now on.
    pub(super) fn set(&self, level: &str) {
        (self.0)(parsed(level));
    }
}

/// A level that the configuration has checked.
fn parsed(level: &str) -> LevelFilter {
    level.parse().unwrap_or(LevelFilter::INFO)
}

/// Starts the log, at the level and in the format of the configuration.
pub(super) fn to_stderr(config: &Config) -> Verbosity {
    let (filter, handle) = reload::Layer::new(parsed(&config.log_level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        // A log that cannot be written must not take the exporter with it.
        .log_internal_errors(false)
        .event_format(Lines(config.log_format));
    tracing_subscriber::registry().with(filter).with(lines).init();
    let panics = Panics::default();
    std::panic::set_hook(Box::new(move |panic| panics.log(panic)));
    // It fails only when the subscriber is gone, and then there is nothing to log to.
    Verbosity(Box::new(move |level| drop(handle.reload(level))))
}

/// Panics go into the log like everything else. One is caught round each source and each tick and may
/// come back every second, so it is told the first, second, fourth, eighth ... time.
#[derive(Default)]
struct Panics(Mutex<BTreeMap<String, u64>>);

impl Panics {
    fn log(&self, panic: &PanicHookInfo<'_>) {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload().downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = text.or_else(|| panic.payload().downcast_ref::<String>().cloned());
        if let Some(times) = self.count(&at) {
            let what = what.unwrap_or_default();
            tracing::error!(at, times, "this is a bug, please report it: {what}");
        }
    }

    /// How often the program has panicked there, when that is to be told.
    fn count(&self, at: &str) -> Option<u64> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = seen.entry(at.to_owned()).or_default();
        *times += 1;
        times.is_power_of_two().then_some(*times)
    }
}

/// Writes events as lines.
struct Lines(LogFormat);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut at = String::new();
        time().format_time(&mut Writer::new(&mut at))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = level(*event.metadata().level());
        let line = match self.0 {
            LogFormat::Logfmt => logfmt(&at, level, &fields),
            LogFormat::Json => json(&at, level, &fields),
        };
        writeln!(writer, "{line}")
    }
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// The words of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }

    fn pairs<'a>(
        &'a self,
        at: &'a str,
        level: &'a str,
    ) -> impl Iterator<Item = (&'static str, &'a str)> {
        [("ts", at), ("level", level), ("msg", self.message.as_str())]
            .into_iter()
            .chain(self.others.iter().map(|(key, value)| (*key, value.as_str())))
    }
}

fn logfmt(at: &str, level: &str, fields: &Fields) -> String {
    let mut line = String::new();
    for (key, value) in fields.pairs(at, level) {
        let space = if line.is_empty() { "" } else { " " };
        let _ = write!(line, "{space}{key}=");
        if bare(value) {
            line.push_str(value);
        } else {
            // A quoted value has the escapes of JSON.
            let _ = write!(line, "{}", Value::from(value));
        }
    }
    line
}

/// Whether logfmt takes the value as it stands.
fn bare(value: &str) -> bool {
    let odd = |c: char| c <= ' ' || c.is_control() || matches!(c, '=' | '"' | '\\');
    !value.is_empty() && !value.contains(odd)
}

fn json(at: &str, level: &str, fields: &Fields) -> String {
    let object: Map<String, Value> =
        fields.pairs(at, level).map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(message: &str, more: &[(&'static str, &str)]) -> Fields {
        let others = more.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Fields { message: message.to_owned(), others }
    }

    #[test]
    fn logfmt_quotes_what_it_must() {
        for (value, written) in [
            ("up", "up"),
            ("http://x:1/metrics", "http://x:1/metrics"),
            ("two words", "\"two words\""),
            ("", "\"\""),
            ("a=b", "\"a=b\""),
            ("say \"so\"", "\"say \\\"so\\\"\""),
            ("C:\\x", "\"C:\\\\x\""),
            ("a\nlevel=error b\t\u{1b}", "\"a\\nlevel=error b\\t\\u001b\""),
            ("ok -> hung", "\"ok -> hung\""),
            ("Wärme", "Wärme"),
        ] {
            let line = logfmt("T", "info", &fields("m", &[("subject", value)]));
            assert_eq!(line, format!("ts=T level=info msg=m subject={written}"));
        }
    }

    #[test]
    fn a_panic_that_comes_back_every_second_is_told_ever_more_rarely() {
        let panics = Panics::default();
        let told: Vec<_> = (0..1000).filter_map(|_| panics.count("a.rs:1:2")).collect();
        assert_eq!(told, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(panics.count("b.rs:1:2"), Some(1), "another one is news");
    }

    #[test]
    fn json_has_the_same_keys() {
        let line = json("T", "warn", &fields("a \"b\"\n", &[("event", "x")]));
        let back: Value = serde_json::from_str(&line).unwrap();
        let want =
            serde_json::json!({"ts": "T", "level": "warn", "msg": "a \"b\"\n", "event": "x"});
        assert_eq!(back, want);
        assert!(!line.contains('\n'));
    }
}
