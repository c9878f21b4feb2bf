//! A recording that goes on: the changes of a live machine, as the timeline of a scenario.

use super::Beginning;
use super::consistent::TOGETHER;
use crate::capture::{Capture, Kind, SECTION, kernel};
use crate::model::fields::{self, Field};
use crate::model::reading::{Missing, Reading, Value};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::workload::IS;
use crate::units::Unit;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Writes down what has changed.
pub struct Diary {
    /// What was written last, by name.
    known: BTreeMap<String, String>,
    timeline: String,
    kernel: kernel::Diary,
}

/// A reading as the timeline says it; none for one that it cannot say, or need not.
///
/// Text is left out but for the free blocks and what processes are: names and versions do not change while a machine is
/// watched, and what a name may give away is masked in the capture.
fn said(field: &Field, reading: Reading<Value<'_>>) -> Option<String> {
    // The exporter itself is no part of the machine; how many processes there are follows from them.
    if field.source == Source::Process || field.id == "gpu.processes" {
        return None;
    }
    let unit = match field.unit {
        Unit::Bytes => " B",
        Unit::Celsius => " C",
        Unit::Watts => " W",
        Unit::Joules => " J",
        Unit::Seconds => " s",
        Unit::Hertz => " Hz",
        Unit::Ratio | Unit::Count | Unit::None | Unit::BytesPerSecond => "",
    };
    match reading {
        Ok(Value::Uint(n)) => Some(format!("= {n}{unit}")),
        Ok(Value::Float(x)) => Some(format!("= {x}{unit}")),
        Ok(Value::Text(text)) if field.source == Source::Buddyinfo => Some(format!("= {text}")),
        Ok(Value::Text(text)) if field.id == IS => Some(format!("= {text}")),
        Ok(Value::Text(_)) => None,
        Err(reason) => Some(format!("missing {}", reason.as_str())),
    }
}

fn each(snapshot: &Snapshot, mut out: impl FnMut(&Field, String, String)) {
    for field in fields::all() {
        (field.visit)(snapshot, &mut |key, reading| {
            let name =
                if key.is_empty() { field.id.to_owned() } else { format!("{}[{key}]", field.id) };
            if let Some(text) = said(field, reading) {
                out(field, name, text);
            }
        });
    }
}

/// What there is of a process that can end. Its other readings end with it.
const ENDS: [&str; 2] = ["gpu.process_memory[", "processes.is["];

impl Diary {
    /// Begins with the machine as the capture has it.
    #[must_use]
    pub fn new(beginning: &Beginning) -> Self {
        let mut known = BTreeMap::new();
        // What belongs together is said once, changed or not: a figure that is never said would follow
        // the others when this is replayed.
        let first = |field: &Field| TOGETHER.contains(&field.id);
        each(&beginning.snapshot, |field, name, text| {
            if !first(field) {
                known.insert(name, text);
            }
        });
        let log = beginning.snapshot.kernel_log.as_deref().ok();
        Self { known, timeline: String::new(), kernel: kernel::Diary::after(log) }
    }

    /// Adds what has changed until `time`.
    pub fn note(&mut self, time: Duration, snapshot: &Snapshot) {
        let seconds = time.as_secs();
        let mut now = BTreeMap::new();
        let (known, timeline) = (&self.known, &mut self.timeline);
        each(snapshot, |_, name, text| {
            if known.get(&name) != Some(&text) {
                let _ = writeln!(timeline, "{seconds}s {name} {text}");
            }
            now.insert(name, text);
        });
        // Processes that have ended are the only things that go away by themselves.
        let gone = self.known.keys().filter(|name| {
            ENDS.iter().any(|what| name.starts_with(what)) && !now.contains_key(name.as_str())
        });
        for name in gone {
            let _ = writeln!(
                self.timeline,
                "{seconds}s {name} missing {}",
                Missing::NotPresent.as_str()
            );
        }
        self.known = now;
        if let Ok(messages) = &snapshot.kernel_log {
            for kernel::Fact { times, text, .. } in self.kernel.take(messages) {
                let _ = writeln!(self.timeline, "{seconds}s kernel x {times} {text}");
            }
        }
    }

    /// The scenario so far.
    #[must_use]
    pub fn scenario(&self, capture: &Capture, length: Duration, start: Duration) -> String {
        let head = format!(
            "{}\n# kind: {}\n# title: {}\n# source: {}\n# length: {}s\n# start: {}\n",
            super::parse::MAGIC,
            Kind::Raw.as_str(),
            capture.title,
            capture.source,
            length.as_secs(),
            start.as_secs(),
        );
        let notes: String = capture.notes.iter().map(|note| format!("# note: {note}\n")).collect();
        let text = capture.to_text();
        let sections = text.find(SECTION).map_or("", |at| &text[at..]);
        format!("{head}{notes}\n{sections}{SECTION}timeline\n{}", self.timeline)
    }
}
