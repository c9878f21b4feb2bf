//! What must not be blamed on heat, and what must not be forgotten.

use super::*;

const REST: Says = Says { utilization: Ok(0.0), power: Ok(11.0), temperature: Ok(60.0), ..HOT };

/// Another job has other clocks: after a rest the comparison begins anew, and so it does after hours in which
/// nothing was seen.
#[test]
fn another_job_is_not_compared_with_the_one_before() {
    let other = Says { clock: Ok(1950.0), power: Ok(88.0), ..HOT };
    let mut spark = Spark::new();
    spark.stay(1200, HOT);
    spark.stay(180, REST);
    for _ in 0..3600 {
        let now = spark.tick(other);
        assert_ne!(now.state(), S::Thermal, "{}", now.evidence);
    }
    let mut spark = Spark::new();
    spark.stay(1200, HOT);
    for _ in 0..3 * 3600 {
        spark.hang(Missing::Hung);
    }
    let now = spark.stay(500, other);
    assert_eq!((now.state(), now.baseline), (S::AtPowerCap, Err(Missing::Pending)));
    assert_ne!(spark.stay(1200, other).state(), S::Thermal);
}

/// What owners do against heat is no heat.
#[test]
fn a_clock_cap_that_is_set_against_heat_is_not_called_thermal() {
    let hot = Says { power: Ok(62.0), clock: Ok(2350.0), reasons: Ok(0), ..HOT };
    let mut spark = Spark::new();
    spark.stay(1200, hot);
    let capped = Says { power: Ok(58.0), clock: Ok(2000.0), ..hot };
    for second in 0..3600 {
        let now =
            spark.tick(Says { temperature: Ok(if second < 300 { 84.0 } else { 83.0 }), ..capped });
        assert_ne!(now.state(), S::Thermal, "{second}: {}", now.evidence);
    }
    assert_eq!(spark.tick(capped).cap, Ok(Hertz(2.0e9)));
}

#[test]
fn heat_that_has_gone_is_no_heat_whatever_the_clock() {
    let mut spark = Spark::new();
    spark.stay(661, HOT);
    assert_eq!(spark.stay(610, slower(0.15)).state(), S::Thermal);
    // A pause in the work ends the signature and not the heat.
    spark.stay(20, Says { temperature: Ok(83.0), ..REST });
    assert_eq!(spark.stay(300, slower(0.15)).state(), S::Thermal);
    let cool = Says { temperature: Ok(70.0), ..slower(0.15) };
    let end = spark.stay(700, cool);
    assert_eq!((end.state(), end.costs[0]), (S::AtPowerCap, Ok(true)), "{}", end.evidence);
}

/// Minutes that heat has slowed down do not teach what is normal.
#[test]
fn nothing_is_learned_while_heat_costs_time() {
    let mut spark = Spark::new();
    let end = spark.stay(2000, Says { thermal: Some(0.3), ..HOT });
    assert_eq!((end.state(), end.baseline), (S::Thermal, Err(Missing::Pending)));
}

#[test]
fn the_hardwares_counter_counts_as_well_as_the_drivers() {
    let mut spark = Spark::new();
    spark.stay(660, HOT);
    let heat = Says { thermal: Some(0.3), hardware: true, ..HOT };
    assert_eq!(spark.stay(320, heat).state(), S::Thermal);
}

/// Where the driver has no counters, the reasons in the samples are what there is.
#[test]
fn reasons_in_a_good_part_of_the_samples_stand_in_for_counters() {
    let severe = |every: u64| {
        move |second: u64| Says {
            clock: Ok(1500.0),
            power: Ok(42.0),
            temperature: Ok(91.0),
            thermal: None,
            reasons: Ok(if second % 100 < every { 0x20 } else { 0 }),
            ..HOT
        }
    };
    assert_eq!(Spark::new().run(700, severe(20)).state(), S::Thermal);
    assert_eq!(Spark::new().run(700, severe(19)).state(), S::HeatingAtCap);
}

/// Full clocks on the power of one that waits prove nothing about the supply.
#[test]
fn a_spin_disproves_no_fault() {
    let mut spark = Spark::new();
    spark.stay(300, FAULT);
    let at = |watts: f64| Says { power: Ok(watts), clock: Ok(2405.0), ..FAULT };
    let spin = spark.stay(100, at(30.0));
    assert_eq!(spin.state(), S::PowerDelivery);
    assert!(
        spin.evidence.contains("100 of") || spin.evidence.starts_with("seen before"),
        "{}",
        spin.evidence
    );
    assert_eq!(spark.tick(at(30.1)).state(), S::Nominal);
}

/// What is said of a fault that is kept is true of now.
#[test]
fn a_fault_that_is_kept_does_not_claim_to_be_seen_now() {
    let mut spark = Spark::new();
    spark.stay(300, FAULT);
    let light = Says { clock: Ok(1200.0), power: Ok(33.0), ..FAULT };
    let kept = spark.stay(300, light);
    assert_eq!(kept.state(), S::PowerDelivery);
    assert!(kept.evidence.starts_with("seen before and not disproved since"), "{}", kept.evidence);
}

#[test]
fn a_limit_that_was_lowered_is_not_called_the_platform() {
    let says = Says {
        module: Some((59.0, 60.0)),
        power: Ok(33.0),
        clock: Ok(1100.0),
        temperature: Ok(50.0),
        ..PLATEAU
    };
    let told = Spark::new().stay(120, says);
    assert_eq!(told.state(), S::AtPowerCap);
    assert!(told.evidence.contains("far below the 140.0 W"), "{}", told.evidence);
}

/// Uncapped boxes wander within what their provenance says.
#[test]
fn a_burst_of_a_high_clock_makes_no_cap_of_a_steady_one() {
    let at = |mega: f64| Says { clock: Ok(mega), power: Ok(55.0), ..DECODE };
    let mut spark = Spark::new();
    spark.stay(30, at(2522.0));
    assert_eq!(spark.stay(700, at(2391.0)).cap, Err(Missing::NotPresent));
    assert_eq!(spark.stay(700, at(2385.0)).cap_changes, [0, 0]);
}

/// What is known is known of one GPU with one driver.
#[test]
fn another_gpu_or_driver_inherits_nothing() {
    let mut spark = Spark::new();
    spark.stay(300, FAULT);
    spark.uuid = Ok("GPU-b".to_owned());
    assert_eq!(spark.stay(60, IDLE).state(), S::Idle);
    let kept = spark.state.entries();
    assert!(kept.iter().any(|e| e.gpu == "GPU-a" && e.power_fault), "{kept:?}");
    assert!(!kept.iter().any(|e| e.gpu == "GPU-b" && e.power_fault), "{kept:?}");
    spark.uuid = Err(Missing::Failed);
    spark.stay(5, IDLE);
    spark.uuid = Ok("GPU-a".to_owned());
    assert_eq!(spark.stay(5, IDLE).state(), S::PowerDelivery, "it is back");
    let mut spark = Spark::new();
    spark.stay(30, Says { clock: Ok(2500.0), ..DECODE });
    spark.snapshot.gpus.driver = Ok("595.84".to_owned());
    assert_eq!(spark.tick(IDLE).learned, Err(Missing::Pending));
    assert_eq!(spark.state.entries()[0].driver, "580.82.09");
}

#[test]
fn a_file_that_tells_nonsense_is_not_believed() {
    let entry = |clock: f64, cap: f64| LearnedGpu {
        gpu: "GPU-a".to_owned(),
        driver: "580.82.09".to_owned(),
        boot_id: "boot-1".to_owned(),
        clock: Some(clock),
        cap: Some(cap),
        power_fault: false,
    };
    for (clock, cap) in [(1e300, -5.0), (f64::NAN, f64::INFINITY), (0.0, 1.0)] {
        let mut spark = Spark::new();
        spark.state.load(vec![entry(clock, cap)]);
        let told = spark.stay(60, DECODE);
        assert_eq!((told.learned, told.cap_changes), (Ok(Hertz(2.463e9)), [0, 0]));
    }
}
