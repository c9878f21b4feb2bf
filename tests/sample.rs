//! `sample`: lines that whoever reads nvidia-smi's CSV reads, whole whatever happens to the process, the
//! disk, the file or the driver, and true or `[N/A]`.
#![expect(clippy::disallowed_methods, reason = "tests set the scene and wait")]

#[path = "sample/extended.rs"]
mod extended;
#[path = "sample/files.rs"]
mod files;
#[path = "sample/scene.rs"]
mod scene;
mod support;

use scene::{
    Running, SERVING, SHORT, SMI, Scene, lines, smi_row, smi_rows, stderr, stdout, wait_for,
    wait_for_row,
};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use support::fakes::{self, Gpu};

#[test]
fn rows_are_those_of_nvidia_smi_below_any_header() {
    let scene = Scene::new(SERVING);
    // The mean of a second is taken where there is one; the real program shows it as its plain figure.
    scene.gpu.as_ref().unwrap().set(&[("0.power_mw", "60770"), ("0.power_average_mw", "60770")]);
    thread::scope(|scope| {
        let short = scope.spawn(|| scene.print(&[]));
        let none = scope.spawn(|| scene.print(&["--header=none"]));
        let smi = scene.print(&["--header", "smi"]);
        let real = Command::new(fakes::nvidia_smi())
            .args(["--query-gpu=timestamp,temperature.gpu,power.draw", "--format=csv"])
            .envs(scene.gpu.as_ref().unwrap().environment())
            .env("TZ", "UTC0")
            .output()
            .unwrap();
        let real = lines(&String::from_utf8(real.stdout).unwrap());
        let (short, none) = (short.join().unwrap(), none.join().unwrap());
        assert_eq!((short[0].as_str(), smi[0].as_str()), (SHORT, SMI));
        assert_eq!(smi[0], real[0]);
        let theirs = smi_row(&real[1]);
        assert_eq!((theirs.1, theirs.2), (Some(51), Some(60.77)));
        let ours = [smi_rows(&short), smi_rows(&smi), none.iter().map(|l| smi_row(l)).collect()];
        for rows in ours {
            assert!((1..=2).contains(&rows.len()), "{rows:?}");
            for row in rows {
                assert_eq!((row.1, row.2), (theirs.1, theirs.2));
                assert!((row.0 - theirs.0).abs() < 60_000, "{row:?} {theirs:?}");
            }
        }
    });
}

#[test]
fn a_machine_without_a_gpu_has_no_values() {
    let (none, other) = (Scene::new("x86-vm"), Scene::new(SERVING));
    thread::scope(|scope| {
        let other = scope.spawn(|| other.print(&["--gpu=7"]));
        for lines in [none.print(&[]), other.join().unwrap()] {
            assert_eq!(lines[0], SHORT);
            let rows = smi_rows(&lines);
            assert!(!rows.is_empty());
            assert!(rows.iter().all(|row| (row.1, row.2) == (None, None)), "{rows:?}");
        }
    });
}

/// Gone and back, and hanging: never the last good value, and the rows go on.
#[test]
fn what_the_driver_does_not_say_is_not_said() {
    let check = |story: &dyn Fn(&Scene, &Gpu)| {
        let scene = Scene::new(SERVING);
        let running = scene.start(&[]);
        wait_for_row(&scene, "values", |row| row.1 == Some(51) && row.2 == Some(60.71));
        story(&scene, scene.gpu.as_ref().unwrap());
        running.stop();
        let rows = smi_rows(&lines(&scene.written()));
        assert!(rows.iter().all(|row| row.1.is_none() == row.2.is_none()), "{rows:?}");
        assert!(rows.iter().all(|row| matches!(row.1, None | Some(51 | 52))), "{rows:?}");
        assert!(rows.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{rows:?}");
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            check(&|scene, gpu| {
                gpu.set(&[("init", "!9")]);
                wait_for_row(scene, "gone", |row| (row.1, row.2) == (None, None));
                gpu.leave_out(&["init"]);
                gpu.set(&[("0.temperature", "52")]);
                wait_for_row(scene, "back", |row| row.1 == Some(52));
            });
        });
        check(&|scene, gpu| {
            gpu.set(&[("0.temperature", "~600000 53")]);
            let first = wait_for_row(scene, "hangs", |row| (row.1, row.2) == (None, None));
            wait_for_row(scene, "goes on", |row| row.0 > first.0 + 500);
        });
    });
}

#[test]
fn it_ends_when_told_and_not_before() {
    let scene = Scene::new(SERVING);
    let out = scene.command(&["--interval=1", "--duration=2s"]).arg(scene.log()).output().unwrap();
    assert_eq!((out.status.code(), stdout(&out)), (Some(0), ""), "{}", stderr(&out));
    let rows = smi_rows(&lines(&scene.written()));
    // A busy machine may leave one out, and never adds one.
    assert!((2..=3).contains(&rows.len()), "{rows:?}");
    assert!(rows.last().unwrap().0 - rows[0].0 > 500, "{rows:?}");
}

/// The first row is there at once, whatever the interval. There is no port, and what `serve` remembers is
/// not its business.
#[test]
fn it_begins_at_once_and_listens_to_nobody() {
    let scene = Scene::new(SERVING);
    let state = scene.file("state");
    fs::create_dir(&state).unwrap();
    let mut command = scene.command(&["--interval=1h"]);
    command.env("STATE_DIRECTORY", &state).arg(scene.log());
    let running = Running::new(command, &scene.file("stderr"));
    wait_for("a row", || (scene.so_far().len() == 2).then_some(()));
    let sockets = sockets(running.child.id());
    let listening = ["tcp", "tcp6", "udp", "udp6"].map(|name| {
        fs::read_to_string(format!("/proc/{}/net/{name}", running.child.id())).unwrap_or_default()
    });
    for inode in sockets {
        let word = format!(" {inode} ");
        assert!(!listening.iter().any(|table| table.contains(&word)), "socket {inode}");
    }
    running.signal("INT");
    running.stop_by_itself();
    assert_eq!(lines(&scene.written()).len(), 2);
    assert_eq!(fs::read_dir(state).unwrap().count(), 0);
}

/// Inodes of a process's sockets.
fn sockets(id: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{id}/fd")).unwrap().map_while(Result::ok);
    let names = links.filter_map(|link| fs::read_link(link.path()).ok());
    let inode = |name: PathBuf| {
        let name = name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
        Some(name)
    };
    names.filter_map(inode).collect()
}

#[test]
fn a_closed_pipe_is_no_error() {
    let scene = Scene::new("x86-vm");
    let mut command = scene.command(&["--interval=1s", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first.trim_end(), SHORT);
    wait_for("the end", || {
        child.try_wait().unwrap().map(|status| assert_eq!(status.code(), Some(0)))
    });
}

#[test]
fn mistakes_in_usage_are_told() {
    let scene = Scene::new("x86-vm");
    let nowhere = scene.file("nowhere/x");
    let run = |args: &[&str], path: &Path| {
        let out = scene.command(args).arg(path).output().unwrap();
        (out.status.code().unwrap(), stderr(&out))
    };
    for text in ["0", "0.5", "1.5s", "1.5m", "500ms", "3601", "61m", "2h", "-1", "x", "", "1e1"] {
        let (code, told) = run(&[&format!("--interval={text}")], &nowhere);
        assert_eq!(code, 64, "{text}: {told}");
        assert!(told.contains("expected a time from 1s to 1h without a fraction"), "{told}");
    }
    // These get as far as the file.
    for text in ["1", "1s", "30", "45s", "5m", "60m", "3600", "1h"] {
        let (code, told) = run(&[&format!("--interval={text}")], &nowhere);
        assert_eq!(code, 2, "{text}: {told}");
    }
    for (args, says) in [
        (&["--header=none", "--extended"][..], "nobody could tell the columns"),
        (&["--duration=0.5"], "expected whole seconds"),
        (&["--header=long"], "invalid value"),
        (&["--capture=x"], "cannot be used with"),
    ] {
        let (code, told) = run(args, &nowhere);
        assert!(code == 64 && told.contains(says), "{args:?}: {code} {told}");
    }
    let (code, told) = run(&["--append"], Path::new("-"));
    assert!(code == 64 && told.contains("--append cannot be used with -"), "{told}");
}

#[test]
fn times_are_those_of_the_time_zone() {
    let scene = Scene::new("x86-vm");
    let at = |zone: &str| {
        let mut command = scene.command(&["--interval=1", "--duration=1", "--header=none", "-"]);
        let out = command.env("TZ", zone).output().unwrap();
        let first = stdout(&out).lines().next().unwrap().to_owned();
        (smi_row(&first).0, stderr(&out))
    };
    let named = Path::new("/usr/share/zoneinfo/Asia/Tokyo").exists();
    thread::scope(|scope| {
        let tokyo = scope.spawn(|| at("JST-9").0);
        let named = named.then(|| scope.spawn(|| at("Asia/Tokyo").0));
        let wrong = scope.spawn(|| at("Nowhere/At_All"));
        let utc = at("UTC0").0;
        let (wrong, said) = wrong.join().unwrap();
        assert!(said.contains("timestamps are UTC"), "{said}");
        let hours = |then: i64| {
            // Months of 31 days: the last day of a shorter one is followed by a gap.
            let gap = (then - utc).rem_euclid(24 * 3_600_000);
            (gap + 1_800_000) / 3_600_000 % 24
        };
        assert_eq!((hours(tokyo.join().unwrap()), hours(wrong)), (9, 0));
        assert!(named.is_none_or(|named| hours(named.join().unwrap()) == 9));
    });
}
