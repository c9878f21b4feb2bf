//! Which column of a table holds what.

use crate::model::contention::ContentionState;
use crate::model::gpu::{ClockKind, EventReason};
use crate::model::reading::{Missing, Quantity, Reading, Value};
use crate::model::samples::{SampleOrigin, SamplePoint};
use crate::sources::gpu::smi::missing;
use crate::units::Seconds;
use std::collections::BTreeSet;

/// What makes a line a header.
const TIME: &str = "timestamp";
/// The first line of `sample` in its short style. nvidia-smi has a space behind each comma.
const SHORT: &str = "timestamp,temperature.gpu,power.draw";
/// Columns that tell GPUs apart, the best one first.
const IDENTITIES: [&[&str]; 5] = [
    &["index"],
    &["uuid", "gpu_uuid"],
    &["pci.bus_id", "gpu_bus_id"],
    &["serial", "gpu_serial"],
    &["name", "gpu_name"],
];

/// A figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Temperature,
    Power,
    Clock,
    Utilization,
    Reasons,
    /// One reason alone, by a word.
    Reason(EventReason),
    ThermalSeconds,
    Available,
    Throttle,
    Contention,
}

/// nvidia-smi's fields, each with the unit of its plain numbers. Of several for one figure, the first that
/// has a value counts. The graphics clock stands in for that of the SMs, which run at it.
const FIELDS: &[(Figure, &str, &str)] = &[
    (Figure::Temperature, "temperature.gpu", "C"),
    (Figure::Power, "power.draw.average", "W"),
    (Figure::Power, "power.draw", "W"),
    (Figure::Power, "power.draw.instant", "W"),
    (Figure::Clock, "clocks.sm", "MHz"),
    (Figure::Clock, "clocks.current.sm", "MHz"),
    (Figure::Clock, "clocks.gr", "MHz"),
    (Figure::Clock, "clocks.current.graphics", "MHz"),
    (Figure::Utilization, "utilization.gpu", "%"),
    (Figure::Reasons, "clocks_event_reasons.active", ""),
    (Figure::Reasons, "clocks_throttle_reasons.active", ""),
    (Figure::ThermalSeconds, "clocks_event_reasons_counters.sw_thermal_slowdown", "us"),
    (Figure::ThermalSeconds, "clocks_event_reasons_counters.hw_thermal_slowdown", "us"),
];

/// nvidia-smi's fields of one reason each, behind either of these.
const REASON_FAMILIES: [&str; 2] = ["clocks_event_reasons", "clocks_throttle_reasons"];
const REASONS: &[(&str, EventReason)] = &[
    ("gpu_idle", EventReason::Idle),
    ("applications_clocks_setting", EventReason::ApplicationClocks),
    ("sw_power_cap", EventReason::SwPowerCap),
    ("hw_slowdown", EventReason::HwSlowdown),
    ("hw_thermal_slowdown", EventReason::HwThermal),
    ("hw_power_brake_slowdown", EventReason::HwPowerBrake),
    ("sw_thermal_slowdown", EventReason::SwThermal),
    ("sync_boost", EventReason::SyncBoost),
];

/// Our own columns of one GPU: what they are of, the name before the bracket, and what follows the GPU's
/// number in it. The names are those of the field table and of the verdicts.
const READINGS: &[(Figure, &str, &str)] = &[
    (Figure::Temperature, "gpu.temperature", ""),
    (Figure::Power, "gpu.power_average", ""),
    (Figure::Power, "gpu.power", ""),
    (Figure::Clock, "gpu.clock", ClockKind::Sm.as_str()),
    (Figure::Utilization, "gpu.utilization", ""),
    (Figure::Reasons, "gpu.event_reasons", ""),
    (Figure::ThermalSeconds, "gpu.event_seconds", EventReason::SwThermal.as_str()),
    (Figure::ThermalSeconds, "gpu.event_seconds", EventReason::HwThermal.as_str()),
    (Figure::Throttle, "gpu.throttle", ""),
];
/// Our own columns of the box.
const OF_THE_BOX: [(Figure, &str); 2] =
    [(Figure::Available, "meminfo.MemAvailable"), (Figure::Contention, "jobs.contention")];

/// A column that is used.
#[derive(Clone, Debug)]
struct Column {
    figure: Figure,
    place: usize,
    name: String,
    /// Of numbers that have none.
    unit: String,
}

/// The columns of a table.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// How many cells a row has.
    pub(super) count: usize,
    /// Where the time is.
    pub(super) time: usize,
    /// Where the GPU's identity is, and whether it is the driver's index.
    pub(super) identity: Option<(usize, bool)>,
    /// The GPUs that our own columns are of.
    pub(super) members: BTreeSet<u32>,
    used: Vec<Column>,
}

/// A title's name and its unit. A name may itself have brackets, so only those behind a space count.
fn split(title: &str) -> (&str, &str) {
    match title.strip_suffix(']').and_then(|rest| rest.rsplit_once(" [")) {
        Some((name, unit)) => (name.trim_end(), unit),
        None => (title, ""),
    }
}

/// Whether a line is a header.
pub(super) fn is_header(cells: &[String]) -> bool {
    cells.iter().any(|cell| split(cell).0 == TIME)
}

/// Who writes such a header.
pub(super) fn origin(line: &str, columns: &Columns) -> SampleOrigin {
    if line == SHORT || !columns.members.is_empty() {
        SampleOrigin::Sample
    } else {
        SampleOrigin::NvidiaSmi
    }
}

impl Columns {
    /// Those of the usual three, which a file without a header has.
    pub(super) fn usual() -> Self {
        let titles: Vec<String> = SHORT.split(',').map(str::to_owned).collect();
        Self::header(&titles, None).unwrap_or(Self {
            count: titles.len(),
            time: 0,
            identity: None,
            members: BTreeSet::new(),
            used: Vec::new(),
        })
    }

    /// Those of a header, for one GPU.
    ///
    /// # Errors
    /// What was expected.
    pub(super) fn header(titles: &[String], gpu: Option<u32>) -> Result<Self, String> {
        let place = |name: &str| titles.iter().position(|title| split(title).0 == name);
        let find = |figure, name: &str, unit: &str| {
            let place = place(name)?;
            let own = split(&titles[place]).1;
            let unit = if own.is_empty() { unit } else { own }.to_owned();
            Some(Column { figure, place, name: name.to_owned(), unit })
        };
        let members: BTreeSet<u32> = titles.iter().filter_map(|t| member(split(t).0)).collect();
        if let Some(gpu) = gpu.filter(|gpu| !members.is_empty() && !members.contains(gpu)) {
            return Err(format!("expected columns of GPU {gpu}, found those of {members:?}"));
        }
        let own = gpu.or_else(|| members.first().copied());
        let readings = READINGS.iter().filter_map(|&(figure, id, kind)| {
            let dot = if kind.is_empty() { "" } else { "." };
            find(figure, &format!("{id}[{}{dot}{kind}]", own?), "")
        });
        let fields = FIELDS.iter().filter_map(|&(figure, name, unit)| find(figure, name, unit));
        let mut used: Vec<Column> = if gpu.is_some() && !members.is_empty() {
            // The first columns are of the GPU that `sample` was told, which may be another one.
            readings.collect()
        } else {
            fields.chain(readings).collect()
        };
        used.extend(OF_THE_BOX.iter().filter_map(|&(figure, name)| find(figure, name, "")));
        // Where there is no mask, one is made of those reasons that were asked for.
        if !used.iter().any(|column| column.figure == Figure::Reasons) {
            let names =
                REASON_FAMILIES.iter().flat_map(|family| REASONS.iter().map(move |r| (family, r)));
            used.extend(names.filter_map(|(family, (name, reason))| {
                find(Figure::Reason(*reason), &format!("{family}.{name}"), "")
            }));
        }
        let gives = |figure| used.iter().any(|column| column.figure == figure);
        if !gives(Figure::Temperature) && !gives(Figure::Power) {
            return Err("expected a column temperature.gpu or power.draw in the header".to_owned());
        }
        let identity = IDENTITIES.iter().enumerate().find_map(|(rank, names)| {
            names.iter().find_map(|name| place(name)).map(|place| (place, rank == 0))
        });
        let time = place(TIME).ok_or_else(|| format!("expected a column {TIME}"))?;
        Ok(Self { count: titles.len(), time, identity, members, used })
    }

    /// Fills a sample from a row.
    ///
    /// # Errors
    /// What was expected; nothing where the last cell is cut short.
    pub(super) fn fill(
        &self,
        cells: &[String],
        into: &mut SamplePoint,
    ) -> Result<(), Option<String>> {
        for column in &self.used {
            let text = cells[column.place].as_str();
            column.put(text, into).map_err(|what| {
                let last = column.place + 1 == cells.len();
                let cut = last && matches!(text.as_bytes(), [b'[', ..] | b"0x" | b"0X" | b"-");
                (!cut).then(|| format!("{}: {what}", column.name))
            })?;
        }
        Ok(())
    }
}

/// The GPU that one of our own columns is of.
fn member(name: &str) -> Option<u32> {
    let (id, key) = name.strip_suffix(']')?.split_once('[')?;
    let known = READINGS.iter().any(|(_, reading, _)| *reading == id);
    key.split('.').next()?.parse().ok().filter(|_| known)
}

/// The reason where a cell holds no value. Any whole bracket is a remark of nvidia-smi.
pub(super) fn absent(text: &str) -> Option<Missing> {
    let remark = text.is_empty() || (text.starts_with('[') && text.ends_with(']'));
    missing(text).or_else(|| remark.then_some(Missing::NotAvailable))
}

fn number<T: Quantity>(text: &str, unit: &str) -> Result<Reading<T>, String> {
    if let Some(reason) = absent(text) {
        return Ok(Err(reason));
    }
    let number = T::UNIT.parse(text, unit)?;
    Ok(T::from_value(&Value::Float(number)).ok_or(Missing::Malformed))
}

/// A mask: hexadecimal by nvidia-smi, a plain number by us.
fn mask(text: &str) -> Result<Reading<u64>, String> {
    if let Some(reason) = absent(text) {
        return Ok(Err(reason));
    }
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let bits = hex.map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    bits.map(Ok).map_err(|_| format!("expected a mask such as 0x0000000000000004, found {text:?}"))
}

/// A value stands until a better one; a reason stands until a value.
fn keep<T>(place: &mut Reading<T>, new: Reading<T>) {
    if place.is_err() && (new.is_ok() || matches!(place, Err(Missing::NotPresent))) {
        *place = new;
    }
}

impl Column {
    fn put(&self, text: &str, into: &mut SamplePoint) -> Result<(), String> {
        let unit = self.unit.as_str();
        match self.figure {
            Figure::Temperature => keep(&mut into.temperature, number(text, unit)?),
            Figure::Power => keep(&mut into.power, number(text, unit)?),
            Figure::Clock => keep(&mut into.clock, number(text, unit)?),
            Figure::Utilization => keep(&mut into.utilization, number(text, unit)?),
            Figure::Reasons => keep(&mut into.reasons, mask(text)?),
            Figure::Reason(reason) => {
                let on = match text {
                    "Active" => Ok(true),
                    "Not Active" => Ok(false),
                    _ => Err(absent(text)
                        .ok_or_else(|| format!("expected Active or Not Active, found {text:?}"))?),
                };
                match (&mut into.reasons, on) {
                    (Ok(mask), Ok(on)) => *mask |= if on { reason.bit() } else { 0 },
                    (mask, on) => keep(mask, on.map(|on| if on { reason.bit() } else { 0 })),
                }
            }
            Figure::Available => keep(&mut into.available, number(text, unit)?),
            Figure::ThermalSeconds => {
                let new: Reading<Seconds> = number(text, unit)?;
                match (&mut into.thermal_seconds, new) {
                    (Ok(old), Ok(new)) if new > *old => *old = new,
                    (old, new) => keep(old, new),
                }
            }
            Figure::Throttle => {
                into.throttle =
                    absent(text).is_none_or(|_| text == "unknown").then(|| text.to_owned());
            }
            // A state that this version does not know tells nothing.
            Figure::Contention => {
                let known = ContentionState::ALL.iter().find(|state| state.as_str() == text);
                into.contention = known.copied();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fields;

    /// The names are the tables' own.
    #[test]
    fn our_columns_are_readings_and_verdicts() {
        let of_gpus = READINGS.iter().map(|(figure, id, _)| (*figure, *id));
        for (figure, id) in of_gpus.chain(OF_THE_BOX) {
            if matches!(figure, Figure::Throttle | Figure::Contention) {
                let named = |v: &crate::catalog::verdicts::Verdict| v.name == id;
                assert!(crate::catalog::verdicts::VERDICTS.iter().any(named), "{id}");
            } else {
                assert!(fields::named(id).is_some(), "{id}");
            }
        }
        let available = fields::named(OF_THE_BOX[0].1).map(|(field, _)| field.unit);
        assert_eq!(available, Some(crate::units::Unit::Bytes));
    }
}
