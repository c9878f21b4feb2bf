//! Training logs that are followed: lines in, steps out, a bounded number of them kept.

use super::files::ReadError;
use super::follow::Follower;
use super::train::{Hints, Reader};
use crate::model::reading::{Missing, Reading};
use crate::model::training::{Followed, Step, Training};
use crate::units::{Bytes, Seconds};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Rounds whose steps are kept for those who look: they look as often as a round is made, and may be late
/// once or twice.
const ROUNDS: usize = 4;
/// More steps of one round are not kept: a log that grows so fast has no use for each of them.
const MAX_STEPS: usize = 10_000;

/// The logs.
pub struct Logs {
    logs: Vec<Log>,
    zone: TimeZone,
}

/// One of them.
struct Log {
    run: String,
    follower: Follower,
    reader: Option<Reader>,
    file: u64,
    taken: u64,
    rounds: VecDeque<Vec<Step>>,
    /// What its last step took, as it was told.
    step_seconds: Reading<Seconds>,
}

impl Logs {
    /// Those at these paths. They need not be there yet.
    #[must_use]
    pub fn new(paths: &[PathBuf]) -> Self {
        let names = names(paths);
        let log = |(path, run): (&PathBuf, String)| Log {
            run,
            follower: Follower::new(path),
            reader: None,
            file: 0,
            taken: 0,
            rounds: VecDeque::new(),
            step_seconds: Err(Missing::Pending),
        };
        let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
        Self { logs: paths.iter().zip(names).map(log).collect(), zone }
    }

    /// One round.
    ///
    /// # Errors
    /// Nothing is followed, or none of the logs can be read: why not the first one. If one can be read, the
    /// source is well, and each of the others carries its own reason.
    pub fn read(&mut self, into: &mut Training) -> Result<(), ReadError> {
        if self.logs.is_empty() {
            *into = Err(Missing::NotPresent);
            return Err(super::FileError::NotPresent.at("a followed log (--train-log)"));
        }
        let mut all = Vec::with_capacity(self.logs.len());
        let mut failure = None;
        for log in &mut self.logs {
            let round = log.round(&self.zone);
            all.push(log.told(round.as_ref().copied().map_err(ReadError::reason)));
            failure = failure.or(round.err());
        }
        let well = all.iter().any(|log| log.state.is_ok());
        *into = Ok(all);
        failure.filter(|_| !well).map_or(Ok(()), Err)
    }
}

impl Log {
    /// Reads on; true when there is nothing more to read.
    fn round(&mut self, zone: &TimeZone) -> Result<bool, ReadError> {
        let (mut steps, before) = (Vec::new(), self.file);
        let path = self.follower.path().to_owned();
        let (reader, file, taken) = (&mut self.reader, &mut self.file, &mut self.taken);
        let shared = std::cell::RefCell::new((reader, file, taken, &mut steps));
        let more = self.follower.round(
            &mut |line| {
                let (reader, _, taken, steps) = &mut *shared.borrow_mut();
                let step = reader.as_mut().and_then(|reader| reader.line(line));
                if let Some(step) = step {
                    **taken += 1;
                    steps.push(step);
                }
            },
            &mut || {
                let (reader, file, taken, steps) = &mut *shared.borrow_mut();
                **reader = Some(Reader::new(Hints::new(zone.clone(), year(&path, zone))));
                **file += 1;
                **taken = 0;
                steps.clear();
            },
        )?;
        let old = steps.len().saturating_sub(MAX_STEPS);
        steps.drain(..old);
        // Those that nobody will see are not counted.
        self.taken -= old as u64;
        if self.file != before {
            // Another file: what the one before it told is nobody's business any more.
            self.rounds.clear();
            self.step_seconds = Err(Missing::Pending);
        }
        if let Some(step) = steps.last() {
            self.step_seconds = step.seconds.ok_or(Missing::NotAvailable);
        }
        self.rounds.push_back(steps);
        while self.rounds.len() > ROUNDS {
            self.rounds.pop_front();
        }
        Ok(!more)
    }

    fn told(&self, round: Reading<bool>) -> Followed {
        let format = self.reader.as_ref().and_then(Reader::format);
        Followed {
            run: self.run.clone(),
            state: round.map(drop),
            format: format.ok_or(Missing::Pending),
            file: self.file,
            taken: self.taken,
            latest: Arc::new(self.rounds.iter().flatten().copied().collect()),
            caught_up: round == Ok(true),
            left_out: Bytes(self.follower.left_out()),
            written: self.follower.written(),
            step_seconds: self.step_seconds,
            interleaved: self.reader.as_ref().is_some_and(Reader::interleaved),
        }
    }
}

/// The year in which a file was written last, for time stamps that have none.
pub(super) fn year(path: &Path, zone: &TimeZone) -> i16 {
    let modified = std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let at = since.and_then(|since| Timestamp::UNIX_EPOCH.checked_add(since).ok());
    at.map_or(1970, |at| zone.to_datetime(at).year())
}

/// A short name for each, no two alike: the file's, with its directory's where that is not enough.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let stem = |path: &Path| {
        path.file_stem()
            .map_or_else(|| "log".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    let mut taken = BTreeSet::new();
    let mut name = |path: &PathBuf| {
        let short = stem(path);
        let alike = paths.iter().filter(|other| stem(other) == short).count() > 1;
        let parent = path.parent().and_then(Path::file_name).filter(|_| alike);
        let long = parent.map(|parent| format!("{}/{short}", parent.to_string_lossy()));
        let mut name = long.unwrap_or(short);
        while !taken.insert(name.clone()) {
            name.push('+');
        }
        name
    };
    paths.iter().map(&mut name).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn names_are_short_and_no_two_alike() {
        let paths = ["/a/one.log", "/runs/x/train.log", "/runs/y/train.log", "/z/x/train.log"];
        let names = names(&paths.map(PathBuf::from));
        assert_eq!(names, ["one", "x/train", "y/train", "x/train+"]);
    }

    /// What comes in a round is told in that round and the next ones, and not for ever.
    #[test]
    fn steps_are_told_for_some_rounds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.jsonl");
        let mut logs = Logs::new(&[path.clone(), dir.path().join("missing.log")]);
        let mut into = Err(Missing::Pending);
        assert!(logs.read(&mut into).is_err());
        let states = |into: &Training| -> Vec<Reading<()>> {
            into.as_ref().unwrap().iter().map(|log| log.state).collect()
        };
        assert_eq!(states(&into), [Err(Missing::NotPresent); 2], "neither is there");
        let mut file = fs::File::create(&path).unwrap();
        let mut round = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            let _ = logs.read(&mut into);
            let log = into.as_ref().unwrap()[0].clone();
            (log.taken, log.latest.len(), log.caught_up)
        };
        assert_eq!(
            round("{\"step\": 1, \"step_time\": 4.0}\n{\"step\": 2, \"step_time\": 4.0}\n"),
            (2, 2, true)
        );
        assert_eq!(round("{\"step\": 3, \"step_time\": 4.0}\n"), (3, 3, true));
        for _ in 0..3 {
            round("");
        }
        assert_eq!(round(""), (3, 0, true));
        // One that is missing is no fault of the other.
        assert_eq!(logs.read(&mut into), Ok(()));
        assert_eq!(states(&into), [Ok(()), Err(Missing::NotPresent)]);
        let none = Logs::new(&[]).read(&mut into).unwrap_err();
        assert_eq!(none.to_string(), "a followed log (--train-log) does not exist");
    }

    /// A log that grows by 100 MB: each round is bounded, and so is what is kept.
    #[test]
    fn a_log_that_grows_fast_costs_a_bounded_round() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.jsonl");
        let line = "{\"step\": 1, \"step_time\": 4.0}\n";
        fs::write(&path, line.repeat(100_000_000 / line.len())).unwrap();
        let mut logs = Logs::new(&[path]);
        let mut into = Err(Missing::Pending);
        let mut rounds = 0;
        loop {
            logs.read(&mut into).unwrap();
            let log = &into.as_ref().unwrap()[0];
            assert!(log.latest.len() <= ROUNDS * MAX_STEPS);
            rounds += 1;
            if log.caught_up {
                assert!(log.left_out.0 > 30_000_000, "{:?}", log.left_out);
                break;
            }
        }
        assert!(rounds < 80, "{rounds}");
    }
}
