//! A training run, as a part of the status document.

use super::Figure;
use crate::model::source::SourceState;
use crate::model::training::{Followed, TrainingRun};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// A training log that is followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogPart {
    /// The run's name: that of the file.
    pub run: String,
    /// How reading it goes, in the words that sources have.
    pub state: String,
}

impl LogPart {
    pub(super) fn of(log: &Followed) -> Self {
        let state = log.state.map_or_else(SourceState::from, |()| SourceState::Ok);
        Self { run: log.run.clone(), state: state.as_str().to_owned() }
    }
}

/// What made a run slow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CausePart {
    /// Which cause.
    pub cause: String,
    /// What shows it.
    pub evidence: String,
}

/// A training run whose log is followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPart {
    /// Its name: that of the file.
    pub run: String,
    /// What its log is.
    pub format: Figure<String>,
    /// Its last step.
    pub step: Option<u64>,
    /// How long a step takes.
    pub step_seconds: Figure<f64>,
    /// How long it took in the run's own steady minutes.
    pub baseline_seconds: Figure<f64>,
    /// Whether it is slow.
    pub slow: Figure<bool>,
    /// How long ago its last report came.
    pub last_step_seconds: Figure<f64>,
    /// Whether it stands still, or has ended without its log telling that.
    pub stalled: Figure<bool>,
    /// How many times as long a step takes, while it is.
    pub ratio: Option<f64>,
    /// What makes it slow, while it is and that is to be told.
    pub causes: Vec<CausePart>,
    /// What must be known of its log, in words.
    pub remark: Option<String>,
    /// Slow stretches and stalls so far.
    pub stretches: u64,
    /// Time lost in them.
    pub lost_seconds: f64,
}

impl RunPart {
    pub(super) fn of(run: &TrainingRun) -> Self {
        Self {
            run: run.run.clone(),
            format: Figure::of(run.format, |format| format.as_str().to_owned()),
            step: run.number,
            step_seconds: Figure::of(run.pace.step, |Seconds(s)| s),
            baseline_seconds: Figure::of(run.pace.baseline, |Seconds(s)| s),
            slow: Figure::of(run.pace.slow, |slow| slow),
            last_step_seconds: Figure::of(run.last_step, |Seconds(s)| s),
            stalled: Figure::of(run.stalled, |stalled| stalled),
            causes: run
                .causes
                .iter()
                .map(|(cause, evidence)| CausePart {
                    cause: cause.as_str().to_owned(),
                    evidence: evidence.clone(),
                })
                .collect(),
            remark: run.remark.map(str::to_owned),
            ratio: run.slow.map(|stretch| stretch.ratio),
            stretches: run.stretches,
            lost_seconds: run.lost.0,
        }
    }
}
