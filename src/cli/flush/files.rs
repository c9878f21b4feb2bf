//! `flush --files`: tells the kernel, file by file, that one's own files are not needed. That needs no root.

use super::super::print;
use super::glob::{MOST, expand};
use crate::config::Config;
use crate::units::Bytes;
use anyhow::bail;
use rustix::fs::Advice;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a file was left as it is.
#[derive(Debug, thiserror::Error)]
enum AdviceError {
    /// It could not be looked at or opened.
    #[error("{0} cannot be opened")]
    Open(PathBuf, #[source] io::Error),
    /// A directory, a pipe, a device.
    #[error("{0} is not a plain file")]
    Special(PathBuf),
    /// The kernel would not.
    #[error("{0}: the kernel did not take the advice")]
    Refused(PathBuf, #[source] io::Error),
}

pub(super) fn run(
    patterns: &[PathBuf],
    dry_run: bool,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    let files: Vec<PathBuf> =
        patterns.iter().flat_map(|pattern| expand(pattern)).take(MOST).collect();
    if files.is_empty() {
        let all: Vec<_> = patterns.iter().map(|pattern| pattern.display().to_string()).collect();
        bail!("--files: no file matches {}", all.join(", "));
    }
    let before = super::free(config);
    let mut out = String::new();
    let (mut bytes, mut done) = (Bytes(0), 0_u64);
    let mut failed = None;
    for file in &files {
        match advise(file, dry_run) {
            Ok(size) => {
                (bytes, done) = (bytes.plus(size), done + 1);
                let _ = writeln!(out, "{size:>12}  {}", file.display());
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let would = if dry_run { "would be " } else { "" };
    let _ = writeln!(out, "{done} of {} files, {bytes} in all, {would}given back", files.len());
    if !dry_run {
        let _ = writeln!(out, "{}", super::gain(before, super::free(config)));
    }
    print(out.as_bytes())?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Gives one file's cache back. What is dirty is written first, for it cannot be dropped.
fn advise(path: &Path, dry_run: bool) -> Result<Bytes, AdviceError> {
    let opened = |e| AdviceError::Open(path.to_owned(), e);
    // A pipe would be waited for.
    if !fs::metadata(path).map_err(opened)?.is_file() {
        return Err(AdviceError::Special(path.to_owned()));
    }
    let file = File::open(path).map_err(opened)?;
    let size = Bytes(file.metadata().map_err(opened)?.len());
    if !dry_run {
        let refused = |e| AdviceError::Refused(path.to_owned(), e);
        file.sync_data().map_err(refused)?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| refused(e.into()))?;
    }
    Ok(size)
}
