//! Which boots the exporter has seen, and whether each ended in an orderly way.
//!
//! These boxes freeze without a log line. What is left afterwards is that the exporter was running
//! and was never told to stop. Two limits, stated wherever the figure is shown: an exporter that was
//! killed and not restarted before an orderly reboot looks the same, and one that was stopped by hand
//! cannot vouch for what came after.

use crate::model::frame::Boot;
use crate::model::moment::Moment;
use crate::model::reading::Missing;
use serde::{Deserialize, Serialize};

/// Boots remembered.
const KEPT: usize = 16;
/// How often a living boot is noted. One small write a minute.
const NOTE_EVERY_SECONDS: u64 = 60;

/// One boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The kernel's identity of the boot.
    pub boot_id: String,
    /// When it booted, seconds since 1970, where the kernel said so.
    pub booted: Option<u64>,
    /// When the exporter last noted that it was alive, seconds since 1970.
    pub seen: u64,
    /// Whether the exporter was told to stop after that.
    pub clean_stop: bool,
}

/// The boots seen, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootLog {
    /// The entries.
    pub boots: Vec<Entry>,
    /// Whether the last entry is the boot we run in. Until the kernel has told which boot that is,
    /// nothing is said about the one before and nothing is marked.
    known: bool,
}

impl BootLog {
    /// The log of earlier boots, as it was stored.
    #[must_use]
    pub const fn stored(boots: Vec<Entry>) -> Self {
        Self { boots, known: false }
    }

    /// Notes that this boot is alive; true when the log should be written.
    pub fn alive(&mut self, boot_id: &str, booted: Option<u64>, now: Moment) -> bool {
        let seen = now.wall.as_secs();
        let first = !std::mem::replace(&mut self.known, true);
        if let Some(last) = self.boots.last_mut().filter(|last| last.boot_id == boot_id) {
            let due = first || last.clean_stop || seen.abs_diff(last.seen) >= NOTE_EVERY_SECONDS;
            if due {
                (last.clean_stop, last.seen, last.booted) = (false, seen, booted);
            }
            return due;
        }
        let boot_id = boot_id.to_owned();
        self.boots.push(Entry { boot_id, booted, seen, clean_stop: false });
        let excess = self.boots.len().saturating_sub(KEPT);
        self.boots.drain(..excess);
        true
    }

    /// Notes an orderly stop of this boot's exporter; false when this boot is not known.
    pub fn stop(&mut self, now: Moment) -> bool {
        match self.boots.last_mut().filter(|_| self.known) {
            Some(last) => {
                (last.clean_stop, last.seen) = (true, now.wall.as_secs());
                true
            }
            None => false,
        }
    }

    /// What is known about the boot before this one.
    #[must_use]
    pub fn verdict(&self) -> Boot {
        let nothing = |reason| Boot { unclean: Err(reason), previous_seen: Err(reason) };
        match self.boots.as_slice() {
            _ if !self.known => nothing(Missing::Pending),
            [.., before, _] => {
                Boot { unclean: Ok(!before.clean_stop), previous_seen: Ok(before.seen) }
            }
            _ => nothing(Missing::NotPresent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Moment {
        Moment { mono: Duration::from_secs(seconds), wall: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_boot_that_ends_without_a_stop_is_unclean() {
        let mut log = BootLog::default();
        assert!(log.alive("a", Some(100), at(110)));
        assert_eq!(log.verdict().unclean, Err(Missing::NotPresent), "the first boot it sees");
        assert!(!log.alive("a", Some(100), at(169)), "noted once a minute");
        assert!(log.alive("a", Some(100), at(170)));
        assert!(log.alive("b", Some(500), at(510)));
        assert_eq!(log.verdict(), Boot { unclean: Ok(true), previous_seen: Ok(170) });
    }

    #[test]
    fn an_orderly_stop_is_clean_and_a_restart_in_the_same_boot_changes_nothing() {
        let mut log = BootLog::default();
        log.alive("a", Some(100), at(110));
        log.stop(at(120));
        assert!(log.alive("a", Some(100), at(121)), "the mark is taken back at once");
        log.stop(at(130));
        log.alive("b", Some(500), at(510));
        assert_eq!(log.verdict(), Boot { unclean: Ok(false), previous_seen: Ok(130) });
        log.stop(at(520));
        log.alive("b", Some(500), at(530));
        assert_eq!(log.verdict().unclean, Ok(false));
    }

    /// The kernel has not told yet which boot this is, because its file hangs: the stored boots are
    /// somebody else's past.
    #[test]
    fn until_this_boot_is_known_nothing_is_said_or_marked() {
        let mut log = BootLog::default();
        log.alive("a", Some(100), at(110));
        log.alive("b", Some(500), at(510));
        let mut log = BootLog::stored(log.boots);
        assert_eq!(log.verdict().unclean, Err(Missing::Pending));
        assert!(!log.stop(at(600)));
        assert!(!log.boots[1].clean_stop, "a crash on record stays one");
        log.alive("c", None, at(900));
        assert_eq!(log.verdict(), Boot { unclean: Ok(true), previous_seen: Ok(510) });
        assert!(log.stop(at(910)) && log.boots[2].clean_stop);
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = BootLog::default();
        for i in 0..100 {
            log.alive(&i.to_string(), Some(i), at(i));
        }
        assert_eq!(log.boots.len(), KEPT);
        assert_eq!(log.boots.last().unwrap().boot_id, "99");
    }
}
