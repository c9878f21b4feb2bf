//! Training runs in the terminal.

use super::super::status::{CausePart, Figure, RunPart, Status};
use super::Written;
use crate::model::source::SourceState;
use crate::units::Seconds;
use std::fmt::Write;

/// One line a run.
pub(super) fn training(out: &mut String, status: &Status) -> Written {
    let well = SourceState::Ok.as_str();
    let mut unread = status.training_logs.iter().filter(|log| log.state != well).peekable();
    if status.training.is_empty() && unread.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "Training")?;
    for run in &status.training {
        writeln!(out, "  {:<14} {}", run.run, told(run))?;
        for CausePart { cause, evidence } in &run.causes {
            writeln!(out, "  {:<14} {cause}: {evidence}", "")?;
        }
        if let Some(remark) = &run.remark {
            writeln!(out, "  {:<14} note: {remark}", "")?;
        }
    }
    for log in unread {
        writeln!(out, "  {:<14} its log cannot be read ({})", log.run, log.state)?;
    }
    writeln!(out)
}

/// When its last step was, where that is worth a word.
fn silence(run: &RunPart) -> String {
    let Figure::Value(age) = run.last_step_seconds else { return String::new() };
    match run.stalled {
        Figure::Value(true) => {
            format!("; STALLED or ended: no step for {}", Seconds(age))
        }
        _ => format!("; last step {} ago", Seconds(age)),
    }
}

fn told(run: &RunPart) -> String {
    let number = run.step.map(|number| format!("step {number}, ")).unwrap_or_default();
    let pace = match (&run.step_seconds, &run.baseline_seconds) {
        (Figure::Missing { missing }, _) => {
            return format!("{number}no step time ({missing}){}", silence(run));
        }
        (Figure::Value(step), Figure::Missing { .. }) => {
            format!("{step:.3} s each; its own pace is not known yet")
        }
        (Figure::Value(step), Figure::Value(base)) => {
            format!("{step:.3} s each, {base:.3} s in its own steady minutes")
        }
    };
    let slow = match run.ratio {
        Some(ratio) => format!(": SLOW, {ratio:.2} times as long"),
        None => String::new(),
    };
    let what = if run.stretches == 1 { "stretch or stall" } else { "stretches or stalls" };
    let lost = if run.stretches > 0 {
        format!("; {} lost in {} slow {what}", Seconds(run.lost_seconds), run.stretches)
    } else {
        String::new()
    };
    format!("{number}{pace}{slow}{lost}{}", silence(run))
}
