//! Time stamps at the start of a line, and what they mean.

use super::scan::{digits, duration, number};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use std::time::Duration;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY: Duration = Duration::from_secs(86_400);
/// In a doubled hour, a stamp that is earlier than the one before by more than this is of the second pass.
const SECOND_PASS: Duration = Duration::from_secs(60);

/// A stamp as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sources) enum Stamp {
    /// Year (where told), month, day; the time of the day; the offset from UTC in seconds (where told).
    Date { year: Option<i16>, month: i8, day: i8, time: Duration, offset: Option<i32> },
    /// The time of a day that nobody knows.
    OfDay(Duration),
    /// Since 1970.
    Epoch(Duration),
    /// Since the program began.
    Elapsed(Duration),
}

/// What a stamp means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sources) enum When {
    /// Since 1970, and what was assumed for it.
    Wall { at: Duration, zone_assumed: bool, year_assumed: bool },
    /// Since the run, or its log, began.
    Elapsed(Duration),
}

/// A stamp at the start of a text, and the rest.
pub(in crate::sources) fn stamp(text: &str) -> Option<(Stamp, &str)> {
    let (stamp, rest) = llama(text)
        .or_else(|| epoch(text))
        .or_else(|| dated(text))
        .or_else(|| time(text).map(|(time, rest)| (Stamp::OfDay(time), rest)))?;
    let ends = |c: char| c.is_whitespace() || "])|,:;".contains(c);
    rest.chars().next().is_none_or(ends).then_some((stamp, rest))
}

/// A date and a time behind it: ISO 8601, Python's logging, the month first as Hugging Face's example
/// scripts have it, vLLM's without a year, syslog's.
fn dated(text: &str) -> Option<(Stamp, &str)> {
    let (year, month, day, rest) = date(text)?;
    let rest = rest.strip_prefix(['T', ' ', '_'])?;
    let (time, rest) = time(rest)?;
    let (offset, rest) = zone(rest);
    Some((Stamp::Date { year, month, day, time, offset }, rest))
}

fn date(text: &str) -> Option<(Option<i16>, i8, i8, &str)> {
    let small = |number: i32| i8::try_from(number).ok();
    if let Some(place) = text.get(..3).and_then(|name| MONTHS.iter().position(|m| *m == name)) {
        let (day, rest) = digits(text[3..].trim_start(), 1, 2)?;
        return Some((None, i8::try_from(place + 1).ok()?, small(day)?, rest));
    }
    if let Some((year, rest)) = digits(text, 4, 4) {
        let rest = rest.strip_prefix(['-', '/'])?;
        let (month, rest) = digits(rest, 2, 2)?;
        let (day, rest) = digits(rest.strip_prefix(['-', '/'])?, 2, 2)?;
        return Some((Some(i16::try_from(year).ok()?), small(month)?, small(day)?, rest));
    }
    let (month, rest) = digits(text, 2, 2)?;
    if let Some(rest) = rest.strip_prefix('/') {
        let (day, rest) = digits(rest, 2, 2)?;
        let (year, rest) = digits(rest.strip_prefix('/')?, 4, 4)?;
        return Some((Some(i16::try_from(year).ok()?), small(month)?, small(day)?, rest));
    }
    let (day, rest) = digits(rest.strip_prefix('-')?, 2, 2)?;
    Some((None, small(month)?, small(day)?, rest))
}

/// `12:34:56`, `12:34:56,789`, `12:34:56.789123`.
fn time(text: &str) -> Option<(Duration, &str)> {
    let (hours, rest) = digits(text, 2, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
    let (seconds, mut rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
    // A leap second counts as the one before it.
    let seconds = seconds.min(59);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let whole = u64::try_from(hours * 3600 + minutes * 60 + seconds).ok()?;
    let mut nanos = 0;
    if let Some(part) = rest.strip_prefix(['.', ',']) {
        let end = part.bytes().take_while(u8::is_ascii_digit).count();
        if end > 0 {
            let kept: String = part[..end].chars().chain("000000000".chars()).take(9).collect();
            nanos = kept.parse().ok()?;
            rest = &part[end..];
        }
    }
    Some((Duration::new(whole, nanos), rest))
}

/// The offset from UTC, where one is told.
fn zone(text: &str) -> (Option<i32>, &str) {
    for name in ["Z", " UTC", " GMT", "UTC"] {
        if let Some(rest) = text.strip_prefix(name) {
            return (Some(0), rest);
        }
    }
    let signed = text.trim_start();
    let sign = match signed.as_bytes().first() {
        Some(b'+') => 1,
        // Behind a blank a minus is a dash: `12:34:56 - INFO`.
        Some(b'-') if signed.len() == text.len() => -1,
        _ => return (None, text),
    };
    let hours = signed.get(1..3).and_then(|text| digits(text, 2, 2));
    let Some((hours, _)) = hours else { return (None, text) };
    let rest = &signed[3..];
    let minutes = digits(rest.strip_prefix(':').unwrap_or(rest), 2, 2);
    let (minutes, rest) = minutes.unwrap_or((0, rest));
    (Some(sign * (hours * 3600 + minutes * 60)), rest)
}

/// Seconds or milliseconds since 1970, in as many digits as this century's have.
fn epoch(text: &str) -> Option<(Stamp, &str)> {
    let whole = text.bytes().take_while(u8::is_ascii_digit).count();
    if whole != 10 && whole != 13 {
        return None;
    }
    let (value, rest) = number(text)?;
    Some((Stamp::Epoch(since_1970(value)?), rest))
}

/// A number that is a time since 1970, in the unit that makes it one of this century.
pub(super) fn since_1970(value: f64) -> Option<Duration> {
    let seconds = match value {
        v if v < 1e9 => return None,
        v if v < 1e11 => v,
        v if v < 1e14 => v / 1e3,
        v if v < 1e17 => v / 1e6,
        v => v / 1e9,
    };
    (seconds < 1e11).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

/// llama.cpp's `--log-timestamps`: minutes, seconds, milli and microseconds since its start, as
/// `3.17.254.000`.
fn llama(text: &str) -> Option<(Stamp, &str)> {
    let (minutes, rest) = digits(text, 1, 6)?;
    let (seconds, rest) = digits(rest.strip_prefix('.')?, 2, 2)?;
    let (millis, rest) = digits(rest.strip_prefix('.')?, 3, 3)?;
    let (micros, rest) = digits(rest.strip_prefix('.')?, 3, 3)?;
    let seconds = f64::from(minutes) * 60.0 + f64::from(seconds);
    let time = duration(seconds + f64::from(millis) * 1e-3 + f64::from(micros) * 1e-6)?;
    Some((Stamp::Elapsed(time), rest))
}

/// Gives stamps their meaning. Knows what the lines before told, for stamps that leave something out:
/// without a year they go on into the next one, without a date into the next day.
#[derive(Clone, Debug)]
pub(in crate::sources) struct Clock {
    zone: TimeZone,
    year: i16,
    month: Option<i8>,
    /// Of the first stamp without a date, and of the last one, with the days between.
    of_day: Option<(Duration, Duration, u32)>,
    /// How many years have ended on the way.
    pub(super) years: i16,
    /// The last time without a zone, and whether one lay in an hour that comes twice.
    last: Option<Duration>,
    pub(super) doubled: bool,
}

impl Clock {
    pub(in crate::sources) fn new(zone: TimeZone, year: i16) -> Self {
        Self { zone, year, month: None, of_day: None, years: 0, last: None, doubled: false }
    }

    pub(in crate::sources) fn when(&mut self, stamp: Stamp) -> Option<When> {
        match stamp {
            Stamp::Elapsed(time) => Some(When::Elapsed(time)),
            Stamp::Epoch(at) => Some(When::Wall { at, zone_assumed: false, year_assumed: false }),
            Stamp::OfDay(time) => Some(When::Elapsed(self.of_day(time))),
            Stamp::Date { year, month, day, time, offset } => {
                let known = match year {
                    Some(year) => year,
                    None => self.year(month),
                };
                let at = self.date(known, month, day, time, offset)?;
                let (zone_assumed, year_assumed) = (offset.is_none(), year.is_none());
                Some(When::Wall { at, zone_assumed, year_assumed })
            }
        }
    }

    fn date(
        &mut self,
        year: i16,
        month: i8,
        day: i8,
        time: Duration,
        offset: Option<i32>,
    ) -> Option<Duration> {
        let seconds = i32::try_from(time.as_secs()).ok()?;
        let part = |number: i32| i8::try_from(number).ok();
        let (hour, minute) = (part(seconds / 3600)?, part(seconds / 60 % 60)?);
        let nanos = i32::try_from(time.subsec_nanos()).ok()?;
        let civil =
            DateTime::new(year, month, day, hour, minute, part(seconds % 60)?, nanos).ok()?;
        let stamp = match offset {
            Some(seconds) => Offset::from_seconds(seconds).ok()?.to_timestamp(civil).ok()?,
            None => return self.local(civil),
        };
        Duration::try_from(stamp.as_duration()).ok()
    }

    /// A time without a zone. In an hour that comes twice the order tells: what is earlier than the stamp
    /// before it is of the second pass, and a log that starts there is taken to start in the first.
    fn local(&mut self, civil: DateTime) -> Option<Duration> {
        let at = self.zone.to_ambiguous_timestamp(civil);
        let since = |stamp: jiff::Timestamp| Duration::try_from(stamp.as_duration()).ok();
        let told = if matches!(at.offset(), AmbiguousOffset::Fold { .. }) {
            self.doubled = true;
            let first = since(at.earlier().ok()?)?;
            let second = self.last.is_some_and(|last| first + SECOND_PASS < last);
            if second { since(at.later().ok()?)? } else { first }
        } else {
            since(at.compatible().ok()?)?
        };
        self.last = Some(told);
        Some(told)
    }

    /// The year of a stamp without one. A month that is far before the last one is of the next year; one
    /// or two before are lines out of order.
    fn year(&mut self, month: i8) -> i16 {
        if self.month.is_some_and(|last| last - month > 6) {
            self.years += 1;
        }
        self.month = Some(month);
        self.year.saturating_add(self.years)
    }

    /// Since the first stamp. One that is far before the last is of the next day.
    fn of_day(&mut self, time: Duration) -> Duration {
        let (first, last, mut days) = self.of_day.unwrap_or((time, time, 0));
        if last.saturating_sub(time) > DAY / 2 {
            days = days.saturating_add(1);
        }
        self.of_day = Some((first, time, days));
        (time + DAY * days).saturating_sub(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock::new(Offset::from_seconds(3600).unwrap().to_time_zone(), 2025)
    }

    fn at(text: &str) -> Option<f64> {
        match clock().when(stamp(text)?.0)? {
            When::Wall { at, .. } => Some(at.as_secs_f64()),
            When::Elapsed(_) => None,
        }
    }

    #[test]
    fn every_way_to_write_a_moment() {
        // 12:34:56 UTC on 12 January 2025.
        for (text, expected) in [
            ("2025-01-12T12:34:56Z", 1_736_685_296.0),
            ("2025-01-12T12:34:56.250Z stdout F x", 1_736_685_296.25),
            ("2025-01-12T14:34:56+02:00", 1_736_685_296.0),
            ("2025-01-12T14:34:56+0200 host", 1_736_685_296.0),
            ("2025-01-12 13:34:56,500 - INFO", 1_736_685_296.5),
            ("2025/01/12 13:34:56 x", 1_736_685_296.0),
            ("01/12/2025 13:34:56 - INFO", 1_736_685_296.0),
            ("01-12 13:34:56 [a.py:1]", 1_736_685_296.0),
            ("Jan 12 13:34:56 host", 1_736_685_296.0),
            ("1736685296.5 x", 1_736_685_296.5),
            ("1736685296500 x", 1_736_685_296.5),
        ] {
            assert_eq!(at(text), Some(expected), "{text}");
        }
        for none in ["2025-13-12 12:34:56", "2025-01-12", "12:34", "25:00:00", "10/50 [00:17<01:06"]
        {
            assert_eq!(at(none), None, "{none}");
        }
    }

    /// The last Sunday of October: after 02:59:59 it is 02:00:00 again. Lines of several processes may be a
    /// little out of order.
    #[test]
    fn an_hour_that_comes_twice_goes_on() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let mut clock = Clock::new(zone, 2025);
        let mut at = |text: &str| match clock.when(stamp(text).unwrap().0) {
            Some(When::Wall { at, .. }) => at.as_secs() - 1_761_433_200,
            other => panic!("{other:?}"),
        };
        let told =
            ["01:00:00", "02:59:58", "02:59:57", "02:00:02", "02:00:01", "02:59:00", "03:00:02"]
                .map(|time| at(&format!("2025-10-26 {time}")));
        assert_eq!(told, [0, 7198, 7197, 7202, 7201, 10_740, 10_802]);
        assert!(clock.doubled);
    }

    #[test]
    fn what_is_left_out_goes_on() {
        let mut clock = clock();
        let mut elapsed = |text| match clock.when(stamp(text).unwrap().0) {
            Some(When::Elapsed(time)) => time.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [elapsed("23:59:50 x"), elapsed("23:59:59 x"), elapsed("00:00:10 x")],
            [0, 9, 20]
        );
        assert_eq!(elapsed("1.02.500.000 I x"), 62);
        let mut wall = |text| match clock.when(stamp(text).unwrap().0) {
            Some(When::Wall { at, .. }) => at.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(wall("12-31 23:59:59") + 2, wall("01-01 00:00:01"));
    }
}
