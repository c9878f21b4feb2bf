//! The dashboards' queries against a real Prometheus: replays of scenarios filled in, and a live exporter
//! scraped. Every query has a figure on something that feeds it.
#![expect(clippy::disallowed_methods, reason = "tests start programs, write files and wait")]

mod support;

#[path = "support/boards.rs"]
mod boards;

use boards::{annotations, json, name, panels, targets};
use gb10_exporter::catalog::links::Board;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::prometheus::Prometheus;
use support::{Exporter, exporter, root};

/// Scenarios, each as a box of its own, and how far apart its scrapes are.
const BOXES: [(&str, &str); 13] = [
    // Who fights, swap, refaults, a job that is evicted.
    ("two-fight", "15s"),
    // A clock cap, and its loss.
    ("cap-lost", "15s"),
    // The optional driver of the module.
    ("module-at-its-limit", "15s"),
    // What cannot be read.
    ("power-unreadable", "15s"),
    // Orphans.
    ("engine-left-behind", "5s"),
    // Loads, a load's peak, and messages of the driver.
    ("starts-and-no-memory", "5s"),
    // An end without a goodbye.
    ("reboot", "5s"),
    // Memory that comes back late.
    ("stop-is-not-release", "5s"),
    ("restart-loop", "5s"),
    ("startup-collapse", "1s"),
    // Training, and what it costs.
    ("training-slows-down", "15s"),
    ("fragmentation", "5s"),
    // A state that holds the GPU back begins.
    ("safety-mode", "15s"),
];

/// What no scenario has: blocks that cannot be made, an Xid that NVML tells.
const MORE: &str = "\
# gb10-exporter scenario 1
# kind: invented
# title: What else can happen
# source: none
# base: CAPTURE
# length: 3m

==> timeline
0s..180s  vmstat.compact_fail = 0 -> 1800
60s       gpu.xids[0.79] = 1
";

/// Queries that give nothing anywhere here, and why.
const SILENT: [(Board, u64, &str, &str); 2] = [
    (Board::Box, 152, "B", "neither a replay nor this machine has a source that fails"),
    (Board::Workloads, 121, "C", "a replay follows no log that could be unreadable"),
];

/// When the replays end.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A replay as OpenMetrics of a box that was scraped until `end`.
fn replayed(file: &Path, scenario: &str, interval: &str, end: u64) -> String {
    let mut command = exporter();
    command.arg("replay").arg(file).args(["--emit", "openmetrics", "--scrape-interval", interval]);
    let out = command.output().expect("runs");
    assert!(out.status.success(), "{scenario}: {}", String::from_utf8_lossy(&out.stderr));
    scraped(&String::from_utf8(out.stdout).unwrap(), scenario, end)
}

/// The labels that a scrape adds, `up`, and times that end at `end`.
fn scraped(text: &str, instance: &str, end: u64) -> String {
    let parts = |line: &str| -> (String, f64, f64) {
        let (rest, at) = line.rsplit_once(' ').unwrap();
        let (series, value) = rest.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap(), at.parse().unwrap())
    };
    let samples = || text.lines().filter(|line| !line.starts_with('#'));
    let last = samples().map(|line| parts(line).2).fold(0.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
    let later = end as f64 - last;
    let more = format!("job=\"gb10\",instance=\"{instance}\"");
    let (mut out, mut times) = (String::new(), BTreeSet::new());
    for line in text.lines().filter(|line| *line != "# EOF") {
        if line.starts_with('#') {
            let _ = writeln!(out, "{line}");
            continue;
        }
        let (series, value, at) = parts(line);
        let series = match series.split_once('{') {
            Some((metric, labels)) => format!("{metric}{{{more},{labels}"),
            None => format!("{series}{{{more}}}"),
        };
        let value = if series.contains("_timestamp_seconds") { value + later } else { value };
        let _ = writeln!(out, "{series} {value} {:.3}", at + later);
        times.insert(format!("{:.3}", at + later));
    }
    let _ = writeln!(out, "# TYPE up gauge");
    for time in times {
        let _ = writeln!(out, "up{{{more}}} 1 {time}");
    }
    // As Prometheus writes it while alerts fire.
    let _ = writeln!(out, "# TYPE ALERTS gauge");
    for (alert, severity) in [("GB10JobsContend", "warning"), ("GB10SwapThrash", "critical")] {
        let labels = format!("alertname=\"{alert}\",alertstate=\"firing\",severity=\"{severity}\"");
        let _ = writeln!(out, "ALERTS{{{more},{labels}}} 1 {end}");
    }
    out + "# EOF\n"
}

/// Every box as a file.
fn boxes(dir: &Path, end: u64) -> Vec<PathBuf> {
    let capture = root().join("tests/captures/spark-fe-idle.txt");
    let more = dir.join("more.txt");
    fs::write(&more, MORE.replace("CAPTURE", capture.to_str().unwrap())).unwrap();
    let scenarios = BOXES.map(|(scenario, interval)| {
        (root().join(format!("tests/scenarios/{scenario}.txt")), scenario, interval)
    });
    let write = |(file, scenario, interval): (PathBuf, &'static str, &'static str)| {
        let path = dir.join(scenario);
        thread::spawn(move || {
            fs::write(&path, replayed(&file, scenario, interval, end)).unwrap();
            path
        })
    };
    let threads: Vec<_> = scenarios.into_iter().chain([(more, "more", "5s")]).map(write).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// A query as Grafana asks it, with these values of the variables.
fn filled_in(query: &str, instance: &str, gpu: &str) -> String {
    query
        .replace("$__rate_interval", "60s")
        .replace("$job", ".+")
        .replace("$instance", instance)
        .replace("$gpu", gpu)
}

#[test]
fn every_query_has_a_figure_somewhere() {
    let dir = tempfile::tempdir().unwrap();
    let end = now();
    let files = boxes(dir.path(), end);
    // What a replay does not have: the exporter's own cost, how long reads take. Of this machine, for a
    // capture has no process.
    let live = Exporter::start(&[]);
    let address = live.address.to_string();
    let prometheus = Prometheus::filled_and_scraping(&files, &[&address]);
    let lives = format!("count_over_time(process_threads{{instance=\"{address}\"}}[1m]) > bool 3");
    prometheus.wait_for(&lives, 1.0);
    // The last point is now, where the live exporter is.
    let until = now();
    let span = |query: &str| {
        prometheus.finite_samples(query, until - 3600, until, Duration::from_secs(15))
    };
    let mut silent = Vec::new();
    let mut asked = 0;
    let mut check = |board: Board, id: u64, letter: &str, at: &str, query: &str| {
        asked += 1;
        let of_all = span(&filled_in(query, ".+", ".+"));
        let some = BOXES.iter().map(|(scenario, _)| *scenario).chain(["more", address.as_str()]);
        let of_one = some.map(|one| span(&filled_in(query, one, "0"))).find(|found| *found > 0);
        assert_eq!(of_all > 0, of_one.is_some(), "{at}: with All {of_all}, with one {of_one:?}");
        if of_all == 0 {
            silent.push((board, id, letter.to_owned(), at.to_owned()));
        }
    };
    for board in Board::ALL {
        let dashboard = json(*board);
        for panel in panels(&dashboard) {
            let id = panel["id"].as_u64().unwrap();
            for (letter, query) in targets(panel) {
                let at = format!("{} {} {letter}: {query}", board.as_str(), name(panel));
                check(*board, id, letter, &at, query);
            }
        }
        for query in annotations(&dashboard) {
            // 0 is no panel: annotations have a number of none.
            check(*board, 0, query.split(['(', '{']).next().unwrap(), query, query);
        }
    }
    assert!(asked > 150, "asked {asked}");
    let known: BTreeSet<_> = SILENT.iter().map(|(b, id, letter, _)| (*b, *id, *letter)).collect();
    let wrong: Vec<_> = silent
        .iter()
        .filter(|(b, id, letter, _)| !known.contains(&(*b, *id, letter.as_str())))
        .map(|(.., at)| at.as_str())
        .collect();
    assert!(wrong.is_empty(), "nothing came of\n{}", wrong.join("\n"));
    for (board, id, letter, why) in SILENT {
        let still = silent.iter().any(|(b, i, l, _)| (*b, *i, l.as_str()) == (board, id, letter));
        assert!(
            still,
            "{} #{id} {letter} gives figures now, it need not be listed: {why}",
            board.as_str()
        );
    }
}
