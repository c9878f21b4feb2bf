//! A machine over time, as text: a capture, and what changes when.
//!
//! The format is described for people in docs/SCENARIOS.md. Values are put into the snapshot through
//! the field table, so every reading can be set; what hangs together is kept so by fixed rules.

mod consistent;
mod csv;
mod kernel;
mod parse;
pub mod write;

pub use kernel::KernelLines;

pub use super::Kind;
use super::{Capture, CaptureError};
use crate::model::fields::Field;
use crate::model::gpu::GpuChoice;
use crate::model::moment::Moment;
use crate::model::reading::{Missing, Reading, Value};
use crate::model::snapshot::Snapshot;
use crate::model::source::{Lane, Source};
use crate::model::workload::{IS, Proc};
use crate::sources::gpu::{Limits, Pace};
use crate::sources::{self, ReadError};
use crate::units::{Seconds, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// A value of a reading that outlives the text that it came from.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Number(f64),
    Text(String),
}

impl Owned {
    /// In the form in which the field table takes it.
    fn value(&self, unit: Unit) -> Value<'_> {
        match self {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a float cast saturates; counts and bytes are not negative"
            )]
            Self::Number(x) if matches!(unit, Unit::Bytes | Unit::Count) => {
                Value::Uint(x.round().max(0.0) as u64)
            }
            Self::Number(x) => Value::Float(*x),
            Self::Text(text) => Value::Text(text),
        }
    }
}

/// A reading that is set: the row of the field table and the member.
#[derive(Clone)]
struct Place {
    field: &'static Field,
    key: String,
    /// Where the scenario says so.
    line: usize,
}

/// What a reading does from some time on.
#[derive(Clone, Debug, PartialEq)]
enum Course {
    /// It has one value, or none for a reason.
    Is(Reading<Owned>),
    /// It goes from one number to another, in a straight line. Without a first number it goes from
    /// wherever it was.
    Goes { from: Option<f64>, to: f64, until: Duration },
    /// It is sampled: each sample holds until the next.
    Samples(Vec<(Duration, Reading<f64>)>),
}

/// A reading's course from `at` on.
#[derive(Clone)]
struct Change {
    at: Duration,
    place: Place,
    course: Course,
    /// When the next change of the same reading takes over; a recording has thousands of changes, of which
    /// few count at a time.
    until: Duration,
}

/// A lane that does not come back for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hang {
    /// Which.
    pub lane: Lane,
    /// From when.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
}

/// The machine goes down and comes up again, as it was at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reboot {
    /// When it goes down.
    pub at: Duration,
    /// For how long.
    pub down: Duration,
    /// Whether everything was told to stop before.
    pub clean: bool,
}

/// What a verdict must be, or must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// When; none for "never".
    pub at: Option<Duration>,
    /// The verdict's name.
    pub verdict: String,
    /// The state.
    pub state: String,
    /// The line that says so.
    pub line: usize,
}

/// A machine over time.
pub struct Scenario {
    /// How far to trust it.
    pub kind: Kind,
    /// What it is, in a line.
    pub title: String,
    /// Where its deciding figures come from.
    pub source: String,
    /// What happened.
    pub story: Vec<String>,
    /// Remarks.
    pub notes: Vec<String>,
    /// How long it lasts.
    pub length: Duration,
    /// When the machine, or what it did, was lost, if that is on record.
    pub end: Option<Duration>,
    /// When it begins, since 1970.
    pub start: Duration,
    /// Lanes that hang.
    pub hangs: Vec<Hang>,
    /// Reboots, in order.
    pub reboots: Vec<Reboot>,
    /// What must be so.
    pub expectations: Vec<Expectation>,
    base: Capture,
    /// Lines of the kernel, in order.
    kernel: Vec<kernel::KernelLine>,
    changes: Vec<Change>,
}

impl Scenario {
    /// Loads a scenario, the capture that it begins with, and the tables that it names.
    ///
    /// # Errors
    /// Which file, which line, and what was expected there.
    pub fn load(path: &Path) -> Result<Self, CaptureError> {
        let text = super::read(path)?;
        let line_of = |line, what| CaptureError::Line { path: path.to_owned(), line, what };
        let draft = parse::draft(&text).map_err(|(line, what)| line_of(line, what))?;
        let beside = |name: &str| path.parent().unwrap_or(Path::new(".")).join(name);
        let base = match draft.own() {
            Some(own) => own.map_err(|(line, what)| line_of(line, what))?,
            None => Capture::load(&beside(&draft.base.1)).map_err(|error| {
                let what = format!("the capture that it begins with: {}", super::chain(&error));
                line_of(draft.base.0, what)
            })?,
        };
        let mut scenario = draft
            .finish(base, &|name| super::read(&beside(name)).map_err(|e| super::chain(&e)))
            .map_err(|(line, what)| line_of(line, what))?;
        scenario.settle().map_err(|(line, what)| line_of(line, what))?;
        Ok(scenario)
    }

    /// The machine as it is at the beginning.
    #[must_use]
    pub fn first(&self) -> Beginning {
        let mut beginning = Beginning::of(&self.base, self.start);
        if !self.kernel.is_empty() {
            beginning.results[Source::KernelLog.index()] = Ok(());
        }
        beginning
    }

    /// The machine at a time, from the one at the beginning.
    #[must_use]
    pub fn at(&self, beginning: &Snapshot, time: Duration) -> Snapshot {
        self.with(beginning, time, &self.changes)
    }

    /// Whether a reading is set at all.
    #[must_use]
    pub fn says(&self, id: &str) -> bool {
        self.changes.iter().any(|change| change.place.field.id == id)
    }

    fn with(&self, beginning: &Snapshot, time: Duration, changes: &[Change]) -> Snapshot {
        let mut snapshot = beginning.clone();
        let since = self.reboots.iter().rev().find(|reboot| reboot.at + reboot.down <= time);
        let since = since.map_or(Duration::ZERO, |reboot| reboot.at + reboot.down);
        let (mut touched, mut over) = (Vec::new(), BTreeSet::new());
        for change in changes {
            // After a reboot the machine is as it was at the beginning, and what was before is over.
            let counts = change.at <= time && time < change.until;
            if !counts || (change.at < since && since > Duration::ZERO) {
                continue;
            }
            let Place { field, key, line: _ } = &change.place;
            let value = change.value(&snapshot, time);
            let value = value.as_ref().map(|owned| owned.value(field.unit)).map_err(|m| *m);
            let before = pid(&snapshot, key).filter(|_| field.id == IS);
            (field.set)(&mut snapshot, key, value);
            if field.id == IS {
                let now = pid(&snapshot, key);
                over.extend(before.filter(|before| now != Some(*before)));
                if let Some(now) = now {
                    over.remove(&now);
                }
            }
            touched.push(field.id);
        }
        consistent::keep(&mut snapshot, beginning, &touched, &over);
        snapshot
    }

    /// Nothing happens while the machine is down.
    fn up_at(&self, at: Duration) -> Result<(), String> {
        let down = self.reboots.iter().find(|r| r.at <= at && at < r.at + r.down);
        down.map_or(Ok(()), |down| {
            Err(format!("the machine is down then, since {} s", down.at.as_secs_f64()))
        })
    }

    /// Settles where what "goes" begins and where each change ends, and checks that every change can be
    /// made at all. In the order of time: what was said before, and what follows from it, is where a
    /// later change begins.
    fn settle(&mut self) -> Result<(), (usize, String)> {
        for line in &self.kernel {
            self.up_at(line.at).map_err(|what| (line.line, what))?;
        }
        let beginning = self.first().snapshot;
        let (mut trial, mut boots) = (beginning.clone(), 0);
        for n in 0..self.changes.len() {
            let (before, rest) = self.changes.split_at(n);
            let Change { at, place, course, .. } = &rest[0];
            let line = place.line;
            self.up_at(*at).map_err(|what| (line, what))?;
            let over = self.reboots.iter().filter(|r| r.at + r.down <= *at).count();
            if over > boots {
                (trial, boots) = (beginning.clone(), over);
            }
            place.try_on(&mut trial, course).map_err(|what| (line, what))?;
            if let Course::Goes { from: None, .. } = course {
                let from = place.number(&self.with(&beginning, *at, before));
                let from = from.ok_or((line, "it has no number to go from".to_owned()))?;
                self.changes[n].course.begin(from);
            } else if place.field.id == IS && *at > Duration::ZERO {
                let since = self.reboots.iter().map(|r| r.at + r.down).filter(|up| up <= at).max();
                let before = beginning.uptime.since_boot.map_or(0.0, |Seconds(before)| before);
                let uptime = match since {
                    Some(up) => at.saturating_sub(up).as_secs_f64(),
                    None => before + at.as_secs_f64(),
                };
                self.changes[n].course.start(uptime);
            }
        }
        let mut next: BTreeMap<(&str, String), Duration> = BTreeMap::new();
        for change in self.changes.iter_mut().rev() {
            let place = (change.place.field.id, change.place.key.clone());
            // What a process is now does not make undone what it was: its figures are of its whole life.
            if place.0 == IS {
                continue;
            }
            change.until = next.insert(place, change.at).unwrap_or(Duration::MAX);
        }
        Ok(())
    }
}

/// The pid of a process by its name.
fn pid(snapshot: &Snapshot, name: &str) -> Option<u32> {
    let list = snapshot.processes.list.as_ref().ok()?;
    list.iter().find(|proc| proc.name == name).map(|proc| proc.pid)
}

impl Course {
    /// A process of which it is not said when it started has started now.
    fn start(&mut self, uptime: f64) {
        if let Self::Is(Ok(Owned::Text(text))) = self
            && !text.contains(" started=")
        {
            text.push_str(" started=");
            text.push_str(&uptime.to_string());
        }
    }

    /// Begins at this number.
    const fn begin(&mut self, number: f64) {
        if let Self::Goes { from, .. } = self {
            *from = Some(number);
        }
    }
}

/// The machine at the beginning, and how reading each source went, by [`Source::index`].
pub struct Beginning {
    /// What was read.
    pub snapshot: Snapshot,
    /// How it went.
    pub results: Vec<Result<(), ReadError>>,
}

impl Beginning {
    /// Reads every source of a capture.
    #[must_use]
    pub fn of(capture: &Capture, start: Duration) -> Self {
        let at = Moment { mono: Duration::ZERO, wall: start };
        let mut snapshot = Snapshot::absent(at, Missing::Pending);
        let second = Duration::from_secs(1);
        let limits = Limits {
            deadline: second,
            smi_deadline: second,
            retry_first: second,
            retry_max: second,
        };
        let pace = Pace { choice: GpuChoice::Auto, limits, now: &|| Duration::ZERO };
        let results = Source::ALL
            .iter()
            .map(|source| sources::read(*source, capture, &pace, &mut snapshot))
            .collect();
        Self { snapshot, results }
    }
}

impl Change {
    const fn new(at: Duration, place: Place, course: Course) -> Self {
        Self { at, place, course, until: Duration::MAX }
    }

    /// The reading's value at a time, which is not before the change.
    fn value(&self, snapshot: &Snapshot, time: Duration) -> Reading<Owned> {
        match &self.course {
            Course::Is(value) => value.clone(),
            Course::Goes { from, to, until } => {
                let from = from.or_else(|| self.place.number(snapshot)).unwrap_or(*to);
                let whole = until.saturating_sub(self.at).as_secs_f64();
                let gone = time.saturating_sub(self.at).as_secs_f64();
                let share = if whole > 0.0 { (gone / whole).min(1.0) } else { 1.0 };
                Ok(Owned::Number(from + (to - from) * share))
            }
            Course::Samples(samples) => {
                let after = samples.partition_point(|(at, _)| self.at + *at <= time);
                match after.checked_sub(1).map(|last| samples[last].1) {
                    Some(sample) => sample.map(Owned::Number),
                    None => self.place.number(snapshot).map(Owned::Number).ok_or(Missing::Pending),
                }
            }
        }
    }
}

impl Place {
    /// Puts where a course leads into a snapshot.
    fn try_on(&self, trial: &mut Snapshot, course: &Course) -> Result<(), String> {
        let Self { field, key, .. } = self;
        let value = match course {
            Course::Is(value) => value.clone(),
            Course::Samples(samples) => {
                samples.first().map_or(Err(Missing::NotPresent), |(_, v)| v.map(Owned::Number))
            }
            Course::Goes { to, .. } => Ok(Owned::Number(*to)),
        };
        let value = value.as_ref().map(|owned| owned.value(field.unit)).map_err(|m| *m);
        if let (IS, Ok(Value::Text(text))) = (field.id, &value) {
            Proc::from_is(key, text)?;
        }
        if (field.set)(trial, key, value) {
            return Ok(());
        }
        let mut members = Vec::new();
        (field.visit)(trial, &mut |key, _| members.push(format!("{}[{key}]", field.id)));
        let member = if key.is_empty() { String::new() } else { format!("[{key}]") };
        let there = if members.iter().all(|m| m.ends_with("[]")) {
            "nothing of it".to_owned()
        } else {
            members.join(", ")
        };
        let id = field.id;
        Err(format!("{id}{member} cannot have this value, or is not there; there is {there}"))
    }

    /// Whether it is the same reading.
    fn same(&self, other: &Self) -> bool {
        self.field.id == other.field.id && self.key == other.key
    }

    /// The number that the reading has.
    fn number(&self, snapshot: &Snapshot) -> Option<f64> {
        let mut found = None;
        (self.field.visit)(snapshot, &mut |key, reading| {
            if key == self.key {
                found = match reading {
                    Ok(Value::Uint(n)) => Some(crate::units::Count(n).as_f64()),
                    Ok(Value::Float(x)) => Some(x),
                    _ => None,
                };
            }
        });
        found
    }
}
