//! `record`: what it writes replays like the machine, tells nobody whose it is, and is whole or absent.
#![expect(clippy::disallowed_methods, reason = "tests set the scene and wait")]

mod support;

use gb10_exporter::capture::mask::Mask;
use gb10_exporter::capture::{Capture, write::Recording};
use gb10_exporter::export::{prometheus, status::Status};
use gb10_exporter::model::reading::Missing;
use gb10_exporter::model::snapshot::Snapshot;
use gb10_exporter::model::source::Source;
use gb10_exporter::sources::{self, Recorder};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use support::fakes::{self, Gpu};
use support::{captures, exporter, frame, pace, root, without_processes};

/// Serves well for everything: a GB10 at work.
const SERVING: &str = "gb10-580.173.02-serving";

/// A machine of real files, with a place for the recording.
struct Scene {
    dir: tempfile::TempDir,
    gpu: Option<Gpu>,
}

impl Scene {
    fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let capture = load(&original(name));
        for (path, text) in capture.paths() {
            if let Some(text) = text {
                let file = dir.path().join("root").join(path.trim_start_matches('/'));
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
        }
        let gpu = (!capture.gpu.is_empty()).then(|| Gpu::new(name));
        Self { dir, gpu }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.dir.path().join("root").join(path.trim_start_matches('/'))
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out.txt")
    }

    /// `record` on this machine, through the fake library.
    fn command(&self) -> Command {
        let mut command = self.bare();
        if let Some(gpu) = &self.gpu {
            command.arg("--path.nvml").arg(fakes::nvml()).envs(gpu.environment());
        }
        command
    }

    fn bare(&self) -> Command {
        let mut command = exporter();
        command.arg("record");
        for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
            command.arg(format!("--path.{flag}={}", self.file(sub).display()));
        }
        command
    }

    fn record(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).arg(self.out()).output().unwrap()
    }

    /// What is beside the recording.
    fn beside(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "root");
        names
    }
}

fn original(name: &str) -> PathBuf {
    root().join(format!("tests/captures/{name}.txt"))
}

fn load(path: &Path) -> Capture {
    Capture::load(path).unwrap()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Everything that a capture gives: the scrape and the readings.
fn told(capture: &Capture) -> (String, serde_json::Value) {
    let frame = frame(capture);
    let status = serde_json::from_slice(&Status::of(&frame).to_json()).unwrap();
    (String::from_utf8(prometheus::encode(&frame, None)).unwrap(), status)
}

/// Without what stands for the identities that are masked.
fn without_identities(text: &str) -> String {
    let known = |word: &str| word.len() >= 36 && word.matches('-').count() >= 4;
    let words = text.split_inclusive(['"', '\n']);
    words.map(|word| if known(word) { "ID\"" } else { word }).collect()
}

#[track_caller]
fn assert_alike(name: &str, recorded: &Capture, original: &Capture) {
    let (recorded, original) = (told(recorded), told(original));
    for (now, then) in recorded.0.lines().zip(original.0.lines()) {
        assert_eq!(now, then, "{name}");
    }
    assert_eq!(recorded, original, "{name}");
}

/// The real binary on real files and the fake library, compared with what they were made of.
#[test]
fn a_recorded_machine_reads_like_the_live_one() {
    let names: Vec<_> = captures().into_iter().map(|(name, _)| name).collect();
    let staged = |name: &String| {
        // What may not be read cannot be staged by a test that runs as root.
        !fs::read_to_string(original(name)).unwrap().contains(" !denied\n")
    };
    let names: Vec<_> = names.into_iter().filter(staged).collect();
    assert!(names.len() >= captures().len() - 1);
    let mut threads = Vec::new();
    for name in names {
        threads.push(thread::spawn(move || {
            let scene = Scene::new(&name);
            let out = scene.record(&["--no-mask"]);
            assert!(out.status.success(), "{name}: {}", stderr(&out));
            let before = without_processes(&original(&name));
            assert_alike(&name, &load(&scene.out()), &before);

            let out = scene.record(&["--force"]);
            assert!(out.status.success(), "{name}: {}", stderr(&out));
            let (masked, before) = (told(&load(&scene.out())).0, told(&before).0);
            assert_eq!(without_identities(&masked), without_identities(&before), "{name}");
        }));
    }
    let failures = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    assert_eq!(failures, 0);
}

/// The same without files, which shows what cannot be staged: a file that may not be read.
#[test]
fn a_recorder_changes_nothing() {
    for (name, path) in captures() {
        let recorder = Recorder::new(Arc::new(load(&path)));
        let now = || Duration::ZERO;
        let at = gb10_exporter::model::moment::Moment { mono: now(), wall: now() };
        let mut snapshot = Snapshot::absent(at, Missing::Pending);
        for &source in Source::ALL.iter().filter(|source| **source != Source::Process) {
            let _ = sources::read(source, &recorder, &pace(&now), &mut snapshot);
        }
        let (gpu, notes) = recorder.gpu_notes().taken();
        let recording = Recording {
            files: recorder.files(),
            gpu,
            processes: recorder.processes(),
            kernel_log: recorder.kernel_log(),
            notes,
        };
        let text = recording.into_capture("a test", &mut Mask::off()).to_text();
        assert_alike(&name, &Capture::parse(&text).unwrap(), &load(&path));
    }
}

#[test]
fn two_gpus_refusals_and_errors_are_kept() {
    let scene = Scene::new(SERVING);
    let gpu = scene.gpu.as_ref().unwrap();
    gpu.add_second();
    gpu.set(&[("events", "4:0:31,5:1:79"), ("1.temperature", "!999"), ("0.power_mw", "!4")]);
    gpu.set(&[("1.utilization", "960"), ("1.processes.mps", "!3"), ("0.energy_mj", "!3")]);
    assert!(scene.record(&["--no-mask"]).status.success());
    let recorded = load(&scene.out());
    let of = |key: &str| {
        let pair = recorded.gpu.iter().find(|(known, _)| known == key);
        pair.map(|(_, value)| value.as_str())
    };
    assert_eq!(of("count"), Some("2"));
    assert_eq!(of("1.name"), Some("NVIDIA RTX 6000"));
    assert_eq!(of("1.temperature"), Some("!999"));
    assert_eq!(of("0.power_mw"), Some("!4"));
    assert_eq!(of("1.utilization"), Some("960"), "what cannot be is kept");
    assert_eq!(of("0.event_reasons"), Some("0x4"));
    let live = load(gpu.path());
    let gpus = |capture: &Capture| {
        let mut frame = frame(capture);
        frame.snapshot.gpus.xids = Err(Missing::Pending);
        frame.snapshot.gpus
    };
    assert_eq!(gpus(&recorded), gpus(&live));

    gpu.set(&[("1.temperature", "~2500 47")]);
    assert!(scene.record(&["--no-mask", "--force"]).status.success());
    let text = fs::read_to_string(scene.out()).unwrap();
    let slow = text.lines().find_map(|line| line.strip_prefix("1.temperature = ~")).unwrap();
    assert!(slow.starts_with("25") && slow.ends_with(" 47"), "slower than the deadline: {slow}");
    assert_eq!(frame(&load(&scene.out())).snapshot.gpus.devices, Err(Missing::Hung));

    gpu.set(&[("events", "!3"), ("1.temperature", "47")]);
    assert!(scene.record(&["--no-mask", "--force"]).status.success());
    assert_eq!(frame(&load(&scene.out())).snapshot.gpus.xids, Err(Missing::Unsupported));
}

#[test]
fn through_nvidia_smi_what_can_be_said_is_said() {
    let scene = Scene::new(SERVING);
    let record = |more: &[&str]| {
        let mut command = scene.bare();
        command.arg("--path.nvidia-smi").arg(fakes::nvidia_smi());
        command.envs(scene.gpu.as_ref().unwrap().environment());
        command.args(more).arg(scene.out()).output().unwrap()
    };
    let out = record(&["--no-mask"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let recorded = load(&scene.out());
    assert!(recorded.notes.iter().any(|note| note.contains("nvidia-smi")), "{:?}", recorded.notes);
    let (now, then) = (frame(&recorded), frame(&load(&original(SERVING))));
    let (now, then) = (&now.snapshot.gpus, &then.snapshot.gpus);
    assert_eq!((&now.driver, &now.library), (&then.driver, &Err(Missing::NotAvailable)));
    assert_eq!(now.xids, Err(Missing::Unsupported));
    let (now, then) = (now.each().next().unwrap(), then.each().next().unwrap());
    assert_eq!((&now.name, &now.uuid, &now.bus), (&then.name, &then.uuid, &then.bus));
    assert_eq!((now.utilization, now.temperature), (then.utilization, then.temperature));
    assert_eq!(now.power, then.power);
    assert_eq!(now.clocks.map(Result::ok), then.clocks.map(Result::ok));
    assert_eq!(now.clocks_max.map(Result::ok), then.clocks_max.map(Result::ok));
    assert_eq!(now.processes.as_ref().map(Vec::len), Ok(2), "those with a compute context");
    assert_eq!(now.energy, Err(Missing::NotAvailable));

    scene.gpu.as_ref().unwrap().set(&[("smi.hang", "children")]);
    let out = record(&["--no-mask", "--force"]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert_eq!(frame(&load(&scene.out())).snapshot.gpus.devices, Err(Missing::Hung));
}

/// Everything that tells whose machine it is, in files, in the GPU's name and in the environment.
#[test]
fn nothing_that_tells_whose_machine_it_is_survives() {
    let scene = Scene::new(SERVING);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let plant = |path: &str, text: &str| {
        let file = scene.file(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, before + text).unwrap();
    };
    plant("/etc/hostname", "grace-lab-17.corp.example\n");
    let more = format!(
        "VARIANT=\"{host} of alicew, 10.1.2.3, aa:bb:cc:dd:ee:0f\"\nX=\"grace-lab-17\"\nAPI_TOKEN=tok3n\n"
    );
    plant("/etc/os-release", &more);
    plant("/proc/driver/nvidia/params", "TemporaryFilePath: \"/home/alicew/tmp\"\n");
    plant("/proc/driver/nvidia/params", "RegistryDwords: \"password=hunter2;\"\n");
    fs::write(scene.file("/sys/class/dmi/id/product_name"), "Spark 1420724012345\n").unwrap();
    fs::write(scene.file("/sys/class/dmi/id/board_name"), "of alicew\n").unwrap();
    fs::write(
        scene.file("/proc/swaps"),
        "Filename Type Size Used Priority\n/home/alicew/sw file 1000 0 -2\n",
    )
    .unwrap();
    scene.gpu.as_ref().unwrap().set(&[
        ("0.name", "GB10 of alicew"),
        ("0.uuid", "GPU-0b7c2f1e-9a3d-4c55-8f00-a1b2c3d4e5f6"),
    ]);
    let environment = [("USER", "alicew"), ("HOME", "/srv/people/alicew")];
    let out = scene.command().envs(environment).arg(scene.out()).output().unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    let text = fs::read_to_string(scene.out()).unwrap();
    let boot = fs::read_to_string(scene.file("/proc/sys/kernel/random/boot_id")).unwrap();
    for secret in [
        "alicew",
        "grace-lab",
        "corp.example",
        "10.1.2.3",
        "aa:bb",
        "tok3n",
        "hunter2",
        "14207240",
        "0b7c2f1e",
        boot.trim(),
    ] {
        assert!(!text.contains(secret), "{secret} survives:\n{text}");
        assert!(!stderr(&out).contains(secret), "{secret} is printed");
    }
    let variant = text.lines().find(|line| line.starts_with("VARIANT=")).unwrap();
    assert_eq!(variant, "VARIANT=\"host of user, 0.0.0.0, 00:00:00:00:00:00\"");
    let told = stderr(&out);
    for kind in ["host names 2", "user names", "paths", "IP addresses 1", "UUIDs 2", "secrets 2"] {
        assert!(told.contains(kind), "{kind}: {told}");
    }
    assert_eq!(fs::metadata(scene.out()).unwrap().permissions().mode() & 0o004, 4);

    let out =
        scene.command().envs(environment).args(["--no-mask", "--force"]).arg(scene.out()).output();
    assert!(out.unwrap().status.success());
    let recorded = load(&scene.out());
    assert!(recorded.notes[0].starts_with("NOT MASKED"), "{:?}", recorded.notes);
    assert!(fs::read_to_string(scene.out()).unwrap().contains("hunter2"));
    assert_eq!(fs::metadata(scene.out()).unwrap().permissions().mode() & 0o077, 0, "for its owner");
}

#[test]
fn a_file_is_replaced_only_when_asked_and_errors_name_it() {
    let scene = Scene::new("x86-vm");
    fs::write(scene.out(), "precious").unwrap();
    let fails = |arguments: &[&str], path: &Path, what: &str| {
        let out = scene.command().args(arguments).arg(path).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
        let told = stderr(&out);
        assert!(told.contains(&path.display().to_string()) && told.contains(what), "{told}");
    };
    fails(&[], &scene.out(), "--force");
    assert_eq!(fs::read_to_string(scene.out()).unwrap(), "precious");
    fails(&["--force"], scene.dir.path(), "not a plain file");
    fails(&["--force"], Path::new("/dev/null"), "not a plain file");
    fails(&[], &scene.dir.path().join("nowhere/x"), "No such file");
    fails(&[], Path::new("/proc/x"), "cannot be written");

    let before = fs::metadata(scene.out()).unwrap().ino();
    assert!(scene.record(&["--force"]).status.success());
    assert_ne!(fs::metadata(scene.out()).unwrap().ino(), before, "another file in its place");
    assert_eq!(scene.beside(), ["out.txt"], "nothing is left beside it");

    let out = scene.command().arg("-").output().unwrap();
    assert!(out.status.success());
    assert_eq!(out.stdout, fs::read(scene.out()).unwrap());
    let out = scene.command().args(["--capture", "x", "y"]).output().unwrap();
    assert_eq!(out.status.code(), Some(64), "a recorded machine is not recorded again");
}

fn block(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Killed while it waits for a file, it leaves nothing.
#[test]
fn killed_in_the_middle_it_leaves_nothing() {
    let scene = Scene::new("x86-vm");
    block(&scene.file("/proc/uptime"));
    let mut child = scene.command().arg(scene.out()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(scene.beside().is_empty(), "{:?}", scene.beside());
}

/// At whatever moment it is killed: no file, or a whole one.
#[test]
fn killed_at_any_moment_it_leaves_a_whole_file_or_none() {
    let scene = Scene::new("x86-vm");
    let mut whole = 0;
    for wait in 0..40 {
        let mut child = scene.command().arg(scene.out()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(wait));
        let _ = child.kill();
        child.wait().unwrap();
        if scene.out().exists() {
            assert!(load(&scene.out()).paths().count() > 10);
            fs::remove_file(scene.out()).unwrap();
            whole += 1;
        }
    }
    assert!(whole > 0, "none ever came to its end");
}

/// Nor does it wait for ever for the host's name.
#[test]
fn a_host_name_that_hangs_is_told() {
    let scene = Scene::new("x86-vm");
    block(&scene.file("/etc/hostname"));
    let out = scene.record(&[]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(stderr(&out).contains("the host's name did not answer"), "{}", stderr(&out));
    assert!(load(&scene.out()).notes[0].contains("NOT MASKED"));
}

/// A file that does not answer keeps the rest from nothing, and is said to be there.
#[test]
fn a_source_that_hangs_is_named_and_the_rest_is_written() {
    let scene = Scene::new(SERVING);
    block(&scene.file("/sys/class/thermal/thermal_zone3/temp"));
    let began = Instant::now();
    let out = scene.record(&["--no-mask"]);
    let took = began.elapsed();
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(20), "{took:?}");
    assert!(stderr(&out).contains("thermal did not answer within 10 s"), "{}", stderr(&out));
    let recorded = load(&scene.out());
    let text = fs::read_to_string(scene.out()).unwrap();
    assert!(text.contains("==> /sys/class/thermal/thermal_zone3/temp !failed did not answer"));
    assert!(recorded.notes.iter().any(|note| note.starts_with("thermal did not answer")));
    let (now, then) = (frame(&recorded), frame(&load(&original(SERVING))));
    assert_eq!(now.snapshot.meminfo, then.snapshot.meminfo);
    assert_eq!(now.snapshot.gpus, then.snapshot.gpus);
    let zones = now.snapshot.zones.unwrap();
    assert_eq!(zones[..3], then.snapshot.zones.unwrap()[..3]);
    assert_eq!(zones[3].temperature, Err(Missing::Failed));
}
