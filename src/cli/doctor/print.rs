//! The rows, for a person and as JSON.

use super::observed::Observed;
use super::outcome::{Row, Verdict};
use super::{REPORT, VERSION};
use serde::Serialize;
use std::fmt::Write;

/// Changes when a reader of the JSON would have to.
const FORMAT: u32 = 1;
/// Column of a row's further lines.
const INDENT: &str = "                             ";

/// A sentence that ends in how many rows have which verdict.
fn counts(rows: &[Row]) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let words: Vec<String> =
        Verdict::ALL.iter().map(|v| format!("{} {}", count(*v), v.as_str())).collect();
    words.join(", ")
}

pub(super) fn text(observed: &Observed, rows: &[Row]) -> String {
    let mut out = String::new();
    let watched = if observed.recorded {
        "a recorded machine".to_owned()
    } else {
        format!("watched for {:.0} s", observed.time().as_secs_f64())
    };
    let _ = writeln!(out, "gb10-exporter {} doctor: {watched}\n", VERSION.0);
    for row in rows {
        let _ = writeln!(out, "{:<8} {:<19} {}", row.verdict().as_str(), row.check, row.found());
        if let Some(advice) = row.advice() {
            let _ = writeln!(out, "{INDENT}expected: {}", row.expected);
            let _ = writeln!(out, "{INDENT}because:  {}", row.because);
            let _ = writeln!(out, "{INDENT}to do:    {advice}");
        }
    }
    let _ = writeln!(out, "\n{} of {} checks", counts(rows), rows.len());
    let _ = writeln!(out, "To make the file for a report: {REPORT}");
    out
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    version: &'a str,
    revision: &'a str,
    recorded: bool,
    seconds: f64,
    checks: Vec<Line<'a>>,
    /// The command that makes the file for a report.
    report: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    check: &'a str,
    verdict: &'a str,
    found: &'a str,
    expected: &'a str,
    because: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

pub(super) fn json(observed: &Observed, rows: &[Row]) -> String {
    let line = |row| {
        let row: &Row = row;
        Line {
            check: row.check,
            verdict: row.verdict().as_str(),
            found: row.found(),
            expected: row.expected,
            because: row.because,
            advice: row.advice(),
        }
    };
    let document = Document {
        format: FORMAT,
        version: VERSION.0,
        revision: VERSION.1,
        recorded: observed.recorded,
        seconds: observed.time().as_secs_f64(),
        checks: rows.iter().map(line).collect(),
        report: REPORT,
    };
    // Numbers and texts: it cannot fail.
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    format!("{text}\n")
}
