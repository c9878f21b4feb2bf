//! What is generated and committed: references and golden outputs, compared byte for byte.

mod support;

use gb10_exporter::catalog::links::Board;
use gb10_exporter::catalog::{self, Stability};
use gb10_exporter::rules::RECORDS;
use gb10_exporter::{cli, docs, grafana};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use support::{Exporter, captures, exporter, golden, root};

#[test]
fn references_match_the_tables() {
    golden("docs/METRICS.md", &docs::metrics());
    golden("docs/THRESHOLDS.md", &docs::thresholds());
    golden("docs/CLI.md", &docs::cli(&cli::command()));
    golden("docs/PLANNING.md", &docs::planning());
    golden("docs/OTLP.md", &docs::otlp());
    golden("deploy/gb10-exporter.yml", &docs::example_config());
}

/// What is imported into Grafana is what the tables say.
#[test]
fn dashboards_match_the_tables() {
    for board in Board::ALL {
        let path = format!("grafana/{}", grafana::file_name(*board));
        golden(&path, &grafana::dashboard(*board, None));
    }
}

/// A stable name or label that goes away breaks somebody's dashboard: the list changes on purpose.
#[test]
fn stable_names_are_kept() {
    let names: String = catalog::all()
        .filter(|metric| metric.stability == Stability::Stable)
        .map(|metric| format!("{}{{{}}}\n", metric.name, metric.labels.join(",")))
        .collect();
    golden("tests/golden/names.txt", &names);
}

/// Files of these kinds in a directory and below.
fn texts(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_dir() {
            texts(&path, found);
        } else if ["md", "yml", "yaml", "json", "tmpl", "tpl", "conf"].contains(&kind) {
            found.push(path);
        }
    }
}

/// Words in what people and other programs read that look like a metric and are none: a renamed one that a
/// text still has by its old name. The history of changes may have it.
fn unknown_names(text: &str) -> BTreeSet<String> {
    let text = RECORDS.iter().fold(text.to_owned(), |text, record| text.replace(record.name, ""));
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let names = text.split(word).filter(|word| word.starts_with("gb10_") && word.len() > 5);
    let known = |name: &str| {
        // A family of metrics ends like a prefix of theirs.
        let family = name.ends_with('_') && catalog::all().any(|m| m.name.starts_with(name));
        family || catalog::all().any(|m| m.name == name)
    };
    names.filter(|name| !known(name)).map(str::to_owned).collect()
}

#[test]
fn every_metric_that_a_text_names_is_in_the_table() {
    let mut files = vec![root().join("README.md")];
    for dir in ["alerts", "deploy", "docs", "grafana"] {
        texts(&root().join(dir), &mut files);
    }
    let (mut named, mut wrong) = (0, Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        named += text.matches("gb10_").count();
        let unknown = unknown_names(&text).into_iter();
        wrong.extend(unknown.map(|name| format!("{} names {name}", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() > 60 && named > 1000, "{} files, {named} names", files.len());
    assert_eq!(unknown_names("`gb10_pool_avail`, gb10_pool_, gb10_pool_free_bytes").len(), 1);
}

/// What depends on the moment and not on the machine.
const OF_THE_MOMENT: [&str; 4] = [
    "gb10_source_duration_seconds",
    "gb10_lane_",
    "gb10_exporter_build_info",
    // A capture is read again and again, so errors count up.
    "gb10_source_errors_total",
];

fn scrape(path: &str) -> String {
    let exporter = Exporter::start(&["--capture", path]);
    let text = exporter.get("/metrics");
    text.lines()
        .filter(|line| {
            let name =
                line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE ")).unwrap_or(line);
            !OF_THE_MOMENT.iter().any(|prefix| name.starts_with(prefix))
        })
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// The status document without what depends on the moment.
fn json(path: &str) -> String {
    let out = exporter().args(["status", "--json", "--capture", path]).output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    document["at"] = Value::Null;
    document["exporter"] = Value::Null;
    document["lanes"] = Value::Null;
    for source in document["sources"].as_object_mut().expect("sources").values_mut() {
        source["seconds"] = Value::Null;
        source["errors"] = Value::Null;
    }
    let events = document["events"].as_array_mut().expect("events");
    // A busy machine that runs the tests misses a tick now and then.
    events.retain(|event| event["event"] != "ticks_missed");
    for event in events {
        event["at"] = Value::Null;
    }
    for throttle in document["throttle"].as_array_mut().expect("GPUs") {
        throttle["now"] = Value::Null;
        throttle["minute"] = Value::Null;
    }
    format!("{document:#}\n")
}

fn status(path: &str) -> String {
    let out = exporter().args(["status", "--capture", path]).output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("text");
    // How long ago an event was, and how long it has watched, depend on the moment.
    text.lines()
        .filter(|line| !line.contains(" ticks_missed: "))
        .map(|line| match (line.split_once(" s ago, "), line.split_once(" s: lowest ")) {
            (Some((_, rest)), _) => format!("  N s ago, {rest}\n"),
            (_, Some((_, rest))) => format!("  last N s: lowest {rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}

/// The real binary on every capture: a scrape, the document, the view for people.
#[test]
fn every_capture_gives_what_was_reviewed() {
    let threads: Vec<_> = captures()
        .into_iter()
        .map(|(name, path)| {
            thread::spawn(move || {
                let path = path.to_str().unwrap();
                golden(&format!("tests/golden/captures/{name}.metrics"), &scrape(path));
                golden(&format!("tests/golden/captures/{name}.json"), &json(path));
                golden(&format!("tests/golden/captures/{name}.status"), &status(path));
            })
        })
        .collect();
    let failures: Vec<_> = threads.into_iter().filter_map(|t| t.join().err()).collect();
    assert!(failures.is_empty(), "{} captures differ", failures.len());
}
