//! `--extended`: columns from the tables.

use crate::scene::{
    NOTHING, SERVING, SHORT, Scene, lines, load, smi_row, stderr, stdout, wait_for,
};
use crate::support::fakes;
use crate::support::{self, exporter, root, value};
use gb10_exporter::catalog::verdicts;
use gb10_exporter::model::fields;
use gb10_exporter::model::reading::Value;
use gb10_exporter::units::Unit;
use std::fs;

/// The cells of a line, with quotes as CSV has them.
fn cells(line: &str) -> Vec<String> {
    let mut within = false;
    line.split(|c| {
        within ^= c == '"';
        c == ',' && !within
    })
    .map(|cell| cell.trim().trim_matches('"').replace("\"\"", "\""))
    .collect()
}

/// What the header must be, told from the tables in another way than the exporter does.
fn header_by_the_tables() -> Vec<String> {
    let serving = root().join(format!("tests/captures/{SERVING}.txt"));
    let frame = support::frame(&support::without_processes(&serving));
    let mut all: Vec<String> = SHORT.split(',').map(str::to_owned).collect();
    for field in fields::all() {
        (field.visit)(&frame.snapshot, &mut |key, reading| {
            let number = matches!(reading, Ok(Value::Uint(_) | Value::Float(_)));
            if field.unit == Unit::None && !number {
                return;
            }
            let member = if key.is_empty() { String::new() } else { format!("[{key}]") };
            let unit = match field.unit {
                Unit::Bytes => " [B]",
                Unit::Celsius => " [C]",
                Unit::Watts => " [W]",
                Unit::Joules => " [J]",
                Unit::Seconds => " [s]",
                Unit::Hertz => " [Hz]",
                Unit::Ratio => " [%]",
                Unit::Count | Unit::None => "",
                Unit::BytesPerSecond => panic!("no reading has it"),
            };
            all.push(format!("{}{member}{unit}", field.id));
        });
    }
    all.extend(verdicts::of(&frame).into_iter().map(|(name, ..)| name));
    all
}

/// A scenario of the table, in which every reading follows it that has a value and can follow one.
fn story(lines: &[String]) -> String {
    let mut snapshot = support::frame(&load(SERVING)).snapshot;
    let mut map = Vec::new();
    for (title, cell) in cells(&lines[0]).iter().zip(cells(&lines[1])).skip(3) {
        let name = title.rsplit_once(" [").map_or(title.as_str(), |(name, _)| name);
        let Some((field, key)) = fields::named(name).filter(|_| cell != NOTHING) else { continue };
        let whole = matches!(field.unit, Unit::Bytes | Unit::Count);
        let value = if whole { Value::Uint(1) } else { Value::Float(1.0) };
        if (field.set)(&mut snapshot, key, Ok(value)) {
            map.push(format!("\"{name}={name}\""));
        }
    }
    assert!(map.len() > 80, "{map:?}");
    format!(
        "# gb10-exporter scenario 1\n# kind: invented\n# title: a test\n# source: a test\n# base: {}\n\
         # length: 1m\n==> timeline\n0s table thermal.log time=timestamp {}\n",
        root().join(format!("tests/captures/{SERVING}.txt")).display(),
        map.join(" ")
    )
}

/// The tables are what there is: nothing is listed by hand, and nothing is left out.
#[test]
fn more_columns_are_the_tables_and_make_a_scenario() {
    let scene = Scene::new(SERVING);
    // Other figures than the capture's that the scenario begins with: those found must be the table's.
    let gpu = scene.gpu.as_ref().unwrap();
    gpu.set(&[("0.temperature", "77"), ("0.utilization", "57"), ("0.clock.sm", "1234")]);
    let mut command = scene.command(&["--extended", "--interval=1", "--duration=2"]);
    assert!(command.arg(scene.log()).output().unwrap().status.success());
    let lines = lines(&scene.written());
    let (header, row) = (cells(&lines[0]), cells(&lines[1]));
    assert_eq!(header, header_by_the_tables());
    assert!(header.len() > 100 && header.contains(&"gpu.clock[0.sm] [Hz]".to_owned()));
    let cell = |title: &str| row[header.iter().position(|name| name == title).unwrap()].as_str();
    assert_eq!((cell("gpu.utilization[0] [%]"), cell("source[gpu]")), ("57", "ok"));
    assert_eq!(cell("gpu.clock[0.sm] [Hz]"), "1234000000");
    for line in &lines[1..] {
        assert_eq!(cells(line).len(), header.len(), "{line}");
        smi_row(&line.split(", ").take(3).collect::<Vec<_>>().join(", "));
    }

    let story = story(&lines);
    fs::write(scene.file("story.txt"), story).unwrap();
    let mut command = exporter();
    let out =
        command.args(["replay", "--at=0s", "--metrics"]).arg(scene.file("story.txt")).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    for (series, title, factor) in [
        ("gb10_gpu_temperature_celsius{gpu=\"0\"}", "gpu.temperature[0] [C]", 1.0),
        ("gb10_gpu_utilization_ratio{gpu=\"0\"}", "gpu.utilization[0] [%]", 0.01),
        ("gb10_gpu_clock_hertz{gpu=\"0\",clock=\"sm\"}", "gpu.clock[0.sm] [Hz]", 1.0),
        ("gb10_pool_size_bytes", "meminfo.MemTotal [B]", 1.0),
    ] {
        let expected = cell(title).parse::<f64>().unwrap() * factor;
        let found = value(stdout(&out), series);
        assert!(
            found.is_some_and(|v| (v - expected).abs() < 1e-9),
            "{series}: {found:?} {expected}"
        );
    }
}

/// Columns stay when what they show is gone.
#[test]
fn columns_are_settled_by_the_first_line() {
    let scene = Scene::new(SERVING);
    let running = scene.start(&["--extended"]);
    let gpu = scene.gpu.as_ref().unwrap();
    let last = |title: &str| {
        let lines = scene.so_far();
        let at = cells(lines.first()?).iter().position(|name| name == title).unwrap();
        lines.get(1)?;
        Some(cells(lines.last()?)[at].clone())
    };
    let wait = |title: &str, value: &str| {
        wait_for(title, || last(title).filter(|cell| cell == value));
    };
    wait("gpu.temperature[0] [C]", "51");
    gpu.add_second();
    gpu.set(&[("init", "!9")]);
    wait("gpu.temperature[0] [C]", NOTHING);
    wait("source[gpu]", "not_present");
    wait("gpu.sharing[0]", NOTHING);
    gpu.leave_out(&["init"]);
    wait("gpu.temperature[0] [C]", "51");
    running.stop();
    let lines = lines(&scene.written());
    assert!(!lines[0].contains("gpu.temperature[1]"));
    assert!(lines.iter().all(|line| cells(line).len() == cells(&lines[0]).len()));
}

/// A column that is not there in the beginning never will be, so the beginning waits for slow answers.
#[test]
fn a_driver_that_takes_its_time_has_its_columns() {
    let scene = Scene::new(SERVING);
    fs::write(scene.file("config.yml"), "log: {level: warn}\n").unwrap();
    scene.gpu.as_ref().unwrap().set(&[("0.temperature", "~1500 51")]);
    let header = scene.print(&["--extended"]).remove(0);
    assert!(header.contains(",gpu.temperature[0] [C],"), "{header}");
    // nvidia-smi in place of the library, each call of it as slow.
    scene.gpu.as_ref().unwrap().set(&[("0.temperature", "51"), ("smi.delay", "200")]);
    let smi = format!("--path.nvidia-smi={}", fakes::nvidia_smi().display());
    let lines = scene.print(&["--extended", "--collector.gpu=smi", &smi]);
    assert!(lines[0].contains(",gpu.temperature[0] [C],"), "{}", lines[0]);
    assert!(lines[1].contains(", 51, 60.71 W, "), "{}", lines[1]);
}
