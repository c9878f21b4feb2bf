//! The times of samples: local ones as nvidia-smi prints them, ISO 8601 and seconds since 1970.

use super::Fault;
use crate::model::samples::{SamplePoint, SampleRemark};
use crate::sources::lines::shown;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use std::ops::Range;
use std::time::Duration;

/// Plain numbers that are taken as seconds since 1970, from September 2001 on. Smaller ones are seconds
/// since something else, larger ones milliseconds.
const EPOCH: Range<f64> = 1e9..1e11;
/// A clock that is set by less than this is no news.
const SLIGHT: Duration = Duration::from_secs(1);
/// In a doubled hour, a time that is earlier than the one before by more than this is of the second pass.
const SECOND_PASS: Duration = Duration::from_secs(60);

/// Reads times one after the other.
pub(super) struct Times {
    zone: TimeZone,
    last: Option<Duration>,
    assumed: bool,
    doubled: Option<u64>,
    back: Option<(u64, Duration, u64)>,
    sorted: bool,
}

/// A time, as far as its text tells.
enum Told {
    Absolute(Timestamp),
    Local(DateTime),
}

fn told(text: &str) -> Option<Told> {
    if let Ok(seconds) = text.parse::<f64>() {
        let since =
            Duration::try_from_secs_f64(seconds).ok().filter(|_| EPOCH.contains(&seconds))?;
        return Timestamp::UNIX_EPOCH.checked_add(since).ok().map(Told::Absolute);
    }
    // jiff would take a date without a time of day, and a time zone in brackets.
    if !text.contains(':') || text.contains('[') {
        return None;
    }
    let dashed;
    let text = if text.contains('/') {
        dashed = text.replace('/', "-");
        &dashed
    } else {
        text
    };
    match text.parse::<Timestamp>() {
        Ok(instant) => Some(Told::Absolute(instant)),
        Err(_) => text.parse::<DateTime>().ok().map(Told::Local),
    }
}

/// Whether this looks like a time.
pub(super) fn is_time(text: &str) -> bool {
    told(text).is_some()
}

impl Times {
    pub(super) fn new(zone: &TimeZone) -> Self {
        let zone = zone.clone();
        Self { zone, last: None, assumed: false, doubled: None, back: None, sorted: true }
    }

    /// The time of the next sample.
    pub(super) fn take(&mut self, line: u64, text: &str) -> Result<Duration, Fault> {
        let expected = || {
            let what = "expected a time (2026/11/24 14:08:55.751, 2026-11-24T14:08:55Z, or seconds \
                        since 1970)";
            (line, format!("{what}, found {}", shown(text)))
        };
        let instant = match told(text).ok_or_else(expected)? {
            Told::Absolute(instant) => instant,
            Told::Local(local) => self.local(line, local).ok_or_else(expected)?,
        };
        let wall = since_1970(instant).ok_or_else(expected)?;
        if let Some(last) = self.last.filter(|last| *last > wall) {
            self.sorted = false;
            let by = last.saturating_sub(wall);
            if by >= SLIGHT {
                let (line, by, times) = self.back.unwrap_or((line, by, 0));
                self.back = Some((line, by, times + 1));
            }
        }
        self.last = Some(wall);
        Ok(wall)
    }

    fn local(&mut self, line: u64, local: DateTime) -> Option<Timestamp> {
        self.assumed = true;
        let at = self.zone.to_ambiguous_timestamp(local);
        if !matches!(at.offset(), AmbiguousOffset::Fold { .. }) {
            return at.compatible().ok();
        }
        self.doubled.get_or_insert(line);
        let first = since_1970(at.earlier().ok()?)?;
        let second_pass = self.last.is_some_and(|last| first + SECOND_PASS < last);
        if second_pass { at.later().ok() } else { at.earlier().ok() }
    }

    /// Puts the samples in the order of their times, and says what was odd about these.
    pub(super) fn end(self, points: &mut [SamplePoint], remarks: &mut Vec<SampleRemark>) {
        if !self.sorted {
            // Stable: of two at the same time the one that was noted first stays first.
            points.sort_by_key(|point| point.wall);
        }
        remarks.extend(self.assumed.then_some(SampleRemark::ZoneAssumed));
        remarks.extend(self.doubled.map(SampleRemark::DoubledHour));
        let back = self.back;
        remarks.extend(back.map(|(line, by, times)| SampleRemark::ClockWentBack {
            line,
            by,
            times,
        }));
    }
}

fn since_1970(instant: Timestamp) -> Option<Duration> {
    instant.as_duration().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_many_ways() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let read = |text: &str| Times::new(&zone).take(7, text);
        for text in [
            "2026/11/24 15:08:55.500",
            "2026-11-24 15:08:55.5",
            "2026-11-24T15:08:55.500",
            "2026-11-24T14:08:55.500Z",
            "2026-11-24 14:08:55.500+00:00",
            "2026-11-24T16:08:55.500+02:00",
            "2026-11-24T06:08:55.500-0800",
            "2026/11/24 14:08:55.500Z",
            "1795529335.5",
            "1.7955293355e9",
        ] {
            assert_eq!(read(text), Ok(Duration::from_millis(1_795_529_335_500)), "{text}");
        }
        for text in [
            "",
            "12",
            "1795529335500",
            "-1",
            "NaN",
            "15:08:55",
            "2026/11/24",
            "24.11.2026 15:08:55",
            "2026/02/30 15:08:55",
            "2026/11/24 25:08:55",
            "1969/12/31 12:00:00",
            "noon",
            "2026-11-24T15:08:55[Europe/Berlin]",
        ] {
            let (line, what) = read(text).unwrap_err();
            assert!(line == 7 && what.contains("expected a time"), "{text}: {what}");
        }
    }
}
