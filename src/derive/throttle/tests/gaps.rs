//! What is missing, for a moment or for good.

use super::*;

#[test]
fn what_is_missing_takes_only_its_states_away() {
    let why = Missing::NotAvailable;
    let names = |says: Says| {
        let told = Spark::new().stay(120, says);
        let mut states: Vec<_> = told.unreachable.iter().map(|u| u.state).collect();
        states.dedup();
        (told.state(), states)
    };
    let without_power = Says { power: Err(why), ..PLATEAU };
    assert_eq!(names(without_power).0, S::Unknown);
    assert_eq!(names(without_power).1.len(), 7);
    let told = Spark::new().stay(120, without_power);
    assert_eq!(told.evidence, "power not_available");
    let without = Says { utilization: Err(why), ..PLATEAU };
    assert_eq!(Spark::new().stay(120, without).evidence, "utilization not_available");
    assert_eq!(
        names(Says { temperature: Err(why), ..PLATEAU }),
        (S::AtPowerCap, vec![S::HeatingAtCap])
    );
    assert_eq!(
        names(Says { clock: Err(why), ..PLATEAU }),
        (S::AtPowerCap, vec![S::PowerDelivery, S::StalledBusy])
    );
    assert_eq!(
        names(Says { clock: Err(why), thermal: None, ..PLATEAU }).1,
        [S::PowerDelivery, S::StalledBusy],
        "reasons in the samples stand in for both"
    );
    assert_eq!(names(Says { reasons: Err(why), ..PLATEAU }).1, [S::PowerDelivery]);
    // Each input once, although one stands in two groups.
    let nothing = Says {
        clock: Err(why),
        temperature: Err(why),
        reasons: Err(why),
        thermal: None,
        ..PLATEAU
    };
    let told = Spark::new().stay(120, nothing).unreachable;
    let thermal: Vec<_> = told.iter().filter(|u| u.state == S::Thermal).map(|u| u.input).collect();
    let inputs = [
        Input::Temperature,
        Input::EventReasons,
        Input::ThermalSeconds,
        Input::SmClock,
        Input::StepTime,
    ];
    assert_eq!(thermal, inputs);
    // Without reasons it cannot be told that none was given.
    assert_eq!(ends(Says { reasons: Err(why), ..FAULT }, 600), S::Nominal);
}

/// One answer that stays away is none; half a minute of them is.
#[test]
fn a_blink_is_no_blindness() {
    let blinks = |every: u64| {
        move |second: u64| {
            let power =
                if second.is_multiple_of(every) { Err(Missing::Failed) } else { DECODE.power };
            Says { power, ..DECODE }
        }
    };
    assert_eq!(Spark::new().run(300, blinks(2)).state(), S::Nominal);
    let mut spark = Spark::new();
    spark.stay(300, DECODE);
    let without = Says { power: Err(Missing::Failed), ..DECODE };
    assert_eq!(spark.stay(30, without).state(), S::Nominal);
    let blind = spark.tick(without);
    assert_eq!((blind.state(), blind.signature), (S::Unknown, Err(Missing::Failed)));
}

/// A driver that is silent for a second is no news; after half a minute nothing is known, and that is said in
/// every figure. A fault stands, and says that it is of before.
#[test]
fn a_driver_that_hangs_leaves_the_state_unknown_and_a_fault_standing() {
    let mut spark = Spark::new();
    spark.stay(700, HOT);
    let silent = |spark: &mut Spark, seconds: u64| {
        (0..seconds).map(|_| spark.hang(Missing::Hung).pop().unwrap()).last().unwrap()
    };
    assert_eq!(silent(&mut spark, 30).state(), S::HeatingAtCap);
    let hung = silent(&mut spark, 1);
    let why = Err(Missing::Hung);
    assert_eq!((hung.state(), hung.signature, hung.costs), (S::Unknown, why, [why; 3]));
    assert_eq!((hung.minute.power, hung.thermal_share), (Err(Missing::Hung), Err(Missing::Hung)));
    assert_eq!((hung.baseline, hung.cap), (Err(Missing::Hung), Err(Missing::Hung)));
    assert_eq!(hung.evidence, "the driver does not tell (hung)");
    assert_eq!(spark.tick(HOT).state(), S::HeatingAtCap, "back after a moment");
    silent(&mut spark, 70);
    assert_eq!(spark.tick(HOT).state(), S::Unknown, "across a gap nothing can be said");
    let mut spark = Spark::new();
    spark.stay(300, FAULT);
    let hung = silent(&mut spark, 3600);
    assert_eq!((hung.state(), hung.minute.power), (S::PowerDelivery, Err(Missing::Hung)));
    assert!(hung.evidence.starts_with("seen before"), "{}", hung.evidence);
    assert!(hung.unreachable.len() > 20);
    assert_eq!(spark.tick(FAULT).state(), S::PowerDelivery);
    // Nobody knows what was before the first answer.
    assert_eq!(Spark::new().hang(Missing::NoLibrary), []);
}

/// Time in a state is time in which the GPU was seen.
#[test]
fn time_across_a_gap_is_nobodys() {
    let mut spark = Spark::new();
    let before = spark.stay(700, HOT).seconds[1].0;
    spark.advance(3600);
    assert!((spark.tick(HOT).seconds[1].0 - before).abs() < 1e-9);
}

/// A single round that tells less does not end what it says nothing about.
#[test]
fn a_blink_of_one_figure_ends_nothing() {
    let mut spark = Spark::new();
    spark.stay(660, HOT);
    let heat = Says { thermal: Some(0.4), ..HOT };
    spark.stay(310, heat);
    let blink = spark.tick(Says { thermal: None, ..heat });
    assert_eq!(blink.state(), S::Thermal, "{}", blink.evidence);
    for second in 0..400 {
        let now = spark.tick(heat);
        assert_eq!(now.state(), S::Thermal, "{second}: {}", now.evidence);
    }
    let mut spark = Spark::new();
    spark.stay(700, SPIN);
    spark.held_missing = true;
    assert_eq!(spark.tick(SPIN).state(), S::StalledBusy);
    spark.held_missing = false;
    assert_eq!(spark.stay(600, SPIN).state(), S::StalledBusy);
    let told =
        Says { module: Some((138.0, 140.0)), power: Ok(60.0), temperature: Ok(60.0), ..PLATEAU };
    let mut spark = Spark::new();
    spark.stay(300, told);
    assert_eq!(spark.stay(8, Says { module: None, ..told }).state(), S::AtPowerCap);
}

/// A GPU that falls off the bus for a moment keeps its counters; one that stays away is forgotten.
#[test]
fn a_gpu_that_is_gone_for_a_moment_is_still_the_same() {
    let mut spark = Spark::new();
    spark.stay(700, HOT);
    let gone = |spark: &mut Spark| {
        spark.advance(1);
        spark.snapshot.gpus.devices = Ok(Vec::new());
        spark.snapshot.read_at[Source::Gpu.index()] = Some(spark.snapshot.at);
        spark.look(IDLE)
    };
    let lost = gone(&mut spark).pop().unwrap();
    assert_eq!((lost.state(), lost.episodes[1]), (S::HeatingAtCap, 1));
    for _ in 0..40 {
        gone(&mut spark);
    }
    let lost = gone(&mut spark).pop().unwrap();
    assert_eq!((lost.state(), lost.minute.power), (S::Unknown, Err(Missing::Lost)));
    assert_eq!(spark.tick(HOT).episodes[1], 2);
    for _ in 0..601 {
        gone(&mut spark);
    }
    assert_eq!(gone(&mut spark), []);
}

/// Drivers may be asked once a minute.
#[test]
fn rounds_a_minute_apart_are_judged() {
    let mut spark = Spark::new();
    spark.t.gpu_period = Seconds(60.0);
    let mut last = None;
    for _ in 0..30 {
        spark.advance(59);
        last = Some(spark.tick(Says { temperature: Ok(84.0), ..PLATEAU }));
    }
    assert_eq!(last.unwrap().state(), S::HeatingAtCap);
}

/// One sample after a gap must not speak for the three minutes before it.
#[test]
fn one_sample_after_a_gap_proves_nothing() {
    let mut spark = Spark::new();
    spark.stay(100, DECODE);
    spark.advance(240);
    assert_eq!(spark.tick(FAULT).state(), S::Unknown);
    assert_ne!(spark.stay(170, FAULT).state(), S::PowerDelivery);
}
