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

/// So many reports without time and number are not the beginning of a log.
const ENOUGH: u64 = 5;
const UNTOLD: &str = "its log tells neither times nor numbers of steps, so its pace cannot be told";
const NOTHING: &str = "no line of its log tells a step with its number or its time";
const INTERLEAVED: &str =
    "two runs write into its log without a rank; the steps are those of the first one";

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
    /// When its last report came, by the exporter's clock; for those that were there before, when the file
    /// was written last.
    came: Option<Duration>,
    /// Whether the log was read up to its end at the last look: what came since happens now.
    caught_up: bool,
    /// Whether a report has come while it was watched.
    alive: bool,
    /// Its last report says that there are no more to come.
    done: bool,
    /// Reports, and those among them that tell neither time nor number.
    reports: (u64, u64),
    /// What was told of time lost: a counter never falls.
    told_lost: f64,
    told_stretches: u64,
    begun: u64,
    /// Of runs before this one in the same place.
    before: (u64, f64),
}

/// Takes in what was reported since the last look.
pub(super) fn derive(state: &mut State, snapshot: &Snapshot, t: &Thresholds) -> Vec<TrainingRun> {
    let logs = snapshot.training.as_deref().unwrap_or_default();
    let logs: Vec<&Followed> = logs.iter().filter(|log| log.state.is_ok()).collect();
    // One whose file is gone for a moment is still the same; there are as many as were asked for.
    let read = snapshot.read_at[Source::Training.index()].unwrap_or(snapshot.at);
    for log in &logs {
        let one = state.entry(log.run.clone()).or_default();
        one.take(log, read, t);
    }
    let tell = |log: &Followed| state.get_mut(&log.run).map(|one| one.tell(log, snapshot.at, t));
    logs.into_iter().filter_map(tell).collect()
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
                told_stretches: stretches,
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
            self.done = step.number.is_some() && step.number == step.of;
            let untold = timeless && step.number.is_none() && step.tokens_per_second.is_none();
            self.reports = (self.reports.0 + 1, self.reports.1 + u64::from(untold));
            // A report without any time has come just now, if the log is read up to its end. Of those that
            // came together only the last one has: programs write in blocks.
            if timeless && !(last && log.caught_up) && step.number.is_some() {
                continue;
            }
            let wall = step.wall.or_else(|| timeless.then_some(read.wall));
            self.run.take(&Step { wall, ..*step }, t);
            self.heard = Some(step.wall.unwrap_or(read.wall));
        }
        if !steps.is_empty() {
            let live = log.caught_up && self.caught_up;
            self.alive |= live;
            self.came = if live { Some(read.wall) } else { log.written.or(Some(read.wall)) };
        }
        self.caught_up = log.caught_up;
    }

    /// How long ago its last report came.
    fn last_step(&self, now: Moment) -> Reading<Seconds> {
        let came = self.came.filter(|_| self.caught_up).ok_or(Missing::Pending)?;
        Ok(Seconds(now.wall.saturating_sub(came).as_secs_f64()))
    }

    /// Whether it stands still. One that nobody has seen going on may have ended long ago.
    fn stalled(&self, now: Moment, t: &Thresholds) -> Reading<bool> {
        let Seconds(age) = self.last_step(now)?;
        let patience = self.run.patience(t).filter(|_| self.alive).ok_or(Missing::Pending)?;
        Ok(!self.done && age >= patience.as_secs_f64())
    }

    /// Whether its reports tell neither times nor numbers, so that those which are written in one block cannot
    /// be told apart.
    fn untold(&self) -> bool {
        let (all, untold) = self.reports;
        untold >= ENOUGH && untold * 2 > all
    }

    fn remark(&self, log: &Followed) -> Option<&'static str> {
        let told = [
            (log.interleaved, INTERLEAVED),
            (self.untold(), UNTOLD),
            (log.caught_up && log.format.is_err() && log.written.is_some(), NOTHING),
        ];
        told.into_iter().find(|(so, _)| *so).map(|(_, remark)| remark)
    }

    /// Stretches and time lost since the exporter started.
    fn total(&self, t: &Thresholds) -> (u64, f64) {
        let (count, lost) = self.run.total(t);
        let count = (self.before.0 + count).max(self.told_stretches);
        (count, (self.before.1 + lost).max(self.told_lost))
    }

    fn tell(&mut self, log: &Followed, now: Moment, t: &Thresholds) -> TrainingRun {
        let mut pace = self.run.pace(t);
        if self.untold() {
            pace.step = Err(Missing::NotAvailable);
        }
        let step = pace.step.map_or(0.0, |Seconds(s)| s);
        let quiet = QUIET.max(Duration::try_from_secs_f64(step * QUIET_STEPS).unwrap_or(QUIET));
        let silent = self.heard.is_none_or(|heard| now.wall.saturating_sub(heard) > quiet);
        let stale = |reading: Reading<Seconds>| {
            if silent { reading.and(Err(Missing::Stale)) } else { reading }
        };
        let (stretches, lost) = self.total(t);
        (self.told_stretches, self.told_lost) = (stretches, lost);
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
            last_step: self.last_step(now),
            stalled: self.stalled(now, t),
            causes: Vec::new(),
            remark: self.remark(log),
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
            let log = Followed { file: 1, caught_up: true, ..Followed::new("train") };
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

    /// How long ago the last step was, and when that is a stall.
    #[test]
    fn a_run_that_stands_still_is_told_so() {
        let mut b = Box::new();
        let step = |number| Step { number: Some(number), ..Step::default() };
        assert_eq!(b.tick(&[]).last_step, Err(Missing::Pending), "before the first step");
        b.log.caught_up = false;
        assert_eq!(b.tick(&[step(1)]).last_step, Err(Missing::Pending), "not read up to its end");
        b.log.caught_up = true;
        b.run(800, 4);
        let still = b.run(604, 1000);
        assert_eq!((still.last_step, still.stalled), (Ok(Seconds(603.0)), Ok(false)));
        let still = b.tick(&[]);
        assert_eq!((still.last_step, still.stalled), (Ok(Seconds(604.0)), Ok(true)));
        assert_eq!((still.pace.slow, still.stretches), (Err(Missing::Stale), 0));
        let on = b.run(40, 4);
        assert_eq!((on.stalled, on.stretches), (Ok(false), 1));
        assert!((600.0..602.0).contains(&on.lost.0), "{on:?}");
    }

    /// One that says itself that it is done has not stalled; of one that nobody saw going on it is not known.
    #[test]
    fn a_run_that_has_ended_has_not_stalled() {
        let mut b = Box::new();
        b.run(800, 4);
        b.tick(&[Step { number: Some(300), of: Some(300), ..Step::default() }]);
        let silent = (0..3600).map(|_| b.tick(&[])).last();
        assert_eq!(silent.map(|run| run.stalled), Some(Ok(false)));
        let mut b = Box::new();
        let began = b.snapshot.at.wall;
        b.log.written = Some(began.saturating_sub(Duration::from_secs(86_400)));
        let old = |n: u64| Step {
            wall: Some(began.saturating_sub(Duration::from_secs(90_000 - n * 4))),
            number: Some(n),
            ..Step::default()
        };
        b.log.latest = Arc::new((0..900).map(old).collect());
        b.log.taken = 900;
        b.snapshot.training = Ok(vec![b.log.clone()]);
        let told = derive(&mut b.state, &b.snapshot, &b.t).pop().unwrap();
        assert_eq!((told.pace.baseline, told.stalled), (Ok(Seconds(4.0)), Err(Missing::Pending)));
        assert_eq!(told.last_step, Ok(Seconds(86_400.0)), "when the file was written last");
    }

    /// Reports without times and without numbers, written in blocks: no pace, and why.
    #[test]
    fn what_tells_neither_time_nor_number_has_no_pace() {
        let mut b = Box::new();
        let mut told = None;
        for _ in 0..200 {
            told = Some(b.tick(&[Step::default(), Step::default(), Step::default()]));
        }
        let told = told.unwrap();
        assert_eq!((told.pace.step, told.remark), (Err(Missing::NotAvailable), Some(UNTOLD)));
        b.log.interleaved = true;
        assert_eq!(b.tick(&[]).remark, Some(INTERLEAVED));
        let mut b = Box::new();
        b.log.written = Some(b.snapshot.at.wall);
        assert_eq!(b.tick(&[]).remark, Some(NOTHING));
        assert_eq!(b.run(40, 4).remark, Some(NOTHING));
        b.log.format = Ok(crate::model::training::LogFormat::JsonLines);
        assert_eq!(b.run(40, 4).remark, None);
    }

    /// A log that cannot be read is no run, and takes nothing from the others.
    #[test]
    fn one_log_that_fails_is_alone_in_it() {
        let mut b = Box::new();
        b.run(700, 4);
        let bad = Followed { state: Err(Missing::Denied), ..Followed::new("other") };
        b.snapshot.training = Ok(vec![bad, b.log.clone()]);
        let told = derive(&mut b.state, &b.snapshot, &b.t);
        assert_eq!(told.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["train"]);
        assert_eq!(super::slow(&b.snapshot.training, &told), Ok(false));
    }
}
