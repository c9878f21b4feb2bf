//! Which metrics hold what a sample of one GPU and its box needs, for reading them back from a Prometheus.

use super::metrics;
use crate::model::contention::ContentionState;
use crate::model::gpu::{ClockKind, EventReason};
use crate::model::samples::SamplePart;
use crate::model::throttle::ThrottleState;

/// The label that tells GPUs apart.
pub const GPU: &str = "gpu";

/// A metric that is read back.
pub struct Kept {
    /// Its name, as its own row has it.
    pub metric: &'static str,
    /// Whether there is one for each GPU.
    pub of_gpu: bool,
    /// A label and the values of it that are wanted. All, where it is nothing.
    pub only: Option<(&'static str, &'static [&'static str])>,
    /// Whether exactly one of its series is 1 at a time.
    pub one_holds: bool,
    /// The label whose value `part` is told.
    pub detail: Option<&'static str>,
    /// What a series of it is of a sample; nothing for a value that this version does not know.
    pub part: fn(&str) -> Option<SamplePart>,
}

/// Every one.
pub const ROWS: &[Kept] = &[
    Kept {
        metric: metrics::GPU_TEMPERATURE_CELSIUS.name,
        of_gpu: true,
        only: None,
        one_holds: false,
        detail: None,
        part: |_| Some(SamplePart::Temperature),
    },
    Kept {
        metric: metrics::GPU_POWER_WATTS.name,
        of_gpu: true,
        only: None,
        one_holds: false,
        detail: None,
        part: |_| Some(SamplePart::Power),
    },
    Kept {
        metric: metrics::GPU_CLOCK_HERTZ.name,
        of_gpu: true,
        only: Some(("clock", &[ClockKind::Sm.as_str()])),
        one_holds: false,
        detail: None,
        part: |_| Some(SamplePart::Clock),
    },
    Kept {
        metric: metrics::GPU_UTILIZATION_RATIO.name,
        of_gpu: true,
        only: None,
        one_holds: false,
        detail: None,
        part: |_| Some(SamplePart::Utilization),
    },
    Kept {
        metric: metrics::GPU_EVENT_REASON.name,
        of_gpu: true,
        only: None,
        one_holds: false,
        detail: Some("reason"),
        part: |name| {
            let known = EventReason::ALL.iter().find(|reason| reason.as_str() == name);
            known.copied().map(SamplePart::Reason)
        },
    },
    Kept {
        metric: metrics::GPU_EVENT_REASON_SECONDS_TOTAL.name,
        of_gpu: true,
        only: Some(("reason", &[EventReason::SwThermal.as_str(), EventReason::HwThermal.as_str()])),
        one_holds: false,
        detail: None,
        part: |_| Some(SamplePart::ThermalSeconds),
    },
    Kept {
        metric: metrics::POOL_AVAILABLE_BYTES.name,
        of_gpu: false,
        only: None,
        one_holds: false,
        detail: None,
        part: |_| Some(SamplePart::Available),
    },
    Kept {
        metric: metrics::CONTENTION_STATE.name,
        of_gpu: false,
        only: None,
        one_holds: true,
        detail: Some("state"),
        part: |name| {
            let known = ContentionState::ALL.iter().find(|state| state.as_str() == name);
            known.copied().map(SamplePart::Contention)
        },
    },
    Kept {
        metric: metrics::THROTTLE_STATE.name,
        of_gpu: true,
        only: None,
        one_holds: true,
        detail: Some("state"),
        part: |name| {
            let known = ThrottleState::ALL.iter().find(|state| state.as_str() == name);
            known.map(|state| SamplePart::Throttle(state.as_str().to_owned()))
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_back_is_what_is_exported() {
        for kept in ROWS {
            let metric = crate::catalog::all().find(|metric| metric.name == kept.metric);
            let labels = metric.as_ref().unwrap_or_else(|| panic!("{}", kept.metric)).labels;
            let used = kept.only.map(|(label, _)| label).into_iter().chain(kept.detail);
            for label in used {
                assert!(labels.contains(&label), "{} {label}", kept.metric);
            }
            let one = metric.is_some_and(|metric| metric.kind == crate::catalog::Kind::StateSet);
            assert_eq!(one, kept.one_holds, "{}", kept.metric);
            let only = kept.only.iter().map(|(label, _)| *label);
            let known: Vec<&str> = only.chain(kept.detail).chain([GPU]).collect();
            assert_eq!(labels.contains(&GPU), kept.of_gpu, "{}", kept.metric);
            assert!(labels.iter().all(|label| known.contains(label)), "{}", kept.metric);
        }
    }
}
