//! Where a setting comes from, and what is refused.

use crate::support::otlp::{Collector, Mood, Rotel, wait_for};
use crate::support::{Exporter, Machine, exporter};
use crate::{PATIENCE, story};
use std::fs;
use std::process::Output;

fn run(args: &[&str], variables: &[(&str, &str)]) -> Output {
    exporter().args(args).envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A line of `config`.
fn line(args: &[&str], variables: &[(&str, &str)], key: &str) -> String {
    let out = run(&[&["config"], args].concat(), variables);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let all = text(&out.stdout);
    let section = all.split("otlp:\n").nth(1).unwrap_or_else(|| panic!("no section:\n{all}"));
    let found = section.lines().find(|line| line.trim_start().starts_with(&format!("{key}:")));
    found
        .unwrap_or_else(|| panic!("no {key}:\n{section}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");

#[test]
fn every_source_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.yml");
    fs::write(&file, "otlp:\n  endpoint: http://file:4318\n  interval: 5m\n  logs: true\n")
        .unwrap();
    let file = ["--config.file", file.to_str().unwrap()];
    let own = ("GB10_EXPORTER_OTLP_INTERVAL", "20s");
    let standard = ("OTEL_METRIC_EXPORT_INTERVAL", "15000");
    assert_eq!(line(&file, &[], "interval"), "interval: 300s # file");
    assert_eq!(line(&file, &[standard], "interval"), "interval: 15s # opentelemetry variable");
    assert_eq!(line(&file, &[standard, own], "interval"), "interval: 20s # environment");
    let flag = [&file[..], &["--otlp.interval", "30s"]].concat();
    assert_eq!(line(&flag, &[standard, own], "interval"), "interval: 30s # flag");
    // One signal before all, wherever it is said.
    let one = ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2500");
    assert_eq!(
        line(&flag, &[one], "metrics_timeout"),
        "metrics_timeout: 2.5s # opentelemetry variable"
    );
}

#[test]
fn standard_variables_mean_what_the_specification_says() {
    for (name, value, key, shown) in [
        ("OTEL_SDK_DISABLED", "TRUE", "disabled", "true"),
        ("OTEL_SDK_DISABLED", "yes", "disabled", "false"),
        ("OTEL_METRICS_EXPORTER", "none", "metrics", "false"),
        ("OTEL_METRICS_EXPORTER", "prometheus,otlp", "metrics", "true"),
        ("OTEL_LOGS_EXPORTER", "otlp", "logs", "true"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "protocol", "grpc"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "500", "timeout", "0.5s"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "compression", "gzip"),
        ("OTEL_EXPORTER_OTLP_INSECURE", "True", "insecure", "true"),
        ("OTEL_SERVICE_NAME", "spark", "service_name", "spark"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b%20c,d=e", "resource_attributes", "['a=b c', 'd=e']"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "Authorization=Bearer%20hush",
            "headers",
            "['authorization=<hidden>']",
        ),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "DELTA", "temporality", "delta"),
    ] {
        let said = line(&[], &[ENDPOINT, (name, value)], key);
        let said = said.replace('"', "'");
        assert!(
            said.starts_with(&format!("{key}: {shown} # opentelemetry")),
            "{name}={value}: {said}"
        );
    }
    assert!(
        line(&[], &[("OTEL_SDK_DISABLED", "")], "disabled").ends_with("# default"),
        "empty is unset"
    );
}

/// The exporter does not start, says why, and ends with this code.
fn refuses(args: &[&str], code: i32, says: &str) {
    let out = run(&[&["serve", "--web.listen-address", "127.0.0.1:0"], args].concat(), &[]);
    let said = text(&out.stderr);
    assert!(said.contains(says), "{args:?}: {said}");
    assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
}

const HTTPS: &str = "--otlp.endpoint=https://c:4318";

#[test]
fn what_cannot_be_meant_is_refused() {
    let protocols = "expected one of http/protobuf, grpc, found \"http/json\"";
    refuses(&[HTTPS, "--otlp.protocol=http/json"], 64, protocols);
    refuses(&["--otlp.endpoint=collector"], 2, "expected http://HOST:PORT or https://HOST:PORT");
    refuses(&["--otlp.endpoint=http://c:99999"], 2, "expected http://HOST:PORT");
    refuses(&[HTTPS, "--otlp.headers=hush"], 2, "otlp.headers: expected NAME=VALUE, found no =");
    refuses(&[HTTPS, "--otlp.interval=10ms"], 64, "expected 1s to 3600s, found 10ms");
    let pair = "otlp.client_certificate and otlp.client_key need each other";
    refuses(&[HTTPS, "--otlp.client-key=/k"], 2, pair);
    refuses(&["--otlp.logs=true"], 2, "otlp.logs: nothing is sent without otlp.endpoint");
    let off = "otlp.endpoint: nothing is sent while otlp.metrics is false";
    refuses(&[HTTPS, "--otlp.metrics=false"], 2, off);
    let logs = "otlp.logs_endpoint: nothing is sent while otlp.logs is false";
    refuses(&["--otlp.logs-endpoint=http://c:4318/v1/logs"], 2, logs);
    let late = "an export may not take longer than otlp.interval";
    refuses(&[HTTPS, "--otlp.interval=5s", "--otlp.timeout=9s"], 2, late);
    let out = run(&["serve"], &[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]);
    assert_eq!(out.status.code(), Some(2));
    let says = "OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds, found \"10s\"";
    assert!(text(&out.stderr).contains(says), "{}", text(&out.stderr));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let refuses = |flag: &str, content: Option<&str>, says: &str| {
        let path = dir.path().join("file");
        let _ = fs::remove_file(&path);
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        refuses(&[HTTPS, &format!("--otlp.{flag}={}", path.display())], 2, says);
    };
    refuses(
        "headers-file",
        Some("# a\nx-a=1\nwrong line\n"),
        "file:3: expected NAME=VALUE, found no =",
    );
    refuses("headers-file", None, "file cannot be read");
    refuses("certificate", Some("no certificate"), "file: expected PEM");
    refuses("certificate", None, "file cannot be read");
    let endless = [HTTPS, "--otlp.headers-file=/dev/zero"];
    self::refuses(&endless, 2, "/dev/zero: expected a file");
}

/// Other programs read the same variables. One that makes no sense here stops nothing as long as nothing is
/// sent.
#[test]
fn a_variable_that_is_meant_for_others_stops_nothing() {
    let foreign = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_RESOURCE_ATTRIBUTES", "foo"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k"),
        ("OTEL_LOGS_EXPORTER", "otlp"),
    ];
    assert!(run(&["config"], &foreign).status.success());
    let off = [&foreign[..], &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]].concat();
    assert!(run(&["config"], &off).status.success());
    for variable in &foreign[..5] {
        let out = run(&["config"], &[ENDPOINT, *variable]);
        assert_eq!(out.status.code(), Some(2), "{variable:?}: {}", text(&out.stderr));
    }
    let flags = ["config", "--otlp.protocol", "grpc"];
    assert!(run(&flags, &[ENDPOINT, foreign[0]]).status.success(), "a flag has the last word");
    let mut command = exporter();
    command.args(["serve", "--web.listen-address", "127.0.0.1:0"]);
    command.envs([ENDPOINT, ("OTEL_METRICS_EXPORTER", "prometheus")]);
    let exporter = Exporter::spawn(command);
    let says = "nothing is sent to the collector: otlp.metrics is false (opentelemetry variable)";
    wait_for(says, PATIENCE, || exporter.log.lock().unwrap().contains(says).then_some(()));
}

/// Whatever is wrong with what may be a password, the message shows none of it.
#[test]
fn no_message_shows_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let colon = dir.path().join("headers");
    fs::write(&colon, "authorization: Bearer hush==\n").unwrap();
    let colon = colon.to_str().unwrap();
    let https = "https://c:4318";
    for (args, variables) in [
        (vec!["--otlp.endpoint", https, "--otlp.headers-file", colon], vec![]),
        (vec!["--otlp.endpoint", https, "--otlp.headers", "authorization: Bearer hush=="], vec![]),
        (vec!["--otlp.endpoint", https, "--otlp.headers", "content-type=hush"], vec![]),
        (vec!["--otlp.endpoint", https, "--otlp.headers", "a=b\u{fc}hush"], vec![]),
        (vec!["--otlp.endpoint", "http://me:hush@c:4318"], vec![]),
        (vec!["--otlp.endpoint", "http://c:4318/?key=hush"], vec![]),
        (vec![], vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hush@c:4318")]),
        (vec![], vec![ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer hush==")]),
    ] {
        let all = [&["serve", "--web.listen-address", "127.0.0.1:0"], &args[..]].concat();
        let out = run(&all, &variables);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?} {variables:?}: {said}");
        assert!(!said.contains("hush"), "{said}");
        assert!(said.contains("expected ") || said.contains("is the exporter's own"), "{said}");
    }
    let shown = line(
        &[],
        &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c:1/x?key=hush")],
        "metrics_endpoint",
    );
    assert_eq!(shown, "metrics_endpoint: 'http://c:1/x' # opentelemetry variable");
}

/// Headers of flags, variables and a file get there, by both protocols, and are shown nowhere.
#[test]
fn secrets_arrive_and_are_shown_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("headers");
    fs::write(&file, "# for the collector\n\nauthorization = Bearer from-the-file-hush\n").unwrap();
    for protocol in ["http/protobuf", "grpc"] {
        let collector = Collector::start(Mood::Refuses(503));
        let mut command = exporter();
        command.args(["serve", "--web.listen-address", "127.0.0.1:0", "--log.level", "debug"]);
        command.args([
            "--otlp.interval",
            "1s",
            "--otlp.timeout",
            "800ms",
            "--otlp.protocol",
            protocol,
        ]);
        command.arg("--otlp.endpoint").arg(format!("http://{}", collector.address));
        command
            .arg("--otlp.headers-file")
            .arg(&file)
            .args(["--otlp.headers", "x-scope-orgid=flag-hush"]);
        // The flag has the last word about headers; the library alone would send this one too.
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-other=variable-hush");
        let exporter = Exporter::spawn(command);
        let came = wait_for("a request", PATIENCE, || collector.came().into_iter().next());
        assert_eq!(came.headers["authorization"], "Bearer from-the-file-hush");
        assert_eq!(came.headers["x-scope-orgid"], "flag-hush");
        assert!(!came.headers.contains_key("x-other"), "{came:?}");
        exporter.wait_for_metrics("a failure", |m| m.contains("result=\"failed\"} 2"));
        let log = exporter.log.lock().unwrap().clone();
        let shown = log + &exporter.get("/metrics") + &exporter.get("/api/v1/status");
        assert!(!shown.contains("hush"), "{shown}");
    }
    let args = ["config", "--otlp.endpoint", "http://c:1", "--otlp.headers", "a=hush"];
    let out = run(&args, &[("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "b=hush")]);
    let said = text(&out.stdout) + &text(&out.stderr);
    assert!(
        out.status.success() && said.contains("a=<hidden>") && !said.contains("hush"),
        "{said}"
    );
}

/// Packed where it is asked for, and where a flag unpacks what the environment packs it is said.
#[test]
fn exports_are_packed_when_asked() {
    for protocol in ["http/protobuf", "grpc"] {
        let mut sizes = Vec::new();
        for compression in ["none", "gzip"] {
            let collector = Collector::start(Mood::Refuses(503));
            let mut command = exporter();
            command.arg("replay").arg(story("two-fight")).args([
                "--serve",
                "--web.listen-address",
                "127.0.0.1:0",
            ]);
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address));
            command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
            command.env("OTEL_EXPORTER_OTLP_COMPRESSION", compression);
            let _exporter = Exporter::spawn(command);
            let came = wait_for("a request", PATIENCE, || collector.came().into_iter().next());
            let name = if protocol == "grpc" { "grpc-encoding" } else { "content-encoding" };
            assert_eq!(
                came.headers.get(name).map(String::as_str),
                (compression == "gzip").then_some("gzip")
            );
            sizes.push(came.size);
        }
        assert!(sizes[1] * 3 < sizes[0], "{sizes:?}");
    }
    let args = ["serve", "--web.listen-address", "127.0.0.1:0", "--otlp.compression", "none"];
    let out = run(&args, &[ENDPOINT, ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("unset that variable"), "{}", text(&out.stderr));
}

/// Which exporter on which box: found, the same after a restart, and overridden where somebody says so.
#[test]
fn the_resource_says_who_sends() {
    let machine = Machine::new("spark-fe-idle");
    for (file, text) in [
        ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("proc/sys/kernel/hostname", "spark-07\n"),
    ] {
        let path = machine.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let rotel = Rotel::start();
    let send = |more: &[&str]| {
        let so_far = rotel.metrics().len();
        let endpoint = format!("http://127.0.0.1:{}", rotel.http);
        let own = ["--otlp.endpoint", &endpoint, "--otlp.interval", "1s"];
        let exporter = machine.start_with(&[&own[..], more].concat());
        let all = wait_for("two exports", PATIENCE, || {
            Some(rotel.metrics()).filter(|all| all.len() >= so_far + 2)
        });
        drop(exporter);
        all.last().unwrap().clone()
    };
    let first = send(&[]).resource;
    for (name, value) in [
        ("service.name", "gb10-exporter"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("host.id", "0123456789abcdef0123456789abcdef"),
        ("host.name", "spark-07"),
        ("host.arch", "arm64"),
        ("host.type", "NVIDIA_DGX_Spark"),
        ("os.type", "linux"),
        ("os.description", "Ubuntu 24.04.3 LTS"),
    ] {
        assert_eq!(first.get(name).map(String::as_str), Some(value), "{name}: {first:?}");
    }
    assert_eq!(first["service.instance.id"].len(), 36);
    assert_eq!(send(&[]).resource, first, "a restart changes nothing");
    let said = send(&[
        "--otlp.service-name=boxes",
        "--otlp.resource-attributes=host.name=mine",
        "--otlp.resource-attributes=service.name=less",
        "--otlp.resource-attributes=rack=7",
        "--otlp.temporality=delta",
    ]);
    for (name, value) in [("service.name", "boxes"), ("host.name", "mine"), ("rack", "7")] {
        assert_eq!(said.resource.get(name).map(String::as_str), Some(value), "{name}");
    }
    let ticks = said.points.iter().find(|point| point.name == "gb10.lane.ticks").unwrap();
    assert_eq!(ticks.temporality, "AGGREGATION_TEMPORALITY_DELTA");
    assert!(ticks.value < 10.0, "what was added since the last export: {ticks:?}");
    // Since the boot there were millions; none of them is new.
    let faults = said.points.iter().find(|point| point.name == "system.paging.faults").unwrap();
    assert_eq!((faults.value, &*faults.kind), (0.0, "Sum"));
    let size = said.points.iter().find(|point| point.name == "system.memory.limit").unwrap();
    assert_eq!(
        size.temporality, "AGGREGATION_TEMPORALITY_CUMULATIVE",
        "a sum that may fall stays one"
    );
}
