//! Counts of exports, by those who send; each frame takes them over.

use crate::model::push::{ExportResult, Exports, Signal};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Exports by signal and result.
#[derive(Debug, Default)]
pub struct Tally {
    sent: [AtomicBool; Signal::ALL.len()],
    counts: [[AtomicU64; ExportResult::ALL.len()]; Signal::ALL.len()],
}

impl Tally {
    /// A signal is sent: its counts begin.
    pub fn begin(&self, signal: Signal) {
        self.sent[signal as usize].store(true, Relaxed);
    }

    /// One export has ended.
    pub fn count(&self, signal: Signal, result: ExportResult) {
        self.counts[signal as usize][result as usize].fetch_add(1, Relaxed);
    }

    /// The counts as they are.
    pub(super) fn now(&self) -> Exports {
        std::array::from_fn(|signal| {
            let counts = &self.counts[signal];
            let sent = self.sent[signal].load(Relaxed);
            sent.then(|| std::array::from_fn(|result| counts[result].load(Relaxed)))
        })
    }
}
