//! Plots of a real run: the samples that stand in a scenario's table. The pictures are left below
//! target/tmp, for people to look at.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

use gb10_exporter::export::plot::{Axis, Glyphs, Plot, Track, WIDTH, svg, terminal};
use gb10_exporter::model::samples::SamplePoint;
use gb10_exporter::sources::samples::{SampleOptions, load};
use jiff::tz::TimeZone;
use std::fs;
use std::path::Path;

fn track<'a>(title: &'a str, unit: &'a str, points: &'a [(f64, f64)]) -> Track<'a> {
    Track { title, unit, points }
}

#[test]
fn a_real_run_is_seen_at_a_glance() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/training-beside-serving.csv");
    let options = SampleOptions { zone: TimeZone::UTC, gpu: None };
    let series = load(&path, &options).unwrap();
    let of = |value: fn(&SamplePoint) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = series.points.iter();
        points.filter_map(|point| Some((point.wall.as_secs_f64(), value(point)?))).collect()
    };
    let temperature = of(|point| point.temperature.ok().map(|t| t.0));
    let power = of(|point| point.power.ok().map(|w| w.0));
    let utilization = of(|point| point.utilization.ok().map(|r| r.0 * 100.0));
    let tracks = [
        track("temperature", "°C", &temperature),
        track("power", "W", &power),
        track("utilization", "%", &utilization),
    ];
    let from = temperature[0].0;
    let to = temperature[temperature.len() - 1].0;
    let at = |share: f64| from + share * (to - from);
    let stretches = [
        (at(0.30), at(0.55), "heating at the power cap"),
        (at(0.50), at(0.60), "thermal"),
        (at(0.97), at(1.0), "slow steps & <waiting>"),
    ];
    let plot = Plot {
        title: "Training beside a server: temperature, power and utilization",
        tracks: &tracks,
        stretches: &stretches,
        axis: Axis::Clock(TimeZone::UTC),
    };
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let picture = svg(&plot);
    assert!(picture.len() < 100_000, "{}", picture.len());
    fs::write(tmp.join("plot.svg"), &picture).unwrap();
    for (glyphs, name) in [(Glyphs::Unicode, "plot.txt"), (Glyphs::Ascii, "plot-ascii.txt")] {
        let text = terminal(&plot, WIDTH, glyphs);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        fs::write(tmp.join(name), text).unwrap();
    }
}

/// Two days over the end of summer time, with a hole in them and many short stretches.
#[test]
fn long_runs_have_days_and_holes() {
    let begin = 1_792_850_000.0;
    let sample = |i: u32| (begin + f64::from(i) * 30.0, 60.0 + f64::from(i * i % 977) / 50.0);
    let points: Vec<_> = (0..5_760).filter(|i| !(2_000..2_400).contains(i)).map(sample).collect();
    let memory: Vec<_> =
        points.iter().step_by(10).map(|(at, x)| (*at, (x - 60.0) / 400.0)).collect();
    let once = [(begin + 90_000.0, 2405.0)];
    let tracks = [
        track("temperature", "°C", &points),
        track("step time", "s", &memory),
        track("clock", "MHz", &once),
        track("available memory", "GiB", &[]),
    ];
    let stretch = |i: u32| {
        let from = begin + f64::from(i) * 5_000.0;
        (from, from + 300.0, if i.is_multiple_of(3) { "thermal" } else { "at the power cap" })
    };
    let stretches: Vec<_> = (0..34).map(stretch).collect();
    let plot = Plot {
        title: "Two days",
        tracks: &tracks,
        stretches: &stretches,
        axis: Axis::Clock(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()),
    };
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::write(tmp.join("plot-days.svg"), svg(&plot)).unwrap();
    let text = terminal(&plot, WIDTH, Glyphs::Unicode);
    assert!(
        text.contains("25 Oct") && text.contains("26 Oct") && text.contains("no samples"),
        "{text}"
    );
    fs::write(tmp.join("plot-days.txt"), text).unwrap();
}
