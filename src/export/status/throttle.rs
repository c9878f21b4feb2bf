//! How a GPU works, as a part of the status document.

use super::{Figure, Map, map};
use crate::model::pool::Window;
use crate::model::throttle::{
    CapChange, Cost, Episode, Extremes, Throttle, ThrottleState, Unreachable,
};
use crate::units::{Celsius, Hertz, Ratio, Seconds, Watts};
use serde::{Deserialize, Serialize};

/// How a GPU works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThrottlePart {
    /// The driver's index.
    pub gpu: u32,
    /// Its state.
    pub state: String,
    /// The stay in it.
    pub now: EpisodePart,
    /// What it rests on.
    pub evidence: String,
    /// What to do first, where the state asks for something.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// Whether power was flat while the temperature climbed or was high, under load.
    pub signature: Figure<bool>,
    /// What tells that it is at its power limit, if it is.
    pub at_cap_by: Option<String>,
    /// The proofs that heat costs work.
    pub costs: Map<Figure<bool>>,
    /// States that cannot be told, with the inputs that they lack.
    pub unreachable: Map<Vec<String>>,
    /// Means of the last minute.
    pub minute: MinutePart,
    /// The job's first steady minutes.
    pub baseline: Figure<BaselinePart>,
    /// What the last minute's clock is below that.
    pub clock_lost_ratio: Figure<f64>,
    /// Share of time under a thermal reason.
    pub thermal_ratio: Figure<f64>,
    /// Clock cap in force.
    pub clock_cap_hertz: Figure<f64>,
    /// Highest clock under load.
    pub clock_learned_hertz: Figure<f64>,
    /// How often a cap appeared and was lost.
    pub clock_cap_changes: Map<u64>,
    /// Extremes by window.
    pub windows: Map<ExtremesPart>,
    /// Stays by state since the exporter started.
    pub episodes: Map<u64>,
    /// Time in them.
    pub seconds: Map<f64>,
}

/// A stay in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpisodePart {
    /// Which GPU.
    pub gpu: u32,
    /// The state.
    pub state: String,
    /// When it began, seconds since 1970.
    pub start: f64,
    /// When it ended; nothing while it lasts.
    pub end: Option<f64>,
    /// Highest temperature.
    pub peak_celsius: Figure<f64>,
    /// Mean power.
    pub mean_watts: Figure<f64>,
    /// The most that a minute's clock was below the job's own baseline.
    pub clock_lost_ratio: Figure<f64>,
}

/// Means of a minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MinutePart {
    /// Share of time in which a kernel ran.
    pub utilization: Figure<f64>,
    /// Power.
    pub watts: Figure<f64>,
    /// Temperature.
    pub celsius: Figure<f64>,
    /// SM clock.
    pub sm_hertz: Figure<f64>,
}

/// A job's first steady minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaselinePart {
    /// SM clock.
    pub sm_hertz: f64,
    /// Power.
    pub watts: f64,
    /// Utilization.
    pub utilization: f64,
}

/// Extremes within a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtremesPart {
    /// Lowest power.
    pub watts_min: Figure<f64>,
    /// Highest power.
    pub watts_max: Figure<f64>,
    /// Highest temperature.
    pub celsius_max: Figure<f64>,
    /// Lowest SM clock.
    pub sm_hertz_min: Figure<f64>,
    /// Highest SM clock.
    pub sm_hertz_max: Figure<f64>,
}

impl EpisodePart {
    pub(super) fn of(gpu: u32, episode: &Episode) -> Self {
        Self {
            gpu,
            state: episode.state.as_str().to_owned(),
            start: episode.start.wall.as_secs_f64(),
            end: episode.end.map(|end| end.wall.as_secs_f64()),
            peak_celsius: Figure::of(episode.peak, |Celsius(c)| c),
            mean_watts: Figure::of(episode.power, |Watts(w)| w),
            clock_lost_ratio: Figure::of(episode.clock_lost, |Ratio(r)| r),
        }
    }
}

impl ExtremesPart {
    fn of(e: &Extremes) -> Self {
        Self {
            watts_min: Figure::of(e.power_min, |Watts(w)| w),
            watts_max: Figure::of(e.power_max, |Watts(w)| w),
            celsius_max: Figure::of(e.temperature_max, |Celsius(c)| c),
            sm_hertz_min: Figure::of(e.clock_min, |Hertz(h)| h),
            sm_hertz_max: Figure::of(e.clock_max, |Hertz(h)| h),
        }
    }
}

impl ThrottlePart {
    pub(super) fn of(t: &Throttle) -> Self {
        let mut unreachable = Map::<Vec<String>>::new();
        for Unreachable { state, input, reason } in &t.unreachable {
            let what = format!("{}: {}", input.as_str(), reason.as_str());
            unreachable.entry(state.as_str().to_owned()).or_default().push(what);
        }
        Self {
            gpu: t.index,
            state: t.state().as_str().to_owned(),
            now: EpisodePart::of(t.index, &t.now),
            evidence: t.evidence.clone(),
            advice: t.state().advice().map(str::to_owned),
            signature: Figure::of(t.signature, |is| is),
            at_cap_by: t.basis.map(|basis| basis.as_str().to_owned()),
            costs: map(Cost::ALL, Cost::as_str, |i, _| Figure::of(t.costs[i], |is| is)),
            unreachable,
            minute: MinutePart {
                utilization: Figure::of(t.minute.utilization, |Ratio(r)| r),
                watts: Figure::of(t.minute.power, |Watts(w)| w),
                celsius: Figure::of(t.minute.temperature, |Celsius(c)| c),
                sm_hertz: Figure::of(t.minute.clock, |Hertz(h)| h),
            },
            baseline: Figure::of(t.baseline, |base| BaselinePart {
                sm_hertz: base.clock.0,
                watts: base.power.0,
                utilization: base.utilization.0,
            }),
            clock_lost_ratio: Figure::of(t.clock_lost, |Ratio(r)| r),
            thermal_ratio: Figure::of(t.thermal_share, |Ratio(r)| r),
            clock_cap_hertz: Figure::of(t.cap, |Hertz(h)| h),
            clock_learned_hertz: Figure::of(t.learned, |Hertz(h)| h),
            clock_cap_changes: map(CapChange::ALL, CapChange::as_str, |i, _| t.cap_changes[i]),
            windows: map(Window::ALL, Window::as_str, |i, _| ExtremesPart::of(&t.extremes[i])),
            episodes: map(&ThrottleState::COUNTED, ThrottleState::as_str, |i, _| t.episodes[i]),
            seconds: map(&ThrottleState::COUNTED, ThrottleState::as_str, |i, _| {
                let Seconds(seconds) = t.seconds[i];
                seconds
            }),
        }
    }
}
