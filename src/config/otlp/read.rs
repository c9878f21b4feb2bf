//! What values of these settings must look like, in flags and in variables of the specification.

use super::super::checks::{label_value, one};
use super::super::table::number;
use super::{HIDDEN, Secret};
use crate::units::Unit;
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn endpoint(values: &[String]) -> Result<String, String> {
    let url = one(values)?;
    // A password in a URL would be shown wherever the URL is, this message included.
    let shown = if url.contains('?') { String::new() } else { format!(", found {url:?}") };
    let wrong = || format!("expected http://HOST:PORT or https://HOST:PORT{shown}");
    if url.contains('@') {
        let cure = "without user and password, which otlp.headers_file can send";
        return Err(format!("expected http://HOST:PORT or https://HOST:PORT {cure}"));
    }
    let rest = match url.split_once("://") {
        Some(("http" | "https", rest)) => rest,
        // gRPC's clients take a plain HOST:PORT too.
        None if url.contains(':') => url,
        _ => return Err(wrong()),
    };
    if rest.is_empty() || rest.starts_with('/') || rest.contains([' ', '#']) {
        return Err(wrong());
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    if port.is_some_and(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(wrong());
    }
    Ok(url.to_owned())
}

/// The endpoint of all signals, to which their paths are added.
pub(super) fn base(values: &[String]) -> Result<String, String> {
    let url = endpoint(values)?;
    if url.contains('?') {
        return Err(
            "expected an address without a query: the path of each signal follows".to_owned()
        );
    }
    Ok(url)
}

pub(super) fn named<T: Copy>(
    values: &[String],
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let text = one(values)?;
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|value| name(*value)).collect();
        format!("expected one of {}, found {text:?}", names.join(", "))
    })
}

pub(super) fn time(values: &[String], from: f64, to: f64) -> Result<Duration, String> {
    let text = one(values)?;
    let seconds = number(Unit::Seconds, text)?;
    if (from..=to).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("expected {from}s to {to}s, found {text}"))
    }
}

pub(super) fn file(values: &[String]) -> Result<PathBuf, String> {
    one(values).map(Into::into)
}

/// Headers that say what the body is, which only the sender knows.
const OURS: [&str; 6] =
    ["content-type", "content-encoding", "content-length", "host", "te", "transfer-encoding"];

/// A header from `NAME=VALUE`. No message has any of it that may be a password: who writes a colon as in
/// HTTP has it before the first =.
///
/// # Errors
/// What was expected.
pub fn header(text: &str) -> Result<(String, Secret), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| "expected NAME=VALUE, found no =".to_owned())?;
    if name.contains(':') {
        return Err("expected NAME=VALUE, found NAME: VALUE".to_owned());
    }
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err("expected letters, digits and - as a header's name, before the =".to_owned());
    }
    if OURS.contains(&name.as_str()) {
        return Err(format!("{name} is the exporter's own"));
    }
    if value == HIDDEN {
        return Err(format!(
            "expected the value of {name}, found what `config` shows in its place"
        ));
    }
    if !value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        return Err(format!("expected printable ASCII as the value of {name}"));
    }
    Ok((name, Secret(value.to_owned())))
}

pub(super) fn headers(values: &[String]) -> Result<Vec<(String, Secret)>, String> {
    let all: Vec<_> = values.iter().map(|value| header(value)).collect::<Result<_, _>>()?;
    match all.iter().enumerate().find(|(i, (name, _))| all[..*i].iter().any(|(n, _)| n == name)) {
        Some((_, (name, _))) => Err(format!("{name} is there twice")),
        None => Ok(all),
    }
}

/// An attribute from `NAME=VALUE`.
pub(super) fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && label_value(value) => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("expected NAME=VALUE, found {text:?}")),
    }
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

/// A plain value of a standard variable.
#[expect(clippy::unnecessary_wraps, reason = "one shape for whatever reads a variable")]
pub(super) fn plain(text: &str) -> Result<Vec<String>, String> {
    Ok(vec![text.trim().to_owned()])
}

/// Times are whole milliseconds there.
pub(super) fn milliseconds(text: &str) -> Result<Vec<String>, String> {
    let number: u64 =
        text.trim().parse().map_err(|_| format!("expected milliseconds, found {text:?}"))?;
    Ok(vec![format!("{number}ms")])
}

/// Anything but true is false there.
#[expect(clippy::unnecessary_wraps, reason = "one shape for whatever reads a variable")]
pub(super) fn boolean(text: &str) -> Result<Vec<String>, String> {
    Ok(vec![text.trim().eq_ignore_ascii_case("true").to_string()])
}

/// Which exporters send a signal: this one knows how to send OTLP, and leaves the others to others.
#[expect(clippy::unnecessary_wraps, reason = "one shape for whatever reads a variable")]
pub(super) fn exporters(text: &str) -> Result<Vec<String>, String> {
    Ok(vec![text.split(',').any(|name| name.trim() == "otlp").to_string()])
}

/// A list of `NAME=VALUE`, separated by commas, with percent signs before what would be misread.
pub(super) fn list(text: &str) -> Result<Vec<String>, String> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let decoded = percent_encoding::percent_decode_str(entry).decode_utf8();
            decoded.map(std::borrow::Cow::into_owned).map_err(|_| "expected UTF-8 text".to_owned())
        })
        .collect()
}
