//! What the tests share: the real binary as a child, HTTP to it, captures, golden files.
#![expect(clippy::disallowed_methods, reason = "tests start programs, write files and wait")]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::allow_attributes,
    reason = "each test uses its part of this"
)]

pub mod alertmanager;
pub mod fakes;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod prometheus;
pub mod promtool;
pub mod rig;

use gb10_exporter::capture::Capture;
use gb10_exporter::derive::{self, State};
use gb10_exporter::model::frame::{Boot, Exporter as Build, Frame, Health};
use gb10_exporter::model::gpu::GpuChoice;
use gb10_exporter::model::moment::Moment;
use gb10_exporter::model::reading::Missing;
use gb10_exporter::model::snapshot::Snapshot;
use gb10_exporter::model::source::{Source, SourceState};
use gb10_exporter::sources::gpu::{Limits, Pace};
use gb10_exporter::sources::{self, Machine as AnyMachine};
use gb10_exporter::thresholds::Thresholds;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program that `make tools` has fetched.
pub fn tool(name: &str) -> PathBuf {
    let path = root().join("target/tools/bin").join(name);
    assert!(path.exists(), "{} is missing: run `make tools` (make test does)", path.display());
    path
}

/// The exporter's binary.
pub fn exporter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gb10-exporter"));
    // systemd sets these for services; a developer's shell may run in one.
    for name in ["STATE_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    let ours = |name: &str| name.starts_with("GB10_EXPORTER_") || name.starts_with("OTEL_");
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    // The GPU of the machine that runs the tests is no part of them.
    command.env("GB10_EXPORTER_PATH_NVML", "/nowhere/libnvidia-ml.so.1");
    command.env("GB10_EXPORTER_PATH_NVIDIA_SMI", "/nowhere/nvidia-smi");
    command.stdin(Stdio::null());
    command
}

/// A running exporter; killed when dropped.
pub struct Exporter {
    pub child: Child,
    pub address: SocketAddr,
    pub log: Arc<Mutex<String>>,
}

impl Exporter {
    /// Starts `serve` on a port of the system's choice and waits until it listens.
    pub fn start(args: &[&str]) -> Self {
        let mut command = exporter();
        command.args(["serve", "--web.listen-address", "127.0.0.1:0"]).args(args);
        Self::spawn(command)
    }

    /// The same with a command of the test's making.
    pub fn spawn(mut command: Command) -> Self {
        let mut child =
            command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let log = Arc::new(Mutex::new(String::new()));
        let copy = Arc::clone(&log);
        let (found, address) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("listening on http://") {
                    let _ =
                        found.send(rest.split('/').next().unwrap().parse().expect("an address"));
                }
                *copy.lock().unwrap() += &(line + "\n");
            }
        });
        let address = address.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| {
            let _ = child.kill();
            panic!("does not listen: {}", log.lock().unwrap());
        });
        Self { child, address, log }
    }

    /// The body of a GET that must succeed.
    pub fn get(&self, path: &str) -> String {
        let answer = self.request("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// Any request.
    pub fn request(&self, method: &str, path: &str, headers: &str) -> Answer {
        request(self.address, method, path, headers)
    }

    /// Asks again and again until `check` is content with the metrics.
    pub fn wait_for_metrics(&self, what: &str, check: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let metrics = self.get("/metrics");
            if check(&metrics) {
                return metrics;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "never: {what}\n{metrics}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.expect("kill").success());
    }

    /// Waits for the end, and returns the exit code and everything it logged.
    pub fn wait(&mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                std::thread::sleep(Duration::from_millis(50));
                return (status.code(), self.log.lock().unwrap().clone());
            }
            assert!(began.elapsed() < Duration::from_secs(20), "does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A machine of real files, for `--path.*`.
pub struct Machine(pub tempfile::TempDir);

impl Machine {
    pub fn new(name: &str) -> Self {
        let capture = Capture::load(&root().join(format!("tests/captures/{name}.txt"))).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in capture.paths() {
            let file = dir.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text.unwrap_or_default()).unwrap();
        }
        Self(dir)
    }

    pub fn path(&self, file: &str) -> std::path::PathBuf {
        self.0.path().join(file)
    }

    /// Opening it blocks until somebody writes: a driver that does not answer.
    pub fn block(&self, file: &str) {
        let path = self.path(file);
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    }

    /// Lets the blocked reader go with this text, and leaves a plain file behind.
    pub fn release(&self, file: &str, text: &str) {
        let fifo = self.path(file);
        let plain = self.path("released");
        fs::write(&plain, text).unwrap();
        let mut writer = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        fs::rename(&plain, &fifo).unwrap();
        std::io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
    }

    pub fn start(&self) -> Exporter {
        self.start_with(&[])
    }

    pub fn start_with(&self, more: &[&str]) -> Exporter {
        let arg =
            |flag: &str, sub: &str| format!("--path.{flag}={}", self.0.path().join(sub).display());
        let own = [arg("procfs", "proc"), arg("sysfs", "sys"), arg("rootfs", "")];
        let all: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Exporter::start(&all)
    }
}

/// An HTTP answer.
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// One request on a connection of its own.
pub fn request(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n")
        .unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("answers");
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    Answer { status, headers: head, body: bytes[end + 4..].to_vec() }
}

/// Value of one series, by its exact name and labels.
pub fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// What a round of questions to a GPU is held to when a test asks.
pub fn pace(now: &dyn Fn() -> Duration) -> Pace<'_> {
    let limits = Limits {
        deadline: Duration::from_secs(2),
        smi_deadline: Duration::from_secs(5),
        retry_first: Duration::from_secs(1),
        retry_max: Duration::from_secs(60),
    };
    Pace { choice: GpuChoice::Auto, limits, now }
}

/// One reading of a machine and what follows from it, at a fixed time.
pub fn frame(machine: &dyn AnyMachine) -> Frame {
    let at = Moment { mono: Duration::from_secs(100), wall: Duration::from_secs(1_700_000_000) };
    let mut snapshot = Snapshot::absent(at, Missing::Pending);
    let now = || at.mono;
    let mut health = Health::default();
    for &source in Source::ALL {
        let result = sources::read(source, machine, &pace(&now), &mut snapshot);
        snapshot.read_at[source.index()] = Some(at);
        let one = &mut health.sources[source.index()];
        one.state = Some(result.as_ref().map_or_else(|e| e.reason().into(), |()| SourceState::Ok));
        one.message = result.err().map(|error| error.to_string().into());
    }
    let thresholds = Thresholds::default();
    Frame {
        exports: Default::default(),
        number: 1,
        verdicts: derive::derive(&mut State::default(), &snapshot, &thresholds),
        snapshot,
        thresholds,
        health,
        boot: Boot { unclean: Err(Missing::Disabled), previous_seen: Err(Missing::Disabled) },
        replay: None,
        exporter: Build { version: "0", revision: "0", started: at },
        events: Arc::default(),
    }
}

/// A capture less its processes, which are no files: what a test that stages its files gives.
pub fn without_processes(path: &Path) -> Capture {
    let text = fs::read_to_string(path).unwrap();
    let files = text.split_once("\n==> processes\n").map_or(text.as_str(), |(files, processes)| {
        assert!(!processes.contains("\n==> "), "{}: they come last", path.display());
        files
    });
    Capture::parse(files).unwrap()
}

/// Every capture of the suite. None at all is a failure of the suite.
pub fn captures() -> Vec<(String, PathBuf)> {
    let mut all: Vec<_> = fs::read_dir(root().join("tests/captures"))
        .expect("tests/captures")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    all.sort();
    assert!(all.len() >= 12, "only {} captures", all.len());
    all
}

/// Compares with a golden file below tests/golden or docs, or rewrites it when UPDATE is set. A
/// rewrite is refused in CI: there a golden file is a promise.
pub fn golden(path: &str, actual: &str) {
    let file = root().join(path);
    if std::env::var_os("UPDATE").is_some() {
        assert!(std::env::var_os("CI").is_none(), "UPDATE is refused in CI");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if expected != actual {
        let first = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
        let at = first.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
        panic!(
            "{path} differs from line {}:\n  file: {:?}\n  now:  {:?}\nRead the difference; `make docs` accepts it.",
            at + 1,
            expected.lines().nth(at),
            actual.lines().nth(at),
        );
    }
}
