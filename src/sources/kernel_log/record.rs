//! Lines as they are written down: records of `/dev/kmsg`, lines of a syslog file.

use crate::sources::train::stamp::{Clock, When, stamp};
use std::borrow::Cow;
use std::time::Duration;

/// One record of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Its place in the ring's order. Consecutive, so a gap is what was overwritten.
    pub sequence: u64,
    /// When it came, since boot, by the clock of the CPU that wrote it.
    pub since_boot: Duration,
    /// Whether the kernel itself says it. What programs write to `/dev/kmsg` has another facility, and
    /// the kernel refuses them its own.
    pub kernel: bool,
    /// What it says.
    pub text: Cow<'a, str>,
}

/// `6,339,5140900,-;text`: priority (facility and level), sequence, microseconds, flags and more.
#[must_use]
pub(super) fn record(line: &[u8]) -> Option<Record<'_>> {
    let end = line.iter().position(|byte| *byte == b';')?;
    let mut fields = std::str::from_utf8(&line[..end]).ok()?.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let sequence = fields.next()?.parse().ok()?;
    let micros = fields.next()?.parse().ok()?;
    fields.next()?;
    Some(Record {
        sequence,
        since_boot: Duration::from_micros(micros),
        kernel: priority >> 3 == 0,
        text: String::from_utf8_lossy(&line[end + 1..]),
    })
}

/// A line of the kernel in a syslog file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// When it was written, since 1970.
    pub at: Duration,
    /// How often it came.
    pub times: u64,
    /// What it says.
    pub text: &'a str,
}

/// A stamp, the host, `kernel:` and nothing else between, then the text. Whatever says `kernel:` further on
/// is somebody's text.
pub(super) fn line<'a>(line: &'a str, clock: &mut Clock) -> Option<Line<'a>> {
    let (stamp, rest) = stamp(line)?;
    let (host, rest) = rest.strip_prefix(' ')?.trim_start_matches(' ').split_once(' ')?;
    let text = rest.strip_prefix("kernel:")?.trim_start_matches(' ');
    if host.is_empty() {
        return None;
    }
    let (times, text) = repeated(text).unwrap_or((1, text));
    match clock.when(stamp)? {
        When::Wall { at, .. } => Some(Line { at, times, text: unstamped(text) }),
        When::Elapsed(_) => None,
    }
}

/// `message repeated 15 times: [ text]`: rsyslog writes the first of several, and then so.
fn repeated(text: &str) -> Option<(u64, &str)> {
    let rest = text.strip_prefix("message repeated ")?;
    let (times, rest) = rest.split_once(" times: [")?;
    Some((times.parse().ok()?, rest.strip_suffix(']').unwrap_or(rest).trim_start()))
}

/// Without the time since boot (`[  123.456789] `) and the caller (`[   T92]`) that some write before the
/// text.
fn unstamped(text: &str) -> &str {
    let mut rest = text;
    for _ in 0..2 {
        let inner = rest.strip_prefix('[').and_then(|inner| inner.split_once(']'));
        let Some((mark, after)) = inner else { break };
        if !mark.bytes().all(|b| b.is_ascii_digit() || b" .TC".contains(&b)) {
            break;
        }
        rest = after;
    }
    rest.trim_start_matches(' ')
}
