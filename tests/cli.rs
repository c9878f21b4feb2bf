//! The command line as a person and a script meet it.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use support::{Exporter, Machine, exporter, root, value};

fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = exporter().args(args).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

fn capture(name: &str) -> String {
    root().join(format!("tests/captures/{name}.txt")).to_str().unwrap().to_owned()
}

#[test]
fn help_and_version_are_no_errors() {
    let (code, out, err) = run(&["--help"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("gb10-exporter status") && out.contains("Exit codes"), "{out}");
    let (code, out, _) = run(&["--version"]);
    assert_eq!(
        (code, out.as_str()),
        (0, concat!("gb10-exporter ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}

/// Wrong usage is 64 and names the flag; other mistakes are 2 and name the file or the address.
#[test]
fn mistakes_are_named() {
    let missing = capture("nowhere");
    for (args, code, says) in [
        (vec!["--web.port", "1"], 64, "unexpected argument '--web.port'"),
        (vec!["stats"], 64, "unrecognized subcommand 'stats'"),
        (
            vec!["--web.max-requests", "0"],
            64,
            "expected a whole number from 1 to 65535, found \"0\"",
        ),
        (vec!["--web.telemetry-path", "metrics"], 64, "expected a path that begins with /"),
        (vec!["--web.telemetry-path", "/-/ready"], 64, "/-/ready is another page of this server"),
        (
            vec!["--log.level", "loud"],
            64,
            "expected one of off, error, warn, info, debug, found \"loud\"",
        ),
        (vec!["status", "--url", "http://x", "--path.procfs", "/p"], 64, "cannot be used with"),
        (
            vec!["--web.listen-address", "10058"],
            64,
            "expected HOST:PORT, [IPv6]:PORT or :PORT, found \"10058\"",
        ),
        (vec!["--web.listen-address", ":99999"], 64, "found \":99999\""),
        (vec!["status", "--url", "spark:10058"], 2, "is not a URL of the form http://HOST:PORT"),
        (vec!["status", "--url", "https://spark"], 2, "is not a URL of the form http://HOST:PORT"),
        (
            vec!["status", "--url", "http://127.0.0.1:1"],
            2,
            "http://127.0.0.1:1/api/v1/status cannot be reached",
        ),
        (vec!["status", "--capture", &missing], 2, "nowhere.txt cannot be read: No such file"),
        (
            vec!["status", "--capture", "/etc/passwd"],
            2,
            "/etc/passwd:1: expected the first line to be",
        ),
    ] {
        let (got, out, err) = run(&args);
        assert!(err.contains(says), "{args:?} says {err:?}");
        assert_eq!((got, out.as_str()), (code, ""), "{args:?}: {err}");
        let lines = err.lines().filter(|line| line.starts_with("gb10-exporter:")).count();
        assert!(code == 64 || lines == 1, "one line, once: {err}");
    }
}

#[test]
fn an_address_that_is_taken_is_an_error_at_once() {
    let first = Exporter::start(&[]);
    let (code, _, err) = run(&["--web.listen-address", &first.address.to_string()]);
    assert_eq!(code, 2);
    assert!(
        err.contains(&format!("cannot listen on {}: Address already in use", first.address)),
        "{err}"
    );
}

/// `status` beside `free`: the same kernel figures, read within a second or two of each other.
#[test]
fn status_agrees_with_free() {
    let (code, out, err) = run(&["status", "--json"]);
    assert_eq!(code, 0, "{err}");
    let status: serde_json::Value = serde_json::from_str(&out).unwrap();
    let free =
        std::process::Command::new("free").arg("-b").env("LC_ALL", "C").output().expect("free");
    let text = String::from_utf8(free.stdout).unwrap();
    let row: Vec<u64> = text
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(status["pool"]["size"].as_u64(), Some(row[0]));
    let near = |key: &str, want: u64| {
        let got = status["pool"][key].as_u64().unwrap();
        assert!(got.abs_diff(want) < 1 << 30, "{key}: {got}, free says {want}");
    };
    near("free", row[2]);
    near("available", row[5]);
    let sum: u64 = status["pool"]["segments"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(serde_json::Value::as_u64)
        .sum();
    assert_eq!(sum, row[0], "the parts add up");
}

#[test]
fn status_asks_a_running_exporter() {
    let path = capture("spark-fe-llm-server");
    let exporter = Exporter::start(&["--capture", &path]);
    let (code, there, err) = run(&["status", "--url", &format!("http://{}", exporter.address)]);
    assert_eq!(code, 0, "{err}");
    let (_, here, _) = run(&["status", "--capture", &path]);
    // One has watched for longer than the other.
    let same = |text: &str| -> String {
        let of_the_moment =
            ["Available memory is", "  last ", "  0 s ago", "  1 s ago", "  2 s ago"];
        let kept = text.lines().filter(|line| !of_the_moment.iter().any(|p| line.starts_with(p)));
        kept.flat_map(|line| [line, "\n"]).collect()
    };
    assert_eq!(same(&there), same(&here));
    assert!(same(&here).lines().count() > 20, "{here}");
    let (code, json, _) =
        run(&["status", "--json", "--url", &format!("http://{}/", exporter.address)]);
    assert_eq!(code, 0);
    assert!(json.contains("\"format\": 1"));
}

#[test]
fn another_server_is_not_mistaken_for_an_exporter() {
    let exporter = Exporter::start(&["--web.telemetry-path", "/x"]);
    let (code, _, err) = run(&["status", "--url", &format!("http://{}/x", exporter.address)]);
    assert_eq!(code, 2);
    assert!(err.contains("answered 404"), "{err}");

    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        for body in ["{\"status\":\"success\"}", "hello"] {
            let (mut stream, _) = server.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    for _ in 0..2 {
        let (code, out, err) = run(&["status", "--url", &format!("http://{address}")]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("is not a status document of this exporter"), "{err}");
    }
}

#[test]
fn colour_is_for_terminals_only() {
    let (_, out, _) = run(&["status", "--capture", &capture("spark-fe-idle")]);
    assert!(!out.contains('\x1b'));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = exporter()
        .args(["status", "--json", "--capture", &capture("spark-fe-idle")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(String::from_utf8(out.stderr).unwrap(), "");
}

#[test]
fn every_address_given_is_served() {
    let exporter = Exporter::start(&["--web.listen-address", "127.0.0.1:0"]);
    let began = Instant::now();
    let addresses: Vec<SocketAddr> = loop {
        let log = exporter.log.lock().unwrap().clone();
        let told = log.lines().filter_map(|line| line.split_once("listening on http://"));
        let all: Vec<_> =
            told.map(|(_, rest)| rest.split('/').next().unwrap().parse().unwrap()).collect();
        if all.len() == 2 {
            break all;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{log}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_ne!(addresses[0], addresses[1]);
    for address in addresses {
        assert_eq!(support::request(address, "GET", "/metrics", "").status, 200, "{address}");
    }
}

/// A log that goes nowhere any more must not take the exporter with it.
#[test]
fn a_dead_log_does_not_stop_the_exporter() {
    let machine = Machine::new("spark-fe-idle");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = exporter()
        .args(["--web.listen-address", &port.to_string()])
        .arg(format!("--path.procfs={}", machine.path("proc").display()))
        .arg(format!("--path.sysfs={}", machine.path("sys").display()))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let began = Instant::now();
    while TcpStream::connect(port).is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Something to log, and to fail on: memory goes away.
    fs::remove_file(machine.path("proc/meminfo")).unwrap();
    let failed = "gb10_source_state{source=\"meminfo\",state=\"not_present\"}";
    let mut seen = 0;
    while seen < 3 {
        let answer = support::request(port, "GET", "/metrics", "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        seen += u32::from(value(&answer.text(), failed) == Some(1.0));
        assert!(began.elapsed() < Duration::from_secs(20), "never sees it");
        std::thread::sleep(Duration::from_millis(700));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0), "an orderly stop");
}

/// A boot that ends without a stop is told at the next; one that ends with it is not.
#[test]
fn unclean_boots_are_told_from_the_state_file() {
    let machine = Machine::new("spark-fe-idle");
    let state = machine.path("state");
    let boot = |id: &str| {
        fs::write(machine.path("proc/sys/kernel/random/boot_id"), format!("{id}\n")).unwrap();
        machine.start_with(&["--state.directory", state.to_str().unwrap()])
    };
    let file = state.join("state.json");
    let saved = |what: &str| {
        for _ in 0..200 {
            if fs::read_to_string(&file).is_ok_and(|text| text.contains(what)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what} is never saved");
    };
    let unclean = "gb10_boot_unclean";

    let first = boot("boot-1");
    assert_eq!(value(&first.get("/metrics"), unclean), None, "the first boot it sees");
    saved("boot-1");
    drop(first); // killed, as by a power cut

    let mut second = boot("boot-2");
    second.wait_for_metrics("an unclean boot", |m| value(m, unclean) == Some(1.0));
    assert!(second.get("/api/v1/status").contains("boot_unclean"), "an event tells it");
    saved("boot-2");
    second.signal("TERM");
    let (code, log) = second.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(fs::read_to_string(&file).unwrap().contains("\"clean_stop\": true"));

    let third = boot("boot-3");
    third.wait_for_metrics("a clean boot", |m| value(m, unclean) == Some(0.0));
    saved("boot-3");
    drop(third);

    // The kernel does not tell which boot this is: nothing is said, and the crash on record stays.
    machine.block("proc/sys/kernel/random/boot_id");
    let mut blind = machine.start_with(&["--state.directory", state.to_str().unwrap()]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(value(&blind.get("/metrics"), unclean), None);
    blind.signal("TERM");
    assert_eq!(blind.wait().0, Some(0));
    let text = fs::read_to_string(&file).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    let clean: Vec<_> =
        stored["boots"].as_array().unwrap().iter().map(|b| b["clean_stop"].as_bool()).collect();
    assert_eq!(clean, [Some(false), Some(true), Some(false)], "{text}");
}

#[test]
fn a_recorded_machine_leaves_no_state() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture("spark-fe-idle");
    let (code, _, err) =
        run(&["--capture", &path, "--state.directory", dir.path().to_str().unwrap()]);
    assert_eq!(code, 64, "{err}");
    let mut command = exporter();
    command.args(["--web.listen-address", "127.0.0.1:0", "--capture", &path]);
    command.env("STATE_DIRECTORY", dir.path());
    let exporter = Exporter::spawn(command);
    exporter.get("/metrics");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
