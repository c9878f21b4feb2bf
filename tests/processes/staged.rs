//! A `/proc` that a test makes: processes of files, and traps where nobody may look.

use gb10_exporter::model::fields::Group;
use gb10_exporter::model::naming::Naming;
use gb10_exporter::model::reading::Missing;
use gb10_exporter::model::workload::{Proc, Processes};
use gb10_exporter::sources::ReadError;
use gb10_exporter::sources::processes::Reader;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Long after the start of the processes here: nothing is young, unless a test wants it.
const UPTIME: &str = "90000.00 170000.00\n";

/// A directory with `proc` and `sys` in it.
pub(crate) struct Stage(tempfile::TempDir);

/// A process to be.
pub(crate) struct One<'a> {
    pub(crate) comm: &'a [u8],
    pub(crate) parent: u32,
    pub(crate) flags: u32,
    pub(crate) started: u64,
    pub(crate) line: &'a [&'a [u8]],
    pub(crate) environment: &'a [u8],
    pub(crate) cgroup: &'a [u8],
}

impl Default for One<'_> {
    fn default() -> Self {
        Self {
            comm: b"sleep",
            parent: 1,
            flags: 0x0040_0000,
            started: 100_000,
            line: &[],
            environment: b"",
            cgroup: b"0::/system.slice/jobs.service\n",
        }
    }
}

/// vLLM's server with a cap.
pub(crate) const VLLM: &[&[u8]] = &[
    b"/usr/bin/python3",
    b"/usr/local/bin/vllm",
    b"serve",
    b"a/model",
    b"--gpu-memory-utilization",
    b"0.5",
];

impl One<'_> {
    pub(crate) fn vllm() -> Self {
        One { comm: b"python3", line: VLLM, ..Self::default() }
    }

    fn stat(&self, pid: u32) -> Vec<u8> {
        let (parent, flags, started) = (self.parent, self.flags, self.started);
        let mut stat = format!("{pid} (").into_bytes();
        stat.extend_from_slice(self.comm);
        let rest = format!(
            ") S {parent} {pid} {pid} 0 -1 {flags} 9 0 3 0 120 30 0 0 20 0 1 0 {started} 1 2\n"
        );
        stat.extend_from_slice(rest.as_bytes());
        stat
    }
}

/// Argument after argument, as the kernel gives them.
pub(crate) fn joined(line: &[&[u8]]) -> Vec<u8> {
    line.iter().flat_map(|arg| arg.iter().copied().chain([0])).collect()
}

/// Opening it blocks until somebody writes.
pub(crate) fn trap(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

impl Stage {
    /// With the first process and nothing else.
    pub(crate) fn new() -> Self {
        let stage = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(stage.path("proc")).unwrap();
        fs::write(stage.path("proc/uptime"), UPTIME).unwrap();
        stage.put(1, &One { comm: b"systemd", parent: 0, ..One::default() });
        stage
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// The file of a process.
    pub(crate) fn file(&self, pid: u32, name: &str) -> PathBuf {
        self.path(&format!("proc/{pid}/{name}"))
    }

    /// A process with all of its files.
    pub(crate) fn put(&self, pid: u32, one: &One<'_>) {
        self.put_stat(pid, one);
        let status = "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  800 kB\nRssAnon:\t  500 kB\n\
                      RssFile:\t  300 kB\nRssShmem:\t  0 kB\nVmSwap:\t  0 kB\n";
        for (name, bytes) in [
            ("cmdline", joined(one.line).as_slice()),
            ("environ", one.environment),
            ("cgroup", one.cgroup),
            ("status", status.as_bytes()),
        ] {
            let _ = fs::remove_file(self.file(pid, name));
            fs::write(self.file(pid, name), bytes).unwrap();
        }
    }

    /// A process of which the rest is gone already.
    pub(crate) fn put_stat(&self, pid: u32, one: &One<'_>) {
        fs::create_dir_all(self.path(&format!("proc/{pid}"))).unwrap();
        fs::write(self.file(pid, "stat"), one.stat(pid)).unwrap();
    }

    /// A process that can be looked at, but not more closely.
    pub(crate) fn put_trapped(&self, pid: u32, one: &One<'_>, traps: &[&str]) {
        self.put_stat(pid, one);
        for name in traps {
            trap(&self.file(pid, name));
        }
    }

    /// What a group of processes accounts for.
    pub(crate) fn group(&self, path: &str, files: &[(&str, &str)]) {
        let directory = self.path(&format!("sys/fs/cgroup/{path}"));
        fs::create_dir_all(&directory).unwrap();
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
    }

    pub(crate) fn reader(&self) -> Reader {
        self.reader_naming(Naming::default())
    }

    pub(crate) fn reader_naming(&self, naming: Naming) -> Reader {
        Reader::new(&self.path("proc"), &self.path("sys"), naming)
    }
}

/// What came of a round, and with how many calls of `read`.
pub(crate) struct Round {
    pub(crate) result: Result<(), ReadError>,
    pub(crate) processes: Processes,
    pub(crate) reads: u64,
}

impl Round {
    pub(crate) fn list(&self) -> &[Proc] {
        self.processes.list.as_ref().expect("a list")
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.list().iter().map(|proc| proc.pid).collect()
    }

    #[track_caller]
    pub(crate) fn one(&self, pid: u32) -> &Proc {
        let found = self.list().iter().find(|proc| proc.pid == pid);
        found.unwrap_or_else(|| panic!("{pid} is not listed: {:?}", self.pids()))
    }
}

fn reads() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").expect("a kernel that counts input");
    let count = io.lines().find_map(|line| line.strip_prefix("syscr: "));
    count.and_then(|count| count.parse().ok()).expect("a number of reads")
}

/// A round on a thread of its own, which a trap would keep for ever.
#[track_caller]
pub(crate) fn round(mut reader: Reader, on_gpu: &[u32]) -> (Reader, Round) {
    let on_gpu: BTreeSet<u32> = on_gpu.iter().copied().collect();
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        let mut processes = Processes::absent(Missing::Pending);
        // Counting takes reads of its own.
        let (first, before) = (reads(), reads());
        let result = reader.read(&on_gpu, &mut processes);
        let reads = reads() - before - (before - first);
        let _ = done.send((reader, Round { result, processes, reads }));
    });
    let patience = Duration::from_secs(60);
    waiting.recv_timeout(patience).expect("a round that no trap has caught")
}
