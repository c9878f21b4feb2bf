use super::*;
use crate::capture::mask::Mask;
use crate::model::reading::Missing;
use crate::sources::gpu::{Notes, Pace};
use crate::sources::{Files, Machine, ReadError, Recorder};
use std::path::Path;
use std::sync::Arc;

fn outcomes(list: &[(&str, Option<Result<&str, FileError>>)]) -> Outcomes {
    let owned = |outcome: &Option<Result<&str, FileError>>| {
        outcome.clone().map(|result| result.map(str::to_owned))
    };
    list.iter().map(|(path, outcome)| ((*path).to_owned(), owned(outcome))).collect()
}

fn recorded(files: Outcomes) -> Capture {
    let recording = Recording {
        files,
        gpu: Vec::new(),
        processes: None,
        kernel_log: Err(Missing::NotPresent),
        notes: Vec::new(),
    };
    let capture = recording.into_capture("a test", &mut Mask::off());
    assert_eq!(Capture::parse(&capture.to_text()).unwrap(), capture, "{}", capture.to_text());
    capture
}

#[test]
fn every_capture_is_written_as_it_reads() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut seen = 0;
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let capture = Capture::load(&path).unwrap();
        assert_eq!(Capture::parse(&capture.to_text()).unwrap(), capture);
        seen += 1;
    }
    assert!(seen > 12);
}

#[test]
fn every_outcome_is_kept() {
    let failed = FileError::Failed("Input/output error (os error 5)".to_owned());
    let capture = recorded(outcomes(&[
        ("/proc/a", Some(Ok("one\n\n\n"))),
        ("/proc/b", Some(Ok(""))),
        ("/proc/c", Some(Err(FileError::NotPresent))),
        ("/proc/d", Some(Err(FileError::Denied))),
        ("/proc/e", Some(Err(failed.clone()))),
        ("/proc/f", Some(Err(FileError::TooLarge))),
        ("/proc/g", Some(Err(FileError::NotText))),
        ("/proc/h", None),
        ("/proc/i", Some(Err(FileError::Failed(String::new())))),
        ("/sys/class/hwmon", Some(Err(FileError::Denied))),
        ("/sys/z", Some(Ok("\n"))),
    ]));
    assert_eq!(capture.text("/proc/a"), Ok("one\n\n\n".to_owned()));
    assert_eq!(capture.text("/proc/b"), Ok(String::new()));
    assert_eq!(capture.text("/proc/c"), Err(FileError::NotPresent));
    assert_eq!(capture.text("/proc/d"), Err(FileError::Denied));
    assert_eq!(capture.text("/proc/e"), Err(failed));
    assert_eq!(capture.text("/proc/f"), Err(FileError::TooLarge));
    assert_eq!(capture.text("/proc/g"), Err(FileError::NotText));
    assert!(matches!(capture.text("/proc/h"), Err(FileError::Failed(_))), "it exists");
    assert_eq!(capture.text("/proc/i"), Err(FileError::Failed(String::new())));
    assert_eq!(capture.names("/sys/class/hwmon"), Err(FileError::Denied));
    assert_eq!(capture.text("/sys/z"), Ok("\n".to_owned()));
}

#[test]
fn a_text_that_the_format_cannot_hold_is_put_right_and_told() {
    let capture =
        recorded(outcomes(&[("/etc/os-release", Some(Ok("NAME=x\r\n==> /proc/meminfo\nID=cut")))]));
    let text = capture.text("/etc/os-release").unwrap();
    assert_eq!(text, "NAME=x\n ==> /proc/meminfo\nID=cut\n");
    assert_eq!(capture.text("/proc/meminfo"), Err(FileError::NotPresent));
    assert_eq!(capture.notes, ["/etc/os-release: line ends were put right"]);
}

#[test]
fn the_title_is_product_kernel_and_driver() {
    let of = |files: &[(&str, &str)], gpu: &[(&str, &str)]| {
        let list: Vec<_> = files.iter().map(|(path, text)| (*path, Some(Ok(*text)))).collect();
        let gpu = gpu.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let recording = Recording {
            files: outcomes(&list),
            gpu,
            processes: None,
            kernel_log: Err(Missing::NotPresent),
            notes: Vec::new(),
        };
        recording.into_capture("a test", &mut Mask::off()).title
    };
    let box_of = [
        ("/sys/class/dmi/id/product_name", "NVIDIA_DGX_Spark\n"),
        ("/proc/sys/kernel/osrelease", "6.17.0\n"),
        ("/proc/driver/nvidia/version", "NVRM version: NVIDIA  580.95.05  x\n"),
    ];
    let whole = "NVIDIA_DGX_Spark, kernel 6.17.0, driver ";
    assert_eq!(of(&box_of, &[("driver", "590.1")]), format!("{whole}590.1"));
    assert_eq!(of(&box_of, &[("driver", "!9")]), format!("{whole}580.95.05"));
    assert_eq!(of(&[], &[]), "a machine without a product name, kernel unknown, no NVIDIA driver");
}

/// A machine whose temperature never comes back, and whose driver panics on the way.
struct Odd;

impl Files for Odd {
    fn text(&self, path: &str) -> Result<String, FileError> {
        assert!(path != "/panics", "on purpose");
        Ok("1\n".to_owned())
    }
    fn names(&self, _path: &str) -> Result<Vec<String>, FileError> {
        Ok(vec!["x".to_owned()])
    }
}

impl Machine for Odd {
    fn gpu(&self, _pace: &Pace<'_>, into: &mut crate::model::gpu::Gpus) -> Result<(), ReadError> {
        use crate::model::fields::Group;
        use crate::model::reading::Missing;
        *into = crate::model::gpu::Gpus::absent(Missing::NoDriver);
        Err(ReadError::Gpu { what: "none".to_owned(), reason: Missing::NoDriver })
    }
}

#[test]
fn a_recorder_notes_what_was_asked_and_what_has_not_come_back() {
    let recorder = Recorder::new(Arc::new(Odd));
    assert_eq!(recorder.text("/proc/x"), Ok("1\n".to_owned()));
    assert!(recorder.names("/sys/class").is_ok());
    let call = std::panic::AssertUnwindSafe(|| recorder.text("/panics"));
    assert!(std::panic::catch_unwind(call).is_err());
    let expected = outcomes(&[("/panics", None), ("/proc/x", Some(Ok("1\n")))]);
    assert_eq!(recorder.files(), expected);

    let now = || std::time::Duration::ZERO;
    let limits = crate::sources::gpu::Limits {
        deadline: now(),
        smi_deadline: now(),
        retry_first: now(),
        retry_max: now(),
    };
    let pace = Pace { choice: crate::model::gpu::GpuChoice::Auto, limits, now: &now };
    let mut gpus = crate::model::fields::Group::absent(crate::model::reading::Missing::Pending);
    assert!(recorder.gpu(&pace, &mut gpus).is_err());
    assert_eq!(recorder.gpu_notes().taken().0, [("init".to_owned(), "!9".to_owned())]);
}

#[test]
fn an_answer_that_has_not_come_back_makes_a_machine_that_hangs() {
    let notes = Notes::default();
    notes.give_up(std::time::Duration::from_secs(9));
    let pairs = notes.taken().0;
    assert_eq!(pairs, [("init".to_owned(), "~9000 !999".to_owned())]);
    let recording = Recording {
        files: Outcomes::new(),
        gpu: pairs,
        processes: None,
        kernel_log: Err(Missing::NotPresent),
        notes: Vec::new(),
    };
    let text = recording.into_capture("a test", &mut Mask::off()).to_text();
    Capture::parse(&text).unwrap();
}
