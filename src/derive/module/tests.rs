use super::*;
use crate::thresholds::Thresholds;
use crate::units::Celsius;
use proptest::prelude::*;

/// A machine with the driver, whose registers a test sets and whose clock it moves.
struct Box {
    state: State,
    snapshot: Snapshot,
}

fn sensor(name: &str, value: SensorValue) -> HwmonSensor {
    HwmonSensor { name: name.to_owned(), value: Ok(value) }
}

impl Box {
    fn new() -> Self {
        let at =
            Moment { mono: Duration::from_secs(1000), wall: Duration::from_secs(1_700_000_000) };
        Self { state: State::default(), snapshot: Snapshot::absent(at, Missing::Pending) }
    }

    /// Milliseconds later, with these sensors.
    fn with(&mut self, millis: u64, sensors: Vec<HwmonSensor>) -> Module {
        self.wait(millis);
        self.snapshot.hwmon = Ok(sensors);
        self.snapshot.read_at[Source::Hwmon.index()] = Some(self.snapshot.at);
        derive(&mut self.state, &self.snapshot)
    }

    fn wait(&mut self, millis: u64) {
        self.snapshot.at.mono += Duration::from_millis(millis);
        self.snapshot.at.wall += Duration::from_millis(millis);
    }

    /// Seconds later, with this many millijoules in the package's register: what is exported, in
    /// millijoules.
    fn package(&mut self, seconds: u64, register: u64) -> u64 {
        let value = SensorValue::Energy(Joules::from_milli(register));
        let module = self.with(seconds * 1000, vec![sensor("spbm.energy1.pkg", value)]);
        module.energy(EnergyRail::Pkg).unwrap().whole_milli()
    }
}

#[test]
fn a_register_that_begins_anew_goes_on_counting() {
    let mut b = Box::new();
    assert_eq!(b.package(1, WRAP - 150_000), 0, "whatever the register holds at first");
    assert_eq!(b.package(1, WRAP - 50_000), 100_000);
    assert_eq!(b.package(1, 50_000), 200_000);
    assert_eq!(b.package(1, 50_000), 200_000, "a box at rest");
    assert_eq!(b.package(1, 150_000), 300_000);
    // Half a day later, unseen, and once more.
    assert_eq!(b.package(43_200, 100_000), 250_000 + WRAP);
}

/// Without it, a driver loaded anew would have used 2.3 MJ in a second.
#[test]
fn a_driver_loaded_anew_adds_nothing() {
    let mut b = Box::new();
    b.package(1, 2_000_000_000);
    assert_eq!(b.package(1, 0), 0);
    assert_eq!(b.package(1, 100_000), 100_000, "it goes on from there");
    // Back to where it was: the zero was a wrong reading, and is no energy either.
    assert_eq!(b.package(1, 2_000_200_000), 100_000);
    assert_eq!(b.package(1, 2_000_300_000), 200_000);
}

/// A gap of an hour cannot hold a wrap of 4.29 MJ, one of three hours at 400 W can.
#[test]
fn a_fall_in_a_gap_is_a_wrap_when_there_was_time_for_it() {
    for (seconds, wraps) in [(60, false), (3600, false), (10_800, true)] {
        let mut b = Box::new();
        b.package(1, 1_000_000_000);
        let want = if wraps { WRAP - 1_000_000_000 } else { 0 };
        assert_eq!(b.package(seconds, 0), want, "{seconds} s");
    }
    // A rise is held to the same.
    let mut b = Box::new();
    b.package(1, 0);
    assert_eq!(b.package(600, 90_000_000), 90_000_000, "150 W for ten minutes");
    assert_eq!(b.package(600, 4_000_000_000), 90_000_000, "6.5 kW for ten minutes");
}

#[test]
fn a_box_that_slept_by_its_steady_clock_has_used_energy() {
    let mut b = Box::new();
    b.package(1, 0);
    b.snapshot.at.wall += Duration::from_secs(36_000);
    assert_eq!(b.package(1, 180_000_000), 180_000_000);
}

/// Unknowable: the step fits a register that moved by a little.
#[test]
fn of_several_wraps_between_two_readings_one_is_seen_at_most() {
    let mut b = Box::new();
    b.package(1, 1_000_000_000);
    assert_eq!(b.package(86_400, 1_000_100_000), 100_000);
    assert_eq!(b.package(2 * 86_400, 1_000_000_000), WRAP);
}

#[test]
fn what_is_not_read_is_missing_and_loses_no_energy() {
    let mut b = Box::new();
    b.package(1, WRAP - 100_000);
    b.wait(5000);
    b.snapshot.lose(Source::Hwmon, Missing::Hung);
    let blind = derive(&mut b.state, &b.snapshot);
    assert_eq!(blind.energy, [Err(Missing::Hung); EnergyRail::ALL.len()]);
    assert!(!blind.known());
    let gone = b.with(1000, vec![sensor("spbm.power1.sys_total", SensorValue::Power(Watts(30.0)))]);
    assert_eq!(gone.energy(EnergyRail::Pkg), Err(Missing::NotPresent));
    assert_eq!(b.package(1, 200_000), 300_000);
}

#[test]
fn a_round_that_is_seen_again_adds_nothing() {
    let mut b = Box::new();
    b.package(1, WRAP - 1000);
    assert_eq!(b.package(1, 500), 1500);
    for _ in 0..10 {
        b.snapshot.at.mono += Duration::from_secs(1);
        let again = derive(&mut b.state, &b.snapshot).energy(EnergyRail::Pkg);
        assert_eq!(again.unwrap().whole_milli(), 1500);
    }
    assert_eq!(b.package(1, 1500), 2500);
}

/// A driver that counts on for the hardware.
#[test]
fn a_register_wider_than_the_hardware_is_taken_as_it_is() {
    let mut b = Box::new();
    let start = WRAP - 100_000;
    b.package(1, start);
    assert_eq!(b.package(1, WRAP + 10_000), 110_000);
    assert_eq!(b.package(36_000, 2 * WRAP), 2 * WRAP - start);
    assert_eq!(b.package(36_000, 5), 2 * WRAP - start, "it does not wrap, so it began anew");
    assert_eq!(b.package(1, 100_005), 2 * WRAP - start + 100_000);
}

#[test]
fn sensors_are_found_by_chip_and_label_and_by_nothing_else() {
    let watts = |name: &str, watts| sensor(name, SensorValue::Power(Watts(watts)));
    let mut sensors = vec![
        watts("acpi_fan.power1.pl1", 1.0),
        watts("spbm#1.power11.pl1", 2.0),
        sensor("spbm.temp6.gpu", SensorValue::Temperature(Celsius(50.0))),
        sensor("spbm.energy4.gpu", SensorValue::Energy(Joules(7.0))),
    ];
    let mut b = Box::new();
    let _ = b.with(0, sensors.clone());
    sensors[3].value = Ok(SensorValue::Energy(Joules(14.0)));
    let module = b.with(1000, sensors.clone());
    assert_eq!(module.budget(Limit::Pl1), Err(Missing::NotPresent));
    assert_eq!(module.power(Rail::Gpu), Err(Missing::NotPresent), "neither heat nor energy");
    assert_eq!(module.energy(EnergyRail::Gpu), Ok(Joules(7.0)));
    sensors.extend([
        watts("spbm.power3.pl1", 92.0),
        watts("spbm.power3.pl1.cap", 140.0),
        watts("spbm.power2.gpu", 60.0),
        watts("spbm.power14.cpu_e.cap", 9.0),
        watts("spbm.power9", 3.0),
        watts("spbm.power4.syspl1", 120.0),
        watts("spbm.power4.syspl1.cap", 0.0),
        sensor("spbm.prochot", SensorValue::State(1)),
        sensor("spbm.pl_level", SensorValue::State(3)),
    ]);
    let module = b.with(1000, sensors.clone());
    assert_eq!(
        (module.budget(Limit::Pl1), module.limit(Limit::Pl1)),
        (Ok(Watts(92.0)), Ok(Watts(140.0)))
    );
    assert_eq!(module.power(Rail::Gpu), Ok(Watts(60.0)));
    assert_eq!(module.power(Rail::CpuE), Err(Missing::NotPresent), "a limit is no power");
    assert_eq!(module.budget(Limit::Syspl1), Ok(Watts(120.0)));
    assert_eq!(module.limit(Limit::Syspl1), Err(Missing::NotAvailable), "reset, not 0 W");
    assert_eq!((module.prochot, module.level), (Ok(true), Ok(Count(3))));
    for sensor in &mut sensors {
        sensor.value = Err(Missing::Denied);
    }
    let denied = b.with(1000, sensors);
    assert_eq!(
        (denied.budget(Limit::Pl1), denied.prochot),
        (Err(Missing::Denied), Err(Missing::Denied))
    );
}

#[test]
fn a_signal_has_two_states() {
    let mut b = Box::new();
    for (state, want) in [(0, Ok(false)), (1, Ok(true)), (2, Err(Missing::Malformed))] {
        let module = b.with(1000, vec![sensor("spbm.prochot", SensorValue::State(state))]);
        assert_eq!(module.prochot, want);
    }
}

#[test]
fn without_the_driver_there_is_no_module() {
    let mut b = Box::new();
    let reasons = [Missing::Pending, Missing::NotPresent, Missing::Disabled, Missing::Hung];
    for reason in reasons {
        b.snapshot.lose(Source::Hwmon, reason);
        let verdicts = crate::derive::derive(
            &mut crate::derive::State::default(),
            &b.snapshot,
            &Thresholds::default(),
        );
        assert_eq!(verdicts.module, Module::absent(reason));
    }
    let other = b.with(1000, vec![sensor("acpi_fan.fan1", SensorValue::Fan(2))]);
    assert_eq!(other, Module::absent(Missing::NotPresent));
    assert!(!other.known());
}

proptest! {
    /// The register wraps at will, rounds come early, late or not at all: as long as it is read once in
    /// half a wrap, not a millijoule is lost or made up, and nothing falls.
    #[test]
    fn energy_never_falls_and_is_what_was_used(
        start in 0..WRAP,
        steps in prop::collection::vec((1_u64..10_000, 0_u64..300, prop::bool::weighted(0.1)), 1..200),
    ) {
        let mut b = Box::new();
        let (mut used, mut last) = (0, 0);
        prop_assert_eq!(b.package(1, start), 0);
        for (seconds, watts, blind) in steps {
            // Half a wrap at 300 W takes nearly two hours, so no step is longer than that.
            let seconds = seconds.min(WRAP / 2 / 1000 / watts.max(1));
            used += seconds * 1000 * watts;
            let shown = b.package(seconds, (start + used) % WRAP);
            prop_assert!(shown >= last);
            prop_assert_eq!(shown, used);
            last = shown;
            if blind {
                b.snapshot.lose(Source::Hwmon, Missing::Failed);
                prop_assert!(derive(&mut b.state, &b.snapshot).energy(EnergyRail::Pkg).is_err());
            }
        }
    }

    /// Whatever the registers do, what is exported never falls and never outruns what a box can use.
    #[test]
    fn energy_never_falls_whatever_the_register_says(
        registers in prop::collection::vec((0_u64..20_000, prop_oneof![0..2 * WRAP, 0..10_000_u64]), 1..100),
    ) {
        let mut b = Box::new();
        let mut last = None;
        for (seconds, register) in registers {
            let shown = b.package(seconds, register);
            if let Some(last) = last {
                prop_assert!(shown >= last);
                prop_assert!(shown - last <= 400_000 * (seconds + 60));
            }
            last = Some(shown);
        }
    }
}
