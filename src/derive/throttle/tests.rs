mod clocks;
mod edges;
mod gaps;
mod heat;
mod told;

use super::*;
use crate::model::gpu::{ClockKind, EventReason, Gpu, TIMED};
use crate::model::sharing::{Hidden, MemoryReport};
use crate::model::throttle::{CapBasis, ThrottleState};
use crate::units::{Bytes, Count, GIB};
use crate::units::{Celsius, Hertz, Ratio};

/// What a GPU tells in one second; what a test does not set stays.
#[derive(Clone, Copy, Debug)]
struct Says {
    utilization: Reading<f64>,
    power: Reading<f64>,
    temperature: Reading<f64>,
    clock: Reading<f64>,
    reasons: Reading<u64>,
    /// Seconds under a software thermal reason in each second; none when the driver has no counter.
    thermal: Option<f64>,
    held: u64,
    /// Whether those are the hardware's.
    hardware: bool,
    /// What the module uses, and its limit.
    module: Option<(f64, f64)>,
    /// Whether the steps of a training run are slow.
    slow: Reading<bool>,
}

const IDLE: Says = Says {
    utilization: Ok(0.0),
    power: Ok(11.2),
    temperature: Ok(45.0),
    clock: Ok(2405.0),
    reasons: Ok(1),
    thermal: Some(0.0),
    held: 20 * GIB,
    hardware: false,
    module: None,
    slow: Err(Missing::NotPresent),
};
/// The plateau of a saturated box.
const PLATEAU: Says = Says {
    utilization: Ok(0.96),
    power: Ok(90.0),
    temperature: Ok(82.0),
    clock: Ok(2262.0),
    reasons: Ok(4),
    ..IDLE
};
const DECODE: Says = Says {
    utilization: Ok(0.94),
    power: Ok(34.0),
    temperature: Ok(61.0),
    clock: Ok(2463.0),
    reasons: Ok(0),
    ..IDLE
};
const FAULT: Says = Says { power: Ok(19.5), clock: Ok(799.0), ..DECODE };
const SPIN: Says = Says { power: Ok(21.0), clock: Ok(2411.0), ..DECODE };

struct Spark {
    state: State,
    t: Thresholds,
    snapshot: Snapshot,
    seconds: f64,
    what: (Sharing, Basis),
    held_missing: bool,
    uuid: Reading<String>,
}

impl Spark {
    fn new() -> Self {
        let at =
            Moment { mono: Duration::from_secs(1000), wall: Duration::from_secs(1_764_000_000) };
        let mut snapshot = Snapshot::absent(at, Missing::Pending);
        snapshot.gpus.driver = Ok("580.82.09".to_owned());
        snapshot.kernel.boot_id = Ok("boot-1".to_owned());
        let t = Thresholds::default();
        Self {
            state: State::default(),
            t,
            snapshot,
            seconds: 0.0,
            what: (Sharing::Shared, Basis::Gb10),
            held_missing: false,
            uuid: Ok("GPU-a".to_owned()),
        }
    }

    fn gpu(&mut self, says: Says) -> Gpu {
        let mut gpu = Gpu::absent(0, Missing::Unsupported);
        gpu.uuid.clone_from(&self.uuid);
        gpu.utilization = says.utilization.map(Ratio);
        gpu.power = says.power.map(Watts);
        gpu.temperature = says.temperature.map(Celsius);
        gpu.clocks[ClockKind::Sm as usize] = says.clock.map(|mega| Hertz(mega * 1e6));
        gpu.event_reasons = says.reasons.map(Count);
        self.seconds += says.thermal.unwrap_or(0.0);
        let reason = if says.hardware { EventReason::HwThermal } else { EventReason::SwThermal };
        let timed = TIMED.iter().position(|r| *r == reason).unwrap();
        gpu.event_seconds[timed] =
            says.thermal.map(|_| Seconds(self.seconds)).ok_or(Missing::NoSymbol);
        gpu
    }

    /// One second later.
    fn tick(&mut self, says: Says) -> Throttle {
        self.advance(1);
        let gpu = self.gpu(says);
        self.snapshot.gpus.devices = Ok(vec![gpu]);
        self.snapshot.read_at[Source::Gpu.index()] = Some(self.snapshot.at);
        self.look(says).pop().expect("it is judged")
    }

    fn look(&mut self, says: Says) -> Vec<Throttle> {
        let mut parts = [Ok(Bytes(0)); Segment::ALL.len()];
        let held = if self.held_missing { Err(Missing::Malformed) } else { Ok(Bytes(says.held)) };
        parts[Segment::Unaccounted as usize] = held;
        let partition = Partition { size: Bytes::from_gib(121), parts, absorbed: Bytes(0) };
        let memory = GpuMemory {
            index: 0,
            report: MemoryReport::Unsupported,
            sharing: self.what.0,
            basis: self.what.1,
            hidden: Hidden::No,
        };
        let module = module(says.module);
        derive(
            &mut self.state,
            &self.snapshot,
            &Ok(partition),
            &Ok(vec![memory]),
            &module,
            says.slow,
            &self.t,
        )
    }

    fn advance(&mut self, seconds: u64) {
        self.snapshot.at.mono += Duration::from_secs(seconds);
        self.snapshot.at.wall += Duration::from_secs(seconds);
    }

    /// So many seconds, each as the test says; the last verdict.
    fn run(&mut self, seconds: u64, says: impl Fn(u64) -> Says) -> Throttle {
        (0..seconds).map(|second| self.tick(says(second))).last().expect("at least one")
    }

    fn stay(&mut self, seconds: u64, says: Says) -> Throttle {
        self.run(seconds, |_| says)
    }

    /// The driver does not answer.
    fn hang(&mut self, reason: Missing) -> Vec<Throttle> {
        self.advance(1);
        self.snapshot.gpus.devices = Err(reason);
        self.look(IDLE)
    }
}

fn module(told: Option<(f64, f64)>) -> Module {
    let mut module = Module::absent(Missing::NotPresent);
    if let Some((used, limit)) = told {
        module.budget[Limit::Pl1 as usize] = Ok(Watts(used));
        module.limit[Limit::Pl1 as usize] = Ok(Watts(limit));
    }
    module
}

use ThrottleState as S;

/// What a GPU says for a while, and the state that it is in then.
fn ends(says: Says, seconds: u64) -> S {
    Spark::new().stay(seconds, says).state()
}

#[test]
fn nothing_is_said_before_half_a_minute_was_watched() {
    let mut spark = Spark::new();
    let early = spark.stay(30, IDLE);
    assert_eq!((early.state(), early.signature), (S::Unknown, Err(Missing::Pending)));
    assert!(early.evidence.contains("fewer than 30 s"), "{}", early.evidence);
    assert_eq!(spark.tick(IDLE).state(), S::Idle);
    assert_eq!(early.episodes, [0; 5]);
}

#[test]
fn what_is_normal_is_normal() {
    for (name, says, want) in [
        ("idle at full clocks", IDLE, S::Idle),
        ("decoding", DECODE, S::Nominal),
        ("a plateau near 90 W at 82 degrees", PLATEAU, S::AtPowerCap),
        ("a clock cap", Says { clock: Ok(1500.0), power: Ok(38.0), ..DECODE }, S::Nominal),
        ("half at work", Says { utilization: Ok(0.5), ..DECODE }, S::Nominal),
    ] {
        let mut spark = Spark::new();
        for second in 0..3600 {
            let now = spark.tick(says);
            assert!(second < 30 || now.state() == want, "{name}: {} at {second}", now.evidence);
        }
    }
}

/// Limits of a single figure: at the limit, and one unit to the other side of it.
#[test]
fn idle_and_busy_begin_and_end_at_their_limits() {
    let share = |percent: f64| Says { utilization: Ok(percent / 100.0), ..DECODE };
    assert_eq!(ends(share(4.9), 60), S::Idle);
    assert_eq!(ends(share(5.0), 60), S::Nominal);
    let mut spark = Spark::new();
    spark.stay(60, share(0.0));
    assert_eq!(spark.stay(120, share(14.9)).state(), S::Idle);
    assert_eq!(spark.stay(120, share(15.0)).state(), S::Nominal);
    // Busy shows in what only a busy GPU can be.
    let capped = |percent: f64| Says { utilization: Ok(percent / 100.0), ..PLATEAU };
    assert_eq!(ends(capped(79.9), 120), S::Nominal);
    assert_eq!(ends(capped(80.0), 120), S::AtPowerCap);
    let mut spark = Spark::new();
    spark.stay(120, capped(96.0));
    assert_eq!(spark.stay(120, capped(70.0)).state(), S::AtPowerCap);
    assert_eq!(spark.stay(120, capped(69.9)).state(), S::Nominal);
}

#[test]
fn a_limit_of_power_begins_and_ends_at_its_own_figures() {
    let at = |watts: f64| Says { power: Ok(watts), temperature: Ok(60.0), ..PLATEAU };
    assert_eq!(ends(at(79.9), 120), S::Nominal);
    assert_eq!(ends(at(80.0), 120), S::AtPowerCap);
    let mut spark = Spark::new();
    spark.stay(120, at(80.0));
    assert_eq!(spark.stay(120, at(78.0)).state(), S::AtPowerCap);
    assert_eq!(spark.stay(120, at(77.9)).state(), S::Nominal);
    // Near its own highest: 95 % of 100 W.
    let mut spark = Spark::new();
    spark.stay(120, at(100.0));
    assert_eq!(spark.stay(120, at(93.0)).state(), S::AtPowerCap, "2 W of hysteresis");
    assert_eq!(spark.stay(60, at(92.9)).state(), S::Nominal);
    assert_eq!(spark.stay(60, at(94.9)).state(), S::Nominal);
    let again = spark.stay(60, at(95.0));
    assert_eq!((again.state(), again.basis), (S::AtPowerCap, Some(CapBasis::Inferred)));
    assert!(again.evidence.contains("100.0 W (inferred)"), "{}", again.evidence);
}

#[test]
fn where_the_module_tells_its_limit_that_decides_alone() {
    let told = |used: f64, power: f64| Says {
        module: Some((used, 140.0)),
        power: Ok(power),
        temperature: Ok(60.0),
        ..PLATEAU
    };
    assert_eq!(ends(told(132.9, 95.0), 120), S::Nominal, "whatever the GPU draws");
    let mut spark = Spark::new();
    let at = spark.stay(120, told(133.0, 60.0));
    assert_eq!((at.state(), at.basis), (S::AtPowerCap, Some(CapBasis::Module)));
    assert!(at.evidence.contains("133.0 W of its limit of 140.0 W"), "{}", at.evidence);
    assert_eq!(spark.stay(120, told(131.0, 60.0)).state(), S::AtPowerCap);
    assert_eq!(spark.stay(120, told(130.9, 60.0)).state(), S::Nominal);
}

#[test]
fn the_signature_needs_ten_busy_minutes_of_flat_power_and_heat() {
    let warm = |celsius: f64| Says { temperature: Ok(celsius), ..PLATEAU };
    assert_eq!(ends(warm(83.0), 600), S::AtPowerCap, "not yet");
    let mut spark = Spark::new();
    spark.stay(600, warm(83.0));
    let begins = spark.tick(warm(83.0));
    assert_eq!((begins.state(), begins.signature), (S::HeatingAtCap, Ok(true)));
    assert!(begins.evidence.contains("power between 90.0 W and 90.0 W"), "{}", begins.evidence);
    assert_eq!(ends(warm(82.9), 700), S::AtPowerCap);
    assert_eq!(spark.stay(60, warm(82.0)).state(), S::HeatingAtCap, "a degree of hysteresis");
    assert_eq!(spark.stay(60, warm(81.9)).state(), S::AtPowerCap);
    // Flat: within 5 W, and while it lasts within 7.
    let swings = |by: f64| {
        move |second: u64| Says {
            power: Ok(if (second / 60).is_multiple_of(2) { 90.0 } else { 90.0 - by }),
            temperature: Ok(84.0),
            ..PLATEAU
        }
    };
    let whole = |by: f64| {
        let mut spark = Spark::new();
        spark.tick(swings(by)(0));
        spark.run(600, swings(by)).signature
    };
    assert_eq!((whole(5.0), whole(5.1)), (Ok(true), Ok(false)));
    let mut spark = Spark::new();
    spark.stay(601, warm(84.0));
    let lower = |watts: f64| Says { power: Ok(watts), ..warm(84.0) };
    assert_eq!(spark.stay(60, lower(83.0)).signature, Ok(true));
    let mut spark = Spark::new();
    spark.stay(601, warm(84.0));
    assert_eq!(spark.stay(60, lower(82.9)).signature, Ok(false));
}

const HOT: Says = Says { temperature: Ok(84.0), clock: Ok(2200.0), ..PLATEAU };

fn slower(by: f64) -> Says {
    Says { clock: Ok(2200.0 * (1.0 - by)), ..HOT }
}

#[test]
fn heat_that_costs_clock_is_a_fault_and_heat_that_does_not_is_not() {
    let mut spark = Spark::new();
    let before = spark.stay(661, HOT);
    assert_eq!(before.state(), S::HeatingAtCap);
    assert_eq!(before.baseline.map(|b| b.clock), Ok(Hertz(2.2e9)));
    let mut slow = spark.stay(599, slower(0.1));
    assert_eq!((slow.state(), slow.costs[0]), (S::HeatingAtCap, Ok(false)), "nine minutes");
    slow = spark.tick(slower(0.1));
    assert_eq!((slow.state(), slow.costs[0]), (S::Thermal, Ok(true)));
    assert!(slow.evidence.contains("clock 10 % below"), "{}", slow.evidence);
    assert!(slow.evidence.contains("2200 MHz at 90.0 W"), "{}", slow.evidence);
    // It is over when a minute is within 8 % of what it was.
    assert_eq!(spark.stay(60, slower(0.081)).state(), S::Thermal);
    assert_eq!(spark.stay(60, slower(0.08)).state(), S::HeatingAtCap);
    // One unit less is no loss.
    let mut spark = Spark::new();
    spark.stay(661, HOT);
    assert_eq!(spark.stay(1200, slower(0.099)).state(), S::HeatingAtCap);
}

/// The clock follows the work: lighter work, other clocks, no cost.
#[test]
fn a_clock_that_follows_the_work_is_no_cost() {
    // From light work at high clocks to heavy work at those of the plateau.
    let mut spark = Spark::new();
    let light = Says { power: Ok(47.0), clock: Ok(2490.0), temperature: Ok(84.0), ..PLATEAU };
    assert_eq!(spark.stay(661, light).baseline.map(|b| b.power), Ok(Watts(47.0)));
    assert_eq!(spark.stay(1800, slower(0.0)).costs[0], Ok(false));
    // At the edge of what is alike: 15 % of power, 5 % of utilization.
    for (power, utilization, cost) in [
        (90.0 * 0.85, 0.96, true),
        (90.0 * 0.849, 0.96, false),
        (90.0, 0.91, true),
        (90.0, 0.909, false),
    ] {
        let mut spark = Spark::new();
        spark.stay(661, HOT);
        let other = Says { power: Ok(power), utilization: Ok(utilization), ..slower(0.2) };
        assert_eq!(spark.stay(700, other).costs[0], Ok(cost), "{power} {utilization}");
    }
}

/// The job's own beginning: another job has another one, and an evaluation in between is no other job.
#[test]
fn a_job_ends_when_the_gpu_rests() {
    let rest = Says { utilization: Ok(0.0), power: Ok(12.0), temperature: Ok(60.0), ..HOT };
    let mut spark = Spark::new();
    spark.stay(661, HOT);
    assert!(spark.stay(130, rest).baseline.is_ok());
    // Two minutes after the minute was no longer busy, which it is for 17 s.
    assert_eq!(spark.stay(10, rest).baseline, Err(Missing::Pending));
    spark.stay(700, slower(0.2));
    let again = spark.stay(700, slower(0.2));
    assert_eq!(again.baseline.map(|b| b.clock), Ok(Hertz(1.76e9)), "its own");
    assert_eq!(again.state(), S::HeatingAtCap);
}

/// Pauses for evaluations do not keep the comparison from being made.
#[test]
fn pauses_leave_the_comparison_standing() {
    let with_pauses = |clock: f64| {
        move |second: u64| {
            if second % 300 < 40 {
                Says { utilization: Ok(0.3), power: Ok(30.0), clock: Ok(2450.0), ..HOT }
            } else {
                Says { clock: Ok(clock), ..HOT }
            }
        }
    };
    let mut spark = Spark::new();
    assert!(spark.run(1500, with_pauses(2200.0)).baseline.is_ok());
    let slow = spark.run(1500, with_pauses(1900.0));
    assert_eq!(slow.costs[0], Ok(true), "{}", slow.evidence);
}

#[test]
fn time_under_a_thermal_reason_is_a_cost_from_a_fifth_on() {
    let heat = |share: f64| Says { thermal: Some(share), reasons: Ok(0x20), ..HOT };
    for (share, want) in [(0.2, S::Thermal), (0.199, S::HeatingAtCap)] {
        let mut spark = Spark::new();
        spark.stay(660, HOT);
        let end = spark.stay(310, heat(share));
        assert_eq!(end.state(), want, "{}", end.evidence);
    }
    let mut spark = Spark::new();
    spark.stay(660, HOT);
    let end = spark.stay(310, heat(0.25));
    assert!(end.evidence.contains("25 % of 5 min 00 s under a thermal reason"), "{}", end.evidence);
    assert_eq!(spark.stay(300, heat(0.1)).state(), S::Thermal, "half of the limit");
    assert_eq!(spark.stay(310, heat(0.099)).state(), S::HeatingAtCap);
}

/// Steps that take longer are a cost, and need heat beside them.
#[test]
fn slow_steps_are_a_cost_of_heat_where_there_is_heat() {
    let slow = |says: Says| Says { slow: Ok(true), ..says };
    let mut spark = Spark::new();
    let hot = spark.stay(661, Says { slow: Ok(false), ..HOT });
    assert_eq!((hot.state(), hot.costs[2]), (S::HeatingAtCap, Ok(false)));
    let costs = spark.tick(slow(HOT));
    assert_eq!((costs.state(), costs.costs[2]), (S::Thermal, Ok(true)));
    assert!(costs.evidence.contains("steps take longer"), "{}", costs.evidence);
    assert_eq!(spark.tick(Says { slow: Ok(false), ..HOT }).state(), S::HeatingAtCap);
    assert_eq!(ends(slow(DECODE), 1200), S::Nominal, "slow, and not for heat");
}

/// Neither bit nor a burst is a fault; nor is a counter of another reason.
#[test]
fn a_thermal_bit_in_one_sample_is_nothing() {
    let mut spark = Spark::new();
    spark.stay(700, HOT);
    let flash = spark.tick(Says { reasons: Ok(0x24), thermal: Some(1.0), ..HOT });
    assert_eq!(flash.state(), S::HeatingAtCap);
    assert_eq!(spark.stay(600, HOT).state(), S::HeatingAtCap);
}

/// Without the counter that proof cannot be had, and the other can.
#[test]
fn without_counters_the_clock_still_proves_it() {
    let without = |says: Says| Says { thermal: None, ..says };
    let mut spark = Spark::new();
    let before = spark.stay(661, without(HOT));
    assert_eq!(before.costs[1], Ok(false), "by the reasons in the samples");
    assert_eq!(before.unreachable, []);
    assert_eq!(spark.stay(600, without(slower(0.15))).state(), S::Thermal);
}

/// A counter that begins anew with another driver is no time under a reason.
#[test]
fn a_counter_that_falls_adds_nothing() {
    let mut spark = Spark::new();
    spark.seconds = 10_000.0;
    spark.stay(700, HOT);
    spark.seconds = 0.0;
    let after = spark.stay(10, HOT);
    assert_eq!(after.thermal_share, Ok(Ratio(0.0)));
    assert_eq!(after.state(), S::HeatingAtCap);
}

#[test]
fn power_that_is_not_delivered_is_told_after_three_minutes_and_kept() {
    let mut spark = Spark::new();
    assert_ne!(spark.stay(180, FAULT).state(), S::PowerDelivery);
    let told = spark.tick(FAULT);
    assert_eq!(told.state(), S::PowerDelivery);
    assert!(
        told.evidence.contains("180 of 180 busy samples within 3 min 00 s"),
        "{}",
        told.evidence
    );
    // An idle box proves nothing; a busy one at 1.4 GHz does.
    assert_eq!(spark.stay(600, IDLE).state(), S::PowerDelivery);
    let between = Says { clock: Ok(1399.0), power: Ok(33.0), ..FAULT };
    assert_eq!(spark.stay(30, between).state(), S::PowerDelivery);
    assert_eq!(
        spark.tick(Says { clock: Ok(1400.0), power: Ok(30.1), ..FAULT }).state(),
        S::Nominal
    );
    // What was seen before the proof does not count again.
    assert_ne!(spark.stay(179, FAULT).state(), S::PowerDelivery);
    assert_eq!(spark.stay(3, FAULT).state(), S::PowerDelivery);
    assert_eq!(spark.tick(FAULT).episodes[3], 2);
}

#[test]
fn a_fault_of_power_has_limits() {
    let at = |power: f64, clock: f64, utilization: f64, reasons: u64| {
        let says = Says {
            power: Ok(power),
            clock: Ok(clock),
            utilization: Ok(utilization),
            reasons: Ok(reasons),
            ..FAULT
        };
        ends(says, 300) == S::PowerDelivery
    };
    assert!(at(30.0, 1000.0, 0.9, 0));
    assert!(!at(30.1, 1000.0, 0.9, 0) && !at(30.0, 1001.0, 0.9, 0) && !at(30.0, 1000.0, 0.899, 0));
    assert!(at(20.0, 800.0, 0.96, 0x1), "the idle bit is no reason");
    assert!(!at(20.0, 800.0, 0.96, 0x8) && !at(20.0, 800.0, 0.96, 0x4));
}

/// Four of five busy samples, and half of the time busy.
#[test]
fn a_fault_of_power_shows_in_four_of_five_busy_samples() {
    let mixed = |bad: u64, of: u64| {
        move |second: u64| {
            let good = Says { clock: Ok(1200.0), power: Ok(33.0), ..FAULT };
            if second % of < bad { FAULT } else { good }
        }
    };
    assert_eq!(Spark::new().run(185, mixed(4, 5)).state(), S::PowerDelivery);
    assert_ne!(Spark::new().run(600, mixed(7, 9)).state(), S::PowerDelivery);
    let at_times = |busy: u64| move |second: u64| if second % 10 < busy { FAULT } else { IDLE };
    assert_eq!(Spark::new().run(200, at_times(5)).state(), S::PowerDelivery);
    assert_ne!(Spark::new().run(600, at_times(4)).state(), S::PowerDelivery);
}

#[test]
fn busy_without_power_is_stalled() {
    let mut spark = Spark::new();
    assert_eq!(spark.stay(600, SPIN).state(), S::Nominal);
    let stalled = spark.tick(SPIN);
    assert_eq!(stalled.state(), S::StalledBusy);
    assert!(stalled.evidence.contains("600 of 600 samples"), "{}", stalled.evidence);
    let at = |power: f64, clock: f64, utilization: f64| {
        let says =
            Says { power: Ok(power), clock: Ok(clock), utilization: Ok(utilization), ..SPIN };
        ends(says, 700) == S::StalledBusy
    };
    assert!(at(27.9, 2000.0, 0.9));
    assert!(!at(28.0, 2000.0, 0.9) && !at(27.9, 1999.0, 0.9) && !at(27.9, 2000.0, 0.899));
    let part = |spins: u64| move |second: u64| if second % 100 < spins { SPIN } else { DECODE };
    assert_eq!(Spark::new().run(700, part(80)).state(), S::StalledBusy);
    assert_eq!(Spark::new().run(700, part(79)).state(), S::Nominal);
    let mut spark = Spark::new();
    spark.run(700, part(100));
    assert_eq!(spark.run(600, part(70)).state(), S::StalledBusy);
    assert_eq!(spark.run(600, part(69)).state(), S::Nominal);
}

#[test]
fn who_loads_waits_for_the_disk() {
    let grows = |by: u64| {
        move |second: u64| Says { held: SPIN.held + if second < 300 { 0 } else { by }, ..SPIN }
    };
    assert_eq!(Spark::new().run(700, grows(GIB)).state(), S::Nominal);
    assert_eq!(Spark::new().run(700, grows(GIB - 1)).state(), S::StalledBusy);
}

#[test]
fn only_a_gb10_is_judged() {
    let mut spark = Spark::new();
    spark.stay(60, PLATEAU);
    for (sharing, basis, judged) in [
        (Sharing::Separate, Basis::OwnFigure, false),
        (Sharing::Unknown, Basis::Nothing, false),
        (Sharing::Shared, Basis::IntegratedPart, false),
        (Sharing::Shared, Basis::NoFigureAndAddressing, true),
    ] {
        spark.what = (sharing, basis);
        spark.advance(1);
        spark.snapshot.read_at[Source::Gpu.index()] = Some(spark.snapshot.at);
        assert_eq!(spark.look(PLATEAU).len(), usize::from(judged), "{basis:?}");
    }
}

/// Each way into a state and out of it is one step of the counters and one transition.
#[test]
fn every_transition_is_counted_and_told() {
    let mut spark = Spark::new();
    spark.stay(60, IDLE);
    spark.stay(700, HOT);
    let slow = spark.stay(900, slower(0.15));
    assert_eq!(slow.state(), S::Thermal);
    let end = spark.stay(400, IDLE);
    assert_eq!(end.state(), S::Idle);
    let last = end.last.as_deref().unwrap();
    assert_eq!((last.ended.state, last.to), (S::Nominal, S::Idle));
    assert_eq!(end.episodes, [2, 1, 1, 0, 0], "{}", end.evidence);
    let [at_cap, heating, thermal, ..] = end.seconds.map(|Seconds(s)| s);
    assert!((500.0..620.0).contains(&at_cap), "{at_cap}");
    assert!((600.0..700.0).contains(&heating), "{heating}");
    assert!((280.0..340.0).contains(&thermal), "{thermal}");
}

#[test]
fn a_stay_tells_its_peak_its_power_and_the_clock_that_it_lost() {
    let mut spark = Spark::new();
    spark.stay(661, HOT);
    spark.stay(650, slower(0.15));
    spark.stay(5, Says { temperature: Ok(91.0), ..slower(0.15) });
    let now = spark.tick(slower(0.15)).now;
    assert_eq!((now.state, now.end, now.peak), (S::Thermal, None, Ok(Celsius(91.0))));
    // The transition that ends it tells the same.
    let ended = loop {
        let last = spark.tick(IDLE).last.unwrap();
        if last.ended.state == S::Thermal {
            break last.ended;
        }
    };
    assert_eq!((ended.start, ended.peak), (now.start, now.peak));
    assert!(ended.end.is_some_and(|end| end > ended.start));
    assert!(ended.power.is_ok_and(|Watts(w)| (70.0..90.0).contains(&w)), "{ended:?}");
    assert!(ended.clock_lost.is_ok_and(|Ratio(r)| (r - 0.15).abs() < 1e-6), "{ended:?}");
}
