use super::fields::{FIELDS, Row, Value, missing};
use super::parse::{processes, refused, table, verdict};
use super::*;
use crate::model::gpu::{ClockKind, EventReason, MemoryFigures, TIMED};
use crate::units::{Bytes, Celsius, Count, Hertz, Ratio, Seconds, Watts};
use proptest::prelude::*;

/// All fields.
fn all() -> Vec<usize> {
    (0..FIELDS.len()).collect()
}

fn places(names: &[&str]) -> Vec<usize> {
    let place = |name| FIELDS.iter().position(|field| field.names.contains(name)).unwrap();
    names.iter().map(place).collect()
}

/// What the driver heads its columns with, which is not what they are asked for by.
const HEADER: &str = "index, name, uuid, pci.bus_id, pci.device_id, driver_version, vbios_version, \
    compute_cap, addressing_mode, memory.total [MiB], memory.free [MiB], memory.used [MiB], \
    utilization.gpu [%], temperature.gpu, temperature.gpu.tlimit, power.draw [W], \
    power.draw.average [W], power.draw.instant [W], clocks.current.graphics [MHz], \
    clocks.current.sm [MHz], clocks.current.memory [MHz], clocks.current.video [MHz], \
    clocks.max.graphics [MHz], clocks.max.sm [MHz], clocks.max.memory [MHz], pstate, \
    clocks_event_reasons.active, clocks_event_reasons_counters.sw_power_cap [us], \
    clocks_event_reasons_counters.sync_boost [us], \
    clocks_event_reasons_counters.sw_thermal_slowdown [us], \
    clocks_event_reasons_counters.hw_thermal_slowdown [us], \
    clocks_event_reasons_counters.hw_power_brake_slowdown [us]";
/// A GB10 under load, driver 580.
const LOADED: &str = "0, NVIDIA GB10, GPU-1, 0000000F:01:00.0, 0x2E1210DE, 580.95.05, 9A.0B.26, 12.1, \
    ATS, [N/A], [N/A], [N/A], 96 %, 74, 22, 60.77 W, 60.1 W, 61 W, 2405 MHz, 2405 MHz, [N/A], \
    2067 MHz, 3003 MHz, 3003 MHz, [N/A], P0, 0x0000000000000004, 10800240649 us, 0 us, 12 us, \
    1195386 us, 0 us";

fn loaded() -> String {
    format!("{HEADER}\n{LOADED}\n")
}

#[test]
fn a_loaded_gb10_is_read_in_full() {
    let answer = loaded();
    let found = table(&all(), &answer);
    assert_eq!(found.problem, None);
    assert_eq!(found.driver.as_deref(), Ok("580.95.05"));
    let [gpu] = found.gpus.as_slice() else { panic!("{:?}", found.gpus) };
    assert_eq!((gpu.index, gpu.name.as_deref()), (0, Ok("NVIDIA GB10")));
    assert_eq!(gpu.uuid.as_deref(), Ok("GPU-1"));
    assert_eq!(gpu.bus.as_deref(), Ok("0000000F:01:00.0"));
    assert_eq!(gpu.pci_device_id.as_deref(), Ok("0x2E1210DE"));
    assert_eq!(gpu.vbios.as_deref(), Ok("9A.0B.26"));
    assert_eq!(gpu.compute_capability.as_deref(), Ok("12.1"));
    assert_eq!(gpu.addressing_mode.as_deref(), Ok("ATS"));
    assert_eq!(gpu.memory, Err(Missing::NotAvailable));
    assert_eq!(gpu.utilization, Ok(Ratio(0.96)));
    assert_eq!((gpu.temperature, gpu.margin), (Ok(Celsius(74.0)), Ok(Celsius(22.0))));
    assert_eq!(gpu.power, Ok(Watts(60.77)));
    assert_eq!((gpu.power_average, gpu.power_instant), (Ok(Watts(60.1)), Ok(Watts(61.0))));
    let mega = |n: f64| Ok(Hertz(n * 1e6));
    let none = Err(Missing::NotAvailable);
    assert_eq!(gpu.clocks, [mega(2405.0), mega(2405.0), none, mega(2067.0)]);
    assert_eq!(gpu.clocks_max, [mega(3003.0), mega(3003.0), none, none]);
    assert_eq!(gpu.performance_state, Ok(Count(0)));
    assert_eq!(gpu.event_reasons, Ok(Count(EventReason::SwPowerCap.bit())));
    let seconds = [10_800.240_649, 0.0, 12e-6, 1.195_386, 0.0].map(|s| Ok(Seconds(s)));
    assert_eq!(gpu.event_seconds, seconds);
    assert_eq!(gpu.energy, Err(Missing::NotAvailable));
}

#[test]
fn units_in_the_values_or_not_say_the_same() {
    let bare = LOADED.replace(" MHz", "").replace(" W", "").replace(" us", "").replace(" %", "");
    let (with, without) = (loaded(), format!("{HEADER}\n{bare}\n"));
    assert_eq!(table(&all(), &with), table(&all(), &without));
    // Without a header.
    let headless = format!("{LOADED}\n");
    assert_eq!(table(&all(), &with), table(&all(), &headless));
}

/// Rows as they were printed by drivers of GB10 machines, and the fields that they were asked for.
#[test]
fn rows_of_many_drivers() {
    let one = |names: &[&str], answer: &str| {
        let found = table(&places(names), answer);
        assert_eq!(found.problem, None, "{answer}");
        let [gpu] = found.gpus.as_slice() else { panic!("{answer}: {:?}", found.gpus) };
        (found.driver.clone(), gpu.clone())
    };
    let (driver, gpu) = one(
        &["name", "compute_cap", "driver_version", "memory.total"],
        "NVIDIA GB10, 12.1, 580.159.03, [N/A]\n",
    );
    assert_eq!(driver.as_deref(), Ok("580.159.03"));
    assert_eq!(gpu.memory, Err(Missing::NotAvailable));
    assert_eq!(gpu.power, Err(Missing::NoSymbol));

    let names = ["pci.device_id", "compute_cap", "addressing_mode", "utilization.gpu"];
    let (_, gpu) = one(
        &[&names[..], &["power.draw", "temperature.gpu"]].concat(),
        "0x2E1210DE, 12.1, ATS, 0, 4.52, 47\n",
    );
    assert_eq!(gpu.utilization, Ok(Ratio(0.0)));
    assert_eq!((gpu.power, gpu.temperature), (Ok(Watts(4.52)), Ok(Celsius(47.0))));

    let names = ["memory.total", "memory.used", "memory.free", "utilization.gpu", "power.draw"];
    let (_, gpu) = one(
        &[&names[..], &["temperature.gpu"]].concat(),
        "memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], \
         power.draw [W], temperature.gpu\n[N/A], [N/A], [N/A], 0 %, 11.17 W, 35\n",
    );
    assert_eq!((gpu.power, gpu.temperature), (Ok(Watts(11.17)), Ok(Celsius(35.0))));

    let names = ["name", "clocks.sm", "clocks.max.sm", "temperature.gpu", "power.draw"];
    let (_, gpu) = one(&names, "NVIDIA GB10, 2522 MHz, 3003 MHz, 50, 15.57 W\n");
    assert_eq!(gpu.clock(ClockKind::Sm), Ok(Hertz(2.522e9)));

    // From 610 on, the version is deprecated and says so.
    let (driver, _) = one(
        &["index", "driver_version", "pstate"],
        "index, driver_version [Deprecated, use kmd_version], pstate\n\
         0, 610.57.04 [Deprecated; will be removed, use KMD Version], P8\n",
    );
    assert_eq!(driver.as_deref(), Ok("610.57.04"));
    let (driver, _) = one(
        &["index", "driver_version", "pstate"],
        "index, kmd_version, pstate\n0, 610.43.02, P8\n",
    );
    assert_eq!(driver.as_deref(), Ok("610.43.02"));
}

#[test]
fn memory_of_other_machines() {
    let asked = places(&["index", "memory.total", "memory.free", "memory.used"]);
    let figures = |row: &str| {
        let row = format!("{row}\n");
        let found = table(&asked, &row);
        (found.gpus[0].memory, found.problem.map(|(_, reason)| reason))
    };
    let mib = |total, free, used| {
        let [total, free, used] = [total, free, used].map(Bytes::from_mib);
        Ok(MemoryFigures { total, free, used })
    };
    assert_eq!(figures("0, 8128 MiB, 7929 MiB, 20 MiB"), (mib(8128, 7929, 20), None));
    assert_eq!(figures("0, 0 MiB, 0 MiB, 0 MiB"), (mib(0, 0, 0), None));
    let malformed = (Err(Missing::Malformed), Some(Missing::Malformed));
    assert_eq!(figures("0, 100 MiB, 90 MiB, 90 MiB"), malformed);
    assert_eq!(figures("0, 100 kB, 90 MiB, 1 MiB"), malformed);
    assert_eq!(figures("0, 18446744073709551615 MiB, 1 MiB, 1 MiB"), malformed);
    assert_eq!(figures("0, 100 MiB, [Not Supported], 9 MiB"), (Err(Missing::Unsupported), None));
}

#[test]
fn words_instead_of_values() {
    for (word, reason) in [
        ("[N/A]", Missing::NotAvailable),
        ("N/A", Missing::NotAvailable),
        ("[Not Found]", Missing::NotAvailable),
        ("[Not Supported]", Missing::Unsupported),
        ("Not Supported", Missing::Unsupported),
        ("[Insufficient Permissions]", Missing::Denied),
        ("[Unknown Error]", Missing::Failed),
        ("ERR!", Missing::Failed),
        ("[GPU is lost]", Missing::Lost),
        ("GPU is lost.", Missing::Lost),
        ("[GPU requires reset]", Missing::Lost),
    ] {
        assert_eq!(missing(word), Some(reason), "{word}");
        let row = format!("0, {word}, {word}\n");
        let found = table(&places(&["index", "temperature.gpu", "name"]), &row);
        assert_eq!(found.gpus[0].temperature, Err(reason), "{word}");
        assert_eq!(found.gpus[0].name, Err(reason), "{word}");
        let harmless = matches!(reason, Missing::NotAvailable | Missing::Unsupported);
        let expected = (!harmless).then(|| (format!("GPU 0: name: {word:?}"), reason));
        assert_eq!(found.problem, expected, "{word}");
    }
}

#[test]
fn what_is_no_value_is_malformed_and_never_zero() {
    let asked = places(&["index", "temperature.gpu", "power.draw", "clocks.sm", "pstate"]);
    for row in [
        "0, , , , ",
        "0, nan, nan, nan, nan",
        "0, inf, inf W, inf MHz, Pinf",
        "0, -1, -1 W, -1 MHz, P-1",
        "0, 151, 10000.1 W, 20001 MHz, P16",
        "0, 1e1, 1e1 W, 1e1 MHz, 0",
        "0, 50 F, 50 mW, 50 GHz, p0",
        "0, 99999999999999999999, 99999999999999999999, 99999999999999999999, P99999999999999999999",
        "0, 5 0, 5. W, .5 MHz, P",
        "0, [what], [what], [what], [what]",
    ] {
        let row = format!("{row}\n");
        let found = table(&asked, &row);
        let gpu = &found.gpus[0];
        let malformed = Missing::Malformed;
        assert_eq!((gpu.temperature, gpu.power), (Err(malformed), Err(malformed)), "{row}");
        assert_eq!(gpu.clock(ClockKind::Sm), Err(malformed), "{row}");
        assert_eq!(gpu.performance_state, Err(malformed), "{row}");
        assert_eq!(found.problem.map(|(_, reason)| reason), Some(malformed), "{row}");
    }
}

#[test]
fn columns_go_by_their_heading() {
    let asked = places(&["index", "clocks.gr", "clocks.sm", "pstate"]);
    // In another order, and one of them is missing.
    let found = table(&asked, "index, pstate, clocks.current.sm [MHz]\n0, P8, 208 MHz\n");
    let gpu = &found.gpus[0];
    assert_eq!((gpu.clock(ClockKind::Sm), gpu.performance_state), (Ok(Hertz(208e6)), Ok(Count(8))));
    assert_eq!(gpu.clock(ClockKind::Graphics), Err(Missing::Malformed));
    // A name that nobody has seen yet, in its place.
    let found = table(&asked, "index, clocks.g, clocks.sm [MHz], pstate\n0, 1 MHz, 2 MHz, P8\n");
    assert_eq!(found.gpus[0].clock(ClockKind::Graphics), Ok(Hertz(1e6)));
    // And where places are not to be trusted.
    let found = table(&asked, "index, clocks.g, pstate, clocks.sm [MHz]\n0, 1 MHz, P8, 2 MHz\n");
    assert_eq!(found.gpus[0].clock(ClockKind::Graphics), Err(Missing::Malformed));
    assert_eq!(found.gpus[0].clock(ClockKind::Sm), Ok(Hertz(2e6)));
    // Another unit than expected, in the heading.
    let found = table(&asked, "index, clocks.gr [GHz], clocks.sm, pstate\n0, 1, 2, P8\n");
    assert_eq!(found.gpus[0].clock(ClockKind::Graphics), Err(Missing::Malformed));
}

#[test]
fn a_row_of_another_length_is_not_shifted() {
    for line in ["0, NVIDIA, GB10, 50, P0\n", "0, NVIDIA GB10\n", "0, NVIDIA GB10, 50, P0", "0\n"] {
        let answer =
            format!("index, name, temperature.gpu, pstate\n1, NVIDIA GB10, 40, P8\n{line}");
        let found = table(&places(&["index", "name", "temperature.gpu", "pstate"]), &answer);
        let problem = found.problem.map(|(_, reason)| reason);
        assert_eq!(problem, Some(Missing::Malformed), "{line}");
        let [broken, whole] = found.gpus.as_slice() else { panic!("{line}: {:?}", found.gpus) };
        assert_eq!((broken.index, &broken.name), (0, &Err(Missing::Malformed)), "{line}");
        assert_eq!(whole.temperature, Ok(Celsius(40.0)));
    }
}

#[test]
fn gpus_that_cannot_be_reached_stand_beside_the_others() {
    let answer = "Unable to determine the device handle for GPU1: 0000:44:00.0: Unknown Error\n\
        index, name, pstate\n2, b, P8\n0, a, P0\nWARNING: infoROM is corrupted at gpu 0000:25:00.0\n";
    let mut found = table(&places(&["index", "name", "pstate"]), answer);
    assert_eq!(found.problem, None);
    found.add_unreachable(
        "Unable to determine the device handle for GPU 0000:5F:00.0: GPU is lost.  Reboot the system \
         to recover this GPU\n",
    );
    let indexes: Vec<_> = found.gpus.iter().map(|gpu| (gpu.index, gpu.name.clone())).collect();
    let expected =
        [Ok("a".to_owned()), Err(Missing::Failed), Ok("b".to_owned()), Err(Missing::Lost)];
    assert_eq!(indexes, (0..).zip(expected).collect::<Vec<_>>());
    assert_eq!(found.gpus[3].bus.as_deref(), Ok("0000:5F:00.0"));
    assert_eq!(found.problem.map(|(_, reason)| reason), Some(Missing::Lost));
}

#[test]
fn failures_of_the_program() {
    for (code, text, reason) in [
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure \
             that the latest NVIDIA driver is installed and running.",
            Missing::NoDriver,
        ),
        (1, "Failed to initialize NVML: Driver/library version mismatch", Missing::NoDriver),
        (255, "Failed to initialize NVML: Insufficient Permissions", Missing::Denied),
        (0, "No devices were found", Missing::NotPresent),
        (1, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", Missing::NoLibrary),
        (9, "", Missing::NoDriver),
        (18, "", Missing::NoDriver),
        (4, "", Missing::Denied),
        (6, "", Missing::NotPresent),
        (15, "", Missing::Lost),
        (1, "Segmentation fault", Missing::Failed),
        (0, "nothing of use", Missing::Malformed),
    ] {
        let (what, found) = verdict(Some(code), text.lines());
        assert_eq!(found, reason, "{code} {text}");
        assert!(!what.is_empty() && what.len() < 200, "{what}");
    }
    assert_eq!(verdict(None, "".lines()), ("ended by a signal".to_owned(), Missing::Failed));
}

#[test]
fn names_of_processes_do_not_get_in_the_way() {
    let found = processes(
        "GPU-1, 37388, VLLM::EngineCore, 109832 MiB\nGPU-1, 6330, sglang::scheduler, 96073\n\
         GPU-1, 7, my, own, program --a, [N/A], 5 MiB\nGPU-2, 8, [Not Found], [N/A]\n\
         GPU-2, [N/A], [N/A], [N/A]\nNo running processes found\n\n",
    );
    let mib = |n: u64| Some(n << 20);
    let rows = [
        ("GPU-1", (37388, mib(109_832))),
        ("GPU-1", (6330, mib(96_073))),
        ("GPU-1", (7, mib(5))),
        ("GPU-2", (8, None)),
    ];
    assert_eq!((found.rows.as_slice(), found.refused, found.problem), (&rows[..], None, None));
    assert_eq!(processes("").rows, []);
    assert_eq!(processes("[Not Supported]\n").refused, Some(Missing::Unsupported));
    assert_eq!(processes("[Insufficient Permissions]\n").refused, Some(Missing::Denied));
    for bad in ["GPU-1, x, a, 5 MiB\n", "GPU-1, 5, a\n", "GPU-1, 5, a, x\n", "GPU-1, 5, a, 5 MiB"] {
        let found = processes(bad);
        assert_eq!((found.rows.len(), found.problem.is_some()), (0, true), "{bad}");
    }
}

#[test]
fn one_process_counts_once_and_strangers_do_not() {
    let found = processes("A, 1, a, 5 MiB\nA, 1, a, 7 MiB\nA, 2, b, [N/A]\nB, 3, c, 9 MiB\n");
    let gpu = Gpu { uuid: Ok("A".to_owned()), ..Gpu::absent(0, Missing::Pending) };
    let rows = of(&gpu, &found).unwrap();
    let short: Vec<_> = rows.iter().map(|p| (p.pid, p.memory, p.lists)).collect();
    let compute = [true, false, false];
    let expected = [(1, Ok(Bytes::from_mib(7)), compute), (2, Err(Missing::NotAvailable), compute)];
    assert_eq!(short, expected);
    assert_eq!(of(&Gpu::absent(0, Missing::Lost), &found), Err(Missing::Lost));
}

#[test]
fn names_are_given_up_one_by_one_and_tried_again_with_another_driver() {
    let text = "Field \"clocks_event_reasons.active\" is not a valid field to query.\n\n";
    assert_eq!(refused(text, ""), ["clocks_event_reasons.active"]);
    assert_eq!(refused("", text), ["clocks_event_reasons.active"]);
    assert_eq!(refused(&loaded(), ""), [""; 0]);
    let mut names = Names::default();
    names.learn(Some("1"));
    assert!(names.refuse(&["clocks_event_reasons.active"]));
    assert!(names.query().contains(",clocks_throttle_reasons.active,"));
    assert!(!names.refuse(&["clocks_event_reasons.active"]), "not asked any more");
    assert!(names.refuse(&["clocks_throttle_reasons.active", "addressing_mode"]));
    assert!(!names.query().contains("reasons.active"));
    assert_eq!(names.asked().len(), FIELDS.len() - 2);
    names.learn(Some("1"));
    names.learn(None);
    assert_eq!(names.asked().len(), FIELDS.len() - 2);
    names.learn(Some("2"));
    assert_eq!(names.asked().len(), FIELDS.len());
}

#[test]
fn every_field_has_a_place_and_a_name_of_its_own() {
    let mut seen = std::collections::BTreeSet::new();
    for field in FIELDS {
        assert!(field.names.iter().all(|name| seen.insert(*name)), "{:?}", field.names);
        let mut row = Row::absent(Missing::Pending);
        (field.take)(&mut row, &Value::absent(Missing::Hung));
        assert_ne!(row, Row::absent(Missing::Pending), "{:?}", field.names);
    }
    assert_eq!(FIELDS[0].names, ["index"], "the first, by which a broken row is attributed");
}

/// Every number of a GPU.
fn numbers(gpu: &Gpu) -> Vec<f64> {
    let mut all: Vec<Reading<f64>> = vec![
        gpu.utilization.map(|v| v.0),
        gpu.temperature.map(|v| v.0),
        gpu.margin.map(|v| v.0),
        gpu.power.map(|v| v.0),
        gpu.power_average.map(|v| v.0),
        gpu.power_instant.map(|v| v.0),
        gpu.energy.map(|v| v.0),
    ];
    all.extend(gpu.clocks.iter().chain(&gpu.clocks_max).map(|v| v.map(|v| v.0)));
    all.extend(gpu.event_seconds.iter().map(|v| v.map(|v| v.0)));
    assert_eq!(gpu.event_seconds.len(), TIMED.len());
    all.into_iter().flatten().collect()
}

fn cell() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "-?[0-9]{0,22}(\\.[0-9]{0,5})?( (W|MHz|MiB|%|us|C))?",
        prop::sample::select(vec![
            "[N/A]",
            "ERR!",
            "nan",
            "inf W",
            "1e400",
            "P0",
            "0xffffffffffffffff"
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn no_text_panics_and_every_number_is_finite(
        lines in prop::collection::vec(prop::collection::vec(cell(), 0..40), 0..6),
        headed in any::<bool>(),
        cut in any::<bool>(),
    ) {
        let mut text = if headed { format!("{HEADER}\n") } else { String::new() };
        for line in lines {
            text.push_str(&line.join(", "));
            text.push('\n');
        }
        if cut {
            text.pop();
        }
        let mut found = table(&all(), &text);
        found.add_unreachable(&text);
        prop_assert!(found.gpus.iter().flat_map(numbers).all(f64::is_finite));
        prop_assert!(found.gpus.is_sorted_by_key(|gpu| gpu.index));
        let _ = (processes(&text), refused(&text, &text), verdict(Some(1), text.lines()));
    }

    #[test]
    fn no_cell_moves_another(place in 1..FIELDS.len(), cell in cell()) {
        // Memory is put together from three cells.
        prop_assume!(!(9..12).contains(&place) && !cell.contains([',', '[', ']']));
        let mut cells: Vec<_> = LOADED.split(", ").map(str::trim).collect();
        cells[place] = &cell;
        let (before, after) = (loaded(), format!("{HEADER}\n{}\n", cells.join(", ")));
        let unit = HEADER.split(", ").nth(place).and_then(|name| name.trim().split_once('['));
        let unit = unit.map(|(_, unit)| unit.trim_end_matches(']'));
        let gpu = table(&all(), &before).gpus.remove(0);
        let mut expected = Row { gpu, ..Row::absent(Missing::NoSymbol) };
        (FIELDS[place].take)(&mut expected, &super::fields::Value::new(&cell, unit));
        prop_assert_eq!(&table(&all(), &after).gpus, &[expected.gpu]);
    }

    #[test]
    fn any_bytes_of_text(text in "\\PC*") {
        let mut found = table(&all(), &text);
        found.add_unreachable(&text);
        let _ = (processes(&text), refused(&text, &text), verdict(None, text.lines()));
    }
}
