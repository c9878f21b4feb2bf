//! Every alert on every scenario, by the real promtool: what fires when, what must not, what it says.
#![expect(clippy::disallowed_methods, reason = "tests start programs, write files and wait")]

// In one program with the rest: they wait while the rest computes.
#[path = "alerts/notices.rs"]
mod notices;
mod support;

use gb10_exporter::capture::scenario::{Kind, Scenario};
use gb10_exporter::catalog::verdicts;
use gb10_exporter::docs::{self, Lead, Notice, Outcome};
use gb10_exporter::engine::player::Player;
use gb10_exporter::rules::{self, Alert, Severity, Watch};
use gb10_exporter::thresholds::Thresholds;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex};
use support::golden;
use support::promtool::{self, Scrapes, Which, firing, metrics_in, scenario, scenarios, scrapes};

/// Scrapes and evaluations, in seconds.
const EVERY: [u64; 2] = [15, 60];

/// Does something for each of these, two at a time.
fn each<T: Send, R: Send>(todo: Vec<T>, does: impl Fn(T) -> R + Sync) -> Vec<R> {
    let todo = Mutex::new(todo);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = todo.lock().unwrap().pop();
                    let Some(next) = next else { break };
                    let result = does(next);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// Every scenario through the rules, once for all tests here.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(|| {
    let rules = promtool::without_texts();
    let names = metrics_in(&rules);
    let mut all = each(scenarios(), |(name, path)| {
        let scenario = Scenario::load(&path).unwrap();
        let at: Vec<_> = scrapes(&path, &names, &EVERY.map(Scrapes::every))
            .iter()
            .map(|scraped| firing(&rules, scraped))
            .collect();
        let which: BTreeSet<&Which> = at.iter().flat_map(BTreeMap::keys).collect();
        let first = |at: &BTreeMap<Which, (f64, f64)>, key| at.get(key).map(|(first, _)| *first);
        let fired = which
            .into_iter()
            .map(|key| (key.0.clone(), key.1.clone(), [first(&at[0], key), first(&at[1], key)]))
            .collect();
        Outcome { scenario: name, kind: scenario.kind.as_str(), title: scenario.title, fired }
    });
    all.sort_by(|a, b| a.scenario.cmp(&b.scenario));
    all
});

/// Rows whose scenarios are whole boxes; the others are tested with series written by hand.
fn rows() -> impl Iterator<Item = &'static Alert> {
    rules::all().filter(|alert| !alert.group.optional() && alert.fires != ["no-targets"])
}

fn named(alert: &Alert) -> Which {
    (alert.name.as_str().to_owned(), alert.severity.as_str().to_owned())
}

fn fired(outcome: &Outcome, which: &Which) -> Option<[Option<f64>; 2]> {
    let found =
        outcome.fired.iter().find(|(name, severity, _)| (name, severity) == (&which.0, &which.1));
    found.map(|(_, _, at)| *at)
}

/// Fires where its row says so and nowhere else; what is only good to know may be true elsewhere, too.
#[test]
fn every_alert_fires_where_its_row_says_and_is_silent_in_its_near_misses() {
    let mut wrong = Vec::new();
    for alert in rows() {
        let which = named(alert);
        let mut at_a_minute = false;
        for outcome in OUTCOMES.iter() {
            let listed = alert.fires.contains(&outcome.scenario.as_str());
            let near = alert.silent.contains(&outcome.scenario.as_str());
            let at = fired(outcome, &which);
            at_a_minute |= at.is_some_and(|at| at[1].is_some());
            let exact = alert.severity != Severity::Info;
            if listed && at.is_none_or(|at| at[0].is_none()) {
                wrong.push(format!("{which:?} does not fire in {}", outcome.scenario));
            }
            if at.is_some() && (near || exact && !listed) {
                wrong.push(format!("{which:?} fires in {}: {at:?}", outcome.scenario));
            }
        }
        for name in alert.fires.iter().chain(alert.silent) {
            if !OUTCOMES.iter().any(|outcome| outcome.scenario == *name) {
                wrong.push(format!("{which:?}: there is no scenario {name}"));
            }
        }
        if alert.fires.is_empty() || alert.silent.is_empty() || !at_a_minute {
            wrong.push(format!("{which:?} needs both kinds, and one that a scrape a minute sees"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_scenario_is_in_some_row() {
    for (name, _) in scenarios() {
        let told = rules::all().any(|a| a.fires.iter().chain(a.silent).any(|s| *s == name));
        assert!(told, "{name} proves nothing about any alert");
    }
}

/// What is well must not page anybody.
#[test]
fn what_is_well_is_silent() {
    for name in [
        "full-and-healthy",
        "full-at-ninety",
        "trainer-beside-server",
        "training-beside-serving",
        "no-memory-while-it-loads",
        "starts-and-no-memory",
        "idle-day",
        "load-that-fits",
        "page-pools",
        "heating-up",
    ] {
        let outcome = OUTCOMES.iter().find(|outcome| outcome.scenario == name).unwrap();
        let above: Vec<_> = outcome.fired.iter().filter(|(_, s, _)| s != "info").collect();
        assert!(above.is_empty(), "{name}: {above:?}");
    }
}

/// The seconds of a scenario at which the exporter itself would tell of each critical alert first.
fn own(path: &std::path::Path) -> BTreeMap<Which, f64> {
    let mut watch = Watch::default();
    let mut first = BTreeMap::new();
    let player = Player::new(Scenario::load(path).unwrap(), Thresholds::default(), ("0", "0"));
    for (time, frame) in player {
        let Some(frame) = frame else { continue };
        for holding in watch.step(&frame) {
            first.entry(named(holding.alert)).or_insert(time.as_secs_f64());
        }
    }
    first
}

/// How long before the recorded end, for raw scenarios that have one.
static LEADS: LazyLock<Vec<Lead>> = LazyLock::new(|| {
    let rules = promtool::without_texts();
    let names = metrics_in(&rules);
    let mut leads = Vec::new();
    for (name, path) in scenarios() {
        let scenario = Scenario::load(&path).unwrap();
        let (Kind::Raw, Some(end)) = (scenario.kind, scenario.end) else { continue };
        let end = end.as_secs_f64();
        let ways = |every| (0..every).map(move |phase| Scrapes { every, phase, dies: None });
        let all: Vec<Scrapes> = ways(15).chain(ways(5)).collect();
        let scraped = scrapes(&path, &names, &all).into_iter().zip(&all).collect();
        let at = each(scraped, |(scraped, way): (_, &Scrapes)| {
            #[expect(clippy::cast_precision_loss, reason = "below fifteen")]
            let phase = way.phase as f64;
            let first = |(which, (first, _)): (Which, (f64, f64))| (which, first + phase);
            (way.every, firing(&rules, &scraped).into_iter().map(first).collect::<BTreeMap<_, _>>())
        });
        let own = own(&path);
        let which: BTreeSet<Which> =
            at.iter().flat_map(|(_, at)| at.keys().cloned()).chain(own.keys().cloned()).collect();
        for which in which.into_iter().filter(|(_, severity)| severity != "info") {
            let spread = |every: u64| {
                let of = at.iter().filter(|(e, _)| *e == every).map(|(_, at)| at.get(&which));
                let mut leads: Vec<f64> = of.map(|at| Some(end - at?)).collect::<Option<_>>()?;
                leads.sort_by(f64::total_cmp);
                Some((leads[0], leads[leads.len() / 2]))
            };
            leads.push(Lead {
                scenario: name.clone(),
                alert: which.0.clone(),
                end,
                fifteen: spread(15),
                five: spread(5),
                own: own.get(&which).map(|at| end - at),
            });
        }
    }
    leads
});

/// The verdict is there before the recorded server is gone, by two looks at least.
#[test]
fn the_verdict_comes_before_the_recorded_end() {
    let path = scenario("startup-collapse-recorded");
    let scenario = Scenario::load(&path).unwrap();
    let end = scenario.end.unwrap();
    let mut player = Player::new(scenario, Thresholds::default(), ("0", "0"));
    let said = |frame| {
        verdicts::of(&frame)
            .iter()
            .any(|(name, state, _)| name == "pool.imminent" && *state == "yes")
    };
    let (at, _) = player.find(|(_, frame)| frame.clone().is_some_and(said)).unwrap();
    assert!(at + std::time::Duration::from_secs(2) <= end, "{at:?}, and it ended at {end:?}");
    let leads: Vec<_> =
        LEADS.iter().filter(|l| l.scenario == "startup-collapse-recorded").collect();
    assert_eq!(leads.len(), 1, "one alert tells of it");
    assert!(leads[0].own.unwrap() > 0.0, "the exporter's own notice leaves in time");
}

/// A box that falls silent while it is in trouble does not look cured, and it is told that it is silent.
#[test]
fn a_dying_box_does_not_look_cured() {
    let rules = promtool::without_texts();
    let names = metrics_in(&rules);
    let dying: BTreeSet<Which> = rows().filter(|a| a.outlives > 0).map(named).collect();
    let mut proven = BTreeSet::new();
    let stories = vec![
        ("fourth-container", 165_u64),
        ("heat-costs-time", 2400),
        ("hardware-slows-down", 3300),
        ("power-not-delivered", 600),
        ("two-hundred-lines", 270),
    ];
    let seen = each(stories, |(name, dies)| {
        let way = Scrapes { every: 15, phase: 0, dies: Some((dies, 3600)) };
        let scraped = scrapes(&scenario(name), &names, &[way]);
        (name, dies, firing(&rules, &scraped[0]))
    });
    for (name, dies, fired) in seen {
        let down = ("GB10ExporterDown".to_owned(), "critical".to_owned());
        assert!(fired.contains_key(&down), "{name}: nobody is told that it is silent");
        for (which, (first, last)) in fired.iter().filter(|(which, _)| dying.contains(*which)) {
            #[expect(clippy::cast_precision_loss, reason = "thousands")]
            let dies = dies as f64;
            assert!(*first <= dies, "{name}: {which:?} begins with the silence");
            let after = last - dies;
            assert!((1700.0..2500.0).contains(&after), "{name}: {which:?} goes on for {after} s");
            proven.insert(which.clone());
        }
    }
    assert_eq!(proven, dying);
}

/// The exporter's own notice has the labels of the rule's alert, or Alertmanager would take them for two.
#[test]
fn the_exporters_own_notices_have_the_rules_labels() {
    let rules = promtool::without_texts();
    let names = metrics_in(&rules);
    let mut seen = BTreeSet::new();
    for (name, at) in [
        ("fourth-container", 165_u64),
        ("hardware-slows-down", 3300),
        ("power-not-delivered", 600),
        ("lines-in-service", 1395),
        ("driver-says-xid", 2760),
    ] {
        let path = scenario(name);
        let scraped = scrapes(&path, &names, &[Scrapes::every(15)]);
        let by_rule: BTreeSet<_> = promtool::firing_labels(&rules, &scraped[0], at)
            .into_iter()
            .filter(|labels| labels["alertname"] != "GB10ExporterDown")
            .collect();
        let mut watch = Watch::default();
        let mut player =
            Player::new(Scenario::load(&path).unwrap(), Thresholds::default(), ("0", "0"));
        let (mut held, mut words) = (Vec::new(), Vec::new());
        for (time, frame) in &mut player {
            let Some(frame) = frame else { continue };
            held = watch.step(&frame);
            words = held.iter().map(|holding| holding.evidence(&frame)).collect::<Vec<_>>();
            if time.as_secs() == at {
                break;
            }
        }
        let own: BTreeSet<BTreeMap<String, String>> = held
            .iter()
            .map(|holding| {
                let labels = holding.labels.iter().map(|(n, v)| ((*n).to_owned(), v.clone()));
                let (alert, severity) = named(holding.alert);
                labels
                    .chain([("alertname".to_owned(), alert), ("severity".to_owned(), severity)])
                    .chain(promtool::SCRAPED.map(|(n, v)| (n.to_owned(), v.to_owned())))
                    .collect()
            })
            .collect();
        assert_eq!(own, by_rule, "{name}");
        assert!(words.iter().all(|words| words.contains("First: ")), "{name}: what to do first");
        seen.extend(own.iter().map(|labels| labels["alertname"].clone()));
    }
    let fast = rows()
        .filter(|a| a.severity == Severity::Critical && a.name.as_str() != "GB10ExporterDown");
    let fast: BTreeSet<String> = fast.map(|a| a.name.as_str().to_owned()).collect();
    assert_eq!(seen, fast);
}

/// A driver that hangs while heat or a burst is told of is not the end of them, for the rule or for the exporter.
#[test]
fn a_driver_that_hangs_ends_nothing() {
    let rules = promtool::without_texts();
    let names = metrics_in(&rules);
    let text = std::fs::read_to_string(scenario("hardware-slows-down")).unwrap();
    let text = text
        .replace("../captures/", &format!("{}/tests/captures/", support::root().display()))
        .replace("==> expect", "55m lane gpu hangs 20m\n\n==> expect")
        .lines()
        .filter(|line| !line.starts_with("55m    gpu.throttle") && !line.starts_with("60m"))
        .flat_map(|line| [line, "\n"])
        .collect::<String>();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("story.txt");
    std::fs::write(&path, text).unwrap();
    let scraped = scrapes(&path, &names, &[Scrapes::every(15)]);
    let fired = firing(&rules, &scraped[0]);
    for severity in ["critical", "warning"] {
        let (_, last) = fired[&("GB10ThermalThrottling".to_owned(), severity.to_owned())];
        assert!(last > 70.0 * 60.0, "{severity} ends at {last} s");
    }
    let mut watch = Watch::default();
    let player = Player::new(Scenario::load(&path).unwrap(), Thresholds::default(), ("0", "0"));
    for (time, frame) in player.filter(|(time, _)| time.as_secs() < 70 * 60) {
        let held = watch.step(&frame.unwrap());
        let hot = held.iter().any(|h| h.alert.name.as_str() == "GB10ThermalThrottling");
        assert!(hot || time.as_secs() < 53 * 60, "the exporter says that it is over at {time:?}");
    }
}

/// What each alert says where it fires first: its texts as a person gets them.
static NOTICES: LazyLock<Vec<Notice>> = LazyLock::new(|| {
    let rules = promtool::rules();
    let names = metrics_in(&rules);
    let mut wanted: BTreeMap<&str, Vec<(Which, f64)>> = BTreeMap::new();
    for alert in rows() {
        let which = named(alert);
        let at = |name: &&&str| {
            let outcome = OUTCOMES.iter().find(|outcome| outcome.scenario == **name)?;
            fired(outcome, &which)?[0]
        };
        let first = alert
            .fires
            .iter()
            .min_by(|a, b| at(a).unwrap_or(f64::MAX).total_cmp(&at(b).unwrap_or(f64::MAX)));
        if let Some((name, at)) = first.and_then(|name| Some((*name, at(&name)?))) {
            wanted.entry(name).or_default().push((which, at));
        }
    }
    let mut all = each(wanted.into_iter().collect(), |(name, wanted)| {
        let scraped = scrapes(&scenario(name), &names, &[Scrapes::every(15)]);
        let ask: Vec<_> = wanted.iter().map(|((name, _), at)| (name.as_str(), *at)).collect();
        let said = promtool::notices(&rules, &scraped[0], &ask);
        let found = |((alert, severity), _): &(Which, f64)| {
            let labels = format!("severity=\"{severity}\"");
            let at = said
                .lines()
                .position(|l| {
                    l.contains("Labels:{")
                        && l.contains(&labels)
                        && l.contains(&format!("\"{alert}\""))
                })
                .unwrap_or_else(|| panic!("{alert} {severity} in {name}: {said}"));
            let annotations = said.lines().nth(at + 1).unwrap();
            let text = annotations.split_once("description=\"").unwrap().1;
            let text = text.split_once("\", runbook_url=").unwrap().0.replace("\\\"", "\"");
            Notice {
                alert: alert.clone(),
                severity: severity.clone(),
                scenario: name.to_owned(),
                text,
            }
        };
        wanted.iter().map(found).collect::<Vec<_>>()
    })
    .concat();
    all.sort_by(|a, b| (&a.alert, &a.severity).cmp(&(&b.alert, &b.severity)));
    all
});

#[test]
fn what_alerts_say_has_no_hole_in_it() {
    assert_eq!(NOTICES.len(), rows().count());
    for notice in NOTICES.iter() {
        let text = &notice.text;
        assert!(text.contains("box"), "{} does not say which box: {text}", notice.alert);
        assert!(text.len() < 900, "{} is a book: {text}", notice.alert);
        for hole in ["<error", "<no value>", "%!", "NaN", "{{", "}}", "  "] {
            assert!(!text.contains(hole), "{}: {hole:?} in {text}", notice.alert);
        }
    }
}

#[test]
fn the_reference_says_what_was_measured() {
    golden("docs/ALERTS.md", &docs::alerts(&OUTCOMES, &LEADS, &NOTICES));
}
