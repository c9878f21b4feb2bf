//! How a GPU works, from end to end: a story served, and the real NVML code against a stand-in.

mod support;

use std::fs;
use support::fakes;
use support::rig::Rig;
use support::{Exporter, exporter, root, value};

fn state(metrics: &str) -> String {
    let prefix = "gb10_throttle_state{gpu=\"0\",state=\"";
    let of = |line: &str| Some(line.strip_prefix(prefix)?.strip_suffix("\"} 1")?.to_owned());
    metrics.lines().find_map(of).unwrap_or_else(|| "none".to_owned())
}

fn counted(metrics: &str, what: &str, kind: &str) -> f64 {
    let series = format!("gb10_throttle_{what}_total{{gpu=\"0\",kind=\"{kind}\"}}");
    value(metrics, &series).unwrap_or_else(|| panic!("no {series}"))
}

/// Three hours in which heat costs a job a fifth of its clock: each change of state is one line of the
/// log, one entry of the list, one step of the counters, and they say the same.
#[test]
fn a_story_of_heat_is_told_once_in_every_place() {
    let mut command = exporter();
    let story = root().join("tests/scenarios/heat-costs-clock.txt");
    command.arg("replay").arg(story).args(["--serve", "--speed", "10000"]);
    command.args(["--web.listen-address", "127.0.0.1:0"]);
    let mut served = Exporter::spawn(command);
    let end = served.wait_for_metrics("the end of the story", |m| {
        value(m, "gb10_gpu_temperature_celsius{gpu=\"0\"}") == Some(48.0)
            && counted(m, "episodes", "thermal") > 0.0
    });
    assert_eq!(state(&end), "idle");
    let episodes = ["at_power_cap", "heating_at_cap", "thermal", "power_delivery", "stalled_busy"]
        .map(|kind| counted(&end, "episodes", kind));
    assert_eq!(format!("{episodes:?}"), "[1.0, 1.0, 1.0, 0.0, 0.0]");
    let thermal = counted(&end, "seconds", "thermal");
    assert!((1800.0..1900.0).contains(&thermal), "{thermal}");
    let status: serde_json::Value = serde_json::from_str(&served.get("/api/v1/status")).unwrap();
    let events: Vec<&serde_json::Value> = status["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["event"] == "throttle_changed")
        .collect();
    let ended: Vec<&str> = events.iter().map(|e| e["episode"]["state"].as_str().unwrap()).collect();
    let way = ["at_power_cap", "heating_at_cap", "thermal"];
    assert_eq!(ended, way, "the start is no news");
    let hot = &events[2];
    assert_eq!(
        (hot["severity"].as_str(), events[1]["severity"].as_str()),
        (Some("info"), Some("warning"))
    );
    assert_eq!(hot["episode"]["peak_celsius"], 87.0);
    let number = |key: &str| hot["episode"][key].as_f64().unwrap();
    assert!(
        (number("mean_watts") - 88.0).abs() < 3.0
            && (number("clock_lost_ratio") - 0.2).abs() < 0.01
    );
    assert!((number("end") - number("start") - thermal).abs() < 2.0);
    served.signal("TERM");
    let (_, log) = served.wait();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("event=throttle_changed")).collect();
    assert_eq!(lines.len(), events.len(), "{log}");
    let begins = lines[1];
    for part in [
        "level=warn",
        "from=heating_at_cap to=thermal",
        "gpu=0",
        "from_peak_celsius=87.0 from_mean_watts=88.0",
        "To do: look at fans",
        "clock 20 % below this job's own first steady minutes (2250 MHz at 88.0 W)",
    ] {
        assert!(begins.contains(part), "{part}: {begins}");
    }
    assert!(lines[2].contains("from_clock_lost_ratio=0.200"), "{}", lines[2]);
}

/// Short windows, so that minutes fit into a test.
const QUICK: &str = "thresholds: {throttle: {first_after: 1s, fault_window: 10s}}\n";
const FAULTY: [(&str, &str); 5] = [
    ("0.utilization", "96"),
    ("0.power_average_mw", "19500"),
    ("0.power_mw", "19500"),
    ("0.clock.sm", "799"),
    ("0.event_reasons", "0x0"),
];

/// A fault of power delivery outlives the exporter, is not cured by rest, and ends with a proof.
#[test]
fn a_fault_outlives_a_restart_and_ends_with_a_busy_sample_that_is_normal() {
    let kept = tempfile::tempdir().unwrap();
    let nvml = fakes::nvml();
    let paths = [("--path.nvml", nvml.as_path()), ("--state.directory", kept.path())];
    let rig = Rig::with("spark-fe-idle", &paths, QUICK);
    rig.gpu.set(&FAULTY);
    let told = rig.wait("the fault", |m| state(m) == "power_delivery");
    assert!((counted(&told, "episodes", "power_delivery") - 1.0).abs() < 0.1);
    assert!(rig.logged().contains("level=error"), "{}", rig.logged());
    let Rig { mut exporter, .. } = rig;
    exporter.signal("TERM");
    assert_eq!(exporter.wait().0, Some(0));
    let state_file = fs::read_to_string(kept.path().join("state.json")).unwrap();
    assert!(state_file.contains("\"power_fault\": true"), "{state_file}");
    // The box rests, and another exporter looks at it.
    let rig = Rig::with("spark-fe-idle", &paths, QUICK);
    let told = rig.wait("it is remembered", |m| state(m) == "power_delivery");
    assert_eq!(value(&told, "gb10_gpu_utilization_ratio{gpu=\"0\"}"), Some(0.0));
    rig.gpu.set(&[
        ("0.utilization", "96"),
        ("0.clock.sm", "2281"),
        ("0.power_average_mw", "92500"),
    ]);
    rig.wait("the proof", |m| !matches!(state(m).as_str(), "power_delivery" | "unknown"));
}

/// A driver that hangs leaves no state behind but `unknown`, and says so.
#[test]
fn a_driver_that_hangs_is_no_state_of_the_gpu() {
    let yaml = "thresholds: {throttle: {first_after: 1s}, gpu: {deadline: 100ms}}\n";
    let rig = Rig::new("gb10-580.173.02-serving", &fakes::nvml(), yaml);
    rig.wait("a state", |m| state(m) == "nominal");
    rig.gpu.set(&[("0.temperature", "~60000 51")]);
    let hung = rig.wait("it hangs", |m| state(m) == "unknown");
    assert_eq!(value(&hung, "gb10_throttle_signature{gpu=\"0\"}"), None);
    let without = "gb10_throttle_unreachable{gpu=\"0\",state=\"thermal\",input=\"utilization\"}";
    assert_eq!(value(&hung, without), Some(1.0));
    rig.gpu.let_go();
}
