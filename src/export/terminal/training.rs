//! Training runs in the terminal.

use super::super::status::{Figure, RunPart, Status};
use super::Written;
use crate::units::Seconds;
use std::fmt::Write;

/// One line a run.
pub(super) fn training(out: &mut String, status: &Status) -> Written {
    if status.training.is_empty() {
        return Ok(());
    }
    writeln!(out, "Training")?;
    for run in &status.training {
        writeln!(out, "  {:<14} {}", run.run, told(run))?;
    }
    writeln!(out)
}

fn told(run: &RunPart) -> String {
    let number = run.step.map(|number| format!("step {number}, ")).unwrap_or_default();
    let pace = match (&run.step_seconds, &run.baseline_seconds) {
        (Figure::Missing { missing }, _) => return format!("{number}no step time ({missing})"),
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
    let lost = if run.stretches > 0 {
        format!("; {} lost in {} slow stretches", Seconds(run.lost_seconds), run.stretches)
    } else {
        String::new()
    };
    format!("{number}{pace}{slow}{lost}")
}
