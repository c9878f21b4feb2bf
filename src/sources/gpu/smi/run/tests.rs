#![expect(clippy::disallowed_methods, reason = "scripts stand for nvidia-smi")]

use super::super::Reader;
use super::*;
use crate::clock::{Clock, System};
use crate::model::fields::Group;
use crate::model::gpu::{GpuChoice, Gpus, ProcessList, Via};
use crate::model::reading::Missing;
use crate::sources::files::ReadError;
use crate::sources::gpu::{Limits, Pace};
use crate::units::{Bytes, Watts};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// These tests count this process's descriptors and children, and a script that is open for writing
/// when another thread forks cannot be run.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn now() -> Duration {
    System.now().mono
}

fn since(begun: Duration) -> Duration {
    now().saturating_sub(begun)
}

/// A program, and a place for its notes.
struct Script {
    dir: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Script {
    fn new(body: &str) -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let script = Self { dir: tempfile::tempdir().unwrap(), _alone: alone };
        script.change(body);
        script
    }

    /// `$D` in the script is its directory.
    fn change(&self, body: &str) {
        let text = format!("#!/bin/sh\nD={}\n{body}\n", self.dir.path().display());
        fs::write(self.path(), text).unwrap();
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("nvidia-smi")
    }

    fn reader(&self) -> Reader {
        Reader::new(self.path().to_str().unwrap())
    }

    /// The lines that the script has written to a file.
    fn notes(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn round_at(
    reader: &mut Reader,
    seconds: f64,
    now: &dyn Fn() -> Duration,
) -> (Gpus, Result<(), (String, Missing)>) {
    let limits = Limits {
        deadline: Duration::from_secs(1),
        smi_deadline: Duration::from_secs_f64(seconds),
        retry_first: Duration::ZERO,
        retry_max: Duration::ZERO,
    };
    let mut gpus = Gpus::absent(Missing::Pending);
    let result = reader.read(&Pace { choice: GpuChoice::Smi, limits, now }, &mut gpus);
    let result = result.map_err(|error| match error {
        ReadError::Gpu { what, reason } => (what, reason),
        other => panic!("{other}"),
    });
    (gpus, result)
}

fn round(reader: &mut Reader, seconds: f64) -> (Gpus, Result<(), (String, Missing)>) {
    round_at(reader, seconds, &now)
}

/// A failure as a whole: every reading has its reason.
fn failure(reader: &mut Reader, seconds: f64) -> (String, Missing) {
    let (gpus, result) = round(reader, seconds);
    let (what, reason) = result.unwrap_err();
    assert_eq!(gpus, Gpus::absent(reason), "{what}");
    (what, reason)
}

/// A machine with one GPU, which answers whatever it is asked. `refuse` lists fields that it does not
/// know; it names one at a time.
fn machine(refuse: &str) -> String {
    format!(
        r#"case "$1" in
--query-gpu=*)
    echo "$1" >> $D/asked
    fields=$(echo "${{1#*=}}" | tr , ' ')
    for field in $fields; do
        for refused in {refuse}; do
            if [ "$field" = "$refused" ]; then
                echo "Field \"$field\" is not a valid field to query."
                echo
                exit 2
            fi
        done
    done
    echo "${{1#*=}}" | sed 's/,/, /g'
    line=
    for field in $fields; do
        case $field in
        index) value=0 ;;
        uuid) value=GPU-1 ;;
        driver_version) value=580.142 ;;
        power.*) value='11.48 W' ;;
        clocks_*.active) value=0x0000000000000001 ;;
        *) value='[N/A]' ;;
        esac
        line="$line, $value"
    done
    echo "${{line#, }}" ;;
--query-compute-apps=*)
    echo 'GPU-1, 37388, VLLM::EngineCore, 109832 MiB'
    echo 'GPU-1, 37388, VLLM::EngineCore, 109000 MiB' ;;
esac"#
    )
}

/// Whether a process is gone, or waits for somebody else to take note of its end.
fn dead(pid: &str) -> bool {
    let gone = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']),
        Err(_) => true,
    };
    // A killed process takes a moment to die.
    (0..100).any(|_| {
        if !gone() {
            std::thread::sleep(Duration::from_millis(10));
        }
        gone()
    })
}

/// The pipes and process descriptors that this process has open.
fn descriptors() -> usize {
    let names = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = names.filter_map(|entry| fs::read_link(entry.path()).ok());
    let ours = |target: &PathBuf| {
        let target = target.to_string_lossy();
        target.starts_with("pipe:") || target.contains("pidfd")
    };
    targets.filter(ours).count()
}

/// This process's children, zombies included.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_round() {
    let script = Script::new(&machine(""));
    let (gpus, result) = round(&mut script.reader(), 10.0);
    assert_eq!(result, Ok(()));
    assert_eq!((gpus.via, gpus.driver.as_deref()), (Ok(Via::NvidiaSmi), Ok("580.142")));
    assert_eq!(gpus.path, Ok(script.path().display().to_string()));
    assert_eq!(gpus.xids, Err(Missing::Unsupported));
    assert_eq!((gpus.library.clone(), gpus.cuda.clone()), {
        let none = Err(Missing::NotAvailable);
        (none.clone(), none)
    });
    let [gpu] = gpus.devices.as_deref().unwrap() else { panic!("{gpus:?}") };
    assert_eq!(gpu.power, Ok(Watts(11.48)));
    let [process] = gpu.processes.as_deref().unwrap() else { panic!("{gpu:?}") };
    assert_eq!((process.pid, process.memory), (37388, Ok(Bytes::from_mib(109_832))));
    assert!(process.lists[ProcessList::Compute as usize]);
    assert_eq!(script.notes("asked").len(), 1);
}

#[test]
fn what_hangs_is_killed_with_its_children() {
    let script = Script::new("trap '' TERM HUP INT\nsleep 60 &\necho $$ $! > $D/pids\nsleep 60");
    let begun = now();
    let (what, reason) = failure(&mut script.reader(), 1.0);
    assert_eq!(reason, Missing::Hung);
    assert!(what.ends_with("/nvidia-smi took longer than 1 s to answer"), "{what}");
    let took = since(begun);
    assert!((1.0..5.0).contains(&took.as_secs_f64()), "{took:?}");
    for pid in script.notes("pids")[0].split(' ') {
        assert!(dead(pid), "{pid}");
    }
}

#[test]
fn a_clock_that_stands_still_does_not_make_it_wait_for_ever() {
    let script = Script::new("exec sleep 60");
    let (_, result) = round_at(&mut script.reader(), 0.2, &|| Duration::ZERO);
    assert_eq!(result.unwrap_err().1, Missing::Hung);
}

#[test]
fn what_floods_is_killed() {
    let script = Script::new("echo $$ > $D/pids; exec yes");
    let begun = now();
    let (what, reason) = failure(&mut script.reader(), 20.0);
    assert_eq!(reason, Missing::Malformed, "{what}");
    assert!(what.ends_with("printed more than 262144 bytes"), "{what}");
    assert!(since(begun) < Duration::from_secs(10));
    assert!(dead(&script.notes("pids")[0]));
    // Complaints without end are read, so that the program does not block, and not kept.
    script.change("exec yes >&2");
    assert_eq!(failure(&mut script.reader(), 0.3).1, Missing::Hung);
}

#[test]
fn what_it_leaves_behind_neither_blocks_nor_stays() {
    let script = Script::new(&format!("sleep 60 &\necho $! >> $D/pids\n{}", machine("")));
    let begun = now();
    let (_, result) = round(&mut script.reader(), 20.0);
    assert_eq!(result, Ok(()));
    assert!(since(begun) < Duration::from_secs(10));
    let left = script.notes("pids");
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|pid| dead(pid)));
}

#[test]
fn fields_that_it_does_not_know_are_given_up() {
    let script = Script::new(&machine(
        "addressing_mode clocks_event_reasons.active clocks.gr clocks.max.sm temperature.gpu.tlimit",
    ));
    let mut reader = script.reader();
    let (gpus, result) = round(&mut reader, 20.0);
    assert_eq!(result, Ok(()));
    let gpu = gpus.each().next().unwrap();
    assert_eq!(gpu.addressing_mode, Err(Missing::NoSymbol));
    assert_eq!(gpu.margin, Err(Missing::NoSymbol));
    // By another name.
    assert!(gpu.event_reasons.is_ok());
    assert_eq!(gpu.clocks[0], Err(Missing::NotAvailable));
    assert_eq!(script.notes("asked").len(), 6);
    assert_eq!(round(&mut reader, 20.0).1, Ok(()));
    assert_eq!(script.notes("asked").len(), 7, "it is remembered");
    // Another driver may know them.
    script.change(&machine("").replace("580.142", "610.43.02"));
    assert!(round(&mut reader, 20.0).0.each().all(|gpu| gpu.margin == Err(Missing::NoSymbol)));
    assert!(round(&mut reader, 20.0).0.each().all(|gpu| gpu.margin != Err(Missing::NoSymbol)));
    // One that refuses what it was not asked for.
    script.change("echo 'Field \"x\" is not a valid field to query.'; exit 2");
    let (what, reason) = failure(&mut reader, 20.0);
    assert!(what.ends_with("does not know the field x"), "{what}");
    assert_eq!(reason, Missing::Failed);
}

#[test]
fn finding_out_the_fields_may_take_several_rounds_and_never_longer_than_one() {
    let body = machine("pstate clocks.max.sm memory.used memory.free memory.total vbios_version");
    let script = Script::new(&format!("sleep 0.3\n{body}"));
    let mut reader = script.reader();
    let mut rounds = 0;
    let last = loop {
        let begun = now();
        let (_, result) = round(&mut reader, 1.8);
        assert!(since(begun) < Duration::from_millis(2800));
        rounds += 1;
        match result {
            Err((_, Missing::Pending)) if rounds < 10 => {}
            other => break other,
        }
    };
    assert!(last.is_ok() && rounds > 1, "{last:?} after {rounds}");
}

#[test]
fn a_process_list_that_hangs_leaves_the_figures() {
    let body = machine("").replace("--query-compute-apps=*)", "--query-compute-apps=*) sleep 60;");
    let script = Script::new(&body);
    let (gpus, result) = round(&mut script.reader(), 2.0);
    assert_eq!(result.unwrap_err().1, Missing::Hung);
    let gpu = gpus.each().next().unwrap();
    assert_eq!((gpu.power, &gpu.processes), (Ok(Watts(11.48)), &Err(Missing::Hung)));
    script
        .change(&machine("").replace("--query-compute-apps=*)", "--query-compute-apps=*) exit 4;"));
    let (gpus, result) = round(&mut script.reader(), 10.0);
    assert_eq!(result, Err(("processes: exit code 4".to_owned(), Missing::Denied)));
    assert_eq!(gpus.each().next().unwrap().processes, Err(Missing::Denied));
}

#[test]
fn ends_that_are_no_answer() {
    let script = Script::new("");
    let mut reader = script.reader();
    for (body, words, reason) in [
        (
            "echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\"
             exit 9",
            "couldn't communicate",
            Missing::NoDriver,
        ),
        ("echo 'No devices were found'; exit 6", "No devices", Missing::NotPresent),
        ("exit 18", "exit code 18", Missing::NoDriver),
        ("echo 'Insufficient Permissions' >&2; exit 4", "Insufficient", Missing::Denied),
        ("kill -SEGV $$", "ended by a signal", Missing::Failed),
        ("printf '\\377\\376\\n'; exit 1", "exit code 1", Missing::Failed),
        ("exit 0", "exit code 0", Missing::Malformed),
    ] {
        script.change(body);
        let (what, found) = failure(&mut reader, 20.0);
        assert_eq!(found, reason, "{what}");
        assert!(what.contains(words), "{what}");
    }
    script.change(
        "echo 'Unable to determine the device handle for GPU 0000000F:01:00.0: GPU is lost.  Reboot \
         the system to recover this GPU'; exit 15",
    );
    let (gpus, result) = round(&mut reader, 20.0);
    assert_eq!(result.unwrap_err().1, Missing::Lost);
    let gpu = gpus.each().next().unwrap();
    assert_eq!((gpu.index, &gpu.name), (0, &Err(Missing::Lost)));
    assert_eq!(gpu.bus.as_deref(), Ok("0000000F:01:00.0"));
}

#[test]
fn programs_that_cannot_be_started() {
    let script = Script::new("");
    let (what, reason) = failure(&mut Reader::new("no-such-nvidia-smi"), 1.0);
    assert_eq!((what.as_str(), reason), ("no-such-nvidia-smi is not on PATH", Missing::NoLibrary));
    let (what, reason) = failure(&mut Reader::new("/no/such/nvidia-smi"), 1.0);
    assert!(what.starts_with("/no/such/nvidia-smi cannot be run"), "{what}");
    assert_eq!(reason, Missing::NoLibrary);
    fs::set_permissions(script.path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(failure(&mut script.reader(), 1.0).1, Missing::Denied);
    // A plain name is looked up, and the answer says where.
    let (gpus, result) = round(&mut Reader::new("true"), 5.0);
    let (what, reason) = result.unwrap_err();
    assert_eq!((reason, gpus.path), (Missing::Malformed, Err(Missing::Malformed)), "{what}");
}

#[test]
fn while_one_cannot_be_killed_no_other_is_started() {
    let script = Script::new(&format!("echo $$ >> $D/pids\n{}", machine("")));
    let mut reader = script.reader();
    // Not the head of a group, so that the signal to its group does not reach it.
    let child = Command::new("sleep").arg("60").spawn().unwrap();
    let id = child.id();
    reader.runner.child = Some(child);
    for _ in 0..3 {
        let (what, reason) = failure(&mut reader, 5.0);
        assert_eq!(reason, Missing::Hung);
        assert!(what.ends_with(&format!("(pid {id}) hangs and cannot be killed")), "{what}");
    }
    assert_eq!(script.notes("pids"), [""; 0]);
    reader.runner.child.as_mut().unwrap().kill().unwrap();
    assert!(dead(&id.to_string()));
    assert_eq!(round(&mut reader, 10.0).1, Ok(()));
    assert!(!fs::exists(format!("/proc/{id}")).unwrap(), "it was reaped");
}

#[test]
fn dropping_the_reader_kills_what_still_runs() {
    let script = Script::new("");
    let mut reader = script.reader();
    let child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
    let id = child.id();
    reader.runner.child = Some(child);
    drop(reader);
    assert!(dead(&id.to_string()));
}

#[test]
fn a_panic_in_the_middle_leaves_nothing_running() {
    let script = Script::new("echo $$ > $D/pids; exec sleep 60");
    let mut reader = script.reader();
    let calls = std::cell::Cell::new(0);
    let failing = || {
        calls.set(calls.get() + 1);
        if calls.get() > 3 {
            while script.notes("pids").is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            panic!("a clock that fails");
        }
        now()
    };
    let round = std::panic::AssertUnwindSafe(|| round_at(&mut reader, 5.0, &failing));
    assert!(std::panic::catch_unwind(round).is_err());
    let pids = script.notes("pids");
    assert!(!dead(&pids[0]));
    // The next round kills it, and may come before it is dead.
    script.change(&machine(""));
    let _ = self::round(&mut reader, 10.0);
    assert!(dead(&pids[0]));
    assert_eq!(self::round(&mut reader, 10.0).1, Ok(()));
}

#[test]
fn the_end_is_seen_without_a_process_descriptor_too() {
    let script = Script::new("echo here; sleep 0.1; echo there; exec >&- 2>&-; sleep 0.1; exit 3");
    let mut child = start(&script.path(), &[]).unwrap();
    let mut watch = Watch::over(&mut child).unwrap();
    watch.exit = None;
    watch.wait(&child, &|| Some(Duration::from_secs(10))).unwrap();
    assert_eq!(watch.stdout.text(), "here\nthere\n");
    assert_eq!(watch.reap(&mut child).unwrap().unwrap().code(), Some(3));
}

#[test]
fn many_rounds_leave_nothing_behind() {
    let script = Script::new("");
    let (descriptors_before, children_before) = (descriptors(), children());
    let mut reader = script.reader();
    let hang = "sleep 60 & exec sleep 60";
    for body in [&machine(""), "exit 9", hang, "exec yes", "sleep 60 & exit 0", "kill -9 $$"] {
        script.change(body);
        for _ in 0..8 {
            let _ = round(&mut reader, 0.2);
        }
    }
    let _ = failure(&mut Reader::new("/no/such/nvidia-smi"), 1.0);
    assert_eq!((descriptors(), children()), (descriptors_before, children_before));
}

/// A failed run is not repeated at once, and what it said is said again meanwhile.
#[test]
fn a_failure_is_tried_again_ever_more_rarely() {
    let script = Script::new("echo run >> $D/runs; exit 9");
    let mut reader = script.reader();
    let second = Duration::from_secs(1);
    let limits = Limits {
        deadline: second,
        smi_deadline: second * 20,
        retry_first: second,
        retry_max: second * 4,
    };
    let mut ran = Vec::new();
    for tick in 0..16 {
        let time = || second * tick;
        let mut gpus = Gpus::absent(Missing::Pending);
        let pace = Pace { choice: GpuChoice::Smi, limits, now: &time };
        let error = reader.read(&pace, &mut gpus).unwrap_err();
        assert_eq!((error.reason(), gpus), (Missing::NoDriver, Gpus::absent(Missing::NoDriver)));
        ran.push(script.notes("runs").len());
    }
    let tries: Vec<_> = (0..16).filter(|t| *t == 0 || ran[*t] > ran[*t - 1]).collect();
    assert_eq!(tries, [0, 1, 3, 7, 11, 15], "after 1, 2, 4, 4 s");
}
