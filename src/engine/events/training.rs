//! Training runs that become slow or stand still, and that do so no longer.

use super::{EventKind, Journal, Severity};
use crate::model::moment::Moment;
use crate::model::pool::Verdicts;
use crate::model::training::{SlowCause, TrainingRun};
use crate::units::Seconds;

impl Journal {
    /// Bad news with what the GPUs do at the time; if that shows no cause, it is said.
    pub(super) fn note_runs(&mut self, at: Moment, verdicts: &Verdicts) {
        self.runs.retain(|name, _| verdicts.training.iter().any(|run| run.run == *name));
        for run in &verdicts.training {
            let mut told = self.runs.get(&run.run).copied().unwrap_or_default();
            if let Ok(slow) = run.pace.slow {
                self.note_pace(at, run, slow, &mut told);
            }
            if let Ok(stalled) = run.stalled
                && stalled != told.stalled
            {
                told.stalled = stalled;
                let (severity, evidence) = stall(run, stalled);
                self.push(at, EventKind::RunStalled, severity, "training", evidence);
            }
            self.runs.insert(run.run.clone(), told);
        }
    }

    /// A cause that can be told only after minutes is told then.
    fn note_pace(&mut self, at: Moment, run: &TrainingRun, slow: bool, told: &mut ToldRun) {
        let (was, named) = (told.slow, told.named);
        told.slow = slow;
        told.named = slow && (named || !run.causes.is_empty());
        let name = &run.run;
        let (severity, evidence) = match (was, slow) {
            (false, true) => (Severity::Warning, slowed(run)),
            (true, false) => {
                let lost = run.lost;
                (Severity::Info, format!("{name}: back at its own pace; {lost} lost so far"))
            }
            (true, true) if told.named && !named => {
                (Severity::Warning, format!("{name}: it is slow, and {}", why(run)))
            }
            _ => return,
        };
        self.push(at, EventKind::RunSlow, severity, "training", evidence);
    }
}

/// What was told of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToldRun {
    slow: bool,
    /// Whether a cause was named.
    named: bool,
    stalled: bool,
}

fn stall(run: &TrainingRun, stalled: bool) -> (Severity, String) {
    let name = &run.run;
    if !stalled {
        return (Severity::Info, format!("{name}: steps come again"));
    }
    let silent = run.last_step.map(|age| age.to_string()).unwrap_or_default();
    let base = run.pace.baseline.map(|Seconds(s)| format!("{s:.3} s")).unwrap_or_default();
    let evidence = format!(
        "{name}: no step for {silent}, {base} in its own steady minutes; it stands still, or has ended"
    );
    (Severity::Warning, evidence)
}

fn slowed(run: &TrainingRun) -> String {
    let told = |seconds: Option<Seconds>| {
        seconds.map(|Seconds(s)| format!("{s:.3} s")).unwrap_or_default()
    };
    let (step, base) = (told(run.pace.step.ok()), told(run.pace.baseline.ok()));
    let ratio = run.slow.map(|s| format!(" ({:.2} times)", s.ratio)).unwrap_or_default();
    format!(
        "{}: a step takes {step}, {base} in its own steady minutes{ratio}; {}",
        run.run,
        why(run)
    )
}

/// What makes it slow, as far as it is to be told.
fn why(run: &TrainingRun) -> String {
    let told = |(cause, evidence): &(SlowCause, String)| format!("{}: {evidence}", cause.as_str());
    let causes: Vec<String> = run.causes.iter().map(told).collect();
    if causes.is_empty() { "no cause is seen".to_owned() } else { causes.join("; ") }
}
