//! What a service manager hears, at the other end of a real notification socket.
#![expect(clippy::disallowed_methods, reason = "tests set the scene and wait")]

mod support;

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use support::{Exporter, Machine, exporter};

/// The socket of a service manager, and an exporter that was started below it.
struct Service {
    socket: UnixDatagram,
    machine: Machine,
    exporter: Exporter,
}

impl Service {
    /// With a watchdog of `limit`, as systemd gives it: in microseconds, for one process.
    fn start(limit: Option<Duration>) -> Self {
        let machine = Machine::new("spark-fe-idle");
        let path = machine.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut command = exporter();
        command.args(["--web.listen-address", "127.0.0.1:0"]);
        for (flag, below) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
            command.arg(format!("--path.{flag}={}", machine.path(below).display()));
        }
        command.env("NOTIFY_SOCKET", &path);
        if let Some(limit) = limit {
            command.env("WATCHDOG_USEC", limit.as_micros().to_string());
        }
        let exporter = Exporter::spawn(command);
        Self { socket, machine, exporter }
    }

    /// The next word, if one comes in time.
    fn hears(&self, patience: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut bytes = [0; 256];
        match self.socket.recv(&mut bytes) {
            Ok(length) => Some(String::from_utf8(bytes[..length].to_vec()).unwrap()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }
}

const SOON: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(4);

#[test]
fn ready_watching_and_stopping_are_told() {
    let mut service = Service::start(Some(LIMIT));
    assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("READY=1"));
    let metrics = service.exporter.get("/metrics");
    assert!(metrics.contains("gb10_pool_size_bytes "), "ready means that there is a frame");
    let began = Instant::now();
    for _ in 0..2 {
        assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("WATCHDOG=1"));
    }
    assert!(began.elapsed() < LIMIT + Duration::from_secs(6), "{:?}", began.elapsed());
    service.exporter.signal("TERM");
    let mut last = String::new();
    while let Some(word) = service.hears(Duration::from_secs(1)) {
        word.trim().clone_into(&mut last);
    }
    assert_eq!(last, "STOPPING=1");
    assert_eq!(service.exporter.wait().0, Some(0));
}

/// The pages still answer, and the manager hears nothing any more: it will restart the exporter.
#[test]
fn a_fast_lane_that_hangs_starves_the_watchdog() {
    let service = Service::start(Some(LIMIT));
    assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("READY=1"));
    assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("WATCHDOG=1"));
    service.machine.block("proc/meminfo");
    let hung = "gb10_source_state{source=\"meminfo\",state=\"hung\"} 1";
    service.exporter.wait_for_metrics("meminfo is hung", |metrics| metrics.contains(hung));
    // At the most one word on the rounds before.
    let words: Vec<_> = std::iter::from_fn(|| service.hears(LIMIT)).take(3).collect();
    assert!(words.len() < 3, "still fed: {words:?}");
    assert_eq!(service.exporter.request("GET", "/-/healthy", "").status, 200);
}

#[test]
fn without_a_watchdog_it_is_not_fed() {
    let service = Service::start(None);
    assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("READY=1"));
    assert_eq!(service.hears(Duration::from_secs(3)), None);
}

/// A manager that has gone away is no reason to stop serving.
#[test]
fn a_dead_socket_does_no_harm() {
    let mut service = Service::start(Some(LIMIT));
    assert!(service.hears(SOON).is_some());
    std::fs::remove_file(service.machine.path("notify")).unwrap();
    std::thread::sleep(LIMIT);
    service.exporter.get("/metrics");
    service.exporter.signal("TERM");
    assert_eq!(service.exporter.wait().0, Some(0));
}

#[test]
fn a_reload_is_told_from_its_begin_to_its_end() {
    let service = Service::start(None);
    assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("READY=1"));
    service.exporter.signal("HUP");
    assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("RELOADING=1"));
    assert_eq!(service.hears(SOON).as_deref().map(str::trim), Some("READY=1"));
}
