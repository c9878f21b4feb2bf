//! The fields of `nvidia-smi --query-gpu`: one row of a table each, with every name it goes by and
//! the place where its value belongs.

use super::super::gather::{
    CLOCK, MARGIN, MAX_GPUS, PERFORMANCE_STATE, POWER, TEMPERATURE, UTILIZATION, hertz, watts,
};
use crate::model::gpu::{ClockKind, EventReason, Gpu, TIMED};
use crate::model::reading::{Missing, Reading};
use crate::sources::lines::label;
use crate::units::{Bytes, Celsius, Count, MIB, Ratio, Seconds};
use std::cell::Cell;
use std::ops::RangeInclusive;

/// A field.
pub(super) struct Field {
    /// Its names: what it is asked for by, what is tried where a driver does not know that, and what
    /// the header of the answer may call it.
    pub(super) names: &'static [&'static str],
    /// Puts the value in its place.
    pub(super) take: fn(&mut Row, &Value<'_>),
}

/// What one row says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) index: Reading<u32>,
    pub(super) driver: Reading<String>,
    pub(super) gpu: Gpu,
    pub(super) total: Reading<Bytes>,
    pub(super) free: Reading<Bytes>,
    pub(super) used: Reading<Bytes>,
}

impl Row {
    /// A row that says nothing, for one reason.
    pub(super) const fn absent(reason: Missing) -> Self {
        Self {
            index: Err(reason),
            driver: Err(reason),
            gpu: Gpu::absent(0, reason),
            total: Err(reason),
            free: Err(reason),
            used: Err(reason),
        }
    }
}

macro_rules! fields {
    ($($names:expr => |$row:ident, $value:ident| $put:expr;)+) => {
        /// All fields, in the order in which they are asked for.
        pub(super) const FIELDS: &[Field] = &[
            $( Field { names: &$names, take: |$row, $value| $put } ),+
        ];
    };
}

// Names that a driver does not know are found out one run at a time, so no field has more of them than
// were ever seen.
fields! {
    ["index"] => |row, value| row.index = value.index();
    ["name", "gpu_name"] => |row, value| row.gpu.name = value.text();
    ["uuid", "gpu_uuid"] => |row, value| row.gpu.uuid = value.text();
    ["pci.bus_id", "gpu_bus_id"] => |row, value| row.gpu.bus = value.text();
    ["pci.device_id"] => |row, value| row.gpu.pci_device_id = value.text();
    ["driver_version", "kmd_version"] => |row, value| row.driver = value.text();
    ["vbios_version"] => |row, value| row.gpu.vbios = value.text();
    ["compute_cap"] => |row, value| row.gpu.compute_capability = value.text();
    ["addressing_mode"] => |row, value| row.gpu.addressing_mode = value.text();
    ["memory.total"] => |row, value| row.total = value.mib();
    ["memory.free"] => |row, value| row.free = value.mib();
    ["memory.used"] => |row, value| row.used = value.mib();
    ["utilization.gpu"] => |row, value| {
        row.gpu.utilization = value.whole("%", UTILIZATION).map(|n| Ratio::from_percent(n.unsigned_abs()));
    };
    ["temperature.gpu"] => |row, value| row.gpu.temperature = value.degrees(TEMPERATURE);
    ["temperature.gpu.tlimit"] => |row, value| row.gpu.margin = value.degrees(MARGIN);
    ["power.draw"] => |row, value| row.gpu.power = value.thousandths("W", POWER).map(watts);
    ["power.draw.average"] => |row, value| {
        row.gpu.power_average = value.thousandths("W", POWER).map(watts);
    };
    ["power.draw.instant"] => |row, value| {
        row.gpu.power_instant = value.thousandths("W", POWER).map(watts);
    };
    ["clocks.gr", "clocks.current.graphics"] => |row, value| clock(row, ClockKind::Graphics, value);
    ["clocks.sm", "clocks.current.sm"] => |row, value| clock(row, ClockKind::Sm, value);
    ["clocks.mem", "clocks.current.memory"] => |row, value| clock(row, ClockKind::Memory, value);
    ["clocks.video", "clocks.current.video"] => |row, value| clock(row, ClockKind::Video, value);
    ["clocks.max.gr", "clocks.max.graphics"] => |row, value| {
        clock_max(row, ClockKind::Graphics, value);
    };
    ["clocks.max.sm"] => |row, value| clock_max(row, ClockKind::Sm, value);
    ["clocks.max.mem", "clocks.max.memory"] => |row, value| {
        clock_max(row, ClockKind::Memory, value);
    };
    ["pstate"] => |row, value| row.gpu.performance_state = value.performance_state();
    ["clocks_event_reasons.active", "clocks_throttle_reasons.active"] => |row, value| {
        row.gpu.event_reasons = value.mask();
    };
    ["clocks_event_reasons_counters.sw_power_cap"] => |row, value| {
        event_time(row, EventReason::SwPowerCap, value);
    };
    ["clocks_event_reasons_counters.sync_boost"] => |row, value| {
        event_time(row, EventReason::SyncBoost, value);
    };
    ["clocks_event_reasons_counters.sw_thermal_slowdown"] => |row, value| {
        event_time(row, EventReason::SwThermal, value);
    };
    ["clocks_event_reasons_counters.hw_thermal_slowdown"] => |row, value| {
        event_time(row, EventReason::HwThermal, value);
    };
    [
        "clocks_event_reasons_counters.hw_power_brake_slowdown",
        "clocks_event_reasons_counters.hw_power_brake",
    ] => |row, value| event_time(row, EventReason::HwPowerBrake, value);
}

fn clock(row: &mut Row, kind: ClockKind, value: &Value<'_>) {
    row.gpu.clocks[kind as usize] = value.whole("MHz", CLOCK).map(hertz);
}

fn clock_max(row: &mut Row, kind: ClockKind, value: &Value<'_>) {
    row.gpu.clocks_max[kind as usize] = value.whole("MHz", CLOCK).map(hertz);
}

/// nvidia-smi prints microseconds where NVML counts nanoseconds.
fn event_time(row: &mut Row, reason: EventReason, value: &Value<'_>) {
    if let Some(place) = TIMED.iter().position(|timed| *timed == reason) {
        let micro = value.whole("us", 0..=i64::MAX);
        row.gpu.event_seconds[place] = micro.map(|n| Seconds::from_micro(n.unsigned_abs()));
    }
}

/// The reason behind the words that stand where a value should.
pub(in crate::sources) fn missing(text: &str) -> Option<Missing> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']').trim();
    Some(match inner.trim_end_matches('.').to_ascii_lowercase().as_str() {
        "n/a" | "not found" | "no data" | "not ready" | "unknown" => Missing::NotAvailable,
        "not supported" | "deprecated" | "requested functionality has been deprecated" => {
            Missing::Unsupported
        }
        "insufficient permissions" | "no permission" => Missing::Denied,
        "unknown error" | "err!" | "error" | "timeout" => Missing::Failed,
        "gpu is lost" | "gpu requires reset" | "reset required" => Missing::Lost,
        "driver not loaded" => Missing::NoDriver,
        "function not found" => Missing::NoSymbol,
        _ => return None,
    })
}

/// The cell of a row, on its way to its place.
pub(super) struct Value<'a> {
    content: Reading<&'a str>,
    /// The unit in the header, if it has one.
    unit: Option<&'a str>,
    /// What the place was filled with, if with no value.
    why: Cell<Option<Missing>>,
}

impl<'a> Value<'a> {
    pub(super) fn new(text: &'a str, unit: Option<&'a str>) -> Self {
        let text = text.trim();
        Self { content: missing(text).map_or(Ok(text), Err), unit, why: Cell::new(None) }
    }

    /// A value that was not asked for, or is not in the answer.
    pub(super) const fn absent(reason: Missing) -> Self {
        Self { content: Err(reason), unit: None, why: Cell::new(None) }
    }

    /// Why there is no value, after it has been taken.
    pub(super) fn why(&self) -> Option<Missing> {
        self.why.get()
    }

    fn read<T>(&self, parse: impl FnOnce(&'a str) -> Option<T>) -> Reading<T> {
        let reading = self.content.and_then(|text| parse(text).ok_or(Missing::Malformed));
        self.why.set(reading.as_ref().err().copied());
        reading
    }

    /// Text. Newer drivers add remarks in brackets, `610.57.04 [Deprecated; ...]`.
    fn text(&self) -> Reading<String> {
        self.read(|text| {
            let bare = text.split(" [").next().unwrap_or_default().trim();
            (!bare.is_empty() && !bare.starts_with('[')).then(|| label(bare))
        })
    }

    /// The number before the unit, if the unit is the right one: `2405 MHz`, or `2405` alone.
    fn amount(&self, text: &'a str, unit: &str) -> Option<&'a str> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
        let (number, own) = text.split_at(end.unwrap_or(text.len()));
        let own = Some(own.trim()).filter(|own| !own.is_empty());
        own.or(self.unit).is_none_or(|given| given == unit).then_some(number)
    }

    fn whole(&self, unit: &str, range: RangeInclusive<i64>) -> Reading<i64> {
        self.read(|text| {
            self.amount(text, unit)?.parse().ok().filter(|number| range.contains(number))
        })
    }

    fn thousandths(&self, unit: &str, range: RangeInclusive<i64>) -> Reading<i64> {
        self.read(|text| {
            thousandths(self.amount(text, unit)?).filter(|number| range.contains(number))
        })
    }

    fn degrees(&self, range: RangeInclusive<i64>) -> Reading<Celsius> {
        let milli = self.thousandths("C", range.start() * 1000..=range.end() * 1000);
        milli.map(Celsius::from_milli)
    }

    /// An amount of memory.
    pub(super) fn mib(&self) -> Reading<Bytes> {
        self.read(|text| {
            let mib: u64 = self.amount(text, "MiB")?.parse().ok()?;
            mib.checked_mul(MIB).map(Bytes)
        })
    }

    fn index(&self) -> Reading<u32> {
        self.read(|text| text.parse().ok().filter(|index| *index < MAX_GPUS))
    }

    fn performance_state(&self) -> Reading<Count> {
        self.read(|text| {
            let state = text.strip_prefix('P')?.parse().ok()?;
            PERFORMANCE_STATE.contains(&state).then(|| Count(state.unsigned_abs()))
        })
    }

    fn mask(&self) -> Reading<Count> {
        self.read(|text| {
            let digits = text.strip_prefix("0x")?;
            let mask = i64::from_str_radix(digits, 16).ok().filter(|mask| *mask >= 0)?;
            Some(Count(mask.unsigned_abs()))
        })
    }
}

/// `11.48` as 11480. Not by way of a float, which knows `inf` and `nan`.
fn thousandths(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let milli = whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(fraction)?;
    Some(if negative { -milli } else { milli })
}
