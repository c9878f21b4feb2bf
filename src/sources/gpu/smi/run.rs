//! Runs a program for no longer than it may take.
//!
//! A program that talks to a wedged driver may never come back, and may not even die. So it gets a
//! process group of its own, which is killed as a whole when time is up. One that does not die is kept
//! in mind, and as long as there is one no other is started: a driver that is stuck is not helped by a
//! queue of processes in uninterruptible sleep.
//!
//! There is no thread here: one poll(2) waits for the output, for the end and for the deadline.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// More than nvidia-smi prints for 32 GPUs with a thousand processes each.
pub(super) const MAX_OUTPUT: usize = 256 * 1024;
/// How long a killed program is waited for: so often, so long.
const LAST_LOOKS: u32 = 50;
const LAST_LOOK: Duration = Duration::from_millis(10);
/// How often the end of a program is looked for where the kernel cannot tell it (no pidfd).
const LOOK: Duration = Duration::from_millis(20);
/// Reads in a row before the deadline is looked at again. Together they hold more than a pipe does.
const READS: usize = 32;
/// Bytes of one read.
const READ: usize = 8192;

/// What a program said.
#[derive(Debug)]
pub(in super::super) struct Output {
    pub(in super::super) status: ExitStatus,
    pub(in super::super) stdout: String,
    pub(in super::super) stderr: String,
}

/// Why a program said nothing.
#[derive(Debug)]
pub(in super::super) enum Failure {
    /// It could not be started.
    Start(io::Error),
    /// It was still running at the deadline, and was killed.
    Late,
    /// It printed more than [`MAX_OUTPUT`], and was killed.
    Flood,
    /// It was not started, because this process of an earlier run cannot be killed.
    Stuck(u32),
}

/// The process group that runs now, for somebody who cannot wait for the runner.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Running(Arc<AtomicI32>);

impl Running {
    const NONE: i32 = 0;
    /// Nothing is to be started any more.
    const NEVER: i32 = -1;

    /// Kills what runs, and has nothing started after it.
    pub(in super::super) fn end(&self) {
        // The number is not another's: it is taken back before the process is reaped.
        let group = self.0.swap(Self::NEVER, Ordering::SeqCst);
        if group > Self::NONE
            && let Some(group) = Pid::from_raw(group)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Notes a group; false when nothing is to run.
    fn begin(&self, child: &Child) -> bool {
        let group = Pid::from_child(child).as_raw_nonzero().get();
        self.0.compare_exchange(Self::NONE, group, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The group is about to be reaped.
    fn over(&self, child: &Child) {
        let group = Pid::from_child(child).as_raw_nonzero().get();
        let _ = self.0.compare_exchange(group, Self::NONE, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn may_start(&self) -> bool {
        self.0.load(Ordering::SeqCst) != Self::NEVER
    }
}

/// Starts programs, one at a time.
#[derive(Debug, Default)]
pub(in super::super) struct Runner {
    /// The one that was started last, until it is reaped.
    child: Option<Child>,
    pub(super) running: Running,
}

impl Runner {
    /// Runs a program until it ends, or until `now` says `until`.
    pub(in super::super) fn run(
        &mut self,
        program: &Path,
        arguments: &[String],
        until: Duration,
        now: &dyn Fn() -> Duration,
    ) -> Result<Output, Failure> {
        if let Some(id) = self.leftover() {
            return Err(Failure::Stuck(id));
        }
        if now() >= until || !self.running.may_start() {
            return Err(Failure::Late);
        }
        let child = self.child.insert(start(program, arguments).map_err(Failure::Start)?);
        let wanted = self.running.begin(child);
        let mut watch = Watch::over(child).map_err(Failure::Start)?;
        let left = || until.checked_sub(now()).filter(|d| wanted && !d.is_zero());
        let ended = watch.wait(child, &left);
        // Also after a good end: nothing that it has started stays behind. Its number cannot be
        // another's by now, since it has not been reaped.
        kill(child);
        self.running.over(child);
        let reaped = watch.reap(child);
        if !matches!(reaped, Ok(None)) {
            self.child = None;
        }
        ended?;
        let status = reaped.map_err(Failure::Start)?.ok_or(Failure::Late)?;
        Ok(Output { status, stdout: watch.stdout.text(), stderr: watch.stderr.text() })
    }

    /// The process of an earlier run that is still there.
    fn leftover(&mut self) -> Option<u32> {
        let child = self.child.as_mut()?;
        kill(child);
        self.running.over(child);
        if let Ok(None) = child.try_wait() {
            return Some(child.id());
        }
        self.child = None;
        None
    }
}

/// What still runs is killed; that it can be reaped as well is only hoped for.
impl Drop for Runner {
    fn drop(&mut self) {
        self.leftover();
    }
}

fn start(program: &Path, arguments: &[String]) -> io::Result<Child> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that runs nvidia-smi, where there is no NVML, and doctor's child"
    )]
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn()
}

/// Kills a program that has not been reaped, and its group.
fn kill(child: &Child) {
    // An error says that there is nothing left to kill.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Whether a program has ended. It is not reaped by this.
fn ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error says that there is no such child.
    !matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(None))
}

/// The descriptors of a running program.
struct Watch {
    /// Readable when the program has ended. There is none on Linux before 5.3 or behind a strict
    /// seccomp filter; then the end is looked for.
    exit: Option<OwnedFd>,
    stdout: Pipe,
    stderr: Pipe,
}

impl Watch {
    fn over(child: &mut Child) -> io::Result<Self> {
        Ok(Self {
            exit: pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok(),
            stdout: Pipe::of(child.stdout.take().map(OwnedFd::from))?,
            stderr: Pipe::of(child.stderr.take().map(OwnedFd::from))?,
        })
    }

    /// Waits for the program itself. What it has started does not count, even if that keeps the pipes
    /// open.
    fn wait(&mut self, child: &Child, left: &dyn Fn() -> Option<Duration>) -> Result<(), Failure> {
        loop {
            // Looked at first: when a program has ended, all that it printed is in the pipe.
            let ended = ended(child);
            self.stdout.drain();
            self.stderr.drain();
            if self.stdout.bytes.len() > MAX_OUTPUT {
                return Err(Failure::Flood);
            }
            if ended {
                return Ok(());
            }
            let left = left().ok_or(Failure::Late)?;
            let time = if self.exit.is_some() { left } else { left.min(LOOK) };
            // Time is up, too, when all of it was slept away and the clock does not say so.
            if !self.rest(child, time) && time == left {
                return Err(Failure::Late);
            }
        }
    }

    /// Reaps a program that has ended or was killed, if it dies soon.
    fn reap(&mut self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        // Nobody reads them any more.
        (self.stdout.fd, self.stderr.fd) = (None, None);
        for _ in 0..LAST_LOOKS {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            self.rest(child, LAST_LOOK);
        }
        child.try_wait()
    }

    /// Sleeps until something happens, and says whether it did.
    fn rest(&mut self, child: &Child, time: Duration) -> bool {
        let sources = [&self.stdout.fd, &self.stderr.fd, &self.exit];
        let mut fds: Vec<PollFd<'_>> =
            sources.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let happened = poll(&mut fds, Timespec::try_from(time).ok().as_ref()) != Ok(0);
        let last = fds.last().is_some_and(|fd| !fd.revents().is_empty());
        // A program that a debugger holds has ended and cannot be reaped. Its descriptor would keep
        // poll(2) from sleeping ever after.
        if happened && last && self.exit.is_some() && !ended(child) {
            self.exit = None;
        }
        happened
    }
}

/// One of the program's outputs.
struct Pipe {
    /// None at its end.
    fd: Option<OwnedFd>,
    /// Its beginning, one byte past [`MAX_OUTPUT`] if there was more.
    bytes: Vec<u8>,
}

impl Pipe {
    fn of(fd: Option<OwnedFd>) -> io::Result<Self> {
        if let Some(fd) = &fd {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Self { fd, bytes: Vec::new() })
    }

    /// Reads what there is.
    fn drain(&mut self) {
        let mut buffer = [0; READ];
        for _ in 0..READS {
            let Some(fd) = &self.fd else { return };
            match rustix::io::read(fd, &mut buffer) {
                Ok(0) => self.fd = None,
                Ok(count) => {
                    let room = (MAX_OUTPUT + 1).saturating_sub(self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..count.min(room)]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.fd = None,
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests;
