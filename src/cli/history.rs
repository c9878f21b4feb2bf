//! Samples from a Prometheus that scraped this exporter.

use crate::catalog::history::{GPU, Kept, ROWS};
use crate::client::range::{self, Line, RangeError, Span};
use crate::config::table::label_name;
use crate::model::samples::{SampleOrigin, SamplePart, SampleRemark, SampleSeries};
use crate::sources::samples::history;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the label of a series' name is called.
const NAME: &str = "__name__";
/// No value is older than the step, so that a gap stays one (a Prometheus would repeat the last value for five
/// minutes), but for steps shorter than this: scrapes are never as regular as that.
const SHORTEST: Duration = Duration::from_secs(5);
/// So many machines are listed where one must be chosen.
const LISTED: usize = 6;

/// Which samples are wanted.
#[derive(Clone, Debug)]
pub struct History<'a> {
    /// The Prometheus, with what its paths begin with.
    pub base: &'a str,
    /// Labels and their values that tell the machine from others.
    pub labels: &'a [(String, String)],
    /// Which GPU, by the driver's index. Without it the first one.
    pub gpu: Option<u32>,
    /// When.
    pub span: Span,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A name that no label can have.
    #[error("{0:?} is no name of a label: expected letters, digits and _")]
    Label(String),
    /// The Prometheus does not give them.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// Nothing there.
    #[error(
        "{base} has neither temperatures nor power of these labels in this time: asked for {asked}"
    )]
    Nothing {
        /// The Prometheus.
        base: String,
        /// What was asked last.
        asked: String,
    },
    /// More than one machine.
    #[error("{base} has several machines of these labels; name one of them: {machines}")]
    Several {
        /// The Prometheus.
        base: String,
        /// The labels in which they differ.
        machines: String,
    },
}

/// A series, what it is of a sample, and of which GPU.
struct Part {
    kind: SamplePart,
    gpu: Option<String>,
    values: Vec<(Duration, f64)>,
}

/// Asks for all that a sample can hold. What the Prometheus does not have is absent, but there must be
/// temperatures or power.
///
/// # Errors
/// No Prometheus, nothing there, or more machines than one.
pub fn fetch(wanted: &History<'_>) -> Result<SampleSeries, HistoryError> {
    let mut parts = Vec::new();
    let mut machines = BTreeSet::new();
    let mut asked = String::new();
    // Some versions count the value at the beginning of a window, too.
    let holds = wanted.span.step.max(SHORTEST).as_millis() - 1;
    for kept in ROWS {
        let selected = selector(kept, wanted)?;
        // The others say nothing more.
        let only = if kept.one_holds { " == 1" } else { "" };
        let expression = format!("last_over_time({selected}[{holds}ms]){only}");
        let lines = range::query(wanted.base, &expression, &wanted.span)?;
        for line in lines {
            machines.insert(machine(&line.labels, kept));
            parts.extend(part(kept, line));
        }
        if parts.is_empty() {
            asked = selected + only;
        }
    }
    let told = |part: &Part| matches!(part.kind, SamplePart::Temperature | SamplePart::Power);
    if !parts.iter().any(told) {
        return Err(HistoryError::Nothing { base: wanted.base.to_owned(), asked });
    }
    if machines.len() > 1 {
        let machines = differing(&machines);
        return Err(HistoryError::Several { base: wanted.base.to_owned(), machines });
    }
    Ok(series(parts))
}

/// The series of one GPU and of the box, as samples.
fn series(parts: Vec<Part>) -> SampleSeries {
    let of = |part: &Part| part.gpu.as_deref().map(|gpu| gpu.parse().unwrap_or(u32::MAX));
    let gpus: BTreeSet<u32> = parts.iter().filter_map(of).collect();
    let taken = gpus.first().copied();
    let mine = parts.into_iter().filter(|part| of(part).is_none() || of(part) == taken);
    let points = history::merge(mine.map(|part| (part.kind, part.values)).collect());
    let mut remarks = Vec::new();
    if let (Some(taken), 2..) = (taken, gpus.len()) {
        remarks.push(SampleRemark::SeveralGpus { count: gpus.len(), taken: taken.to_string() });
    }
    SampleSeries { points, origin: SampleOrigin::Prometheus, remarks }
}

/// A series as a part of samples, unless this version does not know what it is.
fn part(kept: &Kept, line: Line) -> Option<Part> {
    let label = |name: &str| line.labels.get(name).cloned();
    let detail = kept.detail.and_then(label).unwrap_or_default();
    Some(Part { kind: (kept.part)(&detail)?, gpu: label(GPU), values: line.values })
}

/// The labels that a scrape has put to a series, which are those of its machine.
fn machine(labels: &BTreeMap<String, String>, kept: &Kept) -> BTreeMap<String, String> {
    let own = [Some(NAME), Some(GPU), kept.only.map(|(label, _)| label), kept.detail];
    let foreign = |(name, _): &(&String, &String)| !own.contains(&Some(name.as_str()));
    labels.iter().filter(foreign).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The labels in which machines differ, one machine after the other.
fn differing(machines: &BTreeSet<BTreeMap<String, String>>) -> String {
    let differs = |name: &str| {
        let mut values = machines.iter().map(|machine| machine.get(name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let shown = machines.iter().take(LISTED).map(|machine| {
        let labels = machine.iter().filter(|(name, _)| differs(name));
        labels.map(|(name, value)| format!("{name}={value:?}")).collect::<Vec<_>>().join(",")
    });
    let more = if machines.len() > LISTED { ", ..." } else { "" };
    shown.collect::<Vec<_>>().join(", ") + more
}

/// What is asked for.
fn selector(kept: &Kept, wanted: &History<'_>) -> Result<String, HistoryError> {
    let mut matchers = Vec::new();
    for (name, value) in wanted.labels {
        label_name(name).map_err(|_| HistoryError::Label(name.clone()))?;
        matchers.push(format!("{name}=\"{}\"", escaped(value)));
    }
    // Our own words need no escapes.
    matchers.extend(kept.only.map(|(name, values)| format!("{name}=~\"{}\"", values.join("|"))));
    matchers.extend(wanted.gpu.filter(|_| kept.of_gpu).map(|gpu| format!("{GPU}=\"{gpu}\"")));
    let matchers = matchers.join(",");
    Ok(format!("{}{{{matchers}}}", kept.metric))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
