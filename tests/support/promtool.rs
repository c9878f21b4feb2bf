//! Alert rules on scenarios, by the real `promtool test rules`.
//!
//! promtool tells whether an expression gives what was expected. Asked for the alerts that fire and told to
//! expect none, it says which there are: so every alert of every scenario is seen, not only those that a
//! test thought of.

use super::{root, tool};
use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::engine::player::Player;
use gb10_exporter::export::series::Series;
use gb10_exporter::rules::{Format, Group, Options, render};
use gb10_exporter::thresholds::Thresholds;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The labels of a scraped box.
pub const SCRAPED: [(&str, &str); 2] = [("instance", "box"), ("job", "gb10")];

/// Every scenario, by name.
pub fn scenarios() -> Vec<(String, PathBuf)> {
    let mut all: Vec<_> = fs::read_dir(root().join("tests/scenarios"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    all.sort();
    all
}

/// The file of a scenario.
pub fn scenario(name: &str) -> PathBuf {
    root().join(format!("tests/scenarios/{name}.txt"))
}

/// Names of the metrics in a text.
pub fn metrics_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let names = text.split(word).filter(|w| w.starts_with("gb10_"));
    let known: BTreeSet<&str> = gb10_exporter::catalog::all().map(|m| m.name).collect();
    names.filter(|name| known.contains(name)).map(str::to_owned).collect()
}

/// The rules that everybody gets.
pub fn rules() -> String {
    let groups: Vec<Group> = Group::ALL.iter().copied().filter(|g| !g.optional()).collect();
    render(&groups, &Options::default(), Format::Prometheus).unwrap()
}

/// The same without texts: each text asks its questions anew at each evaluation, and what fires does not depend on it.
pub fn without_texts() -> String {
    let mut rules: serde_yaml::Value = serde_yaml::from_str(&rules()).unwrap();
    for group in rules["groups"].as_sequence_mut().unwrap() {
        for rule in group["rules"].as_sequence_mut().unwrap() {
            rule.as_mapping_mut().unwrap().remove("annotations");
        }
    }
    serde_yaml::to_string(&rules).unwrap()
}

/// A scenario as Prometheus would have scraped it.
pub struct Scraped {
    pub input: String,
    pub seconds: u64,
    pub every: u64,
}

/// How a scenario is scraped.
#[derive(Clone, Copy)]
pub struct Scrapes {
    /// In seconds.
    pub every: u64,
    /// The second of the first one.
    pub phase: u64,
    /// From this second on the box answers no more, for so many seconds.
    pub dies: Option<(u64, u64)>,
}

impl Scrapes {
    pub const fn every(every: u64) -> Self {
        Self { every, phase: 0, dies: None }
    }
}

/// A scenario, scraped in each of these ways.
pub fn scrapes(path: &Path, names: &BTreeSet<String>, ways: &[Scrapes]) -> Vec<Scraped> {
    let scenario = Scenario::load(path).unwrap();
    let (start, length) = (scenario.start, scenario.length.as_secs());
    let mut all: Vec<(Series, Vec<Option<f64>>)> =
        ways.iter().map(|_| (Series::only(names.clone()), Vec::new())).collect();
    for (time, frame) in Player::new(scenario, Thresholds::default(), ("0", "0")) {
        for (way, (series, up)) in ways.iter().zip(&mut all) {
            let at = time.as_secs();
            let over = way.dies.is_some_and(|(from, _)| at >= from);
            if over || at < way.phase || (at - way.phase) % way.every != 0 {
                continue;
            }
            up.push(Some(if frame.is_some() { 1.0 } else { 0.0 }));
            match &frame {
                Some(frame) => series.scrape(frame, &SCRAPED),
                None => series.silence(start + time),
            }
        }
    }
    let text = |(way, (mut series, mut up)): (&Scrapes, (Series, Vec<Option<f64>>))| {
        let mut seconds = length;
        if let Some((from, silent)) = way.dies {
            seconds = from + silent;
            for at in (from..seconds).step_by(usize::try_from(way.every).unwrap()) {
                series.silence(start + Duration::from_secs(at));
                up.push(Some(0.0));
            }
        }
        let input = series.promtool(Duration::from_secs(way.every), &SCRAPED, &up);
        Scraped { input, seconds: seconds - way.phase, every: way.every }
    };
    ways.iter().zip(all).map(text).collect()
}

/// What promtool prints of a test file.
pub fn run(rules: &str, test: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("rules.yml"), rules).unwrap();
    fs::write(dir.path().join("test.yml"), test).unwrap();
    let out = Command::new(tool("promtool"))
        .args(["test", "rules", "test.yml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

/// A test file's beginning: its input, as the only test.
pub fn test_of(scraped: &Scraped) -> String {
    let mut lines = scraped.input.lines();
    let mut out = format!(
        "rule_files: [rules.yml]\nevaluation_interval: {}s\ntests:\n  - {}\n",
        scraped.every,
        lines.next().unwrap()
    );
    for line in lines {
        let _ = writeln!(out, "    {line}");
    }
    out
}

/// One series of an answer: its labels and value.
type Got = (BTreeMap<String, String>, f64);

/// `{a="b", ...} 1.5E+01, {...} 2`
fn series(text: &str) -> Vec<Got> {
    let mut all = Vec::new();
    for part in text.split('{').skip(1) {
        let (labels, value) = part.rsplit_once("} ").unwrap_or_else(|| panic!("{text}"));
        let pairs = labels.split("\", ").filter_map(|pair| pair.split_once("=\""));
        let labels = pairs
            .map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()))
            .collect();
        let value = value.trim().trim_end_matches(',').parse().unwrap_or_else(|_| panic!("{text}"));
        all.push((labels, value));
    }
    all
}

/// Name and severity.
pub type Which = (String, String);

/// When each alert fired, first and last, in seconds of the scrapes.
pub fn firing(rules: &str, scraped: &Scraped) -> BTreeMap<Which, (f64, f64)> {
    let (every, seconds) = (scraped.every, scraped.seconds);
    let last = seconds - seconds % every;
    let mut test = test_of(scraped) + "    promql_expr_test:\n";
    // In pieces, for promtool takes only so many samples at once.
    let mut from = 0;
    while from < last {
        let until = last.min(from + 3600);
        let over = until - from;
        for fold in ["min", "max"] {
            let _ = write!(
                test,
                "      - expr: '{fold} by (alertname, severity) ({fold}_over_time(timestamp(ALERTS{{alertstate=\"firing\"}})[{over}s:{every}s]))'\n        eval_time: {until}s\n"
            );
        }
        from = until;
    }
    let said = run(rules, &test);
    assert!(said.contains("SUCCESS") || said.contains("got:"), "{said}");
    let mut found: BTreeMap<Which, (f64, f64)> = BTreeMap::new();
    let got = said.lines().filter_map(|line| line.trim().strip_prefix("got: "));
    for (labels, at) in got.flat_map(series) {
        let key = (labels["alertname"].clone(), labels["severity"].clone());
        let known = found.entry(key).or_insert((at, at));
        *known = (known.0.min(at), known.1.max(at));
    }
    found
}

/// What the alerts of these names say at these seconds: labels and annotations, as promtool prints them.
pub fn notices(rules: &str, scraped: &Scraped, wanted: &[(&str, f64)]) -> String {
    let mut test = test_of(scraped) + "    alert_rule_test:\n";
    for (name, at) in wanted {
        let _ = write!(
            test,
            "      - eval_time: {at}s\n        alertname: {name}\n        exp_alerts: []\n"
        );
    }
    run(rules, &test)
}

/// The labels of the critical alerts that fire at this second.
pub fn firing_labels(rules: &str, scraped: &Scraped, at: u64) -> Vec<BTreeMap<String, String>> {
    let mut test = test_of(scraped) + "    promql_expr_test:\n";
    let _ = write!(
        test,
        "      - expr: 'count without (alertstate) (ALERTS{{alertstate=\"firing\",severity=\"critical\"}})'\n        eval_time: {at}s\n"
    );
    let said = run(rules, &test);
    let got = said.lines().filter_map(|line| line.trim().strip_prefix("got: "));
    got.flat_map(series).map(|(labels, _)| labels).collect()
}
