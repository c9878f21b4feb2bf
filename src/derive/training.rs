//! How the runs go whose logs are followed.

use super::run;
use crate::model::moment::Moment;
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::training::{Followed, Pace, Step, Training, TrainingRun};
use crate::thresholds::Thresholds;
use crate::units::Seconds;
use std::collections::BTreeMap;
use std::time::Duration;

/// A run that has not reported for this long, and for this many of its steps, has ended or stands still.
const QUIET: Duration = Duration::from_secs(120);
const QUIET_STEPS: f64 = 5.0;

/// What is remembered of the runs, by name.
pub(super) type State = BTreeMap<String, One>;

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct One {
    file: u64,
    taken: u64,
    run: run::State,
    number: Option<u64>,
    /// When it last reported: by the time that the report tells, or when it was read.
    heard: Option<Duration>,
    /// What was told of time lost: a counter never falls.
    told_lost: f64,
    begun: u64,
    /// Of runs before this one in the same place.
    before: (u64, f64),
}

/// Takes in what was reported since the last look.
pub(super) fn derive(state: &mut State, snapshot: &Snapshot, t: &Thresholds) -> Vec<TrainingRun> {
    let logs = snapshot.training.as_deref().unwrap_or_default();
    // One whose file is gone for a moment is still the same; there are as many as were asked for.
    let read = snapshot.read_at[Source::Training.index()].unwrap_or(snapshot.at);
    for log in logs {
        let one = state.entry(log.run.clone()).or_default();
        one.take(log, read, t);
    }
    let tell = |log: &Followed| state.get_mut(&log.run).map(|one| one.tell(log, snapshot.at, t));
    logs.iter().filter_map(tell).collect()
}

/// Whether any run is slow, as far as can be told.
pub(super) fn slow(logs: &Training, runs: &[TrainingRun]) -> Reading<bool> {
    if let Err(reason) = logs {
        return Err(*reason);
    }
    let told: Vec<Reading<bool>> = runs.iter().map(|run| run.pace.slow).collect();
    let known = told.iter().any(Result::is_ok);
    if known { Ok(told.contains(&Ok(true))) } else { Err(Missing::Pending) }
}

impl One {
    fn take(&mut self, log: &Followed, read: Moment, t: &Thresholds) {
        if log.file != self.file || self.begun == 0 {
            let (stretches, lost) = self.total(t);
            *self = Self {
                file: log.file,
                begun: self.begun + 1,
                before: (stretches, lost),
                told_lost: lost,
                ..Self::default()
            };
        }
        // Those that came since the last look; if some were missed, what lies between is one long step.
        let new = usize::try_from(log.taken.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        self.taken = log.taken;
        let from = log.latest.len().saturating_sub(new);
        let steps = &log.latest[from..];
        for (i, step) in steps.iter().enumerate() {
            let timeless = step.wall.is_none() && step.elapsed.is_none() && step.seconds.is_none();
            let last = i + 1 == steps.len();
            self.number = step.number.or(self.number);
            // A report without any time has come just now, if the log is read up to its end. Of those that
            // came together only the last one has: programs write in blocks.
            if timeless && !(last && log.caught_up) && step.number.is_some() {
                continue;
            }
            let wall = step.wall.or_else(|| timeless.then_some(read.wall));
            self.run.take(&Step { wall, ..*step }, t);
            self.heard = Some(step.wall.unwrap_or(read.wall));
        }
    }

    /// Stretches and time lost since the exporter started.
    fn total(&self, t: &Thresholds) -> (u64, f64) {
        let (count, lost) = self.run.total(t);
        (self.before.0 + count, (self.before.1 + lost).max(self.told_lost))
    }

    fn tell(&mut self, log: &Followed, now: Moment, t: &Thresholds) -> TrainingRun {
        let pace = self.run.pace(t);
        let step = pace.step.map_or(0.0, |Seconds(s)| s);
        let quiet = QUIET.max(Duration::try_from_secs_f64(step * QUIET_STEPS).unwrap_or(QUIET));
        let silent = self.heard.is_none_or(|heard| now.wall.saturating_sub(heard) > quiet);
        let stale = |reading: Reading<Seconds>| {
            if silent { reading.and(Err(Missing::Stale)) } else { reading }
        };
        let (stretches, lost) = self.total(t);
        self.told_lost = lost;
        // What is read of yesterday is no news.
        let slow = if !log.caught_up {
            pace.slow.and(Err(Missing::Pending))
        } else if silent {
            pace.slow.and(Err(Missing::Stale))
        } else {
            pace.slow
        };
        TrainingRun {
            run: log.run.clone(),
            format: log.format,
            number: self.number,
            pace: Pace { step: stale(pace.step), baseline: pace.baseline, slow },
            slow: self.run.ongoing(t).filter(|_| slow == Ok(true)),
            stretches,
            lost: Seconds(lost),
            begun: self.begun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Box {
        state: State,
        snapshot: Snapshot,
        t: Thresholds,
        log: Followed,
    }

    impl Box {
        fn new() -> Self {
            let at =
                Moment { mono: Duration::from_secs(9), wall: Duration::from_secs(1_764_000_000) };
            let log = Followed {
                run: "train".to_owned(),
                format: Err(Missing::Pending),
                file: 1,
                taken: 0,
                latest: Arc::default(),
                caught_up: true,
                left_out: crate::units::Bytes(0),
            };
            let snapshot = Snapshot::absent(at, Missing::NotPresent);
            Self { state: State::default(), snapshot, t: Thresholds::default(), log }
        }

        /// A second later, with these reports.
        fn tick(&mut self, steps: &[Step]) -> TrainingRun {
            self.snapshot.at.mono += Duration::from_secs(1);
            self.snapshot.at.wall += Duration::from_secs(1);
            self.log.taken += steps.len() as u64;
            // As a follower does it: those of the round before are still there.
            let mut latest: Vec<Step> = self.log.latest.to_vec();
            latest.extend(steps);
            let old = latest.len().saturating_sub(3);
            latest.drain(..old);
            self.log.latest = Arc::new(latest);
            self.snapshot.training = Ok(vec![self.log.clone()]);
            self.snapshot.read_at[Source::Training.index()] = Some(self.snapshot.at);
            derive(&mut self.state, &self.snapshot, &self.t).pop().unwrap()
        }

        /// A step each so many seconds, for so long.
        fn run(&mut self, seconds: u64, each: u64) -> TrainingRun {
            let mut number = self.state.get("train").and_then(|one| one.number).unwrap_or(0);
            let mut last = None;
            for second in 0..seconds {
                let due = second % each == 0;
                number += u64::from(due);
                let step = Step { number: Some(number), ..Step::default() };
                last = Some(self.tick(if due { std::slice::from_ref(&step) } else { &[] }));
            }
            last.unwrap()
        }
    }

    #[test]
    fn a_run_without_times_is_timed_by_when_it_reports() {
        let mut b = Box::new();
        let steady = b.run(700, 4);
        assert_eq!((steady.pace.baseline, steady.pace.slow), (Ok(Seconds(4.0)), Ok(false)));
        let slow = b.run(300, 8);
        assert_eq!((slow.pace.step, slow.pace.slow), (Ok(Seconds(8.0)), Ok(true)));
        assert!(slow.slow.is_some_and(|s| (s.ratio - 2.0).abs() < 1e-9), "{slow:?}");
        assert_eq!(super::slow(&b.snapshot.training, &[slow]), Ok(true));
        let over = b.run(300, 4);
        assert_eq!((over.pace.slow, over.slow, over.stretches), (Ok(false), None, 1));
        assert!((140.0..165.0).contains(&over.lost.0), "{over:?}");
    }

    #[test]
    fn a_run_that_is_silent_has_no_pace() {
        let mut b = Box::new();
        b.run(800, 4);
        let silent = b.run(125, 1000);
        assert_eq!(silent.pace.step, Err(Missing::Stale));
        assert_eq!(
            (silent.pace.slow, silent.pace.baseline),
            (Err(Missing::Stale), Ok(Seconds(4.0)))
        );
        assert_eq!(super::slow(&b.snapshot.training, &[silent]), Err(Missing::Pending));
        assert_eq!(super::slow(&Err(Missing::NotPresent), &[]), Err(Missing::NotPresent));
    }

    #[test]
    fn another_file_is_another_run_and_counters_do_not_fall() {
        let mut b = Box::new();
        b.run(700, 4);
        b.run(300, 8);
        let before = b.run(100, 4);
        assert_eq!((before.begun, before.stretches), (1, 1));
        (b.log.file, b.log.taken, b.log.latest) = (2, 0, Arc::default());
        let after = b.run(100, 2);
        assert_eq!(
            (after.begun, after.stretches, after.pace.baseline),
            (2, 1, Err(Missing::Pending))
        );
        assert!(after.lost.0 >= before.lost.0 - 1e-9);
    }

    /// What a follower gives twice is taken once, and what it gives while it catches up has no time.
    #[test]
    fn reports_are_taken_once_and_old_ones_do_not_happen_now() {
        let mut b = Box::new();
        let step = |number| Step { number: Some(number), ..Step::default() };
        b.log.caught_up = false;
        for number in 0..2000 {
            b.tick(&[step(number * 3), step(number * 3 + 1), step(number * 3 + 2)]);
        }
        let told = b.tick(&[]);
        assert_eq!((told.number, told.pace.baseline), (Some(5999), Err(Missing::Pending)));
    }
}
