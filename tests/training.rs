//! Training logs that are followed, by the real binary.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

mod support;

use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::engine::player::Player;
use gb10_exporter::model::event::EventKind;
use gb10_exporter::thresholds::Thresholds;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use support::{Exporter, Machine, exporter, value};

const STEP: &str = "gb10_train_step_seconds{run=\"train\"}";
const BASELINE: &str = "gb10_train_step_baseline_seconds{run=\"train\"}";
const SLOW: &str = "gb10_train_slow{run=\"train\"}";
const EPISODES: &str = "gb10_train_slow_episodes_total{run=\"train\"}";
const LOST: &str = "gb10_train_lost_seconds_total{run=\"train\"}";

const AGE: &str = "gb10_train_last_step_age_seconds{run=\"train\"}";

struct Scene {
    dir: tempfile::TempDir,
    _machine: Machine,
    exporter: Exporter,
    /// The last step's number.
    last: u64,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::new("spark-fe-llm-server");
        let mut command = exporter();
        command.args(["serve", "--web.listen-address", "127.0.0.1:0", "--collector.gpu=off"]);
        for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
            command.arg(format!("--path.{flag}={}", machine.path(sub).display()));
        }
        command.arg("--train-log").arg(dir.path().join("train.jsonl"));
        command.arg("--train-log").arg(dir.path().join("other.log"));
        let exporter = Exporter::spawn(command);
        Self { dir, _machine: machine, exporter, last: 0 }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("train.jsonl")
    }

    /// Steps of so many seconds each, for so long.
    fn steps(&mut self, seconds: u64, each: u64) {
        let mut text = String::new();
        for _ in 0..seconds / each {
            self.last += 1;
            let _ = writeln!(text, "{{\"step\": {}, \"step_time\": {each}}}", self.last);
        }
        append(&self.path(), &text);
    }

    fn wait(&self, what: &str, check: impl Fn(&str) -> bool) -> String {
        self.exporter.wait_for_metrics(what, check)
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn is(m: &str, series: &str, want: f64) -> bool {
    value(m, series).is_some_and(|value| (value - want).abs() < 1e-6)
}

/// A run is found when its log appears, is told slow and well again, and another file is another run.
#[test]
fn a_log_that_is_followed_tells_the_pace_of_its_run() {
    let mut scene = Scene::new();
    let none = scene.wait("the source says so", |m| {
        value(m, "gb10_source_state{source=\"training\",state=\"not_present\"}") == Some(1.0)
    });
    assert_eq!(value(&none, STEP), None);
    scene.steps(7200, 4);
    let steady = scene.wait("a steady run", |m| is(m, SLOW, 0.0));
    assert!(is(&steady, STEP, 4.0) && is(&steady, BASELINE, 4.0) && is(&steady, EPISODES, 0.0));
    // The other one is not there, and that is nothing of this one's.
    let state = |run: &str, state: &str| {
        value(&steady, &format!("gb10_train_log_state{{run=\"{run}\",state=\"{state}\"}}"))
    };
    assert_eq!((state("train", "ok"), state("other", "not_present")), (Some(1.0), Some(1.0)));
    assert_eq!(value(&steady, "gb10_source_state{source=\"training\",state=\"ok\"}"), Some(1.0));
    assert!(value(&steady, AGE).is_some_and(|age| (0.0..3600.0).contains(&age)));
    scene.steps(600, 8);
    let slow = scene.wait("a slow run", |m| is(m, SLOW, 1.0));
    assert!(is(&slow, STEP, 8.0) && is(&slow, BASELINE, 4.0) && is(&slow, EPISODES, 1.0));
    assert!(is(&slow, LOST, 300.0));
    let status = scene.exporter.get("/api/v1/status");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let run = &status["training"][0];
    assert_eq!((run["run"].as_str(), run["format"].as_str()), (Some("train"), Some("jsonl")));
    assert_eq!(run["ratio"], 2.0);
    assert!(run["last_step_seconds"].is_number() && run["stalled"] == false, "{run:#}");
    let logs = serde_json::json!([
        {"run": "train", "state": "ok"}, {"run": "other", "state": "not_present"}
    ]);
    assert_eq!(status["training_logs"], logs);
    assert!(scene.exporter.get("/").contains("its log cannot be read (not_present)"));
    assert!(scene.exporter.get("/").contains("SLOW, 2.00 times as long"));
    scene.steps(400, 4);
    let back = scene.wait("it is back", |m| is(m, SLOW, 0.0));
    assert!(is(&back, LOST, 300.0) && is(&back, EPISODES, 1.0));
    // Emptied and written anew: another run, whose pace is not known; what was counted stays.
    fs::write(scene.path(), "").unwrap();
    scene.steps(40, 4);
    let anew = scene.wait("another run", |m| value(m, BASELINE).is_none());
    assert!(is(&anew, EPISODES, 1.0) && is(&anew, LOST, 300.0));
    fs::remove_file(scene.path()).unwrap();
    scene.wait("it is gone", |m| value(m, EPISODES).is_none());
    scene.exporter.signal("TERM");
    let (_, log) = scene.exporter.wait();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("event=run_slow")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(
        lines[0].contains("level=warn") && lines[0].contains("no cause is seen"),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].contains(
            "train: a step takes 8.000 s, 4.000 s in its own steady minutes (2.00 times)"
        )
    );
    assert!(lines[1].contains("back at its own pace; 5 min 00 s lost so far"), "{}", lines[1]);
}

/// A log of a run of last year is no news: its figures are stale, and nobody is warned.
#[test]
fn an_old_log_is_not_told_as_if_it_happened_now() {
    let mut scene = Scene::new();
    let mut text = String::new();
    let mut at = 1_764_000_000_u64;
    for n in 0..2000 {
        at += if n < 1800 { 4 } else { 8 };
        let _ = writeln!(text, "{{\"step\": {n}, \"time\": {at}}}");
    }
    append(&scene.path(), &text);
    let told = scene.wait("it is read", |m| is(m, EPISODES, 1.0));
    assert_eq!((value(&told, STEP), value(&told, SLOW)), (None, None));
    assert!(is(&told, BASELINE, 4.0));
    scene.exporter.signal("TERM");
    let (_, log) = scene.exporter.wait();
    assert!(!log.contains("run_slow"), "{log}");
}

/// 200 MB at once, and more all the time: the exporter answers, and stays small.
#[test]
fn a_flood_of_lines_is_followed_within_bounds() {
    let scene = Scene::new();
    // Every line is a step.
    let lines = |from: u64, bytes: usize| {
        let mut text = String::with_capacity(bytes + 200);
        for n in from.. {
            let _ = writeln!(
                text,
                "{{\"step\": {n}, \"step_time\": 0.001, \"note\": \"so many of them, so fast\"}}"
            );
            if text.len() > bytes {
                break;
            }
        }
        text
    };
    fs::write(scene.path(), lines(1, 200_000_000)).unwrap();
    let resident = |m: &str| value(m, "process_resident_memory_bytes").unwrap_or(0.0);
    let ticks = "gb10_lane_ticks_total{lane=\"logs\"}";
    let begin = scene.wait("a round", |m| value(m, ticks) > Some(1.0));
    for n in 1..=8 {
        append(&scene.path(), &lines(n * 10_000_000, 5_000_000));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(scene.exporter.request("GET", "/metrics", "").status, 200, "it answers");
    }
    let end =
        scene.wait("rounds go on", |m| value(m, ticks) > value(&begin, ticks).map(|n| n + 3.0));
    assert!(resident(&end) < 96e6, "{} of {}", resident(&end), resident(&begin));
    let mut scene = scene;
    scene.exporter.signal("TERM");
    assert_eq!(scene.exporter.wait().0, Some(0));
}

#[test]
fn the_same_log_twice_is_a_mistake() {
    let mut command = exporter();
    command.args(["serve", "--train-log", "/a", "--train-log", "/a"]);
    let out = command.output().expect("runs");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        matches!(out.status.code(), Some(2 | 64)) && err.contains("/a is there twice"),
        "{err}"
    );
}

/// What the journal says of the run of a scenario.
fn told(scenario: &str, kind: EventKind) -> Vec<(u64, String)> {
    let path = support::root().join("tests/scenarios").join(scenario);
    let scenario = Scenario::load(&path).unwrap();
    let last = Player::new(scenario, Thresholds::default(), ("0", "0")).last();
    let frame = last.and_then(|(_, frame)| frame).unwrap();
    let events = frame.events.iter().filter(|event| event.kind == kind);
    events.map(|event| (event.at.mono.as_secs(), event.evidence.clone())).collect()
}

/// A stall is one event, when it has lasted for as long as no pause does.
#[test]
fn a_run_that_hangs_is_one_event() {
    let events = told("training-slows-down.txt", EventKind::RunStalled);
    let [(at, evidence)] = events.as_slice() else { panic!("{events:?}") };
    assert!((4195..=4205).contains(at), "{at}");
    assert!(evidence.starts_with("lora: no step for 10 min"), "{evidence}");
    assert_eq!(told("training-varies.txt", EventKind::RunStalled), []);
}

/// That a run is slow is told at once, and a clock cap as its cause when it can be told.
#[test]
fn a_clock_cap_is_named_as_the_cause() {
    let events = told("training-under-a-cap.txt", EventKind::RunSlow);
    let [(_, first), (at, second)] = events.as_slice() else { panic!("{events:?}") };
    assert!(first.contains("no cause is seen"), "{first}");
    assert!(
        second.contains("clock_cap: SM clock stays at 1600 MHz, 33 % below 2405 MHz"),
        "{second}"
    );
    assert!((2990..=3200).contains(at), "{at}");
    assert_eq!(
        told("training-slows-down.txt", EventKind::RunSlow).len(),
        2,
        "slow, and well again"
    );
}
