//! The real NVML code in the real binary, against a stand-in for the driver's library.
#![expect(clippy::disallowed_methods, reason = "tests set the scene and wait")]

mod support;

use gb10_exporter::export::prometheus;
use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::fakes::{self, Gpu};
use support::rig::{Rig, of_lane, state};
use support::{Exporter, Machine, captures, exporter, frame, root, value, without_processes};

/// Short periods, so that hundreds of rounds fit into a test.
const QUICK: &str =
    "thresholds: {gpu: {period: 50ms, deadline: 50ms, retry_first: 20ms, retry_max: 50ms}}\n";
const MISSED_FAST: &str = "gb10_lane_missed_ticks_total{lane=\"fast\"}";
const TEMPERATURE: &str = "gb10_gpu_temperature_celsius{gpu=\"0\"}";

/// A scrape without what depends on the moment, and without the library's path.
fn of_the_machine(scrape: &str) -> String {
    let moment = [
        "gb10_source_duration_seconds",
        "gb10_lane_",
        "gb10_exporter_build_info",
        "gb10_source_errors_total",
        // Rates, which need a second look.
        "gb10_pressure_state",
        "gb10_eviction_symptom",
    ];
    let named = |line: &str| {
        let name = line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE ")).unwrap_or(line);
        moment.iter().any(|prefix| name.starts_with(prefix)) || name.contains("gpu.path")
    };
    let without_path = |line: &str| match line.split_once("path=\"") {
        Some((before, after)) => {
            let rest = after.split_once('"').map_or("", |(_, rest)| rest);
            format!("{before}path=\"\"{rest}")
        }
        None => line.to_owned(),
    };
    scrape.lines().filter(|line| !named(line)).map(|line| without_path(line) + "\n").collect()
}

/// On every machine of the suite the real NVML code reads from the library what the reader of captures
/// reads from the text, reasons for what is missing included: the reviewed scrape.
#[test]
fn the_library_is_read_as_the_capture_says() {
    let queue = Arc::new(Mutex::new(captures()));
    let compared = Arc::new(Mutex::new(0));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (queue, compared) = (Arc::clone(&queue), Arc::clone(&compared));
            thread::spawn(move || {
                while let Some((name, path)) = { queue.lock().unwrap().pop() } {
                    let text = fs::read_to_string(&path).unwrap();
                    // A file that may not be read cannot be staged by a test that runs as root.
                    if !text.contains("==> gpu") || text.contains("params !denied") {
                        continue;
                    }
                    let rig = Rig::new(&name, &fakes::nvml(), "");
                    if name == "gb10-580.142-hanging" {
                        rig.wait("it hangs", |m| state(m) == "hung");
                    }
                    // Processes are no files of a capture: without them it is not what was reviewed.
                    let golden = if text.contains("==> processes") {
                        let frame = frame(&without_processes(&path));
                        String::from_utf8(prometheus::encode(&frame, None)).unwrap()
                    } else {
                        let golden = format!("tests/golden/captures/{name}.metrics");
                        fs::read_to_string(root().join(golden)).unwrap()
                    };
                    let (now, want) =
                        (of_the_machine(&rig.exporter.get("/metrics")), of_the_machine(&golden));
                    let differ = now.lines().zip(want.lines()).find(|(now, want)| now != want);
                    assert_eq!(differ, None, "{name}");
                    assert_eq!(now.lines().count(), want.lines().count(), "{name}");
                    *compared.lock().unwrap() += 1;
                }
            })
        })
        .collect();
    let failed = workers.into_iter().filter_map(|worker| worker.join().err()).count();
    assert_eq!(failed, 0);
    assert!(*compared.lock().unwrap() >= 25, "only {} machines", compared.lock().unwrap());
}

#[test]
fn an_older_library_says_less_and_that_is_said() {
    let rig = Rig::new("x86-rtx-4080-super", &fakes::nvml_old(), "");
    let metrics = rig.exporter.get("/metrics");
    assert_eq!(state(&metrics), "ok", "what a library does not know is no fault");
    for reading in ["margin", "addressing_mode", "power_average", "event_seconds", "xids"] {
        let missing =
            format!("gb10_reading_missing{{reading=\"gpu.{reading}\",reason=\"no_symbol\"}}");
        assert_eq!(value(&metrics, &missing), Some(1.0), "{reading}");
    }
    assert!(!metrics.contains("gb10_gpu_temperature_margin_celsius{"));
    assert!(!metrics.contains("gb10_gpu_xid_errors_total{"));
    // The older forms of three questions stand in.
    assert!(value(&metrics, "gb10_gpu_memory_reported_size_bytes{gpu=\"0\"}").unwrap() > 1e9);
    assert!(metrics.contains("gb10_gpu_event_reason{gpu=\"0\",reason=\"sw_power_cap\"} 1"));
    assert!(value(&metrics, "gb10_gpu_power_watts{gpu=\"0\"}").unwrap() > 100.0);
}

/// Two hundred rounds that each block for longer than they may.
#[test]
fn a_driver_that_hangs_again_and_again_stops_its_own_lane_only() {
    let rig = Rig::new("spark-fe-llm-server", &fakes::nvml(), QUICK);
    let healthy = rig.wait("healthy", |m| state(m) == "ok");
    assert_eq!(value(&healthy, TEMPERATURE), Some(64.0));
    let (threads, files) = (rig.threads(), rig.open_files());

    rig.gpu.set(&[("0.temperature", "~200 64")]);
    let hung = rig.wait("hung", |m| state(m) == "hung");
    let (rounds, fast) = (of_lane(&hung, "ticks", "gpu"), of_lane(&hung, "ticks", "fast"));
    let began = Instant::now();
    let mut last = hung;
    while of_lane(&last, "ticks", "gpu") < rounds + 200.0 {
        assert_eq!(state(&last), "hung");
        assert!(
            !last.contains("gb10_gpu_temperature_celsius{"),
            "what came too late is not served"
        );
        assert!(!last.contains("gb10_gpu_power_watts{"), "nor what came before it");
        assert_eq!(rig.threads(), threads);
        assert!(began.elapsed() < Duration::from_secs(120), "200 rounds of 0.2 s");
        thread::sleep(Duration::from_millis(500));
        last = rig.exporter.get("/metrics");
    }
    let seconds = began.elapsed().as_secs_f64();
    assert!(of_lane(&last, "ticks", "fast") - fast >= seconds - 2.0, "every second has its tick");
    assert_eq!(value(&last, MISSED_FAST), Some(0.0));
    rig.assert_one_thread_asks();
    assert_eq!(rig.inits(), 1, "a driver that is slow is not started anew");

    rig.gpu.set(&[("0.temperature", "65")]);
    let back = rig.wait("back", |m| value(m, TEMPERATURE) == Some(65.0));
    assert_eq!(state(&back), "ok");
    assert_eq!((rig.threads(), rig.open_files()), (threads, files));
    let hung = rig.logged().matches("ok -> hung").count();
    assert_eq!(hung, 1, "one line for all of it:\n{}", rig.logged());
}

/// Two hundred times a GPU falls off the bus and is back, each time with the library started anew.
#[test]
fn a_gpu_that_is_lost_again_and_again_is_found_again_and_again() {
    let rig = Rig::new("spark-fe-llm-server", &fakes::nvml(), QUICK);
    let healthy = rig.wait("healthy", |m| state(m) == "ok");
    let fast = of_lane(&healthy, "ticks", "fast");
    let (threads, files) = (rig.threads(), rig.open_files());
    let began = Instant::now();
    let next_init = || {
        let (before, began) = (rig.inits(), Instant::now());
        while rig.inits() == before {
            assert!(began.elapsed() < Duration::from_secs(20), "the library is not started anew");
            thread::sleep(Duration::from_millis(5));
        }
    };
    for round in 0..200 {
        rig.gpu.set(&[("0.device", "!15")]);
        next_init();
        if round == 100 {
            let lost = rig.wait("lost", |m| state(m) == "failed");
            assert!(
                lost.contains(
                    "gb10_reading_missing{reading=\"gpu.temperature\",reason=\"lost\"} 1"
                )
            );
            assert!(!lost.contains("gb10_gpu_temperature_celsius{"));
            assert!(lost.contains("gb10_cuda_free_bytes{"), "the box is still a GB10");
            assert!(lost.contains("gb10_pool_headroom_bytes{reader=\"available\"}"));
        }
        rig.gpu.leave_out(&["0.device"]);
        // Found in the round that was just beginning, or with the next start of the library.
        thread::sleep(Duration::from_millis(130));
    }
    let found = rig.wait("found", |m| state(m) == "ok");
    assert_eq!(value(&found, TEMPERATURE), Some(64.0));
    let seconds = began.elapsed().as_secs_f64();
    assert!(of_lane(&found, "ticks", "fast") - fast >= seconds - 2.0, "every second has its tick");
    assert_eq!(value(&found, MISSED_FAST), Some(0.0));
    assert_eq!((rig.threads(), rig.open_files()), (threads, files), "nothing is left behind");
    assert!(rig.inits() > 200);
    rig.assert_one_thread_asks();
}

#[test]
fn a_driver_that_goes_away_and_comes_back_needs_no_restart() {
    let rig = Rig::new(
        "gb10-580.173.02-serving",
        &fakes::nvml(),
        "thresholds: {gpu: {retry_max: 2s}, event: {settle: 0s}}\n",
    );
    let healthy = rig.wait("healthy", |m| state(m) == "ok");
    assert!(
        healthy.contains("gb10_pool_attribution{state=\"partial\"} 1"),
        "one row has no figure"
    );
    rig.gpu.set(&[("init", "!9")]);
    let gone = rig.wait("gone", |m| state(m) == "not_present");
    assert!(
        gone.contains("gb10_reading_missing{reading=\"gpu.temperature\",reason=\"no_driver\"} 1")
    );
    for absent in ["gb10_gpu_info{", "gb10_gpu_xid_errors_total{", "gb10_pool_unaccounted_bytes{"] {
        assert!(!gone.contains(absent), "{absent}");
    }
    // It stays so while nothing changes, and says so once.
    let ticks = of_lane(&gone, "ticks", "gpu");
    rig.wait("three more rounds", |m| of_lane(m, "ticks", "gpu") >= ticks + 3.0);
    rig.gpu.set(&[("driver", "580.178.04")]);
    rig.gpu.leave_out(&["init"]);
    let back = rig.wait("back", |m| state(m) == "ok");
    assert!(back.contains("driver=\"580.178.04\""));
    let log = rig.logged();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("subject=gpu")).collect();
    let about = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(about("ok -> not_present: "), 1, "{log}");
    assert_eq!(about("not_present -> ok"), 1, "{log}");
    assert!(
        lines.iter().any(|l| l.contains("ok -> not_present") && l.contains("level=warn")),
        "{log}"
    );
    rig.assert_one_thread_asks();
}

/// A library that is installed while the exporter runs.
#[test]
fn a_library_that_comes_later_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libnvidia-ml.so.1");
    let yaml = "thresholds: {gpu: {retry_max: 1s}}\ncollector: {gpu: nvml}\n";
    let rig = Rig::new("spark-fe-idle", &library, yaml);
    let none = rig.wait("none", |m| state(m) == "not_present");
    assert!(none.contains("gb10_reading_missing{reading=\"gpu.name\",reason=\"no_library\"} 1"));
    // Something of that name that is no library, first.
    fs::write(&library, "not a library").unwrap();
    let ticks = of_lane(&none, "ticks", "gpu");
    let none = rig.wait("still none", |m| of_lane(m, "ticks", "gpu") >= ticks + 3.0);
    assert_eq!(state(&none), "not_present");
    fs::remove_file(&library).unwrap();
    std::os::unix::fs::symlink(fakes::nvml(), &library).unwrap();
    let found = rig.wait("found", |m| state(m) == "ok");
    let path = fs::canonicalize(fakes::nvml()).unwrap();
    assert!(found.contains(&format!("path=\"{}\"", path.display())), "the file behind the link");
}

#[test]
fn a_stop_does_not_wait_for_a_driver_that_hangs() {
    let mut rig = Rig::new("spark-fe-idle", &fakes::nvml(), "");
    rig.wait("healthy", |m| state(m) == "ok");
    rig.gpu.set(&[("0.utilization", "~600000 0")]);
    rig.wait("hung", |m| state(m) == "hung");
    let began = Instant::now();
    rig.exporter.signal("TERM");
    let (code, log) = rig.exporter.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn xid_errors_are_counted_from_zero_and_told() {
    let rig = Rig::new("spark-fe-llm-server", &fakes::nvml(), "");
    let series = "gb10_gpu_xid_errors_total{gpu=\"0\",xid=\"31\"}";
    rig.wait("zero", |m| value(m, series) == Some(0.0));
    rig.gpu.set(&[("events", "1:0:31,2:0:31,3:0:62")]);
    let seen = rig.wait("two", |m| value(m, series) == Some(2.0));
    assert_eq!(value(&seen, "gb10_gpu_xid_errors_total{gpu=\"0\",xid=\"62\"}"), Some(1.0));
    assert_eq!(value(&seen, "gb10_gpu_xid_errors_total{gpu=\"0\",xid=\"13\"}"), Some(0.0));
    // The library is started anew in between: what was counted stays.
    rig.gpu.set(&[("init", "!9")]);
    rig.wait("gone", |m| state(m) == "not_present");
    rig.gpu.leave_out(&["init"]);
    let back = rig.wait("back", |m| state(m) == "ok");
    assert!(value(&back, series).unwrap() >= 2.0);
    assert!(
        rig.logged().contains("GPU 0: Xid 62, 1 since the exporter started"),
        "{}",
        rig.logged()
    );
}

/// A question that was not answered when the library started is asked again.
#[test]
fn what_a_gpu_is_is_asked_until_it_is_answered() {
    let rig = Rig::new("spark-fe-llm-server", &fakes::nvml(), QUICK);
    rig.wait("healthy", |m| state(m) == "ok");
    // One slow answer in the first round after a new start.
    rig.gpu.set(&[("init", "!9")]);
    rig.wait("gone", |m| state(m) == "not_present");
    rig.gpu.set(&[("0.uuid", "~200 GPU-1"), ("0.bus", "!999"), ("0.clock_max.sm", "!999")]);
    rig.gpu.leave_out(&["init"]);
    rig.wait("slow", |m| state(m) == "hung");
    rig.gpu.set(&[("0.uuid", "GPU-1"), ("0.bus", "0000000F:01:00.0"), ("0.clock_max.sm", "3003")]);
    let back = rig.wait("back", |m| state(m) == "ok");
    let info = back.lines().find(|line| line.starts_with("gb10_gpu_info{")).unwrap();
    for label in
        ["bus=\"0000000F:01:00.0\"", "pci_device_id=\"0x2E1210DE\"", "addressing_mode=\"ATS\""]
    {
        assert!(info.contains(label), "{info}");
    }
    assert_eq!(value(&back, "gb10_gpu_clock_max_hertz{gpu=\"0\",clock=\"sm\"}"), Some(3.003e9));
    assert!(!back.contains("reason=\"hung\""));
}

/// Field values are numbered by the driver's version. When that is not told, they are not read at all.
#[test]
fn times_are_never_those_of_another_numbering() {
    let rig = Rig::new("gb10-580.173.02-serving", &fakes::nvml(), QUICK);
    let series = "gb10_gpu_event_reason_seconds_total{gpu=\"0\",reason=\"hw_thermal\"}";
    let healthy = rig.wait("healthy", |m| state(m) == "ok");
    let before = value(&healthy, series).unwrap();
    rig.gpu.set(&[("init", "!9")]);
    rig.wait("gone", |m| state(m) == "not_present");
    rig.gpu.set(&[("driver", "!999")]);
    rig.gpu.leave_out(&["init"]);
    let without = rig.wait("no version", |m| state(m) == "failed");
    assert_eq!(value(&without, series), None);
    rig.gpu.set(&[("driver", "580.173.02")]);
    let back = rig.wait("back", |m| state(m) == "ok");
    assert_eq!(value(&back, series), Some(before));
}

/// A GPU that cannot be listened to has no counters at all, and the last word of one that is lost counts.
#[test]
fn xid_errors_are_those_that_could_be_heard() {
    let rig = Rig::new("spark-fe-llm-server", &fakes::nvml(), QUICK);
    rig.wait("healthy", |m| state(m) == "ok");
    rig.gpu.set(&[("init", "!9")]);
    rig.wait("gone", |m| state(m) == "not_present");
    rig.gpu.add_second();
    rig.gpu.set(&[("1.device", "!999")]);
    rig.gpu.leave_out(&["init"]);
    let one = rig.wait("one of two", |m| m.contains("gb10_gpu_xid_errors_total{gpu=\"0\""));
    assert!(!one.contains("gb10_gpu_xid_errors_total{gpu=\"1\""), "nobody listens to it");
    rig.gpu.leave_out(&["1.device"]);
    rig.wait("both", |m| m.contains("gb10_gpu_xid_errors_total{gpu=\"1\",xid=\"79\"} 0"));
    rig.gpu.set(&[("events", "1:1:79"), ("1.device", "!15")]);
    let lost =
        rig.wait("lost", |m| m.contains("gb10_gpu_xid_errors_total{gpu=\"1\",xid=\"79\"} 1"));
    assert!(lost.contains("gb10_gpu_xid_errors_total{gpu=\"0\",xid=\"79\"} 0"));
    let log = rig.logged();
    assert!(log.contains("GPU 1: Xid 79, 1 since the exporter started"), "{log}");
}

#[test]
fn a_card_with_memory_of_its_own_is_called_that() {
    let rig = Rig::new("x86-rtx-4080-super", &fakes::nvml(), "");
    let metrics = rig.wait("read", |m| state(m) == "ok");
    assert!(metrics.contains("gb10_gpu_memory_sharing{gpu=\"0\",state=\"separate\"} 1"));
    assert!(
        !metrics.contains("gb10_pool_unaccounted_bytes{"),
        "the card's processes are not in the pool"
    );
    assert!(!metrics.contains("gb10_cuda_free_bytes{"));
    assert!(rig.logged().contains("has memory of its own; the pool is the CPU's alone"));
    let status = rig.exporter.get("/api/v1/status");
    assert!(status.contains("\"attribution\": \"not_shared\""), "{status}");
}

/// The remainder of an idle box is learned, survives a restart, and belongs to its driver.
#[test]
fn the_idle_remainder_is_learned_and_kept() {
    let machine = Machine::new("gb10-580.126.09-idle");
    let state_directory = tempfile::tempdir().unwrap();
    let run = |capture: &str| {
        let gpu = Gpu::new(capture);
        let mut command = exporter();
        command.args(["serve", "--web.listen-address", "127.0.0.1:0"]);
        for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
            command.arg(format!("--path.{flag}={}", machine.path(sub).display()));
        }
        command.arg("--state.directory").arg(state_directory.path());
        command.arg("--path.nvml").arg(fakes::nvml()).envs(gpu.environment());
        (Exporter::spawn(command), gpu)
    };
    let series = "gb10_pool_idle_remainder_bytes";
    let (mut first, gpu) = run("gb10-580.126.09-idle");
    let learned = first.wait_for_metrics("learned", |m| value(m, series).is_some());
    let remainder = value(&learned, series).unwrap();
    assert_eq!(value(&learned, "gb10_pool_unaccounted_bytes{holder=\"unknown\"}"), Some(remainder));
    drop(gpu);
    // A busy disk may take its time with the first write.
    let file = state_directory.path().join("state.json");
    let began = Instant::now();
    while !file.exists() && began.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(50));
    }
    first.signal("TERM");
    first.wait();
    let text = fs::read_to_string(state_directory.path().join("state.json")).unwrap();
    assert!(text.contains("\"driver\": \"580.126.09\""), "{text}");

    let (second, gpu) = run("gb10-580.126.09-idle");
    gpu.set(&[("0.utilization", "96"), ("0.processes.compute", "1:1073741824")]);
    let kept = second.wait_for_metrics("kept", |m| value(m, series).is_some());
    assert_eq!(value(&kept, series), Some(remainder), "a busy box does not teach it");
    gpu.set(&[("init", "!9")]);
    second.wait_for_metrics("gone", |m| state(m) == "not_present");
    gpu.set(&[("driver", "610.43.02")]);
    gpu.leave_out(&["init"]);
    let other = second.wait_for_metrics("another driver", |m| m.contains("driver=\"610.43.02\""));
    assert_eq!(value(&other, series), None, "another driver needs another amount");
}
