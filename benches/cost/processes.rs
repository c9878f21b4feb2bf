//! A box full of processes, and what looking at them takes.

use super::{Outcome, ROUNDS, Running, Spread, micros, pair_row, section};
use gb10_exporter::model::fields::Group;
use gb10_exporter::model::naming::Naming;
use gb10_exporter::model::{reading::Missing, workload::Processes};
use gb10_exporter::sources::processes::Reader;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Processes beside those that are there anyway.
const MANY: usize = 500;
/// So many of them use the GPU.
const ON_GPU: usize = 12;
/// A process that is this old is what it is, and need not be looked at as closely again.
const OLD: Duration = Duration::from_secs(31);

/// Programs that do nothing; those that use the GPU are called as most of those are.
fn crowd(directory: &Path) -> Outcome<Vec<Running>> {
    let python = directory.join("python3");
    symlink("/bin/sleep", &python).map_err(|e| format!("{}: {e}", python.display()))?;
    let start = |number: usize| {
        let program = if number < ON_GPU { &python } else { Path::new("/bin/sleep") };
        let mut command = Command::new(program);
        command.arg0(program.file_name().unwrap_or_default()).arg("600").stdin(Stdio::null());
        command.spawn().map(Running).map_err(|e| format!("{}: {e}", program.display()))
    };
    (0..MANY).map(start).collect()
}

/// What this thread has used of a CPU: with so many system calls a busy machine would show in the clock.
fn used() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// The same of all processes with the `procfs` crate: their `stat`, and nothing of those that matter.
fn peer() -> usize {
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    all.filter_map(|process| process.stat().ok()).count()
}

/// A round of ours beside one of the crate's, in turns, on this machine's own `/proc`.
pub(super) fn measure() -> Outcome<()> {
    let directory = tempfile::tempdir().map_err(|e| format!("a directory: {e}"))?;
    let crowd = crowd(directory.path())?;
    let on_gpu: BTreeSet<u32> = crowd[..ON_GPU].iter().map(|running| running.0.id()).collect();
    let naming = Naming::default();
    let mut reader = Reader::new(Path::new("/proc"), Path::new("/sys"), naming);
    let mut processes = Processes::absent(Missing::Pending);
    section(
        &format!("Processes, {MANY} more, {ON_GPU} on the GPU, µs of CPU"),
        ["ours", "procfs crate", "crate/ours"],
    );
    let mut round = |label: &str, aim: &str| -> Outcome<()> {
        let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
        for number in 0..ROUNDS / 10 {
            let began = used();
            reader.read(&on_gpu, &mut processes).map_err(|e| e.to_string())?;
            let between = used();
            if black_box(peer()) < MANY {
                return Err("the procfs crate finds too few processes".to_owned());
            }
            // The first rounds warm up.
            if number >= 10 {
                ours.push(micros(between.saturating_sub(began)));
                theirs.push(micros(used().saturating_sub(between)));
            }
        }
        let [ours, theirs] = [ours, theirs].map(Spread::of);
        pair_row(&format!("{label}, median"), [ours.at(0.5), theirs.at(0.5)], aim);
        pair_row(&format!("{label}, p99"), [ours.at(0.99), theirs.at(0.99)], "");
        Ok(())
    };
    round("processes tick, each 5 seconds, the 12 new", "ours below 8000")?;
    std::thread::sleep(OLD);
    round("processes tick, each 5 seconds", "ours below 8000")?;
    let found = processes.list.iter().flatten().filter(|proc| on_gpu.contains(&proc.pid)).count();
    if found == ON_GPU { Ok(()) } else { Err(format!("{found} of {ON_GPU} are found")) }
}
