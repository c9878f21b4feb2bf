//! The file: nothing in it is lost, and no line in it is half.

use crate::scene::{
    NOTHING, PATIENCE, Running, SERVING, SHORT, SMI, Scene, lines, smi_row, smi_rows, stderr,
    wait_for, wait_for_row,
};
use crate::support::exporter;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

#[test]
fn nothing_that_is_there_is_lost() {
    let scene = Scene::new("x86-vm");
    let refused = |args: &[&str], path: &Path, says: &str| {
        let out = scene.command(args).arg("--duration=1s").arg(path).output().unwrap();
        let told = stderr(&out);
        assert_eq!(out.status.code(), Some(2), "{told}");
        assert!(told.contains(&path.display().to_string()) && told.contains(says), "{told}");
    };
    fs::write(scene.log(), "precious").unwrap();
    refused(&[], &scene.log(), "--append");
    assert_eq!(scene.written(), "precious");
    for args in [&[][..], &["--append"]] {
        refused(args, scene.dir.path(), "not a plain file");
        refused(args, Path::new("/dev/full"), "not a plain file");
        refused(args, Path::new("/proc/x"), "cannot be written");
        refused(args, &scene.file("nowhere/x"), "No such file");
    }
    refused(&["--append", "--extended"], &scene.log(), "thermal.log:1: expected a header");
    fs::write(scene.log(), format!("{SHORT}\n")).unwrap();
    refused(&["--append", "--extended"], &scene.log(), "thermal.log:1: this header has no more");
    fs::write(scene.log(), format!("{SHORT},source[gpu]\n")).unwrap();
    refused(&["--append"], &scene.log(), "thermal.log:1: this header has more columns");
    fs::write(scene.log(), format!("{SHORT},meminfo.MemFree [GiB]\n")).unwrap();
    refused(&["--append", "--extended"], &scene.log(), "\"meminfo.MemFree [GiB]\" is no reading");
}

/// Two rows more; the lines then, and what was said.
fn append(scene: &Scene, args: &[&str]) -> (Vec<String>, String) {
    let mut command = scene.command(&["--append", "--interval=1", "--duration=1"]);
    let out = command.args(args).arg(scene.log()).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    (lines(&scene.written()), stderr(&out))
}

#[test]
fn a_file_is_gone_on_with() {
    let scene = Scene::new("x86-vm");
    let run = |args: &[&str]| append(&scene, args);
    let (first, said) = run(&[]);
    assert_eq!(first[0], SHORT);
    assert!(!said.contains("half a line"), "{said}");
    let half = "2026/11/24 14:0";
    OpenOptions::new().append(true).open(scene.log()).unwrap().write_all(half.as_bytes()).unwrap();
    let (second, said) = run(&["--header=smi"]);
    assert_eq!(said.matches("half a line").count(), 1, "{said}");
    assert_eq!((&second[..first.len()], second[first.len()].as_str()), (&first[..], half));
    let rows: Vec<_> = second[first.len() + 1..].iter().map(|line| smi_row(line)).collect();
    assert!(!rows.is_empty(), "{second:?}");
}

/// The columns are the file's own, whatever the machine has by now.
#[test]
fn a_file_with_more_columns_is_gone_on_with() {
    let scene = Scene::new("x86-vm");
    let header = format!("{SMI}, source[gpu], meminfo.MemFree [B], swaps.used[gone] [B]");
    fs::write(scene.log(), format!("{header}\n")).unwrap();
    let (lines, _) = append(&scene, &["--extended"]);
    assert!(lines.len() > 1);
    assert_eq!(lines[0], header);
    for line in &lines[1..] {
        let cells: Vec<_> = line.split(", ").collect();
        assert_eq!((cells.len(), cells[3], cells[5]), (6, "not_present", NOTHING), "{line}");
        assert!(cells[4].parse::<u64>().unwrap() > 1 << 20, "{line}");
    }
}

#[test]
fn a_rotated_log_begins_anew() {
    let scene = Scene::new(SERVING);
    let running = scene.start(&["--header=smi"]);
    wait_for_row(&scene, "a row", |_| true);
    let old = scene.file("thermal.log.1");
    fs::rename(scene.log(), &old).unwrap();
    wait_for_row(&scene, "a row in a new file", |_| true);
    let before = fs::read_to_string(&old).unwrap();
    assert_eq!(lines(&scene.written())[0], SMI);
    // As logrotate does with `create`.
    let next = scene.file("next");
    fs::write(&next, "").unwrap();
    fs::rename(&next, scene.log()).unwrap();
    wait_for_row(&scene, "a row in a file that somebody made", |_| true);
    assert_eq!(lines(&scene.written())[0], SMI);
    // And with `copytruncate`.
    File::options().write(true).open(scene.log()).unwrap().set_len(0).unwrap();
    wait_for_row(&scene, "a row after the cut", |_| true);
    assert_eq!(lines(&scene.written())[0], SMI);
    assert_eq!(fs::read_to_string(&old).unwrap(), before, "the old file rests");
    running.stop();
    smi_rows(&lines(&before));
    smi_rows(&lines(&scene.written()));
}

/// A folder that is renamed takes the file with it; one that is removed, the rows.
#[test]
fn a_log_whose_place_is_gone_is_gone_on_with() {
    let scene = Scene::new("x86-vm");
    let (place, other) = (scene.file("place"), scene.file("other"));
    let log = place.join("thermal.log");
    fs::create_dir(&place).unwrap();
    let mut command = scene.command(&["--interval=1"]);
    command.arg(&log);
    let running = Running::new(command, &scene.file("stderr"));
    let rows = |path: &Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    wait_for("a row", || (rows(&log) == 2).then_some(()));
    fs::rename(&place, &other).unwrap();
    wait_for("another row", || (rows(&other.join("thermal.log")) > 2).then_some(()));
    assert!(running.said().contains("rows go on into the file that was there"));
    fs::remove_dir_all(&other).unwrap();
    wait_for("a loss", || running.said().contains("rows are lost").then_some(()));
    fs::create_dir(&place).unwrap();
    wait_for("a row again", || (rows(&log) >= 2).then_some(()));
    assert_eq!(lines(&fs::read_to_string(&log).unwrap())[0], SHORT);
    let said = running.stop();
    assert!(said.contains("can be written again\" rows_lost="), "{said}");
}

/// Long before the next row is due.
#[test]
fn a_signal_makes_the_new_file_at_once() {
    let scene = Scene::new("x86-vm");
    let mut running = scene.start(&["--interval=1h"]);
    wait_for_row(&scene, "a row", |_| true);
    running.signal("HUP");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(lines(&scene.written()).len(), 2, "nothing was rotated");
    fs::rename(scene.log(), scene.file("old")).unwrap();
    running.signal("HUP");
    wait_for("the header", || (scene.written() == format!("{SHORT}\n")).then_some(()));
    assert!(running.child.try_wait().unwrap().is_none());
    running.stop();
}

/// A limit on the size of files acts as a disk that fills up: first a short write, then none at all.
#[test]
fn a_full_disk_costs_rows_and_never_half_of_one() {
    let scene = Scene::new(SERVING);
    // 512 bytes is the limit; a row of 37 and some of a second are left.
    let filled = format!("{SHORT}\n{}\n", "#".repeat(512 - 65 - SHORT.len() - 2));
    fs::write(scene.log(), &filled).unwrap();
    let mut bare = Command::new("x");
    scene.arguments(&mut bare);
    let program = exporter().get_program().to_owned();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(program);
    command.args(bare.get_args()).args(["--append", "--interval=1"]).arg(scene.log());
    command.env("TZ", "UTC0").envs(scene.gpu.as_ref().unwrap().environment());
    // The limit holds for the log of the process, too, so that is a pipe.
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let running = Running { child, stderr: scene.file("none") };
    let (told, hear) = std::sync::mpsc::channel();
    thread::spawn(move || said.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
    let mut heard = Vec::new();
    let mut wait_to_hear = |what: &str| loop {
        let line = hear.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("never said: {what}"));
        heard.push(line.clone());
        if line.contains(what) {
            return line;
        }
    };
    let line = wait_to_hear("rows are lost");
    assert!(line.contains(scene.log().to_str().unwrap()), "{line}");
    thread::sleep(Duration::from_millis(1_500));
    let text = scene.written();
    let rows = lines(text.strip_prefix(&filled).unwrap());
    assert_eq!(rows.len(), 1, "{text}");
    assert!(rows.iter().all(|row| smi_row(row).1 == Some(51)), "{text}");
    // Room again, and somebody else made it.
    File::options().write(true).open(scene.log()).unwrap().set_len(0).unwrap();
    let line = wait_to_hear("can be written again");
    let lost = line.split_once("rows_lost=").unwrap().1.trim_matches('"').parse::<u64>().unwrap();
    assert!((1..20).contains(&lost), "{line}");
    assert_eq!(heard.iter().filter(|line| line.contains("rows are lost")).count(), 1, "{heard:?}");
    let text = scene.written();
    assert_eq!(lines(&text)[0], SHORT);
    assert!(!smi_rows(&lines(&text)).is_empty());
    running.signal("TERM");
    running.stop_by_itself();
}
