//! The real binary and a real collector: everything that a scrape shows arrives, under the names that the
//! catalog gives it; and one that misbehaves harms nobody.
#![cfg(feature = "otlp")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and wait")]
#![expect(clippy::float_cmp, reason = "values arrive as they were sent")]

mod support;

#[path = "otlp/endurance.rs"]
mod endurance;
#[path = "otlp/settings.rs"]
mod settings;
#[path = "otlp/tls.rs"]
mod tls;

use gb10_exporter::catalog::otlp::{Form, Instrument, Part, instruments};
use gb10_exporter::catalog::{self, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::otlp::{Export, Point, Rotel, wait_for};
use support::{Exporter, exporter, root};

const PATIENCE: Duration = Duration::from_secs(30);

/// Stories that have between them every metric that a replay can have.
const STORIES: [&str; 7] = [
    "second-job-slows-training",
    "fragmentation",
    "module-at-its-limit",
    "two-hundred-lines",
    "capped-by-owner",
    "engine-from-before",
    "release-after-kill",
];

/// What no replay has at its end, and where else it is seen to arrive.
const ELSEWHERE: [(&str, &str); 12] = [
    ("gb10_pool_exhaustion_seconds", "a story that ends while memory falls, below"),
    ("gb10_gpu_memory_reported_size_bytes", "a card with memory of its own, below"),
    ("gb10_gpu_memory_reported_used_bytes", "a card with memory of its own, below"),
    ("gb10_gpu_memory_reported_free_bytes", "a card with memory of its own, below"),
    ("gb10_source_duration_seconds", "a live machine, below"),
    ("process_cpu_seconds_total", "a live machine, below"),
    ("process_resident_memory_bytes", "a live machine, below"),
    ("process_virtual_memory_bytes", "a live machine, below"),
    ("process_open_fds", "a live machine, below"),
    ("process_max_fds", "a live machine, below"),
    ("process_start_time_seconds", "a live machine, below"),
    ("process_threads", "a live machine, below"),
];

/// One sample of a scrape: metric, labels, value.
type Scraped = (String, BTreeMap<String, String>, f64);

fn scraped(text: &str) -> Vec<Scraped> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, rest) = series.split_once('{').unwrap_or((series, ""));
        let mut labels = BTreeMap::new();
        let mut rest = rest.trim_end_matches('}');
        while let Some((label, after)) = rest.split_once("=\"") {
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        other => value.push(other),
                    },
                    (_, other) => value.push(other),
                }
            };
            labels.insert(label.trim_start_matches(',').to_owned(), value);
            rest = &after[end + 1..];
        }
        (name.to_owned(), labels, value.parse().unwrap())
    };
    lines.map(sample).collect()
}

/// What a collector must have of a scrape, by the catalog.
fn wanted(scrape: &[Scraped]) -> Vec<Point> {
    let mut all = Vec::new();
    for instrument in instruments() {
        for part in &instrument.parts {
            for (_, labels, value) in scrape.iter().filter(|(name, ..)| name == part.metric.name) {
                all.push(point(&instrument, part, labels, *value));
            }
        }
    }
    sorted(all)
}

fn point(
    instrument: &Instrument,
    part: &Part,
    labels: &BTreeMap<String, String>,
    value: f64,
) -> Point {
    let names = part.metric.labels.iter();
    let labels = names.map(|name| labels.get(*name).cloned().unwrap_or_default().into()).collect();
    let attributes = part.attributes(&Sample { labels, value });
    Point {
        name: instrument.name.to_string(),
        unit: instrument.unit.to_string(),
        kind: match instrument.form {
            Form::Gauge => "Gauge",
            Form::Counter => "Sum",
            Form::UpDownCounter => "UpDown",
        }
        .to_owned(),
        temporality: if instrument.form == Form::Gauge {
            ""
        } else {
            "AGGREGATION_TEMPORALITY_CUMULATIVE"
        }
        .to_owned(),
        attributes: attributes.into_iter().map(|(n, v)| (n.to_owned(), v.into_owned())).collect(),
        value,
    }
}

fn sorted(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| (&a.name, &a.attributes).cmp(&(&b.name, &b.attributes)));
    points
}

/// Where to send, for both protocols.
fn ways(rotel: &Rotel) -> [Vec<(&'static str, String)>; 2] {
    let endpoint = |port| ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{port}"));
    let often = || ("OTEL_METRIC_EXPORT_INTERVAL", "1000".to_owned());
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned());
    [vec![endpoint(rotel.http), often()], vec![endpoint(rotel.grpc), often(), grpc]]
}

/// A replay that has come to its end and stays there, sending.
fn replayed(story: &Path, way: &[(&str, String)]) -> Exporter {
    let mut command = exporter();
    command.arg("replay").arg(story);
    command.args(["--serve", "--web.listen-address", "127.0.0.1:0", "--speed", "10000"]);
    command.envs(way.iter().map(|(name, value)| (name, value)));
    Exporter::spawn(command)
}

/// What a scrape and a collector have of the same frame.
fn both(exporter: &Exporter, rotel: &Rotel) -> (Vec<Scraped>, Export) {
    let exports = |text: &str| text.lines().any(|line| line.starts_with("gb10_otlp_exports_total"));
    // The end of the story: nothing changes any more.
    let scrape = wait_for("the story ends", PATIENCE, || {
        let first = exporter.get("/metrics");
        std::thread::sleep(Duration::from_millis(1300));
        (exports(&first) && exporter.get("/metrics") == first).then_some(first)
    });
    let so_far = rotel.metrics().len();
    let exports = wait_for("two more exports", PATIENCE, || {
        let all = rotel.metrics();
        (all.len() >= so_far + 2).then_some(all)
    });
    (scraped(&scrape), exports.last().unwrap().clone())
}

fn compare(story: &str, scrape: &[Scraped], export: Export) {
    let (wanted, got) = (wanted(scrape), sorted(export.points));
    let missing: Vec<_> = wanted.iter().filter(|point| !got.contains(point)).collect();
    let extra: Vec<_> = got.iter().filter(|point| !wanted.contains(point)).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "{story}: missing {missing:#?}\nextra {extra:#?}"
    );
    let twice: Vec<_> = wanted.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(
        twice.is_empty() && wanted.len() == got.len(),
        "{story}: something came twice {twice:#?}"
    );
    assert!(got.len() > 100, "{story}: {}", got.len());
}

fn story(name: &str) -> PathBuf {
    root().join(format!("tests/scenarios/{name}.txt"))
}

/// Names, units, kinds, attributes and values, both ways: nothing is missing and nothing is extra. Each story
/// by both protocols.
#[test]
fn a_collector_has_what_a_scrape_shows() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let dir = tempfile::tempdir().unwrap();
    let falling = dir.path().join("falling.txt");
    let base = root().join("tests/captures/spark-page-cache-1-before.txt");
    fs::write(&falling, format!(
        "# gb10-exporter scenario 1\n# kind: invented\n# title: Memory falls to the end\n# source: written for the tests\n\
         # story: It falls.\n# base: {}\n# length: 60s\n\n==> timeline\n0s..60s  meminfo.MemAvailable = 20 GiB -> 6 GiB\n\n\
         ==> expect\nnever  pool.exhaustion unknown\n", base.display())).unwrap();
    let stories: Vec<PathBuf> = STORIES.iter().map(|name| story(name)).chain([falling]).collect();
    std::thread::scope(|scope| {
        let runs: Vec<_> = stories
            .iter()
            .map(|path| {
                scope.spawn(|| {
                    let mut seen: BTreeSet<String> = BTreeSet::new();
                    for protocol in 0..2 {
                        let rotel = Rotel::start();
                        let exporter = replayed(path, &ways(&rotel)[protocol]);
                        let (scrape, export) = both(&exporter, &rotel);
                        compare(&path.display().to_string(), &scrape, export);
                        seen.extend(scrape.into_iter().map(|(name, ..)| name));
                    }
                    seen
                })
            })
            .collect();
        for run in runs {
            seen.extend(run.join().unwrap());
        }
    });
    for metric in catalog::all() {
        let elsewhere = ELSEWHERE.iter().any(|(name, _)| *name == metric.name);
        let falls = metric.name == "gb10_pool_exhaustion_seconds";
        assert_eq!(seen.contains(metric.name), !elsewhere || falls, "{}", metric.name);
    }
}

/// Values of a live machine differ from second to second; names, units, kinds and attributes do not.
#[test]
fn a_live_machine_and_a_card_arrive_as_well() {
    let card = root().join("tests/captures/x86-rtx-4080-super.txt");
    let card = ["--capture", card.to_str().unwrap()];
    let without_values = |points: Vec<Point>| -> Vec<Point> {
        sorted(points.into_iter().map(|point| Point { value: 0.0, ..point }).collect())
    };
    let mut seen = BTreeSet::new();
    for args in [&card[..], &[]] {
        for protocol in 0..2 {
            let rotel = Rotel::start();
            let mut command = exporter();
            command.args(["serve", "--web.listen-address", "127.0.0.1:0"]).args(args);
            command.envs(ways(&rotel)[protocol].clone());
            let exporter = Exporter::spawn(command);
            // Processes come and go meanwhile: one moment at which both have the same is enough.
            let scrape = wait_for("a collector has what a scrape shows", PATIENCE, || {
                let scrape = scraped(&exporter.get("/metrics"));
                let last = rotel.metrics().pop()?;
                let (wanted, got) = (without_values(wanted(&scrape)), without_values(last.points));
                (wanted == got && got.len() > 100).then_some(scrape)
            });
            seen.extend(scrape.into_iter().map(|(name, ..)| name));
        }
    }
    let falls = "gb10_pool_exhaustion_seconds";
    for (name, _) in ELSEWHERE.iter().filter(|(name, _)| *name != falls) {
        assert!(seen.contains(*name), "{name} is nowhere");
    }
}

/// What the mapping is meant to be, in a handful of points that are written here and not taken from it.
#[test]
fn conventions_are_met_word_for_word() {
    let rotel = Rotel::start();
    let exporter = replayed(&story("two-fight"), &ways(&rotel)[0]);
    let (scrape, export) = both(&exporter, &rotel);
    let of = |name: &str, attributes: &[(&str, &str)]| {
        let found = export.points.iter().find(|point| {
            let is = |(key, value): &(&str, &str)| {
                point.attributes.get(*key).is_some_and(|v| v == value)
            };
            point.name == name
                && point.attributes.len() == attributes.len()
                && attributes.iter().all(is)
        });
        found.unwrap_or_else(|| panic!("{name} {attributes:?}: {:#?}", export.points)).clone()
    };
    let value = |name: &str| scrape.iter().find(|(n, ..)| n == name).unwrap().2;
    let (used, available, limit) = (
        of("system.memory.usage", &[("system.memory.state", "used")]),
        of("system.memory.usage", &[("system.memory.state", "available")]),
        of("system.memory.limit", &[]),
    );
    assert_eq!(used.value + available.value, limit.value);
    assert_eq!(
        (limit.value, &*limit.unit, &*limit.kind),
        (value("gb10_pool_size_bytes"), "By", "UpDown")
    );
    let gpu = [("hw.id", "gpu0"), ("hw.type", "gpu")];
    assert_eq!(of("hw.power", &gpu).value, value("gb10_gpu_power_watts"));
    assert_eq!(&*of("hw.energy", &gpu).kind, "Sum");
    let die = [("hw.id", "gpu0.die"), ("hw.parent", "gpu0"), ("hw.sensor_location", "GPU_DIE")];
    let die = of("hw.temperature", &die);
    assert_eq!((die.value, &*die.unit), (value("gb10_gpu_temperature_celsius"), "Cel"));
    let busy = [("hw.id", "gpu0"), ("hw.type", "gpu"), ("hw.gpu.task", "general")];
    assert_eq!(of("hw.gpu.utilization", &busy).value, value("gb10_gpu_utilization_ratio"));
    let state = export.points.iter().filter(|point| point.name == "gb10.contention.state");
    assert_eq!(state.clone().count(), 5, "one series a state");
    assert_eq!(state.map(|point| point.value).sum::<f64>(), 1.0);
    assert!(!export.points.iter().any(|point| point.name.starts_with("hw.gpu.memory")));
    assert_eq!(export.schema, "https://opentelemetry.io/schemas/1.44.0");
    assert_eq!(export.scope, concat!("gb10-exporter ", env!("CARGO_PKG_VERSION")));
}

/// The list of events, as log records in their order, each once.
#[test]
fn events_arrive_once_and_in_order() {
    for protocol in 0..2 {
        let rotel = Rotel::start();
        let mut way = ways(&rotel)[protocol].clone();
        way.push(("OTEL_LOGS_EXPORTER", "otlp".to_owned()));
        let exporter = replayed(&story("eventful-hour"), &way);
        let (_, last) = both(&exporter, &rotel);
        assert!(last.points.len() > 100, "metrics go beside them");
        let events = |key: &str| -> Vec<String> {
            let status: serde_json::Value =
                serde_json::from_str(&exporter.get("/api/v1/status")).unwrap();
            let all = status["events"].as_array().unwrap().clone();
            all.iter().map(|event| event[key].as_str().unwrap_or_default().to_owned()).collect()
        };
        let wanted = events("event");
        let records = wait_for("every event", PATIENCE, || {
            let records = rotel.records();
            (records.len() >= wanted.len()).then_some(records)
        });
        let names: Vec<&str> =
            records.iter().map(|r| r.event.strip_prefix("gb10.").unwrap()).collect();
        assert!(
            names.ends_with(&wanted.iter().map(String::as_str).collect::<Vec<_>>()),
            "{names:?}\n{wanted:?}"
        );
        let numbers: Vec<u64> = records
            .iter()
            .map(|record| record.attributes["gb10.event.number"].parse().unwrap())
            .collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        let last = records.last().unwrap();
        assert_eq!(Some(&last.body), events("evidence").last());
        assert!(["INFO", "WARN", "ERROR"].contains(&&*last.severity));
        assert!(
            last.nanoseconds > 1_500_000_000_000_000_000
                && last.attributes.contains_key("gb10.subject")
        );
    }
}

/// A box that reboots has an exporter that begins to count anew: its events are news.
#[test]
fn events_after_a_reboot_are_news() {
    let rotel = Rotel::start();
    let mut way = ways(&rotel)[0].clone();
    way.push(("OTEL_LOGS_EXPORTER", "otlp".to_owned()));
    let mut command = exporter();
    command.arg("replay").arg(story("reboot"));
    command.args(["--serve", "--web.listen-address", "127.0.0.1:0", "--speed", "100"]);
    command.envs(way);
    let _exporter = Exporter::spawn(command);
    wait_for("the reboot is told", PATIENCE, || {
        rotel.records().iter().any(|record| record.event == "gb10.boot_unclean").then_some(())
    });
}
