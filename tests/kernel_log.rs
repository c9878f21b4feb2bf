//! The kernel's log, by the real binary: counts, events, views, recordings and replays.
#![expect(clippy::disallowed_methods, reason = "tests write files, start programs and wait")]

mod support;

use gb10_exporter::capture::Capture;
use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::engine::player::Player;
use gb10_exporter::export::prometheus;
use gb10_exporter::export::status::Status;
use gb10_exporter::export::terminal;
use gb10_exporter::model::frame::Frame;
use gb10_exporter::model::kernel_log::{During, MessageKind, NoMemoryState};
use gb10_exporter::model::reading::Missing;
use gb10_exporter::sources::Machine as _;
use gb10_exporter::thresholds::Thresholds;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Machine, exporter, root, value};

const BOX: &str = "spark-fe-idle";
const XID: &str =
    "NVRM: Xid (PCI:000f:01:00): 13, pid=4711, name=python, Graphics Exception on GPC 3";
const KILL: &str = "Out of memory: Killed process 4711 (python) total-vm:158493688kB, anon-rss:1000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:0kB oom_score_adj:0";

fn of(kind: &str) -> String {
    format!("gb10_kernel_messages_total{{kind=\"{kind}\"}}")
}

/// A machine with a file in the place of its ring.
fn machine(ring: &str) -> Machine {
    let machine = Machine::new(BOX);
    fs::create_dir_all(machine.path("dev")).unwrap();
    say(&machine, ring);
    machine
}

fn say(machine: &Machine, text: &str) {
    let path = machine.path("dev/kmsg");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Looks again and again until there is something.
fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_kind_is_counted_from_zero_and_what_comes_is_an_event() {
    let machine = machine(&format!("5,0,0,-;Linux version 6.17\n3,1,7000000,-;{XID}\n"));
    let exporter = machine.start_with(&["--collector.gpu=off"]);
    let metrics = exporter.wait_for_metrics("the log", |m| value(m, &of("xid")) == Some(1.0));
    for kind in MessageKind::ALL.iter().filter(|kind| **kind != MessageKind::Xid) {
        assert_eq!(value(&metrics, &of(kind.as_str())), Some(0.0), "{}", kind.as_str());
    }
    assert_eq!(value(&metrics, "gb10_kernel_messages_lost_total"), Some(0.0));
    let last = "gb10_kernel_message_last_timestamp_seconds{kind=\"xid\"}";
    let booted = value(&metrics, "gb10_boot_timestamp_seconds").unwrap();
    assert_eq!(value(&metrics, last), Some(booted + 7.0));
    assert!(!metrics.contains("timestamp_seconds{kind=\"oom_kill\"}"), "there was none");
    let text = exporter.get("/");
    assert!(text.contains("Kernel log, since boot (kmsg)"), "{text}");
    let status =
        || -> serde_json::Value { serde_json::from_str(&exporter.get("/api/v1/status")).unwrap() };
    assert_eq!(status()["events"].as_array().map(Vec::len), Some(0), "it was there before");

    say(
        &machine,
        &format!(
            "3,2,8000000,-;{XID}\n3,3,8000001,-;{KILL}\n12,4,8000002,-;{XID}\n6,9,8000003,-;x\n"
        ),
    );
    let metrics = exporter.wait_for_metrics("news", |m| value(m, &of("oom_kill")) == Some(1.0));
    assert_eq!(value(&metrics, &of("xid")), Some(2.0), "a program's line is none of the kernel's");
    assert_eq!(value(&metrics, "gb10_kernel_messages_lost_total"), Some(4.0));
    let status = status();
    let events: Vec<String> = status["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            format!(
                "{} {}: {}",
                e["event"].as_str().unwrap(),
                e["subject"].as_str().unwrap(),
                e["evidence"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events[0].starts_with("xid kernel_log: the kernel's log: Xid 13, 2 since boot"),
        "{events:?}"
    );
    assert!(
        events[1].starts_with("kernel_message oom_kill: python was killed: total-vm"),
        "{events:?}"
    );
    let log = &status["kernel_log"];
    assert_eq!((log["place"].as_str(), log["messages"]["xid"].as_u64()), (Some("kmsg"), Some(2)));
    assert_eq!((log["xids"]["13"].as_u64(), log["recent"]["xid"].as_u64()), (Some(2), Some(1)));
    assert_eq!(log["latest"][0]["before_start"].as_bool(), Some(true));
    assert_eq!(log["latest"][2]["victim"]["anonymous"].as_u64(), Some(1_024_000));
    // Facts come out, texts do not.
    for page in ["/metrics", "/", "/api/v1/status"] {
        let text = exporter.get(page);
        for word in ["4711", "Graphics", "GPC", "000f:01", "UID"] {
            assert!(!text.contains(word), "{page} has {word}");
        }
    }
}

#[test]
fn a_log_that_cannot_be_read_has_no_counts_and_says_what_helps() {
    let machine = Machine::new(BOX);
    let exporter = machine.start_with(&["--collector.gpu=off"]);
    let state = "gb10_source_state{source=\"kernel_log\",state=\"not_present\"}";
    let metrics = exporter.wait_for_metrics("its state", |m| value(m, state) == Some(1.0));
    assert!(!metrics.contains("gb10_kernel_message"), "{metrics}");
    let status = exporter.get("/api/v1/status");
    assert!(status.contains("CAP_SYSLOG"), "{status}");
    // It is there now.
    fs::create_dir_all(machine.path("var/log")).unwrap();
    fs::write(machine.path("var/log/kern.log"), "").unwrap();
    exporter.wait_for_metrics("counts", |m| value(m, &of("xid")) == Some(0.0));
}

#[test]
fn it_can_be_switched_off() {
    let machine = machine("5,0,0,-;Linux version 6.17\n");
    let exporter = machine.start_with(&["--collector.gpu=off", "--no-collector.kernel_log"]);
    let state = "gb10_source_state{source=\"kernel_log\",state=\"disabled\"}";
    let metrics = exporter.wait_for_metrics("its state", |m| value(m, state) == Some(1.0));
    assert!(!metrics.contains("gb10_kernel_message"));
}

fn arguments(machine: &Machine) -> Vec<String> {
    [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")]
        .map(|(flag, sub)| format!("--path.{flag}={}", machine.path(sub).display()))
        .into_iter()
        .chain(["--collector.gpu=off".to_owned()])
        .collect()
}

#[test]
fn doctor_says_where_it_is_read() {
    let row = |machine: &Machine| {
        let out = exporter()
            .args(["doctor", "--json", "--seconds", "1"])
            .args(arguments(machine))
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let text = report.to_string();
        let all = report["checks"].as_array().or(report["rows"].as_array());
        let rows = all.unwrap_or_else(|| panic!("{text}"));
        rows.iter().find(|row| row.to_string().contains("kernel-log")).unwrap().to_string()
    };
    let found = row(&machine(&format!("5,3,0,-;Linux version 6.17\n3,4,0,-;{XID}\n")));
    assert!(found.contains("read from /dev/kmsg: xid 1 since boot; the first 3 lines"), "{found}");
    let found = row(&Machine::new(BOX));
    assert!(found.contains("not read (not_present)") && found.contains("group adm"), "{found}");
}

fn scenario(path: &Path) -> Vec<Frame> {
    let scenario = Scenario::load(path).unwrap();
    Player::new(scenario, Thresholds::default(), ("0", "0")).filter_map(|(_, f)| f).collect()
}

fn story(name: &str) -> Vec<Frame> {
    scenario(&root().join(format!("tests/scenarios/{name}.txt")))
}

fn counts(frame: &Frame) -> [u64; MessageKind::COUNT] {
    frame.snapshot.kernel_log.as_ref().unwrap().counts
}

/// Each start, and the burst, is one event; nothing of what was there at the beginning is.
#[test]
fn a_story_of_three_starts_and_a_burst() {
    let frames = story("starts-and-no-memory");
    let no_memory = MessageKind::DriverNoMemory as usize;
    let at = |second: usize| counts(&frames[second])[no_memory];
    let told = [at(51), at(52), at(131), at(199), at(439), at(440), at(480)];
    assert_eq!(told, [0, 1, 2, 3, 3, 19, 19]);
    assert_eq!(counts(&frames[0])[MessageKind::DriverLoaded as usize], 1);
    assert_eq!(counts(&frames[480]).iter().sum::<u64>(), 20, "the benign lines are not in it");
    let events: Vec<&str> = frames[480]
        .events
        .iter()
        .filter(|event| event.subject == "driver_no_memory")
        .map(|event| event.evidence.as_str())
        .collect();
    assert_eq!(events.len(), 4, "{events:?}");
    for event in &events[..3] {
        assert!(
            event.ends_with("since boot, while vllm (docker) was loading: usual during a load"),
            "{events:?}"
        );
    }
    assert_eq!(
        events[3], "16 lines in the kernel's log, 19 since boot, while nothing was loading",
        "the context of the idle box is no load"
    );
    let recent =
        |second: usize| frames[second].verdicts.kernel_log.as_ref().unwrap().recent[no_memory];
    assert_eq!([recent(52), recent(113), recent(440), recent(480)], [1, 0, 16, 16]);
    let entries = &frames[480].verdicts.kernel_log.as_ref().unwrap().entries;
    let noticed: Vec<(u64, u64)> =
        entries.iter().map(|e| (e.entry.count, e.at.mono.as_secs())).collect();
    assert_eq!(noticed, [(1, 0), (1, 52), (1, 131), (1, 199), (16, 440)]);
    let phases: Vec<Option<During>> = entries.iter().map(|e| e.phase).collect();
    let load = Some(During::Load);
    assert_eq!(phases, [None, load, load, load, Some(During::Idle)], "none from before the start");
    // Every view says the same.
    let counted = |frame: &Frame| {
        let metrics = String::from_utf8(prometheus::encode(frame, None)).unwrap();
        let of = |during: &During| {
            let name = format!("gb10_driver_no_memory_total{{during=\"{}\"}}", during.as_str());
            value(&metrics, &name).unwrap_or_else(|| panic!("{name}"))
        };
        During::ALL.iter().map(of).collect::<Vec<f64>>()
    };
    let told = [0, 200, 440].map(|second: usize| counted(&frames[second]));
    assert_eq!(told, [[0.0; 4], [3.0, 0.0, 0.0, 0.0], [3.0, 0.0, 16.0, 0.0]]);
    let status = Status::of(&frames[480]);
    let text = terminal::render(&status, false);
    assert!(text.contains(": while nothing was loading (load 3, idle 16)"), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&status.to_json()).unwrap();
    let log = &json["kernel_log"];
    assert_eq!(
        log["no_memory"],
        serde_json::json!({"load": 3, "serving": 0, "idle": 16, "unknown": 0})
    );
    let latest = &log["latest"];
    assert_eq!(latest[0]["during"], serde_json::Value::Null);
    assert_eq!((&latest[1]["during"], &latest[4]["during"]), (&"load".into(), &"idle".into()));
    assert_eq!(latest[1]["jobs"], "vllm (docker) was loading");
}

/// The same burst after the server has settled is another one.
#[test]
fn a_burst_while_a_server_serves_is_outside_of_a_load() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join(format!("tests/captures/{BOX}.txt")), dir.path().join("box.txt")).unwrap();
    let path = dir.path().join("story.txt");
    let story = root().join("tests/scenarios/no-memory-while-it-loads.txt");
    let story = fs::read_to_string(story).unwrap();
    let line = story.lines().find(|line| line.contains("kernel x 16")).unwrap();
    let later = format!("{line}\n{}", line.replace("90s ", "410s"));
    fs::write(
        &path,
        story.replace("../captures/spark-fe-idle.txt", "box.txt").replace(line, &later),
    )
    .unwrap();
    let frames = scenario(&path);
    let state = |second: usize| frames[second].verdicts.kernel_log.as_ref().unwrap().no_memory;
    assert_eq!(state(409).state(), NoMemoryState::None);
    assert_eq!((state(410).state(), state(410).all), (NoMemoryState::OutsideLoad, [23, 16, 0, 0]));
    let event = frames[410].events.last().unwrap();
    assert_eq!(
        event.evidence,
        "16 lines in the kernel's log, 39 since boot, while nothing was loading and vllm (docker) was serving"
    );
    // Nothing else follows from it.
    let pressed = |second: usize| frames[second].verdicts.pressed.state;
    assert_eq!(pressed(410), pressed(409));
}

/// An Xid is told with the job whose process it names, and without the process.
#[test]
fn an_xid_names_the_class_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join(format!("tests/captures/{BOX}.txt")), dir.path().join("box.txt")).unwrap();
    let path = dir.path().join("story.txt");
    let text = format!(
        "# gb10-exporter scenario 1\n# kind: invented\n# title: t\n# source: none\n# base: box.txt\n# length: 90s\n\
         ==> timeline\n0s processes.is[server] = vllm pid=4700 unit=docker cap=whole:0.5 started=400000\n\
         0s processes.is[worker] = python pid=4711 parent=4700 unit=docker cap=unknown started=400001\n\
         0s gpu.process_memory[0.4711] = 20 GiB\n0s kernel NVRM: loading NVIDIA UNIX Kernel Module\n\
         20s kernel {XID}\n70s kernel {}\n",
        XID.replace("4711", "4712").replace("): 13", "): 31"),
    );
    fs::write(&path, text).unwrap();
    let frames = scenario(&path);
    let last = frames.last().unwrap();
    let told: Vec<&str> = last
        .events
        .iter()
        .filter(|event| event.subject == "kernel_log")
        .map(|event| event.evidence.as_str())
        .collect();
    assert_eq!(
        told,
        [
            "the kernel's log: Xid 13, of vllm, 1 since boot",
            "the kernel's log: Xid 31, 1 since boot"
        ],
        "the second is of a process that is not listed"
    );
    let status = Status::of(&frames[30]);
    let text = terminal::render(&status, false);
    assert!(text.contains(": 13 (1); the last one of vllm"), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&status.to_json()).unwrap();
    let xid = json["kernel_log"]["latest"][1].to_string();
    assert!(xid.contains("\"workload\":\"vllm\"") && !xid.contains("4711"), "{xid}");
}

#[test]
fn a_story_of_a_small_victim() {
    let frames = story("small-victims");
    let last = frames.last().unwrap();
    let of = |kind: MessageKind| counts(last)[kind as usize];
    assert_eq!(
        [MessageKind::DriverNoMemory, MessageKind::OomInvoked, MessageKind::OomKill].map(of),
        [3, 2, 1]
    );
    let told: Vec<&str> = last
        .events
        .iter()
        .filter(|event| event.subject == "oom_kill")
        .map(|event| event.evidence.as_str())
        .collect();
    assert_eq!(told.len(), 1);
    let (before, after) = told[0].split_once("; a tiny victim, ").unwrap();
    assert!(
        before.contains("anon-rss 1000 KiB") && before.ends_with("constraint none"),
        "{told:?}"
    );
    assert!(after.starts_with("while the kernel has no account of 1"), "most of the pool: {after}");
    let text = terminal::render(&Status::of(last), false);
    let line = ": python, a tiny victim: 1000 KiB of its own, while the kernel had no account of 1";
    assert!(text.contains(line), "{text}");
}

/// After a reboot the ring is another one; what is said in the second in which the machine comes up is from
/// before the exporter.
#[test]
fn a_reboot_begins_another_log() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join(format!("tests/captures/{BOX}.txt")), dir.path().join("box.txt")).unwrap();
    let path = dir.path().join("story.txt");
    let text = format!(
        "# gb10-exporter scenario 1\n# kind: invented\n# title: t\n# source: none\n# base: box.txt\n# length: 30s\n\
         ==> timeline\n3s kernel x 7 {XID}\n9s reboot unclean down 5s\n14s kernel {XID}\n20s kernel {KILL}\n"
    );
    fs::write(&path, text).unwrap();
    let frames = scenario(&path);
    let at = |second: u64| {
        let frame = frames.iter().find(|f| f.snapshot.at.mono == Duration::from_secs(second));
        let log = frame.unwrap().snapshot.kernel_log.clone().unwrap();
        (log.counts[MessageKind::Xid as usize], log.old[MessageKind::Xid as usize])
    };
    assert_eq!([at(2), at(3), at(8), at(14), at(30)], [(0, 0), (7, 0), (7, 0), (1, 1), (1, 1)]);
    let events: Vec<&str> = frames.last().unwrap().events.iter().map(|e| e.subject).collect();
    assert_eq!(events, ["gpu", "boot", "oom_kill"]);
}

#[test]
fn a_story_without_lines_of_the_kernel_has_no_log() {
    let frames = story("startup-collapse");
    assert!(frames.iter().all(|f| f.snapshot.kernel_log == Err(Missing::NotPresent)));
}

/// A capture and a recording have the facts, none of the text, and replay to the same counts.
#[test]
fn a_recording_has_facts_and_no_lines() {
    let summary = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/docker/secret,task=python,pid=4711,uid=1000";
    let machine = machine(&format!(
        "5,0,0,-;Linux version 6.17 spark-host\n3,1,7250000,-;{XID}\n3,2,7250001,-;{XID}\n\
         3,3,8000001,-;{summary}\n3,4,8000002,-;{KILL}\n"
    ));
    for more in [&["--duration", "2s", "--interval", "1s"][..], &[]] {
        let out = machine.path(if more.is_empty() { "capture.txt" } else { "recording.txt" });
        let done = exporter()
            .args(["record"])
            .args(more)
            .arg(&out)
            .args(arguments(&machine))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let text = fs::read_to_string(&out).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" x ")).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains(".250 x 2 NVRM: Xid (PCI:0000:00:00): 13"), "{lines:?}");
        for word in ["4711", "Graphics", "000f:01", "secret", "spark-host", "UID:1000"] {
            assert!(!text.contains(word), "{word}: {lines:?}");
        }
        let log = if more.is_empty() {
            let capture = Capture::load(&out).unwrap();
            assert_eq!(Capture::parse(&capture.to_text()), Ok(capture.clone()));
            let mut log = Err(Missing::Pending);
            capture.kernel_log(&mut log).unwrap();
            log.unwrap()
        } else {
            scenario(&out)[0].snapshot.kernel_log.clone().unwrap()
        };
        let of = |kind: MessageKind| (log.counts[kind as usize], log.old[kind as usize]);
        assert_eq!([of(MessageKind::Xid), of(MessageKind::OomKill)], [(2, 2), (1, 1)]);
        assert_eq!(log.xids.get(&13), Some(&2));
        let victim = log.latest.last().unwrap().message.victim.clone().unwrap();
        let told = (victim.anonymous.unwrap().0, victim.constraint.unwrap().as_str());
        assert_eq!(told, (1_024_000, "memcg"));
    }
}

/// What comes while it is recorded is in the timeline, once.
#[test]
fn a_recording_goes_on() {
    let machine = machine(&format!("5,0,0,-;Linux version 6.17\n3,1,7000000,-;{XID}\n"));
    let out = machine.path("recording.txt");
    let mut recorder = exporter()
        .args(["record", "--duration", "600s", "--interval", "1s"])
        .arg(&out)
        .args(arguments(&machine))
        .spawn()
        .unwrap();
    let lines = |wanted: usize| {
        wait_for("lines of the kernel", || {
            let text = fs::read_to_string(&out).unwrap_or_default();
            let all: Vec<String> =
                text.lines().filter(|line| line.contains(" x ")).map(str::to_owned).collect();
            (all.len() >= wanted).then_some(all)
        })
    };
    lines(1);
    say(&machine, &format!("3,2,8000000,-;{KILL}\n3,3,8000001,-;{XID}\n"));
    let all = lines(3);
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[1].contains("s kernel x 1 Out of memory: Killed process 1 (python)"), "{all:?}");
    let log = scenario(&out).last().unwrap().snapshot.kernel_log.clone().unwrap();
    let of = |kind: MessageKind| (log.counts[kind as usize], log.old[kind as usize]);
    assert_eq!([of(MessageKind::Xid), of(MessageKind::OomKill)], [(2, 1), (1, 0)]);
}

#[test]
fn mistakes_in_a_capture_are_told_with_their_line() {
    let with = |line: &str| {
        let head = "# gb10-exporter capture 1\n# kind: invented\n# title: t\n# source: s\n";
        Capture::parse(&format!("{head}\n==> kernel_log\n{line}\n"))
    };
    assert!(with("").is_ok() && with("- x").is_ok() && with("1789000007.25 NVRM: x").is_ok());
    for (line, says) in [
        ("now x 1 NVRM: x", "expected seconds since 1970 or \"-\", found \"now\""),
        ("-1 NVRM: x", "expected seconds since 1970"),
        ("NaN NVRM: x", "expected seconds since 1970"),
        ("- x many NVRM: x", "expected a whole number from 1 behind \"x\", found \"many\""),
        ("7", "expected a line of the kernel's log"),
    ] {
        let (at, what) = with(line).unwrap_err();
        assert!(at == 7 && what.contains(says), "{line}: {at}: {what}");
    }
    let twice = with("==> kernel_log").unwrap_err();
    assert_eq!(twice, (7, "kernel_log is there twice".to_owned()));
}
