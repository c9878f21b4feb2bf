//! A table of samples: comma-separated, with a header.

use crate::model::reading::{Missing, Reading};
use crate::units::Unit;
use std::time::Duration;

/// A table.
pub(super) struct Table<'a> {
    header: Vec<&'a str>,
    rows: Vec<(usize, Vec<&'a str>)>,
}

impl<'a> Table<'a> {
    /// Reads one. Lines that begin with `#` and empty ones are passed over; an error is a line number of
    /// the table from 1, and what was expected.
    pub(super) fn parse(text: &'a str) -> Result<Self, (usize, String)> {
        // Spreadsheets begin their files with a mark that nobody sees.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let (_, header) = lines.next().ok_or((1, "expected a header line".to_owned()))?;
        // A quoted cell may hold a comma.
        let cells = |line: &'a str| {
            let mut within = false;
            let at_comma = |c: char| {
                within ^= c == '"';
                c == ',' && !within
            };
            line.split(at_comma).map(|cell| cell.trim().trim_matches('"')).collect()
        };
        let header: Vec<&str> = cells(header);
        let rows: Vec<(usize, Vec<&str>)> = lines.map(|(line, text)| (line, cells(text))).collect();
        if let Some((line, row)) = rows.iter().find(|(_, row)| row.len() != header.len()) {
            let what =
                format!("expected {} columns as in the header, found {}", header.len(), row.len());
            return Err((*line, what));
        }
        if rows.is_empty() {
            return Err((1, "expected rows below the header".to_owned()));
        }
        Ok(Self { header, rows })
    }

    /// The place of a column, and the unit that its header names in brackets.
    fn column(&self, name: &str) -> Result<(usize, &'a str), String> {
        let bare = |cell: &&'a str| cell.split(" [").next().unwrap_or_default();
        let at = self.header.iter().position(|cell| *cell == name || bare(cell) == name);
        let at = at.ok_or_else(|| {
            format!("expected a column {name:?}, found {}", self.header.join(", "))
        })?;
        let unit =
            self.header[at].split_once(" [").map_or("", |(_, unit)| unit.trim_end_matches(']'));
        Ok((at, unit))
    }

    /// Whether there is a column of exactly this name, whatever stands behind it in brackets.
    pub(super) fn has(&self, name: &str) -> bool {
        self.column(name).is_ok()
    }

    /// The times of the rows, from the first one's.
    pub(super) fn times(&self, name: &str) -> Result<Vec<Duration>, (usize, String)> {
        let (column, _) = self.column(name).map_err(|what| (1, what))?;
        let mut times: Vec<Duration> = Vec::new();
        let mut first = None;
        for (line, row) in &self.rows {
            let seconds = seconds(row[column]).ok_or_else(|| {
                let what = "expected a time (seconds, 14:02:10, 2026/04/25 11:04:53.110)";
                (*line, format!("{what}, found {:?}", row[column]))
            })?;
            let since = seconds - *first.get_or_insert(seconds);
            let time = Duration::try_from_secs_f64(since).map_err(|_| {
                (*line, format!("{:?} is before the first row: times go forward", row[column]))
            })?;
            if times.last().is_some_and(|last| *last > time) {
                return Err((*line, format!("{:?} is before the row above it", row[column])));
            }
            times.push(time);
        }
        Ok(times)
    }

    /// A column of numbers in a unit. A cell that stands for "no value" is missing.
    pub(super) fn numbers(
        &self,
        name: &str,
        unit: Unit,
        written: &str,
    ) -> Result<Vec<Reading<f64>>, (usize, String)> {
        let (column, own) = self.column(name).map_err(|what| (1, what))?;
        let default = if written.is_empty() { own } else { written };
        let cell = |(line, row): &(usize, Vec<&str>)| match row[column] {
            "" | "[N/A]" | "N/A" => Ok(Err(Missing::NotAvailable)),
            "[Not Supported]" | "Not Supported" => Ok(Err(Missing::Unsupported)),
            text => super::parse::amount(unit, text, default)
                .map(Ok)
                .map_err(|what| (*line, format!("{name}: {what}"))),
        };
        self.rows.iter().map(cell).collect()
    }
}

/// A time in seconds: a number, a time of day, or a date and a time of day. Only differences matter.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(number) = text.trim_end_matches('s').parse::<f64>() {
        return Some(number).filter(|n| n.is_finite());
    }
    let (date, clock) = match text.split_once([' ', 'T']) {
        Some((date, clock)) => (Some(date), clock.trim_end_matches('Z')),
        None => (None, text),
    };
    let mut parts = clock.split(':');
    let hours: f64 = parts.next()?.parse().ok()?;
    let minutes: f64 = parts.next()?.parse().ok()?;
    let rest: f64 = parts.next().map_or(Some(0.0), |s| s.parse().ok())?;
    let of_a_day = (0.0..24.0).contains(&hours)
        && (0.0..60.0).contains(&minutes)
        && (0.0..61.0).contains(&rest);
    if !of_a_day {
        return None;
    }
    let days = match date {
        Some(date) => days(date)?,
        None => 0.0,
    };
    Some(((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + rest)
}

/// Days of a date since some day: `2026/04/25`, `2026-04-25`.
fn days(date: &str) -> Option<f64> {
    let mut parts = date.split(['/', '-']).map(str::parse::<i32>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March, so that the leap day is its last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Some(f64::from(days))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_commas_and_brackets() {
        let text = "t,\"hwmon.input[a, b]\",gpu.clock[0.sm] [MHz]\n0,1,\"2\"\n";
        let table = Table::parse(text).unwrap();
        assert!(table.has("hwmon.input[a, b]") && table.has("gpu.clock[0.sm]"));
        assert!(!table.has("gpu.clock") && !table.has("t[s]"));
        let clock = table.numbers("gpu.clock[0.sm]", Unit::Hertz, "").unwrap();
        assert_eq!(clock, [Ok(2e6)]);
    }
}
