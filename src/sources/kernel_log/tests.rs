#![expect(clippy::disallowed_methods, reason = "tests write files and start programs")]

use super::record::{line, record};
use super::ring::MAX_RECORDS;
use super::*;
use crate::model::kernel_log::{MessageKind, Messages};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

const XID: &str = "NVRM: Xid (PCI:000f:01:00): 13, pid=1, name=python, Graphics Exception";
const NO_MEMORY: &str = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359";
/// The scene's machine came up then.
const BOOTED: u64 = 1_789_000_000;

fn of(messages: &Messages, kind: MessageKind) -> u64 {
    messages.counts[kind as usize]
}

/// A machine of files.
struct Scene {
    dir: tempfile::TempDir,
    reader: Reader,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for place in ["proc", "dev", "var/log"] {
            fs::create_dir_all(dir.path().join(place)).unwrap();
        }
        fs::write(dir.path().join("proc/stat"), format!("btime {BOOTED}\n")).unwrap();
        let reader = Self::reader(dir.path());
        Self { dir, reader }
    }

    fn reader(root: &Path) -> Reader {
        Reader::new(Roots {
            procfs: root.join("proc"),
            sysfs: root.join("sys"),
            rootfs: root.to_owned(),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn add(&self, name: &str, text: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    fn read(&mut self) -> Result<Arc<Messages>, ReadError> {
        let mut log = Err(Missing::Pending);
        self.reader.read(&mut log)?;
        Ok(log.unwrap())
    }
}

#[test]
fn a_record_of_the_ring() {
    let told = record(b"3,339,5140900,-,caller=T1;NVRM: x;y").unwrap();
    assert_eq!((told.sequence, told.since_boot.as_micros(), told.kernel), (339, 5_140_900, true));
    assert_eq!(told.text, "NVRM: x;y");
    // Facilities of programs: user, daemon, and whatever else is not the kernel's.
    for priority in ["8", "12", "30", "4294967295"] {
        assert!(!record(format!("{priority},1,1,-;x").as_bytes()).unwrap().kernel, "{priority}");
    }
    for bad in
        ["", ";", "3", "3,1", "3,1,1", "3,1,1;x", "x,1,1,-;x", "-3,1,1,-;x", "3,1,x,-;", "3,,1,-;x"]
    {
        assert_eq!(record(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(record(b"3,1,1,-;\xff\x00").unwrap().text, "\u{fffd}\0");
}

#[test]
fn a_line_of_a_syslog_file() {
    let mut clock = Clock::new(TimeZone::UTC, 2026);
    let mut read = |text: &str| {
        line(text, &mut clock).map(|line| (line.at.as_secs(), line.times, line.text.to_owned()))
    };
    let at = 1_789_262_703;
    for text in [
        "2026-09-13T01:25:03.123456+00:00 spark kernel: NVRM: x",
        "2026-09-13T03:25:03.123456+02:00 spark kernel: [ 5140.123456] NVRM: x",
        "Sep 13 01:25:03 spark kernel: [ 5140.123456] NVRM: x",
    ] {
        assert_eq!(read(text), Some((at, 1, "NVRM: x".to_owned())), "{text}");
    }
    for (text, said) in [
        ("message repeated 15 times: [ NVRM: [x] y]", "NVRM: [x] y"),
        ("message repeated 15 times: [[T92772] NVRM: x]", "NVRM: x"),
        ("message repeated 15 times: [[    5.140][   C16] NVRM: cut", "NVRM: cut"),
    ] {
        let line = format!("Sep 13 01:25:03 spark kernel: {text}");
        assert_eq!(read(&line), Some((at, 15, said.to_owned())), "{text}");
    }
    let line = "Sep 13 01:25:03 spark kernel: [Firmware Bug]: x";
    assert_eq!(read(line).unwrap().2, "[Firmware Bug]: x");
    let line = "Sep 13 01:25:03 spark kernel: message repeated -1 times: [ x]";
    assert_eq!(read(line).unwrap().1, 1);
    for other in [
        "Sep 13 01:25:03 spark python[7]: NVRM: x",
        "Sep 13 01:25:03 spark python[7]: kernel: NVRM: x",
        "Sep 13 01:25:03 spark my kernel: NVRM: x",
        "kernel: NVRM: x",
        "Sep 13 01:25:03 kernel:",
        "01:25:03 spark kernel: NVRM: x",
        "",
    ] {
        assert_eq!(read(other), None, "{other}");
    }
}

#[test]
fn what_was_there_before_counts_and_is_no_news() {
    let mut scene = Scene::new();
    scene.add(
        "dev/kmsg",
        format!("6,7,0,-;Linux version 6.17\n3,8,2500000,-;{XID}\n SUBSYSTEM=pci\n"),
    );
    let log = scene.read().unwrap();
    assert_eq!((log.place, of(&log, MessageKind::Xid), log.overwritten), (LogPlace::Ring, 1, 7));
    assert_eq!(log.old, log.counts);
    let last = Duration::from_millis(BOOTED * 1000 + 2500);
    assert_eq!(log.last[MessageKind::Xid as usize], Some(last));
    let same = scene.read().unwrap();
    assert!(Arc::ptr_eq(&log, &same), "nothing new costs nothing");
    // A record in two pieces.
    scene.add("dev/kmsg", &format!("3,9,9000000,-;{NO_MEMORY}\n3,10,9000001,-;{XID}")[..]);
    let log = scene.read().unwrap();
    assert_eq!((of(&log, MessageKind::DriverNoMemory), of(&log, MessageKind::Xid)), (1, 1));
    scene.add("dev/kmsg", "\n");
    let log = scene.read().unwrap();
    assert_eq!((of(&log, MessageKind::Xid), log.xids.get(&13)), (2, Some(&2)));
    assert_eq!((log.old[MessageKind::Xid as usize], log.lost), (1, 0));
    let news: Vec<_> = log.latest.iter().map(|entry| (entry.number, entry.old)).collect();
    assert_eq!(news, [(1, true), (2, false), (3, false)]);
    // Another exporter comes to the same counts.
    scene.reader = Scene::reader(scene.dir.path());
    let again = scene.read().unwrap();
    assert_eq!((again.counts, again.last), (log.counts, log.last));
}

#[test]
fn what_a_program_writes_into_the_ring_is_not_the_kernels() {
    let mut scene = Scene::new();
    scene.add(
        "dev/kmsg",
        format!("6,0,0,-;Linux version 6.17\n12,1,1,-;{XID}\n11,2,2,-;{NO_MEMORY}\n"),
    );
    let log = scene.read().unwrap();
    assert_eq!((log.counts, log.lost), ([0; MessageKind::COUNT], 0), "in their order all the same");
    scene.add("dev/kmsg", format!("4,3,3,-;{XID}\n"));
    assert_eq!(of(&scene.read().unwrap(), MessageKind::Xid), 1);
}

#[test]
fn sequence_numbers_that_jump_are_lost_lines() {
    let mut scene = Scene::new();
    scene.add("dev/kmsg", "6,0,0,-;a\n6,1,0,-;b\n6,10,0,-;c\n");
    assert_eq!(scene.read().unwrap().lost, 8);
    scene.add("dev/kmsg", "6,5,0,-;backwards\n6,6,0,-;d\n");
    assert_eq!(scene.read().unwrap().lost, 8);
    let last = format!("6,{0},{0},-;e\n6,0,0,-;f\n3,1,{0},-;{XID}\n", u64::MAX);
    scene.add("dev/kmsg", last);
    let log = scene.read().unwrap();
    assert_eq!((log.lost, of(&log, MessageKind::Xid)), (u64::MAX, 1));
    scene.add("dev/kmsg", vec![b'x'; 100_000]);
    scene.add("dev/kmsg", format!("\n6,2,0,-;g\n3,3,0,-;{XID}\n"));
    assert_eq!(of(&scene.read().unwrap(), MessageKind::Xid), 2, "after a line without an end");
}

/// A ring as the kernel has one: what is not read in time is overwritten, and the reader told so once.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    records: VecDeque<(u64, String)>,
    next: u64,
    overwritten: bool,
}

const HOLDS: usize = 20_000;

impl Fake {
    fn say(&self, text: &str, times: u64) {
        let mut ring = self.0.lock().unwrap();
        for _ in 0..times {
            let Held { records, next, overwritten } = &mut *ring;
            records.push_back((*next, text.to_owned()));
            *next += 1;
            if records.len() > HOLDS {
                records.pop_front();
                *overwritten = true;
            }
        }
    }
}

impl Read for Fake {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ring = self.0.lock().unwrap();
        let Held { records, overwritten, .. } = &mut *ring;
        if std::mem::take(overwritten) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let Some((sequence, text)) = records.pop_front() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let record = format!("3,{sequence},1,-;{text}\n");
        buffer[..record.len()].copy_from_slice(record.as_bytes());
        Ok(record.len())
    }
}

#[test]
fn a_flood_costs_a_bounded_round_and_what_it_overwrote_is_counted() {
    let fake = Fake::default();
    fake.say("Linux version 6.17", 1);
    let (mut ring, mut tally) = (Ring::of(fake.clone()), Tally::new(LogPlace::Ring));
    let scene = Scene::new();
    let roots = &scene.reader.roots;
    let mut round = |tally: &mut Tally| ring.round(&mut Booted::new(roots), false, tally).unwrap();
    assert!(round(&mut tally).end);
    fake.say(NO_MEMORY, 1_000_000);
    let mut ends = Vec::new();
    while ends.last() != Some(&true) {
        let came = round(&mut tally);
        assert!(came.records <= MAX_RECORDS);
        ends.push(came.end);
    }
    assert_eq!(ends.len(), HOLDS.div_ceil(usize::try_from(MAX_RECORDS).unwrap()));
    let log = tally.told();
    assert_eq!(of(&log, MessageKind::DriverNoMemory), HOLDS as u64);
    assert_eq!(log.lost, 1_000_000 - HOLDS as u64);
    assert_eq!(log.latest.len(), 1, "one burst is one entry");
    // A ring that is written faster than it is read never ends, and each round does.
    fake.say(XID, 200_000);
    assert!(!round(&mut tally).end);
    fake.say(XID, 200_000);
    assert!(!round(&mut tally).end);
    assert!(ring.held() < 64 * 1024);
}

#[test]
fn a_flood_of_different_messages_keeps_a_bounded_list() {
    let mut tally = Tally::new(LogPlace::Ring);
    for n in 0..100_000_u64 {
        tally.take(
            &format!("NVRM: Xid (PCI:000f:01:00): {n}, "),
            Ok(Duration::from_secs(n)),
            false,
            1,
        );
    }
    let log = tally.told();
    assert_eq!(of(&log, MessageKind::Xid), 100_000);
    assert!(log.latest.len() <= 128 && log.xids.len() <= 256);
    assert_eq!(log.latest.last().map(|entry| entry.number), Some(100_000));
}

#[test]
fn a_pipe_that_nobody_writes_to_is_no_log() {
    let mut scene = Scene::new();
    let made = std::process::Command::new("mkfifo").arg(scene.path("dev/kmsg")).status();
    assert!(made.unwrap().success());
    let error = scene.read().unwrap_err();
    assert_eq!(error.reason(), Missing::Malformed);
    assert!(error.to_string().contains("/dev/kmsg: expected a record of the kernel"), "{error}");
    // With a writer it does as a ring.
    let mut pipe = OpenOptions::new().read(true).write(true).open(scene.path("dev/kmsg")).unwrap();
    pipe.write_all(format!("3,0,0,-;{XID}\n").as_bytes()).unwrap();
    let log = scene.read().unwrap();
    assert_eq!((log.place, of(&log, MessageKind::Xid)), (LogPlace::Ring, 1));
}

#[test]
fn a_terminal_in_the_place_of_the_ring_is_not_read() {
    let mut scene = Scene::new();
    std::os::unix::fs::symlink("/dev/null", scene.path("dev/kmsg")).unwrap();
    let error = scene.read().unwrap_err().to_string();
    assert!(error.contains("/dev/kmsg cannot be read: is not the kernel's log"), "{error}");
}

fn stamped(second: u64, text: &str) -> String {
    let at = jiff::Timestamp::from_second(i64::try_from(BOOTED + second).unwrap()).unwrap();
    format!("{at} spark kernel: {text}\n")
}

#[test]
fn a_file_stands_in_for_the_ring_and_is_followed_through_rotation() {
    let mut scene = Scene::new();
    let before = stamped(0, XID).replace("2026-", "2025-");
    scene.add("var/log/kern.log", before + &stamped(5, NO_MEMORY));
    let log = scene.read().unwrap();
    assert_eq!(log.place, LogPlace::KernLog);
    assert_eq!(of(&log, MessageKind::Xid), 0, "another boot's");
    assert_eq!((of(&log, MessageKind::DriverNoMemory), log.old), (1, log.counts));
    assert_eq!(
        log.last[MessageKind::DriverNoMemory as usize],
        Some(Duration::from_secs(BOOTED + 5))
    );
    let repeated = format!("message repeated 15 times: [ {NO_MEMORY}]");
    scene.add("var/log/kern.log", stamped(6, &repeated));
    assert_eq!(of(&scene.read().unwrap(), MessageKind::DriverNoMemory), 16);
    let path = scene.path("var/log/kern.log");
    scene.add("var/log/kern.log", stamped(60, XID));
    fs::rename(&path, scene.path("var/log/kern.log.1")).unwrap();
    scene.add("var/log/kern.log", stamped(61, XID));
    assert_eq!(of(&scene.read().unwrap(), MessageKind::Xid), 1, "the old one to its end");
    assert_eq!(of(&scene.read().unwrap(), MessageKind::Xid), 2, "then the new one");
    fs::write(&path, "").unwrap();
    scene.read().unwrap();
    scene.add("var/log/kern.log", stamped(62, XID));
    let log = scene.read().unwrap();
    assert_eq!((of(&log, MessageKind::Xid), log.lost), (3, 0), "truncated");
    assert!(log.latest.iter().skip(1).all(|entry| !entry.old));
    fs::remove_file(&path).unwrap();
    // It comes back with the next line, if it does.
    (0..AWAY).for_each(|_| assert_eq!(scene.read().unwrap().counts, log.counts));
    assert_eq!(scene.read().unwrap_err().reason(), Missing::NotPresent);
    assert_eq!(scene.read().unwrap_err().reason(), Missing::NotPresent);
    scene.add("var/log/kern.log", stamped(63, XID));
    assert_eq!(of(&scene.read().unwrap(), MessageKind::Xid), 4, "nothing is told twice");
    scene.add("var/log/kern.log", vec![b'x'; 70_000]);
    scene.add("var/log/kern.log", "\n");
    assert_eq!(scene.read().unwrap().lost, 1);
}

#[test]
fn the_general_file_is_read_for_the_kernels_lines_alone() {
    let mut scene = Scene::new();
    let user = stamped(1, XID).replace(" kernel: ", " python[7]: kernel: ");
    scene.add("var/log/syslog", user + &stamped(2, XID));
    let log = scene.read().unwrap();
    assert_eq!((log.place, of(&log, MessageKind::Xid)), (LogPlace::Syslog, 1));
}

/// A stamp without a year, in a file that was begun in December and written to in January.
#[test]
fn a_year_that_is_not_told_is_that_of_the_file_or_the_one_before() {
    let mut scene = Scene::new();
    // Somewhere within the zones of the world, noon is that day.
    let january = jiff::civil::date(2026, 1, 2).at(12, 0, 0, 0);
    let written = TimeZone::system().to_timestamp(january).unwrap();
    let booted = written.as_second() - 5 * 86_400;
    fs::write(scene.path("proc/stat"), format!("btime {booted}\n")).unwrap();
    let lines = [
        "Dec 20 12:00:00 spark kernel: ",
        "Dec 30 12:00:00 spark kernel: ",
        "Jan  2 11:00:00 spark kernel: ",
    ];
    let text: String = lines.iter().map(|head| format!("{head}{XID}\n")).collect();
    scene.add("var/log/kern.log", text);
    let file = OpenOptions::new().append(true).open(scene.path("var/log/kern.log")).unwrap();
    let since = Duration::try_from(written.as_duration()).unwrap();
    file.set_modified(UNIX_EPOCH + since).unwrap();
    let log = scene.read().unwrap();
    assert_eq!(of(&log, MessageKind::Xid), 2, "the first is of the boot before");
    let last = log.last[MessageKind::Xid as usize].unwrap().as_secs();
    assert_eq!(i64::try_from(last).unwrap(), written.as_second() - 3600);
}

#[test]
fn what_cannot_be_read_says_what_helps() {
    let mut scene = Scene::new();
    let error = scene.read().unwrap_err();
    assert_eq!(error.reason(), Missing::NotPresent);
    let said = error.to_string();
    for part in [
        "/dev/kmsg does not exist",
        "kern.log does not exist",
        "syslog does not exist",
        "group adm",
        "CAP_SYSLOG",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // A box that has one and does not give it is denied, whatever else it lacks.
    assert_eq!(failed(RING, &io::ErrorKind::PermissionDenied.into()).reason(), Missing::Denied);
    // Later it is there.
    scene.add("var/log/kern.log", "");
    assert_eq!(scene.read().unwrap().counts, [0; MessageKind::COUNT]);
}

/// A log that is longer than a round, and of which the last part counts as well.
#[test]
fn what_came_before_is_pending_until_it_is_read() {
    let mut scene = Scene::new();
    let line = stamped(1, NO_MEMORY);
    let many = 3 * 1024 * 1024 / line.len();
    scene.add("var/log/kern.log", line.repeat(many));
    let mut rounds = 0;
    loop {
        let mut into = Err(Missing::Failed);
        scene.reader.read(&mut into).unwrap();
        rounds += 1;
        match into {
            Err(reason) => assert_eq!(reason, Missing::Pending),
            Ok(messages) => {
                assert_eq!(of(&messages, MessageKind::DriverNoMemory), many as u64);
                assert_eq!(messages.old, messages.counts);
                break;
            }
        }
    }
    assert!(rounds >= 3, "{rounds}");
}

/// The real one of this machine, as far as whoever runs this may read it.
#[test]
fn the_ring_of_this_machine() {
    let mut reader = Reader::new(Roots::default());
    let mut log = Err(Missing::Stale);
    let result = reader.read(&mut log);
    let mut real = OpenOptions::new().read(true).open(RING);
    let mut record = vec![0; 16 * 1024];
    let readable = real.as_mut().is_ok_and(|file| file.read(&mut record).is_ok());
    if readable {
        let log = log.unwrap();
        assert_eq!((result, log.place), (Ok(()), LogPlace::Ring));
        assert_eq!(log.old, log.counts, "all of it was there before");
        let mut again = Reader::new(Roots::default());
        let mut second = Err(Missing::Stale);
        again.read(&mut second).unwrap();
        let second = second.unwrap();
        let grew = |kind: usize| second.counts[kind] >= log.counts[kind];
        assert!((0..MessageKind::COUNT).all(grew), "another exporter sees no less");
    } else if FILES.iter().all(|(_, path)| fs::File::open(path).is_err()) {
        let reason = result.unwrap_err().reason();
        assert!([Missing::Denied, Missing::NotPresent, Missing::Failed].contains(&reason));
        assert_eq!(log, Err(reason));
    } else {
        assert!(log.is_ok_and(|log| log.place != LogPlace::Ring));
    }
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..300),
                "[0-9]{0,3},[0-9]{0,20},[0-9]{0,20},-;\\PC{0,60}\n".prop_map(String::into_bytes),
                Just(format!("3,1,1,-;{XID}\n").into_bytes()),
                Just(vec![b'x'; 9000]),
            ],
            0..20,
        ),
        line_text in "\\PC{0,80}",
    ) {
        let scene = Scene::new();
        let bytes = pieces.concat();
        let mut ring = Ring::of(io::Cursor::new(bytes));
        let mut tally = Tally::new(LogPlace::Ring);
        let came = ring.round(&mut Booted::new(&scene.reader.roots), false, &mut tally).unwrap();
        prop_assert!(came.end && ring.held() <= 64 * 1024);
        let mut clock = Clock::new(TimeZone::UTC, 2026);
        let _ = line(&line_text, &mut clock);
        let _ = line(&format!("Sep 13 01:25:03 {line_text}"), &mut clock);
    }
}
