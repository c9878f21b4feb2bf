//! Training runs that are followed.

use super::super::colour;
use super::super::panel::{Lines, Number, Panel, Shelf};
use super::super::query::{Query, of};
use super::super::verdict::{Mapping, Rank, called};
use crate::catalog::links::Panel as Place;
use crate::catalog::metrics::{
    TRAIN_LAST_STEP_AGE_SECONDS, TRAIN_LOG_STATE, TRAIN_LOST_SECONDS_TOTAL, TRAIN_SLOW,
    TRAIN_SLOW_EPISODES_TOTAL, TRAIN_STALLED, TRAIN_STEP_BASELINE_SECONDS, TRAIN_STEP_SECONDS,
};

const NO_LOG: &str = "no training log is followed (--train-log)";

pub(super) fn shelves() -> Vec<Shelf> {
    vec![Shelf::Title("Training runs"), Shelf::Panels(8, vec![steps(), pace(), age()])]
}

fn steps() -> Panel {
    let lost = of(&TRAIN_LOST_SECONDS_TOTAL).rate().sum(&[]);
    Panel::lines(Number::Linked(Place::TrainingSteps), "Time that a step takes", Lines::default())
        .says(
            "The median step of the last minute against the run's own first steady minutes. Up to a sixth longer is \
             normal; from 20 % on for two minutes the run is slow. Look at the dashboard Box for the same time.",
        )
        .when_empty(NO_LOG)
        .wide(10)
        .coloured(vec![("/own pace$/".to_owned(), colour::RATED)])
        .shows(of(&TRAIN_STEP_SECONDS).max(&["run"]), "{{run}}")
        .shows(of(&TRAIN_STEP_BASELINE_SECONDS).max(&["run"]), "{{run}}, own pace")
        .draws(lost, "share of time lost", colour::ORANGE)
}

const FINE: u32 = Rank::Good.floor();
const SLOW: u32 = Rank::Watch.floor();
const STALLED: u32 = Rank::Bad.floor();

/// Whether each run keeps its own pace.
pub(super) fn paces() -> Query {
    let stalled = of(&TRAIN_STALLED).now().coded(1, STALLED).max(&["run"]);
    let slow = of(&TRAIN_SLOW).now().coded(1, SLOW).max(&["run"]);
    let fine = of(&TRAIN_SLOW).now().coded(0, FINE).max(&["run"]);
    stalled.or(&slow).or(&fine)
}

pub(super) fn pace_mappings() -> Vec<Mapping> {
    vec![
        called(FINE, Rank::Good, "its own pace"),
        called(SLOW, Rank::Watch, "slow"),
        called(STALLED, Rank::Bad, "stalled"),
    ]
}

fn pace() -> Panel {
    Panel::states(Number::Own(120), "Pace of runs")
        .says("Whether each run keeps its own pace. Its own pace is normal; a pause for an evaluation or a checkpoint is in neither of the other states.")
        .when_empty(NO_LOG)
        .wide(7)
        .shows(paces(), "{{run}}")
        .called(pace_mappings())
}

fn age() -> Panel {
    let unread = of(&TRAIN_LOG_STATE).without("state", "ok").sum(&[]);
    Panel::lines(Number::Own(121), "Since the last report", Lines::default())
        .says(
            "How long ago each run reported, how many slow stretches began, and how many logs cannot be read. Reports every few steps are normal; one that has ended goes on growing older.",
        )
        .when_empty(NO_LOG)
        .wide(7)
        .shows(of(&TRAIN_LAST_STEP_AGE_SECONDS).max(&["run"]), "{{run}}")
        .marks(of(&TRAIN_SLOW_EPISODES_TOTAL).increase().sum(&[]), "slow stretches", colour::ORANGE)
        .marks(unread, "logs not read", colour::VERMILION)
}
