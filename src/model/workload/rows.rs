//! The processes' rows of the field table, and a process's identity as text.

use super::{CapSetting, Class, ClassName, Proc};
use crate::model::fields::{Field, Presence, put};
use crate::model::reading::{Missing, Quantity, Value};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::units::{Bytes, Count, Ratio, Seconds, Unit};
use std::fmt::Write;

/// The reading that says that a process is there and what it is.
pub const IS: &str = "processes.is";

impl Proc {
    /// What it is, as captures and scenarios write it: `vllm pid=214 parent=200 unit=docker cap=whole:0.5
    /// started=612.4`.
    #[must_use]
    pub fn is(&self) -> String {
        let mut text = self.class.as_str().to_owned();
        // Writing to a String cannot fail.
        let _ = write!(text, " pid={}", self.pid);
        if self.parent != 0 {
            let _ = write!(text, " parent={}", self.parent);
        }
        let _ = write!(text, " unit={} cap={}", self.unit, self.cap.kind().as_str());
        let _ = match self.cap {
            CapSetting::Whole(Ratio(share)) | CapSetting::FractionOfFree(Ratio(share)) => {
                write!(text, ":{share}")
            }
            CapSetting::KvOnly(Bytes(bytes)) => write!(text, ":{bytes}"),
            _ => Ok(()),
        };
        let _ = write!(text, " started={}", self.started.0);
        if self.worker {
            text.push_str(" worker");
        }
        if self.zombie {
            text.push_str(" zombie");
        }
        text
    }

    /// The process that such a text describes.
    ///
    /// # Errors
    /// What was expected.
    pub fn from_is(name: &str, text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let class = class(words.next().unwrap_or_default())?;
        let mut proc = Self::new(name, 0, class, Missing::NotPresent);
        proc.unit = "root".into();
        proc.cap = CapSetting::None;
        for word in words {
            proc.take(word)?;
        }
        if proc.pid == 0 {
            return Err(format!("expected pid=NUMBER in {text:?}"));
        }
        Ok(proc)
    }

    fn take(&mut self, word: &str) -> Result<(), String> {
        let number = |value: &str| {
            value.parse::<u32>().map_err(|_| format!("expected a whole number in {word:?}"))
        };
        match word.split_once('=') {
            None if word == "worker" => self.worker = true,
            None if word == "zombie" => self.zombie = true,
            Some(("pid", value)) => self.pid = number(value)?,
            Some(("parent", value)) => self.parent = number(value)?,
            Some(("unit", value)) if !value.is_empty() => self.unit = value.into(),
            Some(("started", value)) => {
                let seconds = value.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0);
                self.started =
                    Seconds(seconds.ok_or_else(|| format!("expected seconds in {word:?}"))?);
            }
            Some(("cap", value)) => self.cap = cap(value)?,
            _ => {
                return Err(format!(
                    "expected pid=, parent=, unit=, cap=, started=, worker or zombie, found {word:?}"
                ));
            }
        }
        Ok(())
    }
}

/// A class by its word; a word of the operator's own is one of its own.
fn class(word: &str) -> Result<ClassName, String> {
    if let Some(class) = Class::ALL.iter().find(|class| class.as_str() == word) {
        return Ok((*class).into());
    }
    let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if word.is_empty() || word.len() > 32 || !word.chars().all(fit) {
        let all: Vec<_> = Class::ALL.iter().map(|class| class.as_str()).collect();
        return Err(format!("expected a class, one of {}; found {word:?}", all.join(", ")));
    }
    Ok(ClassName { class: Class::Other, own: Some(word.into()) })
}

/// `whole:0.5`, `kv_only:36GiB`, `fraction_of_free:0.8`, `fixed`, `none`, `unknown`.
fn cap(text: &str) -> Result<CapSetting, String> {
    let (kind, value) = text.split_once(':').map_or((text, None), |(kind, v)| (kind, Some(v)));
    let share = |value: &str| {
        let share = value.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
        share.map(Ratio).ok_or_else(|| format!("expected a share such as 0.5, found {value:?}"))
    };
    match (kind, value) {
        ("whole", Some(value)) => Ok(CapSetting::Whole(share(value)?)),
        ("fraction_of_free", Some(value)) => Ok(CapSetting::FractionOfFree(share(value)?)),
        ("kv_only", Some(value)) => {
            let bytes = Unit::Bytes.parse(value, "B")?;
            Bytes::from_value(&Value::Float(bytes))
                .map(CapSetting::KvOnly)
                .ok_or_else(|| format!("expected an amount of memory, found {value:?}"))
        }
        ("fixed", None) => Ok(CapSetting::Fixed),
        ("none", None) => Ok(CapSetting::None),
        ("unknown", None) => Ok(CapSetting::Unknown),
        _ => Err(format!(
            "expected cap=whole:SHARE, kv_only:BYTES, fraction_of_free:SHARE, fixed, none or unknown, found {text:?}"
        )),
    }
}

/// A process by its name.
fn of<'a>(snapshot: &'a mut Snapshot, name: &str) -> Option<&'a mut Proc> {
    snapshot.processes.list.as_mut().ok()?.iter_mut().find(|proc| proc.name == name)
}

/// Begins, changes or ends a process.
fn set_is(snapshot: &mut Snapshot, name: &str, text: Result<&str, Missing>) -> bool {
    if name.is_empty() {
        return match text {
            Err(reason) => {
                snapshot.processes.list = Err(reason);
                true
            }
            Ok(_) => false,
        };
    }
    // Where none was to be seen until now this is the first one.
    if text.is_ok() && snapshot.processes.list.is_err() {
        snapshot.processes.list = Ok(Vec::new());
    }
    let Ok(list) = &mut snapshot.processes.list else { return false };
    let place = list.iter().position(|proc| proc.name == name);
    match (text, place) {
        (Err(_), Some(place)) => {
            list.remove(place);
            true
        }
        (Err(_), None) => false,
        (Ok(text), place) => {
            let Ok(new) = Proc::from_is(name, text) else { return false };
            match place {
                // Another program in the same place, but the same figures until they are said.
                Some(place) => {
                    let Proc { pid, parent, started, class, unit, cap, worker, zombie, .. } = new;
                    let old = list[place].clone();
                    list[place] =
                        Proc { pid, parent, started, class, unit, cap, worker, zombie, ..old };
                }
                None => list.push(new),
            }
            true
        }
    }
}

/// A row for a figure of each process.
macro_rules! of_process {
    ($id:literal, $unit:ident, $doc:literal, $field:ident) => {
        Field {
            id: $id,
            unit: Unit::$unit,
            presence: Presence::Optional,
            source: Source::Processes,
            doc: $doc,
            visit: |snapshot, out| match &snapshot.processes.list {
                Ok(list) => list.iter().for_each(|proc| {
                    let value = proc.$field.as_ref().map(Quantity::value).map_err(|m| *m);
                    out(&proc.name, value);
                }),
                Err(reason) => out("", Err(*reason)),
            },
            set: |snapshot, key, value| match (key, &value) {
                ("", Err(reason)) => {
                    snapshot.processes.list = Err(*reason);
                    true
                }
                _ => of(snapshot, key).is_some_and(|proc| put(&mut proc.$field, value)),
            },
        }
    };
}

/// A row for a figure of all of them together.
macro_rules! of_all {
    ($id:literal, $doc:literal, $field:ident) => {
        Field {
            id: $id,
            unit: Unit::Count,
            presence: Presence::Optional,
            source: Source::Processes,
            doc: $doc,
            visit: |snapshot, out| {
                out("", snapshot.processes.$field.map(|Count(n)| Value::Uint(n)));
            },
            set: |snapshot, key, value| {
                key.is_empty() && put(&mut snapshot.processes.$field, value)
            },
        }
    };
}

/// Rows of the processes that matter.
pub const FIELDS: &[Field] = &[
    Field {
        id: IS,
        unit: Unit::None,
        presence: Presence::Optional,
        source: Source::Processes,
        doc: " What a process is: its class, pid, parent, unit, cap, and when it started (seconds since boot). Nothing else of its command line is kept.",
        visit: |snapshot, out| match &snapshot.processes.list {
            Ok(list) => list.iter().for_each(|proc| out(&proc.name, Ok(Value::Text(&proc.is())))),
            Err(reason) => out("", Err(*reason)),
        },
        set: |snapshot, key, value| match value {
            Ok(Value::Text(text)) => set_is(snapshot, key, Ok(text)),
            Ok(_) => false,
            Err(reason) => set_is(snapshot, key, Err(reason)),
        },
    },
    of_process!("processes.resident", Bytes, " Resident memory of a process.", resident),
    of_process!(
        "processes.resident_peak",
        Bytes,
        " The most that was resident of it.",
        resident_peak
    ),
    of_process!("processes.anonymous", Bytes, " Its anonymous resident memory.", anonymous),
    of_process!("processes.file", Bytes, " Mapped files of it that are resident.", file),
    of_process!("processes.shared", Bytes, " Shared memory of it that is resident.", shared),
    of_process!("processes.locked", Bytes, " Memory of it that may not be swapped.", locked),
    of_process!("processes.swap", Bytes, " Its memory in swap.", swap),
    of_process!(
        "processes.major_faults",
        Count,
        " Its page faults that waited for a disk.",
        major_faults
    ),
    of_process!("processes.cpu", Seconds, " Its CPU time.", cpu),
    of_process!(
        "processes.group_current",
        Bytes,
        " What its control group accounts for. The GPU's memory is not in it.",
        group_current
    ),
    of_process!(
        "processes.group_limit",
        Bytes,
        " The limit of that, which does not bind the GPU's memory.",
        group_limit
    ),
    of_all!("processes.count", " Processes on the box.", count),
    of_all!("processes.denied", " Processes that may not be looked at.", denied),
    of_all!(
        "processes.left_out",
        " Processes that were not looked at in this round because there are too many.",
        left_out
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let texts = [
            "vllm pid=214 parent=200 unit=docker cap=whole:0.5 started=612.4",
            "vllm pid=215 parent=214 unit=docker cap=unknown started=613 worker",
            "ollama pid=7 unit=ollama cap=fixed started=0 zombie",
            "my_server pid=7 unit=root cap=kv_only:38654705664 started=1",
            "sglang pid=7 unit=user-1000 cap=fraction_of_free:0.85 started=1",
        ];
        for text in texts {
            assert_eq!(Proc::from_is("a", text).unwrap().is(), text);
        }
        let kv = Proc::from_is("a", "vllm pid=1 cap=kv_only:36GiB").unwrap();
        assert_eq!(kv.cap, CapSetting::KvOnly(Bytes::from_gib(36)));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, told) in [
            ("", "expected a class"),
            ("vLLM pid=1", "expected a class"),
            ("vllm", "expected pid="),
            ("vllm pid=x", "whole number"),
            ("vllm pid=1 cap=whole", "expected cap="),
            ("vllm pid=1 cap=whole:1.5", "a share"),
            ("vllm pid=1 cap=kv_only:-3GiB", "memory"),
            ("vllm pid=1 started=nan", "seconds"),
            ("vllm pid=1 --api-key=x", "expected pid="),
        ] {
            let error = Proc::from_is("a", text).unwrap_err();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }
}
