//! The unit of truth: one snapshot with everything derived from it. Exports read frames only.

use super::event::Event;
use super::moment::Moment;
use super::pool::Verdicts;
use super::push::Exports;
use super::reading::Reading;
use super::snapshot::Snapshot;
use super::source::{Lane, Source, SourceState};
use crate::thresholds::Thresholds;
use std::sync::Arc;
use std::time::Duration;

/// How one source is doing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SourceHealth {
    /// Its state; none before it was read for the first time.
    pub state: Option<SourceState>,
    /// How long the last read took.
    pub duration: Option<Duration>,
    /// Reads that failed since the exporter started.
    pub errors: u64,
    /// What the last failure said, while the state is not `ok`.
    pub message: Option<Arc<str>>,
}

/// How one lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LaneHealth {
    /// Rounds finished.
    pub ticks: u64,
    /// Rounds that did not take place because an earlier one was still running.
    pub missed: u64,
    /// When the last round finished.
    pub last: Option<Moment>,
    /// The source that it has been waiting for longer than it should.
    pub stuck_on: Option<Source>,
}

/// Health of sources and lanes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Health {
    /// By [`Source::index`].
    pub sources: [SourceHealth; Source::COUNT],
    /// In the order of `Lane::ALL`.
    pub lanes: [LaneHealth; Lane::ALL.len()],
}

/// What is known about the boot before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Whether the box went down while the exporter was running and had not been told to stop.
    /// Missing without a state directory or on the first boot that the exporter sees.
    pub unclean: Reading<bool>,
    /// When the exporter last noted that the earlier boot was alive, seconds since 1970.
    pub previous_seen: Reading<u64>,
}

/// The exporter itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exporter {
    /// Its version.
    pub version: &'static str,
    /// The commit it was built from, where the build knew it.
    pub revision: &'static str,
    /// When it started.
    pub started: Moment,
}

/// One frame. Made once a tick, never changed, shared by all who print it.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Position since the exporter started, from 1.
    pub number: u64,
    /// What was read.
    pub snapshot: Snapshot,
    /// What follows from it.
    pub verdicts: Verdicts,
    /// The numbers that decided.
    pub thresholds: Thresholds,
    /// How the sources and lanes are doing.
    pub health: Health,
    /// The boot before this one.
    pub boot: Boot,
    /// The exporter.
    pub exporter: Exporter,
    /// What it has sent to collectors.
    pub exports: Exports,
    /// The title of the scenario that is replayed, if this is no live machine.
    pub replay: Option<Arc<str>>,
    /// What happened lately, oldest first.
    pub events: Arc<Vec<Event>>,
}
