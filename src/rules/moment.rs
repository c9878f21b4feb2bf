//! Critical alerts as the exporter itself sees them: from one frame to the next, by the conditions of the
//! table. Collapses end in less time than a scrape, an evaluation and a grouping take.

use super::expr::Context;
use super::{Alert, Condition, Group, Is, Options, Severity, When, all};
use crate::catalog::{Kind, PREFIX, Sample, samples, verdicts};
use crate::model::frame::Frame;
use crate::units::Unit;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Counts that are remembered of a series; a burst of more is a burst all the same.
const MAX_COUNTS: usize = 64;

/// An alert that holds, with the labels that its rule would have.
#[derive(Clone)]
pub struct Holding {
    /// Which.
    pub alert: &'static Alert,
    /// The labels of its series.
    pub labels: Vec<(&'static str, String)>,
    /// The figure of its series; none while it cannot be read.
    figure: Option<f64>,
}

type Key = (usize, Vec<String>);

/// What is remembered from frame to frame.
#[derive(Default)]
pub struct Watch {
    /// When it began to hold, and when it held last.
    held: BTreeMap<Key, Held>,
    /// Counts that rose, and when.
    counts: BTreeMap<Key, VecDeque<(Duration, f64)>>,
    /// Whether there was a frame before.
    looked: bool,
}

struct Held {
    alert: &'static Alert,
    from: Duration,
    last: Duration,
}

impl Held {
    /// Whether it has held for as long as it must before anybody is told.
    fn is_told(&self) -> bool {
        self.last.saturating_sub(self.from) >= seconds(self.alert.wait)
    }
}

impl Condition {
    fn meant(&self, sample: &Sample) -> bool {
        let values = self.metric.labels.iter().zip(&sample.labels);
        self.with.iter().all(|(name, wanted)| {
            values.clone().any(|(label, value)| label == name && wanted.contains(&value.as_ref()))
        })
    }

    fn of_gpu<'a>(&self, sample: &'a Sample) -> Option<&'a str> {
        let at = self.metric.labels.iter().position(|label| *label == "gpu")?;
        Some(sample.labels[at].as_ref())
    }
}

impl Holding {
    /// One of which no figure is known.
    #[must_use]
    pub const fn new(alert: &'static Alert, labels: Vec<(&'static str, String)>) -> Self {
        Self { alert, labels, figure: None }
    }

    fn of(alert: &'static Alert, values: &[String], frame: &Frame) -> Option<Self> {
        let first = condition(alert)?;
        let names = first.metric.labels.iter().copied();
        let labels = names.zip(values.iter().cloned()).collect();
        let figure = sample(first, values, frame).map(|sample| sample.value);
        Some(Self { figure, ..Self::new(alert, labels) })
    }

    /// What is so: the series, the verdicts about this part of the box and what they rest on, and what to do first.
    #[must_use]
    pub fn evidence(&self, frame: &Frame) -> String {
        let told = self.labels.iter().filter(|(_, value)| !value.is_empty());
        let mut parts: Vec<String> = told.map(|(name, value)| format!("{name} {value}")).collect();
        let metric = condition(self.alert).map(|condition| condition.metric);
        if let (Some(metric), Some(figure)) = (metric.filter(|m| m.unit != Unit::None), self.figure)
        {
            let what = metric.name.trim_start_matches(PREFIX).replace('_', " ");
            parts.push(format!("{what} {figure}"));
        }
        parts.extend(verdicts_about(frame, self.alert.group));
        // The rule's own words; what stands before them is filled in by Prometheus.
        let options = Options::default();
        let text = (self.alert.says)(&Context { options: &options });
        let first = text.split_once("First: ").map(|(_, first)| first);
        match first.filter(|first| !first.contains("{{")) {
            Some(first) => format!("{}. First: {first}", parts.join("; ")),
            None => parts.join("; "),
        }
    }
}

impl Watch {
    /// The critical alerts that hold in this frame, with their patience.
    pub fn step(&mut self, frame: &Frame) -> Vec<Holding> {
        let now = frame.snapshot.at.mono;
        let wanted =
            |alert: &&Alert| alert.severity == Severity::Critical && !alert.group.optional();
        for (number, alert) in all().enumerate().filter(|(_, alert)| wanted(alert)) {
            for labels in self.series(number, alert, frame) {
                let fresh = Held { alert, from: now, last: now };
                self.held.entry((number, labels)).or_insert(fresh).last = now;
            }
        }
        self.looked = true;
        self.held.retain(|(_, labels), held| {
            // What cannot be read now is not over; it goes on as the rule does.
            let alert = held.alert;
            let keep = if readable(alert, labels, frame) { alert.keep } else { alert.outlives };
            now.saturating_sub(held.last) <= seconds(if held.is_told() { keep } else { 0 })
        });
        let told = self.held.iter().filter(|(_, held)| held.is_told());
        told.filter_map(|((_, labels), held)| Holding::of(held.alert, labels, frame)).collect()
    }

    /// The label values of the series for which the alert's condition holds.
    fn series(&mut self, number: usize, alert: &'static Alert, frame: &Frame) -> Vec<Vec<String>> {
        let Some(first) = condition(alert) else { return Vec::new() };
        let mut found: Vec<Sample> = samples(first.metric, frame);
        found.retain(|sample| first.meant(sample));
        found.retain(|sample| self.holds(number, first, sample, frame));
        if let When::Both(_, second) = &alert.when {
            let others: Vec<Sample> = samples(second.metric, frame)
                .into_iter()
                .filter(|s| second.meant(s) && self.holds(number, second, s, frame))
                .collect();
            found.retain(|sample| {
                others.iter().any(|other| second.of_gpu(other) == first.of_gpu(sample))
            });
        }
        let texts = |sample: Sample| sample.labels.into_iter().map(Into::into).collect();
        found.into_iter().map(texts).collect()
    }

    fn holds(&mut self, number: usize, is: &Condition, sample: &Sample, frame: &Frame) -> bool {
        match &is.is {
            Is::AtLeast(least) => sample.value >= least(&frame.thresholds),
            Is::Below(limit) => sample.value < limit(&frame.thresholds),
            Is::Grew { by, within } => {
                let now = frame.snapshot.at.mono;
                let labels = sample.labels.iter().map(ToString::to_string).collect();
                let first_look = !self.looked;
                let known = self.counts.entry((number, labels)).or_insert_with(|| {
                    // What was counted before the exporter looked is no news; a series that begins is.
                    let before = if first_look { sample.value } else { 0.0 };
                    VecDeque::from([(now, before)])
                });
                if known.back().is_none_or(|(_, last)| last.to_bits() != sample.value.to_bits()) {
                    known.push_back((now, sample.value));
                }
                let old = |(at, _): &(Duration, f64)| now.saturating_sub(*at) > seconds(*within);
                // The newest of the old ones is what the window begins with.
                while known.len() > MAX_COUNTS || known.get(1).is_some_and(old) {
                    known.pop_front();
                }
                let began = known.front().map_or(sample.value, |(_, count)| *count);
                sample.value - began >= by(&frame.thresholds)
            }
        }
    }
}

fn condition(alert: &'static Alert) -> Option<&'static Condition> {
    match &alert.when {
        When::Series(condition) | When::Both(condition, _) => Some(condition),
        When::Expression(_) => None,
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

/// The sample of a condition's metric that has these label values.
fn sample(condition: &Condition, values: &[String], frame: &Frame) -> Option<Sample> {
    let mut all = samples(condition.metric, frame).into_iter();
    all.find(|sample| sample.labels.iter().map(AsRef::as_ref).eq(values.iter().map(String::as_str)))
}

/// Whether the frame says anything of what an alert rests on.
fn readable(alert: &'static Alert, values: &[String], frame: &Frame) -> bool {
    let Some(first) = condition(alert) else { return true };
    let second = match &alert.when {
        When::Both(_, second) => samples(second.metric, frame).iter().any(|s| second.meant(s)),
        _ => true,
    };
    // A set of states that says "unknown" says nothing.
    let unknown = first.metric.kind == Kind::StateSet
        && samples(first.metric, frame).iter().any(|s| {
            s.value > 0.0
                && s.labels.last().is_some_and(|l| l == "unknown")
                && s.labels.first().map(AsRef::as_ref) == values.first().map(String::as_str)
        });
    second && !unknown && sample(first, values, frame).is_some()
}

/// The verdicts about a part of the box, and what they rest on.
fn verdicts_about(frame: &Frame, group: Group) -> Vec<String> {
    let about: &[&str] = match group {
        Group::Pool => &["pool.exhaustion", "pool.holder", "jobs.contention"],
        Group::Heat => &["gpu.throttle"],
        Group::Kernel => &["kernel.no_memory", "pool.exhaustion", "pool.holder"],
        _ => &[],
    };
    let told = verdicts::of(frame).into_iter().filter_map(|(name, state, evidence)| {
        let bare = name.split('[').next().unwrap_or_default();
        about.contains(&bare).then(|| match evidence.as_str() {
            "" => format!("{name} {state}"),
            evidence => format!("{name} {state}: {evidence}"),
        })
    });
    told.collect()
}
