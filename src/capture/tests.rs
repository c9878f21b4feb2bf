use super::*;
use proptest::prelude::*;

const SMALL: &str = "# gb10-exporter capture 1\n# kind: invented\n# title: two lines\n# source: nobody\n# note: a: b\n\n\
==> /proc/meminfo\nMemTotal: 8 kB\n\nMemFree: 4 kB\n\n==> /sys/class/thermal/thermal_zone0/temp\n48700\n\
==> /proc/pressure/memory !denied\n\n==> gpu\ncount = 1\n0.memory = !3\n";

#[test]
fn a_capture_is_the_files_that_it_holds() {
    let capture = Capture::parse(SMALL).unwrap();
    assert_eq!(capture.kind, Kind::Invented);
    assert_eq!(capture.notes, ["a: b"]);
    assert_eq!(capture.text("/proc/meminfo").unwrap(), "MemTotal: 8 kB\n\nMemFree: 4 kB\n");
    assert_eq!(capture.text("/proc/vmstat"), Err(FileError::NotPresent));
    assert_eq!(capture.text("/proc/pressure/memory"), Err(FileError::Denied));
    assert_eq!(capture.names("/sys/class/thermal").unwrap(), ["thermal_zone0"]);
    assert_eq!(capture.names("/sys/class/hwmon"), Err(FileError::NotPresent));
    assert_eq!(capture.gpu[1], ("0.memory".into(), "!3".into()));
}

/// What is wrong, in which line, and what the message says.
#[test]
fn mistakes_are_named_with_their_line() {
    let replace = |from: &str, to: &str| SMALL.replace(from, to);
    for (text, line, says) in [
        (String::new(), 1, "expected the first line"),
        (replace("capture 1", "capture 2"), 1, "expected the first line"),
        (
            replace("# kind: invented", "# kind: real"),
            2,
            "expected kind raw, reconstructed or invented",
        ),
        (replace("# kind: invented\n", ""), 1, "lacks \"# kind"),
        (replace("# title:", "# name:"), 3, "expected kind, title, source or note, found \"name\""),
        (replace("# note: a: b", "hello"), 5, "expected \"# key: value\""),
        (replace("/proc/meminfo", "proc/meminfo"), 7, "expected a path below /proc"),
        (replace("/proc/meminfo", "/proc/../etc/shadow"), 7, "expected a path below /proc"),
        (
            replace("!denied", "!broken"),
            14,
            "expected !not_present, !denied, !failed, !too_large or !not_text, found !broken",
        ),
        (replace("!denied\n", "!denied\nsome\n"), 15, "marked as unreadable and has content"),
        (
            replace(
                "thermal_zone0/temp\n48700\n",
                "thermal_zone0/temp\n48700\n==> /proc/meminfo\n",
            ),
            14,
            "is there twice",
        ),
        (replace("0.memory = !3", "memory"), 18, "expected \"key = value\""),
        (replace("0.memory = !3", "0.memorry = !"), 18, "expected a return code"),
        (replace("0.memory = !3", "0.memorry = 3"), 18, "0.memorry: unknown key"),
        (replace("0.memory = !3", "0.clock.smm = 3"), 18, "0.clock.smm: unknown key"),
        (replace("0.memory = !3", "x.name = a"), 18, "x.name: unknown key"),
        (replace("0.memory = !3", "0.memory = 1,2"), 18, "expected TOTAL,FREE,USED in bytes"),
        (replace("0.memory = !3", "0.pstate = P0"), 18, "expected a whole number, found \"P0\""),
        (replace("0.memory = !3", "0.temperature = ~x 4"), 18, "expected \"~MILLISECONDS VALUE\""),
        (replace("0.memory = !3", "0.processes.compute = 7"), 18, "expected PID:BYTES"),
        (replace("0.memory = !3", "0.device = here"), 18, "expected !N"),
        (replace("0.memory = !3", "events = 13"), 18, "expected SEQUENCE:GPU:XID"),
        (replace("0.memory = !3", "count = 2"), 18, "count is there twice"),
        (replace("0.memory", "1.memory"), 16, "count is 1, so the last GPU is 0"),
        (replace("count = 1\n", ""), 16, "0.memory is there and count"),
    ] {
        let (at, what) = Capture::parse(&text).unwrap_err();
        assert!(what.contains(says), "{what:?} should say {says:?}");
        assert_eq!(at, line, "{what}");
    }
}

#[test]
fn a_file_that_is_no_capture_is_refused_with_its_name() {
    let error = Capture::load(Path::new("/dev/zero")).unwrap_err();
    assert_eq!(error.to_string(), "/dev/zero is not a capture: it is larger than 4 MiB");
    let error = Capture::load(Path::new("/nowhere")).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere cannot be read");
}

proptest! {
    /// Whatever is in the file, it is a capture or an error with a line of it.
    #[test]
    fn no_text_breaks_the_parser(text in "[#=>/!a-z \\n:]{0,200}", with_magic in any::<bool>()) {
        let text = if with_magic { format!("{MAGIC}\n# kind: raw\n# title: t\n# source: s\n{text}") } else { text };
        if let Err((line, what)) = Capture::parse(&text) {
            prop_assert!(line >= 1 && line <= text.lines().count().max(1) + 1);
            prop_assert!(!what.is_empty());
        }
    }
}
