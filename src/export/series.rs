//! Many frames as series: for rule tests (promtool), for backfilling (OpenMetrics), for spreadsheets
//! (CSV). All of them iterate the catalog or the field table.

use crate::catalog::{self, Kind, Metric, Sample};
use crate::model::fields;
use crate::model::frame::Frame;
use crate::model::reading::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Samples of every series at the times of the scrapes.
#[derive(Default)]
pub struct Series {
    /// The metrics that are kept; all, where it is nothing.
    only: Option<BTreeSet<String>>,
    times: Vec<Duration>,
    /// By position in the catalog and labels: the value at each time.
    values: BTreeMap<(usize, String), Vec<Option<f64>>>,
}

/// A sample's labels as they stand between braces, with `more` before them.
fn labels(metric: &Metric, sample: &Sample, more: &[(&str, &str)]) -> String {
    let own = metric.labels.iter().copied().zip(sample.labels.iter().map(AsRef::as_ref));
    let all: Vec<String> = more
        .iter()
        .copied()
        .chain(own)
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Series {
    /// Of these metrics only: a rule test takes long for what no rule reads.
    #[must_use]
    pub fn only(metrics: BTreeSet<String>) -> Self {
        Self { only: Some(metrics), ..Self::default() }
    }

    /// How many scrapes and series there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.times.len() * self.values.len()
    }

    /// Adds a scrape of a machine that does not answer.
    pub fn silence(&mut self, at: Duration) {
        self.times.push(at);
        for values in self.values.values_mut() {
            values.resize(self.times.len(), None);
        }
    }

    /// Adds a scrape.
    pub fn scrape(&mut self, frame: &Frame, more: &[(&str, &str)]) {
        let at = self.times.len();
        self.times.push(frame.snapshot.at.wall);
        let only = self.only.take();
        let wanted = |metric: &Metric| only.as_ref().is_none_or(|only| only.contains(metric.name));
        for (position, metric) in catalog::all().enumerate().filter(|(_, metric)| wanted(metric)) {
            for sample in catalog::samples(metric, frame) {
                let key = (position, labels(metric, &sample, more));
                let values = self.values.entry(key).or_default();
                values.resize(at, None);
                values.push(Some(sample.value));
            }
        }
        self.only = only;
        for values in self.values.values_mut() {
            values.resize(at + 1, None);
        }
    }

    /// As `input_series` of a rule test. A series that is not there at a scrape is `_`, and `stale`
    /// where it has just gone, as Prometheus would have it. The time of a rule test begins at zero, and so
    /// do points in time here.
    #[must_use]
    pub fn promtool(
        &self,
        interval: Duration,
        more: &[(&str, &str)],
        up: &[Option<f64>],
    ) -> String {
        let mut out = format!("interval: {}s\ninput_series:\n", interval.as_secs_f64());
        let of_up: Vec<String> =
            more.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let _ = writeln!(
            out,
            "  - series: 'up{{{}}}'\n    values: '{}'",
            of_up.join(","),
            notation(up)
        );
        let metrics: Vec<&Metric> = catalog::all().collect();
        let began = self.times.first().map_or(0.0, Duration::as_secs_f64);
        for ((position, labels), values) in &self.values {
            let metric = metrics[*position];
            let series = format!("{}{labels}", metric.name);
            let _ = writeln!(out, "  - series: '{}'", series.replace('\'', "''"));
            let _ = if metric.is_point_in_time() {
                let values: Vec<_> =
                    values.iter().map(|value| value.map(|at| at - began)).collect();
                writeln!(out, "    values: '{}'", notation(&values))
            } else {
                writeln!(out, "    values: '{}'", notation(values))
            };
        }
        out
    }

    /// As OpenMetrics text with timestamps.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let mut out = String::new();
        for (position, metric) in catalog::all().enumerate() {
            let from = (position, String::new());
            let until = (position + 1, String::new());
            let mut series = self.values.range(from..until).peekable();
            if series.peek().is_none() {
                continue;
            }
            let (kind, family) = match metric.kind {
                Kind::Counter => {
                    ("counter", metric.name.strip_suffix("_total").unwrap_or(metric.name))
                }
                Kind::Info => ("info", metric.name.strip_suffix("_info").unwrap_or(metric.name)),
                Kind::Gauge | Kind::StateSet => ("gauge", metric.name),
            };
            let _ =
                writeln!(out, "# TYPE {family} {kind}\n# HELP {family} {}", escaped(metric.help));
            for ((_, labels), values) in series {
                for (time, value) in self.times.iter().zip(values) {
                    if let Some(value) = value {
                        let at = time.as_secs_f64();
                        let _ = writeln!(out, "{}{labels} {value} {at:.3}", metric.name);
                    }
                }
            }
        }
        out.push_str("# EOF\n");
        out
    }
}

/// Values in promtool's notation: what repeats is written once.
fn notation(values: &[Option<f64>]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < values.len() {
        let run = values[at..].iter().take_while(|value| **value == values[at]).count();
        let gone = at > 0 && values[at].is_none() && values[at - 1].is_some();
        let more = match values[at] {
            Some(value) if run > 1 => format!("{value}x{}", run - 1),
            Some(value) => value.to_string(),
            None if gone => {
                out.push("stale".to_owned());
                if run == 1 { String::new() } else { format!("_x{}", run - 1) }
            }
            None => format!("_x{run}"),
        };
        if !more.is_empty() {
            out.push(more);
        }
        at += run;
    }
    out.join(" ")
}

/// Readings as a table: the header.
#[must_use]
pub fn csv_header(columns: &[String]) -> String {
    let mut out = String::from("time");
    for column in columns {
        let _ = write!(out, ",{}", quoted(column));
    }
    out.push('\n');
    out
}

/// The readings that a frame has, by name.
#[must_use]
pub fn columns(frame: &Frame) -> Vec<String> {
    let mut all = Vec::new();
    for field in fields::all() {
        (field.visit)(&frame.snapshot, &mut |key, _| all.push(named(field.id, key)));
    }
    all
}

/// A reading's name, with that of its member.
pub(super) fn named(id: &str, key: &str) -> String {
    if key.is_empty() { id.to_owned() } else { format!("{id}[{key}]") }
}

/// A cell that cannot be mistaken for two.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// One row: the frame's readings in base units; what is missing is empty, and everything while the machine is down.
#[must_use]
pub fn csv_row(time: Duration, frame: Option<&Frame>, columns: &[String]) -> String {
    let mut values = BTreeMap::new();
    for (field, frame) in fields::all().filter_map(|field| frame.map(|frame| (field, frame))) {
        (field.visit)(&frame.snapshot, &mut |key, reading| {
            let text = match reading {
                Ok(Value::Uint(n)) => n.to_string(),
                Ok(Value::Float(x)) => x.to_string(),
                Ok(Value::Text(text)) => quoted(text),
                Err(_) => String::new(),
            };
            values.insert(named(field.id, key), text);
        });
    }
    let mut out = time.as_secs_f64().to_string();
    for column in columns {
        let _ = write!(out, ",{}", values.get(column).map_or("", String::as_str));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_the_notation_of_rule_tests() {
        let values = [Some(1.0), Some(1.0), Some(1.0), None, None, Some(2.5), None];
        assert_eq!(notation(&values), "1x2 stale _x1 2.5 stale");
        assert_eq!(notation(&[None, None, Some(3.0)]), "_x2 3");
    }
}
