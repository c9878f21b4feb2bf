//! Small pieces that several kernel files share.

use super::files::{FileError, Files, ReadError};
use crate::model::reading::{Missing, Raw};

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

/// The number of a `123 kB` or `123` value.
///
/// # Errors
/// The value is not a number, or has a unit that the kernel does not use here.
pub fn kernel_number(value: &str) -> Result<Raw, Missing> {
    let mut words = value.split_ascii_whitespace();
    let number: u64 = words.next().and_then(|w| w.parse().ok()).ok_or(Missing::Malformed)?;
    match (words.next(), words.next()) {
        (None, _) => Ok(Raw::Plain(number)),
        (Some("kB"), None) => Ok(Raw::Kib(number)),
        _ => Err(Missing::Malformed),
    }
}

/// The text, if it ends as the kernel ends every table: with a line break. One that was cut short may
/// end within a number, which would then be taken for a smaller one.
///
/// # Errors
/// It does not.
pub fn whole<'a>(path: &str, text: &'a str) -> Result<&'a str, ReadError> {
    if text.is_empty() || text.ends_with('\n') {
        return Ok(text);
    }
    Err(ReadError::malformed(path, "its last line is cut short"))
}

/// The text without a last line that was cut short.
#[must_use]
pub fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

/// The digits at the end of `thermal_zone12`, for sorting by number and for checking that the rest
/// is the expected prefix.
#[must_use]
pub fn index_after(prefix: &str, name: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}
