//! Verdicts as numbers, because Grafana draws numbers: each state of each verdict has one, of its own on
//! every dashboard, and the graver it is the larger it is. The worst of several is then their maximum.

use super::colour::{self, Colour};
use super::query::{INSTANCE, NUMBER, Query, Series, alerts, of, up};
use crate::catalog::Metric;
use crate::catalog::links::Severity;
use crate::catalog::metrics::{
    CONTENTION_STATE, EVICTION_SYMPTOM, POOL_BELOW_RESERVE, POOL_EXHAUSTION_IMMINENT,
    PRESSURE_STATE, SOURCE_STATE, THROTTLE_STATE, WORKLOAD_PHASE,
};
use crate::model::contention::{ContentionState, PressureState};
use crate::model::source::SourceState;
use crate::model::throttle::ThrottleState;
use crate::model::workload::Phase;

/// How grave a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// As it should be.
    Good = 1,
    /// Worth knowing and no fault: what the platform does.
    Known,
    /// Not to be told.
    Untold,
    /// Worth a look.
    Watch,
    /// It costs work.
    Bad,
    /// The box or the job is about to be lost.
    Grave,
}

impl Rank {
    pub(super) const fn colour(self) -> Colour {
        match self {
            Self::Good => colour::GREEN,
            Self::Known => colour::SKY,
            Self::Untold => colour::GREY,
            Self::Watch => colour::YELLOW,
            Self::Bad => colour::ORANGE,
            Self::Grave => colour::VERMILION,
        }
    }

    /// The smallest number of a state of this rank.
    pub(super) const fn floor(self) -> u32 {
        self as u32 * 1000
    }
}

/// What a number is called, and its colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) value: String,
    pub(super) text: String,
    pub(super) colour: Colour,
}

/// A verdict: the states of a state set with their numbers.
pub(super) struct Verdict {
    metric: &'static Metric,
    /// The label that tells the state.
    label: &'static str,
    states: Vec<(&'static str, Rank, u32)>,
}

/// Numbers begin at a hundred of its own for each verdict.
macro_rules! verdict {
    ($name:ident, $metric:ident, $label:literal, $base:literal, $set:ty, $rank:expr) => {
        pub(super) fn $name() -> Verdict {
            let rank: fn($set) -> Rank = $rank;
            let states = <$set>::ALL.iter().zip($base..);
            let states = states.map(|(s, n)| (s.as_str(), rank(*s), rank(*s).floor() + n));
            Verdict { metric: &$metric, label: $label, states: states.collect() }
        }
    };
}

verdict!(throttle, THROTTLE_STATE, "state", 100, ThrottleState, |state| match state {
    ThrottleState::Idle | ThrottleState::Nominal => Rank::Good,
    ThrottleState::AtPowerCap => Rank::Known,
    ThrottleState::HeatingAtCap => Rank::Watch,
    ThrottleState::Thermal | ThrottleState::StalledBusy => Rank::Bad,
    ThrottleState::PowerDelivery => Rank::Grave,
    ThrottleState::Unknown => Rank::Untold,
});

verdict!(contention, CONTENTION_STATE, "state", 200, ContentionState, |state| match state {
    ContentionState::None | ContentionState::Shared => Rank::Good,
    ContentionState::Overcommitted => Rank::Watch,
    ContentionState::Evicting => Rank::Bad,
    ContentionState::Unknown => Rank::Untold,
});

verdict!(pressure, PRESSURE_STATE, "state", 300, PressureState, |state| match state {
    PressureState::Comfortable => Rank::Good,
    PressureState::Tight => Rank::Known,
    PressureState::Reclaiming => Rank::Watch,
    PressureState::Thrashing => Rank::Bad,
    PressureState::Exhausted => Rank::Grave,
    PressureState::Unknown => Rank::Untold,
});

verdict!(source, SOURCE_STATE, "state", 400, SourceState, |state| match state {
    SourceState::Ok => Rank::Good,
    SourceState::NotPresent | SourceState::Disabled => Rank::Untold,
    SourceState::Denied => Rank::Watch,
    SourceState::Failed => Rank::Bad,
    SourceState::Hung => Rank::Grave,
});

verdict!(phase, WORKLOAD_PHASE, "phase", 500, Phase, |state| match state {
    Phase::Serving | Phase::Idle => Rank::Good,
    Phase::Starting | Phase::Loading | Phase::Warming => Rank::Known,
    Phase::Unknown => Rank::Untold,
});

impl Verdict {
    /// The worst state of the chosen boxes, by these labels.
    pub(super) fn worst(&self, by: &[&str]) -> Query {
        self.worst_of(|series| series, by)
    }

    /// The same of some of its series.
    pub(super) fn worst_of(&self, some: impl Fn(Series) -> Series, by: &[&str]) -> Query {
        self.each(some).max(by)
    }

    /// Its numbers, one for each state that holds.
    fn each(&self, some: impl Fn(Series) -> Series) -> Query {
        let each: Vec<String> = self
            .states
            .iter()
            .map(|(state, _, code)| {
                let series = some(of(self.metric)).is(self.label, state);
                format!("{code} * ({} > 0)", series.now().text)
            })
            .collect();
        Query { text: each.join(" or "), unit: NUMBER }
    }

    /// What its numbers are called.
    pub(super) fn mappings(&self) -> Vec<Mapping> {
        let mapping = |(state, rank, code): &(&str, Rank, u32)| called(*code, *rank, state);
        self.states.iter().map(mapping).collect()
    }
}

/// What a number is called: a state's name in words.
pub(super) fn called(code: u32, rank: Rank, state: &str) -> Mapping {
    Mapping { value: code.to_string(), text: state.replace('_', " "), colour: rank.colour() }
}

/// Nothing to see: a band that is hardly there.
pub(super) fn faint(value: &str) -> Mapping {
    Mapping { value: value.to_owned(), text: String::new(), colour: colour::FAINT }
}

const POOL_FINE: u32 = Rank::Good.floor() + 600;
const POOL_BELOW: u32 = Rank::Bad.floor() + 600;
const POOL_IMMINENT: u32 = Rank::Grave.floor() + 600;
const SYMPTOM_NONE: u32 = Rank::Good.floor() + 700;
const SYMPTOM_CONTEXT: u32 = Rank::Known.floor() + 700;
const SYMPTOM_PROVEN: u32 = Rank::Bad.floor() + 700;
const ANSWERS: u32 = Rank::Good.floor() + 800;
const SILENT: u32 = Rank::Grave.floor() + 800;

/// Whether the reserve is broken into, or about to be.
pub(super) fn pool(by: &[&str]) -> Query {
    let fine = of(&POOL_BELOW_RESERVE).now().coded(0, POOL_FINE);
    let below = of(&POOL_BELOW_RESERVE).now().coded(1, POOL_BELOW);
    let imminent = of(&POOL_EXHAUSTION_IMMINENT).now().coded(1, POOL_IMMINENT);
    // Those of one box have the same labels, of which `or` keeps the first.
    imminent.or(&below).or(&fine).max(by)
}

pub(super) fn pool_mappings() -> Vec<Mapping> {
    vec![
        called(POOL_FINE, Rank::Good, "room"),
        called(POOL_BELOW, Rank::Bad, "into the reserve"),
        called(POOL_IMMINENT, Rank::Grave, "running out"),
    ]
}

/// Signs that memory was taken from somebody.
pub(super) fn symptoms(by: &[&str]) -> Query {
    let sign = |proof| of(&EVICTION_SYMPTOM).is("proof", proof).now();
    let none = of(&EVICTION_SYMPTOM).now().coded(0, SYMPTOM_NONE);
    let proven = sign("proven").coded(1, SYMPTOM_PROVEN);
    proven.or(&sign("context").coded(1, SYMPTOM_CONTEXT)).or(&none).max(by)
}

pub(super) fn symptom_mappings() -> Vec<Mapping> {
    vec![
        called(SYMPTOM_NONE, Rank::Good, "no"),
        called(SYMPTOM_CONTEXT, Rank::Known, "seen, proves nothing"),
        called(SYMPTOM_PROVEN, Rank::Bad, "proven"),
    ]
}

/// Whether the exporter answers.
pub(super) fn answers(by: &[&str]) -> Query {
    up().now().coded(0, SILENT).or(&up().now().coded(1, ANSWERS)).max(by)
}

pub(super) fn answer_mappings() -> Vec<Mapping> {
    vec![called(ANSWERS, Rank::Good, "answers"), called(SILENT, Rank::Grave, "no answer")]
}

const NO_ALERT: u32 = Rank::Good.floor() + 900;

const fn severity_rank(severity: Severity) -> Rank {
    match severity {
        Severity::Info => Rank::Known,
        Severity::Warning => Rank::Bad,
        Severity::Critical => Rank::Grave,
    }
}

const fn severity_code(severity: Severity) -> u32 {
    severity_rank(severity).floor() + 900
}

/// The gravest alert that fires, by these labels. Prometheus has nothing where none does.
pub(super) fn gravest_alert(by: &[&str]) -> Query {
    let each = Severity::ALL.iter().map(|severity| {
        let firing = alerts().is("severity", severity.as_str()).now();
        format!("{} * {}", severity_code(*severity), firing.text)
    });
    let text = each.collect::<Vec<_>>().join(" or ");
    Query { text, unit: NUMBER }.max(by)
}

/// The same of each box that is scraped, and that none fires there.
pub(super) fn gravest_alert_of_each_box() -> Query {
    let scraped = up().now().max(&[INSTANCE]);
    let none = Query { text: format!("{NO_ALERT} + 0 * {}", scraped.text), unit: NUMBER };
    gravest_alert(&[INSTANCE]).or(&none)
}

/// The same of all chosen boxes together.
pub(super) fn firing() -> Query {
    let query = gravest_alert(&[]);
    Query { text: format!("{} or vector({NO_ALERT})", query.text), ..query }
}

pub(super) fn alert_mappings() -> Vec<Mapping> {
    let each = Severity::ALL.iter();
    let each = each.map(|s| called(severity_code(*s), severity_rank(*s), s.as_str()));
    each.chain([called(NO_ALERT, Rank::Good, "none")]).collect()
}

/// The worst of everything that is judged.
pub(super) fn worst(by: &[&str]) -> Query {
    let all = [
        throttle().each(|series| series),
        contention().each(|series| series),
        pressure().each(|series| series),
        pool(&[INSTANCE]),
        answers(&[INSTANCE]),
    ];
    let parts: Vec<String> = all.into_iter().map(|query| query.max(by).text).collect();
    // `or` keeps the first of those with equal labels, so each part gets a label of its own.
    let told = parts
        .iter()
        .enumerate()
        .map(|(n, part)| format!("label_replace({part}, \"of\", \"{n}\", \"\", \"\")"));
    let text = told.collect::<Vec<_>>().join(" or ");
    Query { text, unit: NUMBER }.max(by)
}

/// What every number of [`worst`] is called. Of boxes without a fault it matters to nobody which verdict
/// has the largest number, and of one that cannot be told it matters which.
pub(super) fn every_mapping() -> Vec<Mapping> {
    let sets = [
        ("throttle", throttle().mappings()),
        ("jobs", contention().mappings()),
        ("pressure", pressure().mappings()),
        ("pool", pool_mappings()),
        ("exporter", answer_mappings()),
    ];
    let named = sets.into_iter().flat_map(|(name, set)| {
        set.into_iter().map(move |mapping| match mapping.colour {
            good if good == Rank::Good.colour() => Mapping { text: "fine".to_owned(), ..mapping },
            grey if grey == Rank::Untold.colour() => {
                Mapping { text: format!("{name} {}", mapping.text), ..mapping }
            }
            _ => mapping,
        })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_states_have_one_number_and_the_graver_has_the_larger() {
        let more = [source().mappings(), phase().mappings(), symptom_mappings(), alert_mappings()];
        let sets = [every_mapping(), more.concat()];
        let all: Vec<Mapping> = sets.concat();
        let values: BTreeSet<_> = all.iter().map(|m| &m.value).collect();
        assert_eq!(values.len(), all.len());
        for verdict in [throttle(), contention(), pressure(), source(), phase()] {
            for (a, rank_a, code_a) in &verdict.states {
                for (b, rank_b, code_b) in &verdict.states {
                    assert!(rank_a <= rank_b || code_a > code_b, "{a} {b}");
                }
            }
        }
    }
}
