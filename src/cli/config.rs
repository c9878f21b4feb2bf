//! `config`, `config check` and `thresholds`: what is in force, and who decided it.

use super::print;
use super::settings::{Given, read};
use crate::config::table::{COLLECTOR, THRESHOLD, amount, rows, switched};
use crate::config::{Config, Origin, file};
use crate::thresholds::Thresholds;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the configuration in force as a file that could be given back, with who decided each line.
pub(super) fn show(given: &Given<true>) -> anyhow::Result<ExitCode> {
    print(effective(&given.config()?).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Says whether a file would be accepted.
pub(super) fn check(path: &Path) -> anyhow::Result<ExitCode> {
    let mut config = Config::default();
    let text = read(path)?;
    file::apply(path, &text, &mut config)?;
    file::consistent(path, &text, &config)?;
    let keys = crate::config::table::keys().filter(|key| config.origin(key) == Origin::File);
    print(format!("{}: fine, {} settings\n", path.display(), keys.count()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints every number that decides.
pub(super) fn thresholds(given: &Given<true>) -> anyhow::Result<ExitCode> {
    let config = given.config()?;
    let mut out = String::new();
    for row in Thresholds::ROWS.iter().map(|row| row()) {
        let key = format!("{THRESHOLD}{}", row.name);
        let shown = |value| amount(row.unit, value);
        let (value, default) = (shown((row.get)(&config.thresholds)), shown(row.default));
        let (min, max) = (shown(row.min), shown(row.max));
        let origin = config.origin(&key).as_str();
        writeln!(out, "{} = {value}  ({origin}; default {default}, {min} to {max})", row.name)?;
        writeln!(out, "    {}", row.doc.split_whitespace().collect::<Vec<_>>().join(" "))?;
        writeln!(out, "    Why: {}", row.provenance)?;
    }
    print(out.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration as YAML. Plain and quoted scalars only, so that it needs no serializer and the
/// remarks stay beside their lines.
fn effective(config: &Config) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for row in rows() {
        let values = (row.show)(config);
        let text = match (row.many, values.as_slice()) {
            (true, many) => {
                format!("[{}]", many.iter().map(|v| quoted(v)).collect::<Vec<_>>().join(", "))
            }
            (false, [one]) => quoted(one),
            (false, _) => continue,
        };
        lines.push((row.key.to_owned(), text));
    }
    for source in switched() {
        let key = format!("{COLLECTOR}{}", source.as_str());
        lines.push((key, config.collectors[source.index()].to_string()));
    }
    for row in Thresholds::ROWS.iter().map(|row| row()) {
        let value = amount(row.unit, (row.get)(&config.thresholds));
        lines.push((format!("{THRESHOLD}{}", row.name), value));
    }
    let mut out = String::new();
    let mut open: Vec<&str> = Vec::new();
    for (key, value) in &lines {
        let parts: Vec<&str> = key.split('.').collect();
        let (name, sections) = parts.split_last().unwrap_or((&"", &[]));
        let same = open.iter().zip(sections).take_while(|(a, b)| a == b).count();
        open.truncate(same);
        for section in &sections[same..] {
            let _ = writeln!(out, "{}{section}:", "  ".repeat(open.len()));
            open.push(section);
        }
        let indent = "  ".repeat(open.len());
        let line = format!("{indent}{name}: {value}");
        let _ = writeln!(out, "{line:<44} # {}", config.origin(key).as_str());
    }
    out
}

/// A scalar that YAML reads back as the same text.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back_as_the_same() {
        let mut config = Config::default();
        for (key, values) in [
            ("web.listen_address", vec!["[::1]:1".to_owned(), ":2".to_owned()]),
            ("state.directory", vec!["/a b/it's".to_owned()]),
            ("collector.hwmon", vec!["false".to_owned()]),
            ("thresholds.pool.reserve", vec!["6GiB".to_owned()]),
        ] {
            config.set(key, &values, Origin::Flag).unwrap();
        }
        let text = effective(&config);
        let mut back = Config::default();
        file::apply(Path::new("printed"), &text, &mut back)
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(effective(&back).replace("# file", ""), {
            let origins = ["# default", "# flag"];
            let mut want = text;
            for origin in origins {
                want = want.replace(origin, "");
            }
            want
        });
        assert_eq!((back.listen, back.thresholds), (config.listen, config.thresholds));
    }
}
