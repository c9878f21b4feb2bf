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
        [S::Thermal, S::PowerDelivery, S::StalledBusy]
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
    let inputs = [Input::Temperature, Input::EventReasons, Input::ThermalSeconds, Input::SmClock];
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

#[test]
fn a_driver_that_hangs_leaves_the_state_unknown_and_a_fault_standing() {
    let mut spark = Spark::new();
    spark.stay(700, HOT);
    let hung = spark.hang(Missing::Hung).pop().unwrap();
    assert_eq!((hung.state(), hung.signature), (S::Unknown, Err(Missing::Hung)));
    assert_eq!(hung.minute.power, Err(Missing::Hung));
    assert_eq!(hung.evidence, "the driver does not tell (hung)");
    assert_eq!(spark.tick(HOT).state(), S::HeatingAtCap, "back after a moment");
    for _ in 0..70 {
        spark.hang(Missing::Hung);
    }
    assert_eq!(spark.tick(HOT).state(), S::Unknown, "across a gap nothing can be said");
    let mut spark = Spark::new();
    spark.stay(300, FAULT);
    let hung = spark.hang(Missing::Hung).pop().unwrap();
    assert_eq!(hung.state(), S::PowerDelivery);
    spark.advance(300);
    assert_eq!(spark.tick(FAULT).state(), S::PowerDelivery);
    // Nobody knows what was before the first answer.
    assert_eq!(Spark::new().hang(Missing::NoLibrary), []);
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
