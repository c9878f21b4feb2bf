//! The dashboards as they are written: Grafana's own types, the rules of its linter, and that every query
//! asks for what the metric table has. No browser, no Grafana.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

#[path = "support/boards.rs"]
mod boards;
#[path = "support/schema.rs"]
mod schema;

use boards::{annotations, json, name, panels, selectors, targets};
use gb10_exporter::catalog::links::{AlertName, Board, Panel, RUNBOOK_BASE};
use gb10_exporter::catalog::{self, Metric, Stability};
use gb10_exporter::grafana::unplotted::UNPLOTTED;
use gb10_exporter::model::fields;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use support::{exporter, root};

/// Series that Prometheus makes itself, with their labels.
const FOREIGN: [(&str, &[&str]); 2] =
    [("up", &[]), ("ALERTS", &["alertname", "alertstate", "severity"])];
/// Labels that queries make by label_replace.
const MADE: [&str; 3] = ["driver", "exporter", "of"];

fn all() -> Vec<(Board, Value)> {
    Board::ALL.iter().map(|board| (*board, json(*board))).collect()
}

/// Every query: where it stands, and its text.
fn queries() -> Vec<(String, String)> {
    let mut all_of_them = Vec::new();
    for (board, dashboard) in all() {
        for panel in panels(&dashboard) {
            for (letter, query) in targets(panel) {
                let at = format!("{} {} {letter}", board.as_str(), name(panel));
                all_of_them.push((at, query.to_owned()));
            }
        }
        for query in annotations(&dashboard) {
            all_of_them.push((format!("{} annotation", board.as_str()), query.to_owned()));
        }
    }
    assert!(all_of_them.len() > 150, "found {} queries", all_of_them.len());
    all_of_them
}

fn metrics() -> BTreeMap<&'static str, &'static Metric> {
    catalog::all().map(|metric| (metric.name, metric)).collect()
}

#[test]
fn they_are_what_grafanas_types_say() {
    let text = fs::read_to_string(root().join("tests/schema/dashboard.json")).unwrap();
    let rules: Value = serde_json::from_str(&text).unwrap();
    for (board, dashboard) in all() {
        let wrong = schema::wrong(&dashboard, &rules, &rules, board.as_str());
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let mut spoilt = dashboard.clone();
        spoilt["panels"][0]["fieldConfig"]["defaults"]["unti"] = "watt".into();
        spoilt["panels"][1]["gridPos"]["w"] = "wide".into();
        let wrong = schema::wrong(&spoilt, &rules, &rules, board.as_str());
        assert!(wrong.iter().any(|w| w.contains("unti")), "{wrong:?}");
        assert!(wrong.iter().any(|w| w.contains("wide")), "{wrong:?}");
    }
}

#[test]
fn numbers_are_unique_and_nothing_overlaps() {
    for (board, dashboard) in all() {
        assert_eq!(dashboard["uid"], board.as_str());
        assert!((8..=40).contains(&board.as_str().len()));
        assert_eq!(dashboard["id"], Value::Null);
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in dashboard["panels"].as_array().unwrap() {
            let at = name(panel);
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{at} has the number of another");
            let [x, y, w, h] =
                ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
            assert!(w > 0 && h > 0 && x + w <= 24, "{at} does not fit: {}", panel["gridPos"]);
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(taken.insert(cell), "{at} overlaps at {cell:?}");
            }
        }
        for place in Panel::ALL.iter().filter(|place| place.board() == board) {
            assert!(ids.contains(&u64::from(place.id())), "no panel {place:?}");
        }
    }
}

/// The rules of Grafana's dashboard-linter on templates: data source, job and instance.
#[test]
fn variables_are_as_the_linter_wants_them() {
    for (board, dashboard) in all() {
        let list = dashboard["templating"]["list"].as_array().unwrap();
        let variable = |name: &str| {
            let found: Vec<_> = list.iter().filter(|v| v["name"] == name).collect();
            assert_eq!(found.len(), 1, "{} {name}", board.as_str());
            found[0]
        };
        let source = variable("datasource");
        assert_eq!(
            (&source["type"], &source["query"]),
            (&"datasource".into(), &"prometheus".into())
        );
        assert_eq!(source["label"], "Data source");
        for (name, label) in [("job", "Job"), ("instance", "Instance")] {
            let v = variable(name);
            assert_eq!((&v["type"], &v["label"]), (&"query".into(), &label.into()));
            assert_eq!((&v["multi"], &v["includeAll"]), (&true.into(), &true.into()));
            assert_eq!(v["allValue"], ".+");
        }
        for v in list.iter().filter(|v| v["type"] == "query") {
            assert_eq!(v["refresh"], 2, "{v}");
            assert_eq!(v["datasource"]["uid"], "${datasource}");
            let query = v["query"]["query"].as_str().unwrap();
            let inner = query.strip_prefix("label_values(").and_then(|q| q.strip_suffix(')'));
            let (series, label) = inner.unwrap().rsplit_once(", ").unwrap();
            let (found, _) = selectors(series);
            known(&found[0], query);
            let metric = metrics().get(found[0].metric.as_str()).copied();
            let own = metric.is_some_and(|metric| metric.labels.contains(&label));
            assert!(own || ["job", "instance"].contains(&label), "{query}");
        }
        assert_eq!(dashboard["editable"], false);
        assert!((39..=42).contains(&dashboard["schemaVersion"].as_u64().unwrap()));
    }
}

/// The rules of the linter on panels: data source, title, description, unit, queries.
#[test]
fn panels_are_as_the_linter_wants_them() {
    let units = fs::read_to_string(root().join("tests/schema/units.txt")).unwrap();
    let units: BTreeSet<&str> = units.lines().collect();
    assert!(units.contains("bytes") && units.len() > 200);
    let kinds = ["stat", "timeseries", "state-timeline", "table"];
    for (board, dashboard) in all() {
        for panel in panels(&dashboard) {
            let at = format!("{} {}", board.as_str(), name(panel));
            assert!(kinds.contains(&panel["type"].as_str().unwrap()), "{at}: {}", panel["type"]);
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{at}");
            assert!(!panel["title"].as_str().unwrap().is_empty(), "{at}");
            let says = panel["description"].as_str().unwrap();
            assert!(
                says.contains("normal") && says.ends_with('.'),
                "{at} does not say what is normal"
            );
            let fields = &panel["fieldConfig"];
            assert!(
                !fields["defaults"]["noValue"].as_str().unwrap().is_empty(),
                "{at}: empty is mute"
            );
            let overrides = fields["overrides"].as_array().unwrap().iter();
            let more = overrides.flat_map(|o| o["properties"].as_array().unwrap());
            let more = more.filter(|p| p["id"] == "unit").map(|p| &p["value"]);
            for unit in more.chain([&fields["defaults"]["unit"]]) {
                assert!(units.contains(unit.as_str().unwrap()), "{at}: unit {unit}");
            }
            assert!(!targets(panel).is_empty(), "{at} asks for nothing");
        }
    }
}

/// The rules of the linter on queries: they parse, are of the chosen jobs and instances, rates go by
/// Grafana's interval, counters are only looked at as they grow.
#[test]
fn queries_are_as_the_linter_wants_them() {
    for (at, query) in queries() {
        for range in query.split('[').skip(1) {
            assert!(range.starts_with("$__rate_interval]"), "{at}: [{range}");
        }
        for selector in selectors(&query).0 {
            for (label, value) in [("job", "$job"), ("instance", "$instance")] {
                let wanted = (label.to_owned(), "=~".to_owned(), value.to_owned());
                assert!(selector.matchers.contains(&wanted), "{at}: {}", selector.metric);
            }
            let counter = selector.metric.ends_with("_total");
            assert_eq!(counter, selector.grows, "{at}: {}", selector.metric);
        }
    }
}

/// Whether the table has the selector's metric and labels.
fn known(selector: &boards::Selector, at: &str) {
    let labels = metrics().get(selector.metric.as_str()).map(|metric| metric.labels);
    let foreign = FOREIGN.iter().find(|(name, _)| *name == selector.metric).map(|(_, l)| *l);
    let labels =
        labels.or(foreign).unwrap_or_else(|| panic!("{at}: no metric {}", selector.metric));
    for (label, _, value) in &selector.matchers {
        let own = labels.contains(&label.as_str());
        assert!(own || ["job", "instance"].contains(&label.as_str()), "{at}: no label {label}");
        if label == "reading" {
            assert!(fields::all().any(|field| field.id == value), "{at}: no reading {value}");
        }
    }
}

#[test]
fn every_metric_and_label_is_in_the_table() {
    let labels: BTreeSet<&str> = catalog::all().flat_map(|m| m.labels.iter().copied()).collect();
    let foreign: Vec<&str> = FOREIGN.iter().flat_map(|(_, l)| l.iter().copied()).collect();
    for (at, query) in queries() {
        let (found, by) = selectors(&query);
        for selector in &found {
            known(selector, &at);
        }
        for label in by.iter().map(String::as_str) {
            let made = MADE.contains(&label) || foreign.contains(&label) || label == "instance";
            assert!(made || labels.contains(label), "{at}: by {label}");
        }
    }
}

#[test]
fn every_stable_metric_is_shown_or_said_why_not() {
    let shown: BTreeSet<String> =
        queries().iter().flat_map(|(_, q)| selectors(q).0).map(|s| s.metric).collect();
    let left: BTreeMap<&str, &str> = UNPLOTTED.iter().map(|(m, why)| (m.name, *why)).collect();
    for metric in catalog::all() {
        let is_shown = shown.contains(metric.name);
        let why = left.get(metric.name);
        assert!(!(is_shown && why.is_some()), "{} is shown and said not to be", metric.name);
        let must = metric.stability == Stability::Stable;
        assert!(is_shown || why.is_some() || !must, "{} is in no panel", metric.name);
        assert!(why.is_none_or(|why| why.len() > 20), "{}: why?", metric.name);
    }
}

/// A panel that an alert leads to leads to the alert's runbook, and links lead to dashboards that are there.
#[test]
fn links_lead_somewhere() {
    let mut led = BTreeSet::new();
    for (board, dashboard) in all() {
        for panel in panels(&dashboard) {
            let urls: Vec<&str> = panel["links"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|link| link["url"].as_str().unwrap())
                .collect();
            let place = Panel::ALL
                .iter()
                .find(|p| p.board() == board && u64::from(p.id()) == panel["id"].as_u64().unwrap());
            let wanted: Vec<String> = AlertName::ALL
                .iter()
                .filter(|alert| Some(&alert.panel()) == place)
                .map(|alert| format!("{RUNBOOK_BASE}{}.md", alert.as_str()))
                .collect();
            assert_eq!(urls, wanted, "{} {}", board.as_str(), name(panel));
            led.extend(wanted);
        }
        let text = dashboard.to_string();
        for link in text.split("\"/d/").skip(1) {
            let uid = link.split('?').next().unwrap();
            assert!(Board::ALL.iter().any(|board| board.as_str() == uid), "no dashboard {uid}");
        }
    }
    assert_eq!(led.len(), AlertName::ALL.len());
}

/// Lines of one name have one colour everywhere; so have states.
#[test]
fn a_colour_means_the_same_everywhere() {
    let mut colours: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut note = |what: String, colour: &Value, at: &str| {
        let colour = colour.as_str().unwrap().to_owned();
        let (known, first) = colours.entry(what.clone()).or_insert((colour.clone(), at.to_owned()));
        assert_eq!(*known, colour, "{what}: {first} and {at}");
    };
    for (board, dashboard) in all() {
        for panel in panels(&dashboard) {
            let at = format!("{} {}", board.as_str(), name(panel));
            let fields = &panel["fieldConfig"];
            for style in fields["overrides"].as_array().unwrap() {
                let letter = style["matcher"]["options"].as_str().unwrap();
                let colour = style["properties"].as_array().unwrap().iter();
                let Some(colour) = colour.clone().find(|p| p["id"] == "color") else { continue };
                let target = panel["targets"].as_array().unwrap().iter();
                let legend = target.clone().find(|t| t["refId"] == letter);
                let what = legend.map_or(letter, |t| t["legendFormat"].as_str().unwrap());
                note(what.to_owned(), &colour["value"]["fixedColor"], &at);
            }
            for map in fields["defaults"]["mappings"].as_array().unwrap() {
                for state in map["options"].as_object().unwrap().values() {
                    note(format!("state {}", state["text"]), &state["color"], &at);
                }
            }
        }
    }
    assert!(colours.len() > 60, "found {}", colours.len());
}

#[test]
fn the_command_writes_them_and_chooses_the_data_source() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("new/dashboards");
    let run = |command: &mut Command| command.arg("--dir").arg(&to).output().expect("runs");
    let out = run(exporter().args(["dashboards", "--datasource", "prom-1"]));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let files = fs::read_dir(&to).unwrap().count();
    assert_eq!(files, Board::ALL.len());
    for board in Board::ALL {
        let text = fs::read_to_string(to.join(format!("{}.json", board.as_str()))).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        let list = dashboard["templating"]["list"].as_array().unwrap();
        assert_eq!(list[0]["current"]["value"], "prom-1");
        // The choice is the only difference.
        let mut plain = dashboard.clone();
        plain["templating"]["list"][0].as_object_mut().unwrap().remove("current");
        assert_eq!(plain, json(*board));
    }
    let out = run(exporter().args(["dashboards", "--datasource", "two words"]));
    assert_eq!(out.status.code(), Some(64));
    fs::write(dir.path().join("file"), "").unwrap();
    let in_the_way = dir.path().join("file/below");
    let out = exporter().args(["dashboards", "--dir"]).arg(&in_the_way).output().expect("runs");
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("cannot make the directory") && said.contains("file/below"), "{said}");
}
