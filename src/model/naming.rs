//! How an operator wants processes and their units to be called.

use super::workload::Class;
use std::sync::Arc;

/// A class's name has so many letters at most.
const MAX_CLASS: usize = 32;
/// A unit's name has so many bytes at most.
pub const MAX_UNIT: usize = 64;
/// Where units without a series of their own are added up; no unit may be called that.
pub const OTHER: &str = "other";
/// Names that stand for something else beside classes.
const RESERVED: &[&str] = &[OTHER, "total", "nobody", "unknown"];

/// How an operator wants processes to be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// Classes of the operator's own.
    pub own: Vec<OwnClass>,
    /// How units are named.
    pub units: UnitRules,
}

/// A class of the operator's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnClass {
    /// What it is called.
    pub name: Arc<str>,
    /// Names of programs, modules and scripts, or their beginnings and `*`.
    pub patterns: Vec<String>,
}

impl OwnClass {
    /// From `NAME=PATTERN[|PATTERN...]`.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, patterns) = text
            .split_once('=')
            .ok_or_else(|| format!("expected NAME=PATTERN[|PATTERN...], found {text:?}"))?;
        let name = name.trim();
        let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if name.is_empty() || name.len() > MAX_CLASS || !name.bytes().all(letters) {
            return Err(format!(
                "expected a name of lower-case letters, digits and _, at most {MAX_CLASS} of them, found {name:?}"
            ));
        }
        if RESERVED.contains(&name) || Class::ALL.iter().any(|class| class.as_str() == name) {
            return Err(format!("{name:?} is taken: choose a name that no class has"));
        }
        let patterns: Vec<String> =
            patterns.split('|').map(|pattern| pattern.trim().to_owned()).collect();
        for pattern in &patterns {
            let text = pattern.strip_suffix('*').unwrap_or(pattern);
            if text.is_empty() || text.contains('*') {
                return Err(format!(
                    "expected a program's name, or its beginning and *, found {pattern:?} for {name:?}"
                ));
            }
        }
        Ok(Self { name: name.into(), patterns })
    }

    /// As it is written.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}={}", self.name, self.patterns.join("|"))
    }
}

/// How units are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitRules {
    /// Whether a container is known by its id, and a pod by its uid.
    pub container_ids: bool,
    /// Names and what they become, the first that fits.
    pub map: Vec<(String, String)>,
}

/// Whether a unit's name may have it.
#[must_use]
pub const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '@' | ':' | '-')
}

impl UnitRules {
    /// A name and what it becomes, from `FROM=TO`. FROM may end in `*`.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse_map(text: &str) -> Result<(String, String), String> {
        let (from, to) =
            text.split_once('=').ok_or_else(|| format!("expected FROM=TO, found {text:?}"))?;
        let (from, to) = (from.trim(), to.trim());
        let plain = from.strip_suffix('*').unwrap_or(from);
        if from.is_empty() || !plain.chars().all(is_plain) {
            return Err(format!(
                "expected the name of a unit, or its beginning and *, before the =, found {from:?}"
            ));
        }
        if to.is_empty() || to.len() > MAX_UNIT || !to.chars().all(is_plain) {
            return Err(format!(
                "expected a name of letters, digits and _.@:-, at most {MAX_UNIT} of them, after the =, found {to:?}"
            ));
        }
        if to == OTHER {
            return Err(format!("{to:?} stands for the units without a series of their own"));
        }
        Ok((from.to_owned(), to.to_owned()))
    }
}
