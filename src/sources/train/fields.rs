//! Logs of one JSON object a line, and lines that a pattern of the user's finds.

use super::LogError;
use super::hugging::{figure, length};
use super::scan::{duration, interval, only, rate, step_time};
use super::stamp::{Clock, When, since_1970, stamp};
use super::words::smoothed;
use crate::model::training::Step;
use regex_lite::{Captures, Regex};
use serde_json::{Map, Value};

/// The names under which a JSON object tells something, in the order in which they are looked for. A dot
/// leads one level down; a name that ends in `_ms` or `(ms)` is of milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNames {
    /// The step's number.
    pub step: Vec<String>,
    /// How long a step took.
    pub seconds: Vec<String>,
    /// When: RFC 3339 and what else stands at the start of lines, or seconds or milliseconds since 1970.
    pub time: Vec<String>,
    /// Tokens in a second.
    pub tokens: Vec<String>,
}

impl Default for FieldNames {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            step: names(&[
                "step",
                "global_step",
                "iteration",
                "iter",
                "current_steps", // LLaMA-Factory's trainer_log.jsonl
                "train/global_step",
                "trainer/global_step",
                "_step", // what Weights & Biases exports
            ]),
            seconds: names(&[
                "step_time",
                "seconds",
                "iter_time",
                "time_per_step",
                "step_time_s",
                "step_seconds",
                "time_per_iteration",
                "step_time_ms",
                "iter_time_ms",
                "time_per_step_ms",
                "elapsed_time_per_iteration_ms",
                "train_step_timing in s",
                "train/step_time",
                "time_metrics/end_to_end(s)", // torchtitan
            ]),
            time: names(&[
                "time",
                "timestamp",
                "ts",
                "@timestamp",
                "datetime",
                "_timestamp",
                "asctime",
            ]),
            tokens: names(&[
                "tokens_per_second",
                "tok_s",
                "tokens_per_sec",
                "tokens/s",
                "tps",
                "tokens_per_second_per_gpu",
                "tokens_per_sec_per_gpu",
                "train_tokens_per_second",
                "tokens/train_per_sec_per_gpu",
                "throughput(tps)", // torchtitan
            ]),
        }
    }
}

/// How many steps there are, and how long the run has taken, under the names that loggers have.
const TOTALS: [&str; 3] = ["total_steps", "max_steps", "train_iters"];
const ELAPSED: [&str; 3] = ["elapsed_time", "elapsed", "_runtime"];

/// A value by its name, or one level down by a name with a dot.
fn find<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        object.get(outer)?.get(inner)
    })
}

/// An object that has a step's number, or a step's time. Behind other words it must have a time, for a
/// program prints many things.
pub(super) fn json(
    text: &str,
    names: &FieldNames,
    clock: &mut Clock,
) -> Option<(Step, Option<When>)> {
    let start = text.find('{').filter(|_| text.ends_with('}'))?;
    let object: Map<String, Value> = serde_json::from_str(&text[start..]).ok()?;
    let get = |names: &[String], take: &dyn Fn(&str, &Value) -> Option<f64>| {
        names.iter().find_map(|name| take(name, find(&object, name)?))
    };
    let count = |name: &str| match find(&object, name)? {
        Value::Number(n) => n.as_u64().or_else(|| whole_float(n.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = names.step.iter().find_map(|name| count(name));
    let seconds = get(&names.seconds, &|name, value| {
        let factor = if name.ends_with("_ms") || name.ends_with("(ms)") { 1e-3 } else { 1.0 };
        figure(value).map(|value| value * factor)
    });
    let seconds = seconds.and_then(step_time);
    if number.is_none() && seconds.is_none() {
        return None;
    }
    let when = names.time.iter().find_map(|name| moment(find(&object, name)?, clock));
    if start > 0 && seconds.is_none() && when.is_none() {
        return None;
    }
    let tokens = get(&names.tokens, &|_, value| figure(value).and_then(rate));
    let elapsed = ELAPSED.iter().find_map(|name| length(find(&object, name)?));
    let of = TOTALS.iter().find_map(|name| count(name)).filter(|of| *of > 0);
    let step = Step { number, of, seconds, elapsed, tokens_per_second: tokens, ..Step::default() };
    Some((step, when))
}

/// A step's number that was logged as a float.
fn whole_float(value: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative, and below what a float holds exactly"
    )]
    ((0.0..9e15).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

fn moment(value: &Value, clock: &mut Clock) -> Option<When> {
    match value {
        Value::Number(number) => {
            let at = since_1970(number.as_f64()?)?;
            Some(When::Wall { at, zone_assumed: false, year_assumed: false })
        }
        Value::String(text) => clock.when(stamp(text.trim())?.0),
        _ => None,
    }
}

/// A pattern of the user's that finds steps in lines.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// What a pattern's groups may be named. One of the first two or of the times must be there.
const GROUPS: [&str; 9] =
    ["step", "time", "seconds", "ms", "minutes", "rate", "elapsed", "of", "tokens"];

impl Pattern {
    /// A regular expression with named groups: `step`, `of`, `seconds`, `ms`, `minutes` (each of one step),
    /// `rate` (steps in a second), `elapsed` (since the run began), `time` (a time stamp), `tokens` (in a
    /// second).
    ///
    /// # Errors
    /// It is no regular expression, or has none of these groups, or one that nobody knows.
    pub fn new(text: &str) -> Result<Self, LogError> {
        let regex = Regex::new(text).map_err(|error| LogError::Pattern {
            pattern: text.to_owned(),
            what: error.to_string(),
        })?;
        let names: Vec<&str> = regex.capture_names().flatten().collect();
        if let Some(name) = names.iter().find(|name| !GROUPS.contains(name)) {
            return Err(LogError::PatternGroup {
                pattern: text.to_owned(),
                name: (*name).to_owned(),
            });
        }
        if !names.iter().any(|name| GROUPS[..7].contains(name)) {
            return Err(LogError::PatternGroups { pattern: text.to_owned() });
        }
        Ok(Self(regex))
    }

    pub(super) fn read(&self, line: &str, clock: &mut Clock) -> Option<(Step, Option<When>)> {
        let found = self.0.captures(line)?;
        let value = |name| group(&found, name).and_then(only);
        let seconds = value("seconds")
            .or_else(|| value("ms").map(|ms| ms / 1e3))
            .or_else(|| value("minutes").map(|minutes| minutes * 60.0))
            .and_then(step_time);
        let elapsed = group(&found, "elapsed").and_then(|text| {
            let clock = interval(text).filter(|(_, rest)| rest.is_empty()).map(|(time, _)| time);
            clock.or_else(|| only(text).and_then(duration))
        });
        let when = group(&found, "time").and_then(|text| clock.when(stamp(text)?.0));
        let step = Step {
            number: group(&found, "step").and_then(|text| text.replace(',', "").parse().ok()),
            of: group(&found, "of").and_then(|text| text.replace(',', "").parse().ok()),
            seconds,
            smoothed: value("rate").and_then(|rate| smoothed(1.0 / rate)),
            elapsed,
            tokens_per_second: value("tokens").and_then(rate),
            ..Step::default()
        };
        let tells = step.number.is_some() || step.seconds.is_some() || step.smoothed.is_some();
        (tells || step.elapsed.is_some() || when.is_some()).then_some((step, when))
    }
}

fn group<'a>(found: &Captures<'a>, name: &str) -> Option<&'a str> {
    found.name(name).map(|text| text.as_str().trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Seconds;
    use jiff::tz::TimeZone;

    #[test]
    fn names_lead_one_level_down() {
        let mut names = FieldNames::default();
        names.step.insert(0, "train.step".to_owned());
        let mut clock = Clock::new(TimeZone::UTC, 2025);
        let line =
            r#"{"train": {"step": 7.0}, "step_time_ms": "1500", "ts": 1736685296500, "tok_s": 81}"#;
        let (step, when) = json(line, &names, &mut clock).unwrap();
        assert_eq!((step.number, step.seconds), (Some(7), Some(Seconds(1.5))));
        assert!(matches!(when, Some(When::Wall { at, .. }) if at.as_millis() == 1_736_685_296_500));
        assert_eq!(json(r#"{"time": 1736685296}"#, &names, &mut clock), None);
    }

    #[test]
    fn patterns_name_their_groups() {
        let pattern = Pattern::new(r"step (?P<step>[\d,]+) took (?P<ms>[\d.]+)ms").unwrap();
        let mut clock = Clock::new(TimeZone::UTC, 2025);
        let (step, _) = pattern.read("x step 1,250 took 12.5ms", &mut clock).unwrap();
        assert_eq!((step.number, step.seconds), (Some(1250), Some(Seconds(0.0125))));
        assert!(matches!(Pattern::new("("), Err(LogError::Pattern { .. })));
        assert!(matches!(Pattern::new("(?P<tokens>.)"), Err(LogError::PatternGroups { .. })));
        assert!(matches!(Pattern::new("(?P<stpe>.)"), Err(LogError::PatternGroup { .. })));
    }
}
