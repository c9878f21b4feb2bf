//! Training runs that become slow, and that are so no longer.

use super::{EventKind, Journal, Severity};
use crate::model::moment::Moment;
use crate::model::pool::Verdicts;
use crate::model::throttle::ThrottleState;
use crate::model::training::TrainingRun;
use crate::units::Seconds;

impl Journal {
    /// Bad news with what the GPUs do at the time: a state in which something holds one back may be the
    /// cause; if there is none, that is said.
    pub(super) fn note_runs(&mut self, at: Moment, verdicts: &Verdicts) {
        self.runs.retain(|name, _| verdicts.training.iter().any(|run| run.run == *name));
        for run in &verdicts.training {
            let Ok(slow) = run.pace.slow else { continue };
            let was = self.runs.insert(run.run.clone(), slow).unwrap_or_default();
            if slow == was {
                continue;
            }
            let (severity, evidence) = if slow {
                (Severity::Warning, slowed(run, verdicts))
            } else {
                let lost = run.lost;
                let name = &run.run;
                (Severity::Info, format!("{name}: back at its own pace; {lost} lost so far"))
            };
            self.push(at, EventKind::RunSlow, severity, "training", evidence);
        }
    }
}

fn slowed(run: &TrainingRun, verdicts: &Verdicts) -> String {
    let told = |seconds: Option<Seconds>| {
        seconds.map(|Seconds(s)| format!("{s:.3} s")).unwrap_or_default()
    };
    let (step, base) = (told(run.pace.step.ok()), told(run.pace.baseline.ok()));
    let ratio = run.slow.map(|s| format!(" ({:.2} times)", s.ratio)).unwrap_or_default();
    let held = |state: ThrottleState| {
        matches!(
            state,
            ThrottleState::Thermal | ThrottleState::PowerDelivery | ThrottleState::StalledBusy
        )
    };
    let causes: Vec<String> = verdicts
        .throttle
        .iter()
        .filter(|gpu| held(gpu.state()))
        .map(|gpu| format!("GPU {} is {}", gpu.index, gpu.state().as_str()))
        .collect();
    let why = if causes.is_empty() { "no cause is seen".to_owned() } else { causes.join(", ") };
    format!("{}: a step takes {step}, {base} in its own steady minutes{ratio}; {why}", run.run)
}
