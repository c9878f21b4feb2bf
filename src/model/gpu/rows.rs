//! The GPU's rows of the field table.

use super::{ClockKind, EventReason, Gpu, GpuProcess, MemoryFigures, ProcessList, TIMED, Via};
use crate::model::fields::{Field, Presence, put};
use crate::model::reading::{Missing, Quantity, Reading, Value};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::units::{Bytes, Count, Unit};

/// A GPU by the key of a member: `0`, or `0.sm` for the name behind it.
fn of<'a>(snapshot: &'a mut Snapshot, key: &str) -> Option<&'a mut Gpu> {
    let index: u32 = key.split('.').next()?.parse().ok()?;
    snapshot.gpus.devices.as_mut().ok()?.iter_mut().find(|gpu| gpu.index == index)
}

/// All GPUs at once, which can only be taken away.
fn taken_away(snapshot: &mut Snapshot, key: &str, value: &Reading<Value<'_>>) -> bool {
    match value {
        Err(reason) if key.is_empty() => {
            snapshot.gpus.devices = Err(*reason);
            true
        }
        _ => false,
    }
}

/// The position in a closed set of the name behind a GPU's index.
fn place<T: Copy>(key: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Option<usize> {
    let (_, wanted) = key.split_once('.')?;
    all.iter().position(|item| name(*item) == wanted)
}

/// A row for a reading of the driver.
macro_rules! of_driver {
    ($id:literal, $doc:literal, $field:ident) => {
        Field {
            id: $id,
            unit: Unit::None,
            presence: Presence::Optional,
            source: Source::Gpu,
            doc: $doc,
            visit: |snapshot, out| {
                let reading = snapshot.gpus.$field.as_ref();
                out("", reading.map(Quantity::value).map_err(|m| *m));
            },
            set: |snapshot, key, value| key.is_empty() && put(&mut snapshot.gpus.$field, value),
        }
    };
}

/// A row for a reading that each GPU has once.
macro_rules! of_gpu {
    ($id:literal, $unit:ident, $doc:literal, $field:ident) => {
        Field {
            id: $id,
            unit: Unit::$unit,
            presence: Presence::Optional,
            source: Source::Gpu,
            doc: $doc,
            visit: |snapshot, out| match &snapshot.gpus.devices {
                Ok(devices) => devices.iter().for_each(|gpu| {
                    let value = gpu.$field.as_ref().map(Quantity::value).map_err(|m| *m);
                    out(&gpu.index.to_string(), value);
                }),
                Err(reason) => out("", Err(*reason)),
            },
            set: |snapshot, key, value| {
                taken_away(snapshot, key, &value)
                    || of(snapshot, key).is_some_and(|gpu| put(&mut gpu.$field, value))
            },
        }
    };
}

/// A row for a reading that each GPU has by name: `0.sm`.
macro_rules! of_gpu_by_name {
    ($id:literal, $unit:ident, $doc:literal, $field:ident, $all:expr, $name:expr) => {
        Field {
            id: $id,
            unit: Unit::$unit,
            presence: Presence::Optional,
            source: Source::Gpu,
            doc: $doc,
            visit: |snapshot, out| match &snapshot.gpus.devices {
                Ok(devices) => devices.iter().for_each(|gpu| {
                    for (item, reading) in $all.iter().zip(gpu.$field) {
                        let key = format!("{}.{}", gpu.index, $name(*item));
                        out(&key, reading.as_ref().map(Quantity::value).map_err(|m| *m));
                    }
                }),
                Err(reason) => out("", Err(*reason)),
            },
            set: |snapshot, key, value| {
                if taken_away(snapshot, key, &value) {
                    return true;
                }
                let Some(place) = place(key, &$all[..], $name) else { return false };
                of(snapshot, key).is_some_and(|gpu| put(&mut gpu.$field[place], value))
            },
        }
    };
}

impl Quantity for Via {
    const UNIT: Unit = Unit::None;
    fn value(&self) -> Value<'_> {
        Value::Text(self.as_str())
    }
    fn from_value(value: &Value<'_>) -> Option<Self> {
        let Value::Text(word) = value else { return None };
        Self::ALL.iter().copied().find(|via| via.as_str() == *word)
    }
}

/// The parts of the memory figures, by name.
const PARTS: [&str; 3] = ["total", "free", "used"];

impl MemoryFigures {
    const fn part(&mut self, place: usize) -> &mut Bytes {
        match place {
            0 => &mut self.total,
            1 => &mut self.free,
            _ => &mut self.used,
        }
    }
}

/// Sets one of the memory figures; they are missing together.
fn set_memory(gpu: &mut Gpu, place: usize, value: Reading<Value<'_>>) -> bool {
    match value {
        Err(reason) => gpu.memory = Err(reason),
        Ok(value) => {
            let Some(bytes) = Bytes::from_value(&value) else { return false };
            let nothing = MemoryFigures { total: Bytes(0), free: Bytes(0), used: Bytes(0) };
            let mut figures = gpu.memory.unwrap_or(nothing);
            *figures.part(place) = bytes;
            gpu.memory = Ok(figures);
        }
    }
    true
}

/// Sets what the driver charges to a process. One that is not there begins, with a compute context; one
/// that is "not present" ends.
fn set_process(gpu: &mut Gpu, pid: u32, value: Reading<Value<'_>>) -> bool {
    let Ok(list) = &mut gpu.processes else { return false };
    let at = list.binary_search_by_key(&pid, |process| process.pid);
    match (at, value) {
        (Ok(at), Err(Missing::NotPresent)) => drop(list.remove(at)),
        (Err(_), Err(Missing::NotPresent)) => {}
        (at, value) => {
            let mut lists = [false; ProcessList::ALL.len()];
            lists[ProcessList::Compute as usize] = true;
            let at = at.unwrap_or_else(|at| {
                list.insert(at, GpuProcess { pid, memory: Err(Missing::NotAvailable), lists });
                at
            });
            if !put(&mut list[at].memory, value) {
                return false;
            }
        }
    }
    gpu.recount();
    true
}

impl Gpu {
    /// Counts the rows of the lists anew, after some have come or gone.
    pub(crate) fn recount(&mut self) {
        for &which in ProcessList::ALL {
            let all = self.processes.iter().flatten();
            let rows = all.filter(|process| process.lists[which as usize]).count();
            if let Ok(listed) = &mut self.listed[which as usize] {
                *listed = Count(rows as u64);
            }
        }
    }
}

/// Rows of the field table.
pub const FIELDS: &[Field] = &[
    of_driver!("gpu.via", " Through what the GPU was asked: nvml or nvidia_smi.", via),
    of_driver!("gpu.driver", " Version of the driver that answered.", driver),
    of_driver!("gpu.library", " Version of the NVML library.", library),
    of_driver!("gpu.path", " The library that was loaded, or the program that was run.", path),
    of_driver!("gpu.cuda", " Newest CUDA version that the driver serves.", cuda),
    of_gpu!("gpu.name", None, " Product name.", name),
    of_gpu!("gpu.uuid", None, " Identity of the GPU.", uuid),
    of_gpu!("gpu.bus", None, " PCI address.", bus),
    of_gpu!("gpu.pci_device_id", None, " PCI device and vendor.", pci_device_id),
    of_gpu!("gpu.vbios", None, " Firmware.", vbios),
    of_gpu!("gpu.compute_capability", None, " CUDA compute capability.", compute_capability),
    of_gpu!("gpu.addressing_mode", None, " How the GPU addresses system memory.", addressing_mode),
    of_gpu!("gpu.utilization", Ratio, " Share of time in which a kernel ran.", utilization),
    of_gpu!("gpu.temperature", Celsius, " Temperature.", temperature),
    of_gpu!("gpu.margin", Celsius, " Margin to the highest operating temperature.", margin),
    of_gpu!("gpu.power", Watts, " Power by the driver's plain query.", power),
    of_gpu!("gpu.power_average", Watts, " Power, mean of one second.", power_average),
    of_gpu!("gpu.power_instant", Watts, " Power at an instant.", power_instant),
    of_gpu!("gpu.energy", Joules, " Energy since the driver was loaded.", energy),
    of_gpu_by_name!("gpu.clock", Hertz, " A clock now.", clocks, ClockKind::ALL, ClockKind::as_str),
    of_gpu_by_name!(
        "gpu.clock_max",
        Hertz,
        " A clock's highest value.",
        clocks_max,
        ClockKind::ALL,
        ClockKind::as_str
    ),
    of_gpu!("gpu.performance_state", Count, " Performance state, 0 fastest.", performance_state),
    of_gpu!(
        "gpu.event_reasons",
        Count,
        " Event reasons that hold now, as a bit mask.",
        event_reasons
    ),
    of_gpu_by_name!(
        "gpu.event_seconds",
        Seconds,
        " Time under an event reason since the driver was loaded.",
        event_seconds,
        TIMED,
        EventReason::as_str
    ),
    Field {
        id: "gpu.memory",
        unit: Unit::Bytes,
        presence: Presence::Optional,
        source: Source::Gpu,
        doc: " What the driver says about memory.",
        visit: |snapshot, out| match &snapshot.gpus.devices {
            Ok(devices) => devices.iter().for_each(|gpu| {
                for (place, name) in PARTS.iter().enumerate() {
                    let figure = gpu.memory.map(|mut figures| Value::Uint(figures.part(place).0));
                    out(&format!("{}.{name}", gpu.index), figure);
                }
            }),
            Err(reason) => out("", Err(*reason)),
        },
        set: |snapshot, key, value| {
            if taken_away(snapshot, key, &value) {
                return true;
            }
            let Some(place) = place(key, &PARTS, |name| name) else { return false };
            of(snapshot, key).is_some_and(|gpu| set_memory(gpu, place, value))
        },
    },
    Field {
        id: "gpu.processes",
        unit: Unit::Count,
        presence: Presence::Optional,
        source: Source::Gpu,
        doc: " Processes that have something on the GPU.",
        visit: |snapshot, out| match &snapshot.gpus.devices {
            Ok(devices) => devices.iter().for_each(|gpu| {
                let count = gpu.processes.as_ref().map(|list| Value::Uint(list.len() as u64));
                out(&gpu.index.to_string(), count.map_err(|m| *m));
            }),
            Err(reason) => out("", Err(*reason)),
        },
        // How many there are follows from what each holds; only that they cannot be read can be set.
        set: |snapshot, key, value| match (of(snapshot, key), value) {
            (None, value) => taken_away(snapshot, key, &value),
            (Some(gpu), Err(reason)) => {
                gpu.processes = Err(reason);
                gpu.listed = [Err(reason); ProcessList::ALL.len()];
                true
            }
            _ => false,
        },
    },
    of_gpu_by_name!(
        "gpu.listed",
        Count,
        " Rows of a list of processes.",
        listed,
        ProcessList::ALL,
        ProcessList::as_str
    ),
    Field {
        id: "gpu.process_memory",
        unit: Unit::Bytes,
        presence: Presence::Optional,
        source: Source::Gpu,
        doc: " What the driver charges to a process, by GPU and pid.",
        visit: |snapshot, out| {
            for gpu in snapshot.gpus.each() {
                for process in gpu.processes.iter().flatten() {
                    let key = format!("{}.{}", gpu.index, process.pid);
                    out(&key, process.memory.map(|bytes| Value::Uint(bytes.0)));
                }
            }
        },
        set: |snapshot, key, value| {
            let pid = key.split_once('.').and_then(|(_, pid)| pid.parse().ok());
            let (Some(gpu), Some(pid)) = (of(snapshot, key), pid) else { return false };
            set_process(gpu, pid, value)
        },
    },
    Field {
        id: "gpu.xids",
        unit: Unit::Count,
        presence: Presence::Optional,
        source: Source::Gpu,
        doc: " Xid errors since the exporter listens for them, by GPU and number.",
        visit: |snapshot, out| match &snapshot.gpus.xids {
            Ok(xids) => xids.iter().for_each(|((gpu, xid), count)| {
                out(&format!("{gpu}.{xid}"), Ok(Value::Uint(*count)));
            }),
            Err(reason) => out("", Err(*reason)),
        },
        set: |snapshot, key, value| {
            let xids = &mut snapshot.gpus.xids;
            let member = key
                .split_once('.')
                .and_then(|(gpu, xid)| Some((gpu.parse::<u32>().ok()?, xid.parse::<u32>().ok()?)));
            match (member, value) {
                (Some(member), Ok(value)) => match Count::from_value(&value) {
                    Some(Count(count)) => {
                        let mut all = xids.clone().unwrap_or_default();
                        all.insert(member, count);
                        *xids = Ok(all);
                        true
                    }
                    None => false,
                },
                (None, Err(reason)) if key.is_empty() => {
                    *xids = Err(reason);
                    true
                }
                _ => false,
            }
        },
    },
];
