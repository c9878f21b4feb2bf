//! The ways in which the fake `nvidia-smi` hangs.

use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long an unkillable process stays, unless a test ends it earlier.
const HOLD: Duration = Duration::from_secs(60);

fn pids() -> Option<PathBuf> {
    std::env::var_os("FAKE_SMI_PIDS").map(PathBuf::from)
}

/// Tells the test about a process.
fn note(pid: u32) {
    let Some(path) = pids() else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(format!("{pid}\n").as_bytes()));
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Hangs as the capture says, or not at all.
pub(crate) fn hang(how: Option<&str>) {
    if how.is_some() {
        note(std::process::id());
    }
    match how {
        None => {}
        Some("children") => {
            // It inherits the process group and standard output, as a helper program does.
            let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep starts");
            note(child.id());
            let _ = child.wait();
            sleep_for_ever()
        }
        Some("unkillable") => {
            be_traced();
            sleep_for_ever()
        }
        Some(other) => panic!("smi.hang: expected children or unkillable, found {other:?}"),
    }
}

/// Starts a process that traces this one and never looks at it. When this one is killed, it first
/// stops at its exit with everything still open, as a process that is stuck in the driver; and what
/// kills it again only makes it a dead one that its parent cannot reap, because the tracer comes first.
fn be_traced() {
    let (from_tracer, to_parent) = std::io::pipe().expect("a pipe");
    let main = i32::try_from(std::process::id()).expect("a process id");
    // SAFETY: this process has one thread, so the child may do what it likes.
    let tracer = unsafe { libc::fork() };
    match tracer {
        -1 => panic!("fork: {}", Error::last_os_error()),
        0 => {
            drop(from_tracer);
            trace(main, to_parent.into());
        }
        _ => {}
    }
    drop(to_parent);
    // SAFETY: it takes numbers only. Where there is no such limit it fails and is not needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, i64::from(tracer)) };
    let mut ready = [0];
    std::io::Read::read_exact(&mut &from_tracer, &mut ready).expect("the kernel lets it be traced");
    note(tracer.unsigned_abs());
}

/// The tracer: out of the group, holding nothing that belongs to the traced process's readers.
fn trace(victim: i32, ready: OwnedFd) -> ! {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").expect("/dev/null");
    // SAFETY: numbers only, and descriptors that are open.
    unsafe {
        libc::setsid();
        for standard in 0..=2 {
            libc::dup2(null.as_raw_fd(), standard);
        }
    }
    let began = Instant::now();
    let seize = || {
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: this request takes no addresses.
        unsafe { libc::ptrace(libc::PTRACE_SEIZE, victim, nothing, libc::PTRACE_O_TRACEEXIT) }
    };
    // The other side may still have to allow it.
    while seize() != 0 {
        if began.elapsed() > Duration::from_secs(2) {
            std::process::exit(1);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut ready = std::fs::File::from(ready);
    let _ = ready.write_all(b"!");
    drop(ready);
    while began.elapsed() < HOLD && pids().is_none_or(|path| path.exists()) {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::process::exit(0)
}
