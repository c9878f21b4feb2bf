//! A training run, as a part of the status document.

use super::Figure;
use crate::model::training::TrainingRun;
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

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
    /// How many times as long a step takes, while it is.
    pub ratio: Option<f64>,
    /// Slow stretches so far.
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
            ratio: run.slow.map(|stretch| stretch.ratio),
            stretches: run.stretches,
            lost_seconds: run.lost.0,
        }
    }
}
