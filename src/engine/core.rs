//! What a tick makes of a snapshot: verdicts, events, a frame. The same for a live machine and for a
//! replayed one.

use super::boots::BootLog;
use super::events::Journal;
use crate::derive::{self, State};
use crate::model::frame::{Boot, Exporter, Frame, Health};
use crate::model::push::Exports;
use crate::model::snapshot::Snapshot;
use crate::thresholds::Thresholds;
use std::sync::Arc;

/// What is remembered from tick to tick.
pub(super) struct Core {
    pub(super) exporter: Exporter,
    /// Boots that were seen.
    pub(super) boots: BootLog,
    /// What the derivations remember.
    pub(super) state: State,
    journal: Journal,
    number: u64,
    /// The title of the scenario that is replayed.
    pub(super) replay: Option<Arc<str>>,
}

impl Core {
    pub(super) fn new(exporter: Exporter) -> Self {
        Self {
            exporter,
            boots: BootLog::default(),
            state: State::default(),
            journal: Journal::default(),
            number: 0,
            replay: None,
        }
    }

    /// One tick.
    pub(super) fn tick(
        &mut self,
        snapshot: Snapshot,
        health: Health,
        boot: Boot,
        exports: Exports,
        thresholds: &Thresholds,
    ) -> Frame {
        let verdicts = derive::derive(&mut self.state, &snapshot, thresholds);
        self.journal.note(&snapshot, &health, &verdicts, boot, thresholds);
        self.number += 1;
        Frame {
            number: self.number,
            snapshot,
            verdicts,
            thresholds: *thresholds,
            health,
            boot,
            exporter: self.exporter,
            exports,
            replay: self.replay.clone(),
            events: self.journal.events(),
        }
    }
}
