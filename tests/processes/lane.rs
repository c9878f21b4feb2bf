//! Constructed processes through the real binary: one that blocks, those that may not be looked at, and jobs
//! that are started again and again.

use crate::live::stdout;
use crate::staged::{One, Stage, trap};
use crate::support::{Machine, exporter, value};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// The processes of a stage on a whole machine.
fn machine(stage: &Stage) -> Machine {
    let machine = Machine::new("gb10-580.126.09-idle");
    for entry in fs::read_dir(stage.path("proc")).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            fs::rename(entry.path(), machine.path("proc").join(entry.file_name())).unwrap();
        }
    }
    machine
}

fn state(metrics: &str, source: &str, state: &str) -> bool {
    let series = format!("gb10_source_state{{source=\"{source}\",state=\"{state}\"}}");
    value(metrics, &series) == Some(1.0)
}

/// A process whose memory is locked for ever keeps whoever reads its command line.
#[test]
fn a_process_that_blocks_stops_its_own_lane_only() {
    let stage = Stage::new();
    stage.put(500, &One::vllm());
    stage.put(501, &One { comm: b"ollama", line: &[b"ollama", b"serve"], ..One::default() });
    let machine = machine(&stage);
    let exporter = machine.start();
    let series = "gb10_workload_processes{workload=\"vllm\",unit=\"jobs\"}";
    exporter.wait_for_metrics("healthy", |m| value(m, series) == Some(1.0));
    // Another process with that pid, so that its command line is read.
    trap(&machine.path("proc/500/cmdline"));
    let other = One { started: 500_000, ..One::vllm() };
    stage.put_stat(500, &other);
    fs::copy(stage.file(500, "stat"), machine.path("proc/500/stat")).unwrap();
    let hung = exporter.wait_for_metrics("hung", |m| state(m, "processes", "hung"));
    assert!(!hung.contains("gb10_workload_resident_bytes{"), "nothing is frozen");
    let missing = "gb10_reading_missing{reading=\"processes.count\",reason=\"hung\"}";
    assert_eq!(value(&hung, missing), Some(1.0));
    let of = |metrics: &str, lane: &str| {
        value(metrics, &format!("gb10_lane_ticks_total{{lane=\"{lane}\"}}")).unwrap()
    };
    let later = exporter.wait_for_metrics("all others go on", |m| {
        ["fast", "sensors", "gpu", "slow"].iter().all(|lane| of(m, lane) >= of(&hung, lane) + 1.0)
            && of(m, "fast") >= of(&hung, "fast") + 5.0
    });
    assert!(of(&later, "processes") <= of(&hung, "processes"), "it stands still");
    assert_eq!(value(&later, "gb10_lane_missed_ticks_total{lane=\"fast\"}"), Some(0.0));
    assert!(state(&later, "meminfo", "ok") && state(&later, "uptime", "ok"));
    machine.release("proc/500/cmdline", "vllm\0serve\0");
    let back = exporter.wait_for_metrics("back", |m| state(m, "processes", "ok"));
    assert_eq!(value(&back, series), Some(1.0));
}

/// A machine without a single process, such as a capture that was unpacked.
#[test]
fn a_machine_without_processes_says_so() {
    let stage = Stage::new();
    fs::remove_dir_all(stage.path("proc/1")).unwrap();
    let exporter = machine(&stage).start();
    let metrics = exporter.get("/metrics");
    assert!(state(&metrics, "processes", "not_present"), "{metrics}");
}

/// As somebody who may not look at others' processes (hidepid).
#[test]
fn processes_that_may_not_be_looked_at_are_counted() {
    let stage = Stage::new();
    stage.put(500, &One::vllm());
    for pid in 600..603 {
        stage.put(pid, &One::vllm());
        let denied = fs::Permissions::from_mode(0o000);
        fs::set_permissions(stage.file(pid, "stat"), denied).unwrap();
    }
    let machine = machine(&stage);
    for entry in [machine.0.path(), &machine.path("proc")] {
        fs::set_permissions(entry, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let binary = machine.path("gb10-exporter");
    // Root may look at everything: then it is done as somebody else.
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let copied = Command::new("cp").arg(exporter().get_program()).arg(&binary).status();
    assert!(copied.unwrap().success());
    let mut command = if root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    command.args(["status", "--json", "--path.nvml=/nowhere", "--path.nvidia-smi=/nowhere"]);
    for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
        command.arg(format!("--path.{flag}={}", machine.path(sub).display()));
    }
    let told: Value = serde_json::from_str(&stdout(command)).unwrap();
    let of = |name: &str| told["readings"][format!("processes.{name}")]["value"].as_u64();
    assert_eq!((of("denied"), of("count")), (Some(3), Some(5)), "{:#}", told["holders"]);
    let jobs = told["holders"]["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["pid"], 500);
}

fn replay(file: &Path, at: &str) -> String {
    let mut command = exporter();
    command.arg("replay").arg(file).args(["--at", at, "--metrics"]);
    stdout(command)
}

/// A hundred starts of one service are one workload.
#[test]
fn a_hundred_restarts_add_no_series() {
    use std::fmt::Write;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("restarts.txt");
    let mut text = format!(
        "# gb10-exporter scenario 1\n# kind: invented\n# title: a service that is started again and again\n\
         # source: a test\n# base: {}\n# length: 35m\n\n==> timeline\n",
        crate::support::root().join("tests/captures/gb10-580.173.02-serving.txt").display()
    );
    for n in 0..100 {
        let at = n * 20;
        // Time since boot when the recorded machine was read, and the time that has passed.
        let started = 431_288 + at;
        if n > 0 {
            let _ = writeln!(text, "{at}s processes.is[p{}] missing not_present", n - 1);
        }
        let is = format!("vllm pid={} unit=jobs cap=whole:0.5 started={started}", 1000 + n);
        let _ = writeln!(text, "{at}s processes.is[p{n}] = {is}");
    }
    fs::write(&file, text).unwrap();
    let series = |metrics: &str| metrics.lines().filter(|line| !line.starts_with('#')).count();
    let (few, many) = (replay(&file, "30s"), replay(&file, "34m"));
    let processes = "gb10_workload_processes{workload=\"vllm\",unit=\"jobs\"}";
    assert_eq!((value(&few, processes), value(&many, processes)), (Some(1.0), Some(1.0)));
    let starts = "gb10_workload_starts_total{workload=\"vllm\",unit=\"jobs\"}";
    assert_eq!((value(&few, starts), value(&many, starts)), (Some(1.0), Some(99.0)));
    let more = series(&many) - series(&few);
    assert!(more <= 12, "{more} series more");
}
