//! The real binary, over HTTP, checked by the real promtool and scraped by a real Prometheus.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

mod support;

use gb10_exporter::model::source::Source;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::prometheus::Prometheus;
use support::{Exporter, captures, root, tool, value};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

fn llm_server() -> Exporter {
    Exporter::start(&[
        "--capture",
        root().join("tests/captures/spark-fe-llm-server.txt").to_str().unwrap(),
    ])
}

/// promtool's own lint, on what a scraper really gets.
fn promtool(metrics: &str) {
    let mut child = Command::new(tool("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.is_empty(), "{said}");
}

#[test]
fn every_scrape_passes_promtool() {
    promtool(&Exporter::start(&[]).get("/metrics"));
    for (name, path) in captures() {
        let metrics = Exporter::start(&["--capture", path.to_str().unwrap()]).get("/metrics");
        assert!(metrics.lines().count() > 100, "{name}");
        assert!(metrics.ends_with('\n'), "{name}");
        for line in metrics.lines().filter(|line| !line.starts_with('#')) {
            let number: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
            assert!(number.is_finite(), "{name}: {line}");
        }
        promtool(&metrics);
        let series = metrics.lines().filter(|line| !line.starts_with('#')).count();
        assert!(series < 600, "{name} has {series} series");
    }
}

#[test]
fn this_machines_parts_sum_to_its_memory() {
    let metrics = Exporter::start(&[]).get("/metrics");
    let parts = metrics.lines().filter(|line| line.starts_with("gb10_pool_segment_bytes{"));
    let sum: f64 = parts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total: f64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((sum - total * 1024.0).abs() < 0.5, "{sum}");
    assert_eq!(value(&metrics, "gb10_pool_size_bytes"), Some(total * 1024.0));
}

/// What the exporter tells of itself, beside what the kernel tells another process of it.
#[test]
fn it_tells_what_it_costs_itself() {
    let exporter = Exporter::start(&[]);
    // Its own figures are up to five seconds old, and grow while it starts.
    let metrics = exporter.wait_for_metrics("what the kernel says", |metrics| {
        let status = fs::read_to_string(format!("/proc/{}/status", exporter.child.id())).unwrap();
        let near = |name: &str, line: &str, unit: f64| {
            let line = status.lines().find_map(|l| l.strip_prefix(line)).unwrap();
            let want: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            value(metrics, name).is_some_and(|got| (got / unit - want).abs() < want / 2.0)
        };
        near("process_resident_memory_bytes", "VmRSS", 1024.0)
            && near("process_virtual_memory_bytes", "VmSize", 1024.0)
            && near("process_threads", "Threads", 1.0)
    });
    let of = |name: &str| value(&metrics, name).unwrap_or_else(|| panic!("no {name}"));
    assert!(of("process_cpu_seconds_total") < 20.0);
    assert!((4.0..100.0).contains(&of("process_open_fds")));
    assert!(of("process_max_fds") > of("process_open_fds"));
    let now = std::process::Command::new("date").arg("+%s").output().unwrap();
    let now: f64 = String::from_utf8(now.stdout).unwrap().trim().parse().unwrap();
    let age = now - of("process_start_time_seconds");
    assert!((-3.0..30.0).contains(&age), "started {age} s ago");
}

#[test]
fn pages_and_methods_are_what_they_should_be() {
    let exporter = llm_server();
    let get = exporter.request("GET", "/metrics", "");
    assert_eq!(get.header("content-type"), Some(TEXT));
    assert_eq!(get.header("content-length"), Some(get.body.len().to_string().as_str()));
    let head = exporter.request("HEAD", "/metrics", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), Some(TEXT));
    let length: usize = head.header("content-length").unwrap().parse().unwrap();
    assert!(length.abs_diff(get.body.len()) < 200, "{length}");

    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = exporter.request(method, "/metrics", "Content-Length: 0\r\n");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    for (path, status, kind) in [
        ("/", 200, "text/html; charset=utf-8"),
        ("/api/v1/status", 200, "application/json"),
        ("/-/healthy", 200, "text/plain; charset=utf-8"),
        ("/-/ready", 200, "text/plain; charset=utf-8"),
        ("/metrics/", 404, "text/plain; charset=utf-8"),
        ("/favicon.ico", 404, "text/plain; charset=utf-8"),
        ("/metrics?collect[]=meminfo", 200, TEXT),
    ] {
        let answer = exporter.request("GET", path, "");
        assert_eq!((answer.status, answer.header("content-type")), (status, Some(kind)), "{path}");
    }
    let page = exporter.get("/");
    assert!(page.contains("<a href=\"/metrics\">") && page.contains("unaccounted 98.30 GiB"));
}

#[test]
fn whatever_a_scraper_accepts_it_gets_0_0_4() {
    let exporter = llm_server();
    for accept in [
        "",
        "Accept: */*\r\n",
        "Accept: text/plain;version=0.0.4\r\n",
        "Accept: text/plain;version=1.0.0;escaping=allow-utf-8\r\n",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n",
        "Accept: application/openmetrics-text;version=2.0.0\r\n",
        "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited\r\n",
    ] {
        let answer = exporter.request("GET", "/metrics", accept);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(TEXT)), "{accept}");
    }
}

#[test]
fn gzip_when_accepted_and_only_then() {
    let exporter = llm_server();
    let plain = exporter.request("GET", "/metrics", "Accept-Encoding: identity\r\n");
    assert_eq!(plain.header("content-encoding"), None);
    let packed = exporter.request("GET", "/metrics", "Accept-Encoding: gzip\r\n");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() * 3 < plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_string(&mut text).unwrap();
    assert!(text.contains("gb10_pool_size_bytes 130663165952"));
}

/// Names of the families of a scrape that are not about the exporter itself.
fn families(metrics: &str) -> Vec<&str> {
    let about_itself =
        ["gb10_exporter_", "gb10_otlp_", "gb10_source_", "gb10_reading_", "gb10_lane_"];
    let names = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    names.filter(|name| !about_itself.iter().any(|prefix| name.starts_with(prefix))).collect()
}

#[test]
fn a_scrape_may_ask_for_some_collectors() {
    let exporter = llm_server();
    let all = exporter.get("/metrics");
    let thermal = exporter.get("/metrics?collect[]=thermal");
    assert_eq!(
        families(&thermal),
        [
            "gb10_temperature_threshold_celsius",
            "gb10_board_margin_celsius",
            "gb10_zone_temperature_celsius",
            "gb10_zone_trip_celsius",
            "gb10_board_temperature_celsius",
            "gb10_board_temperature_max_celsius"
        ]
    );
    assert!(thermal.contains("gb10_lane_ticks_total"), "what is said about the exporter stays");
    let two = exporter.get("/metrics?collect%5B%5D=thermal&collect%5B%5D=pressure");
    assert_eq!(families(&two).len(), 8);
    let rest = exporter.get("/metrics?exclude[]=thermal&exclude[]=pressure");
    assert_eq!(families(&rest).len() + 7, families(&all).len());
    promtool(&rest);
    for (query, says) in [
        ("collect[]=thermal&exclude[]=vmstat", "collect[] and exclude[] cannot be combined\n"),
        ("collect[]=cpu", "unknown collector \"cpu\"; expected one of meminfo, vmstat,"),
        ("exclude[]=", "unknown collector \"\""),
    ] {
        let answer = exporter.request("GET", &format!("/metrics?{query}"), "");
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().starts_with(says), "{query}: {}", answer.text());
    }
    let packed = exporter.request("GET", "/metrics?collect[]=thermal", "Accept-Encoding: gzip\r\n");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
}

/// Every metric says where it comes from, or is about the exporter.
#[test]
fn every_metric_belongs_to_a_collector() {
    for metric in gb10_exporter::catalog::all() {
        let about_itself = families(&format!("# TYPE {} gauge", metric.name)).is_empty();
        // There when no machine is read at all.
        let replay = metric.name == "gb10_replay_info";
        assert_eq!(metric.sources.is_empty(), about_itself || replay, "{}", metric.name);
    }
}

/// Clients that read nothing hold their places, and one more is told so at once.
#[test]
fn requests_in_flight_are_limited() {
    let capture = root().join("tests/captures/spark-fe-llm-server.txt");
    let exporter =
        Exporter::start(&["--web.max-requests", "2", "--capture", capture.to_str().unwrap()]);
    // A client that asks for much and reads nothing fills its socket's buffers with answers.
    let slow: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(exporter.address).unwrap();
            let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            let ask = get("/api/v1/status").repeat(4000);
            stream.write_all(ask.as_bytes()).unwrap();
            stream
        })
        .collect();
    let began = Instant::now();
    loop {
        let answer = exporter.request("GET", "/metrics", "");
        if answer.status == 503 {
            assert_eq!(answer.text(), "too many requests at a time\n");
            for probe in ["/-/healthy", "/-/ready"] {
                assert_eq!(
                    exporter.request("GET", probe, "").status,
                    200,
                    "{probe} always answers"
                );
            }
            assert!(exporter.log.lock().unwrap().contains("2 clients do not read their answers"));
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "never refused");
    }
    // They lose their places without going away: a client that takes nothing is cut off.
    let began = Instant::now();
    while exporter.request("GET", "/metrics", "").status != 200 {
        assert!(began.elapsed() < Duration::from_secs(30), "never free again");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(slow);
}

/// A crowd that asks for nothing shuts nobody out: the idlest gives way, and the log says so once.
#[test]
fn idle_connections_give_way_and_the_log_says_so_once() {
    let exporter = llm_server();
    let connect = || {
        let stream = TcpStream::connect(exporter.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    };
    let mut held: Vec<_> = (0..512).map(|_| connect()).collect();
    for _ in 0..40 {
        assert_eq!(exporter.request("GET", "/metrics", "").status, 200);
    }
    let closed = held[0].read(&mut [0]).is_ok_and(|length| length == 0);
    assert!(closed, "the one that came first and asked for nothing");
    let log = exporter.log.lock().unwrap().clone();
    assert_eq!(log.matches("512 connections are open; the idlest give way").count(), 1, "{log}");
}

#[test]
fn both_signals_drain_and_end_with_success() {
    for name in ["TERM", "INT"] {
        let mut exporter = llm_server();
        // An idle connection that stays open must not hold it up.
        let idle = TcpStream::connect(exporter.address).unwrap();
        exporter.get("/metrics");
        let began = Instant::now();
        exporter.signal(name);
        let (code, log) = exporter.wait();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains(&format!("SIG{name}")) && log.contains("stopped"), "{log}");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        drop(idle);
    }
}

#[test]
fn a_real_prometheus_sees_the_pool() {
    let exporter = llm_server();
    let prometheus = Prometheus::start(&[&exporter.address.to_string()]);
    prometheus.wait_for("up{job=\"gb10\"}", 1.0);
    prometheus.wait_for("gb10_pool_size_bytes", 130_663_165_952.0);
    prometheus.wait_for("sum(gb10_pool_segment_bytes) - on() gb10_pool_size_bytes", 0.0);
    prometheus.wait_for("gb10_pool_segment_bytes{segment=\"unaccounted\"} > bool 98 * 2^30", 1.0);
    prometheus.wait_for("gb10_pool_headroom_bytes{reader=\"free\"} < bool 0", 1.0);
    #[expect(clippy::cast_precision_loss, reason = "tens")]
    prometheus.wait_for("count(gb10_source_state == 1) by (job)", Source::COUNT as f64);
    // Every name of the catalog that this machine has arrived as a series.
    let names = exporter.get("/metrics").lines().filter(|line| line.starts_with("# TYPE ")).count();
    #[expect(clippy::cast_precision_loss, reason = "tens")]
    prometheus.wait_for("count(count by (__name__) ({__name__=~\"gb10_.+\"}))", names as f64);
}
