//! A machine that is sampled, and an independent reader of what comes of it.

use crate::support::fakes::{self, Gpu};
use crate::support::{Machine, exporter, root};
use gb10_exporter::capture::Capture;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const SERVING: &str = "gb10-580.173.02-serving";
pub(crate) const SHORT: &str = "timestamp,temperature.gpu,power.draw";
pub(crate) const SMI: &str = "timestamp, temperature.gpu, power.draw [W]";
pub(crate) const NOTHING: &str = "[N/A]";
/// The driver is asked again soon, and is soon called hung.
const QUICK: &str =
    "thresholds: {gpu: {period: 200ms, deadline: 500ms, retry_first: 100ms, retry_max: 200ms}}\n";
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A machine of real files with a fake driver's library, and a place for what is written.
pub(crate) struct Scene {
    machine: Machine,
    pub(crate) gpu: Option<Gpu>,
    pub(crate) dir: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new(name: &str) -> Self {
        let has_gpu = !load(name).gpu.is_empty();
        let gpu = has_gpu.then(|| Gpu::new(name));
        let scene = Self { machine: Machine::new(name), gpu, dir: tempfile::tempdir().unwrap() };
        fs::write(scene.file("config.yml"), QUICK).unwrap();
        scene
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.file("thermal.log")
    }

    /// `sample` on this machine.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = exporter();
        self.arguments(&mut command);
        command.args(args);
        command
    }

    pub(crate) fn arguments(&self, command: &mut Command) {
        command.arg("sample").env("TZ", "UTC0");
        for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
            command.arg(format!("--path.{flag}={}", self.machine.path(sub).display()));
        }
        command.arg("--config.file").arg(self.file("config.yml"));
        if let Some(gpu) = &self.gpu {
            command.arg("--path.nvml").arg(fakes::nvml()).envs(gpu.environment());
        }
    }

    /// Two rows on standard output.
    pub(crate) fn print(&self, args: &[&str]) -> Vec<String> {
        let out =
            self.command(&["--interval=1", "--duration=1s", "-"]).args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        lines(&String::from_utf8(out.stdout).unwrap())
    }

    /// Samples into the log every second.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let every = if args.contains(&"--interval=1h") { &[][..] } else { &["--interval=1s"] };
        let mut command = self.command(every);
        command.args(args).arg(self.log());
        Running::new(command, &self.file("stderr"))
    }

    pub(crate) fn written(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// The lines so far. A long one that is being written at this moment may be seen in part.
    pub(crate) fn so_far(&self) -> Vec<String> {
        let text = self.written();
        lines(&text[..text.rfind('\n').map_or(0, |end| end + 1)])
    }
}

/// A process that samples; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stderr: PathBuf,
}

impl Running {
    pub(crate) fn new(mut command: Command, stderr: &Path) -> Self {
        let child = command.stderr(File::create(stderr).unwrap()).stdout(Stdio::null()).spawn();
        Self { child: child.unwrap(), stderr: stderr.to_owned() }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Ends it as a service manager does.
    pub(crate) fn stop(self) -> String {
        self.signal("TERM");
        self.stop_by_itself()
    }

    /// Waits until it has ended well, and tells what it said.
    pub(crate) fn stop_by_itself(mut self) -> String {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "does not end: {}", self.said());
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.code(), Some(0), "{}", self.said());
        self.said()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn load(name: &str) -> Capture {
    Capture::load(&root().join(format!("tests/captures/{name}.txt"))).unwrap()
}

pub(crate) fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The lines of a text that ends with a whole one.
#[track_caller]
pub(crate) fn lines(text: &str) -> Vec<String> {
    assert!(text.is_empty() || text.ends_with('\n'), "half a line: {text:?}");
    text.lines().map(str::to_owned).collect()
}

/// A row: when (in milliseconds of some epoch), degrees, watts.
pub(crate) type Row = (i64, Option<i64>, Option<f64>);

/// A reader of nvidia-smi's CSV that knows nothing of the exporter: cells between commas with a space, a
/// time with milliseconds, whole degrees, watts with two decimals and their unit.
#[track_caller]
pub(crate) fn smi_row(line: &str) -> Row {
    let cells: Vec<&str> = line.split(", ").collect();
    assert_eq!(cells.len(), 3, "{line:?}");
    let digits = |text: &str, n: usize| -> i64 {
        assert!(text.len() == n && text.bytes().all(|b| b.is_ascii_digit()), "{line:?}");
        text.parse().unwrap()
    };
    let at = cells[0];
    let apart = [(4, "/"), (7, "/"), (10, " "), (13, ":"), (16, ":"), (19, ".")];
    assert!(at.len() == 23 && apart.iter().all(|(n, c)| &at[*n..=*n] == *c), "{line:?}");
    let (y, m, d) = (digits(&at[..4], 4), digits(&at[5..7], 2), digits(&at[8..10], 2));
    let (hour, minute) = (digits(&at[11..13], 2), digits(&at[14..16], 2));
    let (second, milli) = (digits(&at[17..19], 2), digits(&at[20..], 3));
    // Months as if each had 31 days: good enough for differences within one.
    let day = (y * 12 + m) * 31 + d;
    let when = (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli;
    let degrees = (cells[1] != NOTHING).then(|| digits(cells[1], cells[1].len()));
    let watts = (cells[2] != NOTHING).then(|| {
        let number = cells[2].strip_suffix(" W").unwrap();
        let (whole, part) = number.split_once('.').unwrap();
        let _ = (digits(whole, whole.len()), digits(part, 2));
        number.parse().unwrap()
    });
    (when, degrees, watts)
}

/// The rows below a header.
#[track_caller]
pub(crate) fn smi_rows(lines: &[String]) -> Vec<Row> {
    lines[1..].iter().map(|line| smi_row(line)).collect()
}

/// The last whole row, once there is one of which this holds.
pub(crate) fn wait_for_row(scene: &Scene, what: &str, holds: impl Fn(Row) -> bool) -> Row {
    wait_for(what, || {
        let lines = scene.so_far();
        let row = smi_row(lines.last().filter(|_| lines.len() > 1)?);
        holds(row).then_some(row)
    })
}

pub(crate) fn stdout(out: &Output) -> &str {
    std::str::from_utf8(&out.stdout).unwrap()
}
