//! The highest clock, the cap, and what outlives the exporter.

use super::*;
use crate::model::throttle::CapChange;

const CAPPED: Says = Says { clock: Ok(2100.0), power: Ok(55.0), ..DECODE };

#[test]
fn a_clock_cap_is_seen_after_ten_minutes_and_its_loss_at_once() {
    let mut spark = Spark::new();
    assert_eq!(spark.stay(600, CAPPED).cap, Err(Missing::Pending));
    let capped = spark.tick(CAPPED);
    assert_eq!((capped.cap, capped.cap_changes), (Ok(Hertz(2.1e9)), [1, 0]));
    assert_eq!(capped.state(), S::Nominal);
    assert_eq!(spark.stay(300, Says { clock: Ok(208.0), ..IDLE }).cap, Ok(Hertz(2.1e9)));
    let above = Says { clock: Ok(2116.0), ..IDLE };
    assert_eq!(spark.stay(4, above).cap, Ok(Hertz(2.1e9)));
    let lost = spark.tick(above);
    assert_eq!((lost.cap, lost.cap_changes), (Err(Missing::NotPresent), [1, 1]));
    assert_eq!(lost.cap_changed, Some((CapChange::Lost, Hertz(2.1e9))));
}

#[test]
fn what_is_no_cap() {
    let none = |says: fn(u64) -> Says| Spark::new().run(1300, says).cap;
    assert_eq!(none(|_| DECODE), Err(Missing::NotPresent), "as high as it gets");
    assert_eq!(none(|_| PLATEAU), Err(Missing::Pending), "power governs");
    assert_eq!(
        none(|_| Says { reasons: Ok(0x20), ..CAPPED }),
        Err(Missing::Pending),
        "heat governs"
    );
    assert_eq!(none(|_| FAULT), Err(Missing::NotPresent), "a fault is none");
    let wanders = none(|s| Says { clock: Ok(if s % 2 == 0 { 2000.0 } else { 2100.0 }), ..CAPPED });
    assert_eq!(wanders, Err(Missing::NotPresent));
    let at = |mega: f64| Spark::new().stay(700, Says { clock: Ok(mega), ..CAPPED }).cap.is_ok();
    assert!(at(1400.0) && !at(1399.0), "below it may be a fault");
    assert!(at(2194.0) && !at(2195.0), "8 % below the floor of what a clock can be");
    // A higher clock once seen shows that more is possible.
    let mut spark = Spark::new();
    spark.stay(10, Says { clock: Ok(2500.0), ..DECODE });
    assert_eq!(spark.stay(700, Says { clock: Ok(2300.0), ..CAPPED }).cap, Ok(Hertz(2.3e9)));
}

#[test]
fn the_highest_clock_is_learned_from_busy_samples_in_a_row() {
    let mut spark = Spark::new();
    let fast = Says { clock: Ok(2500.0), ..DECODE };
    assert_eq!(spark.stay(4, fast).learned, Err(Missing::Pending));
    assert_eq!(spark.tick(IDLE).learned, Err(Missing::Pending));
    assert_eq!(spark.stay(4, fast).learned, Err(Missing::Pending));
    assert_eq!(spark.tick(fast).learned, Ok(Hertz(2.5e9)));
    let mut slow = Spark::new();
    let floor = Says { clock: Ok(2384.0), ..DECODE };
    assert_eq!(slow.stay(60, floor).learned, Err(Missing::Pending), "no healthy one is so slow");
}

/// What is kept from run to run, and for how long it holds.
#[test]
fn what_was_learned_outlives_the_exporter_and_a_fault_its_boot() {
    let mut spark = Spark::new();
    spark.stay(5, Says { clock: Ok(2480.0), ..DECODE });
    spark.stay(700, CAPPED);
    spark.stay(200, FAULT);
    let kept = spark.state.entries();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (kept[0].clock, kept[0].cap, kept[0].power_fault),
        (Some(2.48e9), Some(2.1e9), true)
    );
    let again = |boot: &str, says: Says, seconds: u64| {
        let mut next = Spark::new();
        next.snapshot.kernel.boot_id = Ok(boot.to_owned());
        next.state.load(kept.clone());
        next.stay(seconds, says)
    };
    let same = again("boot-1", IDLE, 40);
    assert_eq!((same.state(), same.learned), (S::PowerDelivery, Ok(Hertz(2.48e9))));
    let other = again("boot-2", Says { clock: Ok(208.0), ..IDLE }, 40);
    assert_eq!((other.state(), other.cap), (S::Idle, Err(Missing::Pending)));
    let lost = again("boot-2", Says { clock: Ok(2405.0), ..IDLE }, 40);
    assert_eq!(lost.cap_changes, [0, 1], "the reboot has lost it");
    let still = again("boot-2", CAPPED, 700);
    assert_eq!((still.cap, still.cap_changes), (Ok(Hertz(2.1e9)), [0, 0]), "it is no news");
    // With another driver nothing of it holds.
    let mut next = Spark::new();
    next.snapshot.gpus.driver = Ok("590.48.01".to_owned());
    next.state.load(kept.clone());
    assert_eq!(next.stay(40, IDLE).state(), S::Idle);
    assert_eq!(next.state.entries().len(), 1);
}

/// A day, second by second: what is remembered stays within its bounds.
#[test]
fn a_day_stays_within_a_fixed_bound() {
    let mut spark = Spark::new();
    // A window that is as long as it can be.
    spark.t.throttle_window = Seconds(3600.0);
    for second in 0..90_000_u64 {
        let says = match second / 5400 % 4 {
            0 => IDLE,
            1 => HOT,
            2 => CAPPED,
            _ => slower(0.15),
        };
        spark.tick(says);
        if second % 3600 == 0 {
            let one = &spark.state.gpus[&0];
            assert!(one.history.kept_at_most() <= 3661);
            assert!(spark.state.entries().len() <= 1);
        }
    }
}
