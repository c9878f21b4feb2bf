//! nvidia-smi in place of NVML: the same figures, and a program that hangs harms nobody.
#![expect(clippy::disallowed_methods, reason = "tests set the scene and wait")]

mod support;

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use support::rig::{Rig, of_lane, state};
use support::{captures, fakes, value};

const SMI: &str = "collector: {gpu: smi}\n";
const QUICK: &str = "collector: {gpu: smi}\nthresholds: {gpu: {period: 100ms, smi_period: 100ms, smi_deadline: 300ms, retry_first: 50ms, retry_max: 200ms}}\n";

fn smi(capture: &str, yaml: &str) -> Rig {
    Rig::with(capture, &[("--path.nvidia-smi", &fakes::nvidia_smi())], yaml)
}

/// The readings of the GPU that have a value.
fn readings(rig: &Rig) -> Map<String, Value> {
    let status: Value = serde_json::from_str(&rig.exporter.get("/api/v1/status")).unwrap();
    let all = status["readings"].as_object().unwrap();
    all.iter()
        .filter(|(id, _)| id.starts_with("gpu.") && !["gpu.via", "gpu.path"].contains(&id.as_str()))
        .filter_map(|(id, reading)| Some((id.clone(), reading.get("value")?.clone())))
        .collect()
}

/// As near as the program's rounding allows: hundredths of a watt, MiB, microseconds.
fn alike(id: &str, a: &Value, b: &Value) -> bool {
    let rounding = match id.split('[').next().unwrap() {
        "gpu.power" | "gpu.power_average" | "gpu.power_instant" => 0.0051,
        "gpu.memory" => 1_048_576.0,
        "gpu.event_seconds" => 1.0e-6,
        _ => 0.0,
    };
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= rounding,
        _ => a == b,
    }
}

/// What both tell, both tell alike, on every machine of the suite.
#[test]
fn nvml_and_nvidia_smi_say_the_same() {
    let (mut machines, mut shared) = (0, BTreeSet::new());
    for (name, path) in captures() {
        let text = fs::read_to_string(&path).unwrap();
        let readable = text.contains("==> gpu") && !text.contains("init = !");
        if !readable || name == "gb10-580.142-hanging" {
            continue;
        }
        let (by_library, by_program) = (Rig::new(&name, &fakes::nvml(), ""), smi(&name, SMI));
        by_library.wait("read", |m| m.contains("via=\"nvml\""));
        by_program.wait("read", |m| m.contains("via=\"nvidia_smi\""));
        let (nvml, smi) = (readings(&by_library), readings(&by_program));
        let others = [".processes.graphics = ", ".processes.mps = "];
        let others = text.lines().any(|line| {
            others.iter().any(|key| line.contains(key)) && !line.trim_end().ends_with('=')
        });
        for (id, value) in &smi {
            // The program's query knows processes with a compute context only.
            if id.starts_with("gpu.listed") || (id.starts_with("gpu.processes") && others) {
                continue;
            }
            let other =
                nvml.get(id).unwrap_or_else(|| panic!("{name}: {id} is {value} and NVML has none"));
            assert!(alike(id, value, other), "{name}: {id} is {value} by smi, {other} by NVML");
            shared.insert(id.split('[').next().unwrap().to_owned());
        }
        assert!(smi.len() > 5, "{name}: {smi:?}");
        machines += 1;
    }
    assert!(machines >= 20, "only {machines} machines");
    assert!(shared.len() >= 19, "only {shared:?}");
}

/// Where the library cannot be loaded the program stands in, and is run less often.
#[test]
fn without_the_library_the_program_is_asked() {
    let rig = smi("spark-fe-llm-server", "");
    let metrics = rig.wait("read", |m| state(m) == "ok");
    let path = fakes::nvidia_smi();
    assert!(metrics.contains(&format!("path=\"{}\"", path.display())), "{metrics}");
    assert_eq!(value(&metrics, "gb10_gpu_temperature_celsius{gpu=\"0\"}"), Some(64.0));
    assert_eq!(value(&metrics, "gb10_gpu_power_watts{gpu=\"0\"}"), Some(48.66));
    assert!(metrics.contains("gb10_gpu_memory_report{gpu=\"0\",state=\"unsupported\"} 1"));
    assert!(metrics.contains("gb10_pool_unaccounted_bytes{holder=\"gpu_processes\"}"));
    assert!(value(&metrics, "gb10_source_duration_seconds{source=\"gpu\"}").unwrap() > 0.0);
    let (gpu, fast) = (of_lane(&metrics, "ticks", "gpu"), of_lane(&metrics, "ticks", "fast"));
    let later = rig.wait("twelve seconds", |m| of_lane(m, "ticks", "fast") >= fast + 12.0);
    let rounds = of_lane(&later, "ticks", "gpu") - gpu;
    assert!((2.0..=4.0).contains(&rounds), "every five seconds: {rounds} rounds in twelve");
    assert_eq!(state(&later), "ok", "five seconds between two runs are not too old");
}

#[test]
fn neither_library_nor_program_is_said_as_such() {
    let rig = Rig::with("spark-fe-idle", &[], "");
    let metrics = rig.wait("not there", |m| state(m) == "not_present");
    assert!(metrics.contains("gb10_reading_missing{reading=\"gpu.name\",reason=\"no_library\"} 1"));
    let status = rig.exporter.get("/api/v1/status");
    assert!(status.contains("/nowhere/libnvidia-ml.so.1 cannot be loaded"), "{status}");
    assert!(status.contains("/nowhere/nvidia-smi"), "{status}");
}

/// Every way in which drivers write that there is no value.
#[test]
fn no_spelling_of_nothing_becomes_a_number() {
    for spelling in ["[N/A]", "N/A", "[Not Supported]", "Not Supported"] {
        let rig = smi("gb10-580.173.02-serving", SMI);
        rig.gpu.set(&[
            ("smi.unsupported", spelling),
            ("smi.units", "1"),
            ("0.temperature", "!3"),
            ("0.utilization", "!4"),
            ("0.power_mw", "!15"),
            ("0.power_average_mw", "!999"),
        ]);
        let metrics = rig.wait("read", |m| state(m) != "ok" && state(m) != "none");
        for (reading, reason) in
            [("utilization", "denied"), ("power", "lost"), ("power_average", "failed")]
        {
            let missing =
                format!("gb10_reading_missing{{reading=\"gpu.{reading}\",reason=\"{reason}\"}}");
            assert_eq!(value(&metrics, &missing), Some(1.0), "{spelling}: {reading}\n{metrics}");
        }
        for absent in [
            "gb10_gpu_temperature_celsius{",
            "gb10_gpu_utilization_ratio{",
            "gb10_gpu_power_watts{",
        ] {
            assert!(!metrics.contains(absent), "{spelling}: {absent}");
        }
        assert!(metrics.contains("gb10_gpu_memory_report{gpu=\"0\",state=\"unsupported\"} 1"));
        assert!(metrics.contains("gb10_gpu_performance_state{gpu=\"0\"} 0"));
    }
}

/// Fields that a driver does not know are done without, and the other spelling is found.
#[test]
fn fields_that_the_driver_refuses_are_done_without() {
    let rig = smi("gb10-580.173.02-serving", SMI);
    rig.gpu.set(&[(
        "smi.refuses",
        "clocks_event_reasons.active,addressing_mode,temperature.gpu.tlimit,clocks_event_reasons_counters.sync_boost",
    )]);
    let metrics = rig.wait("read", |m| {
        state(m) == "ok" && m.contains("reading=\"gpu.margin\",reason=\"no_symbol\"")
    });
    assert!(
        metrics.contains("gb10_gpu_event_reason{gpu=\"0\",reason=\"sw_power_cap\"}"),
        "{metrics}"
    );
    assert!(
        metrics.contains("gb10_gpu_event_reason_seconds_total{gpu=\"0\",reason=\"hw_thermal\"}")
    );
    assert!(!metrics.contains("reason=\"sync_boost\"} 0\n# HELP gb10_gpu_xid"));
    assert!(
        metrics.contains("gb10_gpu_memory_sharing{gpu=\"0\",state=\"shared\"} 1"),
        "by its name"
    );
}

fn alive(pid: u32) -> bool {
    // A zombie whose parent is gone, or not ours, is dead all the same.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

fn children(rig: &Rig) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", rig.exporter.child.id())).unwrap();
    tasks
        .map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default())
        .map(|list| list.split_ascii_whitespace().count())
        .sum()
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let rig = smi("spark-fe-llm-server", QUICK);
    rig.wait("healthy", |m| state(m) == "ok");
    let files = rig.open_files();
    rig.gpu.set(&[("smi.hang", "children")]);
    let hung = rig.wait("hung", |m| state(m) == "hung");
    assert!(!hung.contains("gb10_gpu_temperature_celsius{"));
    let rounds = of_lane(&hung, "ticks", "gpu");
    let later = rig.wait("ten more rounds", |m| of_lane(m, "ticks", "gpu") >= rounds + 10.0);
    assert_eq!(value(&later, "gb10_lane_missed_ticks_total{lane=\"fast\"}"), Some(0.0));
    rig.gpu.leave_out(&["smi.hang"]);
    rig.wait("back", |m| state(m) == "ok" && m.contains("gb10_gpu_temperature_celsius{"));
    let pids = rig.gpu.pids();
    assert!(pids.len() >= 4, "{pids:?}");
    let left: Vec<_> = pids.into_iter().filter(|pid| alive(*pid)).collect();
    assert!(left.is_empty(), "still running: {left:?}");
    assert_eq!(rig.open_files(), files);
    // One may just be running.
    assert!(children(&rig) <= 1);
}

/// A process in uninterruptible sleep: it does not die, so no other is started until it does.
#[test]
fn a_program_that_cannot_be_killed_is_left_alone_and_never_joined_by_another() {
    let rig = smi("spark-fe-llm-server", QUICK);
    rig.wait("healthy", |m| state(m) == "ok");
    rig.gpu.set(&[("smi.hang", "unkillable")]);
    let began = Instant::now();
    let said = || rig.exporter.get("/api/v1/status").contains("hangs and cannot be killed");
    while !said() {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", rig.exporter.get("/metrics"));
        thread::sleep(Duration::from_millis(100));
    }
    let stuck = rig.exporter.get("/metrics");
    assert_eq!(state(&stuck), "hung");
    let rounds = of_lane(&stuck, "ticks", "gpu");
    let later = rig.wait("ten more rounds", |m| of_lane(m, "ticks", "gpu") >= rounds + 10.0);
    assert_eq!(value(&later, "gb10_lane_missed_ticks_total{lane=\"fast\"}"), Some(0.0));
    assert_eq!(children(&rig), 1, "it alone");
    rig.gpu.leave_out(&["smi.hang"]);
    rig.gpu.let_go();
    rig.wait("back", |m| state(m) == "ok" && m.contains("gb10_gpu_temperature_celsius{"));
    assert!(Path::new(&format!("/proc/{}", rig.exporter.child.id())).exists());
}

/// A stop does not wait, and leaves nothing behind.
#[test]
fn a_stop_ends_the_program_too() {
    let mut rig = smi(
        "spark-fe-llm-server",
        "collector: {gpu: smi}\nthresholds: {gpu: {smi_deadline: 120s}}\n",
    );
    rig.wait("healthy", |m| state(m) == "ok");
    rig.gpu.set(&[("smi.hang", "children")]);
    let began = Instant::now();
    while rig.gpu.pids().len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(20), "does not hang");
        thread::sleep(Duration::from_millis(50));
    }
    rig.exporter.signal("TERM");
    assert_eq!(rig.exporter.wait().0, Some(0));
    thread::sleep(Duration::from_millis(200));
    let left: Vec<_> = rig.gpu.pids().into_iter().filter(|pid| alive(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}
