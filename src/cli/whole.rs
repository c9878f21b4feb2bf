//! Files that are there whole or not at all: written beside their place, then put there in one step.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file. Without `replace` one that is there stays as it is.
///
/// # Errors
/// Nothing is left behind then.
pub(super) fn write(path: &Path, text: &str, mode: u32, replace: bool) -> io::Result<()> {
    let temporary = temporary(path);
    let placed = fill(&temporary, text, mode).and_then(|()| place(&temporary, path, replace));
    if placed.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    placed
}

/// Beside the file, so that it can be renamed.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn fill(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// In one step. A link, unlike a rename, never replaces a file that has appeared meanwhile.
fn place(temporary: &Path, path: &Path, replace: bool) -> io::Result<()> {
    if !replace {
        match fs::hard_link(temporary, path) {
            Ok(()) => return fs::remove_file(temporary),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // A file system without links.
            Err(_) => {}
        }
    }
    fs::rename(temporary, path)
}
