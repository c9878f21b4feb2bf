//! The processes of a recorded machine: `==> processes`, a reading a line.

use crate::model::fields::{Field, Group, named};
use crate::model::moment::Moment;
use crate::model::reading::{Missing, Reading, Value};
use crate::model::snapshot::Snapshot;
use crate::model::workload::{FIELDS, IS, Proc, Processes};
use crate::units::Unit;
use std::fmt::Write;
use std::time::Duration;

/// What opens the section.
pub(super) const TITLE: &str = "processes";
/// Where processes are on a live machine.
pub(super) const PATH: &str = "/proc/PID";
/// The readings' ids begin with this, which a line of the section leaves out.
const PREFIX: &str = "processes.";

/// A machine of which nothing but the processes is known.
fn alone(processes: Processes) -> Snapshot {
    let never = Moment { mono: Duration::ZERO, wall: Duration::ZERO };
    Snapshot { processes, ..Snapshot::absent(never, Missing::NotPresent) }
}

/// The processes that these lines tell; an error has the number of the line within them, from 0.
pub(super) fn parse(body: &[&str]) -> Result<Processes, (usize, String)> {
    let mut machine = alone(Processes::absent(Missing::NotPresent));
    // Said to be recorded: a machine may well have none that matters.
    machine.processes.list = Ok(Vec::new());
    for (i, line) in body.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        take(&mut machine, line).map_err(|what| (i, what))?;
    }
    Ok(machine.processes)
}

fn take(machine: &mut Snapshot, line: &str) -> Result<(), String> {
    let (key, text) = line
        .split_once(" = ")
        .ok_or_else(|| format!("expected \"READING[PROCESS] = VALUE\", found {line:?}"))?;
    let (key, text) = (key.trim(), text.trim());
    let name = format!("{PREFIX}{key}");
    let (field, member) = named(&name).ok_or_else(|| {
        let all: Vec<_> = FIELDS.iter().map(short).collect();
        format!("{key:?} is no reading of processes; there are {}", all.join(", "))
    })?;
    let value = match text.strip_prefix('!') {
        Some(reason) => {
            let reason = Missing::ALL.iter().find(|missing| missing.as_str() == reason);
            Err(*reason.ok_or_else(|| format!("{text} is no reason of gb10_reading_missing"))?)
        }
        None if field.unit == Unit::None => {
            Proc::from_is(member, text)?;
            if machine.processes.list.iter().flatten().any(|proc| proc.name == member) {
                return Err(format!("{key} is there twice"));
            }
            Ok(Value::Text(text))
        }
        None => Ok(Value::Float(field.unit.parse(text, field.unit.plain().0)?)),
    };
    if (field.set)(machine, member, value) {
        return Ok(());
    }
    if field.id != IS && !member.is_empty() {
        return Err(format!("{key}: is[{member}] must come before it"));
    }
    Err(format!("{key} cannot be {text}"))
}

/// A reading's name within the section.
fn short(field: &Field) -> &'static str {
    field.id.strip_prefix(PREFIX).unwrap_or(field.id)
}

/// The lines that tell these processes; what is not there is left out.
pub(super) fn lines(processes: &Processes) -> String {
    let machine = alone(processes.clone());
    let mut out = String::new();
    for field in FIELDS {
        (field.visit)(&machine, &mut |member, reading| {
            let name = match member {
                "" => short(field).to_owned(),
                member => format!("{}[{member}]", short(field)),
            };
            if let Some(value) = shown(reading) {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{name} = {value}");
            }
        });
    }
    out
}

fn shown(reading: Reading<Value<'_>>) -> Option<String> {
    match reading {
        Ok(Value::Uint(n)) => Some(n.to_string()),
        Ok(Value::Float(x)) => Some(x.to_string()),
        Ok(Value::Text(text)) => Some(text.to_owned()),
        Err(Missing::NotPresent) => None,
        Err(reason) => Some(format!("!{}", reason.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "is[1] = vllm pid=1 unit=docker cap=whole:0.5 started=612.4\n\
                        is[2] = vllm pid=2 parent=1 unit=docker cap=unknown started=613\n\
                        resident[1] = 1932735283\n\
                        resident[2] = !denied\n\
                        cpu[1] = 12.5\n\
                        group_current[1] = 8589934592\n\
                        count = 312\n\
                        denied = 0\n";

    fn read(text: &str) -> Result<Processes, (usize, String)> {
        parse(&text.lines().collect::<Vec<_>>())
    }

    #[test]
    fn what_is_written_is_read() {
        let processes = read(TEXT).unwrap();
        assert_eq!(processes.list.as_ref().unwrap().len(), 2);
        assert_eq!(lines(&processes), TEXT);
        assert_eq!(read(&lines(&processes)).unwrap(), processes);
        assert_eq!(read("").unwrap().list, Ok(Vec::new()));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, line, told) in [
            ("is[1] = vllm", 0, "expected pid="),
            ("is[1] = vllm pid=1\nis[1] = vllm pid=1", 1, "twice"),
            ("resident[1] = 5", 0, "must come before"),
            ("is[1] = vllm pid=1\nresident[1] = 5 W", 1, "5 W"),
            ("cmdline[1] = x", 0, "no reading"),
            ("count: 7", 0, "expected \"READING"),
            ("count = !gone", 0, "no reason"),
            ("count = -3", 0, "cannot be"),
        ] {
            let (at, what) = read(text).unwrap_err();
            assert!(at == line && what.contains(told), "{text:?}: {at} {what}");
        }
    }
}
