//! The configuration file: YAML, read key by key so that every error knows its place.

use super::table::{self, nearest};
use super::{Config, Origin};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a configuration file is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{path} cannot be read", path = .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// Something in it is wrong.
    #[error("{}", place(.path, *.at, .what))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line and column, from 1, where the parser knows them.
        at: Option<(usize, usize)>,
        /// The key and what was expected there.
        what: String,
    },
}

fn place(path: &Path, at: Option<(usize, usize)>, what: &str) -> String {
    match at {
        Some((line, column)) => format!("{}:{line}:{column}: {what}", path.display()),
        None => format!("{}: {what}", path.display()),
    }
}

/// Applies the text of a file to a configuration.
///
/// # Errors
/// The first mistake, with its place.
pub fn apply(path: &Path, text: &str, config: &mut Config) -> Result<(), FileError> {
    let said = RefCell::new(None);
    let section = Section { prefix: String::new(), config: &RefCell::new(config), said: &said };
    let result = section.deserialize(serde_yaml::Deserializer::from_str(text));
    result.map_err(|error| {
        let at = error.location().map(|l| (l.line(), l.column()));
        let what = tidy(&said.take().unwrap_or_else(|| in_its_own_words(&error)));
        FileError::Wrong { path: path.to_owned(), at, what }
    })
}

/// What the parser says, for what is not YAML at all. It repeats the place at the end.
fn in_its_own_words(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let end = text.find(" at line ").unwrap_or(text.len());
    match &text[..end] {
        words if words.contains("more than one document") => {
            "expected one YAML document, found several".to_owned()
        }
        words if words.contains("invalid type") => {
            format!("expected plain YAML without tags: {words}")
        }
        words => format!("not YAML: {words}"),
    }
}

/// As it may stand in one line of a log: without control characters, and not without end.
fn tidy(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    if text.chars().count() > LONGEST {
        line.push_str("...");
    }
    line
}

/// Checks the settings together, and says where in the file the mistake is.
///
/// # Errors
/// The first contradiction.
pub fn consistent(path: &Path, text: &str, config: &Config) -> Result<(), FileError> {
    config.contradictions().map_err(|wrong| FileError::Wrong {
        path: path.to_owned(),
        at: wrong.keys.iter().find_map(|key| line_of(text, key)).map(|line| (line, 1)),
        what: format!("{}: {}", wrong.keys[0], wrong.what),
    })
}

/// The line that holds a key, for mistakes that are found after parsing: by its last part, or by more
/// of it where the file joins sections with dots.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let ends = key.match_indices('.').map(|(at, _)| &key[at + 1..]).chain([key]);
    let starts: Vec<String> = ends.map(|end| format!("{end}:")).collect();
    let holds = |line: &str| starts.iter().any(|start| line.trim_start().starts_with(start));
    text.lines().position(holds).map(|line| line + 1)
}

/// One mapping of the file: the whole, or a section of it.
struct Section<'a, 'c> {
    prefix: String,
    config: &'a RefCell<&'c mut Config>,
    /// What to tell the operator; the parser adds the place.
    said: &'a RefCell<Option<String>>,
}

impl Section<'_, '_> {
    /// Remembers what to tell, and fails.
    fn fail<E: serde::de::Error>(&self, what: String) -> E {
        *self.said.borrow_mut() = Some(what);
        E::custom("refused")
    }

    /// Whether keys begin with this section's name.
    fn is_section(key: &str) -> bool {
        let below = format!("{key}.");
        table::keys().any(|known| known.starts_with(&below))
    }
}

impl<'de> DeserializeSeed<'de> for Section<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Section<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section")
    }

    /// An empty section sets nothing.
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    /// Nor does an empty file.
    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let name = self.prefix.trim_end_matches('.');
        let name = if name.is_empty() { "the file" } else { name };
        Err(self.fail(format!("{name}: expected settings (\"key: value\" lines), found {text:?}")))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.visit_str(&value.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.visit_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(key) = map.next_key_seed(Key { section: &self, seen: &seen })? {
            let full = format!("{}{key}", self.prefix);
            seen.push(key);
            if Self::is_section(&full) && !table::keys().any(|known| known == full) {
                let prefix = format!("{full}.");
                map.next_value_seed(Section { prefix, config: self.config, said: self.said })?;
            } else {
                map.next_value_seed(Setting { section: &self, key: full })?;
            }
        }
        Ok(())
    }
}

/// `; did you mean "log.level"?` for a key whose section was left out.
fn elsewhere(key: &str) -> String {
    let end = format!(".{key}");
    table::keys()
        .find(|known| known.ends_with(&end))
        .map(|known| format!("; did you mean {known:?}?"))
        .unwrap_or_default()
}

/// What may stand directly below a section: settings and sections.
fn children(prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for key in table::keys() {
        let Some(name) = key.strip_prefix(prefix).and_then(|rest| rest.split('.').next()) else {
            continue;
        };
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// A key of a section: known, and there once.
struct Key<'a, 'b, 'c> {
    section: &'a Section<'b, 'c>,
    seen: &'a [String],
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_, '_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key<'_, '_, '_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        let full = format!("{}{key}", self.section.prefix);
        if key == "<<" {
            return Err(self.section.fail("merge keys (<<) are not supported here".to_owned()));
        }
        if self.seen.iter().any(|seen| seen == key) {
            return Err(self.section.fail(format!("{full}: this key is there twice")));
        }
        if table::keys().any(|known| known == full) || Section::is_section(&full) {
            return Ok(key.to_owned());
        }
        let prefix = &self.section.prefix;
        let here = children(prefix);
        let near =
            nearest(&full, table::keys().chain(here.iter().map(|name| format!("{prefix}{name}"))));
        let near = if near.is_empty() { elsewhere(key) } else { near };
        let near =
            if near.is_empty() { format!("; expected one of {}", here.join(", ")) } else { near };
        Err(self.section.fail(format!("{full}: unknown key{near}")))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<String, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<String, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<String, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<String, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<String, E> {
        self.visit_str("~")
    }
}

/// The value of a setting: one scalar, or a list of them.
struct Setting<'a, 'b, 'c> {
    section: &'a Section<'b, 'c>,
    key: String,
}

impl Setting<'_, '_, '_> {
    fn set<E: serde::de::Error>(self, values: &[String]) -> Result<(), E> {
        // Whether joined by dots or nested: once is enough.
        if self.section.config.borrow().origin(&self.key) == Origin::File {
            return Err(self.section.fail(format!("{}: this key is there twice", self.key)));
        }
        let result = self.section.config.borrow_mut().set(&self.key, values, Origin::File);
        result.map_err(|what| self.section.fail(format!("{}: {what}", self.key)))
    }
}

impl<'de> DeserializeSeed<'de> for Setting<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Setting<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.set(&[value.to_owned()])
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.set(&[value.to_string()])
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.set(&[value.to_string()])
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.set(&[value.to_string()])
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.set(&[value.to_string()])
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<(), E> {
        self.set(&[value.to_string()])
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<(), E> {
        self.set(&[value.to_string()])
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.set(&[String::new()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut values = Vec::new();
        while let Some(item) = items.next_element::<serde_yaml::Value>()? {
            match item {
                serde_yaml::Value::String(text) => values.push(text),
                serde_yaml::Value::Number(number) => values.push(number.to_string()),
                serde_yaml::Value::Bool(on) => values.push(on.to_string()),
                _ => {
                    let what = format!("{}: expected a list of plain values", self.key);
                    return Err(self.section.fail(what));
                }
            }
        }
        // A list of one is a list all the same where one value is expected.
        let row = table::rows().find(|row| row.key == self.key);
        if row.is_none_or(|row| !row.many) {
            let what = format!("{}: expected one value, found a list", self.key);
            return Err(self.section.fail(what));
        }
        self.set(&values)
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        let what = format!("{}: expected a value, found a section", self.key);
        Err(A::Error::custom(self.section.fail::<A::Error>(what)))
    }
}
