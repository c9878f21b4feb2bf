//! Curves over time: in a terminal, and as a picture.
//!
//! What both have in common is here: where a curve is interrupted, round numbers for scales, and times for
//! people. A stretch without samples is a stretch without a line; nothing is drawn that was not measured.

mod svg;
mod terminal;

pub use svg::svg;
pub use terminal::{Glyphs, WIDTH, terminal};

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// Samples further apart than so many usual distances are not joined.
const GAP: f64 = 3.0;
/// The distances between marks of time, in seconds.
const TIME_STEPS: [f64; 21] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    7.0 * DAY,
    28.0 * DAY,
];
/// Numbers from here on are written with their power of ten.
const LARGE: f64 = 1e12;
/// More marks than this are on no axis.
const MOST_MARKS: usize = 256;
const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// One curve.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// What it is.
    pub title: &'a str,
    /// The unit of its values; empty for none.
    pub unit: &'a str,
    /// Seconds and value. What is not finite is left out.
    pub points: &'a [(f64, f64)],
}

/// A stretch of time that is marked in all panels: from, to, and what it is.
pub type Stretch<'a> = (f64, f64, &'a str);

/// What the seconds of a plot count from.
#[derive(Clone, Debug)]
pub enum Axis {
    /// 1970; shown as the clock of a zone.
    Clock(TimeZone),
    /// A beginning; shown as hours and minutes since it.
    Elapsed,
}

/// Curves over one axis of time, a panel for each.
#[derive(Clone, Debug)]
pub struct Plot<'a> {
    /// What it shows.
    pub title: &'a str,
    /// The curves, from above.
    pub tracks: &'a [Track<'a>],
    /// What is marked.
    pub stretches: &'a [Stretch<'a>],
    /// The axis.
    pub axis: Axis,
}

/// A curve's pieces, each without a gap, in the order of time.
fn pieces(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    let finite = points.iter().copied().filter(|(at, value)| at.is_finite() && value.is_finite());
    let mut points: Vec<(f64, f64)> = finite.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut distances: Vec<f64> =
        points.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|d| *d > 0.0).collect();
    distances.sort_by(f64::total_cmp);
    let usual = distances.get(distances.len() / 2).copied().unwrap_or(f64::INFINITY);
    points.chunk_by(|a, b| b.0 - a.0 <= GAP * usual).map(<[_]>::to_vec).collect()
}

/// The smallest and the largest of some numbers.
fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// The time that the curves span; never nothing.
fn span(plot: &Plot<'_>) -> Option<(f64, f64)> {
    let points = plot.tracks.iter().flat_map(|track| track.points);
    let times = points.filter(|(_, value)| value.is_finite()).map(|(at, _)| *at);
    let (from, to) = extremes(times)?;
    Some(if to > from { (from, to) } else { (from - 0.5, to + 0.5) })
}

/// Stretches of the time that is shown, those of one label that touch or nearly do as one.
fn stretches<'a>(plot: &Plot<'a>, (from, to): (f64, f64), near: f64) -> Vec<Stretch<'a>> {
    let clipped = plot.stretches.iter().map(|(a, b, label)| (a.max(from), b.min(to), *label));
    let mut all: Vec<Stretch<'a>> = clipped.filter(|(a, b, _)| a <= b).collect();
    all.sort_by(|a, b| a.2.cmp(b.2).then(a.0.total_cmp(&b.0)));
    let mut merged: Vec<Stretch<'a>> = Vec::with_capacity(all.len());
    for stretch in all {
        match merged.last_mut() {
            Some(last) if last.2 == stretch.2 && stretch.0 - last.1 <= near => {
                last.1 = last.1.max(stretch.1);
            }
            _ => merged.push(stretch),
        }
    }
    merged.sort_by(|a, b| a.0.total_cmp(&b.0));
    merged
}

/// The labels of stretches, in the order in which they begin.
fn labels<'a>(stretches: &[Stretch<'a>]) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for (.., label) in stretches {
        if !all.contains(label) {
            all.push(label);
        }
    }
    all
}

/// The smallest round number (1, 2 or 5 of a power of ten) that is not under `least`.
fn round_up(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    // A little more than nothing is missing where the power of ten itself was meant.
    let round = [1.0, 2.0, 5.0].map(|n| n * power).into_iter().find(|n| n * (1.0 + 1e-9) >= least);
    round.unwrap_or(10.0 * power)
}

/// A scale of round numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// One in which these values lie, with about so many steps.
    fn of((low, high): (f64, f64), steps: f64) -> Self {
        let slight = (low.abs().max(high.abs()) * 1e-9).max(1e-12);
        let (low, high) = if high - low > slight {
            (low, high)
        } else {
            // A constant lies in the middle.
            let room = if low.abs() > slight { low.abs() / 10.0 } else { 1.0 };
            (low - room, high + room)
        };
        let step = round_up((high - low) / steps);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    /// Its round numbers, from below.
    fn ticks(self) -> Vec<f64> {
        let ticks = std::iter::successors(Some(self.low), |tick| Some(tick + self.step));
        let limit = self.high + self.step / 2.0;
        // Bounded even where a step is lost in a number's last digits.
        ticks.take(64).take_while(|tick| *tick < limit).collect()
    }

    /// A number as the scale writes it.
    fn number(self, value: f64) -> String {
        number(value, self.step)
    }
}

/// A number with the digits that matter where the next one is a step away.
fn number(value: f64, step: f64) -> String {
    if value.abs() >= LARGE {
        return format!("{value:.3e}");
    }
    let digits = (0..9_u32).find(|digits| {
        let scaled = step * 10_f64.powi(digits.cast_signed());
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    });
    // Adding zero takes the sign from a zero that was rounded from below.
    let digits = digits.unwrap_or(9) as usize;
    let text = format!("{value:.digits$}");
    if text.trim_start_matches(['-', '0', '.']).is_empty() {
        text.trim_start_matches('-').to_owned()
    } else {
        text
    }
}

/// What a curve spans: as precise as a reader may want it, and whole numbers where they are enough.
fn range((low, high): (f64, f64)) -> (String, String) {
    if high > low {
        let fine = round_up((high - low) / 100.0);
        let step = if high - low >= 10.0 { fine.max(1.0) } else { fine };
        return (number(low, step), number(high, step));
    }
    // A constant, to its fourth digit.
    let step = 10_f64.powf(low.abs().max(1e-9).log10().floor() - 3.0).min(1.0);
    let text = number((low / step).round() * step, step);
    let short = match text.split_once('.') {
        Some((_, rest)) if rest.bytes().all(|digit| digit == b'0') => number(low, 1.0),
        Some(_) => text.trim_end_matches('0').to_owned(),
        None => text,
    };
    (short.clone(), short)
}

/// Marks of time: at round times of the axis, at most so many.
fn marks(axis: &Axis, (from, to): (f64, f64), most: f64) -> Vec<(f64, String)> {
    let fits = |step: &&f64| (to - from) / **step <= most;
    let step = TIME_STEPS.iter().find(fits).copied().unwrap_or_else(|| {
        let days = round_up((to - from) / most / DAY);
        days * DAY
    });
    // The clock's marks are round in local time.
    let first = offset(axis, from);
    let begin = ((from + first) / step).ceil() * step;
    let local = std::iter::successors(Some(begin), |at| Some(at + step));
    let all = local.map(|local| local - offset(axis, local - first));
    // Summer time may begin or end in between: what is not forward any more is left out.
    let mut last = f64::NEG_INFINITY;
    // Bounded even where a step is lost in a time's last digits.
    all.take(MOST_MARKS)
        .take_while(|at| *at <= to)
        .filter(|at| {
            let forward = *at >= from && *at > last;
            last = last.max(*at);
            forward
        })
        .map(|at| (at, time(axis, at, step)))
        .collect()
}

fn instant(at: f64) -> Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "a float cast saturates")]
    let milli = (at * 1e3).round() as i64;
    Timestamp::from_millisecond(milli).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What local time is ahead of the axis' seconds.
fn offset(axis: &Axis, at: f64) -> f64 {
    match axis {
        Axis::Clock(zone) => f64::from(Offset::seconds(zone.to_offset(instant(at)))),
        Axis::Elapsed => 0.0,
    }
}

/// A time for people, where the next one is a step away.
fn time(axis: &Axis, at: f64, step: f64) -> String {
    match axis {
        Axis::Clock(zone) => {
            let local = zone.to_datetime(instant(at));
            let midnight = (local.hour(), local.minute(), local.second()) == (0, 0, 0);
            // The days of a long plot are told at their beginning.
            let format = match () {
                () if midnight => "%-d %b",
                () if step < MINUTE => "%H:%M:%S",
                () => "%H:%M",
            };
            local.strftime(format).to_string()
        }
        Axis::Elapsed => {
            #[expect(clippy::cast_possible_truncation, reason = "a float cast saturates")]
            let seconds = at.round() as i64;
            let (sign, seconds) = (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs());
            let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            let rest = if step < MINUTE { format!(":{rest:02}") } else { String::new() };
            format!("{sign}{hours}:{minutes:02}{rest}")
        }
    }
}

/// What the marks of time are.
fn caption(axis: &Axis, (from, to): (f64, f64)) -> String {
    match axis {
        Axis::Clock(zone) => {
            let date = |at| zone.to_datetime(instant(at)).date();
            let (first, last) = (date(from), date(to));
            let info = zone.to_offset_info(instant(from));
            let zone = info.abbreviation();
            if first == last {
                format!("{first}, local time ({zone})")
            } else {
                format!("{first} to {last}, local time ({zone})")
            }
        }
        Axis::Elapsed => "hours and minutes since the beginning".to_owned(),
    }
}

/// Text of somebody else's on one line.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A curve's title with its unit.
fn heading(track: &Track<'_>) -> String {
    let (title, unit) = (clean(track.title), clean(track.unit));
    if unit.is_empty() { title } else { format!("{title} ({unit})") }
}

#[cfg(test)]
mod tests;
