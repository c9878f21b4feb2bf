//! Training runs of a scenario: it says how long a step takes, and steps come as a log would tell them.

use crate::model::moment::Moment;
use crate::model::snapshot::Snapshot;
use crate::model::training::{LogFormat, Step};
use crate::units::Seconds;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Steps that are kept for those who look late, and that one second has at most.
const KEPT: usize = 64;
const MOST: u32 = 1000;

/// The runs by their names.
#[derive(Default)]
pub(super) struct Runs {
    runs: BTreeMap<String, Run>,
    before: Option<Moment>,
}

#[derive(Default)]
struct Run {
    number: u64,
    /// How much of the next step is done.
    done: f64,
    latest: Vec<Step>,
}

impl Runs {
    /// Lets the runs of a snapshot go on up to its time. One whose step has no time makes no step.
    pub(super) fn go(&mut self, now: &mut Snapshot, boots: usize) {
        let before = self.before.replace(now.at);
        let passed = before.map_or(0.0, |before| now.at.since(before).as_secs_f64());
        for log in now.training.iter_mut().flatten() {
            let run = self.runs.entry(log.run.clone()).or_default();
            if let Ok(Seconds(each)) = log.step_seconds
                && each > 0.0
            {
                run.on(now.at, passed, each);
            }
            log.file = boots as u64 + 1;
            (log.format, log.taken) = (Ok(LogFormat::JsonLines), run.number);
            (log.latest, log.caught_up) = (Arc::new(run.latest.clone()), true);
        }
    }
}

impl Run {
    fn on(&mut self, at: Moment, passed: f64, each: f64) {
        self.done += passed / each;
        for _ in 0..MOST {
            if self.done < 1.0 {
                break;
            }
            self.done -= 1.0;
            self.number += 1;
            let since = Duration::try_from_secs_f64(self.done * each).unwrap_or_default();
            let wall = Some(at.wall.saturating_sub(since));
            self.latest.push(Step { wall, number: Some(self.number), ..Step::default() });
        }
        self.latest.drain(..self.latest.len().saturating_sub(KEPT));
    }
}
