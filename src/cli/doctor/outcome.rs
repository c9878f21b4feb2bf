//! What a check comes to.

use super::{Check, REPORT_FILE};
use crate::model::reading::{Missing, Reading};

/// Whether the machine is what it was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is.
    Pass,
    /// It is not. A find that deserves a report.
    Differs,
    /// Not to be told, here or now.
    Unknown,
}

impl Verdict {
    pub(super) const ALL: [Self; 3] = [Self::Pass, Self::Differs, Self::Unknown];

    /// Its word in the output.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Differs => "differs",
            Self::Unknown => "unknown",
        }
    }
}

/// A verdict and the figures that it rests on.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    verdict: Verdict,
    found: String,
}

/// A judgement that may end early, for want of a reading: both sides count.
pub(super) type Judged = Result<Outcome, Outcome>;

impl Outcome {
    pub(super) fn pass(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Pass, found: found.into() }
    }

    pub(super) fn differs(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Differs, found: found.into() }
    }

    pub(super) fn unknown(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, found: found.into() }
    }

    /// Pass or differs.
    pub(super) fn of(as_expected: bool, found: impl Into<String>) -> Self {
        if as_expected { Self::pass(found) } else { Self::differs(found) }
    }
}

/// A reading, or the end of the judgement: an answer that was taken for impossible is a find, every other
/// reason leaves the question open.
pub(super) fn need<T>(what: &str, reading: Reading<T>) -> Result<T, Outcome> {
    reading.map_err(|reason| match reason {
        Missing::Malformed => {
            Outcome::differs(format!("{what}: an answer that was taken for impossible"))
        }
        reason => Outcome::unknown(format!("{what}: {}", reason.as_str())),
    })
}

/// One row of the output.
pub(super) struct Row {
    pub(super) check: &'static str,
    pub(super) expected: &'static str,
    pub(super) because: &'static str,
    outcome: Outcome,
}

impl Row {
    pub(super) fn new(check: &Check, outcome: Outcome) -> Self {
        Self { check: check.name, expected: check.expected, because: check.because, outcome }
    }

    pub(super) const fn verdict(&self) -> Verdict {
        self.outcome.verdict
    }

    pub(super) fn found(&self) -> &str {
        &self.outcome.found
    }

    /// What to do about it.
    pub(super) fn advice(&self) -> Option<String> {
        (self.verdict() == Verdict::Differs)
            .then(|| format!("please report it, and attach {REPORT_FILE} (see the end)"))
    }
}
