//! What a value of a setting must look like.

use super::paths;

/// The only value.
pub(super) fn one(values: &[String]) -> Result<&str, String> {
    match values {
        [one] if !one.is_empty() => Ok(one),
        [_] => Err("expected a value, found an empty one".to_owned()),
        _ => Err("expected one value, found a list".to_owned()),
    }
}

/// On or off.
pub(super) fn flag(values: &[String]) -> Result<bool, String> {
    let text = one(values)?;
    text.parse().map_err(|_| format!("expected true or false, found {text:?}"))
}

/// An absolute path.
pub(super) fn directory(values: &[String]) -> Result<std::path::PathBuf, String> {
    let path = one(values)?;
    if path.starts_with('/') {
        Ok(path.into())
    } else {
        Err(format!("expected an absolute path, found {path:?}"))
    }
}

/// Host and port of an address to listen on; no host means all addresses.
#[must_use]
pub fn split_address(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    // An IPv6 address without brackets would lose its last group to the port.
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    port.parse().ok().filter(|_| !bare_ipv6).map(|port| (host, port))
}

pub(super) fn address(text: &str) -> Result<(), String> {
    let unlike = || format!("expected HOST:PORT, [IPv6]:PORT or :PORT, found {text:?}");
    split_address(text).map(drop).ok_or_else(unlike)
}

pub(super) fn telemetry_path(path: &str) -> Result<(), String> {
    if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
        return Err(format!(
            "expected a path that begins with / and has no query, fragment or space, found {path:?}"
        ));
    }
    if paths::TAKEN.contains(&path) {
        return Err(format!("{path} is another page of this server"));
    }
    Ok(())
}

/// An Alertmanager's address, as the client can use it.
pub(super) fn alertmanager(url: &str) -> Result<String, String> {
    let rest =
        url.strip_prefix("http://").filter(|rest| !rest.is_empty() && !rest.starts_with('/'));
    match rest {
        Some(rest) if !rest.contains(['?', '#', '@', ' ']) => {
            Ok(url.trim_end_matches('/').to_owned())
        }
        _ => Err(format!("expected http://HOST:PORT or http://HOST:PORT/PATH, found {url:?}")),
    }
}

/// Whether a label can be called so.
///
/// # Errors
/// What was expected.
pub fn label_name(name: &str) -> Result<(), String> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(())
    } else {
        Err(format!("expected letters, digits and _ as a label's name, found {name:?}"))
    }
}

/// Whether a value can stand in one line.
pub(super) fn label_value(value: &str) -> bool {
    !value.chars().any(char::is_control)
}

/// A label and its value.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, found {text:?}"))?;
    label_name(name)?;
    if name == "alertname" || name == "severity" {
        return Err(format!("{name} is the alert's own"));
    }
    Ok((name.to_owned(), value.to_owned()))
}
