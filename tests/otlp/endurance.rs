//! Collectors that are late, gone, slow, rude: they lose their own points and disturb nobody.

use crate::support::otlp::{Collector, Mood, Rotel, free_port, wait_for};
use crate::support::{Exporter, exporter, value};
use crate::{PATIENCE, scraped};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A live exporter that sends there.
fn sending(endpoint: &str, more: &[&str]) -> Exporter {
    let mut command = exporter();
    command.args(["serve", "--web.listen-address", "127.0.0.1:0", "--otlp.endpoint", endpoint]);
    command.args(more);
    Exporter::spawn(command)
}

fn exports(metrics: &str, result: &str) -> f64 {
    let series = format!("gb10_otlp_exports_total{{signal=\"metrics\",result=\"{result}\"}}");
    value(metrics, &series).unwrap_or(0.0)
}

fn resident(metrics: &str) -> f64 {
    value(metrics, "process_resident_memory_bytes").unwrap()
}

/// The least of some looks: the allocator gives back what one turn took a little later.
fn settled(exporter: &Exporter) -> f64 {
    let looks = (0..12).map(|_| {
        std::thread::sleep(Duration::from_millis(250));
        resident(&exporter.get("/metrics"))
    });
    looks.fold(f64::MAX, f64::min)
}

/// Sixty cycles that fail: a collector that was killed, hangs, answers 429, 503, garbage, and closes at once.
fn endures(grpc: bool) {
    let (http, other) = (free_port(), free_port());
    let start = |port| if grpc { Rotel::at(other, port) } else { Rotel::at(port, other) };
    let rotel = start(http);
    let endpoint = format!("http://127.0.0.1:{http}");
    let protocol = if grpc { "grpc" } else { "http/protobuf" };
    let args = ["--otlp.interval", "1s", "--otlp.timeout", "600ms", "--otlp.protocol", protocol];
    let exporter = sending(&endpoint, &args);
    let failed = || exports(&exporter.get("/metrics"), "failed");
    // Warm: the first exports and scrapes have taken what they keep.
    exporter.wait_for_metrics("it is heard", |m| exports(m, "delivered") >= 10.0);
    let before = settled(&exporter);
    rotel.kill();
    let said_before = exporter.log.lock().unwrap().len();
    let mut target = failed() + 10.0;
    let until = |what: &str, target: f64| {
        wait_for(what, Duration::from_secs(60), || (failed() >= target).then_some(()));
    };
    until("nobody is there", target);
    let collector = Collector::at(http, Mood::Hangs, None);
    for mood in [Mood::Hangs, Mood::Refuses(429), Mood::Refuses(503), Mood::Garbage, Mood::Closes] {
        collector.be(mood);
        target += 10.0;
        until(&format!("{mood:?}"), target);
    }
    assert!(collector.came().len() >= 20, "it was asked: {}", collector.came().len());
    drop(collector);
    let after = settled(&exporter);
    let mib = |bytes: f64| bytes / 1024.0 / 1024.0;
    assert!(mib(after - before) < 2.0, "{:.1} MiB and then {:.1}", mib(before), mib(after));
    assert!(failed() >= 60.0);
    // And back, without help.
    let delivered = exports(&exporter.get("/metrics"), "delivered");
    let rotel = start(http);
    let metrics = exporter
        .wait_for_metrics("it is heard again", |m| exports(m, "delivered") >= delivered + 2.0);
    wait_for("whole exports", PATIENCE, || {
        rotel.metrics().last().filter(|e| e.points.len() > 50).map(drop)
    });
    // Nobody else has noticed.
    for lane in ["fast", "sensors", "slow"] {
        let missed = format!("gb10_lane_missed_ticks_total{{lane=\"{lane}\"}}");
        // A busy machine misses one now and then; a collector that hangs would cost all of a minute's.
        assert!(value(&metrics, &missed).unwrap() < 5.0, "{lane}");
    }
    // Said once for each change, not once a cycle.
    let log = exporter.log.lock().unwrap()[said_before..].to_owned();
    assert_eq!(log.matches("does not take metrics").count(), 1, "{log}");
    assert_eq!(log.matches("takes metrics again").count(), 1, "{log}");
}

#[test]
fn sixty_failed_cycles_cost_their_own_points_only() {
    std::thread::scope(|scope| {
        let grpc = scope.spawn(|| endures(true));
        endures(false);
        grpc.join().unwrap();
    });
}

/// Up first, later, or never: what is scraped is the same.
#[test]
fn a_collector_makes_no_difference_to_a_scrape() {
    let names = |exporter: &Exporter| -> BTreeSet<(String, Vec<String>)> {
        let all = scraped(&exporter.get("/metrics")).into_iter();
        // Processes of this machine come and go meanwhile; what is sent is counted.
        all.filter(|(name, ..)| !name.contains("workload") && !name.contains("otlp"))
            .map(|(name, labels, _)| (name, labels.into_values().collect()))
            .collect()
    };
    let without = Exporter::start(&[]);
    let port = free_port();
    let never =
        sending("http://127.0.0.1:9", &["--otlp.interval", "1s", "--otlp.timeout", "500ms"]);
    let later = sending(
        &format!("http://127.0.0.1:{port}"),
        &["--otlp.interval", "1s", "--otlp.timeout", "500ms"],
    );
    let first = Rotel::start();
    let first_of = sending(&format!("http://127.0.0.1:{}", first.http), &["--otlp.interval", "1s"]);
    later.wait_for_metrics("nobody hears it", |m| exports(m, "failed") >= 2.0);
    let rotel = Rotel::at(port, free_port());
    later.wait_for_metrics("somebody does", |m| exports(m, "delivered") >= 2.0);
    first_of.wait_for_metrics("somebody does", |m| exports(m, "delivered") >= 2.0);
    never.wait_for_metrics("nobody does", |m| exports(m, "failed") >= 4.0);
    assert!(!rotel.metrics().is_empty());
    wait_for("all show the same", PATIENCE, || {
        let all = [&without, &never, &later, &first_of].map(names);
        all.iter().all(|names| *names == all[0]).then_some(())
    });
    assert!(!without.get("/metrics").contains("otlp"), "what is not sent is not counted");
}

/// Within one cycle an export is tried again, ever more slowly, and no sooner than the collector says.
#[test]
fn an_export_is_tried_again_while_its_time_lasts() {
    let collector = Collector::start(Mood::Refuses(503));
    let endpoint = format!("http://{}", collector.address);
    let exporter = sending(&endpoint, &["--otlp.interval", "1h", "--otlp.timeout", "20s"]);
    wait_for("three tries", PATIENCE, || (collector.came().len() >= 3).then_some(()));
    collector.be(Mood::Later(429, 4));
    let tries =
        wait_for("one more", PATIENCE, || Some(collector.came()).filter(|came| came.len() >= 4));
    collector.be(Mood::Takes);
    exporter.wait_for_metrics("it is taken", |m| exports(m, "delivered") == 1.0);
    let gaps = |came: &[crate::support::otlp::Came]| -> Vec<Duration> {
        came.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
    };
    let all = collector.came();
    assert!(all.len() > tries.len());
    let gaps = gaps(&all);
    assert!(gaps[0] >= Duration::from_millis(900), "{gaps:?}");
    assert!(gaps[1] >= Duration::from_millis(1800), "{gaps:?}");
    assert!(*gaps.last().unwrap() >= Duration::from_secs(4), "it said when: {gaps:?}");
    assert_eq!(exports(&exporter.get("/metrics"), "failed"), 0.0);
    assert!(!exporter.log.lock().unwrap().contains("does not take"));
}

/// What a collector says is told once, with the reason.
#[test]
fn the_log_says_what_is_wrong() {
    for (mood, says) in [
        (Mood::Refuses(401), "it answered 401 Unauthorized"),
        (Mood::Page, "it answered with a web page; is this the address of a collector?"),
        (Mood::Closes, "connection"),
        (Mood::Rejects, "takes only some of the metrics: 3 were rejected: too old"),
    ] {
        let collector = Collector::start(mood);
        let endpoint = format!("http://{}", collector.address);
        let exporter = sending(&endpoint, &["--otlp.interval", "1s", "--otlp.timeout", "900ms"]);
        let log = wait_for(says, PATIENCE, || {
            Some(exporter.log.lock().unwrap().clone()).filter(|log| log.contains(says))
        });
        let result = if mood == Mood::Rejects { "delivered" } else { "failed" };
        exporter.wait_for_metrics(result, |m| exports(m, result) >= 3.0);
        assert_eq!(exporter.log.lock().unwrap().matches(says).count(), 1, "{log}");
    }
}

/// A stop sends once more; a collector that hangs does not hold it up for longer than five seconds.
#[test]
fn the_last_export_is_sent_and_waited_for_in_bounds() {
    let rotel = Rotel::start();
    let endpoint = format!("http://127.0.0.1:{}", rotel.http);
    let mut exporter = sending(&endpoint, &["--otlp.interval", "1h"]);
    exporter.wait_for_metrics("the first export", |m| exports(m, "delivered") == 1.0);
    exporter.signal("TERM");
    let (code, log) = exporter.wait();
    assert_eq!(code, Some(0), "{log}");
    drop(exporter);
    // The file ends with the second one, which nothing follows.
    wait_for("the last export", PATIENCE, || (rotel.metrics().len() == 1).then_some(()));

    let collector = Collector::start(Mood::Hangs);
    let mut exporter =
        sending(&format!("http://{}", collector.address), &["--otlp.timeout", "60s"]);
    wait_for("it hangs", PATIENCE, || (!collector.came().is_empty()).then_some(()));
    let began = Instant::now();
    exporter.signal("TERM");
    let (code, log) = exporter.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
}

/// What a connection carries until it goes silent, as behind a router that has lost its tables: nobody is
/// told, nothing arrives.
struct Router {
    address: SocketAddr,
    silent: Arc<AtomicBool>,
}

impl Router {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let silent = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&silent);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // Connections from after it are well again.
                let lost = told.load(Ordering::Relaxed).then(AtomicBool::default).map(Arc::new);
                let lost = lost.unwrap_or_else(|| Arc::clone(&told));
                let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (mut from, mut to) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far.try_clone().unwrap(), near.try_clone().unwrap()),
                ] {
                    let lost = Arc::clone(&lost);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            if !lost.load(Ordering::Relaxed)
                                && to.write_all(&bytes[..count]).is_err()
                            {
                                return;
                            }
                        }
                    });
                }
            }
        });
        Self { address, silent }
    }
}

/// A connection that has gone silent looks alive; the next export does not trust it.
#[test]
fn a_silent_connection_is_left_for_another() {
    for protocol in ["http/protobuf", "grpc"] {
        let rotel = Rotel::start();
        let router = Router::to(if protocol == "grpc" { rotel.grpc } else { rotel.http });
        let args =
            ["--otlp.interval", "1s", "--otlp.timeout", "900ms", "--otlp.protocol", protocol];
        let exporter = sending(&format!("http://{}", router.address), &args);
        exporter.wait_for_metrics("it is heard", |m| exports(m, "delivered") >= 2.0);
        router.silent.store(true, Ordering::Relaxed);
        let metrics = exporter.wait_for_metrics("silence", |m| exports(m, "failed") >= 1.0);
        let delivered = exports(&metrics, "delivered");
        exporter
            .wait_for_metrics("it is heard again", |m| exports(m, "delivered") >= delivered + 2.0);
    }
}
