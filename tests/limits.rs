//! Hostile clients cost bounded memory and delay nothing; being killed costs no state.
#![expect(clippy::disallowed_methods, reason = "tests start programs and wait")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Exporter, exporter, value};

/// Resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn ticks(metrics: &str, lane: &str) -> f64 {
    value(metrics, &format!("gb10_lane_ticks_total{{lane=\"{lane}\"}}")).unwrap()
}

/// Scrapes in parallel on kept connections; the number that did not succeed.
fn scrape(address: SocketAddr, parallel: usize, each: usize) -> usize {
    let threads: Vec<_> = (0..parallel)
        .map(|_| {
            std::thread::Builder::new()
                .stack_size(128 * 1024)
                .spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                    (0..each).filter(|_| !one_scrape(&mut stream)).count()
                })
                .unwrap()
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

fn one_scrape(stream: &mut TcpStream) -> bool {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let Ok(n) = stream.read(&mut buffer) else { return false };
        if n == 0 {
            return false;
        }
        seen.extend_from_slice(&buffer[..n]);
        let Some(end) = seen.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&seen[..end]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if seen.len() >= end + 4 + length.parse::<usize>().unwrap() {
            return head.starts_with("HTTP/1.1 200");
        }
    }
}

/// What is no HTTP: cut off, or told so.
fn send_garbage(address: SocketAddr) {
    for (n, garbage) in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        &[0xff; 4096],
        b"GET\r\n\r\n",
        b"\r\n",
    ]
    .iter()
    .cycle()
    .take(200)
    .enumerate()
    {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        stream.write_all(garbage).unwrap();
        if n < 8 {
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer);
            assert!(answer.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");
        }
    }
}

/// A header without an end.
fn send_huge_headers(address: SocketAddr) {
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Big: ");
        // It stops reading long before this is all sent.
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stream.write_all(&vec![b'a'; 1 << 20]);
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut answer = [0; 64];
        let n = stream.read(&mut answer).unwrap_or(0);
        assert!(
            n == 0 || answer.starts_with(b"HTTP/1.1 431"),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
}

/// 500 clients that never finish a request, garbage, huge headers and 10,000 scrapes at 200 in
/// parallel: the memory is bounded, every lane keeps its rounds, a scraper is answered meanwhile.
#[test]
fn hostile_clients_cost_bounded_memory_and_delay_nothing() {
    let exporter = Exporter::start(&["--web.max-requests", "400"]);
    let address = exporter.address;
    let first = exporter.get("/metrics");
    let began = Instant::now();
    let before = resident(exporter.child.id());

    let slow: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ").unwrap();
            stream
        })
        .collect();
    assert!(
        exporter.get("/metrics").contains("gb10_pool_size_bytes "),
        "answered beside 500 slow clients"
    );

    send_garbage(address);
    send_huge_headers(address);
    let body = exporter.request("GET", "/metrics", &format!("Content-Length: {}\r\n", 1 << 30));
    assert_eq!(body.status, 200, "a body is not waited for");

    assert_eq!(scrape(address, 200, 50), 0, "of 10,000 scrapes");
    assert!(exporter.get("/metrics").contains("gb10_pool_size_bytes "));
    drop(slow);

    let after = resident(exporter.child.id());
    assert!(after < before + 10 * 1024, "{before} KiB before, {after} KiB after");
    let last = exporter.get("/metrics");
    let seconds = began.elapsed().as_secs_f64();
    for (lane, period) in [("fast", 1.0), ("sensors", 1.0), ("slow", 5.0)] {
        let done = ticks(&last, lane) - ticks(&first, lane);
        // One round is under way; a busy machine may have missed one more.
        assert!(done >= (seconds / period).floor() - 2.0, "{lane}: {done} rounds in {seconds} s");
    }
}

/// Two hundred kills at any moment, half of them in the middle of an orderly stop: the state file is
/// never half written, and the next start always takes it.
#[test]
fn being_killed_at_any_moment_never_spoils_the_state() {
    let threads: Vec<_> = (0..8)
        .map(|lane| {
            std::thread::spawn(move || {
                let dir = tempfile::tempdir().unwrap();
                let mut written = 0;
                for round in 0..25_u64 {
                    // Spread over the first tick, the first write and what follows.
                    let delay = (lane * 977 + round * 613) % 1300;
                    written += u32::from(kill_once(dir.path(), delay, round % 2 == 0));
                }
                assert!(
                    !dir.path().join("state.json.unreadable").exists(),
                    "a start refused the file"
                );
                written
            })
        })
        .collect();
    let written: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(written > 40, "only {written} of 200 starts came to write the state file");
}

/// Starts, waits, kills; true when this start has written the state file. One that is there is whole.
fn kill_once(dir: &Path, delay: u64, stop_first: bool) -> bool {
    let file = dir.join("state.json");
    let before = fs::read(&file).ok();
    let mut child = exporter()
        .args(["--web.listen-address", "127.0.0.1:0", "--log.level", "off"])
        .arg("--state.directory")
        .arg(dir)
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(delay));
    if stop_first {
        let pid = child.id().to_string();
        assert!(
            std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success()
        );
        std::thread::sleep(Duration::from_millis(delay % 7));
    }
    let _ = child.kill();
    child.wait().unwrap();
    let Ok(text) = fs::read_to_string(&file) else { return false };
    let state: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
    assert_eq!(state["version"], 1, "{text}");
    assert!(state["boots"].as_array().is_some_and(|boots| !boots.is_empty()), "{text}");
    before.as_deref() != Some(text.as_bytes())
}
