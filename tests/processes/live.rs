//! Real processes of this machine with the names and arguments of others, and an exporter that reads them.

use crate::support::fakes::{self, Gpu};
use crate::support::{Exporter, exporter};
use gb10_exporter::model::naming::UnitRules;
use gb10_exporter::sources::processes::unit::unit;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A GPU of these machines.
pub(crate) const CAPTURE: &str = "gb10-580.173.02-serving";

/// Those of one test are not to be counted by another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The processes that a test has started. They end with it, however it ends.
pub(crate) struct Cast {
    directory: tempfile::TempDir,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    started: usize,
    _alone: MutexGuard<'static, ()>,
}

/// A process: how its parent finds it, and its pid.
#[derive(Clone)]
pub(crate) struct Actor {
    way: Vec<usize>,
    children: usize,
    pub(crate) pid: u32,
}

impl Cast {
    pub(crate) fn new() -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        // Not of any class, and somewhere between those that are.
        let mut command = Command::new(fakes::program());
        command.arg0("cast").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("starts");
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let output = BufReader::new(output.expect("piped"));
        Self { directory, process, input, output, started: 0, _alone: alone }
    }

    /// A file by which a program may be started: its name is the process's.
    fn program(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        if !path.exists() {
            std::os::unix::fs::symlink(fakes::program(), &path).unwrap();
        }
        path
    }

    pub(crate) fn tell(&mut self, words: &[&str]) -> String {
        let input = self.input.as_mut().expect("still there");
        writeln!(input, "{}", words.join("\t")).unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty() && !answer.starts_with('!'), "{words:?}: {answer:?}");
        answer.trim_end().to_owned()
    }

    fn tell_one(&mut self, way: &[usize], words: &[&str]) -> String {
        let numbers: Vec<String> = way.iter().map(ToString::to_string).collect();
        let mut all: Vec<&str> = numbers.iter().flat_map(|n| ["of", n.as_str()]).collect();
        all.extend(words);
        self.tell(&all)
    }

    /// Starts a program of that name with these arguments, its own name among them.
    pub(crate) fn start(&mut self, name: &str, line: &[&str]) -> Actor {
        let program = self.program(name);
        let words = [&["spawn", program.to_str().unwrap()], line].concat();
        let pid = self.tell(&words).parse().unwrap();
        self.started += 1;
        Actor { way: vec![self.started - 1], children: 0, pid }
    }

    /// Lets a process start another one.
    pub(crate) fn start_below(&mut self, parent: &mut Actor, name: &str, line: &[&str]) -> Actor {
        let program = self.program(name);
        let words = [&["spawn", program.to_str().unwrap()], line].concat();
        let pid = self.tell_one(&parent.way, &words).parse().unwrap();
        let way = [parent.way.as_slice(), &[parent.children]].concat();
        parent.children += 1;
        Actor { way, children: 0, pid }
    }

    /// Lets a process obey an order.
    pub(crate) fn order(&mut self, actor: &Actor, words: &[&str]) {
        self.tell_one(&actor.way, words);
    }

    pub(crate) fn title(&mut self, actor: &Actor, title: &str) {
        self.order(actor, &["title", title]);
    }

    /// Ends a process and all below it; they are gone when this returns.
    pub(crate) fn end(&mut self, actor: &Actor) {
        let (last, way) = actor.way.split_last().expect("not the first");
        self.tell_one(way, &["end", &last.to_string()]);
        assert!(!Path::new(&format!("/proc/{}", actor.pid)).exists());
    }

    /// The same without a warning.
    pub(crate) fn kill(&mut self, actor: &Actor) {
        let (last, way) = actor.way.split_last().expect("not the first");
        self.tell_one(way, &["kill", &last.to_string()]);
        assert!(!Path::new(&format!("/proc/{}", actor.pid)).exists());
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.wait();
    }
}

/// An exporter's command on this machine's processes, with the driver of another.
pub(crate) fn command(gpu: &Gpu, command: &str) -> Command {
    let mut all = exporter();
    all.arg(command).arg("--path.nvml").arg(fakes::nvml()).envs(gpu.environment());
    all
}

pub(crate) fn serve(gpu: &Gpu, more: &[&str]) -> Exporter {
    let mut all = command(gpu, "serve");
    all.args(["--web.listen-address", "127.0.0.1:0"]).args(more);
    Exporter::spawn(all)
}

/// What the driver charges to processes.
pub(crate) fn charge(gpu: &Gpu, rows: &[(u32, u64)]) {
    let rows: Vec<String> = rows.iter().map(|(pid, bytes)| format!("{pid}:{bytes}")).collect();
    gpu.set(&[
        ("0.processes.compute", &rows.join(",")),
        ("0.processes.graphics", ""),
        ("0.processes.mps", ""),
    ]);
}

/// The unit of a process that a test has started.
pub(crate) fn unit_here() -> String {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    unit(&groups, &UnitRules::default()).name.to_string()
}

pub(crate) fn stdout(mut command: Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The job whose first process that is.
pub(crate) fn job<'a>(status: &'a Value, actor: &Actor) -> Option<&'a Value> {
    let jobs = status["holders"]["jobs"].as_array().expect("jobs");
    jobs.iter().find(|job| job["pid"] == actor.pid)
}
