//! Limits that the other tests do not meet exactly: at each, and one unit to the other side.

use super::*;

/// Of ten minutes so many are alike, the others are a pause.
fn with_pauses(pauses: u64, clock: f64) -> impl Fn(u64) -> Says {
    move |second| {
        if second / 60 % 10 < pauses {
            // Busy enough for the job to go on, and at another power.
            Says { utilization: Ok(0.85), power: Ok(40.0), clock: Ok(2450.0), ..HOT }
        } else {
            Says { clock: Ok(clock), ..HOT }
        }
    }
}

#[test]
fn eight_of_ten_minutes_are_enough_to_compare() {
    let learned = |pauses| Spark::new().run(1300, with_pauses(pauses, 2200.0)).baseline;
    assert!(learned(2).is_ok() && learned(3).is_err());
    let cost = |pauses| {
        let mut spark = Spark::new();
        spark.stay(700, HOT);
        // Whole minutes of pause and whole ones of work.
        spark.run(1320, with_pauses(pauses, 1900.0)).costs[0]
    };
    assert_eq!((cost(2), cost(3)), (Ok(true), Ok(false)));
}

#[test]
fn the_share_of_heat_is_taken_over_its_window() {
    let mut spark = Spark::new();
    assert_eq!(spark.stay(300, HOT).thermal_share, Err(Missing::Pending));
    assert_eq!(spark.tick(HOT).thermal_share, Ok(Ratio(0.0)));
    // Sixty seconds of three hundred, and fifty-nine.
    let heat = Says { thermal: Some(1.0), ..HOT };
    for (seconds, cost) in [(60, Ok(true)), (59, Ok(false))] {
        let mut spark = Spark::new();
        spark.stay(400, HOT);
        assert_eq!(spark.stay(seconds, heat).costs[1], cost, "{seconds} s");
    }
}

#[test]
fn a_job_ends_after_its_gap() {
    let mut spark = Spark::new();
    spark.stay(700, HOT);
    // It is last busy by its minute after 17 of them.
    let rest = Says { utilization: Ok(0.0), temperature: Ok(60.0), power: Ok(11.0), ..HOT };
    let mut ended = 0;
    for second in 1..=200 {
        if spark.tick(rest).baseline.is_err() {
            ended = second;
            break;
        }
    }
    assert_eq!(ended, 16 + 120, "the first minute below 70 % is the seventeenth second's");
}

/// Eighty of a hundred busy samples, and seventy-nine.
#[test]
fn a_fault_needs_its_share_to_the_sample() {
    for (bad, fault) in [(80, true), (79, false)] {
        let mut spark = Spark::new();
        spark.t.fault_window = Seconds(100.0);
        let light = Says { clock: Ok(1200.0), power: Ok(33.0), ..FAULT };
        let end = spark.run(101, |second| if second % 100 < bad { FAULT } else { light });
        // The window holds the last hundred of them.
        assert_eq!(end.state() == S::PowerDelivery, fault, "{bad}: {}", end.evidence);
    }
}

#[test]
fn a_cap_is_lost_beyond_its_spread_and_a_clock_is_learned_from_the_floor_on() {
    let capped = Says { clock: Ok(2100.0), power: Ok(55.0), ..DECODE };
    for (mega, lost) in [(2115.0, 0), (2116.0, 1)] {
        let mut spark = Spark::new();
        spark.stay(700, capped);
        let end = spark.stay(10, Says { clock: Ok(mega), ..IDLE });
        assert_eq!(end.cap_changes, [1, lost], "{mega}");
    }
    // Pinned: within 15 MHz of its highest.
    for (low, seen) in [(2085.0, true), (2084.0, false)] {
        let by_turns = |second: u64| Says {
            clock: Ok(if second.is_multiple_of(2) { 2100.0 } else { low }),
            ..capped
        };
        assert_eq!(Spark::new().run(700, by_turns).cap.is_ok(), seen, "{low}");
    }
    for (mega, learned) in [(2385.0, true), (2384.0, false)] {
        let at = Says { clock: Ok(mega), ..DECODE };
        assert_eq!(Spark::new().stay(60, at).learned.is_ok(), learned, "{mega}");
    }
}

#[test]
fn a_modules_limit_is_low_below_what_is_sustained() {
    for (limit, low) in [(99.9, true), (100.0, false)] {
        let says = Says { module: Some((limit, limit)), temperature: Ok(60.0), ..PLATEAU };
        let told = Spark::new().stay(120, says);
        assert_eq!(told.evidence.contains("far below"), low, "{}", told.evidence);
    }
}
