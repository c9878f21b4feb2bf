//! What the kernel says: Xid errors, memory that the driver did not get, victims of the OOM killer, tasks
//! that hang.
//!
//! It is read from the kernel's ring (`/dev/kmsg`), or, where that may not be read, from the file into which
//! a syslog daemon writes it. A line becomes a [`Message`](crate::model::kernel_log::Message), or nothing:
//! its text is not kept. What came before the exporter had started belongs to this boot, so it counts, but
//! it is not news.

mod kinds;
mod record;
mod ring;
mod tally;

pub use kinds::{Parser, written};
pub use tally::Tally;

use super::files::{FileError, Files, ReadError};
use super::follow::Follower;
use super::proc::stat;
use super::roots::Roots;
use super::train::stamp::Clock;
use super::training::year;
use crate::model::fields::Group;
use crate::model::kernel_log::{KernelLog, LogPlace};
use crate::model::machine::Stat;
use crate::model::reading::{Missing, Reading};
use jiff::tz::TimeZone;
use ring::Ring;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

const RING: &str = "/dev/kmsg";
/// Files of syslog daemons, in the order in which they are tried: one has the kernel's lines alone.
const FILES: [(LogPlace, &str); 2] =
    [(LogPlace::KernLog, "/var/log/kern.log"), (LogPlace::Syslog, "/var/log/syslog")];
/// What is read in so many first rounds came before the exporter, at the latest: a log that grows faster
/// than it can be read never comes to its end.
const FIRST_ROUNDS: u32 = 80;
/// For so many rounds a file may be away: one that is rotated comes back with the next line.
const AWAY: u32 = 60;
/// A boot is known to the second, and a daemon stamps what came before it ran.
const SLACK: Duration = Duration::from_secs(60);
/// A stamp without a year that is later than the file was written by this is of the year before.
const DAY: Duration = Duration::from_secs(86_400);
/// What to do where no place can be read.
const CURE: &str = "give it the group adm, which may read the file where a syslog daemon writes one, \
                    or the capability CAP_SYSLOG for /dev/kmsg";

/// When the machine has come up, asked once a round and only when it is needed: `/proc/stat` is long.
pub(super) struct Booted<'a> {
    files: &'a dyn Files,
    known: Option<Reading<Duration>>,
}

impl<'a> Booted<'a> {
    fn new(files: &'a dyn Files) -> Self {
        Self { files, known: None }
    }

    fn get(&mut self) -> Reading<Duration> {
        let files = self.files;
        *self.known.get_or_insert_with(|| {
            let mut boot = Stat::absent(Missing::Pending);
            // The reading carries its own reason.
            let _ = stat::read(files, &mut boot);
            boot.boot_time.map(|seconds| Duration::from_secs(seconds.0))
        })
    }

    /// A time since boot as one since 1970.
    fn wall(&mut self, since_boot: Duration) -> Reading<Duration> {
        self.get()?.checked_add(since_boot).ok_or(Missing::Malformed)
    }
}

/// A syslog file on its way.
struct Lines {
    follower: Follower,
    path: PathBuf,
    zone: TimeZone,
    clock: Option<Clock>,
    left_out: u64,
    /// Rounds for which it has been away.
    away: u32,
}

/// What is read.
enum Place {
    Ring(Ring),
    Lines(Box<Lines>),
}

/// Reads the kernel's log. The first place that can be read is kept for good: another one would tell the
/// same messages again.
pub struct Reader {
    roots: Roots,
    open: Option<(Place, Tally)>,
    /// Rounds until what comes is news.
    first: u32,
}

impl Reader {
    /// Below these roots. Nothing is opened yet.
    #[must_use]
    pub const fn new(roots: Roots) -> Self {
        Self { roots, open: None, first: FIRST_ROUNDS }
    }

    /// One round: bounded work, and no wait for anybody but a disk.
    ///
    /// # Errors
    /// No place can be read, with what to do about it; or the one that is read fails.
    pub fn read(&mut self, into: &mut KernelLog) -> Result<(), ReadError> {
        let result = self.round();
        *into = match (&result, &mut self.open) {
            (Err(error), _) => Err(error.reason()),
            (Ok(()), Some((_, tally))) if self.first == 0 => Ok(tally.told()),
            (Ok(()), _) => Err(Missing::Pending),
        };
        result
    }

    fn round(&mut self) -> Result<(), ReadError> {
        let Some((place, tally)) = &mut self.open else { return self.choose() };
        let mut booted = Booted::new(&self.roots);
        let old = self.first > 0;
        let end = match place {
            Place::Ring(ring) => {
                ring.round(&mut booted, old, tally).map_err(|error| failed(RING, &error))?.end
            }
            Place::Lines(lines) => lines.go_on(&mut booted, old, tally)?,
        };
        self.first = if end { 0 } else { self.first.saturating_sub(1) };
        Ok(())
    }

    /// The first place that can be read.
    fn choose(&mut self) -> Result<(), ReadError> {
        let mut refused = Vec::new();
        match self.ring() {
            Ok(()) => return Ok(()),
            Err(error) => refused.push(error),
        }
        for (name, path) in FILES {
            let mut tally = Tally::new(name);
            let mut lines = Box::new(Lines::new(self.roots.real(path)));
            let mut booted = Booted::new(&self.roots);
            match lines.round(&mut booted, true, &mut tally) {
                Ok(end) => {
                    self.first = if end { 0 } else { FIRST_ROUNDS };
                    self.open = Some((Place::Lines(lines), tally));
                    return Ok(());
                }
                Err(error) => refused.push(error),
            }
        }
        // A box that may not is worth more than one that has not.
        let reasons = || refused.iter().map(ReadError::reason);
        let reason = reasons().find(|reason| *reason != Missing::NotPresent);
        let said: Vec<String> = refused.iter().map(ToString::to_string).collect();
        Err(ReadError::Nowhere {
            what: format!("{}; {CURE}", said.join(", ")),
            reason: reason.unwrap_or(Missing::NotPresent),
        })
    }

    /// The ring, if it opens and has something to say: that of a kernel is never empty, and what a container
    /// has in its place may be a pipe into which nobody writes.
    fn ring(&mut self) -> Result<(), ReadError> {
        let path = self.roots.real(RING);
        let mut ring = Ring::open(&path).map_err(|error| failed(RING, &error))?;
        let mut tally = Tally::new(LogPlace::Ring);
        let came = ring
            .round(&mut Booted::new(&self.roots), true, &mut tally)
            .map_err(|error| failed(RING, &error))?;
        if came.records == 0 {
            return Err(ReadError::malformed(RING, "expected a record of the kernel, found none"));
        }
        self.first = if came.end { 0 } else { FIRST_ROUNDS };
        self.open = Some((Place::Ring(ring), tally));
        Ok(())
    }
}

/// What a machine says that has no log to read.
///
/// # Errors
/// That there is none.
pub fn none(into: &mut KernelLog) -> Result<(), ReadError> {
    let reason = Missing::NotPresent;
    *into = Err(reason);
    Err(ReadError::Nowhere { what: "a recorded machine without a kernel log".to_owned(), reason })
}

fn failed(path: &str, error: &io::Error) -> ReadError {
    let why = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::NotPresent,
        io::ErrorKind::PermissionDenied => FileError::Denied,
        _ => FileError::Failed(error.to_string()),
    };
    why.at(path)
}

/// When a file was written last.
fn written_last(path: &Path) -> Option<Duration> {
    let modified = std::fs::metadata(path).and_then(|facts| facts.modified()).ok()?;
    modified.duration_since(UNIX_EPOCH).ok()
}

impl Lines {
    fn new(path: PathBuf) -> Self {
        let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
        Self { follower: Follower::new(&path), path, zone, clock: None, left_out: 0, away: 0 }
    }

    /// As [`Lines::round`], of a file that was there and may be away for a while.
    fn go_on(
        &mut self,
        booted: &mut Booted<'_>,
        old: bool,
        tally: &mut Tally,
    ) -> Result<bool, ReadError> {
        match self.round(booted, old, tally) {
            Err(error) if error.reason() == Missing::NotPresent && self.away < AWAY => {
                self.away += 1;
                Ok(true)
            }
            result => {
                self.away = if result.is_ok() { 0 } else { self.away };
                result
            }
        }
    }

    /// True at the end.
    fn round(
        &mut self,
        booted: &mut Booted<'_>,
        old: bool,
        tally: &mut Tally,
    ) -> Result<bool, ReadError> {
        let Self { follower, path, zone, clock, left_out, .. } = self;
        let more = follower.round(
            &mut |text| {
                let known = clock.get_or_insert_with(|| clock_for(text, path, zone));
                let Some(line) = record::line(text, known) else { return };
                // Lines of the boots before this one are in the file, too.
                if booted.get().is_ok_and(|booted| line.at + SLACK >= booted) {
                    tally.take(line.text, Ok(line.at), old, line.times);
                }
            },
            // A file that follows another one goes on with its stamps.
            &mut || {},
        )?;
        let now = follower.left_out();
        if now > *left_out {
            // Nobody knows how many lines they were.
            tally.lose(1);
            *left_out = now;
        }
        Ok(!more)
    }
}

/// The clock of a file, by its first line: stamps without a year are of that in which it was written last,
/// unless that makes them later than that.
fn clock_for(first: &str, path: &Path, zone: &TimeZone) -> Clock {
    let year = year(path, zone);
    let mut trial = Clock::new(zone.clone(), year);
    let at = record::line(first, &mut trial).map(|line| line.at);
    let late = at.zip(written_last(path)).is_some_and(|(at, written)| at > written + DAY);
    Clock::new(zone.clone(), if late { year.saturating_sub(1) } else { year })
}

#[cfg(test)]
mod tests;
