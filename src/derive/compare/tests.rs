use super::*;
use crate::model::training::StretchKind;
use crate::units::Seconds;

const START: u64 = 1_764_000_000;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(START + seconds)
}

/// One sample every thirty seconds, as the function says.
fn samples(hours: f64, each: impl Fn(u64) -> SamplePoint) -> Vec<SamplePoint> {
    let mut all = Vec::new();
    let mut second = 0_u64;
    while Duration::from_secs(second).as_secs_f64() < hours * 3600.0 {
        all.push(SamplePoint { wall: at(second), ..each(second) });
        second += 30;
    }
    all
}

fn busy(watts: f64, celsius: f64, mega: f64) -> SamplePoint {
    SamplePoint {
        temperature: Ok(Celsius(celsius)),
        power: Ok(Watts(watts)),
        clock: Ok(Hertz(mega * 1e6)),
        utilization: Ok(Ratio(0.96)),
        reasons: Ok(0),
        ..SamplePoint::at(at(0))
    }
}

fn slow(from: u64, to: u64) -> Stretch {
    let kind = StretchKind::Slow;
    Stretch { kind, from: at(from), to: at(to), ratio: 2.0, steps: 100, lost: Seconds(1.0) }
}

fn explained(points: &[SamplePoint]) -> Explained {
    let t = Thresholds::default();
    let stretches = [slow(7200, 9000)];
    explain(points, &stretches, (at(60), at(660)), &t).pop().unwrap()
}

fn names(explained: &Explained) -> Vec<SlowCause> {
    explained.causes.iter().map(|(cause, _)| *cause).collect()
}

#[test]
fn heat_is_named_where_the_clock_fell_with_it() {
    let points = samples(2.5, |second| {
        if second < 7200 { busy(88.0, 79.0, 2250.0) } else { busy(88.0, 86.0, 1500.0) }
    });
    let told = explained(&points);
    assert_eq!(names(&told), [SlowCause::Heat]);
    assert!(
        told.causes[0]
            .1
            .contains("33 % lower than in the steady minutes, which explains about 50 % of it"),
        "{}",
        told.causes[0].1
    );
    assert_eq!(told.during.peak, Ok(Celsius(86.0)));
    assert!(told.before.clock.is_ok_and(|h| (h.0 - 2.25e9).abs() < 1.0));
}

/// Hot all along, and the clock is what it was: something else made it slow.
#[test]
fn heat_that_was_there_before_explains_nothing() {
    let told = explained(&samples(2.5, |_| busy(88.0, 84.0, 2250.0)));
    assert_eq!(names(&told), []);
    assert_eq!(told.during.states.first().map(|s| s.0), Some(ThrottleState::HeatingAtCap));
}

#[test]
fn without_clocks_heat_is_told_by_what_there_is() {
    let points = samples(2.5, |second| {
        let celsius = if second < 7200 { 79.0 } else { 86.0 };
        SamplePoint { clock: Err(Missing::NotPresent), ..busy(88.0, celsius, 0.0) }
    });
    assert_eq!(names(&explained(&points)), [SlowCause::Heat]);
}

#[test]
fn a_run_that_is_slow_beside_healthy_samples_is_unexplained() {
    let points = samples(2.5, |second| {
        if second < 7200 { busy(62.0, 71.0, 2405.0) } else { busy(58.0, 70.0, 2405.0) }
    });
    let told = explained(&points);
    assert_eq!(names(&told), []);
    assert_eq!(told.during.states.first().map(|s| s.0), Some(ThrottleState::Nominal));
}

#[test]
fn power_that_is_not_delivered_is_named() {
    let points = samples(2.5, |second| {
        if second < 7200 { busy(62.0, 71.0, 2405.0) } else { busy(19.5, 52.0, 799.0) }
    });
    assert_eq!(names(&explained(&points)), [SlowCause::PowerDelivery]);
}

#[test]
fn a_clock_cap_is_named_and_several_causes_overlap() {
    let points = samples(2.5, |second| {
        if second < 7200 { busy(62.0, 71.0, 2405.0) } else { busy(40.0, 58.0, 1700.0) }
    });
    let told = explained(&points);
    assert_eq!(names(&told), [SlowCause::ClockCap]);
    assert!(told.causes[0].1.contains("1700 MHz, 29 % below 2405 MHz"), "{}", told.causes[0].1);
    // Hot as well, for other reasons.
    let points = samples(2.5, |second| {
        if second < 7200 { busy(62.0, 71.0, 2405.0) } else { busy(50.0, 86.0, 1700.0) }
    });
    assert_eq!(names(&explained(&points)), [SlowCause::Heat, SlowCause::ClockCap]);
}

#[test]
fn no_samples_explain_nothing_and_a_gap_is_no_sample() {
    let told = explained(&[]);
    assert_eq!((names(&told), told.during.power), (vec![], Err(Missing::NotPresent)));
    let mut points = samples(2.5, |second| {
        if second < 7200 { busy(62.0, 71.0, 2405.0) } else { busy(19.5, 52.0, 799.0) }
    });
    points.retain(|point| point.wall < at(7000) || point.wall >= at(9000));
    assert_eq!(names(&explained(&points)), []);
}
