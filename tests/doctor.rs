//! `doctor` through the real binary: on captures, on machines of files with a stand-in for the driver's
//! library, and with a stand-in for CUDA's.
#![expect(clippy::disallowed_methods, reason = "tests start programs, write files and wait")]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use support::fakes::{self, Gpu};
use support::{Machine, captures, exporter, root};

/// What a run came to.
struct Report {
    code: i32,
    /// Verdict and figures by check.
    rows: BTreeMap<String, (String, String)>,
}

impl Report {
    fn of(output: &Output) -> Self {
        let code = output.status.code().expect("an exit code");
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
        let rows = document["checks"].as_array().expect("checks").iter().map(|row| {
            let text = |key: &str| row[key].as_str().expect("text").to_owned();
            assert_eq!(row["advice"].is_string(), text("verdict") == "differs", "{row}");
            assert!(!text("expected").is_empty() && !text("because").is_empty());
            (text("check"), (text("verdict"), text("found")))
        });
        let report = Self { code, rows: rows.collect() };
        assert_eq!(report.rows.len(), 16);
        assert_eq!(report.code, i32::from(!report.with("differs").is_empty()));
        report
    }

    fn with(&self, verdict: &str) -> Vec<&str> {
        let is = |row: &(&String, &(String, String))| row.1.0 == verdict;
        self.rows.iter().filter(is).map(|(check, _)| check.as_str()).collect()
    }

    /// A check's verdict is this one, and its figures contain these words.
    fn assert(&self, check: &str, verdict: &str, says: &str) {
        let (is, found) = &self.rows[check];
        assert!(is == verdict && found.contains(says), "{check} is {is}: {found}");
    }
}

fn recorded(path: &Path) -> Report {
    let mut command = exporter();
    command.args(["doctor", "--json", "--capture"]).arg(path);
    Report::of(&command.output().expect("runs"))
}

/// Captures that contain what contradicts expectations.
const CONTRADICTIONS: [(&str, &str); 3] = [
    ("gb10-managed-memory", "partition"),
    ("gb10-memory-about-memtotal", "memory-answer"),
    ("gb10-memory-zeros", "memory-answer"),
];

/// On every capture: a published machine is what it is taken for, another machine is not judged.
#[test]
fn published_machines_are_as_expected() {
    let threads: Vec<_> = captures()
        .into_iter()
        .map(|(name, path)| (name, thread::spawn(move || recorded(&path))))
        .collect();
    for (name, thread) in threads {
        let report = thread.join().expect("a report");
        let expected: Vec<&str> =
            CONTRADICTIONS.iter().filter(|(n, _)| *n == name).map(|(_, check)| *check).collect();
        assert_eq!(report.with("differs"), expected, "{name}");
        let passed = report.with("pass").len();
        let is_gb10 = ["gb10", "spark", "asus", "dell", "container"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if is_gb10 {
            assert!(passed >= 2, "{name}: {passed}");
        } else {
            assert_eq!(passed, 0, "{name}");
            report.assert("clocks", "unknown", "not a GB10");
        }
        for waits in ["power-energy", "cost", "event-counters", "cuda"] {
            assert_eq!(report.rows[waits].0, "unknown", "{name}: {waits}");
        }
    }
}

/// A check, a capture, and the answers of the GPU with which it differs there.
type Changed = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Each check that a recorded machine allows, on a capture in which it differs.
#[test]
fn each_check_can_differ() {
    const SERVER: &str = "spark-fe-llm-server";
    const IDLE: &str = "gb10-580.126.09-idle";
    let answers: &[Changed] = &[
        ("identity", SERVER, &[("0.pci_device_id", "0x2E1310DE")]),
        ("identity", SERVER, &[("0.pci_device_id", "0x2E1310DE"), ("0.name", "NVIDIA GB20")]),
        ("identity", SERVER, &[("0.addressing_mode", "HMM")]),
        ("memory-answer", SERVER, &[("0.memory", "8522825728,8314159104,208666624")]),
        ("partition", SERVER, &[("0.processes.compute", "6330:10000000000")]),
        ("partition", SERVER, &[("0.processes.compute", "6330:115119744000")]),
        ("event-counters", SERVER, &[("0.event_ns.sw_power_cap", "10800240649000000")]),
        ("temperature-margin", SERVER, &[("0.margin", "80")]),
        ("clocks", SERVER, &[("0.clock.sm", "3100")]),
        ("clocks", SERVER, &[("0.clock.sm", "2")]),
        ("performance-state", SERVER, &[("0.pstate", "8")]),
        ("performance-state", IDLE, &[("0.pstate", "0")]),
        ("performance-state", IDLE, &[("0.pstate", "5")]),
        ("utilization", SERVER, &[("0.utilization", "101")]),
        ("utilization", SERVER, &[("0.utilization", "0")]),
    ];
    for (check, capture, values) in answers {
        let gpu = Gpu::new(capture);
        gpu.set(values);
        assert_eq!(recorded(gpu.path()).with("differs"), [*check], "{values:?}");
    }
    let pools = "ExcludedGpus: \"\"\n";
    let files: &[(&str, &str, &str, &str)] = &[
        ("thermal-zones", SERVER, "\n104800\n", "\n95000\n"),
        ("thermal-zones", SERVER, "TGPU", "TGP2"),
        ("thermal-zones", SERVER, "/thermal_zone6/", "/thermal_zone7x/"),
        ("memory-size", IDLE, "MemTotal:       125443120", "MemTotal:       129443120"),
        ("page-pools", SERVER, pools, "EnableSystemMemoryPools: 529\n"),
        ("page-pools", "gb10-590-page-pools", "EnableSystemMemoryPools: 529\n", ""),
        ("fan-power", "asus-gx10-oem", "\n5000000\n", "\n5000\n"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (check, capture, from, to) in files {
        let text =
            fs::read_to_string(root().join(format!("tests/captures/{capture}.txt"))).unwrap();
        assert!(text.contains(from), "{capture}: {from:?}");
        let path = dir.path().join("changed.txt");
        fs::write(&path, text.replace(from, to)).unwrap();
        let differs = recorded(&path).with("differs").join(" ");
        assert!(differs.contains(check), "{check}: {from:?} to {to:?}: {differs:?}");
    }
}

/// A machine of files, with stand-ins for its libraries.
struct Live {
    machine: Machine,
    gpu: Gpu,
}

impl Live {
    fn new(capture: &str) -> Self {
        Self { machine: Machine::new(capture), gpu: Gpu::new(capture) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.without_library(args);
        command.arg("--path.nvml").arg(fakes::nvml());
        command
    }

    fn without_library(&self, args: &[&str]) -> Command {
        let mut command = exporter();
        command.args(["doctor", "--json"]).args(args).envs(self.gpu.environment());
        for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
            command.arg(format!("--path.{flag}={}", self.machine.path(sub).display()));
        }
        command
    }

    /// Runs it while energy and a counter move: by so many mW, and so many ns a second.
    fn run(&self, args: &[&str], milliwatts: u128, nanoseconds: u128) -> Report {
        let mut command = self.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let began = Instant::now();
        let waiting = thread::spawn(move || child.wait_with_output().expect("ends"));
        while !waiting.is_finished() {
            let millis = began.elapsed().as_millis();
            let energy = (1_000_000 + millis * milliwatts / 1000).to_string();
            let counter = (5_000_000_000 + millis * nanoseconds / 1000).to_string();
            self.gpu.set(&[("0.energy_mj", &energy), ("0.event_ns.sw_power_cap", &counter)]);
            thread::sleep(Duration::from_millis(50));
        }
        Report::of(&waiting.join().expect("a report"))
    }
}

/// The power of the capture below, in mW.
const POWER: u128 = 48_660;
const SECOND: u128 = 1_000_000_000;

#[test]
fn units_that_fit_pass() {
    let live = Live::new("spark-fe-llm-server");
    let report = live.run(&["--seconds", "6"], POWER, SECOND);
    report.assert("power-energy", "pass", "48.66 W by ");
    report.assert("event-counters", "pass", "sw_power_cap grew by ");
    report.assert("cost", &report.rows["cost"].0, "sensors");
    report.assert("cuda", "unknown", "only with --cuda");
    let differs = report.with("differs");
    // A machine that runs many tests at once is slow.
    assert!(differs.iter().all(|check| *check == "cost"), "{differs:?}");
}

#[test]
fn units_that_are_off_by_a_thousand_differ() {
    let live = Live::new("spark-fe-llm-server");
    live.gpu.set(&[("0.temperature", "~100 64")]);
    let report = live.run(&["--seconds", "6"], POWER / 1000, SECOND * 1000);
    report.assert("power-energy", "differs", "0.0");
    report.assert("event-counters", "differs", "");
    report.assert("cost", "differs", "gpu 1");
}

#[test]
fn a_counter_that_lags_behind_the_reason_it_counts_differs() {
    let live = Live::new("spark-fe-llm-server");
    live.gpu.set(&[("0.event_reasons", "0x4")]);
    let report = live.run(&["--seconds", "5"], POWER, SECOND / 1000);
    report.assert("event-counters", "differs", "the reason held all the time");
}

#[test]
fn what_stands_still_or_is_seen_too_briefly_is_unknown() {
    let live = Live::new("spark-fe-llm-server");
    let run =
        |seconds: &str| Report::of(&live.command(&["--seconds", seconds]).output().expect("runs"));
    let report = run("5");
    report.assert("power-energy", "unknown", "the counter did not grow");
    report.assert("event-counters", "unknown", "try it under full load");
    let brief = run("1");
    brief.assert("power-energy", "unknown", "too short");
    brief.assert("event-counters", "unknown", "too short");
}

/// Through nvidia-smi there is neither energy nor a promise about time.
#[test]
fn nvidia_smi_is_enough_for_the_rest() {
    let live = Live::new("gb10-580.126.09-idle");
    let mut command = live.without_library(&["--seconds", "2"]);
    command.arg("--path.nvidia-smi").arg(fakes::nvidia_smi());
    let report = Report::of(&command.output().expect("runs"));
    report.assert("identity", "pass", "NVIDIA GB10");
    report.assert("memory-answer", "pass", "unsupported");
    report.assert("power-energy", "unknown", "");
}

/// A box with room on which nobody uses the GPU.
const FREE_BOX: &str = "gb10-590-page-pools";
const FREE: u64 = 24_974_172 * 1024;
const TOTAL: u64 = 123_218_076 * 1024;

fn library() -> std::path::PathBuf {
    fakes::nvml().with_file_name("libfake_cuda.so")
}

/// `doctor --cuda` with the stand-in; also the processes in which it was called.
fn cuda(live: &Live, environment: &[(&str, &str)]) -> (Report, Vec<u32>, u32) {
    let trace = live.machine.path("cuda-trace");
    let mut command = live.command(&["--seconds", "1", "--cuda"]);
    command.arg("--cuda-library").arg(library()).env("FAKE_CUDA_TRACE", &trace);
    command.env("FAKE_CUDA_MEMORY", format!("{FREE} {TOTAL}")).envs(environment.iter().copied());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let parent = child.id();
    let report = Report::of(&child.wait_with_output().expect("ends"));
    let lines = fs::read_to_string(trace).unwrap_or_default();
    let pid = |line: &str| line.split(' ').next().unwrap().parse().expect("a pid");
    (report, lines.lines().map(pid).collect(), parent)
}

#[test]
fn cuda_is_asked_in_a_process_of_its_own() {
    let live = Live::new(FREE_BOX);
    let (report, pids, parent) = cuda(&live, &[]);
    report.assert("cuda", "pass", "24974172 kB");
    assert_eq!(pids.len(), 6, "six calls, the release among them");
    assert!(pids.iter().all(|pid| *pid == pids[0] && *pid != parent), "{pids:?}, not {parent}");
    for (memory, verdict) in [
        (format!("{} {TOTAL}", FREE + (63 << 20)), "pass"),
        (format!("{} {TOTAL}", FREE + (65 << 20)), "differs"),
        (format!("{} {TOTAL}", FREE - (65 << 20)), "differs"),
        (format!("{FREE} {}", TOTAL - 4096), "differs"),
    ] {
        let (report, ..) = cuda(&Live::new(FREE_BOX), &[("FAKE_CUDA_MEMORY", &memory)]);
        report.assert("cuda", verdict, "MemTotal 123218076 kB");
    }
}

#[test]
fn a_cuda_that_fails_is_told_and_given_back() {
    for (call, calls) in [("cuInit", 1), ("cuDevicePrimaryCtxRetain", 3), ("cuMemGetInfo_v2", 6)] {
        let (report, pids, _) = cuda(&Live::new(FREE_BOX), &[("FAKE_CUDA_FAIL", call)]);
        report.assert("cuda", "unknown", &format!("{call}: CUDA error 2"));
        assert_eq!(pids.len(), calls, "{call}: what was retained is released, and nothing else");
    }
    for (library, says) in [
        (Path::new("/nowhere/libcuda.so.1"), "/nowhere/libcuda.so.1"),
        (&fakes::nvml(), "cuInit: not in this library"),
    ] {
        let live = Live::new(FREE_BOX);
        let mut command = live.command(&["--seconds", "1", "--cuda"]);
        command.arg("--cuda-library").arg(library);
        Report::of(&command.output().expect("runs")).assert("cuda", "unknown", says);
    }
}

#[test]
fn a_cuda_that_hangs_is_killed() {
    let began = Instant::now();
    let (report, pids, _) = cuda(&Live::new(FREE_BOX), &[("FAKE_CUDA_HANG", "cuMemGetInfo_v2")]);
    report.assert("cuda", "unknown", "no answer within 20 s; the child was killed");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert!(!runs(pids[0]));
}

/// Whether a process runs; a dead one that nobody has reaped does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn a_cuda_that_hangs_ends_with_the_one_who_asked() {
    let live = Live::new(FREE_BOX);
    let trace = live.machine.path("cuda-trace");
    let mut command = live.command(&["--seconds", "1", "--cuda"]);
    command.arg("--cuda-library").arg(library()).env("FAKE_CUDA_TRACE", &trace);
    command.env("FAKE_CUDA_HANG", "cuInit").stdout(Stdio::null()).stderr(Stdio::null());
    let mut doctor = command.spawn().expect("starts");
    let began = Instant::now();
    let wait = |what: &str| {
        assert!(began.elapsed() < Duration::from_secs(15), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    };
    let child: u32 = loop {
        let text = fs::read_to_string(&trace).unwrap_or_default();
        match text.split_once(' ') {
            Some((pid, _)) => break pid.parse().expect("a pid"),
            None => wait("a child"),
        }
    };
    assert!(runs(child));
    doctor.kill().expect("killed");
    doctor.wait().expect("ends");
    while runs(child) {
        wait("its end");
    }
}

/// Where CUDA could do harm nothing of it is called.
#[test]
fn cuda_is_refused_without_room_and_beside_others() {
    let refused = |live: &Live, says: &str| {
        let (report, pids, _) = cuda(live, &[]);
        report.assert("cuda", "unknown", says);
        assert_eq!(pids, [0; 0], "{says}");
    };
    let short = Live::new(FREE_BOX);
    let meminfo = fs::read_to_string(short.machine.path("proc/meminfo")).unwrap();
    let (before, rest) = meminfo.split_once("MemAvailable:").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    let changed = format!("{before}MemAvailable: 16777215 kB\n{rest}");
    fs::write(short.machine.path("proc/meminfo"), changed).unwrap();
    refused(&short, "refused: 16.00 GiB available, less than 16.00 GiB");
    let beside = Live::new(FREE_BOX);
    beside.gpu.set(&[("0.processes.graphics", "3196:45088768")]);
    refused(&beside, "refused: GPU processes listed: 1");
    let hidden = Live::new(FREE_BOX);
    hidden.gpu.set(&[("0.pstate", "0")]);
    refused(&hidden, "refused: the GPU may be in use by somebody who is not listed");
    let denied = Live::new(FREE_BOX);
    denied.gpu.set(&[("0.processes.compute", "!4")]);
    refused(&denied, "denied");
    refused(&Live::new("x86-rtx-4080-super"), "not a GB10");
    let path = root().join(format!("tests/captures/{FREE_BOX}.txt"));
    let out = exporter().args(["doctor", "--json", "--cuda", "--capture"]).arg(path).output();
    let report = Report::of(&out.expect("runs"));
    report.assert("cuda", "unknown", "refused: a recorded machine has no CUDA");
}

#[test]
fn a_person_is_told_what_to_do() {
    let run = |args: &[&str]| {
        let out = exporter().arg("doctor").args(args).output().expect("runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (out.status.code().expect("a code"), text(out.stdout), text(out.stderr))
    };
    let capture =
        |name: &str| root().join(format!("tests/captures/{name}.txt")).display().to_string();
    let (code, out, _) = run(&["--capture", &capture("gb10-memory-zeros")]);
    assert_eq!(code, 1);
    for says in [
        "differs  memory-answer       zero: total 0 KiB, free 0 KiB, used 0 KiB\n",
        "please report it, and attach gb10-report.txt",
        "9 pass, 1 differs, 6 unknown of 16 checks\n",
        "To make the file for a report: gb10-exporter record gb10-report.txt\n",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    let (code, out, _) = run(&["--capture", &capture("x86-vm")]);
    assert!(code == 0 && out.contains("0 differs"), "{code}: {out}");
    assert_eq!(run(&["--seconds", "0"]).0, 64);
    let (code, _, err) = run(&["--capture", "/nowhere.txt"]);
    assert!(code == 2 && err.contains("/nowhere.txt"), "{code}: {err}");
    let (_, help, _) = run(&["--help"]);
    assert!(help.contains("--cuda") && !help.contains("cuda-probe"), "{help}");
}
