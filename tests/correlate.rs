//! A training log beside samples of its box, by the real binary.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

mod support;

use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::engine::player::Player;
use gb10_exporter::export::sample::{self, Columns, Style};
use gb10_exporter::model::frame::Frame;
use gb10_exporter::model::training::SlowCause;
use gb10_exporter::thresholds::Thresholds;
use jiff::tz::TimeZone;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
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

/// What `replay` would have given a Prometheus that scraped it every fifteen seconds.
fn filled(scene: &Scene) -> support::prometheus::Prometheus {
    let mut command = exporter();
    command.arg("replay").arg(scene.path("story.txt")).args(["--emit", "openmetrics"]);
    let out = command.output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    fs::write(scene.path("history.om"), out.stdout).unwrap();
    support::prometheus::Prometheus::filled(&scene.path("history.om"))
}

/// What `correlate` says of a run that was slow, once the Prometheus answers.
fn told_by(
    prometheus: &support::prometheus::Prometheus,
    scene: &Scene,
    log: &str,
) -> serde_json::Value {
    let base = format!("http://{}", prometheus.address);
    let began = std::time::Instant::now();
    loop {
        let (code, out, err) = scene.run(log, &["--prometheus", &base, "--json"]);
        if code == 1 {
            break serde_json::from_str(&out).unwrap();
        }
        assert!(began.elapsed().as_secs() < 30, "{err}");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
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
    let prometheus = filled(&scene);
    let base = format!("http://{}", prometheus.address);
    let told = told_by(&prometheus, &scene, "train.jsonl");
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

/// How the jobs got along is asked for, too.
#[test]
fn a_prometheus_tells_of_a_second_job() {
    let scene = Scene::new(0.1, |_| false, |_| (70, 62.0, 2405));
    beside_a_second_job(&scene, "25m", "jobs.csv");
    let prometheus = filled(&scene);
    let told = told_by(&prometheus, &scene, "lora.jsonl");
    assert_eq!(told["stretches"][0]["causes"][0]["cause"], "contention", "{told:#}");
    assert_eq!(told["stretches"][0]["before"]["contention"]["none"], 1.0, "{told:#}");
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
        (
            "train.jsonl",
            vec!["--log-end", "2025/11/24 18:00:00"],
            "--log-end is for logs that tell",
        ),
    ] {
        let (code, out, err) = scene.run(log, &more);
        assert_eq!((code, out.as_str()), (2, ""), "{says}: {err}");
        assert!(err.lines().count() == 1 && err.contains(says), "{says}: {err}");
    }
    assert_eq!(scene.run("train.jsonl", &["--format", "word"]).0, 64);
}

/// A log of steps that came at these seconds.
fn steps(at: impl IntoIterator<Item = u64>) -> String {
    let lines = (0..).zip(at);
    lines.fold(String::new(), |mut log, (number, second)| {
        let _ = writeln!(log, "{{\"step\": {number}, \"time\": {}}}", START + second);
        log
    })
}

/// A step that hangs for an hour is told, with its time; before and after it the run is healthy.
#[test]
fn a_stall_is_a_stretch_of_its_own() {
    let scene = Scene::new(3.0, |_| false, |_| (70, 62.0, 2405));
    let hangs = (0..=3600).step_by(4).chain((7204..=9000).step_by(4));
    scene.write("train.jsonl", &steps(hangs));
    let (code, out, err) = scene.run("train.jsonl", &["--ascii"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    for part in [
        "SLOWED: 1 stretch, 1 h 00 min lost.",
        "1:00:00 to 2:00:04 into the run (2025/11/24 17:00:00 on): STALL, no report for",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let told = scene.json("train.jsonl", &[]);
    let stall = &told["stretches"][0];
    assert_eq!(
        (stall["kind"].as_str(), stall["lost_seconds"].as_f64()),
        (Some("stall"), Some(3600.0))
    );
    assert_eq!(told["stretches"].as_array().map(Vec::len), Some(1));
    let idle = |second: u64| {
        if (3600..7204).contains(&second) { (45, 11.0, 208) } else { (70, 62.0, 2405) }
    };
    let mut samples = fs::read_to_string(scene.path("thermal.log")).unwrap();
    samples.truncate(samples.find('\n').unwrap() + 1);
    for second in (0..10_800_u64).step_by(30) {
        let (celsius, watts, mega) = idle(second);
        let busy = if watts < 20.0 { 0 } else { 96 };
        let at = stamp(START + second);
        let _ = writeln!(samples, "{at}, {celsius}, {watts:.2} W, {mega} MHz, {busy} %");
    }
    scene.write("thermal.log", &samples);
    let (_, out, _) = scene.run("train.jsonl", &["--ascii"]);
    assert!(out.contains("unexplained: the GPU was idle: the run waited for something"), "{out}");
    // A log that ends an hour before the samples do has ended.
    scene.write("train.jsonl", &steps((0..=3600).step_by(4)));
    assert_eq!(scene.json("train.jsonl", &[])["verdict"], "healthy");
}

/// torchtune's metrics file: tokens in a second, and no time.
#[test]
fn tokens_per_second_alone_are_a_pace() {
    let scene = Scene::new(2.5, late, heat);
    let mut log = String::new();
    for number in 1..=2025_u64 {
        let rate = if number <= 1800 { 2048.0 } else { 1024.0 };
        let _ = writeln!(
            log,
            "Step {number} | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:{rate} peak_memory_active:9.9 "
        );
    }
    let name = format!("log_{START}.txt");
    scene.write(&name, &log);
    // Its name says when it began; its file was written today, and the GPU is busy to the last sample.
    let told = scene.json(&name, &[]);
    assert_eq!(
        (told["clock"].as_str(), told["log"]["format"].as_str()),
        (Some("token_rates"), Some("torchtune"))
    );
    let slow = &told["stretches"][0];
    assert_eq!(slow["ratio"].as_f64(), Some(2.0), "{told:#}");
    assert!((slow["from"].as_f64().unwrap() - 1_764_007_200.0).abs() < 60.0, "{slow:#}");
    assert_eq!(slow["causes"][0]["cause"], "heat");
    let said = ["--log-start", "2025/11/24 16:00:00", "--log-end", "2025/11/24 18:30:00"];
    let told = scene.json(&name, &said);
    let from = told["stretches"][0]["from"].as_f64().unwrap();
    assert!((from - 1_764_007_200.0).abs() < 5.0, "{told:#}");
    let remarks = told["remarks"].to_string();
    assert!(remarks.contains("ratios are its own") && remarks.contains("--log-end"), "{remarks}");
    let said = ["--log-start", "2025/11/24 18:30:00", "--log-end", "2025/11/24 16:00:00"];
    let (code, _, err) = scene.run(&name, &said);
    assert!(code == 2 && err.contains("would end (by --log-end) before it begins"), "{err}");
}

/// Ten spells of a minute and a half: no stretch, not nothing.
#[test]
fn short_spells_are_told_in_words() {
    for (every, code) in [(1500, 0), (720, 1)] {
        let spell = move |second: u64| second > 1800 && second % every < 96;
        let scene = Scene::new(4.0, spell, |_| (70, 62.0, 2405));
        let (found, out, _) = scene.run("train.jsonl", &[]);
        assert_eq!(found, code, "{out}");
        let head = if code == 0 { "HEALTHY" } else { "SLOWED: by short spells alone" };
        assert!(
            out.contains(head) && out.contains("short slow spells (under 2 min 00 s each)"),
            "{out}"
        );
        let told = scene.json("train.jsonl", &[]);
        assert_eq!(told["short_spells"]["slowed"], code == 1);
        assert!(told["short_spells"]["count"].as_u64().is_some_and(|count| count >= 8), "{told:#}");
        assert_eq!(told["stretches"], serde_json::json!([]));
    }
}

#[test]
fn a_run_that_becomes_faster_is_healthy_with_a_remark() {
    let scene = Scene::new(2.5, |second| second < 3600, |_| (70, 62.0, 2405));
    let (code, out, _) = scene.run("train.jsonl", &[]);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("HEALTHY") && out.contains("Faster later: 2.00 times as fast from 1:00:"),
        "{out}"
    );
    assert_eq!(scene.json("train.jsonl", &[])["faster_later"]["ratio"], 2.0);
}

/// Stamps of another zone that overlap with the samples all the same: the GPU was idle when the run is said to
/// have been.
#[test]
fn a_clock_that_the_gpu_contradicts_is_doubted() {
    let scene = Scene::new(2.5, |_| false, |_| (70, 62.0, 2405));
    let mut samples =
        "timestamp, temperature.gpu, power.draw [W], utilization.gpu [%]\n".to_owned();
    for second in (0..5 * 3600_u64).step_by(30) {
        let busy = if second < 9000 { 96 } else { 0 };
        let _ = writeln!(samples, "{}, 60, 40.00 W, {busy} %", stamp(START + second));
    }
    scene.write("thermal.log", &samples);
    let at = |hours: u64| steps((0..=9000).step_by(4).map(|second| second + hours * 3600));
    scene.write("train.jsonl", &at(1));
    let stamped = at(1).lines().enumerate().fold(String::new(), |mut log, (n, _)| {
        let at = stamp(START + 3600 + n as u64 * 4).replace('/', "-");
        let _ = writeln!(log, "{{\"step\": {n}, \"time\": \"{at}\"}}");
        log
    });
    scene.write("zoneless.jsonl", &stamped);
    let remarks = scene.json("zoneless.jsonl", &[])["remarks"].to_string();
    assert!(
        remarks.contains("were taken as those of --zone, UTC") && remarks.contains("1 h earlier"),
        "{remarks}"
    );
    let remarks = scene.json("train.jsonl", &[])["remarks"].to_string();
    assert!(remarks.contains("1 h earlier") && remarks.contains("--offset -1h"), "{remarks}");
    let right = scene.json("train.jsonl", &["--offset", "-1h"]);
    assert!(!right["remarks"].to_string().contains("by this clock"), "{right:#}");
}

/// Two runs write into one log: their steps are not mixed, and it is said.
#[test]
fn two_runs_in_one_log_are_told_apart() {
    let scene = Scene::new(2.5, |_| false, |_| (70, 62.0, 2405));
    let mut log = String::new();
    for number in 0..2000_u64 {
        let at = START + number * 4;
        let _ = writeln!(log, "{{\"step\": {}, \"time\": {at}}}", 5000 + number);
        if number > 900 {
            let _ = writeln!(log, "{{\"step\": {}, \"time\": {at}.5}}", number - 900);
        }
    }
    scene.write("train.jsonl", &log);
    let told = scene.json("train.jsonl", &[]);
    assert_eq!(
        (told["verdict"].as_str(), told["baseline_step_seconds"].as_f64()),
        (Some("healthy"), Some(4.0))
    );
    assert_eq!(told["log"]["reports"], 2000);
    let remarks = told["remarks"].to_string();
    assert!(remarks.contains("two runs write into the log from line 903 on"), "{remarks}");
    assert!(!remarks.contains("begins anew"), "{remarks}");
}

/// A run beside a second job that comes at this time, as its log tells it and as `sample --extended` notes its
/// box every thirty seconds.
fn beside_a_second_job(scene: &Scene, comes: &str, samples: &str) -> Vec<Frame> {
    let root = support::root();
    fs::copy(root.join("tests/captures/spark-fe-idle.txt"), scene.path("box.txt")).unwrap();
    let story = fs::read_to_string(root.join("tests/scenarios/second-job-slows-training.txt"));
    let story = story.unwrap().replace("../captures/spark-fe-idle.txt", "box.txt");
    let story = story
        .replace("# length: 50m", &format!("# length: 50m\n# start: {START}"))
        .replace("25m  processes.is[server]", &format!("{comes}  processes.is[server]"))
        .replace("25m..26m gpu", &format!("{comes}..26m gpu"));
    scene.write("story.txt", &story);
    let player = || {
        let scenario = Scenario::load(&scene.path("story.txt")).unwrap();
        Player::new(scenario, Thresholds::default(), ("0", "0")).filter_map(|(_, frame)| frame)
    };
    // A column for what comes later, too, as a file has that was begun beside it.
    let columns = player().find(|frame| frame.snapshot.at.mono >= Duration::from_secs(1800));
    let columns = Columns::of(&columns.unwrap());
    let mut table = sample::header(Style::Short, &columns);
    let frames: Vec<Frame> = player().collect();
    for frame in frames.iter().step_by(30) {
        let at = sample::timestamp(frame.snapshot.at.wall, &TimeZone::UTC);
        table.push_str(&sample::row(at, Some(frame), 0, &columns));
    }
    scene.write(samples, &table);
    scene.write("lora.jsonl", &steps((0..1560).step_by(4).chain((1560..=3000).step_by(8))));
    frames
}

/// The same samples, without the column that tells how the jobs get along.
fn without_the_jobs(table: &str) -> String {
    let header = table.lines().next().unwrap();
    let place = header.split(',').position(|title| title == "jobs.contention").unwrap();
    let cut = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        [&cells[..place], &cells[place + 1..]].concat().join(",") + "\n"
    };
    table.lines().map(cut).collect()
}

#[test]
fn a_second_job_that_does_not_fit_is_named_where_the_samples_tell_it() {
    let scene = Scene::new(0.1, |_| false, |_| (70, 62.0, 2405));
    let frames = beside_a_second_job(&scene, "25m", "jobs.csv");
    let (code, out, err) =
        scene.run("lora.jsonl", &["--samples", "jobs.csv", "--ascii", "--svg", "run.svg"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    for part in [
        "  contention: the jobs were overcommitted for 100 % of it, and fought for 0 % of the run's own steady minutes",
        "; jobs overcommitted 100 %",
        "; jobs none 100 %",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let told = scene.json("lora.jsonl", &["--samples", "jobs.csv"]);
    let slow = &told["stretches"][0];
    let causes: Vec<&str> =
        slow["causes"].as_array().unwrap().iter().filter_map(|c| c["cause"].as_str()).collect();
    assert_eq!(causes, ["contention"], "{told:#}");
    assert_eq!(slow["then"]["contention"]["overcommitted"], 1.0);
    assert_eq!(slow["before"]["contention"]["none"], 1.0);
    let svg = fs::read_to_string(scene.path("run.svg")).unwrap();
    assert!(svg.contains("contention") && !svg.contains("unexplained"));
    // Whoever watches is told who it is, too.
    let live = frames.iter().find(|f| f.verdicts.training[0].pace.slow == Ok(true)).unwrap();
    let [(SlowCause::Contention, evidence)] = live.verdicts.training[0].causes.as_slice() else {
        panic!("{:?}", live.verdicts.training)
    };
    assert!(
        evidence.contains("trl (root, pid 3001) holds 30.00 GiB, without a cap, heavy")
            && evidence.contains("vllm (docker, pid 3002) holds"),
        "{evidence}"
    );
    assert!(evidence.contains("; stop "), "{evidence}");
}

#[test]
fn samples_that_do_not_tell_of_the_jobs_leave_it_unexplained() {
    let scene = Scene::new(0.1, |_| false, |_| (70, 62.0, 2405));
    beside_a_second_job(&scene, "25m", "jobs.csv");
    let table = fs::read_to_string(scene.path("jobs.csv")).unwrap();
    scene.write("plain.csv", &without_the_jobs(&table));
    let (code, out, err) = scene.run("lora.jsonl", &["--samples", "plain.csv"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(out.contains("unexplained: nothing in the samples accounts for it"), "{out}");
    assert!(!out.contains("contention") && !out.contains("; jobs "), "{out}");
    let told = scene.json("lora.jsonl", &["--samples", "plain.csv"]);
    assert_eq!(told["stretches"][0]["causes"], serde_json::json!([]));
}

#[test]
fn a_second_job_that_was_there_from_the_start_is_not_named() {
    let scene = Scene::new(0.1, |_| false, |_| (70, 62.0, 2405));
    let frames = beside_a_second_job(&scene, "0s", "jobs.csv");
    let (code, out, _) = scene.run("lora.jsonl", &["--samples", "jobs.csv"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("unexplained: nothing in the samples accounts for it"), "{out}");
    let told = scene.json("lora.jsonl", &["--samples", "jobs.csv"]);
    let slow = &told["stretches"][0];
    assert_eq!(slow["causes"], serde_json::json!([]), "{told:#}");
    assert_eq!(slow["before"]["contention"]["overcommitted"], 1.0, "they did fight: {told:#}");
    let run = |frame: &Frame| frame.verdicts.training[0].clone();
    let slow = frames.iter().map(run).filter(|run| run.pace.slow == Ok(true));
    let causes: Vec<_> = slow.map(|run| run.causes).collect();
    assert!(!causes.is_empty() && causes.iter().all(Vec::is_empty), "{causes:?}");
}
