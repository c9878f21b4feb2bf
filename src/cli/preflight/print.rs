//! The checks, for a person and as JSON.

use super::super::columns::{Tone, wrapped};
use super::{Finding, Look};
use crate::model::readiness::{Level, Readiness};
use serde_json::{Value, json};
use std::fmt::Write;

/// Changes when a reader of the JSON would have to.
const FORMAT: u32 = 1;
/// Where evidence and remedies begin.
const INDENT: usize = 25;

const fn tone(level: Level) -> Tone {
    match level {
        Level::Pass => Tone::Good,
        Level::Warn => Tone::Near,
        Level::Fail => Tone::Bad,
        Level::Unknown => Tone::Unknown,
    }
}

/// What is in the way first, then what is well, and what cannot be told last: those with one reason on one line.
const ORDER: [Level; Level::ALL.len()] = [Level::Fail, Level::Warn, Level::Pass, Level::Unknown];

pub(super) fn text(look: &Look, colour: bool) -> String {
    let mut out = format!("Before a run on {}\n\n", look.of);
    for level in ORDER {
        let mut each: Vec<(String, &Finding)> = Vec::new();
        for finding in look.findings.iter().filter(|finding| finding.level == level) {
            let name = finding.check.replace('_', " ");
            match each
                .iter_mut()
                .find(|(_, other)| level == Level::Unknown && other.evidence == finding.evidence)
            {
                Some((names, _)) => *names = format!("{names}, {name}"),
                None => each.push((name, finding)),
            }
        }
        for (names, finding) in each {
            out.push_str(&lines(level, &names, finding, colour));
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
    let verdict = match readiness {
        Readiness::Ready => Tone::Good,
        Readiness::Slow => Tone::Near,
        Readiness::Blocked => Tone::Bad,
    };
    let verdict = verdict.paint(readiness.as_str(), colour);
    let _ = writeln!(out, "\n{verdict}: {}\n{says}", words.join(", "));
    out
}

/// A finding: its level, what was looked at, what was seen, and what to do about it.
fn lines(level: Level, names: &str, finding: &Finding, colour: bool) -> String {
    let head = format!("{:<8} {names:<15} ", level.as_str());
    // Names that are longer than their column have a line of their own.
    let mut out = if head.chars().count() > INDENT {
        format!("{}\n{}", head.trim_end(), wrapped(&" ".repeat(INDENT), INDENT, &finding.evidence))
    } else {
        wrapped(&head, INDENT, &finding.evidence)
    };
    if let Some(remedy) = &finding.remedy {
        out.push_str(&wrapped(&format!("{:INDENT$}to do: ", ""), INDENT + 7, remedy));
    }
    out.replacen(level.as_str(), &tone(level).paint(level.as_str(), colour), 1)
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
