//! The ring that `/dev/kmsg` reads from: one record a read, and never a wait.

use super::Booted;
use super::record::{Record, record};
use super::tally::Tally;
use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The kernel asks for room for a whole record, of which the longest has some 8 KiB.
const BUFFER: usize = 16 * 1024;
/// Records of one round. Reading one takes about a microsecond.
pub(super) const MAX_RECORDS: u64 = 16_384;
/// Bytes of one round.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// `O_NONBLOCK`, the same on every architecture that this runs on.
const NONBLOCK: i32 = 0o4000;
/// The device's numbers, 1 and 11, as `st_rdev` has them. In a container the path may be a console.
const DEVICE: u64 = 0x10b;

/// The ring, as far as it was read.
pub(super) struct Ring {
    from: Box<dyn Read + Send>,
    /// The number of the next record; none before the first.
    next: Option<u64>,
    /// A line that has not ended yet. The device's own always end with the read.
    rest: Vec<u8>,
    buffer: Vec<u8>,
}

/// What came of a round.
pub(super) struct Came {
    /// Records that were whole.
    pub records: u64,
    /// Whether the end was reached.
    pub end: bool,
}

impl Ring {
    /// Opens the device, or a file or a pipe that stands in for it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let fits = |facts: &std::fs::Metadata| {
            let kind = facts.file_type();
            kind.is_file() || kind.is_fifo() || (kind.is_char_device() && facts.rdev() == DEVICE)
        };
        let check = |facts: std::fs::Metadata| {
            // How systemd hides a device (ProtectKernelLogs=).
            if facts.file_type().is_char_device() && facts.rdev() == 0 {
                return Err(ErrorKind::PermissionDenied.into());
            }
            let unlike = || io::Error::other("is not the kernel's log");
            if fits(&facts) { Ok(()) } else { Err(unlike()) }
        };
        // Before it is opened: a terminal in its place would lose what is typed.
        check(std::fs::metadata(path)?)?;
        let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
        check(file.metadata()?)?;
        Ok(Self::of(file))
    }

    /// Reads from here.
    pub(super) fn of(from: impl Read + Send + 'static) -> Self {
        Self { from: Box::new(from), next: None, rest: Vec::new(), buffer: vec![0; BUFFER] }
    }

    /// Reads on, as far as a round goes. `old`: what comes is from
    /// before the exporter's start.
    pub(super) fn round(
        &mut self,
        booted: &mut Booted<'_>,
        old: bool,
        tally: &mut Tally,
    ) -> io::Result<Came> {
        let (mut records, mut reads, mut bytes) = (0, 0, 0);
        let mut buffer = std::mem::take(&mut self.buffer);
        let end = loop {
            if records >= MAX_RECORDS || reads >= MAX_RECORDS || bytes >= MAX_BYTES {
                break Ok(false);
            }
            reads += 1;
            match self.from.read(&mut buffer) {
                Ok(0) => break Ok(true),
                Ok(count) => {
                    bytes += count;
                    records += self.bytes(&buffer[..count], booted, old, tally);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break Ok(true),
                    // EPIPE: overwritten while we looked. The next record's number says how many.
                    ErrorKind::BrokenPipe | ErrorKind::Interrupted => {}
                    _ => break Err(error),
                },
            }
        };
        self.buffer = buffer;
        Ok(Came { records, end: end? })
    }

    /// Lines that begin with a blank belong to the record before them: names of devices.
    fn bytes(
        &mut self,
        bytes: &[u8],
        booted: &mut Booted<'_>,
        old: bool,
        tally: &mut Tally,
    ) -> u64 {
        let mut records = 0;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(whole) = piece.strip_suffix(b"\n") else {
                if self.rest.len() + piece.len() <= BUFFER {
                    self.rest.extend_from_slice(piece);
                } else {
                    // Longer than a record can be.
                    self.rest.clear();
                    tally.lose(1);
                }
                continue;
            };
            let line = if self.rest.is_empty() {
                Cow::Borrowed(whole)
            } else {
                let mut line = std::mem::take(&mut self.rest);
                line.extend_from_slice(whole);
                Cow::Owned(line)
            };
            if line.first().is_none_or(|byte| *byte == b' ') {
                continue;
            }
            if let Some(record) = record(&line) {
                records += 1;
                self.record(&record, booted, old, tally);
            }
        }
        records
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        booted: &mut Booted<'_>,
        old: bool,
        tally: &mut Tally,
    ) {
        match self.next {
            None => tally.overwritten = record.sequence,
            Some(next) => tally.lose(record.sequence.saturating_sub(next)),
        }
        self.next = Some(record.sequence.saturating_add(1));
        if record.kernel {
            tally.take(&record.text, booted.wall(record.since_boot), old, 1);
        }
    }
}

/// Only for what a test says about memory.
#[cfg(test)]
impl Ring {
    pub(super) fn held(&self) -> usize {
        self.rest.capacity() + self.buffer.capacity()
    }
}
