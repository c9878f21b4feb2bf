//! Lines that look like a format and cannot be read, for a message that helps.

use super::LogError;
use crate::model::training::LogFormat;
use crate::sources::lines::shown;

/// What stands in the lines of each format, and what is read of them.
const SHAPES: [(LogFormat, &[&str], &str); 7] = [
    (
        LogFormat::Megatron,
        &["elapsed time per iteration", "train_step_timing"],
        "`iteration N/M | ... | elapsed time per iteration (ms): 1234.5` or `iteration N/M | ... | train_step_timing in s: 5.47`",
    ),
    (
        LogFormat::Torchtune,
        &["tokens_per_second_per_gpu:", "|Loss:"],
        "`Step N | loss:1.23 ...` or a bar `1|N|Loss: 1.23: 2%| | N/M [00:30<25:00, 1.23s/it]`",
    ),
    (
        LogFormat::LlamaCpp,
        &["eval time =", "train: ["],
        "`eval time = 1234.56 ms / 100 tokens` or `train: [=> ] data=N/M, ..., t=00:00:12`",
    ),
    (
        LogFormat::HuggingFace,
        &["{'loss'", "{'train_runtime'", "{'eval_loss'"],
        "`{'loss': 2.1, ...}` among progress bars `10%| | N/M [01:40<15:00, 1.00s/it]`",
    ),
    (
        LogFormat::JsonLines,
        &["{\"", "{ \""],
        "one JSON object a line with a step's number or time (--step-field, --seconds-field, --time-field name them)",
    ),
    (
        LogFormat::ProgressBar,
        &["%|", "it/s", "s/it"],
        "`10%| | N/M [01:40<15:00, 1.00s/it]`, counted in it, step or batch",
    ),
    (LogFormat::Pattern, &[], "a line in which --step-pattern finds a step or a time"),
];

/// The first line that has a format's marks and no step.
#[derive(Clone, Debug)]
pub(super) struct Lookalike {
    line: u64,
    format: LogFormat,
    found: String,
}

pub(super) fn lookalike(only: Option<LogFormat>, line: u64, text: &str) -> Option<Lookalike> {
    // A prompt's time is no step, and as llama.cpp prints it.
    if text.contains("prompt eval time") {
        return None;
    }
    let formats = SHAPES.iter().filter(|(format, ..)| only.is_none_or(|only| only == *format));
    let mut marked = formats.filter_map(|(format, marks, _)| {
        Some((*format, marks.iter().find_map(|mark| text.find(mark))?))
    });
    let (format, at) = marked.next()?;
    // What is wrong stands behind the mark, which must not be cut off.
    let from = if at > 30 { at } else { 0 };
    Some(Lookalike { line, format, found: shown(&text[from..]) })
}

/// What is read of a format.
fn expected(format: LogFormat) -> &'static str {
    SHAPES.iter().find(|(of, ..)| *of == format).map_or("", |(.., shape)| shape)
}

/// Why a log has no steps.
pub(super) fn no_steps(
    only: Option<LogFormat>,
    lookalike: Option<&Lookalike>,
    first: Option<&str>,
) -> LogError {
    if let Some(Lookalike { line, format, found }) = lookalike {
        let (expected, found) = (expected(*format), found.clone());
        return LogError::Malformed { line: *line, format: *format, expected, found };
    }
    let looked = if let Some(format) = only {
        format!("{}, that is {}", format.as_str(), expected(format))
    } else {
        let lines = |format: &&LogFormat| {
            SHAPES.iter().any(|(of, marks, _)| of == *format && !marks.is_empty())
        };
        LogFormat::ALL.iter().filter(lines).map(|f| f.as_str()).collect::<Vec<_>>().join(", ")
    };
    LogError::NoSteps { looked, first: first.unwrap_or_default().to_owned() }
}
