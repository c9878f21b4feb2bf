//! Takes a log's lines as they come.

use super::bar::{self, Bar, Bars, Place};
use super::course::Course;
use super::lookalike::{Lookalike, lookalike};
use super::prefix::{plain, strip};
use super::stamp::{Clock, When};
use super::{Hints, fields, hugging, words};
use crate::model::training::{LogFormat, LogRemark, Step};
use std::mem;
use std::time::Duration;

/// Longest line that is read.
const LONGEST: usize = 64 << 10;

/// The steps of a log, line by line. What it remembers is of bounded size, however long the log is: the
/// last step, the run's bar, at most one line.
///
/// It cannot take back what it told: a bar that turns out to be none of the run's, a higher rank that
/// came first, a bar's step before the first measured time (which then tells the same number again).
/// [`parse`](super::parse) knows the end, and leaves these out. A trainer_state.json is no log of lines.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
pub struct Reader {
    hints: Hints,
    clock: Clock,
    pub(super) bars: Bars,
    pub(super) course: Course,
    format: Option<LogFormat>,
    /// Steps of bars were told before the log turned out to be of another format.
    pub(super) revised: bool,
    /// Dictionaries tell measured times: the bars between them only count.
    pub(super) measured: bool,
    /// Where the run's bar is.
    position: Option<(u64, Option<u64>, Duration)>,
    /// Tokens in a second, of a dictionary that leaves the rest to the next bar.
    tokens: Option<f64>,
    line: Line,
    partial: Vec<u8>,
    too_long: bool,
    carriage: bool,
    left_out: u64,
    /// The first line with anything on it, and the first that looks like a format and is not.
    pub(super) first: Option<String>,
    pub(super) lookalike: Option<Lookalike>,
}

/// The line under way, of which carriage returns make several pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    number: u64,
    begun: bool,
    rank: Option<u32>,
    when: Option<When>,
}

/// A step, and the time stamp that it has itself.
type Found = (LogFormat, Step, Option<When>);

impl Reader {
    /// Nothing read yet.
    #[must_use]
    pub fn new(hints: Hints) -> Self {
        let format = if hints.pattern.is_some() { Some(LogFormat::Pattern) } else { hints.format };
        Self {
            clock: Clock::new(hints.zone.clone(), hints.year),
            hints: Hints { format, ..hints },
            bars: Bars::default(),
            course: Course::default(),
            format,
            revised: false,
            measured: false,
            position: None,
            tokens: None,
            line: Line::default(),
            partial: Vec::new(),
            too_long: false,
            carriage: false,
            left_out: 0,
            first: None,
            lookalike: None,
        }
    }

    /// One line without its end. What is between carriage returns is a line of its own; where their
    /// lines shall be counted as an editor does, hand them to [`Reader::bytes`].
    pub fn line(&mut self, line: &str) -> Option<Step> {
        self.piece(line, true)
    }

    /// More of a log, cut anywhere. Lines that are too long are left out and counted; what is no UTF-8
    /// is replaced and its line counted.
    pub fn bytes(&mut self, chunk: &[u8], mut found: impl FnMut(Step)) {
        let mut rest = chunk;
        if self.carriage && !rest.is_empty() {
            self.carriage = false;
            let whole = rest.first() == Some(&b'\n');
            rest = &rest[usize::from(whole)..];
            self.end_piece(whole, &mut found);
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.hold(&rest[..at]);
            let (end, next) = (rest[at], rest.get(at + 1));
            rest = &rest[at + 1..];
            match (end, next) {
                // Both together end a line; which they are may be known only with the next chunk.
                (b'\r', None) => self.carriage = true,
                (b'\r', Some(b'\n')) => {
                    rest = &rest[1..];
                    self.end_piece(true, &mut found);
                }
                (end, _) => self.end_piece(end == b'\n', &mut found),
            }
        }
        self.hold(rest);
    }

    /// The last line, which may have no end.
    pub fn end(&mut self, mut found: impl FnMut(Step)) {
        self.carriage = false;
        if !self.partial.is_empty() || self.too_long || self.line.begun {
            self.end_piece(true, &mut found);
        }
    }

    /// What the log is, as far as it is known.
    #[must_use]
    pub fn format(&self) -> Option<LogFormat> {
        self.format
    }

    /// What is to be known of the steps so far.
    #[must_use]
    pub fn remarks(&self) -> Vec<LogRemark> {
        let doubled = self.clock.doubled.then_some(LogRemark::DoubledHour);
        self.course.remarks(self.left_out).into_iter().chain(doubled).collect()
    }

    /// Whether two runs write into the log.
    #[must_use]
    pub fn interleaved(&self) -> bool {
        self.course.weaves().is_some()
    }

    /// What is known for reading the log again: the format, and the year in which it begins.
    pub(super) fn again(&self, hints: Hints) -> Hints {
        let format = self.hints.format.or(self.format.filter(|_| self.revised));
        Hints { format, year: hints.year.saturating_sub(self.years()), ..hints }
    }

    /// How many years ended among stamps without one.
    pub(super) fn years(&self) -> i16 {
        self.clock.years
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.too_long |= self.partial.len() + bytes.len() > LONGEST;
        if self.too_long {
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn end_piece(&mut self, last: bool, found: &mut impl FnMut(Step)) {
        let bytes = mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&bytes);
        let too_long = mem::take(&mut self.too_long);
        let replaced = matches!(text, std::borrow::Cow::Owned(_));
        self.left_out += u64::from(too_long || replaced);
        if let Some(step) = self.piece(if too_long { "" } else { &text }, last) {
            found(step);
        }
        self.partial = bytes;
        self.partial.clear();
    }

    /// A line, or a piece of one that carriage returns divide.
    fn piece(&mut self, text: &str, last: bool) -> Option<Step> {
        let begins = !mem::replace(&mut self.line.begun, !last);
        if begins {
            self.line.number += 1;
        }
        let plain = plain(text);
        let prefix = strip(&plain, &mut self.clock);
        let mut when = prefix.when;
        if begins {
            self.line.rank = prefix.rank;
            // What stamps whole lines has seen this one's end: the stamp is that of its last piece.
            self.line.when = if last { None } else { when.take() };
        } else if last {
            when = when.or(self.line.when);
        }
        if prefix.text.is_empty() {
            return None;
        }
        if self.first.is_none() {
            self.first = Some(crate::sources::lines::shown(prefix.text));
        }
        let Some((format, mut step, own)) = self.find(&plain, prefix.text) else {
            if !self.course.begun() && self.lookalike.is_none() {
                self.lookalike = lookalike(self.hints.format, self.line.number, prefix.text);
            }
            return None;
        };
        self.settle(format);
        step.line = self.line.number;
        step.rank = prefix.rank.or(self.line.rank);
        self.place(&mut step, own.or(when));
        let epochs = matches!(self.format, Some(LogFormat::ProgressBar | LogFormat::LlamaCpp));
        self.course.take(step, epochs)
    }

    /// Gives a step its time.
    fn place(&mut self, step: &mut Step, when: Option<When>) {
        match when {
            Some(When::Wall { at, zone_assumed, year_assumed }) => {
                step.wall = Some(at);
                self.course.assumed(zone_assumed, year_assumed);
            }
            Some(When::Elapsed(time)) => step.elapsed = step.elapsed.or(Some(time)),
            None => {}
        }
    }

    /// The first line of a format that says more than bars settles what the log is.
    fn settle(&mut self, format: LogFormat) {
        let bars = self.format == Some(LogFormat::ProgressBar);
        if self.hints.format.is_some() || (self.format.is_some() && !bars) {
            return;
        }
        let around_bars = [LogFormat::ProgressBar, LogFormat::HuggingFace, LogFormat::Torchtune]
            .contains(&format);
        if bars && !around_bars && self.course.begun() {
            self.revised = true;
            self.course.forget();
        }
        self.format = Some(format);
    }

    /// Whether lines of a format count.
    fn wants(&self, format: LogFormat) -> bool {
        match self.hints.format {
            Some(only) => only == format,
            None => self.format.is_none_or(|now| now == format || now == LogFormat::ProgressBar),
        }
    }

    fn find(&mut self, line: &str, text: &str) -> Option<Found> {
        if let Some(pattern) = &self.hints.pattern {
            let (step, when) = pattern.read(line, &mut self.clock)?;
            return Some((LogFormat::Pattern, step, when));
        }
        type Parser = fn(&str) -> Option<Step>;
        let parsers: [(LogFormat, Parser); 3] = [
            (LogFormat::Megatron, words::megatron),
            (LogFormat::Torchtune, words::torchtune),
            (LogFormat::LlamaCpp, words::llama),
        ];
        for (format, parser) in parsers {
            if self.wants(format)
                && let Some(step) = parser(text)
            {
                return Some((format, step, None));
            }
        }
        if self.wants(LogFormat::JsonLines)
            && let Some((step, when)) = fields::json(text, &self.hints.fields, &mut self.clock)
        {
            return Some((LogFormat::JsonLines, step, when));
        }
        self.bars_and_dictionaries(text)
    }

    fn bars_and_dictionaries(&mut self, text: &str) -> Option<Found> {
        let formats = [LogFormat::ProgressBar, LogFormat::HuggingFace, LogFormat::Torchtune];
        let [any, hugging, tune] = formats.map(|format| self.wants(format));
        if !any && !hugging && !tune {
            return None;
        }
        let bar = bar::last(text).and_then(|bar| self.bar(&bar));
        if let Some((LogFormat::Torchtune, step)) = bar {
            return Some((LogFormat::Torchtune, step, None));
        }
        let report = hugging::report(text).filter(|_| hugging);
        let Some(report) = report else {
            let (format, step) = bar.filter(|_| !self.measured)?;
            let tokens_per_second = self.tokens.take();
            return (step.number != Some(0)).then_some((
                format,
                Step { tokens_per_second, ..step },
                None,
            ));
        };
        self.settle(LogFormat::HuggingFace);
        self.bars.reported();
        self.dictionary(&report, bar.map(|(_, step)| step))
            .map(|step| (LogFormat::HuggingFace, step, None))
    }

    /// A drawing of the run's bar.
    fn bar(&mut self, bar: &Bar<'_>) -> Option<(LogFormat, Step)> {
        match self.bars.place(bar) {
            Place::Other => return None,
            Place::Instead => self.course.forget(),
            Place::New | Place::Same => {}
        }
        // Faster than any training, at its beginning: it goes on from a checkpoint.
        if self.course.fresh() && bar.number >= 20 && bar.number / 20 > bar.elapsed.as_secs() + 1 {
            self.course.resumed(self.line.number);
        }
        self.position = Some((bar.number, bar.of, bar.elapsed));
        let of_all = words::torchtune_step(bar.about);
        let format = match of_all {
            Some(_) => LogFormat::Torchtune,
            None if self.hints.format == Some(LogFormat::HuggingFace) => LogFormat::HuggingFace,
            None => LogFormat::ProgressBar,
        };
        let number = of_all.unwrap_or(bar.number);
        let of = bar.of.filter(|of| *of >= number);
        let (elapsed, smoothed) = (Some(bar.elapsed), bar.smoothed);
        let step = Step { number: Some(number), of, elapsed, smoothed, ..Step::default() };
        Some((format, step))
    }

    /// What a dictionary adds to the run's bar, which stands before it in the line or in an earlier one.
    /// It has no step's number of its own: it is printed behind the bar's update, so that one is its.
    fn dictionary(&mut self, report: &hugging::Report, bar: Option<Step>) -> Option<Step> {
        let beside = self.position.map(|(number, of, elapsed)| Step {
            number: Some(number).filter(|number| *number > 0),
            of,
            elapsed: Some(elapsed),
            ..Step::default()
        });
        self.measured |= report.seconds.is_some();
        let step = bar.or(beside).unwrap_or_default();
        let tells = report.seconds.is_some() || report.smoothed.is_some();
        if !tells && bar.is_none() && beside.is_some() {
            // The bar told this step already, and says no more than that; tokens go to its next one.
            self.tokens = report.tokens.or(self.tokens);
            step.number?;
        }
        let smoothed =
            if report.seconds.is_some() { None } else { report.smoothed.or(step.smoothed) };
        Some(Step {
            number: report.number.or(step.number),
            of: report.of.or(step.of),
            elapsed: report.elapsed.or(step.elapsed),
            seconds: report.seconds,
            smoothed,
            tokens_per_second: report.tokens,
            ..step
        })
    }
}
