//! Where a setting comes from, and what is refused.

use crate::support::otlp::{Collector, Mood, wait_for};
use crate::support::{Exporter, exporter};
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

#[test]
fn mistakes_stop_the_start_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (headers, pem) =
        (write("headers", "# a\nx-a=1\nwrong line\n"), write("ca.pem", "no certificate"));
    let https = ["--otlp.endpoint", "https://c:4318"];
    let with = |more: &[&'static str]| -> Vec<String> {
        https.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
    };
    let of = |flag: &str, value: &str| {
        vec![https[0].to_owned(), https[1].to_owned(), flag.to_owned(), value.to_owned()]
    };
    for (args, code, says) in [
        (
            with(&["--otlp.protocol", "http/json"]),
            64,
            "expected one of http/protobuf, grpc, found \"http/json\"",
        ),
        (
            vec!["--otlp.endpoint".to_owned(), "collector".to_owned()],
            64,
            "expected http://HOST:PORT or https://HOST:PORT",
        ),
        (with(&["--otlp.headers", "hush"]), 64, "expected NAME=VALUE, found no ="),
        (with(&["--otlp.interval", "10ms"]), 64, "expected 1s to 3600s, found 10ms"),
        (
            with(&["--otlp.client-key", "/k"]),
            2,
            "otlp.client_certificate and otlp.client_key need each other",
        ),
        (
            vec!["--otlp.logs".to_owned(), "true".to_owned()],
            2,
            "otlp.logs: nothing is sent without otlp.endpoint",
        ),
        (of("--otlp.headers-file", &headers), 2, "headers:3: expected NAME=VALUE, found no ="),
        (of("--otlp.headers-file", "/nowhere"), 2, "/nowhere cannot be read"),
        (of("--otlp.headers-file", "/dev/zero"), 2, "/dev/zero: expected a file"),
        (of("--otlp.certificate", &pem), 2, "ca.pem: expected PEM"),
        (of("--otlp.certificate", "/nowhere.pem"), 2, "/nowhere.pem cannot be read"),
    ] {
        let mut command = exporter();
        command.args(["serve", "--web.listen-address", "127.0.0.1:0"]).args(&args);
        let out = command.output().unwrap();
        let said = text(&out.stderr);
        assert!(said.contains(says), "{args:?}: {said}");
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    }
    let out = run(&["serve"], &[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr)
            .contains("OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds, found \"10s\"")
    );
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
