//! The checks, for a person and as JSON.

use super::super::columns::wrapped;
use super::Look;
use crate::model::readiness::{Level, Readiness};
use serde_json::{Value, json};
use std::fmt::Write;

/// Changes when a reader of the JSON would have to.
const FORMAT: u32 = 1;
/// Where evidence and remedies begin.
const INDENT: usize = 25;

pub(super) fn text(look: &Look) -> String {
    let mut out = format!("Before a run on {}\n\n", look.of);
    for finding in &look.findings {
        let head = format!("{:<8} {:<15} ", finding.level.as_str(), finding.check);
        out.push_str(&wrapped(&head, INDENT, &finding.evidence));
        if let Some(remedy) = &finding.remedy {
            out.push_str(&wrapped(&format!("{:INDENT$}to do: ", ""), INDENT + 7, remedy));
        }
    }
    let count = |level| look.findings.iter().filter(|finding| finding.level == level).count();
    let words: Vec<String> =
        Level::ALL.iter().map(|l| format!("{} {}", count(*l), l.as_str())).collect();
    let readiness = look.readiness();
    let says = match readiness {
        // What cannot be told may be in the way all the same.
        Readiness::Ready if count(Level::Unknown) > 0 => {
            "Nothing of what can be told is in the way."
        }
        _ => readiness.describe(),
    };
    let _ = writeln!(out, "\n{}: {}\n{says}", readiness.as_str(), words.join(", "));
    out
}

pub(super) fn json(look: &Look) -> String {
    let each = look.findings.iter().map(|finding| {
        json!({
            "check": finding.check,
            "level": finding.level.as_str(),
            "evidence": finding.evidence,
            "remedy": finding.remedy,
        })
    });
    let document = json!({
        "format": FORMAT,
        "of": look.of,
        "verdict": look.readiness().as_str(),
        "waited_seconds": look.waited.as_secs_f64(),
        "checks": each.collect::<Value>(),
    });
    format!("{document:#}\n")
}
