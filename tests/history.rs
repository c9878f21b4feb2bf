//! Samples that are read back from a real Prometheus, which scraped the real binary.
#![expect(clippy::disallowed_methods, reason = "tests take the time")]

mod support;

use gb10_exporter::cli::history::{History, fetch};
use gb10_exporter::client::range::{self, Span};
use gb10_exporter::model::samples::{SampleOrigin, SampleSeries};
use gb10_exporter::units::Bytes;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::prometheus::Prometheus;
use support::{Exporter, exporter, root, value};

const SECOND: Duration = Duration::from_secs(1);

/// The last seconds.
fn span(seconds: u32, step: Duration) -> Span {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Span { start: now.saturating_sub(SECOND * seconds), end: now, step }
}

fn history(
    base: &str,
    labels: &[(&str, &str)],
    gpu: Option<u32>,
    span: Span,
) -> Result<SampleSeries, String> {
    let labels: Vec<(String, String)> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let wanted = History { base, labels: &labels, gpu, span };
    fetch(&wanted).map_err(|error| {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    })
}

#[test]
fn a_replay_is_read_back_as_it_was_exported() {
    let mut command = exporter();
    let scenario = root().join("tests/scenarios/training-beside-serving.txt");
    command.arg("replay").arg(scenario).args(["--serve", "--web.listen-address", "127.0.0.1:0"]);
    command.args(["--speed", "10"]);
    let exporter = Exporter::spawn(command);
    let prometheus = Prometheus::start(&[&exporter.address.to_string()]);
    prometheus.wait_for("count_over_time(gb10_gpu_temperature_celsius[1m]) > bool 5", 1.0);
    let base = format!("http://{}", prometheus.address);
    let series = history(&base, &[("job", "gb10")], Some(0), span(20, SECOND)).unwrap();
    assert_eq!((series.origin, series.remarks.as_slice()), (SampleOrigin::Prometheus, &[][..]));
    assert!(series.points.len() >= 5 && series.points.is_sorted_by_key(|point| point.wall));
    // What the scenario's table has, and the state that follows from it.
    let table = std::fs::read_to_string(root().join("tests/scenarios/training-beside-serving.csv"))
        .unwrap();
    let row = |power: f64, temperature: f64| {
        let end = format!(",{power:.2},{temperature}");
        table.lines().any(|line| line.ends_with(&end))
    };
    let (mut seen, mut judged) = (0, 0);
    for point in &series.points {
        if let (Ok(power), Ok(temperature)) = (point.power, point.temperature) {
            assert!(row(power.0, temperature.0), "{point:?}");
            seen += 1;
        }
        judged += usize::from(point.throttle.is_some());
        assert!(point.utilization.is_ok_and(|ratio| (0.0..=1.0).contains(&ratio.0)), "{point:?}");
    }
    assert!(seen >= 5 && judged >= 5, "{seen} {judged}");
}

/// Four minutes without a scrape, which a Prometheus fills with the last value it had.
#[test]
fn a_gap_stays_a_gap() {
    const START: u64 = 1_764_000_000;
    let (name, mut text) = ("gb10_gpu_temperature_celsius", String::new());
    let _ = writeln!(text, "# TYPE {name} gauge");
    for second in (0..=1800_u64).step_by(15).filter(|second| !(600..840).contains(second)) {
        let _ = writeln!(text, "{name}{{gpu=\"0\"}} 60 {}", START + second);
    }
    text += "# EOF\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.om");
    std::fs::write(&path, text).unwrap();
    let prometheus = Prometheus::filled(&path);
    prometheus.wait_for(&format!("count(last_over_time({name}[1m] @ {START}))"), 1.0);
    let base = format!("http://{}", prometheus.address);
    let [start, end] = [START, START + 1800].map(Duration::from_secs);
    let series = history(&base, &[], None, Span { start, end, step: SECOND * 15 }).unwrap();
    let seconds: Vec<u64> = series.points.iter().map(|p| p.wall.as_secs() - START).collect();
    let expected: Vec<u64> = (0..600).chain(840..=1800).step_by(15).collect();
    assert_eq!(seconds, expected);
}

#[test]
fn one_of_several_machines_must_be_named_and_long_stretches_come_in_pieces() {
    let capture = root().join("tests/captures/spark-fe-llm-server.txt");
    let exporter = Exporter::start(&["--capture", capture.to_str().unwrap()]);
    let port = exporter.address.port();
    let targets = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let prometheus = Prometheus::start(&[&targets[0], &targets[1]]);
    prometheus.wait_for("count(gb10_gpu_temperature_celsius)", 2.0);
    prometheus.wait_for("min(count_over_time(gb10_pool_available_bytes[1m])) > bool 2", 1.0);
    // What a proxy in front of it would have as the beginning of its paths may end with a slash.
    let base = format!("http://{}/", prometheus.address);
    let error = history(&base, &[], None, span(10, SECOND)).unwrap_err();
    let says = format!(
        "has several machines of these labels; name one of them: instance={:?}, instance={:?}",
        targets[0], targets[1]
    );
    assert!(error.contains(&says), "{error}");
    // So many points that one query would be refused.
    let step = Duration::from_millis(1);
    let wanted = span(15, step);
    let series = history(&base, &[("instance", &targets[1])], None, wanted).unwrap();
    let points = &series.points;
    assert!((1_000..=15_001).contains(&points.len()), "{}", points.len());
    assert!(points.windows(2).all(|pair| pair[1].wall.saturating_sub(pair[0].wall) == step));
    let metrics = exporter.get("/metrics");
    let last = points.last().unwrap();
    let told = |name: &str| value(&metrics, name);
    assert_eq!(last.wall.as_millis(), wanted.end.as_millis());
    assert_eq!(told("gb10_gpu_temperature_celsius{gpu=\"0\"}"), last.temperature.ok().map(|t| t.0));
    assert_eq!(told("gb10_gpu_power_watts{gpu=\"0\"}"), last.power.ok().map(|w| w.0));
    let clock = told("gb10_gpu_clock_hertz{gpu=\"0\",clock=\"sm\"}");
    assert_eq!(clock, last.clock.ok().map(|h| h.0));
    assert_eq!(told("gb10_gpu_utilization_ratio{gpu=\"0\"}"), last.utilization.ok().map(|r| r.0));
    assert_eq!(told("gb10_pool_available_bytes"), last.available.ok().map(Bytes::as_f64));
    let idle = told("gb10_gpu_event_reason{gpu=\"0\",reason=\"idle\"}").unwrap() > 0.5;
    assert_eq!(last.reasons.map(|mask| mask & 1 != 0), Ok(idle));
    assert!(last.throttle.is_some() && last.temperature.is_ok() && last.available.is_ok());
    // In one query it would have been.
    let path = "/api/v1/query_range?query=up&start=1000000000&end=1000020000&step=1";
    assert_eq!(support::request(prometheus.address, "GET", path, "").status, 400);

    let error = history(&base, &[("instance", "other:1")], None, span(10, SECOND)).unwrap_err();
    let says = "has neither temperatures nor power of these labels in this time: asked for \
                gb10_throttle_state{instance=\"other:1\"} == 1";
    assert!(error.contains(says), "{error}");
    let error = range::query(&base, "up{", &span(10, SECOND)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{base}api/v1/query_range?query=up%7B&start=")), "{error}");
    assert!(error.contains(" answered 400 Bad Request: bad_data: "), "{error}");
}

#[test]
fn what_is_no_prometheus_is_told() {
    let capture = root().join("tests/captures/spark-fe-llm-server.txt");
    let exporter = Exporter::start(&["--capture", capture.to_str().unwrap()]);
    let base = format!("http://{}", exporter.address);
    let error = history(&base, &[], None, span(10, SECOND)).unwrap_err();
    assert!(error.starts_with(&base) && error.contains(" answered 404 Not Found: "), "{error}");
    for (base, labels, says) in [
        ("https://box:9090", [("a", "b")], "https is not supported"),
        ("box:9090", [("a", "b")], "is not a URL of the form http://HOST:PORT"),
        ("http://127.0.0.1:1", [("a", "b")], "cannot be reached"),
        ("http://127.0.0.1:1", [("a-b", "c")], "\"a-b\" is no name of a label"),
    ] {
        let error = history(base, &labels, None, span(10, SECOND)).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}
