//! Follows a log that somebody else writes: line by line, with bounded work a round, through rotation,
//! truncation and deletion.
//!
//! A log may grow by 100 MB/s, for a while or for good. Each round reads so much and no more; who falls too
//! far behind goes on near the end, because a step of an hour ago is of no use to anybody.

use super::files::{FileError, ReadError};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Read in one round, at most.
const BUDGET: usize = 1024 * 1024;
/// What is further behind than this is left out. A log of a run of days has some ten MiB, so that of one
/// that goes on when the exporter starts is read from its beginning.
const BEHIND: u64 = 64 * 1024 * 1024;
/// Where it goes on then, before the end.
const NEAR: u64 = 512 * 1024;
/// Longer lines are no lines.
const MAX_LINE: usize = 64 * 1024;
/// What is remembered of the bytes at the beginning and before the place that was read up to: a log that was
/// emptied and has grown past that place since looks like one that has only grown.
const REMEMBERED: usize = 256;
/// O_NONBLOCK, the same on every architecture that this runs on: a pipe without a writer must not be waited
/// for.
const NONBLOCK: i32 = 0o4000;

/// A log on its way.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    file: Option<File>,
    read: u64,
    line: Vec<u8>,
    /// The rest of a line that is too long, or was begun before the place where it was gone on.
    skipping: bool,
    left_out: u64,
    buffer: Vec<u8>,
    /// The first bytes, and the last ones that were read.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Length and time of the last writing, at the last round.
    written: Option<(u64, Duration)>,
}

/// Whether two are the same file.
fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

impl Follower {
    /// Follows the log at a path. It need not be there yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            read: 0,
            line: Vec::new(),
            skipping: false,
            left_out: 0,
            buffer: Vec::new(),
            head: Vec::new(),
            tail: Vec::new(),
            written: None,
        }
    }

    /// When the file was written last, since 1970.
    #[must_use]
    pub fn written(&self) -> Option<Duration> {
        self.written.map(|(_, at)| at)
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that were left out so far: what was too far behind, and lines that were too long.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Hands out the lines that have come since the last round. A progress bar is drawn over itself with
    /// carriage returns: each drawing is a line. `anew` is called when another file has taken the place. True
    /// when there is more to read than a round may.
    ///
    /// # Errors
    /// The file is not there, or cannot be read. It is tried again in the next round.
    pub fn round(
        &mut self,
        line: &mut dyn FnMut(&str),
        anew: &mut dyn FnMut(),
    ) -> Result<bool, ReadError> {
        let path = self.path.display().to_string();
        let failed = |error: std::io::Error| {
            let why = match error.kind() {
                ErrorKind::NotFound => FileError::NotPresent,
                ErrorKind::PermissionDenied => FileError::Denied,
                _ => FileError::Failed(error.to_string()),
            };
            why.at(&path)
        };
        let there = std::fs::metadata(&self.path);
        if self.file.is_none() {
            self.open().map_err(&failed)?;
            anew();
        }
        let Some(file) = &self.file else { return Ok(false) };
        let own = file.metadata().map_err(&failed)?;
        if own.len() < self.read || self.differs(&own).map_err(&failed)? {
            // Somebody has emptied it and writes on.
            self.begin();
            self.seek(0).map_err(&failed)?;
            anew();
        }
        self.catch_up(own.len()).map_err(&failed)?;
        let more = self.take(line).map_err(&failed)?;
        match there {
            // Read to its end before the next one is opened.
            Ok(there) if !more && !same(&there, &own) => self.file = None,
            Err(error) if !more => {
                self.file = None;
                return Err(failed(error));
            }
            _ => {}
        }
        Ok(more)
    }

    fn open(&mut self) -> std::io::Result<()> {
        // Opening a pipe lets its writer go on, and closing it kills him.
        if !std::fs::metadata(&self.path)?.is_file() {
            return Err(std::io::Error::other("expected a plain file"));
        }
        let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&self.path)?;
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("expected a plain file"));
        }
        self.file = Some(file);
        self.begin();
        Ok(())
    }

    /// Nothing of it is read.
    fn begin(&mut self) {
        (self.read, self.skipping, self.written) = (0, false, None);
        for bytes in [&mut self.line, &mut self.head, &mut self.tail] {
            bytes.clear();
        }
    }

    /// Whether the file has been written since the last round, and what was read of it is not there any more.
    fn differs(&mut self, own: &Metadata) -> std::io::Result<bool> {
        let modified = own.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let now = (own.len(), modified.unwrap_or_default());
        if self.written.replace(now) == Some(now) {
            return Ok(false);
        }
        let Some(file) = &self.file else { return Ok(false) };
        let is = |known: &[u8], at: u64| -> std::io::Result<bool> {
            let mut there = [0; REMEMBERED];
            let there = &mut there[..known.len()];
            match file.read_exact_at(there, at) {
                Ok(()) => Ok(there == known),
                // It is being emptied.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
                Err(error) => Err(error),
            }
        };
        let end = self.read.saturating_sub(self.tail.len() as u64);
        Ok(!is(&self.head, 0)? || !is(&self.tail, end)?)
    }

    /// Remembers the first and the last bytes that were read.
    fn remember(&mut self, bytes: &[u8], at: u64) {
        if at == self.head.len() as u64 {
            let more = bytes.len().min(REMEMBERED - self.head.len());
            self.head.extend_from_slice(&bytes[..more]);
        }
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(REMEMBERED)..]);
        self.tail.drain(..self.tail.len().saturating_sub(REMEMBERED));
    }

    fn seek(&mut self, to: u64) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.seek(SeekFrom::Start(to)).map(drop)
    }

    /// Goes on near the end, if it is too far behind.
    fn catch_up(&mut self, length: u64) -> std::io::Result<()> {
        if length.saturating_sub(self.read) <= BEHIND {
            return Ok(());
        }
        let to = length - NEAR;
        self.left_out += to - self.read + self.line.len() as u64;
        self.seek(to)?;
        (self.read, self.skipping) = (to, true);
        self.line.clear();
        self.tail.clear();
        Ok(())
    }

    /// Reads what the round allows; true when there may be more.
    fn take(&mut self, line: &mut dyn FnMut(&str)) -> std::io::Result<bool> {
        self.buffer.resize(BUDGET, 0);
        let Some(file) = &mut self.file else { return Ok(false) };
        let count = loop {
            match file.read(&mut self.buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        let buffer = std::mem::take(&mut self.buffer);
        self.remember(&buffer[..count], self.read);
        self.read += count as u64;
        for piece in buffer[..count].split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            self.piece(piece, line);
        }
        // Kept between rounds only while there is work.
        self.buffer = if count == BUDGET { buffer } else { Vec::new() };
        Ok(count == BUDGET)
    }

    /// A line, or a piece of one.
    fn piece(&mut self, piece: &[u8], line: &mut dyn FnMut(&str)) {
        let (text, ends) = match piece.split_last() {
            Some((b'\n' | b'\r', text)) => (text, true),
            _ => (piece, false),
        };
        if self.skipping {
            self.left_out += text.len() as u64;
        } else if self.line.len() + text.len() > MAX_LINE {
            self.left_out += (self.line.len() + text.len()) as u64;
            self.line = Vec::new();
            self.skipping = true;
        } else if ends && self.line.is_empty() {
            line(&String::from_utf8_lossy(text));
        } else {
            self.line.extend_from_slice(text);
        }
        if ends {
            self.skipping = false;
            if !self.line.is_empty() {
                let whole = std::mem::take(&mut self.line);
                line(&String::from_utf8_lossy(&whole));
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    struct Scene {
        dir: tempfile::TempDir,
        follower: Follower,
    }

    impl Scene {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let follower = Follower::new(&dir.path().join("train.log"));
            Self { dir, follower }
        }

        fn write(&self, text: impl AsRef<[u8]>) {
            let path = self.dir.path().join("train.log");
            let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
            file.write_all(text.as_ref()).unwrap();
        }

        /// Lines of one round, `*` for another file.
        fn round(&mut self) -> Vec<String> {
            let lines = std::cell::RefCell::new(Vec::new());
            let _ = self.follower.round(
                &mut |line| lines.borrow_mut().push(line.to_owned()),
                &mut || {
                    lines.borrow_mut().push("*".to_owned());
                },
            );
            lines.into_inner()
        }
    }

    #[test]
    fn lines_come_when_they_are_whole() {
        let mut scene = Scene::new();
        assert!(scene.follower.round(&mut |_| {}, &mut || {}).is_err(), "not there yet");
        scene.write("one\ntw");
        assert_eq!(scene.round(), ["*", "one"]);
        scene.write("o\rthree\r\nfour");
        assert_eq!(scene.round(), ["two", "three", ""]);
        scene.write(b"\xff\n");
        assert_eq!(scene.round(), ["four\u{fffd}"]);
        assert_eq!(scene.round(), [""; 0]);
    }

    #[test]
    fn a_log_that_is_rotated_is_read_to_its_end_and_the_next_one_from_its_beginning() {
        let mut scene = Scene::new();
        scene.write("one\n");
        scene.round();
        scene.write("two\n");
        let path = scene.dir.path().join("train.log");
        fs::rename(&path, scene.dir.path().join("train.log.1")).unwrap();
        scene.write("three\n");
        assert_eq!(scene.round(), ["two"]);
        assert_eq!(scene.round(), ["*", "three"]);
        fs::write(&path, "").unwrap();
        assert_eq!(scene.round(), ["*"]);
        scene.write("four\n");
        assert_eq!(scene.round(), ["four"]);
        fs::remove_file(&path).unwrap();
        scene.round();
        assert!(scene.follower.round(&mut |_| {}, &mut || {}).is_err());
        scene.write("five\n");
        assert_eq!(scene.round(), ["*", "five"]);
    }

    /// Emptied and written anew between two rounds, and longer than it was: neither its length nor its inode
    /// tells.
    #[test]
    fn a_log_that_was_emptied_and_has_grown_past_its_old_end_is_another_one() {
        for (first, second) in
            [("one\ntwo\n", "anew\nthree\nfour\n"), ("one\ntwo\n", "one\nother\nfour\n")]
        {
            let mut scene = Scene::new();
            scene.write(first);
            assert_eq!(scene.round(), ["*", "one", "two"]);
            // Nothing changes, then it grows as logs do.
            assert_eq!(scene.round(), [""; 0]);
            scene.write("three\n");
            assert_eq!(scene.round(), ["three"]);
            fs::write(scene.dir.path().join("train.log"), second).unwrap();
            let lines: Vec<&str> = ["*"].into_iter().chain(second.lines()).collect();
            assert_eq!(scene.round(), lines);
        }
    }

    /// 200 MB that come at once, in lines and as one line.
    #[test]
    fn a_flood_costs_a_bounded_round() {
        let mut scene = Scene::new();
        scene.write("one\n");
        scene.round();
        let path = scene.dir.path().join("train.log");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(200_000_000).unwrap();
        let before = scene.follower.left_out();
        assert_eq!(scene.round(), [""; 0]);
        assert!(scene.follower.left_out() - before > 190_000_000);
        assert!(
            scene.follower.buffer.capacity() <= BUDGET && scene.follower.line.len() <= MAX_LINE
        );
        scene.write("\nafter\n");
        assert_eq!(scene.round(), ["after"]);
        // No round hands out more than its budget.
        let many = "x\n".repeat(BUDGET);
        scene.write(&many);
        let lines = (scene.round().len(), scene.round().len(), scene.round().len());
        assert_eq!(lines, (BUDGET / 2, BUDGET / 2, 0));
        scene.write("y".repeat(MAX_LINE + 1));
        scene.write("\nlast\n");
        assert_eq!(scene.round(), ["last"]);
    }

    #[test]
    fn what_is_no_plain_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = Follower::new(dir.path()).round(&mut |_| {}, &mut || {}).unwrap_err();
        assert!(error.to_string().contains("expected a plain file"), "{error}");
        let missing = Follower::new(&dir.path().join("no")).round(&mut |_| {}, &mut || {});
        assert_eq!(missing.unwrap_err().reason(), crate::model::reading::Missing::NotPresent);
    }
}
