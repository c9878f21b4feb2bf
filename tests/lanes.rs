//! A source that blocks stops its own lane and nothing else; a frozen value is never served.
#![expect(clippy::disallowed_methods, reason = "tests set the scene")]

mod support;

use std::fs;
use std::time::{Duration, Instant};
use support::{Machine, exporter, value};

fn ticks(metrics: &str, lane: &str) -> f64 {
    value(metrics, &format!("gb10_lane_ticks_total{{lane=\"{lane}\"}}")).unwrap()
}

fn state(metrics: &str, source: &str) -> String {
    metrics
        .lines()
        .filter_map(|line| {
            line.strip_prefix(&format!("gb10_source_state{{source=\"{source}\",state=\""))
        })
        .find_map(|rest| rest.strip_suffix("\"} 1"))
        .unwrap_or("none")
        .to_owned()
}

#[test]
fn a_sensor_that_hangs_stops_its_own_lane_and_comes_back() {
    let machine = Machine::new("spark-fe-llm-server");
    let zone = "sys/class/thermal/thermal_zone0/temp";
    let text = fs::read_to_string(machine.path(zone)).unwrap();
    let exporter = machine.start();
    let healthy = exporter.get("/metrics");
    assert_eq!(state(&healthy, "thermal"), "ok");

    machine.block(zone);
    let hung = exporter.wait_for_metrics("the source is hung", |m| state(m, "thermal") == "hung");
    assert!(!hung.contains("gb10_zone_temperature_celsius{"), "no frozen temperature");
    assert!(!hung.contains("gb10_board_temperature_celsius "));
    assert!(hung.contains("gb10_reading_missing{reading=\"thermal_zone.temp\",reason=\"hung\"} 1"));
    assert_eq!(state(&hung, "meminfo"), "ok");
    let events = exporter.get("/api/v1/status");
    assert!(events.contains("ok -> hung: reading it has not come back"), "an event tells it");

    // Counted in ticks: the others go on, none is missed, the sensors stand still.
    let began = Instant::now();
    let fast = ticks(&hung, "fast");
    let later =
        exporter.wait_for_metrics("six more fast ticks", |m| ticks(m, "fast") >= fast + 6.0);
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "six seconds' ticks in {:?}",
        began.elapsed()
    );
    assert_eq!(value(&later, "gb10_lane_missed_ticks_total{lane=\"fast\"}"), Some(0.0));
    assert!(ticks(&later, "slow") > ticks(&hung, "slow") || ticks(&later, "slow") >= 2.0);
    assert!(ticks(&later, "sensors") <= ticks(&hung, "sensors"));
    let missed = value(&later, "gb10_lane_missed_ticks_total{lane=\"sensors\"}").unwrap();
    assert!(missed >= 6.0, "missed rounds are counted while it hangs: {missed}");
    assert!(later.contains("gb10_pool_headroom_bytes{reader=\"free\"}"));

    machine.release(zone, &text);
    let back = exporter.wait_for_metrics("the source is back", |m| state(m, "thermal") == "ok");
    assert!(back.contains("gb10_zone_temperature_celsius{zone=\"TSOC\"} 63.6"));
    let after = value(&back, "gb10_lane_missed_ticks_total{lane=\"sensors\"}").unwrap();
    assert!(after >= missed, "a counter never falls: {missed} then {after}");
}

/// Even memory itself: the pool is absent, not frozen, and the exporter says so.
#[test]
fn when_memory_itself_hangs_nothing_is_frozen() {
    let machine = Machine::new("spark-fe-idle");
    let exporter = machine.start();
    machine.block("proc/meminfo");
    let hung = exporter.wait_for_metrics("meminfo is hung", |m| state(m, "meminfo") == "hung");
    assert!(!hung.contains("gb10_pool_size_bytes "));
    assert!(!hung.contains("gb10_pool_headroom_bytes{"));
    assert!(hung.contains("gb10_reading_missing{reading=\"meminfo.MemFree\",reason=\"hung\"} 1"));
    // The others of its lane grow old and go, with their own reason.
    let old = exporter.wait_for_metrics("vmstat is stale", |m| {
        m.contains("gb10_reading_missing{reading=\"vmstat.pgmajfault\",reason=\"stale\"} 1")
    });
    assert_eq!(state(&old, "vmstat"), "failed");
    assert_eq!(state(&old, "thermal"), "ok");
    assert!(old.contains("gb10_zone_temperature_celsius{"));
    let log = exporter.log.lock().unwrap().clone();
    assert!(log.contains("level=error"), "the exporter is blind without meminfo: {log}");
}

/// A lane that hangs does not hold up the stop.
#[test]
fn a_hung_lane_does_not_delay_the_stop() {
    let machine = Machine::new("spark-fe-idle");
    machine.block("sys/class/thermal/thermal_zone3/temp");
    let mut exporter = machine.start();
    exporter.get("/-/ready");
    let began = Instant::now();
    exporter.signal("TERM");
    let (code, log) = exporter.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// A stop that comes while the exporter still waits for its first reading is an orderly one too.
#[test]
fn a_stop_during_the_start_is_orderly() {
    let machine = Machine::new("spark-fe-idle");
    machine.block("proc/meminfo");
    let mut child = exporter()
        .args(["--web.listen-address", "127.0.0.1:0"])
        .arg(format!("--path.procfs={}", machine.path("proc").display()))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    for name in ["-HUP", "-TERM"] {
        let pid = child.id().to_string();
        let status = std::process::Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(status.success());
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// What a stranger's machine may put in the way: each costs its own readings and says why.
#[test]
fn odd_files_cost_their_own_readings() {
    let machine = Machine::new("spark-fe-idle");
    let write = |file: &str, bytes: &[u8]| fs::write(machine.path(file), bytes).unwrap();
    write("proc/vmstat", b"nr_free_pages 12\npgmaj");
    write("proc/buddyinfo", &[0xff, 0xfe, 0x00, 0x41]);
    write("proc/pressure/memory", b"some avg10=0.00 avg60");
    write("proc/loadavg", &vec![b'1'; 300 * 1024]);
    fs::remove_file(machine.path("proc/uptime")).unwrap();
    fs::create_dir(machine.path("proc/uptime")).unwrap();
    fs::remove_dir_all(machine.path("sys/class/hwmon")).unwrap();
    let exporter = machine.start();
    let metrics = exporter.get("/metrics");
    for (source, want) in [
        ("meminfo", "ok"),
        ("vmstat", "failed"),
        ("buddyinfo", "failed"),
        ("pressure", "failed"),
        ("loadavg", "failed"),
        ("uptime", "failed"),
        ("hwmon", "not_present"),
        ("thermal", "ok"),
    ] {
        assert_eq!(state(&metrics, source), want, "{source}");
    }
    assert!(metrics.contains("gb10_pool_headroom_bytes{reader=\"available\"}"));
    assert!(metrics.contains("gb10_pressure_stall_seconds_total{resource=\"io\",kind=\"some\"}"));
    assert!(!metrics.contains("gb10_pressure_stall_seconds_total{resource=\"memory\""));
    assert!(!metrics.contains("gb10_pool_contiguous_free_bytes{"));
    let json: serde_json::Value = serde_json::from_str(&exporter.get("/api/v1/status")).unwrap();
    for (source, says) in [
        ("vmstat", "/proc/vmstat: no readable line nr_slab_unreclaimable"),
        ("buddyinfo", "/proc/buddyinfo is not UTF-8 text"),
        ("pressure", "/proc/pressure/memory: its last line is cut short"),
        ("loadavg", "/proc/loadavg is larger than"),
        ("uptime", "/proc/uptime cannot be read: Is a directory"),
    ] {
        let message = json["sources"][source]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(says), "{source}: {message}");
    }
}
