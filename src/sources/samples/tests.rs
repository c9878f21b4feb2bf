use super::*;
use crate::model::reading::Missing;
use crate::model::samples::{SampleOrigin, SamplePoint, SampleRemark};
use crate::units::{Bytes, Celsius, Hertz, Ratio, Seconds, Watts};
use proptest::prelude::*;
use std::time::Duration;

const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

fn options(zone: &str, gpu: Option<u32>) -> SampleOptions {
    SampleOptions { zone: TimeZone::posix(zone).unwrap(), gpu }
}

fn sample(name: &str, gpu: Option<u32>) -> SampleSeries {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    load(&path, &options(BERLIN, gpu)).unwrap_or_else(|error| panic!("{error}"))
}

fn parse(text: &str) -> Result<SampleSeries, String> {
    read("file", text.as_bytes(), &options("UTC0", None)).map_err(|error| error.to_string())
}

/// Seconds after 14:08 of 24 November 2026 in Berlin.
fn times(series: &SampleSeries) -> Vec<f64> {
    let base = Duration::from_secs(1_795_525_680);
    series.points.iter().map(|point| point.wall.saturating_sub(base).as_secs_f64()).collect()
}

fn temperatures(series: &SampleSeries) -> Vec<Option<f64>> {
    series.points.iter().map(|point| point.temperature.ok().map(|t| t.0)).collect()
}

fn powers(series: &SampleSeries) -> Vec<Option<f64>> {
    series.points.iter().map(|point| point.power.ok().map(|w| w.0)).collect()
}

#[test]
fn our_own_files_are_read_through_appends_and_rotations() {
    let series = sample("samples/short.csv", None);
    assert_eq!(series.origin, SampleOrigin::Sample);
    assert_eq!(times(&series), [25.751, 55.751, 720.1, 750.1]);
    assert_eq!(temperatures(&series), [Some(48.0), None, Some(52.0), Some(64.0)]);
    assert_eq!(powers(&series), [Some(11.4), None, Some(45.6), Some(49.69)]);
    assert_eq!(series.points[1].power, Err(Missing::NotAvailable));
    assert_eq!(series.points[1].clock, Err(Missing::NotPresent));
    let remarks = [
        SampleRemark::ZoneAssumed,
        SampleRemark::LeftOut { lines: 1, first: 4 },
        SampleRemark::HalfLastLine(8),
    ];
    assert_eq!(series.remarks, remarks);
    let bare = sample("samples/no-header.csv", Some(0));
    assert_eq!(
        (powers(&bare), bare.origin),
        (vec![Some(11.4), Some(12.0)], SampleOrigin::NvidiaSmi)
    );
    assert_eq!(bare.remarks, [SampleRemark::ZoneAssumed, SampleRemark::GpuNotTold]);
}

#[test]
fn a_table_of_other_hands_is_read() {
    let series = sample("scenarios/training-beside-serving.csv", None);
    assert_eq!(series.origin, SampleOrigin::NvidiaSmi);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/training-beside-serving.csv");
    let rows = std::fs::read_to_string(path).unwrap().lines().count() - 1;
    assert_eq!(series.points.len(), rows);
    assert_eq!(series.points[5].utilization, Ok(Ratio(0.96)));
    assert_eq!(series.points[5].temperature, Ok(Celsius(52.0)));
    assert_eq!(series.remarks, [SampleRemark::ZoneAssumed]);
}

#[test]
fn fields_of_nvidia_smi_may_be_in_any_order_and_of_several_gpus() {
    let series = sample("samples/smi-two-gpus.csv", None);
    let several = SampleRemark::SeveralGpus { count: 2, taken: "0".to_owned() };
    let left_out = SampleRemark::LeftOut { lines: 1, first: 6 };
    assert_eq!(series.remarks, [SampleRemark::ZoneAssumed, several, left_out.clone()]);
    let expected = SamplePoint {
        temperature: Ok(Celsius(64.0)),
        power: Ok(Watts(45.6)),
        clock: Ok(Hertz(2.4e9)),
        utilization: Ok(Ratio(0.96)),
        reasons: Ok(4),
        thermal_seconds: Ok(Seconds(1_195_386.0 * 1e-6)),
        ..SamplePoint::at(series.points[0].wall)
    };
    assert_eq!(series.points[0], expected);
    let absent = SamplePoint {
        temperature: Err(Missing::Unsupported),
        power: Err(Missing::NotAvailable),
        clock: Err(Missing::Failed),
        utilization: Err(Missing::Lost),
        reasons: Err(Missing::NotAvailable),
        thermal_seconds: Ok(Seconds(7.0 * 1e-6)),
        ..SamplePoint::at(series.points[1].wall)
    };
    assert_eq!(series.points[1], absent);
    assert_eq!((series.points.len(), series.points[2].reasons), (3, Ok(0x24)));
    let second = sample("samples/smi-two-gpus.csv", Some(1));
    assert_eq!(powers(&second), [Some(11.4), Some(11.5)]);
    assert_eq!(second.remarks, [SampleRemark::ZoneAssumed, left_out]);
}

/// Plain numbers, three ways of writing a time, and the better of several figures for one thing.
#[test]
fn numbers_may_have_no_units_and_times_a_zone() {
    let series = sample("samples/smi-nounits.csv", Some(0));
    assert_eq!(times(&series), [3655.5, 3656.5, 3657.5]);
    assert_eq!(powers(&series), [Some(45.6), Some(45.7), Some(47.2)]);
    assert_eq!(series.points[2].clock, Ok(Hertz(2.42e9)));
    assert_eq!(series.remarks, []);
}

#[test]
fn extended_columns_are_those_of_one_gpu() {
    let series = sample("samples/extended.csv", None);
    assert_eq!(series.origin, SampleOrigin::Sample);
    let expected = SamplePoint {
        temperature: Ok(Celsius(48.0)),
        power: Ok(Watts(11.4)),
        clock: Ok(Hertz(2.4e9)),
        utilization: Ok(Ratio(0.96)),
        reasons: Ok(4),
        thermal_seconds: Ok(Seconds(1.5)),
        available: Ok(Bytes::from_gib(64)),
        throttle: Some("heating_at_cap".to_owned()),
        ..SamplePoint::at(series.points[0].wall)
    };
    assert_eq!(series.points[0], expected);
    assert_eq!(series.points[1].throttle.as_deref(), Some("unknown"));
    assert_eq!(series.points[1].available, Err(Missing::NotAvailable));
    let several = SampleRemark::SeveralGpus { count: 2, taken: "0".to_owned() };
    assert_eq!(series.remarks, [SampleRemark::ZoneAssumed, several]);
    // The first columns may be of another GPU than the one that is asked for.
    let second = sample("samples/extended.csv", Some(1));
    assert_eq!(second.points[0].temperature, Ok(Celsius(41.0)));
    assert_eq!(second.points[0].power, Ok(Watts(9.5)));
    assert_eq!(second.points[0].throttle.as_deref(), Some("idle"));
    assert_eq!(second.points[0].clock, Err(Missing::NotPresent));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/extended.csv");
    let error = load(&path, &options("UTC0", Some(2))).unwrap_err().to_string();
    assert!(error.ends_with("extended.csv:1: expected columns of GPU 2, found those of {0, 1}"));
}

#[test]
fn the_hour_that_comes_twice_is_told_apart() {
    let series = sample("samples/summer-time.csv", None);
    let first = series.points[0].wall;
    let minutes: Vec<u64> =
        series.points.iter().map(|point| point.wall.saturating_sub(first).as_secs() / 60).collect();
    assert_eq!(minutes, [0, 60, 90, 120, 150]);
    assert_eq!(temperatures(&series).last(), Some(&Some(52.0)));
    assert_eq!(series.remarks, [SampleRemark::ZoneAssumed, SampleRemark::DoubledHour(3)]);
}

#[test]
fn a_clock_that_was_set_is_told_and_the_samples_are_in_order() {
    let series = sample("samples/clock-set.csv", None);
    assert_eq!(temperatures(&series), [48.0, 49.0, 50.0, 52.0, 51.0].map(Some));
    let back = SampleRemark::ClockWentBack { line: 4, by: Duration::from_secs(5), times: 1 };
    assert_eq!(series.remarks, [SampleRemark::ZoneAssumed, back.clone()]);
    assert!(back.to_string().starts_with("the clock goes back by 5.0 s at line 4; "));
}

#[test]
fn what_is_malformed_is_told_with_its_line() {
    for (name, says) in [
        ("figure", "3: temperature.gpu: expected a number with one of C, °C, mC, found \"warm\""),
        ("unit", "2: power.draw: expected a number with one of W, mW, uW, found \"11.40 V\""),
        (
            "time",
            "2: expected a time (2026/11/24 14:08:55.751, 2026-11-24T14:08:55Z, or seconds since 1970), found \"2026/11/31 14:08:25.751\"",
        ),
        ("since-start", "2: expected a time"),
        ("too-many", "2: expected 3 columns, found 4: \"2026/11/24 14:08:25.751, 48, 11.40 W, 3\""),
        ("too-few", "2: expected 3 columns, found 2: "),
        (
            "no-time",
            "1: expected a header with a column timestamp, or rows of three cells: time, temperature, power; found",
        ),
        ("no-figures", "1: expected a column temperature.gpu or power.draw in the header"),
        ("no-rows", "1: expected rows below the header"),
        (
            "mask",
            "2: clocks_event_reasons.active: expected a mask such as 0x0000000000000004, found \"Active\"",
        ),
        ("dmon", "1: expected nvidia-smi --query-gpu=timestamp,"),
        ("json", "1: expected a header with a column timestamp"),
        ("empty", "1: expected a header with a column timestamp"),
    ] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/samples/bad-{name}.csv"));
        let error = load(&path, &options("UTC0", None)).unwrap_err().to_string();
        let expected = format!("{}:{says}", path.display());
        assert!(error.starts_with(&expected), "{error}\n{expected}");
    }
    let error = load(Path::new("/nowhere/x.csv"), &options("UTC0", None)).unwrap_err().to_string();
    assert_eq!(error, "/nowhere/x.csv cannot be read");
}

#[test]
fn files_and_lines_are_bounded() {
    let long = format!("timestamp,temperature.gpu\n{}\n", "x".repeat(MAX_LINE));
    assert_eq!(parse(&long).unwrap_err(), "file:2: expected lines of at most 64 KiB");
    let endless = std::io::repeat(b'x');
    let error = read("file", BufReader::new(endless), &options("UTC0", None)).unwrap_err();
    assert_eq!(error.to_string(), "file:1: expected lines of at most 64 KiB");
    // Comments count, too: what is read is bounded, not what is kept.
    let comments = ("#".repeat(60 * 1024) + "\n").into_bytes();
    let endless = BufReader::new(Endless(comments));
    let error = read("file", endless, &options("UTC0", None)).unwrap_err().to_string();
    assert!(error.ends_with(": expected at most 256 MiB in all"), "{error}");
}

/// The same again and again.
struct Endless(Vec<u8>);

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len().min(self.0.len());
        into[..length].copy_from_slice(&self.0[..length]);
        self.0.rotate_left(length);
        Ok(length)
    }
}

/// Older tables have a column for each reason.
#[test]
fn a_mask_is_made_of_single_reasons() {
    let header = "timestamp, clocks_throttle_reasons.sw_power_cap, power.draw [W], \
                  clocks_throttle_reasons.hw_thermal_slowdown";
    let rows = "2026/11/24 14:08:25, Active, 45.60 W, Active\n\
                2026/11/24 14:08:26, Not Active, 45.60 W, Not Active\n\
                2026/11/24 14:08:27, [N/A], 45.60 W, Active\n\
                2026/11/24 14:08:28, [N/A], 45.60 W, [N/A]\n";
    let series = parse(&format!("{header}\n{rows}")).unwrap();
    let reasons: Vec<_> = series.points.iter().map(|point| point.reasons).collect();
    assert_eq!(reasons, [Ok(0x44), Ok(0), Ok(0x40), Err(Missing::NotAvailable)]);
    let error = parse(&format!("{header}\n2026/11/24 14:08:25, yes, 45.60 W, Active\n"));
    let says = "file:2: clocks_throttle_reasons.sw_power_cap: expected Active or Not Active, found \"yes\"";
    assert_eq!(error.unwrap_err(), says);
}

#[test]
fn the_wrong_gpu_is_told() {
    let text = "timestamp, index, temperature.gpu\n2026/11/24 14:08:25, 3, 48\n";
    let error = read("file", text.as_bytes(), &options("UTC0", Some(0))).unwrap_err().to_string();
    assert_eq!(error, "file:2: expected rows of GPU 0, found those of 3");
    assert_eq!(parse(text).unwrap().remarks, [SampleRemark::ZoneAssumed]);
}

proptest! {
    /// No bytes panic it, and points come in order.
    #[test]
    fn nothing_panics(text in "(timestamp|temperature.gpu|power.draw \\[W\\]|2026/11/24 14:0[0-9]:00|0x|\\[N/A\\]|[0-9. W%\"]|,|\n|\\PC){0,60}") {
        if let Ok(series) = parse(&text) {
            prop_assert!(series.points.is_sorted_by_key(|point| point.wall));
            prop_assert!(!series.points.is_empty());
        }
    }
}

/// The column of the jobs, which files of earlier versions lack; a word of a later one tells nothing.
#[test]
fn the_column_of_the_jobs_is_read_where_there_is_one() {
    let series = parse(
        "timestamp,temperature.gpu,power.draw,jobs.contention\n\
         2026/11/24 14:08:25.751, 48, 11.40 W, overcommitted\n\
         2026/11/24 14:08:26.751, 48, 11.40 W, unknown\n\
         2026/11/24 14:08:27.751, 48, 11.40 W, peaceful\n\
         2026/11/24 14:08:28.751, 48, 11.40 W, [N/A]\n",
    )
    .unwrap();
    let told: Vec<_> = series.points.iter().map(|point| point.contention).collect();
    use crate::model::contention::ContentionState::{Overcommitted, Unknown};
    assert_eq!(told, [Some(Overcommitted), Some(Unknown), None, None]);
    let without = sample("samples/extended.csv", None);
    assert!(without.points.iter().all(|point| point.contention.is_none()));
}
