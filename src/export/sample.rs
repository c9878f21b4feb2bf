//! One GPU's temperature and power as lines of CSV, in the words and with the separators of `nvidia-smi`,
//! so that what reads its files reads these. Behind them, where asked for, everything else that the tables
//! have: readings in the notation of scenario tables, verdicts by their state.

use super::series::{named, quoted};
use crate::catalog::verdicts::{self, VERDICTS};
use crate::model::fields::{self, Field};
use crate::model::frame::Frame;
use crate::model::reading::{Reading, Value};
use crate::units::{Count, Unit};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::time::Duration;

/// What stands in place of a value that is not to be had, whatever the reason.
const NOTHING: &str = "[N/A]";
/// Between the cells of a row.
const SEPARATOR: &str = ", ";

/// How the header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Bare names.
    Short,
    /// As `nvidia-smi --format=csv` does.
    Smi,
}

impl Style {
    /// The names of the first columns, and what is between names.
    const fn words(self) -> ([&'static str; 3], &'static str) {
        match self {
            Self::Short => (["timestamp", "temperature.gpu", "power.draw"], ","),
            Self::Smi => (["timestamp", "temperature.gpu", "power.draw [W]"], SEPARATOR),
        }
    }
}

/// Where a column's cells come from.
enum From {
    Reading(&'static Field),
    Verdict,
}

/// One column behind the first three.
struct Column {
    /// `id[key]` of a reading, `name[member]` of a verdict.
    name: String,
    from: From,
}

impl Column {
    /// What the header says: the name, and the unit of a reading as scenario tables take it.
    fn title(&self) -> String {
        match self.from {
            From::Reading(field) if !field.unit.plain().0.is_empty() => {
                format!("{} [{}]", self.name, field.unit.plain().0)
            }
            _ => self.name.clone(),
        }
    }

    /// The column that has this title.
    fn titled(title: &str) -> Option<Self> {
        let bare = title.split('[').next().unwrap_or_default();
        if VERDICTS.iter().any(|verdict| verdict.name == bare) {
            return Some(Self { name: title.to_owned(), from: From::Verdict });
        }
        // A member's name may itself end like a unit: only what is written back the same counts.
        let names = [Some(title), title.rsplit_once(" [").map(|(name, _)| name)];
        names.into_iter().flatten().find_map(|name| {
            let (field, _) = fields::named(name)?;
            let column = Self { name: name.to_owned(), from: From::Reading(field) };
            (column.title() == title).then_some(column)
        })
    }
}

/// The columns behind the first three. They are settled once: what is gone later has no value, what
/// appears later has no column.
#[derive(Default)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// Every numeric reading that a frame has, with a value or without, and every verdict.
    #[must_use]
    pub fn of(frame: &Frame) -> Self {
        let mut all = Vec::new();
        for field in fields::all() {
            (field.visit)(&frame.snapshot, &mut |key, reading| {
                // The unit tells numbers from texts even where there is no value; sensors of mixed
                // units have none in the table and are told by their value.
                if field.unit != Unit::None || number(reading).is_some() {
                    let from = From::Reading(field);
                    all.push(Column { name: named(field.id, key), from });
                }
            });
        }
        let verdicts = verdicts::of(frame).into_iter();
        all.extend(verdicts.map(|(name, ..)| Column { name, from: From::Verdict }));
        Self(all)
    }

    /// Those of a header that [`header`] has written, in either style.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let cells = cells(line.trim_end());
        let begins = |style: Style| cells.iter().take(3).eq(style.words().0.iter());
        if ![Style::Short, Style::Smi].into_iter().any(begins) {
            return Err(format!("expected a header that begins with {}", FIRST.join(",")));
        }
        let column = |title: &String| {
            Column::titled(title).ok_or_else(|| format!("{title:?} is no reading and no verdict"))
        };
        cells[3..].iter().map(column).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

const FIRST: [&str; 3] = Style::Short.words().0;

/// The cells of a line. A quoted one may hold a comma, and a quotation mark written twice.
fn cells(line: &str) -> Vec<String> {
    let mut within = false;
    let at_comma = |c: char| {
        within ^= c == '"';
        c == ',' && !within
    };
    let bare = |cell: &str| {
        let cell = cell.trim();
        let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
        inner.map_or_else(|| cell.to_owned(), |inner| inner.replace("\"\"", "\""))
    };
    line.split(at_comma).map(bare).collect()
}

/// A reading's number, in its base unit.
fn number(reading: Reading<Value<'_>>) -> Option<f64> {
    match reading {
        Ok(Value::Uint(n)) => Some(Count(n).as_f64()),
        Ok(Value::Float(x)) => Some(x),
        Ok(Value::Text(_)) | Err(_) => None,
    }
}

/// The first line.
#[must_use]
pub fn header(style: Style, columns: &Columns) -> String {
    let (first, separator) = style.words();
    let first = first.into_iter().map(str::to_owned);
    let more = columns.0.iter().map(|column| quoted(&column.title()));
    first.chain(more).collect::<Vec<_>>().join(separator) + "\n"
}

/// A time as `nvidia-smi` prints it: local, to the millisecond.
#[must_use]
pub fn timestamp(wall: Duration, zone: &TimeZone) -> String {
    let at = Timestamp::UNIX_EPOCH.checked_add(wall).unwrap_or(Timestamp::MAX);
    let t = zone.to_datetime(at);
    let (year, month, day) = (t.year(), t.month(), t.day());
    let (hour, minute, second) = (t.hour(), t.minute(), t.second());
    let milli = t.millisecond();
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}.{milli:03}")
}

/// One line. Without a frame nothing has a value.
#[must_use]
pub fn row(at: String, frame: Option<&Frame>, gpu: u32, columns: &Columns) -> String {
    let gpu = frame.and_then(|f| f.snapshot.gpus.each().find(|one| one.index == gpu));
    // Adding zero takes the sign from a zero that was rounded from below.
    let degrees = |celsius: f64| format!("{:.0}", celsius.round() + 0.0);
    let or_nothing = |cell: Option<String>| cell.unwrap_or_else(|| NOTHING.to_owned());
    let mut out = vec![
        at,
        or_nothing(gpu.and_then(|gpu| gpu.temperature.ok()).map(|t| degrees(t.0))),
        or_nothing(gpu.and_then(|gpu| gpu.mean_power().ok()).map(|p| format!("{:.2} W", p.0))),
    ];
    if !columns.is_empty() {
        let known = frame.map(values).unwrap_or_default();
        out.extend(
            columns
                .0
                .iter()
                .map(|column| or_nothing(known.get(&column.name).map(|cell| quoted(cell)))),
        );
    }
    out.join(SEPARATOR) + "\n"
}

/// The cells of everything that a frame has a value of, by name.
fn values(frame: &Frame) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for field in fields::all() {
        (field.visit)(&frame.snapshot, &mut |key, reading| {
            let text = match reading {
                // Whole, where a float would lose the last digits.
                Ok(Value::Uint(n)) => Some(n.to_string()),
                other => number(other).map(|x| field.unit.plain_amount(x).to_string()),
            };
            all.extend(text.map(|text| (named(field.id, key), text)));
        });
    }
    all.extend(verdicts::of(frame).into_iter().map(|(name, state, _)| (name, state.to_owned())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_as_it_was_written() {
        let titles = [
            "meminfo.MemAvailable [B]",
            "gpu.utilization[0] [%]",
            "gpu.performance_state[0]",
            "hwmon.input[a \"b\", c [d]]",
            "thermal_zone.temp[a [C] [C]",
            "source[gpu]",
        ];
        for style in [Style::Short, Style::Smi] {
            let columns = titles.iter().filter_map(|title| Column::titled(title)).collect();
            let line = header(style, &Columns(columns));
            let again = Columns::parse(&line).unwrap();
            assert_eq!(again.0.iter().map(Column::title).collect::<Vec<_>>(), titles);
            assert_eq!(header(style, &again), line);
        }
        for wrong in ["", "timestamp,power.draw", "timestamp,temperature.gpu,power.draw,x"] {
            assert!(Columns::parse(wrong).is_err(), "{wrong:?}");
        }
        for unit in ["", " [GiB]"] {
            assert!(Column::titled(&format!("meminfo.MemFree{unit}")).is_none(), "{unit}");
        }
    }

    /// Readings and verdicts share a line, so a name must not be both.
    #[test]
    fn no_verdict_is_called_like_a_reading() {
        for verdict in VERDICTS {
            assert!(fields::named(verdict.name).is_none(), "{}", verdict.name);
        }
    }

    #[test]
    fn times_are_local() {
        let wall = Duration::from_millis(1_795_529_335_751);
        let at = |zone: &str| timestamp(wall, &TimeZone::posix(zone).unwrap());
        assert_eq!(at("UTC0"), "2026/11/24 14:08:55.751");
        assert_eq!(at("JST-9"), "2026/11/24 23:08:55.751");
        assert_eq!(at("EST5EDT,M3.2.0,M11.1.0"), "2026/11/24 09:08:55.751");
    }
}
