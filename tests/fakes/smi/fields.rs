//! The fields of `--query-gpu`: names, units and texts as the real `nvidia-smi` has them.

use crate::state::{Code, State};

/// Where a field's value comes from.
#[derive(Clone, Copy)]
enum Read {
    /// The time of the query.
    Timestamp,
    /// The GPU's number.
    Index,
    /// A text of the driver.
    System(&'static str),
    /// A text or number of the GPU, as it is.
    Plain(&'static str),
    /// One of `TOTAL,FREE,USED`, in MiB.
    Memory(usize),
    /// Milliwatts.
    Watts(&'static str),
    /// Nanoseconds, in microseconds.
    Microseconds(&'static str),
    /// A bit mask.
    Mask(&'static str),
    /// A performance state.
    State(&'static str),
    /// 0 wherever this is known.
    Zero(&'static str),
}

/// A field.
pub(crate) struct Field {
    /// The name that the header shows.
    pub(crate) name: &'static str,
    /// Another name by which it may be asked for.
    alias: &'static str,
    pub(crate) unit: &'static str,
    read: Read,
}

const fn field(name: &'static str, alias: &'static str, unit: &'static str, read: Read) -> Field {
    Field { name, alias, unit, read }
}

const FIELDS: &[Field] = &[
    field("timestamp", "", "", Read::Timestamp),
    field("index", "", "", Read::Index),
    field("name", "gpu_name", "", Read::Plain("name")),
    field("uuid", "gpu_uuid", "", Read::Plain("uuid")),
    field("pci.bus_id", "gpu_bus_id", "", Read::Plain("bus")),
    field("pci.device_id", "", "", Read::Plain("pci_device_id")),
    field("count", "", "", Read::System("count")),
    field("driver_version", "", "", Read::System("driver")),
    field("kmd_version", "", "", Read::System("driver")),
    field("vbios_version", "", "", Read::Plain("vbios")),
    field("compute_cap", "", "", Read::Plain("compute_cap")),
    field("addressing_mode", "", "", Read::Plain("addressing_mode")),
    field("memory.total", "", "MiB", Read::Memory(0)),
    field("memory.free", "", "MiB", Read::Memory(1)),
    field("memory.used", "", "MiB", Read::Memory(2)),
    field("utilization.gpu", "", "%", Read::Plain("utilization")),
    field("utilization.memory", "", "%", Read::Zero("utilization")),
    field("temperature.gpu", "", "", Read::Plain("temperature")),
    field("temperature.gpu.tlimit", "", "", Read::Plain("margin")),
    field("power.draw", "", "W", Read::Watts("power_mw")),
    field("power.draw.average", "", "W", Read::Watts("power_average_mw")),
    field("power.draw.instant", "", "W", Read::Watts("power_instant_mw")),
    field("clocks.current.graphics", "clocks.gr", "MHz", Read::Plain("clock.graphics")),
    field("clocks.current.sm", "clocks.sm", "MHz", Read::Plain("clock.sm")),
    field("clocks.current.memory", "clocks.mem", "MHz", Read::Plain("clock.memory")),
    field("clocks.current.video", "clocks.video", "MHz", Read::Plain("clock.video")),
    field("clocks.max.graphics", "clocks.max.gr", "MHz", Read::Plain("clock_max.graphics")),
    field("clocks.max.sm", "", "MHz", Read::Plain("clock_max.sm")),
    field("clocks.max.memory", "clocks.max.mem", "MHz", Read::Plain("clock_max.memory")),
    field("pstate", "", "", Read::State("pstate")),
    field(
        "clocks_event_reasons.active",
        "clocks_throttle_reasons.active",
        "",
        Read::Mask("event_reasons"),
    ),
    counter("clocks_event_reasons_counters.sw_power_cap", "event_ns.sw_power_cap"),
    counter("clocks_event_reasons_counters.sync_boost", "event_ns.sync_boost"),
    counter("clocks_event_reasons_counters.sw_thermal_slowdown", "event_ns.sw_thermal"),
    counter("clocks_event_reasons_counters.hw_thermal_slowdown", "event_ns.hw_thermal"),
    counter("clocks_event_reasons_counters.hw_power_brake_slowdown", "event_ns.hw_power_brake"),
];

const fn counter(name: &'static str, key: &'static str) -> Field {
    field(name, "", "us", Read::Microseconds(key))
}

/// The field of a name, if this driver knows it.
pub(crate) fn find(state: &State, name: &str) -> Option<&'static Field> {
    let refused = state.raw("smi.refuses").unwrap_or("").split(',').any(|r| r.trim() == name);
    let too_new = name == "kmd_version" && !state.driver_is_at_least(595, 0);
    if name.is_empty() || refused || too_new {
        return None;
    }
    FIELDS.iter().find(|field| field.name == name || field.alias == name)
}

/// Bytes in MiB, rounded down.
pub(crate) fn mib(bytes: u64) -> String {
    (bytes >> 20).to_string()
}

/// The library's version as `nvidia-smi` shows it: without CUDA's in front and the patch behind.
pub(crate) fn short_nvml(version: &str) -> &str {
    let rest = version.split_once('.').map_or(version, |(_, rest)| rest);
    rest.match_indices('.').nth(1).map_or(rest, |(at, _)| &rest[..at])
}

/// The local time, by another program than the exporter's own.
fn now() -> String {
    let date = std::process::Command::new("date").arg("+%Y/%m/%d %H:%M:%S.%3N").output();
    date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned()).unwrap_or_default()
}

impl Field {
    /// The text of the field for a GPU, without its unit.
    pub(crate) fn value(&self, state: &State, gpu: u32) -> Result<String, Code> {
        let key = |key: &str| format!("{gpu}.{key}");
        Ok(match self.read {
            Read::Timestamp => now(),
            Read::Index => gpu.to_string(),
            Read::System(name) => state.get(name)?.to_owned(),
            Read::Plain(name) => state.get(&key(name))?.to_owned(),
            Read::Memory(which) => mib(state.memory(gpu)?[which]),
            Read::Watts(name) => {
                let centi = (state.number::<u64>(&key(name))? + 5) / 10;
                format!("{}.{:02}", centi / 100, centi % 100)
            }
            Read::Microseconds(name) => (state.number::<u64>(&key(name))? / 1000).to_string(),
            Read::Mask(name) => format!("0x{:016X}", state.number::<u64>(&key(name))?),
            Read::State(name) => format!("P{}", state.number::<u32>(&key(name))?),
            Read::Zero(name) => state.get(&key(name)).map(|_| "0".to_owned())?,
        })
    }
}
