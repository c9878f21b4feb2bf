//! Changes of state of a GPU: one line in the log, one entry in the list.

use super::{EventKind, Journal, Severity};
use crate::model::event::Event;
use crate::model::moment::Moment;
use crate::model::throttle::{CapChange, Throttle, ThrottleState, Transition};
use crate::units::{Celsius, Ratio, Seconds, Watts};
use std::collections::BTreeMap;

/// Of each GPU, the last change of state (number and time: one that has come back counts anew) and how often its
/// clock cap has changed.
pub(super) type Noted = BTreeMap<u32, (Option<(u64, Moment)>, [u64; CapChange::ALL.len()])>;

/// How much a state asks of its reader.
const fn severity(state: ThrottleState) -> Severity {
    match state {
        ThrottleState::PowerDelivery => Severity::Error,
        ThrottleState::Thermal | ThrottleState::StalledBusy => Severity::Warning,
        _ => Severity::Info,
    }
}

/// What a healthy box does all day.
const fn usual(state: ThrottleState) -> bool {
    matches!(state, ThrottleState::Idle | ThrottleState::Nominal | ThrottleState::AtPowerCap)
}

impl Journal {
    pub(super) fn note_throttle(&mut self, at: Moment, gpus: &[Throttle]) {
        for gpu in gpus {
            let (noted, caps) = self.throttle.get(&gpu.index).copied().unwrap_or_default();
            let last = gpu.last.as_deref();
            let mark = last.map(|last| (last.number, last.at));
            if let Some(last) = last.filter(|_| mark != noted) {
                self.note_transition(gpu.index, last);
            }
            if let Some((change, cap)) = gpu.cap_changed.filter(|_| gpu.cap_changes != caps) {
                let what = change.as_str();
                let evidence = format!("GPU {}: clock cap of {cap} {what}", gpu.index);
                self.push(at, EventKind::ClockCap, Severity::Info, "gpu", evidence);
            }
            self.throttle.insert(gpu.index, (mark, gpu.cap_changes));
        }
    }

    fn note_transition(&mut self, gpu: u32, transition: &Transition) {
        let Transition { at, ended, to, evidence, .. } = transition;
        // That a GPU is found at work when the exporter starts is no news.
        if transition.number == 1 && ended.state == ThrottleState::Unknown && usual(*to) {
            return;
        }
        let seconds = at.since(ended.start).as_secs();
        let (from, to_state) = (ended.state.as_str(), to.as_str());
        let peak = ended.peak.ok().map(|Celsius(celsius)| format!("{celsius:.1}"));
        let mean = ended.power.ok().map(|Watts(watts)| format!("{watts:.1}"));
        let lost = ended.clock_lost.ok().map(|Ratio(lost)| format!("{lost:.3}"));
        let lasted = Seconds(at.since(ended.start).as_secs_f64());
        let advice = to.advice().map(|advice| format!(". To do: {advice}")).unwrap_or_default();
        let evidence =
            format!("GPU {gpu}: {to_state}, was {from} for {lasted}: {evidence}{advice}");
        let (event, severity) = (EventKind::ThrottleChanged.as_str(), severity(*to));
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    event,
                    subject = "gpu",
                    gpu,
                    from,
                    to = to_state,
                    from_seconds = seconds,
                    from_peak_celsius = peak.as_deref(),
                    from_mean_watts = mean.as_deref(),
                    from_clock_lost_ratio = lost.as_deref(),
                    "{evidence}"
                )
            };
        }
        // A server that gets a request a minute goes to and fro between these: that is for the list, and for
        // the log of who asks for everything.
        let ordinary = usual(ended.state) && usual(*to);
        match severity {
            Severity::Error => log!(error),
            Severity::Warning => log!(warn),
            Severity::Info if ordinary => log!(debug),
            Severity::Info => log!(info),
        }
        self.keep(Event {
            number: 0,
            at: *at,
            kind: EventKind::ThrottleChanged,
            severity,
            subject: "gpu",
            evidence,
            episode: Some((gpu, *ended)),
        });
    }
}
