//! Who held the pool in stories of shared boxes: sizes, caps, load peaks and the order of holders; and how
//! processes live in a scenario.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

mod support;

use gb10_exporter::capture::Capture;
use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::engine::player::Player;
use gb10_exporter::export::status::Status;
use gb10_exporter::export::terminal;
use gb10_exporter::model::frame::Frame;
use gb10_exporter::model::reading::{Missing, Reading};
use gb10_exporter::model::sharing::Holder;
use gb10_exporter::model::snapshot::Snapshot;
use gb10_exporter::model::workload::{CapSetting, Family, Job, Phase, Proc, View};
use gb10_exporter::thresholds::Thresholds;
use gb10_exporter::units::{Bytes, Count, GIB, Ratio};
use std::fs;
use std::time::Duration;
use support::root;

/// The frame of a scenario at a time.
fn at(name: &str, seconds: u64) -> Frame {
    let path = root().join(format!("tests/scenarios/{name}.txt"));
    let scenario = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
    let mut player = Player::new(scenario, Thresholds::default(), ("0", "0"));
    let time = Duration::from_secs(seconds);
    player.find(|(now, _)| *now == time).and_then(|(_, frame)| frame).expect("within the story")
}

/// The jobs that somebody would count, largest first.
fn jobs(frame: &Frame) -> Vec<Job> {
    let desktop = |job: &&Job| job.class.class.family() == Family::Desktop;
    let jobs = frame.verdicts.workloads.jobs.as_ref().expect("jobs");
    jobs.iter().filter(|job| !desktop(job)).cloned().collect()
}

fn job(frame: &Frame, name: &str) -> Job {
    let all = jobs(frame);
    let found = all.iter().find(|job| called(job) == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", all.iter().map(called))).clone()
}

fn called(job: &Job) -> String {
    format!("{}:{}", job.class.as_str(), job.pid)
}

fn gib(reading: Reading<Bytes>) -> Option<f64> {
    reading.ok().map(|bytes| bytes.as_f64() / Bytes(GIB).as_f64())
}

/// Within what two decimals leave open.
fn near(actual: Option<f64>, wanted: Option<f64>) -> bool {
    match (actual, wanted) {
        (Some(a), Some(w)) => (a - w).abs() <= 0.011,
        (a, w) => a == w,
    }
}

/// A job as it must be: its name, what it holds on the GPU, and its cap, both in GiB.
type Wanted<'a> = (&'a str, f64, Option<f64>);

/// Who holds the pool in each story at named times: everybody, in this order.
const HOLDERS: &[(&str, u64, &[Wanted<'_>])] = &[
    (
        "fourth-container",
        50,
        &[
            ("vllm:4050", 40.49, Some(41.35)),
            ("python:4377", 21.91, None),
            ("vllm:4640", 20.33, Some(20.68)),
        ],
    ),
    (
        "fourth-container",
        180,
        &[
            ("vllm:4050", 40.49, Some(41.35)),
            ("python:4377", 21.91, None),
            ("vllm:4640", 20.33, Some(20.68)),
            ("vllm:9021", 20.0, None),
        ],
    ),
    ("graph-takes-the-box", 180, &[("python:7120", 110.83, None)]),
    ("mapping-and-copy", 240, &[("comfyui:5210", 20.15, None)]),
    ("second-copy", 400, &[("other:6044", 85.93, None)]),
    ("stop-is-not-release", 90, &[("vllm:4100", 95.0, Some(97.35))]),
    ("stop-is-not-release", 110, &[]),
    ("stop-is-not-release", 700, &[("vllm:4910", 95.0, Some(97.35))]),
    (
        "two-shares-and-tenants",
        120,
        &[
            ("vllm:2310", 45.1, Some(51.11)),
            ("comfyui:2010", 12.8, None),
            ("python:2210", 5.2, None),
            ("python:2220", 5.0, None),
            ("other:2110", 3.0, None),
            ("other:2120", 3.0, None),
            ("python:2130", 3.0, None),
            ("vllm:3310", 0.0, Some(42.59)),
        ],
    ),
    (
        "two-shares-and-tenants",
        700,
        &[
            ("vllm:3510", 43.6, Some(43.81)),
            ("vllm:3610", 28.2, Some(34.07)),
            ("comfyui:2010", 12.8, None),
            ("python:2210", 5.2, None),
            ("python:2220", 5.0, None),
            ("other:2110", 3.0, None),
            ("other:2120", 3.0, None),
            ("python:2130", 3.0, None),
        ],
    ),
    ("ray-torch-memory", 60, &[("ray:1500", 0.0, None)]),
    ("ray-torch-memory", 150, &[("ray:1500", 3.3, None)]),
    ("cap-that-does-not-hold", 360, &[("max_engine:8080", 108.96, Some(24.34))]),
    (
        "large-model-and-tenants",
        900,
        &[
            ("vllm:2001", 84.0, Some(85.18)),
            ("ollama:3001", 12.0, Some(12.0)),
            ("comfyui:4001", 7.0, None),
            ("notebook:5001", 2.0, None),
        ],
    ),
    (
        "trainer-beside-server",
        900,
        &[("vllm:2001", 59.2, Some(60.84)), ("nemo:3001", 39.0, None), ("triton:2101", 3.3, None)],
    ),
    ("engine-left-behind", 90, &[("vllm:2001", 100.58, Some(101.0)), ("trl:1900", 1.4, None)]),
    // The cap went with the server that said it.
    ("engine-left-behind", 130, &[("vllm:2002", 100.58, None), ("trl:1900", 1.4, None)]),
    (
        "engine-left-behind",
        230,
        &[("vllm:2002", 100.58, None), ("trl:1900", 1.4, None), ("vllm:2101", 0.0, Some(101.0))],
    ),
    ("engine-left-behind", 410, &[("trl:1900", 1.4, None)]),
    (
        "capped-server-beside-lora",
        540,
        &[("vllm:2001", 60.4, Some(60.84)), ("unsloth:3001", 3.5, None)],
    ),
    (
        "two-idle-notebooks",
        120,
        &[
            ("notebook:1610", 16.2, None),
            ("notebook:1720", 7.4, None),
            ("notebook:1500", 0.0, None),
        ],
    ),
    (
        "three-llama-servers",
        400,
        &[
            ("llama_cpp:1501", 33.0, Some(33.0)),
            ("llama_cpp:1503", 18.5, Some(18.5)),
            ("llama_cpp:1502", 5.1, Some(5.1)),
            ("llama_swap:1400", 0.0, None),
        ],
    ),
    ("server-asleep", 100, &[("vllm:2001", 59.2, Some(60.84))]),
    ("server-asleep", 400, &[("vllm:2001", 1.2, Some(60.84))]),
    ("full-at-ninety", 600, &[("vllm:2001", 98.1, Some(97.35))]),
];

#[test]
fn holders_have_their_sizes_caps_and_order() {
    let mut wrong = Vec::new();
    for (name, time, wanted) in HOLDERS {
        let jobs = jobs(&at(name, *time));
        let is: Vec<_> =
            jobs.iter().map(|job| (called(job), gib(job.gpu), gib(job.cap.bytes))).collect();
        let alike = is.len() == wanted.len()
            && is.iter().zip(*wanted).all(|((name, gpu, cap), want)| {
                name == want.0 && near(*gpu, Some(want.1)) && near(*cap, want.2)
            });
        if !alike {
            wrong.push(format!("{name} at {time} s:\n  is     {is:?}\n  wanted {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The most that each held while it loaded, mapped files included, and what it held once it had settled.
#[test]
fn loads_have_their_peaks() {
    for (name, time, who, peak, settled) in [
        // 20.15 GiB of device, 13.75 of mapping, 0.85 of its own: 1.65 times the 21.0 that stay.
        ("mapping-and-copy", 240, "comfyui:5210", Some(34.75), Some(20.15)),
        ("graph-takes-the-box", 180, "python:7120", Some(112.03), None),
        ("stop-is-not-release", 700, "vllm:4910", Some(100.0), Some(95.0)),
        ("two-shares-and-tenants", 700, "vllm:3510", Some(43.6), Some(43.6)),
        ("cap-that-does-not-hold", 400, "max_engine:8080", Some(111.46), Some(108.96)),
        ("three-llama-servers", 400, "llama_cpp:1503", Some(37.0), Some(18.5)),
        // It was there before anybody looked: its load was not seen, and is not made up.
        ("full-at-ninety", 600, "vllm:2001", None, Some(98.1)),
        ("trainer-beside-server", 2400, "nemo:3001", Some(33.8), Some(39.0)),
    ] {
        let job = job(&at(name, time), who);
        let (is, rest) = (gib(job.load_peak), gib(job.settled));
        assert!(near(is, peak), "{name}: {who} had a peak of {is:?}, not {peak:?}");
        assert!(near(rest, settled), "{name}: {who} settled at {rest:?}, not {settled:?}");
    }
}

/// What only the driver's list shows: resident memory and control groups stay small beside it.
#[test]
fn what_the_kernel_accounts_for_is_not_what_a_job_holds() {
    for (name, time, who, gpu, resident, group, limit) in [
        ("fourth-container", 50, "vllm:4050", 40.49, Some(8.51), Some(8.2), Some(69.0)),
        ("fourth-container", 50, "python:4377", 21.91, Some(1.68), Some(2.2), Some(18.0)),
        ("fourth-container", 180, "vllm:9021", 20.0, Some(2.0), Some(3.0), Some(18.0)),
        ("graph-takes-the-box", 60, "python:7120", 7.45, Some(1.2), Some(1.6), Some(3.73)),
        (
            "cap-that-does-not-hold",
            360,
            "max_engine:8080",
            108.96,
            Some(2.5),
            Some(3.0),
            Some(32.0),
        ),
    ] {
        let job = job(&at(name, time), who);
        let is = (gib(job.gpu), gib(job.resident), gib(job.group), gib(job.group_limit));
        let fits =
            near(is.0, Some(gpu)) && near(is.1, resident) && near(is.2, group) && near(is.3, limit);
        assert!(fits, "{name}: {who} is {is:?}");
    }
    // A limit of 18 GiB was passed, and nothing was in its way.
    let fourth = job(&at("fourth-container", 180), "vllm:9021");
    assert!(fourth.gpu.unwrap() > fourth.group_limit.unwrap());
    // Ray's report of its torch task, and what the task holds.
    let torch = job(&at("ray-torch-memory", 150), "ray:1500");
    assert!(near(gib(torch.host), Some(0.51)) && near(gib(torch.gpu), Some(3.3)), "{torch:?}");
    let numpy = job(&at("ray-torch-memory", 60), "ray:1500");
    assert!(near(gib(numpy.host), Some(3.48)) && near(gib(numpy.gpu), Some(0.0)), "{numpy:?}");
    // A second copy: 60 GiB of mapped file are not counted twice, and nothing is left unexplained.
    let frame = at("second-copy", 400);
    let copy = job(&frame, "other:6044");
    assert!(near(gib(copy.file), Some(6.0)) && near(gib(copy.host), Some(6.9)), "{copy:?}");
    let unknown = gib(frame.verdicts.unaccounted.parts[Holder::Unknown as usize]).unwrap();
    assert!(unknown < 1.1, "{unknown}");
    let available = gib(frame.verdicts.pool.available).unwrap();
    assert!((22.0..24.0).contains(&available), "{available}");
}

/// Stop is not release: nobody has the memory, and it is not there either.
#[test]
fn memory_that_has_not_come_back_is_nobodys() {
    let unknown = |frame: &Frame| {
        gib(frame.verdicts.unaccounted.parts[Holder::Unknown as usize]).expect("told")
    };
    let (before, after, back) = (
        at("stop-is-not-release", 90),
        at("stop-is-not-release", 200),
        at("stop-is-not-release", 310),
    );
    assert!(unknown(&before) < 5.0, "{}", unknown(&before));
    assert!(unknown(&after) > 90.0, "{}", unknown(&after));
    assert!(unknown(&back) < 15.0, "{}", unknown(&back));
    assert!(jobs(&after).is_empty() && jobs(&back).is_empty());
    assert!(near(gib(after.verdicts.pool.available), Some(20.8)));
    assert!(near(gib(back.verdicts.pool.available), Some(108.96)));
    assert_eq!(after.verdicts.workloads.view, Ok(View::Full), "nobody is hidden");
}

/// Phases are those of jobs, whatever the GPU as a whole does; what has none has none.
#[test]
fn phases_are_told_apart_on_a_busy_box() {
    let frame = at("trainer-beside-server", 1500);
    let phase = |name| job(&frame, name).phase;
    assert_eq!(phase("nemo:3001"), Ok(Phase::Serving));
    assert_eq!(phase("vllm:2001"), Ok(Phase::Serving));
    assert_eq!(phase("triton:2101"), Ok(Phase::Idle));
    let cpus = job(&frame, "vllm:2001").cpus.unwrap();
    assert!((cpus.0 - 0.95).abs() < 0.01, "{cpus:?}");
    let idle = job(&frame, "triton:2101").cpus.unwrap();
    assert!(idle < Ratio(0.1), "{idle:?}");
    // A launcher neither loads nor serves.
    assert!(job(&at("three-llama-servers", 400), "llama_swap:1400").phase.is_err());
    assert!(job(&at("ray-torch-memory", 150), "ray:1500").phase.is_err());
}

/// A trainer whose allocations go up and down by 7 GiB works all the time: it never loads again.
#[test]
fn a_trainer_that_breathes_does_not_load() {
    let path = root().join("tests/scenarios/trainer-beside-server.txt");
    let player = Player::new(Scenario::load(&path).unwrap(), Thresholds::default(), ("0", "0"));
    let mut sizes = Vec::new();
    for (time, frame) in player.filter(|(time, _)| time.as_secs() >= 360) {
        let trainer = job(&frame.unwrap(), "nemo:3001");
        assert_eq!(trainer.phase, Ok(Phase::Serving), "at {time:?}");
        sizes.push(trainer.gpu.unwrap());
    }
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert_eq!(most.less(*least), Bytes::from_gib(7), "it does breathe");
}

/// What swaps is counted for whom it was, and the pool's own figures follow.
#[test]
fn what_is_swapped_out_is_still_somebodys() {
    let (early, late) = (at("large-model-and-tenants", 100), at("large-model-and-tenants", 900));
    let server = job(&late, "vllm:2001");
    assert!(near(gib(server.swap), Some(3.2)) && near(gib(server.host), Some(1.8)), "{server:?}");
    let free = |frame: &Frame| gib(frame.snapshot.meminfo.swap_free);
    assert!(near(free(&early).zip(free(&late)).map(|(a, b)| a - b), Some(3.2)));
    let available = gib(late.verdicts.pool.available).unwrap();
    assert!((5.0..12.0).contains(&available), "{available}");
}

/// An engine that lost its server is a job of its own, with its own beginning.
#[test]
fn an_engine_left_behind_is_a_job() {
    let before = job(&at("engine-left-behind", 90), "vllm:2001");
    let after = job(&at("engine-left-behind", 130), "vllm:2002");
    assert_eq!((before.processes, after.processes), (2, 1));
    assert_eq!(before.gpu, after.gpu);
    assert!(near(gib(after.host), Some(2.4)), "its figures are its own: {after:?}");
    let available =
        |seconds| gib(at("engine-left-behind", seconds).verdicts.pool.available).unwrap();
    assert!(available(390) < 12.0, "{}", available(390));
    assert!(available(410) - available(390) > 100.0, "it comes back with the engine");
}

/// A server asleep holds host memory in place of the GPU's.
#[test]
fn a_server_asleep_is_there() {
    let (awake, asleep) = (at("server-asleep", 100), at("server-asleep", 400));
    let (a, b) = (job(&awake, "vllm:2001"), job(&asleep, "vllm:2001"));
    assert_eq!((a.phase, b.phase), (Ok(Phase::Serving), Ok(Phase::Idle)));
    assert!(near(gib(b.host), Some(18.0)), "{b:?}");
    assert!(near(gib(b.settled), Some(59.2)), "what it will take again: {b:?}");
    let gained =
        gib(asleep.verdicts.pool.available).unwrap() - gib(awake.verdicts.pool.available).unwrap();
    assert!((gained - 43.0).abs() < 0.05, "58 given back, 15 taken: {gained}");
}

/// The table of holders in the terminal: what a tired person reads first.
fn table(name: &str, seconds: u64) -> Vec<String> {
    let text = terminal::render(&Status::of(&at(name, seconds)), false);
    let table = text.lines().skip_while(|line| !line.starts_with("Who holds the pool"));
    table.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_terminal_has_a_table_that_fits() {
    for (name, time, rows) in [
        ("fourth-container", 180, 4),
        ("two-shares-and-tenants", 120, 8),
        ("large-model-and-tenants", 890, 4),
        ("cap-that-does-not-hold", 400, 1),
        ("three-llama-servers", 240, 3),
        ("engine-left-behind", 230, 3),
    ] {
        let table = table(name, time);
        let pids = table.iter().filter(|line| line.contains(", pid ")).count();
        assert_eq!(pids, rows, "{table:#?}");
        assert!(table.iter().all(|line| line.chars().count() <= 100), "{table:#?}");
        // Columns: each heading ends or begins where its figures do.
        let gpu = table[0].find("GPU").unwrap() + 3;
        for line in table.iter().filter(|line| line.contains(", pid ")) {
            assert!(line[..gpu].ends_with("iB") && line[gpu..].starts_with("  "), "{table:#?}");
        }
    }
    let has = |name, time, what: &str| {
        let table = table(name, time);
        assert!(table.iter().any(|line| line.contains(what)), "{what}: {table:#?}");
    };
    has("cap-that-does-not-hold", 400, "0.2 = 24.34 GiB, EXCEEDED");
    has("fourth-container", 180, "past it: pid 4377, 4640, 9021");
    has("stop-is-not-release", 150, "nobody known");
    has("large-model-and-tenants", 890, "3.20 GiB  serving");
    has("ray-torch-memory", 210, "Who holds the pool: 3 small ones");
    let quiet = table("capped-server-beside-lora", 540).join("\n");
    assert!(!quiet.contains("EXCEEDED") && !quiet.contains("swap") && !quiet.contains("nobody"));
}

/// The machine of a timeline at a time.
fn machine(timeline: &str, seconds: u64) -> Snapshot {
    let dir = tempfile::tempdir().unwrap();
    let base = root().join("tests/captures/spark-page-cache-1-before.txt");
    fs::copy(base, dir.path().join("box.txt")).unwrap();
    let path = dir.path().join("story.txt");
    let head = "# gb10-exporter scenario 1\n# kind: invented\n# title: a b\n# source: c\n\
                # base: box.txt\n# length: 90s\n\n==> timeline\n";
    fs::write(&path, format!("{head}{timeline}")).unwrap();
    let scenario = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
    scenario.at(&scenario.first().snapshot, Duration::from_secs(seconds))
}

fn process(machine: &Snapshot, name: &str) -> Option<Proc> {
    machine.processes.list.as_ref().unwrap().iter().find(|proc| proc.name == name).cloned()
}

/// Who says nothing about its start has started when it appears; who is there at first was there before.
#[test]
fn a_process_starts_when_its_line_says() {
    let timeline = "0s processes.is[a] = trl pid=7\n10s processes.is[b] = trl pid=8\n\
                    10s processes.is[c] = trl pid=9 started=5\n30s reboot clean down 10s\n\
                    50s processes.is[d] = trl pid=10\n";
    let started = |seconds, name| process(&machine(timeline, seconds), name).unwrap().started.0;
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert!(near(started(20, "a"), 0.0));
    assert!(near(started(20, "b"), 21644.1 + 10.0), "since boot: {}", started(20, "b"));
    assert!(near(started(20, "c"), 5.0));
    assert!(near(started(60, "d"), 10.0), "since that boot: {}", started(60, "d"));
    assert!(process(&machine(timeline, 60), "b").is_none(), "it went with its boot");
}

/// What a name stands for may change; figures stay with the process, memory of the GPU with the pid.
#[test]
fn a_name_may_be_taken_by_another() {
    let timeline = "0s processes.is[a] = vllm pid=70 parent=69 cap=whole:0.5\n\
                    0s processes.anonymous[a] = 3 GiB\n0s gpu.process_memory[0.70] = 5 GiB\n\
                    10s processes.is[a] = vllm pid=70 cap=unknown\n\
                    20s processes.is[a] = trl pid=71\n30s processes.is[a] missing not_present\n\
                    40s processes.is[a] = trl pid=72\n40s gpu.process_memory[0.72] = 7 GiB\n\
                    50s processes.is[a] = trl pid=70\n";
    let gpu = |machine: &Snapshot, pid| {
        let gpu = machine.gpus.each().next().unwrap();
        assert!(gpu.lists_everybody(), "the lists' lengths follow");
        let rows = gpu.processes.as_ref().unwrap();
        rows.iter().find(|row| row.pid == pid).map(|row| row.memory.unwrap())
    };
    let orphan = machine(timeline, 15);
    let a = process(&orphan, "a").unwrap();
    assert_eq!((a.parent, a.cap), (0, CapSetting::Unknown));
    assert_eq!((a.anonymous, gpu(&orphan, 70)), (Ok(Bytes::from_gib(3)), Some(Bytes::from_gib(5))));
    let other = machine(timeline, 25);
    assert_eq!(process(&other, "a").unwrap().class.as_str(), "trl");
    assert_eq!(gpu(&other, 70), None, "another pid is another process");
    let nobody = machine(timeline, 35);
    assert!(process(&nobody, "a").is_none() && gpu(&nobody, 70).is_none());
    let again = machine(timeline, 45);
    assert_eq!(process(&again, "a").unwrap().anonymous, Err(Missing::NotPresent), "a new life");
    assert_eq!(gpu(&again, 72), Some(Bytes::from_gib(7)));
    let back = machine(timeline, 55);
    assert_eq!((gpu(&back, 72), gpu(&back, 70)), (None, Some(Bytes::from_gib(5))));
}

/// The kernel's sums contain what processes hold, and a process's resident memory is the sum of its parts.
#[test]
fn sums_follow_the_processes() {
    let timeline = "10s processes.is[a] = trl pid=70\n10s processes.anonymous[a] = 8 GiB\n\
                    20s processes.anonymous[a] = 5 GiB\n20s processes.swap[a] = 3 GiB\n\
                    20s processes.file[a] = 2 GiB\n30s processes.anonymous[3391] = 1195 MiB\n\
                    40s processes.is[a] missing not_present\n";
    let meminfo = |seconds| machine(timeline, seconds).meminfo;
    let gib = |reading: Reading<Bytes>| reading.unwrap().as_f64() / Bytes(GIB).as_f64();
    let [first, full, swapped, end] = [5, 15, 25, 45].map(meminfo);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
    near(gib(full.anon_pages) - gib(first.anon_pages), 8.0);
    near(gib(first.available) - gib(full.available), 8.0);
    near(gib(swapped.anon_pages) - gib(first.anon_pages), 5.0);
    near(gib(first.swap_free) - gib(swapped.swap_free), 3.0);
    near(gib(end.swap_free), gib(first.swap_free));
    let at = |name| process(&machine(timeline, 35), name).unwrap();
    assert_eq!(at("a").resident, Ok(Bytes::from_gib(7)));
    assert_eq!(at("a").shared, Ok(Bytes(0)), "a part is said, this one is none");
    assert_eq!(at("a").cpu, Err(Missing::NotPresent), "that is no part");
    let worked = machine("0s processes.is[a] = trl pid=7\n0s processes.cpu[a] = 5 s\n", 5);
    let faults = process(&worked, "a").unwrap().major_faults;
    assert_eq!(faults, Ok(Count(0)), "who counts one and not the other has none of it");
    // 171 MiB of 301 became 1195: what was recorded of it moves along.
    assert_eq!(at("3391").resident, Ok(Bytes::from_mib(301 + 1024)));
}

/// What the documentation shows is so.
#[test]
fn the_documentation_shows_what_is_so() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let shown = table("fourth-container", 180).join("\n");
    assert!(readme.contains(&shown), "README.md lacks\n{shown}");
    let captures = fs::read_to_string(root().join("docs/CAPTURES.md")).unwrap();
    let at = captures.find("==> processes\n").expect("an example");
    let example = captures[at..].split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("example.txt");
    let head = "# gb10-exporter capture 1\n# kind: invented\n# title: a b\n# source: c\n\n";
    fs::write(&path, format!("{head}{example}")).unwrap();
    let capture = Capture::load(&path).unwrap_or_else(|e| panic!("{e}"));
    let list = support::frame(&capture).snapshot.processes.list.unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[1].anonymous, Ok(Bytes(3_355_443_200)));
    // Every key has its line.
    for field in gb10_exporter::model::workload::FIELDS {
        let key = field.id.strip_prefix("processes.").unwrap();
        let named = [format!("`{key}`"), format!("`{key}[P]`")];
        assert!(named.iter().any(|name| captures.contains(name)), "docs/CAPTURES.md lacks {key}");
    }
}

/// Each start of a loop is counted, and so is each end, by what the job was doing.
#[test]
fn a_loop_of_restarts_is_counted() {
    let mut command = support::exporter();
    let scenario = support::root().join("tests/scenarios/restart-loop.txt");
    command.arg("replay").arg(scenario).args(["--at", "9m", "--metrics"]);
    let out = command.output().unwrap();
    let metrics = String::from_utf8(out.stdout).unwrap();
    let of = |name: &str, more: &str| {
        let series = format!("gb10_workload_{name}{{workload=\"vllm\",unit=\"docker\"{more}}}");
        support::value(&metrics, &series)
    };
    assert_eq!(of("starts_total", ""), Some(6.0), "{metrics}");
    assert_eq!(of("ends_total", ",phase=\"starting\""), Some(6.0));
    assert_eq!(of("ends_total", ",phase=\"serving\""), Some(0.0));
    assert_eq!(of("processes", ""), Some(0.0));
}
