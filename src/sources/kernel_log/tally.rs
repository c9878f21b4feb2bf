//! What has been said so far: counts for good, the latest entries for those who look in time.

use super::kinds::Parser;
use crate::model::kernel_log::{Entry, LogPlace, Message, MessageKind, Messages};
use crate::model::reading::Reading;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Entries that are kept. A flood of one message is one entry a second.
const KEPT: usize = 128;
/// Different Xid numbers that are kept apart; NVIDIA has about 170.
const MAX_XIDS: usize = 256;
/// The same message within this time adds to its entry.
const TOGETHER: Duration = Duration::from_secs(1);

/// The messages of one boot.
#[derive(Debug)]
pub struct Tally {
    place: LogPlace,
    counts: [u64; MessageKind::COUNT],
    old: [u64; MessageKind::COUNT],
    last: [Option<Duration>; MessageKind::COUNT],
    xids: BTreeMap<u64, u64>,
    entries: VecDeque<Entry>,
    number: u64,
    parser: Parser,
    /// As [`Messages::lost`].
    pub lost: u64,
    /// As [`Messages::overwritten`].
    pub overwritten: u64,
    /// What was told last, while nothing has changed.
    told: Option<Arc<Messages>>,
}

impl Tally {
    /// Nothing so far.
    #[must_use]
    pub const fn new(place: LogPlace) -> Self {
        Self {
            place,
            counts: [0; MessageKind::COUNT],
            old: [0; MessageKind::COUNT],
            last: [None; MessageKind::COUNT],
            xids: BTreeMap::new(),
            entries: VecDeque::new(),
            number: 0,
            parser: Parser { constraint: None, pid: None },
            lost: 0,
            overwritten: 0,
            told: None,
        }
    }

    /// Takes a line of the kernel, as often as it came. `old`: from before the exporter's start.
    pub fn take(&mut self, text: &str, at: Reading<Duration>, old: bool, times: u64) {
        let Some(message) = self.parser.message(text) else { return };
        self.told = None;
        let kind = message.kind as usize;
        let add = |sum: &mut u64| *sum = sum.saturating_add(times);
        add(&mut self.counts[kind]);
        if old {
            add(&mut self.old[kind]);
        }
        self.last[kind] = at.ok().or(self.last[kind]);
        if let (MessageKind::Xid, Some(number)) = (message.kind, message.number)
            && (self.xids.len() < MAX_XIDS || self.xids.contains_key(&number))
        {
            add(self.xids.entry(number).or_default());
        }
        self.enter(message, at, old, times);
    }

    fn enter(&mut self, message: Message, at: Reading<Duration>, old: bool, times: u64) {
        let near = |entry: &Entry| match (entry.at, at) {
            (Ok(then), Ok(now)) => now.abs_diff(then) < TOGETHER,
            _ => false,
        };
        if let Some(entry) = self.entries.back_mut()
            && entry.message == message
            && entry.old == old
            && near(entry)
        {
            entry.count = entry.count.saturating_add(times);
            return;
        }
        self.number += 1;
        let (number, pid) = (self.number, self.parser.pid);
        self.entries.push_back(Entry { number, at, message, count: times, old, pid });
        if self.entries.len() > KEPT {
            self.entries.pop_front();
        }
    }

    /// Lines were lost.
    pub const fn lose(&mut self, lines: u64) {
        self.lost = self.lost.saturating_add(lines);
    }

    /// All of it.
    pub fn told(&mut self) -> Arc<Messages> {
        let counters = (self.lost, self.overwritten);
        match &self.told {
            Some(told) if (told.lost, told.overwritten) == counters => Arc::clone(told),
            _ => {
                let told = Arc::new(Messages {
                    place: self.place,
                    counts: self.counts,
                    old: self.old,
                    last: self.last,
                    xids: self.xids.clone(),
                    lost: self.lost,
                    overwritten: self.overwritten,
                    latest: Arc::new(self.entries.iter().cloned().collect()),
                });
                self.told = Some(Arc::clone(&told));
                told
            }
        }
    }
}
