//! The files of `/proc/PID`, read into one place that is used again and again and wiped after use.

use crate::sources::files::{FileError, ReadError};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What is read of a command line or an environment. The kernel allows 2 MiB; flags stand at the front.
pub(super) const MAX_LINE: usize = 64 * 1024;
/// A `stat` is a few hundred bytes, a `status` two thousand, a `cgroup` a few hundred.
pub(super) const MAX_TEXT: usize = 16 * 1024;

/// Overwrites what nobody may find in this process's memory once it is freed.
pub(super) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // Without somebody who might look, the compiler may leave out the filling.
    std::hint::black_box(bytes);
}

/// The same for text.
pub(super) fn wipe_text(text: String) {
    wipe(&mut text.into_bytes());
}

/// The files of processes.
pub(super) struct Files {
    procfs: PathBuf,
    /// Never grows: what has moved leaves its old place behind, readable.
    bytes: Box<[u8]>,
    filled: usize,
}

impl Files {
    /// Below this root.
    pub(super) fn new(procfs: &Path) -> Self {
        let bytes = vec![0; MAX_LINE].into_boxed_slice();
        Self { procfs: procfs.to_owned(), bytes, filled: 0 }
    }

    /// All processes.
    pub(super) fn pids(&self) -> Result<BTreeSet<u32>, ReadError> {
        let shown = self.procfs.display().to_string();
        let entries = fs::read_dir(&self.procfs).map_err(|e| why(&e).at(&shown))?;
        let mut pids = BTreeSet::new();
        for entry in entries {
            let entry = entry.map_err(|e| why(&e).at(&shown))?;
            pids.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        match pids.len() {
            0 => Err(FileError::NotPresent.at(&format!("{shown}/PID"))),
            _ => Ok(pids),
        }
    }

    /// Reads a file of a process; true when there may be more of it.
    pub(super) fn read(&mut self, pid: u32, name: &str, max: usize) -> Result<bool, FileError> {
        self.filled = 0;
        let path = self.procfs.join(format!("{pid}/{name}"));
        let mut file = File::open(path).map_err(|e| gone(&e))?;
        while self.filled < max {
            match file.read(&mut self.bytes[self.filled..max]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(gone(&error)),
            }
            // The kernel gives such a file in one piece; asking again would only tell its end.
            if name == "stat" && self.bytes[..self.filled].ends_with(b"\n") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What was read last.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Makes something of what was read last, and leaves nothing of it here.
    pub(super) fn reduce<T>(&mut self, with: impl FnOnce(&[u8]) -> T) -> T {
        let made = with(self.bytes());
        wipe(&mut self.bytes[..self.filled]);
        self.filled = 0;
        made
    }

    /// The last part of the directory that a process works in.
    pub(super) fn directory(&self, pid: u32) -> Option<String> {
        let path = fs::read_link(self.procfs.join(format!("{pid}/cwd"))).ok()?;
        path.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Seconds since boot.
    pub(super) fn uptime(&self) -> Option<f64> {
        let text = fs::read_to_string(self.procfs.join("uptime")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }
}

fn why(error: &io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::NotPresent,
        io::ErrorKind::PermissionDenied => FileError::Denied,
        _ => FileError::Failed(error.to_string()),
    }
}

/// The same for a process, which may end at any moment (ESRCH).
fn gone(error: &io::Error) -> FileError {
    const NO_SUCH_PROCESS: i32 = 3;
    match error.raw_os_error() {
        Some(NO_SUCH_PROCESS) => FileError::NotPresent,
        _ => why(error),
    }
}
