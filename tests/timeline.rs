//! A machine that is recorded for a while and replayed says what it said.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

use gb10_exporter::capture::scenario::Scenario;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use support::fakes::{self, Gpu};
use support::{Machine, exporter};

fn on(machine: &Machine, gpu: &Gpu, command: &str) -> Command {
    let mut all = exporter();
    all.arg(command);
    for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
        all.arg(format!("--path.{flag}={}", machine.path(sub).display()));
    }
    all.arg("--path.nvml").arg(fakes::nvml()).envs(gpu.environment());
    all
}

/// What a status document says of the machine, numbers and reasons; identities are masked.
fn readings(json: &[u8]) -> Map<String, Value> {
    let status: Value = serde_json::from_slice(json).expect("JSON");
    let all = status["readings"].as_object().unwrap().clone();
    let of_the_machine = |id: &str, reading: &Value| {
        !id.starts_with("process.")
            && id != "gpu.path"
            && !reading.get("value").is_some_and(Value::is_string)
    };
    all.into_iter().filter(|(id, reading)| of_the_machine(id, reading)).collect()
}

fn change(machine: &Machine, from: &str, to: &str) {
    let path = machine.path("proc/meminfo");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    let new = machine.path("proc/meminfo.new");
    fs::write(&new, text.replace(from, to)).unwrap();
    fs::rename(new, path).unwrap();
}

fn recorder(machine: &Machine, gpu: &Gpu, file: &Path, duration: &str) -> Child {
    on(machine, gpu, "record")
        .arg(file)
        .args(["--duration", duration, "--interval", "1s"])
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

#[test]
fn a_recorded_hour_replays_as_it_was() {
    let machine = Machine::new("spark-fe-llm-server");
    let gpu = Gpu::new("spark-fe-llm-server");
    let file = machine.path("recording.txt");
    let status = || readings(&on(&machine, &gpu, "status").arg("--json").output().unwrap().stdout);
    let before = status();
    let mut child = recorder(&machine, &gpu, &file, "8s");
    thread::sleep(Duration::from_secs(3));
    // Free memory falls and available memory does not: exactly what would follow by itself otherwise.
    let free = before["meminfo.MemFree"]["value"].as_u64().unwrap() / 1024;
    change(&machine, &format!("MemFree:        {free:>8} kB"), "MemFree:          123456 kB");
    gpu.set(&[
        ("0.temperature", "83"),
        ("0.utilization", "!4"),
        ("0.processes.compute", "6330:105119744000,77:NA"),
        ("0.event_reasons", "0x24"),
    ]);
    assert!(child.wait().unwrap().success());
    let after = status();
    assert_ne!(before, after);
    let replayed = |time: &str| {
        let out =
            exporter().arg("replay").arg(&file).args(["--at", time, "--json"]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        readings(&out.stdout)
    };
    for (time, live) in [("0s", &before), ("8s", &after)] {
        let replayed = replayed(time);
        for (id, reading) in live {
            assert_eq!(replayed.get(id), Some(reading), "{id} at {time}");
        }
        assert_eq!(replayed.len(), live.len());
    }
}

/// Stopped at any point, what was seen until then is a scenario.
#[test]
fn an_interrupted_recording_is_whole() {
    for signal in ["KILL", "TERM", "INT"] {
        let machine = Machine::new("gb10-580.126.09-idle");
        let gpu = Gpu::new("gb10-580.126.09-idle");
        let file = machine.path("recording.txt");
        let mut child = recorder(&machine, &gpu, &file, "1h");
        let began = Instant::now();
        while !file.exists() {
            assert!(began.elapsed() < Duration::from_secs(20), "nothing is written");
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(1500));
        let pid = child.id().to_string();
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success()
        );
        child.wait().unwrap();
        let scenario = Scenario::load(&file).unwrap_or_else(|e| panic!("{signal}: {e}"));
        assert_eq!(scenario.length, Duration::from_secs(3600));
        let out =
            exporter().arg("replay").arg(&file).args(["--at", "1s", "--metrics"]).output().unwrap();
        assert!(String::from_utf8_lossy(&out.stdout).contains("gb10_pool_size_bytes "));
    }
}
