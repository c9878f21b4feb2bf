//! `preflight` on recorded machines, on a running exporter, and while it waits.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

use serde_json::Value;
use std::fs;
use std::process::{Output, Stdio};
use support::{Exporter, Machine, exporter, root};

fn run(args: &[&str]) -> (i32, String, String) {
    let output = exporter().arg("preflight").args(args).output().expect("runs");
    let Output { status, stdout, stderr } = output;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

fn document(args: &[&str]) -> Value {
    let (code, out, err) = run(&[args, &["--json"]].concat());
    let document: Value =
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e} {err}"));
    assert_eq!(code, i32::from(document["verdict"] == "blocked"), "{out}");
    document
}

fn capture(name: &str) -> String {
    root().join(format!("tests/captures/{name}.txt")).to_str().unwrap().to_owned()
}

/// The level of each check.
fn level<'a>(document: &'a Value, check: &str) -> &'a str {
    let checks = document["checks"].as_array().expect("checks");
    let found = checks.iter().find(|one| one["check"] == check);
    found.unwrap_or_else(|| panic!("no {check}"))["level"].as_str().unwrap()
}

#[test]
fn recorded_machines_are_what_they_are() {
    for (name, need, verdict, levels) in [
        (
            "gb10-580.126.09-idle",
            "48GiB",
            "ready",
            vec![("pool", "pass"), ("board", "pass"), ("driver", "pass")],
        ),
        ("spark-fe-llm-server", "48GiB", "blocked", vec![("pool", "fail"), ("workloads", "warn")]),
        (
            "spark-page-cache-2-full",
            "48GiB",
            "slow",
            vec![("pool", "pass"), ("page_cache", "warn")],
        ),
        ("gb10-590-page-pools", "8GiB", "slow", vec![("pool", "pass"), ("page_pools", "warn")]),
        (
            "gb10-library-mismatch",
            "8GiB",
            "blocked",
            vec![("driver", "fail"), ("workloads", "unknown")],
        ),
        ("gb10-580.142-hanging", "4GiB", "slow", vec![("contiguity", "warn")]),
        (
            "container-no-psi-no-sys",
            "8GiB",
            "ready",
            vec![("board", "unknown"), ("workloads", "unknown")],
        ),
    ] {
        let document = document(&["--need", need, "--capture", &capture(name)]);
        for (check, expected) in levels {
            assert_eq!(level(&document, check), expected, "{name} {check}: {document:#}");
        }
        assert_eq!(document["verdict"], verdict, "{name}: {document:#}");
    }
}

/// One look has no history, and nothing is made up in its place.
#[test]
fn what_needs_history_is_unknown_at_one_look() {
    let of_history = ["orphans", "release", "power_delivery", "clock_cap"];
    let idle = capture("gb10-580.126.09-idle");
    let one_look = document(&["--need", "8GiB", "--capture", &idle]);
    for check in of_history {
        assert_eq!(level(&one_look, check), "unknown", "{check}");
    }
    let exporter = Exporter::start(&["--capture", &idle]);
    exporter.wait_for_metrics("a frame", |metrics| metrics.contains("gb10_pool_available_bytes"));
    let url = format!("http://{}", exporter.address);
    let watched = document(&["--need", "8GiB", "--url", &url]);
    assert_eq!(level(&watched, "clock_cap"), "pass");
    // Nobody is sent to ask the exporter that was asked.
    assert!(!watched.to_string().contains("ask a running exporter"), "{watched:#}");
    assert_eq!(level(&watched, "journal"), "unknown");
}

#[test]
fn a_person_reads_evidence_and_remedy() {
    let (code, out, err) = run(&["--need", "8GiB", "--capture", &capture("gb10-590-page-pools")]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "warn     page pools      the driver keeps 74.23 GiB of freed pages",
        "to do: sudo gb10-exporter flush, or load the driver with",
        "\nslow: ",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

/// The options of a plan say what is needed.
#[test]
fn a_job_is_described_as_for_plan() {
    let idle = capture("gb10-580.126.09-idle");
    let of = |model: &str| document(&["--model", model, "--method", "lora", "--capture", &idle]);
    assert_eq!(level(&of("llama-3.1-8b"), "pool"), "pass");
    assert_eq!(level(&of("llama-3.1-70b"), "pool"), "fail");
    for (args, says) in [
        (vec!["--need", "8GiB", "--model", "llama-3.1-8b"], "cannot be used with"),
        (vec!["--available", "8GiB"], "preflight looks at a machine"),
        (vec!["--model", "llama-9"], "known are tinyllama-1.1b"),
        (vec!["--need", "lots"], "expected a number with one of GiB"),
    ] {
        let (code, _, err) = run(&args);
        assert_eq!(code, 64, "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

/// A script that restarts a server waits until the box is ready.
#[test]
fn it_waits_until_nothing_is_in_the_way() {
    let machine = Machine::new("gb10-580.126.09-idle");
    let meminfo = machine.path("proc/meminfo");
    let roomy = fs::read_to_string(&meminfo).unwrap();
    let full: String = roomy
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("MemAvailable" | "MemFree", _)) => {
                line.split(':').next().unwrap().to_owned() + ": 2000000 kB\n"
            }
            _ => line.to_owned() + "\n",
        })
        .collect();
    fs::write(&meminfo, full).unwrap();
    let at = |flag: &str, sub: &str| format!("--path.{flag}={}", machine.path(sub).display());
    let args = ["preflight", "--need", "8GiB", "--json"].map(str::to_owned);
    let roots = [at("procfs", "proc"), at("sysfs", "sys"), at("rootfs", "")];
    let blocked = exporter().args(&args).args(&roots).output().expect("runs");
    assert_eq!(blocked.status.code(), Some(1));
    let waiting = exporter()
        .args(&args)
        .args(&roots)
        .args(["--wait", "10m"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let ready = machine.path("ready");
    fs::write(&ready, roomy).unwrap();
    fs::rename(&ready, &meminfo).unwrap();
    let output = waiting.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(level(&document, "pool"), "pass");
}

/// Patience ends, too, and a wait that is over says what is still in the way.
#[test]
fn a_wait_that_is_over_is_blocked() {
    let busy = capture("spark-fe-llm-server");
    let document = document(&["--need", "48GiB", "--wait", "1s", "--capture", &busy]);
    assert_eq!(document["verdict"], "blocked");
    assert_eq!(level(&document, "pool"), "fail");
    // Ready at the first look: nothing is waited for.
    let idle = capture("gb10-580.126.09-idle");
    let (code, out, _) = run(&["--need", "8GiB", "--wait", "10m", "--capture", &idle]);
    assert_eq!(code, 0);
    assert!(out.contains("Nothing of what can be told is in the way."), "{out}");
    let (code, _, err) = run(&["--need", "8GiB", "--wait", "soon"]);
    assert_eq!(code, 64, "{err}");
    let (code, _, err) = run(&["--need", "48"]);
    assert_eq!(code, 64);
    assert!(err.contains("expected a size with its unit such as 48GiB"), "{err}");
}

/// The machine of the tests itself: whatever it is, every check comes to something.
#[test]
fn this_machine_is_looked_at() {
    let document = document(&["--need", "1MiB"]);
    let checks = document["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 15);
    assert_eq!(document["of"], "this machine");
    assert_ne!(level(&document, "journal"), "unknown");
    assert_ne!(level(&document, "pool"), "unknown");
}
