//! The dictionaries that Hugging Face's Trainer prints, and its state file.

use super::LogError;
use super::scan::{duration, interval, only, rate, ratio, spelled, step_time};
use crate::model::training::Step;
use crate::units::Seconds;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// A training report has one of these,
const TRAINING: [&str; 3] = ["loss", "reward", "step_time"];
/// and one of these, which tell it from a configuration that is printed and from a program's own words.
const BESIDE: [&str; 4] = ["epoch", "learning_rate", "grad_norm", "num_tokens"];
/// A step's time as it was measured: TRL's GRPO, RLOO and online DPO.
const TIMES: [&str; 2] = ["step_time", "time_per_step"];
/// Axolotl (since 0.10), and callbacks that are passed round.
const TOKENS: [&str; 6] = [
    "tokens/train_per_sec_per_gpu",
    "tokens_per_second_per_gpu",
    "tokens_per_second",
    "train_tokens_per_second",
    "tokens_per_sec",
    "tps",
];

/// A dictionary's report, of what bars do not tell. Numbers in it are the dictionary's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Report {
    pub(super) number: Option<u64>,
    pub(super) of: Option<u64>,
    pub(super) elapsed: Option<Duration>,
    pub(super) seconds: Option<Seconds>,
    pub(super) smoothed: Option<Seconds>,
    pub(super) tokens: Option<f64>,
}

/// The report of a line with a training dictionary: `{'loss': 2.1, 'grad_norm': 1.2, 'epoch': 0.01}`, with
/// the numbers as strings since Transformers 5. Those of an evaluation and of the end of a run are none,
/// and neither is one with nothing but figures that are not numbers.
pub(super) fn report(text: &str) -> Option<Report> {
    let (_, inner) = text.rsplit_once("{'")?;
    let mut report = Report::default();
    let (mut training, mut beside) = (false, false);
    for (key, value) in pairs(inner) {
        if key.starts_with("eval_") || key == "train_runtime" {
            return None;
        }
        training |= TRAINING.contains(&key);
        beside |= BESIDE.contains(&key);
        let number = only(value);
        match key {
            _ if TIMES.contains(&key) => report.seconds = number.and_then(step_time),
            _ if TOKENS.contains(&key) => report.tokens = number.and_then(rate),
            // ms-swift 2 and 3.
            "global_step/max_steps" => {
                let count = ratio(value.trim_matches('\''));
                (report.number, report.of) = (count.map(|c| c.0), count.map(|c| c.1));
            }
            "elapsed_time" => report.elapsed = spelled(value),
            "train_speed(s/it)" => report.smoothed = number.and_then(step_time),
            "train_speed(iter/s)" => report.smoothed = number.and_then(|v| step_time(1.0 / v)),
            _ => {}
        }
    }
    (training && beside).then_some(report)
}

/// The names and values of a dictionary of plain values; of one that was cut short, those that are whole.
fn pairs(inner: &str) -> impl Iterator<Item = (&str, &str)> {
    let inner = inner.split_once('}').map_or(inner, |(inner, _)| inner);
    inner.split(", '").filter_map(|pair| {
        let (key, value) = pair.split_once(':')?;
        Some((key.trim_matches('\''), value.trim()))
    })
}

/// What of trainer_state.json counts.
#[derive(Deserialize)]
struct State {
    #[serde(default)]
    max_steps: Option<i64>,
    log_history: Vec<Map<String, Value>>,
}

/// The message without the line and the column, which are told apart.
fn without_place(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(what, _)| what).to_owned()
}

/// Whether a file is a trainer_state.json, whole or not.
pub(super) fn is_state(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
        && text.contains("\"log_history\"")
}

/// Steps of a trainer_state.json. Its entries stand for lines, from 1.
///
/// # Errors
/// It is no JSON, or nothing in it tells a time, which is the rule: the Trainer notes steps alone.
pub(super) fn state(text: &str) -> Result<Vec<Step>, LogError> {
    let state: State = serde_json::from_str(text).map_err(|error| LogError::State {
        line: error.line(),
        column: error.column(),
        what: without_place(&error.to_string()),
    })?;
    let of = state.max_steps.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    let mut steps = Vec::new();
    for (line, entry) in (1..).zip(&state.log_history) {
        let value = |name: &str| entry.get(name).and_then(figure);
        let number = entry.get("step").and_then(Value::as_u64);
        let seconds = TIMES.iter().find_map(|name| step_time(value(name)?));
        let tokens = TOKENS.iter().find_map(|name| rate(value(name)?));
        let mut step =
            Step { line, number, of, seconds, tokens_per_second: tokens, ..Step::default() };
        // The one time that it notes by itself: of the whole run, when that is over.
        if let (Some(runtime), Some(n)) = (value("train_runtime"), number) {
            step.elapsed = duration(runtime);
            #[expect(clippy::cast_precision_loss, reason = "steps are few")]
            let mean = runtime / n.max(1) as f64;
            step.smoothed = step_time(mean);
        }
        if step.seconds.is_some() || step.smoothed.is_some() || step.tokens_per_second.is_some() {
            steps.push(step);
        }
    }
    if steps.is_empty() { Err(LogError::StateNoTimes(state.log_history.len())) } else { Ok(steps) }
}

/// A number, plain or as a string.
pub(super) fn figure(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64().filter(|v| v.is_finite() && *v >= 0.0),
        Value::String(text) => only(text),
        _ => None,
    }
}

/// A length of time: seconds, or `0:01:40` as LLaMA-Factory's trainer_log.jsonl has it.
pub(super) fn length(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => {
            interval(text).filter(|(_, rest)| rest.is_empty()).map(|(time, _)| time)
        }
        other => figure(other).and_then(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_of_training_alone() {
        let plain = "{'loss': 2.1234, 'grad_norm': nan, 'learning_rate': 4.9e-05, 'epoch': 0.01}";
        assert_eq!(report(plain), Some(Report::default()));
        let five =
            "{'loss': '-0.007415', 'num_tokens': '4.996e+04', 'step_time': '12.3', 'epoch': '0.4'}";
        assert_eq!(report(five).unwrap().seconds, Some(Seconds(12.3)));
        let swift = "{'loss': 1.0, 'epoch': 0.9, 'global_step/max_steps': '90/94', 'elapsed_time': '2m 52s', 'train_speed(iter/s)': 0.5}";
        let swift = report(swift).unwrap();
        assert_eq!(
            (swift.number, swift.of, swift.smoothed),
            (Some(90), Some(94), Some(Seconds(2.0)))
        );
        assert_eq!(swift.elapsed, Some(Duration::from_secs(172)));
        for none in [
            "{'eval_loss': 1.0, 'eval_runtime': 5.0, 'epoch': 1.0}",
            "{'train_runtime': 225.8, 'train_steps_per_second': 0.886, 'train_loss': 1.2}",
            "{'eos_token_id': 151645, 'bos_token_id': None}",
            "{'learning_rate': 2e-05, 'num_train_epochs': 3}",
        ] {
            assert_eq!(report(none), None, "{none}");
        }
    }
}
