//! Training logs: which steps they report, and when.
//!
//! A log is read whole ([`parse`]) or as it grows ([`Reader`]); neither looks at a file or at a clock. The
//! format need not be told: the first line that only one format has settles it, and progress bars, which
//! many print, count as long as there is nothing better.
//!
//! A line goes this way: the terminal's control sequences are taken out, then what containers, loggers and
//! launchers put before it (time stamps, ranks, levels), and what is left goes to the formats' readers,
//! which are functions from a text to a [`Step`]. In the end the order of steps decides: a
//! bar that is drawn again is no step, several processes count as one, a number that falls back is a run
//! that began anew.

mod bar;
mod course;
mod fields;
mod hugging;
mod lookalike;
mod prefix;
mod reader;
mod scan;
pub(super) mod stamp;
mod weave;
mod words;

pub use fields::{FieldNames, Pattern};
pub use reader::Reader;

use crate::model::training::{LogFormat, Step, TrainLog};
use bar::Bars;
use course::Course;
use jiff::tz::TimeZone;

/// What a user knows about a log.
#[derive(Clone, Debug)]
pub struct Hints {
    /// The format, where it shall not be found out.
    pub format: Option<LogFormat>,
    /// What finds steps, in place of every format.
    pub pattern: Option<Pattern>,
    /// The names in logs of JSON.
    pub fields: FieldNames,
    /// The zone of time stamps that have none.
    pub zone: TimeZone,
    /// The year of time stamps that have none: of a whole log's last line, of a followed one's first.
    pub year: i16,
}

impl Hints {
    /// Nothing known but where and when.
    #[must_use]
    pub fn new(zone: TimeZone, year: i16) -> Self {
        Self { format: None, pattern: None, fields: FieldNames::default(), zone, year }
    }
}

/// Why a log cannot be used. Whoever prints it puts the file's name before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Nothing in it.
    #[error("the log is empty: no line to read a step from")]
    Empty,
    /// No text.
    #[error("the log is not text: a NUL byte at offset {0} (compressed, or UTF-16?)")]
    Binary(usize),
    /// Nothing like a training log.
    #[error("no line reports a step; looked for {looked}; the first line is {first}")]
    NoSteps {
        /// The formats.
        looked: String,
        /// The log's first line, cut.
        first: String,
    },
    /// Its lines look like a format and are none.
    #[error(
        "line {line}: no line reports a step; this one looks like {} and should be {expected}, found {found}",
        format.as_str()
    )]
    Malformed {
        /// The first such line.
        line: u64,
        /// What it looks like.
        format: LogFormat,
        /// How a line would be.
        expected: &'static str,
        /// How it is, cut.
        found: String,
    },
    /// Steps without any time.
    #[error(
        "{steps} steps of {}, from line {line} on, but nothing tells when or how long: it needs time stamps, progress bars or a step time",
        format.as_str()
    )]
    NoTimes {
        /// How many.
        steps: usize,
        /// What the log is.
        format: LogFormat,
        /// Where the first one is.
        line: u64,
    },
    /// A trainer_state.json that is none.
    #[error("line {line}, column {column}: expected a whole trainer_state.json: {what}")]
    State {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong.
        what: String,
    },
    /// A trainer_state.json as the Trainer writes it.
    #[error(
        "a trainer_state.json has no times ({0} entries with steps alone): use what the run printed on its console, with its progress bars"
    )]
    StateNoTimes(usize),
    /// A pattern that is none.
    #[error("the pattern {pattern:?} is no regular expression: {what}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong.
        what: String,
    },
    /// A pattern that finds nothing.
    #[error(
        "the pattern {pattern:?} has no group for a step or a time: name one (?P<step>...), (?P<seconds>...), (?P<ms>...), (?P<minutes>...), (?P<rate>...), (?P<elapsed>...) or (?P<time>...)"
    )]
    PatternGroups {
        /// As it was given.
        pattern: String,
    },
    /// A pattern with a group that nobody knows.
    #[error(
        "the pattern {pattern:?} has a group {name:?}, which is none of step, of, seconds, ms, minutes, rate, elapsed, time, tokens"
    )]
    PatternGroup {
        /// As it was given.
        pattern: String,
        /// The group.
        name: String,
    },
}

impl LogError {
    /// The line that it is about.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Malformed { line, .. } | Self::NoTimes { line, .. } => Some(*line),
            Self::State { line, .. } => u64::try_from(*line).ok(),
            _ => None,
        }
    }
}

/// Reads a whole log.
///
/// # Errors
/// There is nothing in it that tells a step and a time.
pub fn parse(bytes: &[u8], hints: Hints) -> Result<TrainLog, LogError> {
    if bytes.trim_ascii().is_empty() {
        return Err(LogError::Empty);
    }
    if let Some(offset) = bytes.iter().take(64 << 10).position(|byte| *byte == 0) {
        return Err(LogError::Binary(offset));
    }
    if hints.pattern.is_none() && matches!(hints.format, None | Some(LogFormat::TrainerState)) {
        let text = String::from_utf8_lossy(bytes);
        if hints.format.is_some() || hugging::is_state(&text) {
            return state(&text);
        }
    }
    let only = if hints.pattern.is_some() { Some(LogFormat::Pattern) } else { hints.format };
    let (mut reader, mut steps) = run(bytes, hints.clone(), Bars::default(), None);
    // What the end of the log says of its beginning.
    if reader.revised || reader.bars.revised || reader.years() > 0 {
        let again = reader.again(hints.clone());
        let bars = reader.bars.again();
        (reader, steps) = run(bytes, again, bars, None);
    }
    if let Some(from) = reader.course.weaves() {
        let again = reader.again(hints);
        let bars = reader.bars.again();
        (reader, steps) = run(bytes, again, bars, Some(from));
    }
    if reader.measured {
        steps.retain(|step| step.seconds.is_some());
    }
    let lowest = reader.course.lowest();
    steps.retain(|step| step.rank.is_none() || step.rank == lowest);
    let Some(format) = reader.format().filter(|_| !steps.is_empty()) else {
        let first = reader.first.as_deref();
        return Err(lookalike::no_steps(only, reader.lookalike.as_ref(), first));
    };
    if !steps.iter().any(timed) {
        return Err(LogError::NoTimes { steps: steps.len(), format, line: steps[0].line });
    }
    Ok(TrainLog { format, steps, remarks: reader.remarks() })
}

fn run(bytes: &[u8], hints: Hints, bars: Bars, woven: Option<u64>) -> (Reader, Vec<Step>) {
    let (mut reader, mut steps) = (Reader::new(hints), Vec::new());
    reader.bars = bars;
    reader.course = woven.map(Course::woven).unwrap_or_default();
    reader.bytes(bytes, |step| steps.push(step));
    reader.end(|step| steps.push(step));
    (reader, steps)
}

fn state(text: &str) -> Result<TrainLog, LogError> {
    let steps = hugging::state(text)?;
    let mut course = Course::default();
    for step in &steps {
        course.note(step);
    }
    Ok(TrainLog { format: LogFormat::TrainerState, steps, remarks: course.remarks(0) })
}

/// Whether a step tells anything of its time.
fn timed(step: &Step) -> bool {
    step.wall.is_some()
        || step.elapsed.is_some()
        || step.seconds.is_some()
        || step.smoothed.is_some()
        || step.tokens_per_second.is_some()
}
