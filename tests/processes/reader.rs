//! Odd processes, one by one.

use crate::staged::{One, Stage, VLLM, joined, round, trap};
use gb10_exporter::model::reading::Missing;
use gb10_exporter::model::workload::{CapSetting, Class};
use gb10_exporter::units::{Bytes, Count, Ratio};
use std::fs;
use std::os::unix::fs::FileTypeExt;

const HALF: CapSetting = CapSetting::Whole(Ratio(0.5));
/// Everything of a process beside its `stat` that somebody might read.
const ALL: &[&str] = &[
    "status",
    "cmdline",
    "environ",
    "cgroup",
    "smaps",
    "smaps_rollup",
    "maps",
    "statm",
    "io",
    "comm",
];
/// What is never read of any process: walking the page tables holds up the process.
const NEVER: &[&str] = &["smaps", "smaps_rollup", "maps", "numa_maps", "pagemap", "mem", "io"];

#[test]
fn a_pid_that_comes_again_is_another_process() {
    let stage = Stage::new();
    stage.put(500, &One::vllm());
    stage.put(501, &One::vllm());
    let (reader, first) = round(stage.reader(), &[]);
    assert_eq!((first.one(500).cap, first.one(501).cap), (HALF, HALF));
    // The same name and another start: once nothing that matters, once the same with another cap.
    let started = 400_000;
    stage.put(500, &One { started, line: &[b"python3", b"-m", b"http.server"], ..One::vllm() });
    let line: Vec<&[u8]> = [&VLLM[..5], &[b"0.3".as_slice()]].concat();
    stage.put(501, &One { started, line: &line, ..One::vllm() });
    let (_, second) = round(reader, &[]);
    assert_eq!(second.pids(), [501]);
    assert_eq!(second.one(501).cap, CapSetting::Whole(Ratio(0.3)));
    assert_ne!(first.one(501).started, second.one(501).started);
}

/// Its pid passes to another process between the look at its `stat` and that at its command line.
#[test]
fn a_process_is_never_taken_for_its_successor() {
    let stage = Stage::new();
    stage.put(500, &One { comm: b"python3", line: &[b"python3", b"a.py"], ..One::default() });
    trap(&stage.file(500, "cmdline"));
    let (reader, first) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| round(stage.reader(), &[]));
        // Opens when the reader has come that far.
        let line = fs::OpenOptions::new().write(true).open(stage.file(500, "cmdline")).unwrap();
        stage.put_stat(500, &One { started: 400_000, ..One::vllm() });
        std::io::Write::write_all(&mut &line, &joined(VLLM)).unwrap();
        drop(line);
        reading.join().unwrap()
    });
    assert_eq!(first.pids(), [0_u32; 0], "the old start does not go with the new command line");
    stage.put(500, &One { started: 400_000, ..One::vllm() });
    let (_, second) = round(reader, &[]);
    assert_eq!(second.one(500).cap, HALF);
}

#[test]
fn one_that_ends_while_it_is_looked_at_is_not_listed() {
    let stage = Stage::new();
    stage.put(500, &One::vllm());
    stage.put_stat(501, &One::vllm());
    stage.put_stat(502, &One { comm: b"VLLM::EngineCor", ..One::default() });
    stage.put(503, &One::vllm());
    fs::remove_file(stage.file(503, "status")).unwrap();
    fs::create_dir_all(stage.path("proc/504")).unwrap();
    let (_, round) = round(stage.reader(), &[501, 504, 505]);
    assert_eq!((round.pids(), round.processes.denied), (vec![500], Ok(Count(0))));
    assert!(round.result.is_ok(), "an end is no error");
}

/// A zombie has no command line any more, and is still what it was.
#[test]
fn one_that_has_ended_and_is_not_taken_note_of_stays_what_it_was() {
    let stage = Stage::new();
    fs::write(stage.path("proc/uptime"), "1010.0 0.0\n").unwrap();
    stage.put(500, &One::vllm());
    let (reader, first) = round(stage.reader(), &[500]);
    assert!(!first.one(500).zombie);
    let stat = fs::read_to_string(stage.file(500, "stat")).unwrap();
    fs::write(stage.file(500, "stat"), stat.replace(") S ", ") Z ")).unwrap();
    fs::write(stage.file(500, "cmdline"), "").unwrap();
    fs::write(stage.file(500, "status"), "Name:\tpython3\nState:\tZ (zombie)\n").unwrap();
    let (_, second) = round(reader, &[500]);
    let now = second.one(500);
    assert!(now.zombie);
    assert_eq!((&now.class, now.cap), (&Class::Vllm.into(), HALF));
    assert_eq!(now.resident, Err(Missing::NotPresent));
}

/// Of a process that does not matter one file is opened, and of none those that hold it up.
#[test]
fn what_does_not_matter_costs_one_file() {
    let stage = Stage::new();
    for pid in 100..400 {
        let comm: &[u8] = match pid % 4 {
            0 => b"bash",
            1 => b"postgres",
            2 => b"a) R 1 (b",
            _ => b"\xff\xfe\nx",
        };
        stage.put_trapped(pid, &One { comm, ..One::default() }, ALL);
    }
    let (reader, before) = round(stage.reader(), &[]);
    assert_eq!(before.pids(), [0_u32; 0]);
    // And two or three for the uptime.
    let alone = 301 + 3;
    assert!(before.reads <= alone, "{} reads for 301 processes", before.reads);
    stage.put(500, &One::vllm());
    for name in NEVER {
        trap(&stage.file(500, name));
    }
    let (_, with) = round(reader, &[500]);
    assert_eq!(with.one(500).cap, HALF);
    assert_eq!(with.one(500).resident, Ok(Bytes::from_kib(800)));
    let more = with.reads - before.reads;
    assert!(more <= 12, "{more} reads for one that matters");
    let file = |name: &str| fs::symlink_metadata(stage.file(500, name)).unwrap().file_type();
    assert!(NEVER.iter().all(|name| file(name).is_fifo()), "the traps were there");
}

/// The kernel's threads tell themselves; in a container the second process is anybody.
#[test]
fn threads_of_the_kernel_are_left_alone_wherever_they_are() {
    const THREAD: u32 = 0x0420_8040;
    let stage = Stage::new();
    stage.put_trapped(
        2,
        &One { comm: b"kthreadd", parent: 0, flags: THREAD, ..One::default() },
        ALL,
    );
    let named = One { comm: b"nvcc", parent: 2, flags: THREAD, ..One::default() };
    stage.put_trapped(3, &named, ALL);
    let (_, host) = round(stage.reader(), &[]);
    assert_eq!(host.pids(), [0_u32; 0]);
    let container = Stage::new();
    container.put(2, &One { comm: b"bash", ..One::default() });
    container.put(3, &One { parent: 2, ..One::vllm() });
    let (_, container) = round(container.reader(), &[]);
    assert_eq!(container.pids(), [3]);
}

#[test]
fn without_any_process_there_is_no_list() {
    let stage = Stage::new();
    fs::remove_dir_all(stage.path("proc/1")).unwrap();
    let (_, none) = round(stage.reader(), &[]);
    assert_eq!(none.processes.list, Err(Missing::NotPresent));
    assert_eq!(none.processes.count, Err(Missing::NotPresent));
    assert!(none.result.unwrap_err().to_string().contains("proc/PID"));
    fs::remove_dir_all(stage.path("proc")).unwrap();
    let (_, none) = round(stage.reader(), &[]);
    assert_eq!(none.result.unwrap_err().reason(), Missing::NotPresent);
}

/// Where the first process is not listed (hidepid=2), others are not either.
#[test]
fn processes_that_are_not_even_listed_are_not_counted_as_none() {
    let stage = Stage::new();
    stage.put(500, &One::vllm());
    let (reader, all) = round(stage.reader(), &[]);
    assert_eq!(all.processes.denied, Ok(Count(0)));
    fs::remove_dir_all(stage.path("proc/1")).unwrap();
    let (_, own) = round(reader, &[]);
    assert_eq!((own.pids(), own.processes.denied), (vec![500], Err(Missing::Denied)));
}

/// The kernel allows command lines of two MiB.
#[test]
fn a_long_command_line_is_read_as_far_as_flags_stand() {
    let stage = Stage::new();
    let long = vec![b'x'; 2 << 20];
    let words: Vec<&[u8]> = vec![b"--x"; 600_000];
    let flags = &VLLM[4..];
    let whole = |front: bool, filler: &[&[u8]]| -> Vec<u8> {
        let (first, last): (&[&[u8]], &[&[u8]]) = if front { (flags, &[]) } else { (&[], flags) };
        joined(&[&VLLM[..4], first, filler, last].concat())
    };
    let mut reader = stage.reader();
    for (front, filler, want) in [
        (true, &[long.as_slice()][..], HALF),
        (true, words.as_slice(), HALF),
        (false, &[long.as_slice()][..], CapSetting::Unknown),
        (false, words.as_slice(), CapSetting::Unknown),
    ] {
        stage.put(500, &One { started: reader_start(), ..One::vllm() });
        fs::write(stage.file(500, "cmdline"), whole(front, filler)).unwrap();
        let (again, told) = round(reader, &[]);
        reader = again;
        assert_eq!(told.one(500).cap, want, "{front} {}", filler.len());
        assert_eq!(told.one(500).class, Class::Vllm.into());
        assert!(told.reads < 40, "{} reads", told.reads);
    }
}

/// A start that no process had before.
fn reader_start() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(200_000);
    LAST.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn bytes_that_are_no_text_cost_nothing_else() {
    let stage = Stage::new();
    let line: Vec<&[u8]> = [
        &[b"/home/J\xf6rg/bin/python3".as_slice()][..],
        &VLLM[1..4],
        &[b"--name=\xff\xfe\xfd".as_slice()],
        &VLLM[4..],
    ]
    .concat();
    let one = One {
        comm: b"python3",
        line: &line,
        environment: b"X=\xff\0NIM_MODEL_NAME=\xfe\0\xff\xff\0",
        cgroup: b"0::/system.slice/j\xf6bs.service\n",
        ..One::default()
    };
    stage.put(500, &one);
    stage.put(501, &One { comm: b"vllm::\xff\xfe", ..One::default() });
    stage.put(502, &One { comm: b"\xff", cgroup: b"\xff\xff\xff", ..One::default() });
    fs::write(stage.file(502, "status"), b"VmRSS:\t\xff kB\n\xff\n").unwrap();
    let (_, round) = round(stage.reader(), &[502]);
    let server = round.one(500);
    assert_eq!((&server.class, server.cap), (&Class::Nim.into(), HALF));
    assert_eq!(&*server.unit, "j_bs");
    assert_eq!(round.one(501).class, Class::Vllm.into());
    assert_eq!(round.one(502).class, Class::Other.into());
    assert_eq!(round.one(502).resident, Err(Missing::Malformed));
}

#[test]
fn groups_of_either_version_are_found() {
    const DOCKER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let stage = Stage::new();
    let of = |pid: u32, cgroup: &str| {
        stage.put(pid, &One { cgroup: cgroup.as_bytes(), ..One::vllm() });
    };
    of(500, "0::/system.slice/two.service\n");
    stage.group(
        "system.slice/two.service",
        &[("memory.current", "5000\n"), ("memory.max", "9000\n")],
    );
    of(501, "0::/system.slice/free.service\n");
    stage.group(
        "system.slice/free.service",
        &[("memory.current", "6000\n"), ("memory.max", "max\n")],
    );
    let first = |path: &str| format!("7:cpu,cpuacct:/\n4:memory:{path}\n1:name=systemd:{path}\n");
    of(502, &first(&format!("/docker/{DOCKER}")));
    let files = [("memory.usage_in_bytes", "7000\n"), ("memory.limit_in_bytes", "8000\n")];
    stage.group(&format!("memory/docker/{DOCKER}"), &files);
    // Both versions, memory with the first.
    of(
        503,
        "4:memory:/\n1:name=systemd:/system.slice/both.service\n0::/system.slice/both.service\n",
    );
    let files =
        [("memory.usage_in_bytes", "4000\n"), ("memory.limit_in_bytes", "9223372036854771712\n")];
    stage.group("memory", &files);
    of(504, "0::/../../elsewhere\n");
    of(505, "0::/system.slice/odd.service\n");
    stage
        .group("system.slice/odd.service", &[("memory.current", "\n"), ("memory.max", "\u{fffd}")]);
    let (_, round) = round(stage.reader(), &[]);
    let told = |pid: u32| {
        let one = round.one(pid);
        (one.unit.to_string(), one.group_current, one.group_limit)
    };
    let none = Err(Missing::NotPresent);
    assert_eq!(told(500), ("two".into(), Ok(Bytes(5000)), Ok(Bytes(9000))));
    assert_eq!(told(501), ("free".into(), Ok(Bytes(6000)), none));
    assert_eq!(told(502), ("docker".into(), Ok(Bytes(7000)), Ok(Bytes(8000))));
    assert_eq!(told(503), ("both".into(), Ok(Bytes(4000)), none));
    assert_eq!(told(504), ("elsewhere".into(), none, none));
    let malformed = Err(Missing::Malformed);
    assert_eq!(told(505), ("odd".into(), malformed, malformed));
}

/// Twenty thousand processes, half of which are gone when they are looked at: a round stays bounded, those
/// of the GPU are in every one, and nobody waits for ever.
#[test]
fn twenty_thousand_processes_take_turns() {
    const BUDGET: u64 = 4096;
    let stage = Stage::new();
    for pid in 1000..21_000 {
        if pid % 2 == 0 {
            stage.put_stat(pid, &One::default());
        } else {
            fs::create_dir(stage.path(&format!("proc/{pid}"))).unwrap();
        }
    }
    stage.put(30_000, &One::vllm());
    stage.put(30_001, &One { comm: b"VLLM::EngineCor", parent: 30_000, ..One::default() });
    let mut reader = stage.reader();
    let mut found = Vec::new();
    for number in 0..12 {
        let (again, told) = round(reader, &[30_001]);
        reader = again;
        assert_eq!(told.processes.count, Ok(Count(20_003)));
        assert_eq!(told.processes.left_out, Ok(Count(20_003 - BUDGET)), "round {number}");
        assert!(told.reads < 2 * BUDGET, "{} reads", told.reads);
        assert_eq!(told.one(30_001).class, Class::Vllm.into(), "round {number}");
        found.push(told.pids().contains(&30_000));
    }
    let turn = found.iter().position(|found| *found).expect("it has its turn");
    assert!(turn <= 4, "after {turn} rounds");
    assert!(found[turn..].iter().all(|found| *found), "and stays: {found:?}");
    // What is new does not wait for the others.
    stage.put(25_000, &One::vllm());
    let (_, told) = round(reader, &[30_001]);
    assert_eq!(told.pids(), [25_000, 30_000, 30_001]);
    assert_eq!(told.one(30_001).parent, 30_000);
}

/// Thousands of compilers leave room for what is new and for what is on the GPU.
#[test]
fn thousands_of_compilers_do_not_hide_a_server() {
    let stage = Stage::new();
    for pid in 1000..6000 {
        stage.put(pid, &One { comm: b"cicc", ..One::default() });
    }
    stage.put(9000, &One { comm: b"trainer", ..One::default() });
    let (reader, first) = round(stage.reader(), &[9000]);
    assert_eq!(first.list().len(), 512);
    assert_eq!(first.one(9000).class, Class::Other.into());
    stage.put(9001, &One::vllm());
    let mut reader = reader;
    let mut seen = false;
    for _ in 0..3 {
        let (again, told) = round(reader, &[9000]);
        reader = again;
        assert!(told.pids().contains(&9000));
        seen = told.pids().contains(&9001);
        let shown = 512_u64;
        let left = told.processes.left_out.unwrap().0;
        assert!(left + shown >= 5003 - 1024 && left < 5003, "{left}");
    }
    assert!(seen);
}
