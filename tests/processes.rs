//! Processes, real and constructed: what they are, what they hold, what ends with them, and that nothing
//! of what they were started with gets out.
#![expect(clippy::disallowed_methods, reason = "tests start programs and set the scene")]

#[path = "processes/lane.rs"]
mod lane;
#[path = "processes/live.rs"]
mod live;
#[path = "processes/reader.rs"]
mod reader;
#[path = "processes/secrets.rs"]
mod secrets;
#[path = "processes/staged.rs"]
mod staged;
mod support;

use live::{Actor, CAPTURE, Cast, charge, command, job, serve, stdout, unit_here};
use serde_json::{Value, json};
use std::cell::Cell;
use std::process::Command;
use support::fakes::Gpu;
use support::{exporter, value};

const GIB: u64 = 1 << 30;

fn status(gpu: &Gpu) -> Value {
    let mut command = command(gpu, "status");
    command.arg("--json");
    serde_json::from_str(&stdout(command)).unwrap()
}

/// Servers, a trainer and compilers as they are started in earnest.
struct Everything {
    api: Actor,
    free: Actor,
    ollama: Actor,
    torchrun: Actor,
    ninja: Actor,
    other: Actor,
    /// Each of which is part of another's job.
    below: Vec<Actor>,
}

impl Everything {
    fn start(cast: &mut Cast, gpu: &Gpu) -> Self {
        let module = "vllm.entrypoints.openai.api_server";
        let line = ["/usr/bin/python3", "-m", module, "--gpu-memory-utilization", "0.5"];
        let mut api = cast.start("python3", &line);
        let core = cast.start_below(&mut api, "python3", &["VLLM::EngineCore"]);
        cast.title(&core, "VLLM::EngineCore");
        let line = ["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "m"];
        let free = cast.start("python3", &line);
        let mut ollama = cast.start("ollama", &["/usr/local/bin/ollama", "serve"]);
        let line = ["/usr/local/bin/ollama", "runner", "--model", "/m", "--port", "41000"];
        let runner = cast.start_below(&mut ollama, "ollama", &line);
        let line = ["python3", "/usr/local/bin/torchrun", "-m", "axolotl.cli.train", "c.yml"];
        let mut torchrun = cast.start("python3", &line);
        let line = ["/usr/bin/python3", "-u", "-m", "axolotl.cli.train", "c.yml"];
        let trainer = cast.start_below(&mut torchrun, "python3", &line);
        let mut ninja = cast.start("ninja", &["ninja", "-j", "8"]);
        let mut shell = cast.start_below(&mut ninja, "sh", &["/bin/sh", "-c", "nvcc a.cu"]);
        let mut nvcc = cast.start_below(&mut shell, "nvcc", &["/usr/local/cuda/bin/nvcc", "a.cu"]);
        let cicc = cast.start_below(&mut nvcc, "cicc", &["cicc", "--c++17", "a.cpp1.ii"]);
        let other = cast.start("painter", &["painter", "--gpu-memory-utilization", "0.9"]);
        let held = [(&core, 40), (&free, 20), (&runner, 8), (&trainer, 6), (&other, 2)];
        charge(gpu, &held.map(|(actor, gib)| (actor.pid, gib * GIB)));
        let below = vec![core, runner, trainer, shell, nvcc, cicc];
        Self { api, free, ollama, torchrun, ninja, other, below }
    }
}

#[test]
fn jobs_of_a_live_machine_are_told_grouped_and_capped() {
    let gpu = Gpu::new(CAPTURE);
    let mut cast = Cast::new();
    let all = Everything::start(&mut cast, &gpu);
    let told = status(&gpu);
    let unit = unit_here();
    for (actor, class, processes, held, cap, share) in [
        (&all.api, "vllm", 2, 40, "whole", json!(0.5)),
        (&all.free, "vllm", 1, 20, "none", Value::Null),
        (&all.ollama, "ollama", 2, 8, "fixed", Value::Null),
        (&all.torchrun, "axolotl", 2, 6, "none", Value::Null),
        (&all.ninja, "compiler", 3, 0, "none", Value::Null),
        (&all.other, "other", 1, 2, "none", Value::Null),
    ] {
        let job = job(&told, actor).unwrap_or_else(|| panic!("{class}: {:#}", told["holders"]));
        let got = [&job["workload"], &job["processes"], &job["gpu_memory"], &job["in_pool"]];
        let want = [json!(class), json!(processes), json!(held * GIB), json!(held * GIB)];
        assert_eq!(got, want.each_ref(), "{job:#}");
        assert_eq!((&job["cap"]["kind"], &job["cap"]["share"]), (&json!(cap), &share), "{job:#}");
        assert_eq!(job["unit"], unit.as_str());
        assert!(job["resident"].as_u64().unwrap() > 0);
    }
    assert!(all.below.iter().all(|below| job(&told, below).is_none()), "parts of other jobs");
    let size = told["readings"]["meminfo.MemTotal"]["value"].as_u64().unwrap();
    let cap = job(&told, &all.api).unwrap()["cap"]["bytes"].as_u64().unwrap();
    assert!(cap.abs_diff(size / 2) <= 1, "{cap} of {size}");
}

/// The same in the terminal, job by job, and in the metrics, where a class and a unit are one.
#[test]
fn jobs_are_shown_to_people_and_to_prometheus() {
    let gpu = Gpu::new(CAPTURE);
    let mut cast = Cast::new();
    let all = Everything::start(&mut cast, &gpu);
    let unit = unit_here();
    let seen = stdout(command(&gpu, "status"));
    for (actor, class, says) in [
        (&all.api, "vllm", &["40.00 GiB", "0.5 = "][..]),
        (&all.free, "vllm", &["20.00 GiB", "none"]),
        (&all.ollama, "ollama", &["8.00 GiB", "what it has loaded"]),
        (&all.torchrun, "axolotl", &["6.00 GiB"]),
    ] {
        let name = format!("{class} ({unit}, pid {})", actor.pid);
        let line = seen
            .lines()
            .find(|l| l.contains(&name) && !l.contains(" holds ") && !l.contains("To do:"))
            .unwrap_or_else(|| panic!("{seen}"));
        assert!(says.iter().all(|says| line.contains(says)), "{line}");
    }
    let exporter = serve(&gpu, &[]);
    let of = |class: &str, figure: &str, more: &str| {
        format!("gb10_workload_{figure}{{workload=\"{class}\",unit=\"{unit}\"{more}}}")
    };
    let vllm = of("vllm", "processes", "");
    let metrics = exporter.wait_for_metrics("there", |m| value(m, &vllm) == Some(3.0));
    for (class, figure, more, want) in [
        ("vllm", "gpu_memory_bytes", "", 60.0 * 1_073_741_824.0),
        ("vllm", "cap_kind", ",kind=\"whole\"", 1.0),
        ("vllm", "cap_kind", ",kind=\"none\"", 1.0),
        ("vllm", "cap_kind", ",kind=\"unknown\"", 0.0),
        ("ollama", "processes", "", 2.0),
        ("ollama", "cap_kind", ",kind=\"fixed\"", 1.0),
        ("axolotl", "processes", "", 2.0),
        ("axolotl", "gpu_memory_bytes", "", 6.0 * 1_073_741_824.0),
    ] {
        let series = of(class, figure, more);
        assert_eq!(value(&metrics, &series), Some(want), "{series}");
    }
    // One of two without a bound: together they have none.
    assert_eq!(value(&metrics, &of("vllm", "cap_bytes", "")), None);
}

/// What ends is gone from every output, and its counters stay.
#[test]
fn jobs_that_end_are_dropped() {
    let gpu = Gpu::new(CAPTURE);
    let unit = unit_here();
    let mut cast = Cast::new();
    let mut server = cast.start("sglang", &["sglang", "serve", "--mem-fraction-static=0.8"]);
    let worker = cast.start_below(&mut server, "python3", &["sglang::scheduler"]);
    cast.title(&worker, "sglang::schedul");
    charge(&gpu, &[(worker.pid, 3 * GIB)]);
    let exporter = serve(&gpu, &[]);
    let of =
        |figure: &str| format!("gb10_workload_{figure}{{workload=\"sglang\",unit=\"{unit}\"}}");
    let gpu_bytes = of("gpu_memory_bytes");
    #[expect(clippy::cast_precision_loss, reason = "a few GiB")]
    let held = (3 * GIB) as f64;
    let there = exporter.wait_for_metrics("there", |m| value(m, &gpu_bytes) == Some(held));
    assert_eq!(value(&there, &of("processes")), Some(2.0));

    // The worker alone is killed, with its parent still there.
    cast.kill(&worker);
    charge(&gpu, &[]);
    let half = exporter.wait_for_metrics("killed", |m| value(m, &of("processes")) == Some(1.0));
    assert_eq!(value(&half, &gpu_bytes), Some(0.0));
    cast.end(&server);
    let gone = exporter.wait_for_metrics("gone", |m| value(m, &of("processes")) == Some(0.0));
    assert_eq!(value(&gone, &of("resident_bytes")), Some(0.0));
    assert_eq!(value(&gone, &of("starts_total")), Some(0.0), "it was there before the exporter");
    let told: Value = serde_json::from_str(&exporter.get("/api/v1/status")).unwrap();
    assert_eq!(job(&told, &server), None);
    // Another one in its place is a start of the same workload.
    let again = cast.start("sglang", &["sglang", "serve", "--mem-fraction-static=0.7"]);
    let back = exporter.wait_for_metrics("back", |m| value(m, &of("starts_total")) == Some(1.0));
    assert_eq!(value(&back, &of("processes")), Some(1.0));
    let told: Value = serde_json::from_str(&exporter.get("/api/v1/status")).unwrap();
    assert_eq!(job(&told, &again).unwrap()["cap"]["share"], json!(0.7));
}

/// Processes that come and go by the thousand are no error, and hide nothing.
#[test]
fn two_thousand_forks_disturb_nothing() {
    let gpu = Gpu::new(CAPTURE);
    let unit = unit_here();
    let mut cast = Cast::new();
    let server = cast.start("ollama", &["ollama", "serve"]);
    charge(&gpu, &[(server.pid, 5 * GIB)]);
    let exporter = serve(&gpu, &[]);
    let series = format!("gb10_workload_processes{{workload=\"ollama\",unit=\"{unit}\"}}");
    let ticks = "gb10_lane_ticks_total{lane=\"processes\"}";
    let before = exporter.wait_for_metrics("there", |m| value(m, &series) == Some(1.0));
    let rounds = value(&before, ticks).unwrap();
    let script = "i=0; while [ $i -lt 2000 ]; do (:) & i=$((i+1)); done; wait";
    let times = Cell::new(0);
    let after = exporter.wait_for_metrics("two rounds amid forks", |m| {
        if times.get() < 8 {
            assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
            times.set(times.get() + 1);
        }
        value(m, ticks).unwrap() >= rounds + 2.0
    });
    assert_eq!(value(&after, &series), Some(1.0));
    let state = "gb10_source_state{source=\"processes\",state=\"ok\"}";
    assert_eq!(value(&after, state), Some(1.0));
    let errors = "gb10_source_errors_total{source=\"processes\"}";
    assert_eq!(value(&after, errors), Some(0.0));
    let log = exporter.log.lock().unwrap().clone();
    assert!(!log.contains("subject=processes"), "{log}");
}

/// A recorded machine tells the same workloads, with units that name nobody.
#[test]
fn recorded_jobs_are_those_of_the_machine() {
    let gpu = Gpu::new(CAPTURE);
    let mut cast = Cast::new();
    let arguments =
        ["python3", "-m", "vllm.entrypoints.openai.api_server", "--gpu-memory-utilization=0.5"];
    let server = cast.start("python3", &arguments);
    charge(&gpu, &[(server.pid, 7 * GIB)]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.txt");
    let mapping = format!("--workload.unit={}=alicew-serving", unit_here());
    let mut record = command(&gpu, "record");
    record.env("USER", "alicew").arg(&mapping).arg(&file);
    stdout(record);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("alicew"), "{text}");
    let is = format!("is[{0}] = vllm pid={0} ", server.pid);
    let is = text.lines().find(|line| line.starts_with(&is)).unwrap();
    assert!(is.contains("cap=whole:0.5") && is.contains("-serving"), "{is}");

    let mut live = command(&gpu, "status");
    live.env("USER", "alicew").arg(&mapping).arg("--json");
    let live: Value = serde_json::from_str(&stdout(live)).unwrap();
    let mut replay = exporter();
    replay.arg("status").arg("--capture").arg(&file).arg("--json");
    let replayed: Value = serde_json::from_str(&stdout(replay)).unwrap();
    let (live, replayed) = (job(&live, &server).unwrap(), job(&replayed, &server).unwrap());
    for figure in ["workload", "pid", "started", "processes", "gpu_memory", "in_pool", "cap"] {
        assert_eq!(live[figure], replayed[figure], "{figure}");
    }
    assert_eq!(replayed["unit"], live["unit"].as_str().unwrap().replace("alicew", "user"));
}

/// `record --duration` notes what begins and what ends.
#[test]
fn a_recording_has_jobs_that_begin_and_end() {
    let gpu = Gpu::new(CAPTURE);
    let mut cast = Cast::new();
    let first = cast.start("sglang", &["sglang", "serve", "--mem-fraction-static=0.8"]);
    charge(&gpu, &[(first.pid, GIB)]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.txt");
    let mut record = command(&gpu, "record");
    record.args(["--duration", "16s", "--interval", "1s"]).arg(&file);
    let mut record = record.stderr(std::process::Stdio::null()).spawn().unwrap();
    let written = |what: &str, check: &dyn Fn(&str) -> bool| {
        let began = std::time::Instant::now();
        while !std::fs::read_to_string(&file).is_ok_and(|text| check(&text)) {
            assert!(began.elapsed().as_secs() < 20, "never: {what}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let is = |pid: u32| format!("is[{pid}]");
    written("the first", &|text| text.contains(&is(first.pid)) && text.contains("==> timeline"));
    cast.end(&first);
    let second = cast.start("ollama", &["ollama", "serve"]);
    charge(&gpu, &[(second.pid, 2 * GIB)]);
    written("the second", &|text| text.contains(&is(second.pid)));
    assert!(record.wait().unwrap().success());
    let at = |time: &str| -> Value {
        let mut replay = exporter();
        replay.arg("replay").arg(&file).args(["--at", time, "--json"]);
        serde_json::from_str(&stdout(replay)).unwrap()
    };
    let (begin, end) = (at("0s"), at("16s"));
    assert_eq!(job(&begin, &first).unwrap()["workload"], "sglang");
    assert_eq!((job(&begin, &second), job(&end, &first)), (None, None));
    let last = job(&end, &second).unwrap();
    assert_eq!((&last["workload"], &last["gpu_memory"]), (&json!("ollama"), &json!(2 * GIB)));
}
