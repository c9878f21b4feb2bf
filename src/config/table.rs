//! The settings, once each.

use super::checks::{flag, one};
pub use super::checks::{label_name, split_address};
use super::{Config, otlp, rows};
use crate::model::source::Source;
use crate::thresholds::Thresholds;
use crate::units::{GIB, Hertz, KIB, MIB, Unit};

/// One setting.
pub struct Row {
    /// Key in the YAML file, sections joined by dots. Flag and environment variable follow from it.
    pub key: &'static str,
    /// What stands for the value in the help.
    pub value_name: &'static str,
    /// Help.
    pub help: &'static str,
    /// A value for the example file, where nothing is the default.
    pub example: &'static str,
    /// Whether it may be given several times.
    pub many: bool,
    /// Which machine is read: `status` takes these too.
    pub machine: bool,
    /// The variable that OpenTelemetry's specification has for it.
    pub standard: Option<Standard>,
    /// Whether a reload takes it over.
    pub reloads: bool,
    /// Takes values over.
    pub(super) set: fn(&mut Config, &[String]) -> Result<(), String>,
    /// The value in force, as it would be written.
    pub show: fn(&Config) -> Vec<String>,
}

/// A variable of OpenTelemetry's specification, and how its value is written there.
#[derive(Clone, Copy)]
pub struct Standard {
    /// The variable.
    pub name: &'static str,
    /// Its value as values of the setting.
    pub read: fn(&str) -> Result<Vec<String>, String>,
}

impl Row {
    /// `--web.max-requests`, without the dashes in front.
    #[must_use]
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// `GB10_EXPORTER_WEB_MAX_REQUESTS`
    #[must_use]
    pub fn environment(&self) -> String {
        format!("GB10_EXPORTER_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// Whether a message may show a value that would not do: it may be a password.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.key.starts_with("otlp.")
            && ["headers", "endpoint"].iter().any(|end| self.key.ends_with(end))
    }

    /// Whether these values would do.
    ///
    /// # Errors
    /// What was expected.
    pub fn check(&self, values: &[String]) -> Result<(), String> {
        (self.set)(&mut Config::default(), values)
    }
}

/// Every setting but collectors and thresholds, which have tables of their own.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [rows::SERVING, otlp::ALL, otlp::METRICS, otlp::LOGS, otlp::ONCE, rows::MACHINE]
        .into_iter()
        .flatten()
}

/// One setting by its key.
fn row(key: &str) -> Option<&'static Row> {
    rows().find(|row| row.key == key)
}

/// The sources that are simply read or not.
pub fn switched() -> impl Iterator<Item = Source> {
    Source::ALL.iter().copied().filter(|source| *source != Source::Gpu)
}

/// Keys of collectors and thresholds begin with these.
pub const COLLECTOR: &str = "collector.";
/// See [`COLLECTOR`].
pub const THRESHOLD: &str = "thresholds.";

/// Every key that may be set.
pub fn keys() -> impl Iterator<Item = String> {
    rows()
        .map(|row| row.key.to_owned())
        .chain(switched().map(|source| format!("{COLLECTOR}{}", source.as_str())))
        .chain(Thresholds::ROWS.iter().map(|row| format!("{THRESHOLD}{}", row().name)))
}

/// Sets one setting.
pub(super) fn set(config: &mut Config, key: &str, values: &[String]) -> Result<(), String> {
    if let Some(row) = row(key) {
        return (row.set)(config, values);
    }
    if let Some(source) = key.strip_prefix(COLLECTOR).and_then(source_named) {
        config.collectors[source.index()] = flag(values)?;
        return Ok(());
    }
    if let Some(name) = key.strip_prefix(THRESHOLD)
        && let Some(row) = Thresholds::ROWS.iter().map(|row| row()).find(|row| row.name == name)
    {
        let text = one(values)?;
        let number = number(row.unit, text)?;
        if !(row.min..=row.max).contains(&number) {
            let (min, max) = (amount(row.unit, row.min), amount(row.unit, row.max));
            return Err(format!("expected {min} to {max}, found {text}"));
        }
        (row.set)(&mut config.thresholds, number);
        return Ok(());
    }
    Err(format!("unknown key{}", nearest(key, keys())))
}

/// A setting as it would be written, for any key; empty for one that is not set.
#[must_use]
pub fn shown(config: &Config, key: &str) -> Vec<String> {
    if let Some(row) = row(key) {
        return (row.show)(config);
    }
    if let Some(source) = key.strip_prefix(COLLECTOR).and_then(source_named) {
        return vec![config.collectors[source.index()].to_string()];
    }
    let name = key.strip_prefix(THRESHOLD).unwrap_or_default();
    let row = Thresholds::ROWS.iter().map(|row| row()).find(|row| row.name == name);
    row.map(|row| amount(row.unit, (row.get)(&config.thresholds))).into_iter().collect()
}

fn source_named(name: &str) -> Option<Source> {
    switched().find(|source| source.as_str() == name)
}

/// A number with a unit as an operator writes it: `4GiB`, `16 MiB/s`, `30s`, `5m`, `3`.
pub(super) fn number(unit: Unit, text: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, suffix) = (&text[..end], text[end..].trim());
    let units: &[(&str, f64)] = match unit {
        Unit::Bytes => {
            &[("GiB", exact(GIB)), ("MiB", exact(MIB)), ("KiB", exact(KIB)), ("B", 1.0), ("", 1.0)]
        }
        Unit::BytesPerSecond => {
            &[("GiB/s", exact(GIB)), ("MiB/s", exact(MIB)), ("KiB/s", exact(KIB)), ("", 1.0)]
        }
        Unit::Seconds => &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)],
        Unit::Watts | Unit::Celsius | Unit::Hertz => unit.written(),
        _ => &[("", 1.0)],
    };
    let expected = || {
        let names: Vec<_> =
            units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let with = if unit == Unit::Ratio {
            "a share such as 0.5".to_owned()
        } else if names.is_empty() && unit != Unit::Count {
            "a number".to_owned()
        } else if names.is_empty() {
            "a whole number".to_owned()
        } else {
            format!("a number with one of {}", names.join(", "))
        };
        format!("expected {with}, found {text:?}")
    };
    let factor = units.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor);
    let value: f64 = digits.parse().map_err(|_| expected())?;
    let value = value * factor.ok_or_else(expected)?;
    let whole = matches!(unit, Unit::Bytes | Unit::Count);
    if whole && value.fract() != 0.0 {
        return Err(expected());
    }
    Ok(value)
}

#[expect(clippy::cast_precision_loss, reason = "powers of two are exact")]
const fn exact(bytes: u64) -> f64 {
    bytes as f64
}

/// A number in a unit, as it is read back.
#[must_use]
pub fn amount(unit: Unit, value: f64) -> String {
    let scaled = |suffix: &str| {
        let (factor, name) = [(exact(GIB), "GiB"), (exact(MIB), "MiB"), (exact(KIB), "KiB")]
            .into_iter()
            .find(|(factor, _)| value >= *factor && (value / factor * 4.0).fract() == 0.0)
            .unwrap_or((1.0, if suffix.is_empty() { "B" } else { "" }));
        if name.is_empty() {
            format!("{value}")
        } else {
            format!("{}{name}{suffix}", value / factor)
        }
    };
    match unit {
        Unit::Bytes => scaled(""),
        Unit::BytesPerSecond => scaled("/s"),
        Unit::Seconds => format!("{value}s"),
        Unit::Watts => format!("{value}W"),
        Unit::Celsius => format!("{value}C"),
        Unit::Hertz => format!("{}MHz", value / Hertz::from_mega(1).0),
        _ => value.to_string(),
    }
}

/// `; did you mean "x"?`, when one of the names is near enough to be meant.
pub(super) fn nearest<S: AsRef<str>>(given: &str, names: impl Iterator<Item = S>) -> String {
    let best = names
        .map(|name| (distance(given, name.as_ref()), name))
        .min_by_key(|(distance, _)| *distance);
    match best {
        Some((distance, name)) if distance <= given.len().div_ceil(3).max(2) => {
            format!("; did you mean {:?}?", name.as_ref())
        }
        _ => String::new(),
    }
}

/// Edits that turn one word into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_shown() {
        for row in Thresholds::ROWS.iter().map(|row| row()) {
            for value in [row.default, row.min, row.max] {
                let text = amount(row.unit, value);
                assert_eq!(number(row.unit, &text), Ok(value), "{}: {text}", row.name);
            }
        }
        assert_eq!(number(Unit::Bytes, "4 GiB"), Ok(4_294_967_296.0));
        assert_eq!(number(Unit::Seconds, "5m"), Ok(300.0));
        for (unit, text) in [
            (Unit::Bytes, "4GB"),
            (Unit::Bytes, "many"),
            (Unit::Bytes, "-1"),
            (Unit::Bytes, "1.00001KiB"),
            (Unit::Seconds, "10 minutes"),
            (Unit::Count, "3s"),
            (Unit::Count, "3.5"),
        ] {
            assert!(number(unit, text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_nearest_name_is_offered_when_it_is_near() {
        assert_eq!(distance("kitten", "sitting"), 3);
        let names = || ["web.listen_address", "web.max_requests"].into_iter();
        assert_eq!(nearest("web.max_request", names()), "; did you mean \"web.max_requests\"?");
        assert_eq!(nearest("colour", names()), "");
    }

    #[test]
    fn every_row_takes_its_own_default_or_example() {
        for row in rows() {
            let shown = (row.show)(&Config::default());
            assert_eq!(shown.is_empty(), !row.example.is_empty(), "{}", row.key);
            let value = if shown.is_empty() { vec![row.example.to_owned()] } else { shown };
            assert_eq!(row.check(&value), Ok(()), "{}", row.key);
        }
        assert!(keys().count() > 30);
    }
}
