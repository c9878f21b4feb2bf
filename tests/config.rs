//! Configuration: who wins, what is refused, and in which words.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

mod support;

use std::fs;
use std::process::Command;
use support::{Exporter, exporter, root, value};

/// Runs with a file; the file's path is shown as FILE.
fn with_file(yaml: &[u8], args: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yml");
    fs::write(&path, yaml).unwrap();
    let path = path.to_str().unwrap();
    let args: Vec<_> = args.iter().map(|arg| if *arg == "FILE" { path } else { arg }).collect();
    let out = exporter().args(args).envs(environment.iter().copied()).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("text").replace(path, "FILE");
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

/// Each of these is refused with one line that names the place and the cure. Read by a person; when
/// you change a message, read it again as somebody whose box is down.
const WRONG: &[(&str, &str)] = &[
    (
        "web: {max_reqests: 3}",
        "1:7: web.max_reqests: unknown key; did you mean \"web.max_requests\"?",
    ),
    ("wbe: {max_requests: 3}", "1:1: wbe: unknown key; did you mean \"web\"?"),
    (
        "colour: red",
        "1:1: colour: unknown key; expected one of web, state, train_log, alertmanager, otlp, workload, log, path, collector, thresholds",
    ),
    (
        "web:\n  port: 9",
        "2:3: web.port: unknown key; expected one of listen_address, telemetry_path, max_requests",
    ),
    (
        "web:\n  listen-address: [':1']",
        "2:3: web.listen-address: unknown key; did you mean \"web.listen_address\"?",
    ),
    ("web: 3", "1:6: web: expected settings (\"key: value\" lines), found \"3\""),
    ("web: [a]", "1:6: web: expected settings (\"key: value\" lines), found \"a list\""),
    ("web: yes please", "1:6: web: expected settings (\"key: value\" lines), found \"yes please\""),
    ("- 1", "1:1: the file: expected settings (\"key: value\" lines), found \"a list\""),
    ("just words", "1:1: the file: expected settings (\"key: value\" lines), found \"just words\""),
    (
        "web:\n  max_requests: lots",
        "2:17: web.max_requests: expected a whole number from 1 to 65535, found \"lots\"",
    ),
    (
        "web:\n  max_requests: 0",
        "2:17: web.max_requests: expected a whole number from 1 to 65535, found \"0\"",
    ),
    (
        "web:\n  max_requests: 70000",
        "2:17: web.max_requests: expected a whole number from 1 to 65535, found \"70000\"",
    ),
    (
        "web:\n  max_requests: -4",
        "2:17: web.max_requests: expected a whole number from 1 to 65535, found \"-4\"",
    ),
    (
        "web:\n  max_requests: 4.5",
        "2:17: web.max_requests: expected a whole number from 1 to 65535, found \"4.5\"",
    ),
    ("web:\n  max_requests:", "2:16: web.max_requests: expected a value, found an empty one"),
    ("web:\n  max_requests: [4]", "2:17: web.max_requests: expected one value, found a list"),
    ("web:\n  max_requests: {a: 4}", "2:17: web.max_requests: expected a value, found a section"),
    (
        "web:\n  max_requests: 3\n  max_requests: 4",
        "3:3: web.max_requests: this key is there twice",
    ),
    (
        "web:\n  telemetry_path: metrics",
        "2:19: web.telemetry_path: expected a path that begins with / and has no query, fragment or space, found \"metrics\"",
    ),
    ("web:\n  telemetry_path: /", "2:19: web.telemetry_path: / is another page of this server"),
    (
        "web:\n  listen_address: 10058",
        "2:19: web.listen_address: expected HOST:PORT, [IPv6]:PORT or :PORT, found \"10058\"",
    ),
    (
        "web:\n  listen_address: ['::1:10058']",
        "2:19: web.listen_address: expected HOST:PORT, [IPv6]:PORT or :PORT, found \"::1:10058\"",
    ),
    ("web:\n  listen_address: []", "2:19: web.listen_address: expected at least one address"),
    ("web:\n  listen_address: [[a]]", "2:19: web.listen_address: expected a list of plain values"),
    ("web:\n  listen_address: [':1', ':1']", "2:1: web.listen_address: :1 is there twice"),
    (
        "state:\n  directory: var/lib",
        "2:14: state.directory: expected an absolute path, found \"var/lib\"",
    ),
    ("path:\n  procfs: ''", "2:11: path.procfs: expected a value, found an empty one"),
    (
        "log: {level: inf}",
        "1:14: log.level: expected one of off, error, warn, info, debug, found \"inf\"; did you mean \"info\"?",
    ),
    ("collector: {thermal: yes}", "1:22: collector.thermal: expected true or false, found \"yes\""),
    (
        "collector: {termal: true}",
        "1:13: collector.termal: unknown key; did you mean \"collector.thermal\"?",
    ),
    ("collector: {gpu0: true}", "1:13: collector.gpu0: unknown key"),
    (
        "thresholds:\n  pool: {reserve: 4TiB}",
        "2:19: thresholds.pool.reserve: expected a number with one of GiB, MiB, KiB, B, found \"4TiB\"",
    ),
    (
        "thresholds:\n  pool: {reserve: 1000GiB}",
        "2:19: thresholds.pool.reserve: expected 256MiB to 64GiB, found 1000GiB",
    ),
    (
        "thresholds:\n  pool: {reserve: 1}",
        "2:19: thresholds.pool.reserve: expected 256MiB to 64GiB, found 1",
    ),
    (
        "thresholds:\n  pool: {reserv: 4GiB}",
        "2:10: thresholds.pool.reserv: unknown key; did you mean \"thresholds.pool.reserve\"?",
    ),
    (
        "thresholds:\n  pool: {fall_within: 10 minutes}",
        "2:23: thresholds.pool.fall_within: expected a number with one of ms, s, m, h, found \"10 minutes\"",
    ),
    (
        "thresholds:\n  lane: {age_limit_periods: 2.5}",
        "2:29: thresholds.lane.age_limit_periods: expected a whole number, found \"2.5\"",
    ),
    (
        "thresholds:\n  pool.reserve: 100GiB",
        "2:17: thresholds.pool.reserve: expected 256MiB to 64GiB, found 100GiB",
    ),
    (
        "thresholds:\n  pool:\n    slope_short: 20s\n    slope_long: 10s",
        "3:1: thresholds.pool.slope_short: 20s must be shorter than thresholds.pool.slope_long (10s)",
    ),
    (
        "thresholds:\n  pool:\n    reserve: 20GiB\n    exhaustion_level: 8GiB",
        "4:1: thresholds.pool.exhaustion_level: 8GiB must be above the reserve, or it is never seen coming; thresholds.pool.reserve (20GiB)",
    ),
    (
        "thresholds:\n  throttle: {event_hysteresis: 0.2}",
        "thresholds.throttle.event_hysteresis: 0.2 must be less than the limit, or what begins never ends; thresholds.throttle.event_share (0.2)",
    ),
    (
        "thresholds:\n  throttle: {fault_clock_max: 1500MHz}",
        "1500MHz must be less than thresholds.throttle.fault_normal_clock (1400MHz)",
    ),
    (
        "thresholds:\n  board: {cutoff_from: 97 C}",
        "97C must not be above thresholds.board.cutoff_to (96C)",
    ),
    (
        "thresholds:\n  throttle: {fault_power_max: 30V}",
        "expected a number with one of W, mW, uW, found \"30V\"",
    ),
    ("thresholds:\n  throttle: {fault_clock_max: 900}", "expected 100MHz to 3000MHz, found 900"),
    ("train_log: [a, a]", "train_log: a is there twice"),
    ("web: {a: [1", "unknown key"),
    ("web: {max_requests: 1", "not YAML: "),
    ("\tweb: 1", "not YAML: "),
    ("web: *nowhere", "not YAML: unknown anchor"),
    ("--- {}\n--- {}", "expected one YAML document, found several"),
    ("level: debug", "1:1: level: unknown key; did you mean \"log.level\"?"),
    ("web:\n  <<: {max_requests: 3}", "2:3: merge keys (<<) are not supported here"),
    (
        "web: {max_requests: 3}\nweb.max_requests: 4",
        "2:19: web.max_requests: this key is there twice",
    ),
    (
        "thresholds: {pool.reserve: 4GiB, pool: {reserve: 5GiB}}",
        "thresholds.pool.reserve: this key is there twice",
    ),
    (
        "web:\n  max_requests: 99999999999999999999999999",
        "2:17: web.max_requests: expected a whole number from 1 to 65535",
    ),
    ("web: !secret foo", "expected plain YAML without tags"),
    (
        "thresholds:\n  pool:\n    reserve: 40GiB",
        "3:1: thresholds.pool.exhaustion_level: 32GiB must be above the reserve, or it is never seen coming; thresholds.pool.reserve (40GiB)",
    ),
    ("\"we\\nb\": 1", "we b: unknown key"),
    ("~: 1", "~: unknown key"),
];

#[test]
fn wrong_files_are_refused_with_their_place_and_the_cure() {
    assert!(WRONG.len() >= 40, "{}", WRONG.len());
    for (yaml, says) in WRONG {
        let (code, out, err) = with_file(yaml.as_bytes(), &["config", "check", "FILE"], &[]);
        assert!(err.contains(says), "{yaml:?}\n  says {err:?}\n  not  {says:?}");
        assert!(err.starts_with("gb10-exporter: FILE:"), "{err}");
        assert_eq!((code, err.lines().count(), out.as_str()), (2, 1, ""), "{yaml:?}");
        // The exporter itself refuses to start with it, in the same words.
        let (code, _, start) = with_file(yaml.as_bytes(), &["--config.file", "FILE"], &[]);
        assert_eq!((code, &start), (2, &err), "{yaml:?}");
    }
    let (code, _, err) = with_file(b"\xff\xfe", &["config", "check", "FILE"], &[]);
    assert_eq!((code, err.as_str()), (2, "gb10-exporter: FILE is not UTF-8 text\n"));
    let (code, _, err) = with_file(&vec![b'#'; 2 << 20], &["config", "check", "FILE"], &[]);
    assert_eq!(code, 2);
    assert!(err.contains("larger than 64 KiB"), "{err}");
    let (code, _, err) = with_file(b"", &["config", "check", "/dev/zero"], &[]);
    assert_eq!((code, err.as_str()), (2, "gb10-exporter: /dev/zero is not a file\n"));
    let (code, _, err) = with_file(b"", &["--config.file", "/nowhere.yml"], &[]);
    assert_eq!(
        (code, err.as_str()),
        (2, "gb10-exporter: /nowhere.yml cannot be read: No such file or directory (os error 2)\n")
    );
}

#[test]
fn what_flags_and_variables_get_wrong_is_refused_too() {
    let twice = ["--web.listen-address", ":1", "--web.listen-address", ":1"];
    let (code, _, err) = with_file(b"", &twice, &[]);
    assert_eq!((code, err.as_str()), (2, "gb10-exporter: web.listen_address: :1 is there twice\n"));
    let (code, _, err) = with_file(b"", &["config"], &[("GB10_EXPORTER_WEB_MAX_REQUESTS", "many")]);
    let says = "gb10-exporter: GB10_EXPORTER_WEB_MAX_REQUESTS: expected a whole number from 1 to 65535, found \"many\"\n";
    assert_eq!((code, err.as_str()), (2, says));
}

/// A variable is about what a command does: it neither contradicts a flag nor breaks a command that has
/// no use for it.
#[test]
fn variables_get_in_nobodys_way() {
    let variables = [
        ("GB10_EXPORTER_COLLECTOR_HWMON", "true"),
        ("GB10_EXPORTER_PATH_PROCFS", "/nowhere"),
        ("GB10_EXPORTER_STATE_DIRECTORY", "/nowhere"),
        ("GB10_EXPORTER_LOG_LEVEL", ""),
        ("GB10_EXPORTER_WEB_LISTEN_ADDRESS", "127.0.0.1:1, :2"),
    ];
    let (code, out, err) = with_file(b"", &["config", "--no-collector.hwmon"], &variables);
    assert_eq!(code, 0, "{err}");
    let lines = [
        "hwmon: false",
        "procfs: /nowhere",
        "level: info",
        "listen_address: ['127.0.0.1:1', ':2']",
    ];
    for line in lines {
        assert!(out.contains(line), "{line} is not in {out}");
    }
    let capture = root().join("tests/captures/spark-fe-idle.txt");
    let args = ["status", "--capture", capture.to_str().unwrap()];
    let (code, out, err) = with_file(b"", &args, &variables);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Pool 121.69 GiB"), "{out}");
    let exporter = Exporter::start(&[]);
    let url = format!("http://{}", exporter.address);
    let (code, _, err) = with_file(b"", &["status", "--url", &url], &variables);
    assert_eq!(code, 0, "{err}");
    let bogus = [("GB10_EXPORTER_LOG_LEVEL", "bogus")];
    let (code, _, err) = with_file(b"", &["config", "check", "FILE"], &bogus);
    assert_eq!(code, 0, "{err}");
}

/// What the file alone would get wrong, a flag may cure.
#[test]
fn a_flag_cures_a_contradiction_of_the_file() {
    let yaml = b"web: {listen_address: [':1', ':1']}";
    let args = ["config", "--config.file", "FILE", "--web.listen-address", ":2"];
    let (code, _, err) = with_file(yaml, &args, &[]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn files_that_set_nothing_are_fine() {
    for yaml in ["", "# nothing\n", "---\n", "web:\n", "collector: {}\n", "thresholds: {pool: }\n"]
    {
        let (code, out, err) = with_file(yaml.as_bytes(), &["config", "check", "FILE"], &[]);
        assert_eq!((code, out.as_str()), (0, "FILE: fine, 0 settings\n"), "{yaml:?} {err}");
    }
}

/// Flags win over the environment, the environment over the file, the file over the defaults; `config`
/// says who did.
#[test]
fn the_last_word_is_told() {
    let yaml = b"web: {max_requests: 1, telemetry_path: /file}\nlog: {level: warn}\n\
        collector: {hwmon: false, dmi: false}\nthresholds: {pool: {reserve: 6 GiB}}\n";
    let environment = [
        ("GB10_EXPORTER_WEB_MAX_REQUESTS", "2"),
        ("GB10_EXPORTER_LOG_LEVEL", "error"),
        ("GB10_EXPORTER_COLLECTOR_DMI", "true"),
    ];
    let args = [
        "config",
        "--config.file",
        "FILE",
        "--web.max-requests",
        "3",
        "--no-collector.nvidia",
        "--collector.hwmon",
    ];
    let (code, out, err) = with_file(yaml, &args, &environment);
    assert_eq!(code, 0, "{err}");
    for (setting, origin) in [
        ("max_requests: 3", "flag"),
        ("telemetry_path: /file", "file"),
        ("level: error", "environment"),
        ("hwmon: true", "flag"),
        ("dmi: true", "environment"),
        ("nvidia: false", "flag"),
        ("thermal: true", "default"),
        ("reserve: 6GiB", "file"),
        ("comfort: 8GiB", "default"),
    ] {
        let line = out.lines().find(|line| line.trim_start().starts_with(&format!("{setting} ")));
        let line = line.unwrap_or_else(|| panic!("no {setting} in {out}"));
        assert!(line.ends_with(&format!("# {origin}")), "{line}");
    }
    // What it prints is a file that says the same.
    let (code, again, err) = with_file(out.as_bytes(), &["config", "--config.file", "FILE"], &[]);
    assert_eq!(code, 0, "{err}");
    let bare = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" #").next().unwrap().trim_end().to_owned()).collect()
    };
    assert_eq!(bare(&again), bare(&out));
}

#[test]
fn thresholds_tells_every_number_with_its_reason() {
    let yaml = b"thresholds: {pool: {reserve: 6GiB}}";
    let (code, out, _) = with_file(yaml, &["thresholds", "--config.file", "FILE"], &[]);
    assert_eq!(code, 0);
    assert!(out.contains("pool.reserve = 6GiB  (file; default 4GiB, 256MiB to 64GiB)"), "{out}");
    let rows = gb10_exporter::thresholds::Thresholds::ROWS.len();
    assert_eq!(out.matches("    Why: ").count(), rows);
}

#[test]
fn the_file_decides_what_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yml");
    fs::write(&file, "web: {listen_address: '127.0.0.1:0', telemetry_path: /m}\nthresholds: {pool: {reserve: 6GiB}}\ncollector: {thermal: false}\n").unwrap();
    let mut command: Command = exporter();
    let capture = root().join("tests/captures/spark-fe-idle.txt");
    command
        .arg("--config.file")
        .arg(&file)
        .arg("--capture")
        .arg(capture)
        .arg("--no-collector.buddyinfo");
    let exporter = Exporter::spawn(command);
    let metrics = exporter.get("/m");
    assert_eq!(exporter.request("GET", "/metrics", "").status, 404);
    assert_eq!(value(&metrics, "gb10_pool_reserve_bytes"), Some(6.0 * 1_073_741_824.0));
    // Switched off is not failed: absent, with its reason, and no event about it.
    for (source, reading) in
        [("thermal", "thermal_zone.temp"), ("buddyinfo", "buddyinfo.free_blocks")]
    {
        let state = format!("gb10_source_state{{source=\"{source}\",state=\"disabled\"}}");
        assert_eq!(value(&metrics, &state), Some(1.0));
        let missing = format!("gb10_reading_missing{{reading=\"{reading}\",reason=\"disabled\"}}");
        assert_eq!(value(&metrics, &missing), Some(1.0));
    }
    assert!(!metrics.contains("gb10_zone_temperature_celsius{"));
    assert!(!metrics.contains("gb10_pool_contiguous_free_bytes{"));
    assert!(metrics.contains("gb10_pool_segment_bytes{segment=\"free\"}"));
    assert!(!exporter.get("/api/v1/status").contains("source_changed"));
}

/// Without any collector of a lane, and without memory itself, the rest goes on.
#[test]
fn memory_itself_can_be_switched_off() {
    let exporter = Exporter::start(&[
        "--no-collector.meminfo",
        "--no-collector.thermal",
        "--no-collector.hwmon",
    ]);
    let metrics = exporter.get("/metrics");
    assert!(!metrics.contains("gb10_pool_size_bytes "));
    assert!(
        metrics
            .contains("gb10_reading_missing{reading=\"meminfo.MemTotal\",reason=\"disabled\"} 1")
    );
    assert!(metrics.contains("gb10_memory_major_faults_total "));
    assert_eq!(exporter.request("GET", "/-/ready", "").status, 200);
}

/// SIGHUP: what may change changes, what needs a restart is said, a bad file is refused and the old
/// one stays. Scrapes go on all the while.
#[test]
fn a_reload_takes_over_what_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yml");
    let write = |yaml: &str| {
        let new = dir.path().join("new.yml");
        fs::write(&new, yaml).unwrap();
        fs::rename(new, &file).unwrap();
    };
    let reserve = "gb10_pool_reserve_bytes";
    let gib = |n: f64| Some(n * 1_073_741_824.0);
    write("thresholds: {pool: {reserve: 5GiB}}");
    let exporter = Exporter::start(&["--config.file", file.to_str().unwrap()]);
    assert_eq!(value(&exporter.get("/metrics"), reserve), gib(5.0));
    let logged = |what: &str| {
        exporter.wait_for_metrics(what, |_| exporter.log.lock().unwrap().contains(what));
    };

    write(
        "thresholds: {pool: {reserve: 6GiB}}\ncollector: {pressure: false}\nweb: {max_requests: 7}\n",
    );
    exporter.signal("HUP");
    let off = "gb10_source_state{source=\"pressure\",state=\"disabled\"}";
    exporter.wait_for_metrics("the new reserve", |m| value(m, reserve) == gib(6.0));
    exporter.wait_for_metrics("pressure off", |m| value(m, off) == Some(1.0));
    logged("web.max_requests has changed and needs a restart");
    logged("configuration read again: collector.pressure, thresholds.pool.reserve");

    write("thresholds: {pool: {reserve: 7TiB}}");
    exporter.signal("HUP");
    logged("configuration refused, the old one stays in force");
    logged("c.yml:1:30: thresholds.pool.reserve: expected a number with one of GiB");
    assert_eq!(value(&exporter.get("/metrics"), reserve), gib(6.0));

    write("log: {level: error}");
    exporter.signal("HUP");
    exporter.wait_for_metrics("the default reserve", |m| value(m, reserve) == gib(4.0));
    exporter.wait_for_metrics("pressure on again", |m| value(m, off) == Some(0.0));
    logged("configuration read again: log.level, collector.pressure, thresholds.pool.reserve");
    let before = exporter.log.lock().unwrap().len();
    exporter.signal("HUP");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(exporter.log.lock().unwrap().len(), before, "only errors are logged now");

    fs::remove_file(&file).unwrap();
    exporter.signal("HUP");
    logged("cannot be read: No such file");
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    exporter.signal("HUP");
    logged("is not a file");
}

/// What needs a restart is said once, and its return as well.
#[test]
fn what_needs_a_restart_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yml");
    fs::write(&file, "web: {max_requests: 40}").unwrap();
    let exporter = Exporter::start(&["--config.file", file.to_str().unwrap()]);
    let reload = |yaml: &str, says: &str| {
        fs::write(&file, yaml).unwrap();
        exporter.signal("HUP");
        exporter.wait_for_metrics(says, |_| exporter.log.lock().unwrap().contains(says));
    };
    reload("web: {max_requests: 5}", "nothing has changed that can change now");
    reload("web: {max_requests: 5} # still", "read again: nothing has changed\"");
    reload("web: {max_requests: 40}", "web.max_requests is again what is in force");
    let log = exporter.log.lock().unwrap().clone();
    assert_eq!(log.matches("needs a restart").count(), 1, "{log}");
}

/// Reloads under load lose no request and no tick.
#[test]
fn reloads_under_load_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yml");
    fs::write(&file, "log: {level: warn}\n").unwrap();
    let exporter =
        Exporter::start(&["--config.file", file.to_str().unwrap(), "--log.level", "info"]);
    let ticks = "gb10_lane_ticks_total{lane=\"fast\"}";
    let first = value(&exporter.get("/metrics"), ticks).unwrap();
    let began = std::time::Instant::now();
    let address = exporter.address;
    let scrapers: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                (0..500)
                    .map(|_| support::request(address, "GET", "/metrics", "").status)
                    .filter(|status| *status != 200)
                    .count()
            })
        })
        .collect();
    let mut reloads = 0;
    while scrapers.iter().any(|scraper| !scraper.is_finished()) || reloads < 20 {
        exporter.signal("HUP");
        reloads += 1;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let failed: usize = scrapers.into_iter().map(|scraper| scraper.join().unwrap()).sum();
    assert_eq!(failed, 0, "of 2000 requests during {reloads} reloads");
    let metrics = exporter.wait_for_metrics("ticks go on", |m| {
        value(m, ticks).unwrap() >= first + 0.8 * began.elapsed().as_secs_f64().floor() - 1.0
    });
    for lane in ["fast", "sensors", "slow"] {
        let missed = format!("gb10_lane_missed_ticks_total{{lane=\"{lane}\"}}");
        assert!(value(&metrics, &missed).unwrap() <= 1.0, "{lane}");
    }
}
