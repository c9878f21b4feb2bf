//! When a climb and a plateau are heat.

use super::*;

/// A job at 60 W that has run for so long at one temperature and then climbs to another within ten
/// minutes: whether the signature is seen.
fn climb(before: u64, from: f64, to: f64) -> bool {
    let at = |celsius: f64| Says { power: Ok(60.0), temperature: Ok(celsius), ..PLATEAU };
    let mut spark = Spark::new();
    spark.stay(before, at(from));
    let end = spark.run(600, |second| {
        let steps = f64::from(u32::try_from(second / 60).unwrap());
        at(from + (to - from) * steps / 9.0)
    });
    end.signature.unwrap()
}

#[test]
fn a_climb_is_heat_when_the_job_has_settled_and_the_gpu_is_warm() {
    assert!(climb(700, 70.0, 73.0) && !climb(700, 70.0, 72.9));
    assert!(climb(700, 60.0, 70.0) && !climb(700, 60.0, 69.9), "below 70 degrees it is none");
    // Thirty seconds and then ten minutes after the first samples.
    assert!(climb(631, 70.0, 75.0) && !climb(630, 70.0, 75.0), "the first minutes of any job");
}

/// Busy in nine of the ten minutes is not busy for ten.
#[test]
fn a_minute_off_ends_the_ten() {
    let mut spark = Spark::new();
    spark.stay(300, PLATEAU);
    spark.stay(60, Says { utilization: Ok(0.2), ..PLATEAU });
    let hot = Says { temperature: Ok(85.0), ..PLATEAU };
    assert_eq!(spark.stay(560, hot).signature, Ok(false));
    assert_eq!(spark.stay(40, hot).signature, Ok(true));
}

#[test]
fn power_at_what_the_supply_is_rated_for_is_no_plateau_of_the_platform() {
    let at = |watts: f64| Says { power: Ok(watts), temperature: Ok(85.0), ..PLATEAU };
    assert_eq!(Spark::new().stay(601, at(239.9)).signature, Ok(true));
    assert_eq!(Spark::new().stay(601, at(240.0)).signature, Ok(false));
}
