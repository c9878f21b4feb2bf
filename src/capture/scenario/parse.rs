//! The text of a scenario.

use super::csv::Table;
use super::kernel::KernelLine;
use super::{Capture, Change, Course, Expectation, Hang, Kind, Owned, Place, Reboot, Scenario};
use crate::capture::{kernel, processes};
use crate::model::fields;
use crate::model::reading::{Missing, Reading};
use crate::model::source::Lane;
use crate::units::Unit;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first line of every scenario.
pub(super) const MAGIC: &str = "# gb10-exporter scenario 1";
const SECTION: &str = "==> ";
/// Begins in 2026 if nothing else is said.
const START: u64 = 1_767_225_600;
/// Later is a slip of the pen (the year 5138).
const MAX_START: u64 = 100_000_000_000;
/// Longer ones are not stories but archives.
const MAX_LENGTH: Duration = Duration::from_secs(14 * 86_400);

/// What is wrong, and in which line.
type Wrong = (usize, String);

/// A scenario before its capture and its tables are read.
#[derive(Default)]
pub(super) struct Draft<'a> {
    kind: Option<Kind>,
    title: String,
    source: String,
    story: Vec<String>,
    notes: Vec<String>,
    pub(super) base: (usize, String),
    length: Option<Duration>,
    end: Option<Duration>,
    start: Option<u64>,
    timeline: Vec<(usize, &'a str)>,
    expect: Vec<(usize, &'a str)>,
    tables: BTreeMap<&'a str, (usize, String)>,
    /// Sections of a capture: the machine at the beginning, in this very file.
    own: Vec<(usize, &'a str, Vec<&'a str>)>,
}

/// Reads the text into sections.
pub(super) fn draft(text: &str) -> Result<Draft<'_>, Wrong> {
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line)).peekable();
    if lines.next().map(|(_, line)| line.trim_end()) != Some(MAGIC) {
        return Err((1, format!("expected the first line to be {MAGIC:?}")));
    }
    let mut draft = Draft::default();
    while let Some((number, line)) = lines.next_if(|(_, line)| !line.starts_with(SECTION)) {
        draft.header(number, line).map_err(|what| (number, what))?;
    }
    while let Some((number, line)) = lines.next() {
        let mut body = Vec::new();
        while let Some(line) = lines.next_if(|(_, line)| !line.starts_with(SECTION)) {
            body.push(line);
        }
        match line[SECTION.len()..].trim() {
            "timeline" => draft.timeline.extend(body),
            "expect" => draft.expect.extend(body),
            title
                if title.starts_with('/')
                    || ["gpu", processes::TITLE, kernel::SECTION].contains(&title) =>
            {
                let mut body: Vec<&str> = body.iter().map(|(_, line)| *line).collect();
                // One blank line before the next section is for the eye.
                body.pop_if(|last| last.is_empty());
                draft.own.push((number, title, body));
            }
            title => {
                let Some(name) = title.strip_prefix("table ") else {
                    let what = format!(
                        "expected timeline, expect, table NAME or a section of a capture, found {title:?}"
                    );
                    return Err((number, what));
                };
                let text = body.iter().flat_map(|(_, line)| [*line, "\n"]).collect();
                if draft.tables.insert(name.trim(), (number, text)).is_some() {
                    return Err((number, format!("table {name} is there twice")));
                }
            }
        }
    }
    draft.complete().map_err(|what| (1, what))?;
    Ok(draft)
}

impl Draft<'_> {
    fn header(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let (key, value) =
            line.strip_prefix('#').and_then(|rest| rest.split_once(':')).ok_or_else(|| {
                format!("expected \"# key: value\" or \"{SECTION}...\", found {line:?}")
            })?;
        let value = value.trim();
        let again = match key.trim() {
            "kind" => self.kind.is_some(),
            "title" => !self.title.is_empty(),
            "source" => !self.source.is_empty(),
            "base" => !self.base.1.is_empty(),
            "length" => self.length.is_some(),
            "end" => self.end.is_some(),
            "start" => self.start.is_some(),
            _ => false,
        };
        if again {
            return Err(format!("{} is there twice", key.trim()));
        }
        match key.trim() {
            "kind" => self.kind = Some(Kind::named(value)?),
            "title" => value.clone_into(&mut self.title),
            "source" => value.clone_into(&mut self.source),
            "story" => self.story.push(value.to_owned()),
            "note" => self.notes.push(value.to_owned()),
            "base" => self.base = (number, value.to_owned()),
            "length" => self.length = Some(time(value)?),
            "end" => self.end = Some(time(value)?),
            "start" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds < MAX_START);
                self.start = Some(
                    seconds
                        .ok_or_else(|| format!("expected seconds since 1970, found {value:?}"))?,
                );
            }
            other => {
                return Err(format!(
                    "expected kind, title, source, story, note, base, length, end or start, found {other:?}"
                ));
            }
        }
        Ok(())
    }

    fn complete(&self) -> Result<(), String> {
        let lacks = |key: &str| Err(format!("the header lacks \"# {key}: ...\""));
        match self {
            Self { kind: None, .. } => lacks("kind"),
            Self { title, .. } if title.is_empty() => lacks("title"),
            Self { source, .. } if source.is_empty() => lacks("source"),
            Self { base: (_, base), own, .. } if base.is_empty() == own.is_empty() => {
                Err("expected \"# base: FILE\" in the header, or the sections of a capture"
                    .to_owned())
            }
            Self { length: None, .. } => lacks("length"),
            Self { length: Some(length), .. } if *length > MAX_LENGTH || length.is_zero() => {
                Err("expected a length from 1s to 14d".to_owned())
            }
            Self { length: Some(length), end: Some(end), .. } if end > length => {
                Err("the end is after the scenario's length".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The capture that is in this very file, if there is one.
    pub(super) fn own(&self) -> Option<Result<Capture, Wrong>> {
        if self.own.is_empty() {
            return None;
        }
        let mut capture = Capture {
            kind: self.kind.unwrap_or(Kind::Invented),
            title: self.title.clone(),
            source: self.source.clone(),
            notes: Vec::new(),
            gpu: Vec::new(),
            processes: None,
            kernel: None,
            files: BTreeMap::new(),
        };
        let result = self
            .own
            .iter()
            .try_for_each(|(number, title, body)| capture.section(*number, title, body));
        Some(result.map(|()| capture))
    }

    /// With the capture that it begins with, and whoever finds tables by their name.
    pub(super) fn finish(
        self,
        base: Capture,
        file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Scenario, Wrong> {
        let mut scenario = Scenario {
            kind: self.kind.unwrap_or(Kind::Invented),
            title: self.title.clone(),
            source: self.source.clone(),
            story: self.story.clone(),
            notes: self.notes.clone(),
            length: self.length.unwrap_or_default(),
            end: self.end,
            start: Duration::from_secs(self.start.unwrap_or(START)),
            hangs: Vec::new(),
            reboots: Vec::new(),
            expectations: Vec::new(),
            base,
            kernel: Vec::new(),
            changes: Vec::new(),
        };
        for (number, line) in content(&self.timeline) {
            self.event(number, line, file, &mut scenario).map_err(|e| match e {
                (0, what) => (number, what),
                // A line within a table of this file.
                other => other,
            })?;
        }
        for (number, line) in content(&self.expect) {
            let expectation = expectation(number, line).map_err(|what| (number, what))?;
            if expectation.at.is_some_and(|at| at > scenario.length) {
                return Err((number, "this is after the scenario's end".to_owned()));
            }
            scenario.expectations.push(expectation);
        }
        for (name, (line, _)) in &self.tables {
            let used = |line: &str| {
                words(line).is_ok_and(|w| {
                    w.get(1).map(String::as_str) == Some("table")
                        && w.get(2).map(String::as_str) == Some(name)
                })
            };
            if !content(&self.timeline).iter().any(|(_, line)| used(line)) {
                return Err((*line, format!("table {name} is never used in the timeline")));
            }
        }
        scenario.changes.sort_by_key(|change| change.at);
        scenario.kernel.sort_by_key(|line| line.at);
        scenario.reboots.sort_by_key(|reboot| reboot.at);
        Ok(scenario)
    }

    /// One line of the timeline.
    fn event(
        &self,
        number: usize,
        line: &str,
        file: &dyn Fn(&str) -> Result<String, String>,
        into: &mut Scenario,
    ) -> Result<(), Wrong> {
        let here = |what: String| (number, what);
        let (when, rest) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| here(format!("expected \"TIME WHAT\", found {line:?}")))?;
        let (at, until) = span(when, into.length).map_err(here)?;
        let kernel = rest.trim().strip_prefix("kernel");
        if let Some(text) = kernel.filter(|text| !text.starts_with(['.', '_'])) {
            if until.is_some() {
                return Err(here(format!("expected one time here, found {when:?}")));
            }
            into.kernel.push(KernelLine::parse(number, at, text).map_err(here)?);
            return Ok(());
        }
        let words = words(rest).map_err(here)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["lane" | "reboot" | "table", ..] | [_, "missing", _] if until.is_some() => {
                return Err(here(format!("expected one time here, found {when:?}")));
            }
            ["lane", name, "hangs", length] => {
                let hanging = Lane::ALL.iter().find(|lane| lane.as_str() == *name);
                let hanging = *hanging.ok_or_else(|| here(format!("{name:?} is no lane")))?;
                let until = at + time(length).map_err(here)?;
                into.hangs.push(Hang { lane: hanging, from: at, until });
            }
            ["reboot", how @ ("clean" | "unclean"), "down", length] => {
                let down = time(length).map_err(here)?;
                into.reboots.push(Reboot { at, down, clean: *how == "clean" });
            }
            ["table", name, map @ ..] if !map.is_empty() => {
                into.changes.extend(self.table(number, at, name, map, into.length, file)?);
            }
            [place, "missing", reason] => {
                let reason = Missing::ALL.iter().find(|r| r.as_str() == *reason);
                let reason = *reason.ok_or_else(|| {
                    let all: Vec<_> = Missing::ALL.iter().map(|reason| reason.as_str()).collect();
                    here(format!("no such reason; there are {}", all.join(", ")))
                })?;
                let place = self::place(number, place).map_err(here)?;
                into.changes.push(Change::new(at, place, Course::Is(Err(reason))));
            }
            [name, "=", value @ ..] if !value.is_empty() => {
                let place = place(number, name).map_err(here)?;
                let course = course(place.field.unit, until, value).map_err(here)?;
                into.changes.push(Change::new(at, place, course));
            }
            _ => {
                let what = "expected READING = VALUE, READING = FROM -> TO, READING missing REASON, \
                            table NAME ..., kernel [x N] TEXT, lane NAME hangs TIME or reboot clean|unclean down TIME";
                return Err(here(format!("{what}; found {rest:?}")));
            }
        }
        Ok(())
    }

    /// `table NAME time=COLUMN READING=COLUMN[UNIT] ...`
    fn table(
        &self,
        number: usize,
        at: Duration,
        name: &str,
        map: &[&str],
        into_length: Duration,
        file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Vec<Change>, Wrong> {
        let here = |what: String| (number, what);
        let (offset, text) = match self.tables.get(name) {
            Some((line, text)) => (Some(*line), text.clone()),
            None => (
                None,
                file(name).map_err(|what| here(format!("no table {name:?} here, and {what}")))?,
            ),
        };
        // A table of this file has lines of this file.
        let inside = |(line, what): Wrong| match offset {
            Some(offset) => (offset + line, what),
            None => (number, format!("{name}:{line}: {what}")),
        };
        let table = Table::parse(&text).map_err(inside)?;
        let pairs: Vec<(&str, &str)> = map
            .iter()
            .map(|pair| {
                pair.split_once('=')
                    .ok_or_else(|| here(format!("expected READING=COLUMN, found {pair:?}")))
            })
            .collect::<Result<_, _>>()?;
        let time = pairs.iter().find(|(field, _)| *field == "time");
        let (_, column) = time.ok_or_else(|| here("expected time=COLUMN".to_owned()))?;
        let times = table.times(column).map_err(inside)?;
        let mut changes = Vec::new();
        for (field, column) in pairs.iter().filter(|(field, _)| *field != "time") {
            let place = place(number, field).map_err(here)?;
            // What is in brackets may be a unit, or belong to the name: `gpu.clock[0.sm]`.
            let (column, unit) = match column.strip_suffix(']').and_then(|c| c.rsplit_once('[')) {
                Some((bare, unit)) if !table.has(column) => (bare.trim(), unit),
                _ => (*column, ""),
            };
            let numbers = table.numbers(column, place.field.unit, unit).map_err(inside)?;
            if let Some(last) = times.last().filter(|last| at + **last > into_length) {
                let what = format!(
                    "the last row is at {} s, after the scenario's end",
                    (at + *last).as_secs_f64()
                );
                return Err(here(what));
            }
            if changes.iter().any(|c: &Change| c.place.same(&place)) {
                return Err(here(format!("{field} is there twice")));
            }
            let samples = times.iter().copied().zip(numbers).collect();
            changes.push(Change::new(at, place, Course::Samples(samples)));
        }
        Ok(changes)
    }
}

/// Lines with something in them, without remarks.
fn content<'a>(lines: &[(usize, &'a str)]) -> Vec<(usize, &'a str)> {
    let trimmed = lines.iter().map(|(number, line)| (*number, line.trim()));
    trimmed.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Words, with spaces kept between double quotes.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let (mut word, mut quoted) = (String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

fn time(text: &str) -> Result<Duration, String> {
    let seconds = Unit::Seconds.parse(text, "")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("expected a time, found {text:?}"))
}

/// `TIME` or `FROM..TO`, within a length.
fn span(when: &str, length: Duration) -> Result<(Duration, Option<Duration>), String> {
    let (at, until) = match when.split_once("..") {
        Some((at, until)) => (time(at)?, Some(time(until)?)),
        None => (time(when)?, None),
    };
    if until.unwrap_or(at) > length {
        let length = length.as_secs_f64();
        return Err(format!("{when} goes past the scenario's length, which is {length} s"));
    }
    if until.is_some_and(|until| until <= at) {
        return Err(format!("{when} goes backwards"));
    }
    Ok((at, until))
}

fn place(line: usize, name: &str) -> Result<Place, String> {
    let (field, key) = fields::named(name)
        .ok_or_else(|| format!("{name:?} is no reading (docs/METRICS.md lists them)"))?;
    Ok(Place { field, key: key.to_owned(), line })
}

/// What comes after the equals sign.
fn course(unit: Unit, until: Option<Duration>, value: &[&str]) -> Result<Course, String> {
    if unit == Unit::None {
        return match until {
            None => Ok(Course::Is(Ok(Owned::Text(value.join(" "))))),
            Some(_) => Err("text cannot go from one value to another".to_owned()),
        };
    }
    let arrow = value.iter().position(|word| *word == "->");
    match (until, arrow) {
        (None, None) => Ok(Course::Is(number(unit, value)?)),
        (Some(until), arrow) => {
            let (from, to) =
                arrow.map_or((None, value), |at| (Some(&value[..at]), &value[at + 1..]));
            let plain = |words: &[&str]| amount(unit, &words.join(" "), "");
            let from = from.filter(|words| !words.is_empty()).map(plain).transpose()?;
            Ok(Course::Goes { from, to: plain(to)?, until })
        }
        (None, Some(_)) => Err("a value that goes to another needs a time FROM..TO".to_owned()),
    }
}

fn number(unit: Unit, words: &[&str]) -> Result<Reading<Owned>, String> {
    let text = words.join(" ");
    let number = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16)
            .map(f64::from)
            .map_err(|_| format!("expected a number, found {text:?}"))?,
        None => amount(unit, &text, "")?,
    };
    Ok(Ok(Owned::Number(number)))
}

/// An amount. Without a unit it would be anybody's guess: 30 of memory are bytes, 96 of utilization are
/// ninety-six times everything.
pub(super) fn amount(unit: Unit, text: &str, default: &str) -> Result<f64, String> {
    let number = unit.parse(text, default)?;
    let bare = default.is_empty() && text.trim().parse::<f64>().is_ok();
    let needs = !matches!(unit, Unit::Count | Unit::None | Unit::Celsius | Unit::Watts);
    if bare && needs && number != 0.0 {
        let names: Vec<_> =
            unit.written().iter().map(|(n, _)| *n).filter(|n| !n.is_empty()).collect();
        return Err(format!("expected a unit with {text:?}, one of {}", names.join(", ")));
    }
    if number < 0.0 && unit != Unit::Celsius {
        return Err(format!("expected nothing negative, found {text:?}"));
    }
    if unit == Unit::Count && number.fract() != 0.0 {
        return Err(format!("expected a whole number, found {text:?}"));
    }
    Ok(number)
}

/// `TIME VERDICT STATE`, or `never VERDICT STATE`.
fn expectation(line: usize, text: &str) -> Result<Expectation, String> {
    let words = words(text)?;
    let [when, verdict, state] = words.as_slice() else {
        return Err(format!(
            "expected \"TIME VERDICT STATE\" or \"never VERDICT STATE\", found {text:?}"
        ));
    };
    let at = if when == "never" { None } else { Some(time(when)?) };
    Ok(Expectation { at, verdict: verdict.clone(), state: state.clone(), line })
}
