//! The file that `sample` writes: whole lines or nothing, through full disks and log rotation.
//!
//! Everything here blocks as long as the disk does. It runs on the sampler's own thread, which has nothing
//! else to do.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A header of ours has some ten KiB. What is longer is somebody else's file.
const MAX_HEADER: u64 = 1024 * 1024;

/// Why a file is not written to.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It may hold what nobody has twice.
    #[error("{} exists; --append goes on with it", .0.display())]
    Exists(PathBuf),
    /// A device or a directory; opening a pipe would wait for its reader.
    #[error("{} is not a plain file", .0.display())]
    NotAFile(PathBuf),
    /// The system refuses.
    #[error("{} cannot be written", .0.display())]
    Refused(PathBuf, #[source] io::Error),
    /// Its lines would not be like ours.
    #[error("{}:1: {what}", .path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error {
            // Whoever tells it names the path.
            FileError::Refused(_, error) => error,
            other => Self::other(other),
        }
    }
}

/// The file, and what has happened to it.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// It came by rotation, is not empty and does not begin as ours do.
    header_due: bool,
    /// Where the piece of a line begins that could not be written whole.
    torn: Option<u64>,
    /// Rows lost since the last one that was written.
    lost: u64,
    /// Its path is not its own any more, and no other file can be had there.
    astray: bool,
}

impl LogFile {
    /// Makes the file, or with `append` goes on with what is there.
    pub(super) fn open(path: &Path, append: bool) -> Result<Self, FileError> {
        let refused = |error| FileError::Refused(path.to_owned(), error);
        match fs::metadata(path) {
            Ok(facts) if !facts.is_file() => return Err(FileError::NotAFile(path.to_owned())),
            Ok(_) if !append => return Err(FileError::Exists(path.to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(error)),
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(append).create_new(!append);
        let file = options.open(path).map_err(|error| match error.kind() {
            // It has appeared meanwhile.
            io::ErrorKind::AlreadyExists => FileError::Exists(path.to_owned()),
            _ => refused(error),
        })?;
        let path = path.to_owned();
        Ok(Self { path, file, header_due: false, torn: None, lost: 0, astray: false })
    }

    /// Whoever was killed in the middle of a line may have been somebody else, so it is kept, and our rows
    /// begin on a line of their own.
    pub(super) fn end_half_line(&self) -> Result<(), FileError> {
        let ended = || {
            let Some(last) = self.file.metadata()?.len().checked_sub(1) else { return Ok(()) };
            let mut byte = [0];
            self.file.read_exact_at(&mut byte, last)?;
            if byte != *b"\n" {
                (&self.file).write_all(b"\n")?;
                tracing::warn!("{} ended in half a line, which is kept", self.path.display());
            }
            Ok(())
        };
        ended().map_err(|error| FileError::Refused(self.path.clone(), error))
    }

    /// The error for a first line that does not fit.
    pub(super) fn wrong_header(&self, what: String) -> FileError {
        FileError::Header { path: self.path.clone(), what }
    }

    /// Its first line, if it is not empty.
    pub(super) fn first_line(&self) -> Result<Option<String>, FileError> {
        let refused = |error| FileError::Refused(self.path.clone(), error);
        let line = first_line(&self.file).map_err(refused)?;
        Ok(Some(line).filter(|line| !line.is_empty()))
    }

    /// Whether its first line is a row: `2026/11/24 14:08:55.751, 38, 11.17 W`.
    pub(super) fn begins_with_a_row(&self) -> Result<bool, FileError> {
        let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
        let line = self.first_line()?.unwrap_or_default();
        let time = line.split(',').next().unwrap_or_default();
        Ok(time.chars().map(shape).collect::<String>() == "0000/00/00 00:00:00.000")
    }

    /// Writes a row, and the header where the file has none. What cannot be written is lost and counted:
    /// the next row is tried as if nothing had been.
    pub(super) fn put(&mut self, header: Option<&str>, row: &str) {
        match self.try_put(header, row) {
            Ok(()) if self.lost > 0 => {
                tracing::warn!(
                    rows_lost = self.lost,
                    "{} can be written again",
                    self.path.display()
                );
                self.lost = 0;
            }
            Ok(()) => {}
            Err(error) => {
                if self.lost == 0 {
                    let path = self.path.display();
                    tracing::warn!("{path} cannot be written, rows are lost: {error}");
                }
                self.lost += 1;
            }
        }
    }

    /// Goes to the file that is at the path now, and writes the header into it. What goes wrong is told
    /// with the next row, which will find it again.
    pub(super) fn reopen(&mut self, header: Option<&str>) {
        let _ = self.prepare(header);
    }

    fn try_put(&mut self, header: Option<&str>, row: &str) -> io::Result<()> {
        self.prepare(header)?;
        self.line(row)
    }

    fn prepare(&mut self, header: Option<&str>) -> io::Result<()> {
        // Now, while it is at hand; when that fails and it still is the file, nothing can be written.
        let mended = self.mend();
        if self.follow(header)? {
            mended?;
        }
        let Some(header) = header else { return Ok(()) };
        // Empty also when somebody has copied and truncated it.
        if self.header_due || self.file.metadata()?.len() == 0 {
            self.line(header)?;
            self.header_due = false;
        }
        Ok(())
    }

    /// Takes the file at the path, if it is another one or there is none: the old one was rotated away.
    /// Whether it still is the one that it was.
    fn follow(&mut self, header: Option<&str>) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(facts) if same(&facts, &own) => {
                self.astray = false;
                return Ok(true);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Ok(true),
            _ => {}
        }
        match self.anew(header) {
            Ok(new) => {
                *self = new;
                Ok(false)
            }
            // Its last name is gone, and with it what would be written.
            Err(error) if own.nlink() == 0 => Err(error.into()),
            // Under another name the old one still is a file that somebody can read.
            Err(error) => {
                if !self.astray {
                    let error = anyhow::Error::from(error);
                    tracing::warn!("{error:#}: rows go on into the file that was there");
                }
                self.astray = true;
                Ok(true)
            }
        }
    }

    /// The file that is at the path now; it is made if there is none.
    fn anew(&self, header: Option<&str>) -> Result<Self, FileError> {
        let mut new = Self::open(&self.path, true)?;
        let first = new.first_line()?;
        new.header_due = first.is_some() && first.as_deref() != header;
        new.end_half_line()?;
        new.lost = self.lost;
        Ok(new)
    }

    /// Cuts off the piece of a line that a failed write has left.
    fn mend(&mut self) -> io::Result<()> {
        if let Some(whole) = self.torn {
            // Shorter, if somebody has truncated it meanwhile.
            if self.file.metadata()?.len() > whole {
                self.file.set_len(whole)?;
            }
            self.torn = None;
        }
        Ok(())
    }

    /// Writes one line in one call, so that whoever stops this process finds it whole or not at all.
    fn line(&mut self, line: &str) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        let written = loop {
            match self.file.write(line.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if written == line.len() {
            return Ok(());
        }
        self.torn = Some(before);
        self.mend()?;
        Err(io::Error::new(io::ErrorKind::StorageFull, "there is no room for a whole line"))
    }
}

fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// With its end, as far as it is within reason.
fn first_line(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    let mut line = Vec::new();
    BufReader::new(file.take(MAX_HEADER)).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}
