//! `flush`: what it refuses, what it would do, and a real one.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use support::{Machine, exporter};

/// Nobody, who may not flush.
const NOBODY: u32 = 65_534;

fn finish(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// A machine whose kernel takes what is written and does nothing.
fn staged() -> Machine {
    let machine = Machine::new("spark-page-cache-2-full");
    fs::create_dir_all(machine.path("proc/sys/vm")).unwrap();
    for file in ["drop_caches", "compact_memory"] {
        fs::write(machine.path("proc/sys/vm").join(file), "").unwrap();
    }
    machine
}

/// A server that has no cap and whose driver tells nothing.
fn with_a_server(machine: &Machine) {
    let dir = machine.path("proc/4242");
    fs::create_dir_all(&dir).unwrap();
    let stat = "4242 (python3) S 1 4242 4242 0 -1 4194304 9 0 3 0 120 30 0 0 20 0 1 0 100000 1 2\n";
    fs::write(dir.join("stat"), stat).unwrap();
    fs::write(dir.join("cmdline"), b"/usr/bin/python3\0/usr/local/bin/vllm\0serve\0a/model\0")
        .unwrap();
    fs::write(dir.join("status"), "Name:\tpython3\nVmRSS:\t 8000000 kB\nRssAnon:\t 8000000 kB\n")
        .unwrap();
    fs::write(dir.join("cgroup"), "0::/system.slice/vllm.service\n").unwrap();
    fs::write(dir.join("environ"), "").unwrap();
    fs::write(machine.path("proc/uptime"), "90000.00 170000.00\n").unwrap();
}

fn on(machine: &Machine, args: &[&str]) -> (i32, String, String) {
    let at = |flag: &str, sub: &str| format!("--path.{flag}={}", machine.path(sub).display());
    let roots = [at("procfs", "proc"), at("sysfs", "sys"), at("rootfs", "")];
    finish(exporter().arg("flush").args(args).args(roots))
}

fn written(machine: &Machine, file: &str) -> String {
    fs::read_to_string(machine.path("proc/sys/vm").join(file)).unwrap()
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let machine = staged();
    with_a_server(&machine);
    let (code, out, err) = on(&machine, &["--dry-run", "--compact"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "drop page cache and reclaimable kernel objects (level 3)",
        "put free memory together",
        "returns 7",
        "Would ask first: vllm in vllm (pid 4242) runs.",
        "flush --level 3 --compact",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(written(&machine, "drop_caches") + &written(&machine, "compact_memory"), "");
}

#[test]
fn a_running_workload_is_not_flushed_under_without_a_yes() {
    let machine = staged();
    with_a_server(&machine);
    let (code, out, err) = on(&machine, &[]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("vllm in vllm (pid 4242) runs:") && err.contains("give --yes"), "{err}");
    assert_eq!(written(&machine, "drop_caches"), "");
    let (code, out, err) = on(&machine, &["--yes", "--level", "2", "--compact"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(written(&machine, "drop_caches"), "2\n");
    assert_eq!(written(&machine, "compact_memory"), "1\n");
    assert!(out.contains("before") && out.contains("free"), "{out}");
    // One line in the log, with what it brought.
    assert!(err.contains("event=cache_flushed") && err.contains("level=2"), "{err}");
}

#[test]
fn what_cannot_be_done_says_why() {
    let machine = Machine::new("spark-fe-idle");
    let (code, _, err) = on(&machine, &[]);
    assert_eq!(code, 2);
    assert!(err.contains("proc/sys/vm/drop_caches cannot be written: No such file"), "{err}");
    let (code, _, err) = finish(exporter().args(["flush", "--level", "4"]));
    assert_eq!(code, 64);
    assert!(err.contains("4 is not in 1..=3"), "{err}");
    let (code, _, err) = finish(exporter().args(["flush", "--capture", "x"]));
    assert_eq!(code, 64);
    assert!(err.contains("not on a recorded one"), "{err}");
}

/// The command that helps stands in the refusal, whole.
#[test]
fn without_root_it_says_the_exact_command() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The one of the build may lie where nobody may go.
    let program = dir.path().join("gb10-exporter");
    fs::copy(env!("CARGO_BIN_EXE_gb10-exporter"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args([
        "flush",
        "--level",
        "1",
        "--yes",
        "--path.nvml=/nowhere",
        "--path.nvidia-smi=/nowhere",
    ]);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let (code, out, err) = finish(&mut command);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    let expected = format!("only root may flush: sudo {} flush --level 1 --yes", program.display());
    assert!(err.contains(&expected), "{err}");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

/// How much of a file is in the page cache.
fn cached(path: &Path) -> u64 {
    let out = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .arg(path)
        .output();
    let out = out.expect("fincore of util-linux");
    String::from_utf8(out.stdout).unwrap().trim().parse().expect("bytes")
}

/// A real one, of files of its own: no root is needed.
#[test]
fn ones_own_files_are_given_back() {
    const SIZE: usize = 8 << 20;
    // Not below /tmp, which may be memory itself.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let files = ["a.safetensors", "b.safetensors", "c.bin"].map(|name| dir.path().join(name));
    for path in &files {
        let mut file = fs::File::create(path).unwrap();
        file.write_all(&vec![7; SIZE]).unwrap();
        assert_eq!(cached(path), SIZE as u64);
    }
    let pattern = dir.path().join("*.safetensors");
    let args = ["flush", "--files", pattern.to_str().unwrap()];
    let (code, out, err) = finish(exporter().args(args).arg("--dry-run"));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("2 of 2 files, 16 MiB in all, would be given back"), "{out}");
    assert_eq!(cached(&files[0]), SIZE as u64);
    let (code, out, err) = finish(exporter().args(args));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("2 of 2 files, 16 MiB in all, given back\nfree memory: "), "{out}");
    assert_eq!((cached(&files[0]), cached(&files[1])), (0, 0));
    assert_eq!(cached(&files[2]), SIZE as u64);
}

#[test]
fn files_that_cannot_be_given_back_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let files = |place: &str| finish(exporter().args(["flush", "--files", place]));
    let none = dir.path().join("*.none");
    let (code, _, err) = files(none.to_str().unwrap());
    assert_eq!(code, 2);
    assert!(err.contains("no file matches"), "{err}");
    let (code, _, err) = files("/nowhere/x");
    assert_eq!(code, 2);
    assert!(err.contains("/nowhere/x cannot be opened: No such file"), "{err}");
    let (code, out, err) = files(dir.path().to_str().unwrap());
    assert_eq!(code, 2);
    assert!(out.contains("0 of 1 files") && err.contains("is not a plain file"), "{out}{err}");
}
