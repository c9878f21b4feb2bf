//! The rule files: what is committed, what they may select, their runbooks, and the command that prints them.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

use gb10_exporter::catalog::{self, Kind, Metric};
use gb10_exporter::rules::{self, Format, Group, Options, RECORDS, render};
use gb10_exporter::thresholds::Thresholds;
use promql_parser::label::MatchOp;
use promql_parser::parser::{self, Expr, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{captures, exporter, golden, root, tool};

/// The usual rules, and each optional group in a file of its own.
fn files() -> Vec<(String, Vec<Group>)> {
    let usual = Group::ALL.iter().copied().filter(|g| !g.optional()).collect();
    let optional = Group::ALL.iter().copied().filter(|g| g.optional());
    let mut all = vec![("gb10".to_owned(), usual)];
    all.extend(optional.map(|group| (group.as_str().to_owned(), vec![group])));
    all
}

const HEADER: &str = "# Generated from the table in src/rules by `make docs`. Do not edit: `gb10-exporter rules` prints them with other\n\
                      # thresholds, labels and addresses.\n";

#[test]
fn the_committed_rules_are_those_of_the_table() {
    for (name, groups) in files() {
        let text = render(&groups, &Options::default(), Format::Prometheus).unwrap();
        golden(&format!("alerts/{name}.rules.yml"), &format!("{HEADER}{text}"));
    }
}

fn printed(args: &[&str]) -> String {
    let out = exporter().arg("rules").args(args).output().expect("runs");
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn check(text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules.yml");
    fs::write(&path, text).unwrap();
    let out = Command::new(tool("promtool"))
        .args(["check", "rules", "--lint-fatal"])
        .arg(&path)
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("SUCCESS"), "{said}\n{text}");
}

#[test]
fn what_the_command_prints_passes_promtool() {
    let plain = printed(&[]);
    assert_eq!(
        fs::read_to_string(root().join("alerts/gb10.rules.yml")).unwrap(),
        format!("{HEADER}{plain}")
    );
    check(&plain);
    let other = printed(&[
        "--job",
        "spark",
        "--label",
        "team=ml",
        "--label",
        "site=lab",
        "--runbook-base",
        "https://wiki.example/run/",
        "--dashboard-base",
        "https://grafana.example/",
        "--set",
        "alert.board_hot=88C",
        "--set",
        "pool.reserve=6GiB",
        "--scale-durations",
        "0.01",
        "--with",
        "vllm",
        "--with",
        "ping",
        "--with",
        "fleet",
    ]);
    check(&other);
    for has in [
        "gb10_board_temperature_celsius{job=\"spark\"} >= 88\n",
        "up{job=\"spark\"} == 0",
        "team: ml",
        "site: lab",
        "https://wiki.example/run/GB10BoardHot.md",
        "https://grafana.example/d/gb10-box?viewPanel=23",
        "for: 6s",
        "GB10VllmFrozen",
    ] {
        assert!(other.contains(has), "no {has} in\n{other}");
    }
    assert!(!plain.contains("Vllm") && !plain.contains("Fleet"));
    let only = printed(&["--with", "fleet", "--only"]);
    assert!(only.contains("GB10FleetUnitFails") && !only.contains("GB10Xid"));
}

/// The operator's resource holds the same groups, under `spec`.
#[test]
fn the_kubernetes_form_holds_the_same_rules() {
    let plain: serde_yaml::Value = serde_yaml::from_str(&printed(&[])).unwrap();
    let resource: serde_yaml::Value =
        serde_yaml::from_str(&printed(&["--format", "kubernetes"])).unwrap();
    assert_eq!(resource["apiVersion"], "monitoring.coreos.com/v1");
    assert_eq!(resource["kind"], "PrometheusRule");
    assert_eq!(resource["metadata"]["name"], "gb10-exporter");
    assert_eq!(resource["spec"], plain);
    check(&serde_yaml::to_string(&resource["spec"]).unwrap());
}

#[test]
fn wrong_options_are_refused_with_what_was_expected() {
    for (args, code, says) in [
        (&["--set", "alert.board_hot=hot"][..], 2, "expected a number"),
        (&["--set", "alert.board_hit=90C"], 2, "alert.board_hit"),
        (&["--set", "alert.board_hot"], 64, "expected NAME=VALUE"),
        (&["--set", "pool.exhaustion_level=1GiB"], 2, "must be above the reserve"),
        (&["--label", "severity=low"], 64, "is set by the rule"),
        (&["--label", "my-team=a"], 64, "expected letters, digits and _"),
        (&["--label", "team=a\"b"], 64, "without quotation marks"),
        (&["--job", ""], 64, "without quotation marks"),
        (&["--scale-durations", "0"], 64, "expected 0.001 to 1000"),
        (&["--with", "vlm"], 64, "possible values: vllm, ping, fleet"),
        (&["--format", "json"], 64, "possible values: prometheus, kubernetes"),
        (&["--only"], 64, "--with"),
    ] {
        let out = exporter().arg("rules").args(args).output().expect("runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says) && out.stdout.is_empty(), "{args:?}: {said}");
    }
}

/// Selectors of an expression, each with the function around it; and its numbers.
#[derive(Default)]
struct Seen {
    function: Vec<String>,
    selectors: Vec<(VectorSelector, String)>,
    numbers: Vec<f64>,
}

impl ExprVisitor for Seen {
    type Error = ();

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, ()> {
        let function = self.function.last().cloned().unwrap_or_default();
        match expr {
            Expr::Call(call) => self.function.push(call.func.name.to_owned()),
            Expr::VectorSelector(selector) => self.selectors.push((selector.clone(), function)),
            Expr::MatrixSelector(matrix) => self.selectors.push((matrix.vs.clone(), function)),
            Expr::NumberLiteral(number) => self.numbers.push(number.val),
            _ => {}
        }
        Ok(true)
    }

    fn post_visit(&mut self, expr: &Expr) -> Result<bool, ()> {
        if matches!(expr, Expr::Call(_)) {
            self.function.pop();
        }
        Ok(true)
    }
}

/// Every expression of the rules and of the texts, by alert.
fn expressions() -> Vec<(String, String, bool)> {
    let all: Vec<Group> = Group::ALL.to_vec();
    let text = render(&all, &Options::default(), Format::Prometheus).unwrap();
    let parsed: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    let mut found = Vec::new();
    for group in parsed["groups"].as_sequence().unwrap() {
        for rule in group["rules"].as_sequence().unwrap() {
            let name = rule["alert"].as_str().or(rule["record"].as_str()).unwrap().to_owned();
            found.push((name.clone(), rule["expr"].as_str().unwrap().to_owned(), true));
            let said = rule["annotations"]["description"].as_str().unwrap_or_default();
            for query in said.split("printf \"").skip(1) {
                let query = query.split('"').next().unwrap();
                // A number's format, and not a query.
                if query.contains("%[1]q") {
                    found.push((
                        name.clone(),
                        query.replace("%[1]q", "'x'").replace("%[2]q", "'x'"),
                        false,
                    ));
                }
            }
        }
    }
    assert!(found.len() > 100, "{}", found.len());
    found
}

/// Label values that scrapes have: those of every capture and of some stories.
fn values() -> BTreeSet<(String, String, String)> {
    let mut text: String = captures()
        .iter()
        .map(|(name, _)| {
            fs::read_to_string(root().join(format!("tests/golden/captures/{name}.metrics")))
                .unwrap()
        })
        .collect();
    for (story, at) in [
        ("no-memory-while-it-loads", "400s"),
        ("restart-loop", "9m"),
        ("engine-left-behind", "5m"),
        ("engine-from-before", "10m"),
        ("cap-lost", "49m"),
        ("training-slows-down", "40m"),
    ] {
        let path = root().join(format!("tests/scenarios/{story}.txt"));
        let out =
            exporter().arg("replay").arg(path).args(["--at", at, "--metrics"]).output().unwrap();
        text += &String::from_utf8(out.stdout).unwrap();
    }
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('{') else { continue };
        for pair in rest.rsplit_once('}').unwrap().0.split("\",") {
            let (label, value) = pair.split_once("=\"").unwrap();
            found.insert((
                name.to_owned(),
                label.to_owned(),
                value.trim_end_matches('"').to_owned(),
            ));
        }
    }
    found
}

/// A misspelt name or label selects nothing, and a rule that selects nothing is silent for ever.
#[test]
fn every_selector_selects_what_is_exported() {
    let metrics: BTreeMap<&str, &Metric> = catalog::all().map(|m| (m.name, m)).collect();
    let values = values();
    let foreign = ["up", "probe_success"];
    for (alert, text, _) in expressions() {
        let expression = parser::parse(&text).unwrap_or_else(|e| panic!("{alert}: {e}: {text}"));
        let mut seen = Seen::default();
        walk_expr(&mut seen, &expression).unwrap();
        assert!(!seen.selectors.is_empty(), "{alert}: {text}");
        for (selector, function) in seen.selectors {
            let name =
                selector.name.clone().unwrap_or_else(|| panic!("{alert}: no name in {text}"));
            if foreign.contains(&name.as_str())
                || name.starts_with("vllm:")
                || RECORDS.iter().any(|r| r.name == name)
            {
                continue;
            }
            let metric =
                metrics.get(name.as_str()).unwrap_or_else(|| panic!("{alert}: no metric {name}"));
            let counted = ["rate", "increase", "resets"].contains(&function.as_str());
            // A number that nobody expected begins with its first error.
            let begins = name == catalog::metrics::GPU_XID_ERRORS_TOTAL.name
                // Only whether it is there is asked.
                || [format!("unless {name}"), format!("and\n{name}")].iter().any(|w| text.contains(w));
            assert!(
                metric.kind != Kind::Counter || counted || begins || function == "last_over_time",
                "{alert}: {name} counts, and is under {function:?}"
            );
            assert!(metric.kind == Kind::Counter || !counted, "{alert}: {name} does not count");
            for matcher in &selector.matchers.matchers {
                let label = matcher.name.as_str();
                if label == "job" || label == "instance" {
                    continue;
                }
                assert!(metric.labels.contains(&label), "{alert}: {name} has no label {label}");
                // Numbers are no closed set, and a run is called as its owner calls it.
                if label == "xid" || label == "run" {
                    continue;
                }
                assert!(!matches!(matcher.op, MatchOp::NotRe(_)), "{alert}: {text}");
                for value in matcher.value.split('|') {
                    let known = (name.clone(), label.to_owned(), value.to_owned());
                    assert!(values.contains(&known), "{alert}: {name} never has {label}={value:?}");
                }
            }
        }
    }
}

/// Numbers that decide come from the table of thresholds; others are arithmetic.
#[test]
fn every_number_is_a_threshold() {
    // Flags, factors of units, counts of two, and the hour after a boot.
    let plain = [0.0, 0.5, 1.0, 2.0, 20.0, 30.0, 3600.0];
    let gib = 1_073_741_824.0;
    let known: Vec<f64> = Thresholds::ROWS
        .iter()
        .map(|row| (row().get)(&Thresholds::default()))
        .flat_map(|n| [n, n / gib, n * 1024.0 / gib, n - 0.5, n / 3600.0])
        .chain(plain)
        .collect();
    for (alert, text, is_rule) in expressions() {
        let mut seen = Seen::default();
        walk_expr(&mut seen, &parser::parse(&text).unwrap()).unwrap();
        for number in seen.numbers.into_iter().filter(|_| is_rule) {
            assert!(
                known.iter().any(|known| (known - number).abs() < 1e-9),
                "{alert}: {number} is no threshold, in {text}"
            );
        }
    }
}

/// Rules on other programs' series, on several boxes, and on none at all.
#[test]
fn optional_rules_fire_and_are_silent() {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<Group> = Group::ALL.to_vec();
    let rules = render(&all, &Options::default(), Format::Prometheus).unwrap();
    fs::write(dir.path().join("rules.yml"), rules).unwrap();
    let test = fs::read_to_string(root().join("tests/rules/optional.yml")).unwrap();
    fs::write(dir.path().join("optional.yml"), &test).unwrap();
    let out = Command::new(tool("promtool"))
        .args(["test", "rules", "optional.yml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("SUCCESS"), "{said}");
    // promtool passes a name that no rule has: each must be there, and fire at least once.
    for alert in rules::all().filter(|alert| alert.group.optional()) {
        let fires = format!("alertname=\"{}\"", alert.name.as_str());
        assert!(test.contains(&fires), "{} never fires", alert.name.as_str());
    }
    for line in test.lines().filter(|line| line.contains("alertname=\"")) {
        let name = line.split("alertname=\"").nth(1).unwrap().split('"').next().unwrap();
        assert!(rules::all().any(|alert| alert.name.as_str() == name), "no alert {name}");
    }
}

fn runbooks() -> BTreeMap<String, String> {
    fs::read_dir(root().join("alerts/runbooks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (stem(&path), fs::read_to_string(&path).unwrap()))
        .collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

const SECTIONS: [&str; 5] =
    ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation", "## False alarms"];

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let books = runbooks();
    let alerts: BTreeSet<&str> = rules::all().map(|alert| alert.name.as_str()).collect();
    assert_eq!(books.keys().map(String::as_str).collect::<BTreeSet<_>>(), alerts);
    let metrics: BTreeSet<&str> = catalog::all().map(|m| m.name).collect();
    for (name, text) in &books {
        assert!(text.starts_with(&format!("# {name}\n")), "{name}");
        let found: Vec<&str> = text.lines().filter(|l| l.starts_with("## ")).collect();
        assert_eq!(found, SECTIONS, "{name}");
        for section in text.split("\n## ").skip(1) {
            assert!(section.lines().count() > 3, "{name}: {section}");
        }
        assert!(text.lines().count() <= 120, "{name} is long for three in the morning");
        assert!(text.matches("```sh").count() > 0, "{name} has nothing to type");
        assert!(!text.to_lowercase().contains("todo"), "{name}");
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        for metric in text.split(word).filter(|w| w.starts_with("gb10_") && w.len() > 6) {
            let known = metrics.contains(metric) || metrics.iter().any(|m| m.starts_with(metric));
            assert!(known, "{name} names {metric}");
        }
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let book = link.strip_suffix(".md").unwrap_or_else(|| panic!("{name} leads to {link}"));
            assert!(books.contains_key(book), "{name} leads to {link}");
        }
    }
}

/// Each command of ours in a runbook is one that the command line takes.
#[test]
fn commands_in_runbooks_are_commands() {
    let mut tried = 0;
    for (name, text) in runbooks() {
        let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        for line in blocks.flat_map(str::lines) {
            let line = line.trim();
            let Some(rest) =
                line.strip_prefix("sudo ").unwrap_or(line).strip_prefix("gb10-exporter ")
            else {
                continue;
            };
            let words: Vec<&str> = rest
                .split('|')
                .next()
                .unwrap()
                .split_whitespace()
                .map(|w| w.trim_matches('\''))
                .collect();
            let parsed = gb10_exporter::cli::command().try_get_matches_from(
                std::iter::once("gb10-exporter").chain(words.iter().copied()),
            );
            assert!(parsed.is_ok(), "{name}: {line}: {}", parsed.unwrap_err());
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}

/// In the fixed order: flush between runs, then shorter sequences, then a smaller batch, then the method.
#[test]
fn the_ladder_keeps_its_order() {
    for name in ["GB10PoolExhaustionImminent", "GB10PoolHeadroomLow", "GB10OomKill"] {
        let text = &runbooks()[name];
        let mitigation =
            text.split("## Mitigation").nth(1).unwrap().split("## False").next().unwrap();
        let at =
            |word: &str| mitigation.find(word).unwrap_or_else(|| panic!("{name}: no {word:?}"));
        let (flush, shorter, batch, lora) =
            (at("drop_caches"), at("horter"), at("batch"), at("LoRA"));
        assert!(flush < shorter && shorter < batch && batch < lora, "{name}");
        assert!(at("LoRA") < at("QLoRA"), "{name}");
    }
    let power = &runbooks()["GB10PowerDeliveryFault"];
    assert!(power.contains("wall") && power.contains("minute"), "the drain");
}
