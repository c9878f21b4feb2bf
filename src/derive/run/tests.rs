use super::*;

/// A log with time stamps: each step takes what the function says.
struct Log {
    state: State,
    t: Thresholds,
    at: Duration,
    number: u64,
}

impl Log {
    fn new() -> Self {
        let at = Duration::from_secs(1_764_000_000);
        let mut log = Self { state: State::default(), t: Thresholds::default(), at, number: 0 };
        log.report();
        log
    }

    fn report(&mut self) {
        let step = Step { wall: Some(self.at), number: Some(self.number), ..Step::default() };
        self.state.take(&step, &self.t);
    }

    /// Steps for so many seconds.
    fn run(&mut self, seconds: f64, each: impl Fn(u64) -> f64) -> &mut Self {
        let until = self.at + Duration::from_secs_f64(seconds);
        while self.at < until {
            self.number += 1;
            self.at += Duration::from_secs_f64(each(self.number));
            self.report();
        }
        self
    }

    fn stretches(&self) -> Vec<Stretch> {
        self.state.stretches(&self.t)
    }

    fn pace(&self) -> Pace {
        self.state.pace(&self.t)
    }
}

fn hours(hours: f64) -> f64 {
    hours * 3600.0
}

#[test]
fn a_step_time_that_doubles_at_two_hours_is_told_to_the_step() {
    let mut log = Log::new();
    log.run(hours(2.0), |_| 4.0).run(hours(0.5), |_| 8.0);
    let began = Duration::from_secs(1_764_000_000);
    let [slow] = log.stretches()[..] else { panic!("{:?}", log.stretches()) };
    assert_eq!(slow.from.saturating_sub(began), Duration::from_secs(7200));
    assert!((slow.ratio - 2.0).abs() < 1e-9 && slow.steps == 225, "{slow:?}");
    assert!((slow.lost.0 - 900.0).abs() < 1e-6);
    assert_eq!(log.pace().slow, Ok(true));
    assert_eq!(log.pace().baseline, Ok(Seconds(4.0)));
    // Over when the pace is back, with its end at the last slow step.
    log.run(600.0, |_| 4.0);
    let [slow] = log.stretches()[..] else { panic!("{:?}", log.stretches()) };
    assert_eq!(slow.to.saturating_sub(began), Duration::from_secs(9000));
    assert_eq!((slow.steps, log.pace().slow), (225, Ok(false)));
}

#[test]
fn nothing_is_said_before_the_pace_is_known() {
    let mut log = Log::new();
    log.run(650.0, |_| 4.0);
    assert_eq!(log.pace().baseline, Err(Missing::Pending));
    assert_eq!(log.pace().slow, Err(Missing::Pending));
    assert!(log.pace().step.is_ok());
    log.run(20.0, |_| 4.0);
    assert_eq!(log.pace().baseline, Ok(Seconds(4.0)));
}

/// The first steps compile; a run that settles late is judged from when it is steady.
#[test]
fn the_pace_is_that_of_the_first_steady_minutes() {
    let mut log = Log::new();
    log.run(50.0, |_| 25.0).run(1300.0, |_| 4.0);
    assert_eq!(log.pace().baseline, Ok(Seconds(4.0)));
    let mut log = Log::new();
    log.run(hours(0.4), |n| 12.0 / (1.0 + f64::from(u32::try_from(n).unwrap()) / 40.0));
    assert_eq!(log.pace().baseline, Err(Missing::Pending), "it gets faster and faster");
    log.run(hours(0.4), |_| 2.0);
    assert_eq!(log.pace().baseline, Ok(Seconds(2.0)));
}

#[test]
fn limits_of_slowness_and_their_way_back() {
    for (by, slow) in [(1.2, true), (1.199, false)] {
        let mut log = Log::new();
        log.run(hours(0.5), |_| 5.0).run(hours(0.5), |_| 5.0 * by);
        assert_eq!(log.stretches().len(), usize::from(slow), "{by}");
    }
    for (by, over) in [(1.1, false), (1.099, true)] {
        let mut log = Log::new();
        log.run(hours(0.5), |_| 5.0).run(hours(0.2), |_| 6.5).run(hours(0.2), |_| 5.0 * by);
        assert_eq!(log.pace().slow, Ok(!over), "{by}");
    }
    for (seconds, told) in [(120.0, 1), (110.0, 0)] {
        let mut log = Log::new();
        log.run(hours(0.5), |_| 5.0).run(seconds, |_| 10.0).run(hours(0.2), |_| 5.0);
        assert_eq!(log.stretches().len(), told, "{seconds}");
    }
}

/// A checkpoint every ten minutes, an evaluation, batches of unequal length: a healthy run.
#[test]
fn pauses_and_noise_are_no_slow_run() {
    let mut log = Log::new();
    log.run(hours(6.0), |n| match n {
        n if n % 150 == 0 => 95.0,
        n => 4.0 + f64::from(u32::try_from(n * 7919 % 101).unwrap()) / 100.0,
    });
    assert_eq!(log.stretches(), []);
    assert_eq!(log.pace().slow, Ok(false));
}

/// Bars that tell whole seconds, drawn again and again.
#[test]
fn progress_bars_of_whole_seconds_are_enough() {
    let mut state = State::default();
    let t = Thresholds::default();
    for tenth in 0..(2 * 36_000 + 18_000_u64) {
        let seconds = tenth / 10;
        // 0.7 s a step, 1.4 s from two hours on.
        let millis = tenth * 100;
        let number =
            if millis < 7_200_000 { millis / 700 } else { 10_285 + (millis - 7_200_000) / 1400 };
        let elapsed = Some(Duration::from_secs(seconds));
        state.take(&Step { elapsed, number: Some(number), ..Step::default() }, &t);
    }
    let [slow] = state.stretches(&t)[..] else { panic!("{:?}", state.stretches(&t)) };
    assert!(slow.from.as_secs().abs_diff(7200) <= 20, "{slow:?}");
    assert!((slow.ratio - 2.0).abs() < 0.1, "{slow:?}");
}

/// Durations without times are a clock of their own; tokens are steps.
#[test]
fn durations_alone_and_tokens_make_a_clock() {
    let t = Thresholds::default();
    let mut state = State::default();
    for n in 1..2000_u64 {
        let seconds = Some(Seconds(if n <= 1800 { 4.0 } else { 7.0 }));
        state.take(&Step { number: Some(n), seconds, ..Step::default() }, &t);
    }
    let [slow] = state.stretches(&t)[..] else { panic!("{:?}", state.stretches(&t)) };
    assert_eq!((slow.from, slow.steps), (Duration::from_secs(7200), 199));
    let mut state = State::default();
    for n in 0..3000_u64 {
        let rate = if n < 2000 { 40.0 } else { 20.0 };
        let wall = Some(Duration::from_secs(1_764_000_000 + n * 3));
        state.take(&Step { wall, tokens_per_second: Some(rate), ..Step::default() }, &t);
    }
    let [slow] = state.stretches(&t)[..] else { panic!("{:?}", state.stretches(&t)) };
    assert!((slow.ratio - 2.0).abs() < 1e-9);
}

/// A run that is resumed counts from where it was saved; a clock that is set back is no time.
#[test]
fn resumed_runs_and_clocks_that_go_back_do_no_harm() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0);
    log.number = 500;
    log.at += Duration::from_secs(1800);
    log.report();
    log.run(hours(1.0), |_| 4.0);
    log.at -= Duration::from_secs(3600);
    log.report();
    log.run(hours(1.0), |_| 4.0);
    assert_eq!(log.stretches(), []);
    assert_eq!(log.pace().baseline, Ok(Seconds(4.0)));
}

#[test]
fn nonsense_is_no_step() {
    let t = Thresholds::default();
    let mut state = State::default();
    for seconds in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
        state.take(&Step { seconds: Some(Seconds(seconds)), ..Step::default() }, &t);
        let smoothed = Some(Seconds(seconds));
        state.take(&Step { smoothed, ..Step::default() }, &t);
        state.take(&Step { tokens_per_second: Some(seconds), ..Step::default() }, &t);
    }
    assert!(state.pace(&t).baseline.is_err());
}

/// A year of steps: what is remembered stays within its bounds.
#[test]
fn a_long_run_stays_within_its_bounds() {
    let mut log = Log::new();
    log.run(hours(300.0), |n| if n / 2000 % 2 == 0 { 0.5 } else { 1.0 });
    assert!(log.state.kept.len() <= MAX_KEPT && log.stretches().len() <= MAX_STRETCHES + 1);
    assert!(log.state.open.as_ref().is_none_or(|open| open.sure.all.len() <= MAX_KEPT));
}

/// Each epoch has a bar of its own that begins at zero: one run all the same.
#[test]
fn bars_that_begin_again_go_on() {
    let t = Thresholds::default();
    let mut state = State::default();
    let mut number = 0;
    for epoch in 0..8_u64 {
        for step in 1..=300_u64 {
            number += 1;
            let each = if epoch == 5 { 8 } else { 4 };
            let elapsed = Some(Duration::from_secs(step * each));
            state.take(&Step { elapsed, number: Some(number), ..Step::default() }, &t);
        }
    }
    let [slow] = state.stretches(&t)[..] else { panic!("{:?}", state.stretches(&t)) };
    assert!(
        slow.from.as_secs().abs_diff(6000) <= 40 && (slow.ratio - 2.0).abs() < 0.05,
        "{slow:?}"
    );
}

/// Reports that are minutes apart, each of many steps or of one long one.
#[test]
fn sparse_reports_are_judged() {
    for (each, steps) in [(300.0, 1), (4.0, 100)] {
        let mut log = Log::new();
        let mut report = |seconds: f64, count: u64| {
            for _ in 0..count {
                log.number += steps;
                #[expect(clippy::cast_precision_loss, reason = "a few steps")]
                let passed = Duration::from_secs_f64(seconds * steps as f64);
                log.at += passed;
                log.report();
            }
        };
        report(each, 30);
        report(each * 2.0, 10);
        assert_eq!(log.pace().baseline, Ok(Seconds(each)));
        assert_eq!(log.stretches().len(), 1, "{each} s, {steps} steps a report");
    }
}

/// Another run in the same log has a pace of its own.
#[test]
fn a_second_run_is_judged_by_itself() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0);
    log.number = 0;
    log.at += Duration::from_secs(3600);
    log.report();
    log.run(hours(1.0), |_| 9.0);
    assert_eq!(log.stretches(), []);
    assert_eq!(log.pace().baseline, Ok(Seconds(9.0)));
}

/// What is counted never falls, and what does not last is not counted.
#[test]
fn counts_do_not_fall_and_do_not_saturate() {
    let mut log = Log::new();
    log.run(hours(0.5), |_| 4.0);
    let (mut count, mut lost) = (0, 0.0);
    for seconds in [112.0, 112.0, 400.0] {
        for each in [8.0, 4.0] {
            for _ in 0..100 {
                log.run(if each > 4.0 { seconds / 100.0 } else { 4.0 }, |_| each);
                let now = log.state.total(&log.t);
                assert!(now.0 >= count && now.1 >= lost - 1e-9, "{now:?} after {count} {lost}");
                (count, lost) = now;
            }
        }
    }
    for _ in 0..300 {
        log.run(200.0, |_| 8.0).run(200.0, |_| 4.0);
    }
    assert!(log.state.total(&log.t).0 > 280, "{:?}", log.state.total(&log.t));
    assert!(log.stretches().len() <= MAX_STRETCHES + 1);
}

/// Ten thousand steps a second cost a few figures.
#[test]
fn short_steps_are_taken_together() {
    let mut state = State::default();
    let t = Thresholds::default();
    for n in 0..2_000_000_u64 {
        let wall = Some(Duration::from_micros(1_764_000_000_000_000 + n * 1000));
        state.take(&Step { wall, number: Some(n), ..Step::default() }, &t);
    }
    assert!(state.kept.len() < 700, "{}", state.kept.len());
    assert!(state.pace(&t).baseline.is_ok_and(|Seconds(s)| (s - 0.001).abs() < 1e-6));
}
