//! The kernel's log in captures and recordings: facts, as lines made anew. The kernel's own lines have pids,
//! addresses and names of hosts.
//!
//! A line of the section is `1789000007.250 x 16 TEXT`: seconds since 1970 (`-` where they are not known), how often it
//! came, and a text that the reader of a live machine makes the same facts of.

use crate::model::kernel_log::{Message, MessageKind, Messages};
use crate::model::reading::{Missing, Reading};
use crate::sources::kernel_log::{Tally, written};
use std::collections::BTreeMap;
use std::time::Duration;

/// The title of the section.
pub(super) const SECTION: &str = "kernel_log";
/// More lines of a text are a slip of the pen.
const MAX_TIMES: u64 = 1_000_000_000;

/// A line, as often as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// When, since 1970.
    pub at: Reading<Duration>,
    /// How often.
    pub times: u64,
    /// What it says.
    pub text: String,
}

impl Fact {
    /// Tells it as something that was there before.
    pub(super) fn tell(&self, tally: &mut Tally) {
        tally.take(&self.text, self.at, true, self.times);
    }

    /// As a line of the section.
    pub(super) fn line(&self) -> String {
        let at = self.at.map_or_else(|_| "-".to_owned(), |at| format!("{:.3}", at.as_secs_f64()));
        format!("{at} x {} {}\n", self.times, self.text)
    }
}

/// `[x N] TEXT`.
pub(super) fn counted(text: &str) -> Result<(u64, String), String> {
    let rest = text.trim();
    let (times, text) = match rest.strip_prefix("x ") {
        Some(counted) => {
            let counted = counted.trim_start();
            let (times, text) = counted.split_once(' ').unwrap_or((counted, ""));
            let number = times.parse().ok().filter(|n| (1..=MAX_TIMES).contains(n));
            let expected =
                || format!("expected a whole number from 1 behind \"x\", found {times:?}");
            (number.ok_or_else(expected)?, text.trim())
        }
        None => (1, rest),
    };
    if text.is_empty() {
        return Err("expected a line of the kernel's log, found nothing".to_owned());
    }
    Ok((times, text.to_owned()))
}

/// The lines of the section whose title is on this line.
pub(super) fn section(number: usize, body: &[&str]) -> Result<Vec<Fact>, (usize, String)> {
    let mut facts = Vec::new();
    for (i, line) in body.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let here = |what: String| (number + 1 + i, what);
        let (at, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let at = match at {
            "-" => Err(Missing::NotAvailable),
            seconds => {
                let time = seconds.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                let expected =
                    || format!("expected seconds since 1970 or \"-\", found {seconds:?}");
                Ok(time.ok_or_else(|| here(expected()))?)
            }
        };
        let (times, text) = counted(rest).map_err(here)?;
        facts.push(Fact { at, times, text });
    }
    Ok(facts)
}

/// What was written down of a log that goes on.
#[derive(Debug, Default)]
pub struct Diary {
    counts: [u64; MessageKind::COUNT],
    /// Entries that may still grow, and how often each was written down.
    entries: BTreeMap<u64, u64>,
}

impl Diary {
    /// Of a log of which so much is written down already.
    #[must_use]
    pub fn after(messages: Option<&Messages>) -> Self {
        Self { counts: messages.map(|m| m.counts).unwrap_or_default(), entries: BTreeMap::new() }
    }

    /// What has come since the last time, oldest first.
    pub fn take(&mut self, messages: &Messages) -> Vec<Fact> {
        let counts = std::mem::replace(&mut self.counts, messages.counts);
        let mut left: [u64; MessageKind::COUNT] =
            std::array::from_fn(|kind| messages.counts[kind].saturating_sub(counts[kind]));
        let known = std::mem::take(&mut self.entries);
        let mut told = Vec::new();
        // The newest first: what is written down already is older.
        for entry in messages.latest.iter().rev() {
            self.entries.insert(entry.number, entry.count);
            let before = known.get(&entry.number).copied().unwrap_or_default();
            let left = &mut left[entry.message.kind as usize];
            let new = entry.count.saturating_sub(before).min(*left);
            if new > 0 {
                *left -= new;
                told.extend(facts(&entry.message, entry.at, new).rev());
            }
        }
        // Those whose entries were forgotten came before the others.
        for (kind, left) in MessageKind::ALL.iter().zip(left).filter(|(_, left)| *left > 0) {
            let message = Message { kind: *kind, number: None, name: None, victim: None };
            told.extend(facts(&message, Err(Missing::NotAvailable), left).rev());
        }
        told.reverse();
        told
    }
}

fn facts(
    message: &Message,
    at: Reading<Duration>,
    times: u64,
) -> impl DoubleEndedIterator<Item = Fact> + use<> {
    written(message).into_iter().map(move |text| Fact { at, times, text })
}
