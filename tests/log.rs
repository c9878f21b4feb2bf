//! The log as a collector of logs meets it: every line of the real binary parses.
#![expect(clippy::disallowed_methods, reason = "tests set the scene")]

mod support;

use serde_json::{Map, Value};
use std::fs;
use std::time::{Duration, Instant};
use support::Machine;

/// A line of logfmt, read by the rules of that format and not by the exporter's own code.
fn logfmt(line: &str) -> Map<String, Value> {
    let mut out = Map::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').unwrap_or_else(|| panic!("no key: {line}"));
        let good = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(good, "{key:?} is no key: {line}");
        let value;
        (value, rest) = if after.starts_with('"') {
            let mut strings = serde_json::Deserializer::from_str(after).into_iter::<String>();
            let value = strings.next().unwrap().unwrap_or_else(|e| panic!("{e}: {line}"));
            (value, &after[strings.byte_offset()..])
        } else {
            let end = after.find(' ').unwrap_or(after.len());
            assert!(!after[..end].contains(['=', '"']), "{line}");
            (after[..end].to_owned(), &after[end..])
        };
        assert!(out.insert(key.to_owned(), value.into()).is_none(), "{key} twice: {line}");
        if !rest.is_empty() {
            rest = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no space: {line}"));
        }
    }
    out
}

fn json(line: &str) -> Map<String, Value> {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// What an exporter logs from its start over an event to its stop.
fn life(format: &[&str]) -> String {
    let machine = Machine::new("spark-fe-idle");
    let mut exporter = machine.start_with(format);
    fs::remove_file(machine.path("proc/meminfo")).unwrap();
    let began = Instant::now();
    while !exporter.log.lock().unwrap().contains("source_changed") {
        assert!(began.elapsed() < Duration::from_secs(10), "the event is never logged");
        std::thread::sleep(Duration::from_millis(50));
    }
    exporter.signal("TERM");
    let (code, log) = exporter.wait();
    assert_eq!(code, Some(0), "{log}");
    log
}

fn check(log: &str, parse: impl Fn(&str) -> Map<String, Value>) {
    let lines: Vec<_> = log.lines().map(parse).collect();
    let all = |key: &str| -> Vec<&str> {
        lines.iter().map(|line| line[key].as_str().unwrap_or_else(|| panic!("{log}"))).collect()
    };
    for at in all("ts") {
        let shape: String =
            at.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).take(20).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.", "{at}");
        assert!(at.ends_with('Z'), "{at}");
    }
    assert!(all("level").iter().all(|level| ["error", "warn", "info"].contains(level)));
    let messages = all("msg");
    assert!(messages[0].starts_with("listening on http://127.0.0.1:"), "{log}");
    assert!(messages[0].ends_with("/metrics"), "{log}");
    assert_eq!(messages.last(), Some(&"stopped"));
    let event = lines.iter().find(|line| line.contains_key("event")).unwrap();
    assert_eq!(event["event"], "source_changed");
    assert_eq!(event["subject"], "meminfo");
    assert_eq!(event["msg"], "ok -> not_present: /proc/meminfo does not exist");
}

#[test]
fn every_line_is_logfmt() {
    check(&life(&[]), logfmt);
    check(&life(&["--log.format=logfmt"]), logfmt);
}

#[test]
fn every_line_is_json_when_asked_for() {
    check(&life(&["--log.format=json"]), json);
}
