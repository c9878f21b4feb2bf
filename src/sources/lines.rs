//! Small pieces that several kernel files share.

use super::files::{FileError, Files, ReadError};
use crate::model::reading::Missing;

/// A file with one whole number.
///
/// # Errors
/// The file's failure, or what it said instead of a number.
pub fn number(files: &dyn Files, path: &str) -> Result<u64, ReadError> {
    let text = files.text(path).map_err(|e| e.at(path))?;
    text.trim().parse().map_err(|_| {
        ReadError::malformed(path, format!("expected a whole number, found {}", shown(&text)))
    })
}

/// A file with one whole number that may be negative.
///
/// # Errors
/// The file's failure, or what it said instead of a number.
pub fn signed(files: &dyn Files, path: &str) -> Result<i64, ReadError> {
    let text = files.text(path).map_err(|e| e.at(path))?;
    text.trim().parse().map_err(|_| {
        ReadError::malformed(path, format!("expected a whole number, found {}", shown(&text)))
    })
}

/// A file with one line of text; an empty one counts as not present.
///
/// # Errors
/// The file's failure.
pub fn word(files: &dyn Files, path: &str) -> Result<String, ReadError> {
    let text = files.text(path).map_err(|e| e.at(path))?;
    match text.trim() {
        "" => Err(FileError::NotPresent.at(path)),
        line => Ok(label(line)),
    }
}

/// Text of the machine as it may be shown: one line, no control characters, of bounded length.
#[must_use]
pub fn label(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(128).collect()
}

/// What a file held, short enough for an error message.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut line = label(text.lines().next().unwrap_or_default());
    if line.chars().count() > 40 {
        line = line.chars().take(40).chain("...".chars()).collect();
    }
    format!("{line:?}")
}

/// The number of a `123 kB` or `123` value, in base units.
///
/// # Errors
/// The value is not a number, or has a unit that the kernel does not use here.
pub fn kernel_number(value: &str) -> Result<u64, Missing> {
    let mut words = value.split_ascii_whitespace();
    let number: u64 = words.next().and_then(|w| w.parse().ok()).ok_or(Missing::Malformed)?;
    match (words.next(), words.next()) {
        (None, _) => Ok(number),
        (Some("kB"), None) => number.checked_mul(crate::units::KIB).ok_or(Missing::Malformed),
        _ => Err(Missing::Malformed),
    }
}

/// The digits at the end of `thermal_zone12`, for sorting by number and for checking that the rest
/// is the expected prefix.
#[must_use]
pub fn index_after(prefix: &str, name: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}
