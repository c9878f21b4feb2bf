//! A training log beside samples of its box, by the real binary.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

mod support;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use support::exporter;

/// 2025/11/24 16:00:00 UTC.
const START: u64 = 1_764_000_000;

/// A run's log and its samples.
struct Scene {
    dir: tempfile::TempDir,
}

/// `2025/11/24 16:00:00.000`, UTC.
fn stamp(at: u64) -> String {
    let of_day = at - START + 16 * 3600;
    format!("2025/11/24 {:02}:{:02}:{:02}.000", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

impl Scene {
    /// A step every four seconds, or every eight where it is slow; and every thirty seconds a sample of
    /// temperature, power and clock.
    fn new(
        hours: f64,
        slow: impl Fn(u64) -> bool,
        sample: impl Fn(u64) -> (u64, f64, u64),
    ) -> Self {
        let scene = Self { dir: tempfile::tempdir().unwrap() };
        let mut log = format!("{{\"step\": 0, \"time\": {START}}}\n");
        let (mut second, mut number) = (0_u64, 0_u64);
        let ends = std::time::Duration::from_secs_f64(hours * 3600.0).as_secs();
        while second < ends {
            number += 1;
            second += if slow(second) { 8 } else { 4 };
            let _ = writeln!(
                log,
                "{{\"step\": {number}, \"loss\": 1.5, \"time\": {}}}",
                START + second
            );
        }
        scene.write("train.jsonl", &log);
        let mut samples =
            "timestamp, temperature.gpu, power.draw [W], clocks.current.sm [MHz], utilization.gpu [%]\n".to_owned();
        for second in (0..ends).step_by(30) {
            let (celsius, watts, mega) = sample(second);
            let _ = writeln!(
                samples,
                "{}, {celsius}, {watts:.2} W, {mega} MHz, 96 %",
                stamp(START + second)
            );
        }
        scene.write("thermal.log", &samples);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, log: &str, more: &[&str]) -> (i32, String, String) {
        let mut command = exporter();
        command.arg("correlate").arg("--log").arg(self.path(log));
        if !more.contains(&"--zone") {
            command.args(["--zone", "UTC"]);
        }
        command.current_dir(self.dir.path()).args(more);
        if !more.contains(&"--samples") && !more.contains(&"--prometheus") {
            command.arg("--samples").arg(self.path("thermal.log"));
        }
        let out = command.output().expect("runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
    }

    fn json(&self, log: &str, more: &[&str]) -> serde_json::Value {
        let more: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
        let (_, out, err) = self.run(log, &more);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
    }
}

fn late(second: u64) -> bool {
    second >= 7200
}

/// Flat power under the supply's rating, heat, and a clock that falls when the steps double.
fn heat(second: u64) -> (u64, f64, u64) {
    if late(second) { (86, 88.0, 1400) } else { (79, 88.0, 2250) }
}

#[test]
fn steps_that_double_at_two_hours_with_the_signature_of_heat_are_named() {
    let scene = Scene::new(2.5, late, heat);
    let (code, out, err) = scene.run("train.jsonl", &["--ascii"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    for part in [
        "SLOWED: 1 stretch, 15 min 00 s lost.",
        "2:00:00 to 2:30:00 into the run (2025/11/24 18:00:00 on): steps took 8.00 s, 2.00 times as long; 225 steps",
        "  heat: last minute 96 % busy, 88.0 W, 86.0 °C",
        "clock 38 % lower than in the steady minutes, which explains about 61 % of it",
        "  then    86.0 °C (peak 86.0 °C), 88.0 W, SM 1400 MHz, 96 % busy; thermal",
        "  before  79.0 °C",
        "Clock: by the log's own time stamps",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let told = scene.json("train.jsonl", &[]);
    assert_eq!(
        (told["verdict"].as_str(), told["clock"].as_str()),
        (Some("slowed"), Some("time_stamps"))
    );
    let slow = &told["stretches"][0];
    assert_eq!((slow["from"].as_f64(), slow["ratio"].as_f64()), (Some(1_764_007_200.0), Some(2.0)));
    assert_eq!(slow["causes"][0]["cause"], "heat");
    assert_eq!(told["baseline_step_seconds"], 4.0);
}

/// Beside a second job, or for no visible reason: what the samples do not show is not named.
#[test]
fn what_the_samples_do_not_show_is_unexplained() {
    for sample in [
        |_| (71, 62.0, 2405),
        |second| if late(second) { (66, 47.0, 2450) } else { (71, 62.0, 2405) },
    ] {
        let scene = Scene::new(2.5, late, sample);
        let (code, out, _) = scene.run("train.jsonl", &[]);
        assert_eq!(code, 1);
        assert!(out.contains("unexplained: nothing in the samples accounts for it"), "{out}");
        let told = scene.json("train.jsonl", &[]);
        assert_eq!(told["stretches"][0]["causes"], serde_json::json!([]));
    }
}

#[test]
fn a_healthy_run_is_healthy_even_if_it_is_hot() {
    let scene = Scene::new(2.5, |_| false, |_| (84, 90.0, 2262));
    let (code, out, _) = scene.run("train.jsonl", &[]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("HEALTHY") && out.contains("A step took 4.00 s"), "{out}");
    assert_eq!(scene.json("train.jsonl", &[])["verdict"], "healthy");
}

#[test]
fn a_run_that_is_too_short_is_neither() {
    let scene = Scene::new(0.1, |_| false, |_| (60, 62.0, 2405));
    let (code, out, _) = scene.run("train.jsonl", &[]);
    assert_eq!(code, 2, "nobody may take it for healthy");
    assert!(out.contains("No steady beginning"), "{out}");
    assert_eq!(scene.json("train.jsonl", &[])["verdict"], "unknown");
}

/// Progress bars tell how long, not when: the beginning is given, or estimated and called that.
#[test]
fn a_log_without_time_stamps_is_laid_where_it_belongs() {
    let scene = Scene::new(2.5, late, heat);
    let mut bars = String::new();
    for number in 1..=2025_u64 {
        let elapsed = if number <= 1800 { number * 4 } else { 7200 + (number - 1800) * 8 };
        let (h, m, s) = (elapsed / 3600, elapsed / 60 % 60, elapsed % 60);
        let _ = write!(
            bars,
            "\r {}%|##        | {number}/2025 [{h}:{m:02}:{s:02}<1:00:00,  4.00s/it]",
            number * 100 / 2025
        );
        if number % 10 == 0 {
            let _ = write!(
                bars,
                "\n{{'loss': 2.1, 'grad_norm': 1.0, 'learning_rate': 4e-05, 'epoch': 0.5}}\n"
            );
        }
    }
    scene.write("train.log", &bars);
    let told = scene.json("train.log", &["--log-start", "2025/11/24 16:00:00"]);
    assert_eq!(
        (told["clock"].as_str(), told["log"]["format"].as_str()),
        (Some("given"), Some("hugging_face"))
    );
    let from = told["stretches"][0]["from"].as_f64().unwrap();
    assert!((from - 1_764_007_200.0).abs() <= 20.0, "{told:#}");
    assert_eq!(told["stretches"][0]["causes"][0]["cause"], "heat");
    // The file was written today, not while samples were taken: the GPU became busy at the first sample.
    let told = scene.json("train.log", &[]);
    assert_eq!(told["clock"], "gpu_busy");
    assert!((told["from"].as_f64().unwrap() - 1_764_000_000.0).abs() < 40.0, "{told:#}");
    // Written last when its last step ended.
    let file = fs::File::options().write(true).open(scene.path("train.log")).unwrap();
    let end = std::time::UNIX_EPOCH + std::time::Duration::from_secs(START + 9000);
    file.set_times(fs::FileTimes::new().set_modified(end)).unwrap();
    let told = scene.json("train.log", &[]);
    assert_eq!(told["clock"], "file_time");
    assert!((told["from"].as_f64().unwrap() - 1_764_000_000.0).abs() < 40.0, "{told:#}");
}

#[test]
fn a_picture_is_written_once() {
    let scene = Scene::new(2.5, late, heat);
    let (code, ..) = scene.run("train.jsonl", &["--svg", "run.svg"]);
    assert_eq!(code, 1);
    let svg = fs::read_to_string(scene.path("run.svg")).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains("heat") && svg.contains("step time"),
        "{}",
        &svg[..400]
    );
    let (code, _, err) = scene.run("train.jsonl", &["--svg", "run.svg"]);
    assert_eq!(code, 2);
    assert!(err.contains("run.svg cannot be written"), "{err}");
}

/// The hours of the run, from a real Prometheus that has what a scrape every 15 s would have left.
#[test]
fn a_prometheus_stands_in_for_samples() {
    let scene = Scene::new(2.5, late, heat);
    let root = support::root();
    fs::copy(root.join("tests/captures/spark-fe-idle.txt"), scene.path("box.txt")).unwrap();
    let story = fs::read_to_string(root.join("tests/scenarios/heat-costs-clock.txt")).unwrap();
    let story = story.replace("../captures/spark-fe-idle.txt", "box.txt");
    let story = story.replace("# length: 3h", &format!("# length: 3h\n# start: {START}"));
    scene.write("story.txt", &story);
    let mut command = exporter();
    command.arg("replay").arg(scene.path("story.txt")).args(["--emit", "openmetrics"]);
    let out = command.output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    fs::write(scene.path("history.om"), out.stdout).unwrap();
    let prometheus = support::prometheus::Prometheus::filled(&scene.path("history.om"));
    let base = format!("http://{}", prometheus.address);
    let began = std::time::Instant::now();
    let told = loop {
        let (code, out, err) = scene.run("train.jsonl", &["--prometheus", &base, "--json"]);
        if code == 1 {
            break serde_json::from_str::<serde_json::Value>(&out).unwrap();
        }
        assert!(began.elapsed().as_secs() < 30, "{err}");
        std::thread::sleep(std::time::Duration::from_millis(300));
    };
    let slow = &told["stretches"][0];
    assert_eq!(
        (slow["from"].as_f64(), slow["causes"][0]["cause"].as_str()),
        (Some(1_764_007_200.0), Some("heat"))
    );
    assert!((slow["then"]["sm_hertz"].as_f64().unwrap() - 1.8e9).abs() < 2e7, "{slow:#}");
    // Without time stamps it is not known which hours to ask for.
    scene.write("train.log", "1/2 [01:00<01:00, 60.00s/it]\n2/2 [02:00<00:00, 60.00s/it]\n");
    let (code, _, err) = scene.run("train.log", &["--prometheus", &base]);
    assert!(code == 2 && err.contains("needs a log with time stamps"), "{err}");
}

/// Each mistake is one line that says what to do.
#[test]
fn mistakes_are_told() {
    let scene = Scene::new(1.0, |_| false, |_| (70, 62.0, 2405));
    scene.write("empty.log", "");
    scene.write("other.log", "hello\nworld\n");
    scene.write("bad.csv", "a,b\n1,2\n");
    for (log, more, says) in [
        (
            "train.jsonl",
            vec!["--offset", "1d"],
            "are of different times; --offset or --zone may be missing",
        ),
        ("empty.log", vec![], "empty.log: the log is empty"),
        ("other.log", vec![], "other.log: no line reports a step"),
        ("missing.log", vec![], "missing.log cannot be read: No such file"),
        ("train.jsonl", vec!["--samples", "bad.csv"], "bad.csv:1: "),
        ("train.jsonl", vec!["--step-pattern", "(?P<stp>x)"], "--step-pattern: the pattern"),
        ("train.jsonl", vec!["--zone", "Nowhere/At"], "--zone Nowhere/At: "),
    ] {
        let (code, out, err) = scene.run(log, &more);
        assert_eq!((code, out.as_str()), (2, ""), "{says}: {err}");
        assert!(err.lines().count() == 1 && err.contains(says), "{says}: {err}");
    }
    assert_eq!(scene.run("train.jsonl", &["--format", "word"]).0, 64);
}
