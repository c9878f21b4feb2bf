//! What may have made a stretch of a run slow: one table for samples that were taken then and for a machine
//! that is watched.
//!
//! A cause is named only where it shows in the stretch and not as much in the run's own steady minutes;
//! otherwise nothing is.

mod contended;

use crate::model::throttle::{Throttle, ThrottleState};
use crate::model::training::{SlowCause, TrainingRun};
use crate::thresholds::Thresholds;
use crate::units::{Hertz, Ratio};
pub(super) use contended::{Contended, Looks};

/// What is known of the box in a slow stretch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// How many times as long a step took.
    pub ratio: f64,
    /// What the signature of heat rests on, where it held for long enough or a thermal reason was there.
    pub hot: Option<String>,
    /// Whether a thermal reason was there.
    pub reason: bool,
    /// How much warmer than in the steady minutes, in degrees.
    pub warmer: f64,
    /// The clock of the steady minutes, and what it is lower by.
    pub then: Option<Hertz>,
    pub lower: Option<f64>,
    /// What a power fault rests on, where it held for long enough and not before.
    pub fault: Option<String>,
    /// The same of a GPU that waits.
    pub stalled: Option<String>,
    /// The clock cap.
    pub cap: Option<Hertz>,
    /// What it rests on that jobs did not fit together, where that held for the larger part and not before.
    pub contended: Option<String>,
}

type Row = (SlowCause, fn(&Facts, &Thresholds) -> Option<String>);

/// Every cause, and what shows it.
const CAUSES: [Row; SlowCause::ALL.len()] = [
    (SlowCause::Heat, heat),
    (SlowCause::PowerDelivery, |facts, _| facts.fault.clone()),
    (SlowCause::Stalled, |facts, _| facts.stalled.clone()),
    (SlowCause::ClockCap, cap),
    (SlowCause::Contention, |facts, _| facts.contended.clone()),
];

/// The causes that the facts show, with the evidence.
pub(super) fn named(facts: &Facts, t: &Thresholds) -> Vec<(SlowCause, String)> {
    let rows = CAUSES.iter();
    rows.filter_map(|(cause, shows)| Some((*cause, shows(facts, t)?))).collect()
}

/// Heat explains a stretch when the signature or a thermal reason was there, and with it a clock that is lower
/// by enough to explain some of it. Where no clock was noted, the signature must be new, and so must be the
/// temperature.
fn heat(facts: &Facts, t: &Thresholds) -> Option<String> {
    let evidence = facts.hot.as_ref()?;
    match facts.lower {
        Some(lower) if lower > 0.0 && lower < 1.0 => {
            let explains = (1.0 / (1.0 - lower) - 1.0) / (facts.ratio - 1.0).max(f64::MIN_POSITIVE);
            let (lower, part) = (Ratio(lower), Ratio(explains.min(1.0)));
            let says = format!(
                "{evidence}; clock {lower} lower than in the steady minutes, which explains about {part} of it"
            );
            (explains >= t.run_cause_explains.0).then_some(says)
        }
        None if facts.reason || facts.warmer >= t.climb_from.0 => Some(format!(
            "{evidence}; {:.1} °C warmer than in the steady minutes; clocks were not noted, so how much it explains is not known",
            facts.warmer
        )),
        _ => None,
    }
}

fn cap(facts: &Facts, t: &Thresholds) -> Option<String> {
    let (cap, then, lower) = (facts.cap?, facts.then?, Ratio(facts.lower?));
    let below = cap.0 <= then.0 * (1.0 - t.run_clock_lower.0);
    below.then(|| format!("SM clock stays at {cap}, {lower} below {then}"))
}

/// What the GPUs and the jobs of a machine that is watched show of a run that is slow now. The steady minutes
/// are those of the GPU's job, and for the jobs those of the run, if they were watched.
pub(super) fn live(
    run: &TrainingRun,
    gpus: &[Throttle],
    contended: Option<String>,
    t: &Thresholds,
) -> Vec<(SlowCause, String)> {
    let Some(slow) = run.slow else { return Vec::new() };
    let several = gpus.len() > 1;
    let of = |gpu: &Throttle| {
        let told = |state: ThrottleState| (gpu.state() == state).then(|| gpu.evidence.clone());
        let reason = gpu.thermal_share.is_ok_and(|Ratio(share)| share >= t.event_share.0);
        let hot = gpu.state() == ThrottleState::Thermal || gpu.signature == Ok(true) || reason;
        let base = gpu.baseline.ok();
        let then = base.map(|base| base.clock);
        let clock = gpu.minute.clock.ok();
        let facts = Facts {
            ratio: slow.ratio,
            hot: hot.then(|| gpu.evidence.clone()),
            reason,
            // How warm the job's first minutes were is not kept.
            warmer: 0.0,
            then,
            lower: clock.zip(then).map(|(now, then)| 1.0 - now.0 / then.0),
            fault: told(ThrottleState::PowerDelivery),
            stalled: told(ThrottleState::StalledBusy),
            cap: gpu.cap.ok(),
            // The jobs are those of the box, not of one GPU.
            contended: None,
        };
        let which = if several { format!("GPU {}: ", gpu.index) } else { String::new() };
        let name = move |(cause, evidence)| (cause, format!("{which}{evidence}"));
        named(&facts, t).into_iter().map(name)
    };
    let of_the_box = named(&Facts { contended, ..Facts::default() }, t);
    gpus.iter().flat_map(of).chain(of_the_box).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            ratio: 1.5,
            then: Some(Hertz(2.4e9)),
            lower: Some(0.3),
            hot: Some("hot".to_owned()),
            cap: Some(Hertz(1.68e9)),
            ..Facts::default()
        }
    }

    fn names(facts: &Facts) -> Vec<SlowCause> {
        named(facts, &Thresholds::default()).into_iter().map(|(cause, _)| cause).collect()
    }

    /// A lower clock is heat's doing only when it explains some of it, and a cap's only when it is one.
    #[test]
    fn a_clock_that_is_what_it_was_is_no_cause() {
        assert_eq!(names(&facts()), [SlowCause::Heat, SlowCause::ClockCap]);
        let same = Facts { lower: Some(0.0), cap: Some(Hertz(2.4e9)), ..facts() };
        assert_eq!(names(&same), []);
        // 5 % less clock for steps that take 50 % longer.
        assert_eq!(names(&Facts { lower: Some(0.05), cap: None, ..facts() }), []);
        assert_eq!(names(&Facts { hot: None, ..facts() }), [SlowCause::ClockCap]);
        // Jobs that fight stand beside the others, and for none of them.
        let fought = Facts { contended: Some("jobs".to_owned()), ..facts() };
        assert_eq!(names(&fought), [SlowCause::Heat, SlowCause::ClockCap, SlowCause::Contention]);
        let untold = Facts { lower: None, reason: true, ..facts() };
        assert_eq!(names(&untold), [SlowCause::Heat]);
    }
}
