//! The checks, for a person and as JSON.

use super::Look;
use crate::model::readiness::Level;
use serde_json::{Value, json};
use std::fmt::Write;

/// Changes when a reader of the JSON would have to.
const FORMAT: u32 = 1;

pub(super) fn text(look: &Look) -> String {
    let mut out = format!("Before a run on {}\n\n", look.of);
    for finding in &look.findings {
        let _ = writeln!(
            out,
            "{:<8} {:<15} {}",
            finding.level.as_str(),
            finding.check,
            finding.evidence
        );
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(out, "{:24} to do: {remedy}", "");
        }
    }
    let count = |level| look.findings.iter().filter(|finding| finding.level == level).count();
    let words: Vec<String> =
        Level::ALL.iter().map(|l| format!("{} {}", count(*l), l.as_str())).collect();
    let readiness = look.readiness();
    let _ =
        writeln!(out, "\n{}: {}\n{}", readiness.as_str(), words.join(", "), readiness.describe());
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
