use super::*;

/// A log with time stamps: each step takes what the function says.
struct Log {
    state: State,
    t: Thresholds,
    at: Duration,
    number: u64,
    /// Whether each report tells how long its step took, as Megatron's does.
    told: bool,
    each: f64,
}

impl Log {
    fn new() -> Self {
        let at = Duration::from_secs(1_764_000_000);
        let mut log = Self {
            state: State::default(),
            t: Thresholds::default(),
            at,
            number: 0,
            told: false,
            each: 0.0,
        };
        log.report();
        log
    }

    fn report(&mut self) {
        let seconds = Some(Seconds(self.each)).filter(|_| self.told && self.each > 0.0);
        let step =
            Step { wall: Some(self.at), number: Some(self.number), seconds, ..Step::default() };
        self.state.take(&step, &self.t);
    }

    /// Steps for so many seconds.
    fn run(&mut self, seconds: f64, each: impl Fn(u64) -> f64) -> &mut Self {
        let until = self.at + Duration::from_secs_f64(seconds);
        while self.at < until {
            self.number += 1;
            self.each = each(self.number);
            self.at += Duration::from_secs_f64(self.each);
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

/// A step that hangs for an hour is a stretch of its own, whatever tells the time of the steps.
#[test]
fn an_hour_without_a_step_is_a_stall() {
    for told in [false, true] {
        let mut log = Log::new();
        log.told = told;
        log.run(hours(1.0), |_| 4.0);
        log.at += Duration::from_secs(3600);
        log.run(hours(0.5), |_| 4.0);
        let began = Duration::from_secs(1_764_000_000);
        let [stall] = log.stretches()[..] else { panic!("{told}: {:?}", log.stretches()) };
        assert_eq!(stall.kind, StretchKind::Stall);
        assert_eq!(stall.from.saturating_sub(began), Duration::from_secs(3600));
        assert_eq!(stall.to.saturating_sub(began), Duration::from_secs(7204));
        assert!((stall.lost.0 - 3600.0).abs() < 1e-6 && stall.steps == 1, "{stall:?}");
        assert_eq!(log.state.total(&log.t), (1, 3600.0));
    }
}

/// At its limit in seconds and in steps, one second either side.
#[test]
fn limits_of_a_stall() {
    for (each, pause, stalls) in
        [(4.0, 600.0, 1), (4.0, 599.0, 0), (60.0, 1200.0, 1), (60.0, 1199.0, 0)]
    {
        let mut log = Log::new();
        log.run(hours(1.0), |_| each);
        log.at += Duration::from_secs_f64(pause);
        log.run(hours(1.0), |_| each);
        assert_eq!(log.stretches().len(), stalls, "{each} {pause}");
    }
}

/// Evaluations of a quarter of an hour at equal distances are the run's own; one that hangs is not.
#[test]
fn a_pause_that_comes_at_equal_distances_is_no_stall() {
    let mut log = Log::new();
    log.run(hours(6.0), |n| if n % 300 == 0 { 900.0 } else { 4.0 });
    assert_eq!(log.stretches(), []);
    assert!(log.state.patience(&log.t).is_some_and(|limit| limit.as_secs() == 1350));
    log.run(hours(1.2), |n| if n % 300 == 150 { 850.0 } else { 4.0 });
    assert_eq!(log.stretches().len(), 2, "{:?}", log.stretches());
    assert!(log.stretches().iter().all(|stretch| stretch.kind == StretchKind::Stall));
}

/// A log that ends is no stall, and neither is a server that nobody asks.
#[test]
fn silence_alone_is_no_stall() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0);
    log.at += Duration::from_secs(7200);
    log.state.end(&log.t);
    assert_eq!(log.stretches(), []);
    let t = Thresholds::default();
    let mut state = State::default();
    for n in 0..2000_u64 {
        let night = if n > 1000 { 36_000 } else { 0 };
        let wall = Some(Duration::from_secs(1_764_000_000 + n * 3 + night));
        state.take(&Step { wall, tokens_per_second: Some(40.0), ..Step::default() }, &t);
    }
    assert_eq!(state.stretches(&t), []);
}

/// A stall just before the log's last line is one all the same.
#[test]
fn a_stall_before_the_last_step_is_told() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0).run(3600.0, |_| 3604.0);
    log.state.end(&log.t);
    assert_eq!(log.stretches().len(), 1);
}

/// A stall, and steps that are slow behind it: both are told, and the time is counted once.
#[test]
fn a_stall_within_a_slow_stretch_is_counted_once() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0).run(hours(0.5), |_| 8.0);
    log.at += Duration::from_secs(3600);
    log.run(hours(0.5), |_| 8.0);
    let kinds: Vec<StretchKind> = log.stretches().iter().map(|stretch| stretch.kind).collect();
    assert_eq!(kinds, [StretchKind::Slow, StretchKind::Stall]);
    let (_, lost) = log.state.total(&log.t);
    // The step that hung took 8 s of its own, 4 s of which the stall holds.
    assert!((lost - (1800.0 + 3600.0 + 4.0)).abs() < 1e-6, "{lost}");
}

/// Evaluations within a slow stretch are not time that slow steps cost.
#[test]
fn time_lost_is_time_of_steps() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0);
    let from = log.number;
    log.run(hours(1.0), |n| if (n - from).is_multiple_of(50) { 8.0 + 90.0 } else { 8.0 });
    let [slow] = log.stretches()[..] else { panic!("{:?}", log.stretches()) };
    let steps = log.number - from;
    assert_eq!(slow.steps, steps);
    assert!(
        (slow.lost.0 - f64::from(u32::try_from(steps).unwrap()) * 4.0).abs() < 1e-6,
        "{slow:?}"
    );
}

/// Steps that take three times as long from one to the next are slow from the first of them on.
#[test]
fn a_sudden_change_is_no_pause() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0).run(hours(0.5), |_| 12.0);
    let [slow] = log.stretches()[..] else { panic!("{:?}", log.stretches()) };
    assert_eq!(slow.from.as_secs(), 1_764_003_600);
    assert!((slow.ratio - 3.0).abs() < 1e-9 && slow.steps == 150, "{slow:?}");
}

/// A server's report is of many tokens: they are what time was lost in, and what a clock is made of.
#[test]
fn a_report_of_tokens_covers_all_of_them() {
    let t = Thresholds::default();
    for stamped in [true, false] {
        let mut state = State::default();
        let mut at = Duration::from_secs(1_764_000_000);
        for n in 0..1200_u64 {
            let each = if n < 800 { 0.025 } else { 0.05 };
            at += Duration::from_secs_f64(each * 100.0);
            let seconds = Some(Seconds(each));
            let wall = Some(at).filter(|_| stamped);
            state.take(&Step { wall, seconds, count: Some(100), ..Step::default() }, &t);
        }
        let [slow] = state.stretches(&t)[..] else { panic!("{:?}", state.stretches(&t)) };
        assert!((slow.lost.0 - 400.0 * 2.5).abs() < 1e-6 && slow.steps == 40_000, "{slow:?}");
        let (from, to) = state.span().unwrap();
        assert!((to.saturating_sub(from).as_secs_f64() - 4000.0).abs() < 0.1, "{stamped}");
    }
}

/// Short spells are no stretch; they are counted, and a run that has many of them is told.
#[test]
fn short_spells_are_added_up() {
    for (between, many) in [(1500.0, false), (700.0, true)] {
        let mut log = Log::new();
        log.run(hours(0.5), |_| 4.0);
        for _ in 0..10 {
            log.run(between, |_| 4.0).run(96.0, |_| 8.0);
        }
        log.run(300.0, |_| 4.0);
        let short = log.state.short_spells(&log.t);
        assert_eq!((log.stretches().len(), short.count, short.many), (0, 10, many), "{short:?}");
        assert!((short.together.0 - 960.0).abs() < 1e-6, "{short:?}");
        assert!((short.lost.0 - 480.0).abs() < 1e-6, "{short:?}");
    }
}

/// Slow from its start, and faster later: its own steady minutes may be no measure.
#[test]
fn a_run_that_gets_faster_is_told() {
    for (later, faster) in [(4.0, true), (8.0 / 1.2 + 0.01, false)] {
        let mut log = Log::new();
        log.run(hours(1.0), |_| 8.0).run(hours(1.0), |_| later);
        let told = log.state.faster();
        assert_eq!(told.is_some(), faster, "{told:?}");
        assert!(told.is_none_or(|told| (told.ratio - 2.0).abs() < 1e-9), "{told:?}");
        assert_eq!(log.stretches(), []);
    }
}

/// A stall before the pace is known is told when it is, and its hour is none of the steady minutes.
#[test]
fn a_stall_in_the_first_minutes_is_told_later() {
    let mut log = Log::new();
    log.run(300.0, |_| 4.0);
    log.at += Duration::from_secs(3600);
    log.run(hours(0.1), |_| 4.0);
    assert_eq!(log.pace().baseline, Err(Missing::Pending), "six minutes are too few");
    log.run(hours(0.5), |_| 4.0);
    let [stall] = log.stretches()[..] else { panic!("{:?}", log.stretches()) };
    assert!((stall.lost.0 - 3600.0).abs() < 1e-6, "{stall:?}");
    let began = Duration::from_secs(1_764_000_000);
    assert!(log.state.steady().is_some_and(|(from, _)| from >= began + Duration::from_secs(3900)));
}

/// The last step of a run hangs, and another run begins in the same log.
#[test]
fn a_stall_before_another_run_is_told() {
    let mut log = Log::new();
    log.run(hours(1.0), |_| 4.0).run(3600.0, |_| 3604.0);
    log.number = 0;
    log.report();
    log.run(hours(1.0), |_| 4.0);
    assert_eq!(log.stretches().len(), 1, "{:?}", log.stretches());
}

/// Ten steps a report, which tells their mean or not.
#[test]
fn a_stall_among_reports_of_ten_steps_is_told() {
    for told in [false, true] {
        let mut log = Log::new();
        log.told = told;
        let mut report = |seconds: f64| {
            log.number += 10;
            log.each = seconds / 10.0;
            log.at += Duration::from_secs_f64(seconds);
            log.report();
        };
        (0..90).for_each(|_| report(40.0));
        report(3640.0);
        (0..90).for_each(|_| report(40.0));
        let [stall] = log.stretches()[..] else { panic!("{told}: {:?}", log.stretches()) };
        assert!(stall.kind == StretchKind::Stall && (stall.lost.0 - 3600.0).abs() < 1e-6);
    }
}
