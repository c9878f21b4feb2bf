//! What the GPU's driver says, whether through NVML or through nvidia-smi.

use super::fields::{Field, Group, Presence, put};
use super::reading::{Missing, Quantity, Reading, Value};
use super::snapshot::Snapshot;
use super::source::Source;
use crate::units::{Bytes, Celsius, Count, Hertz, Joules, Ratio, Seconds, Unit, Watts};
use std::collections::BTreeMap;

states! {
    /// Through what the GPU was asked.
    Via {
        /// The driver's library, in this process.
        Nvml = "nvml",
        /// The driver's program, a process of its own for each reading.
        NvidiaSmi = "nvidia_smi",
    }
}

states! {
    /// How the GPU is to be asked, as an operator chooses it.
    GpuChoice {
        /// NVML, and nvidia-smi where NVML cannot be loaded.
        Auto = "auto",
        /// NVML only.
        Nvml = "nvml",
        /// nvidia-smi only.
        Smi = "smi",
        /// Not at all.
        Off = "off",
    }
}

states! {
    /// A clock of the GPU.
    ClockKind {
        /// The graphics engine.
        Graphics = "graphics",
        /// The streaming multiprocessors. This is the one that throttling lowers.
        Sm = "sm",
        /// Memory. A GB10 does not tell it.
        Memory = "memory",
        /// Video encoder and decoder.
        Video = "video",
    }
}

states! {
    /// Why the driver holds the clocks where they are (NVIDIA's "clocks event reasons"). Several can
    /// hold at once.
    EventReason {
        /// Nothing to do. Set on every idle GPU; no throttling.
        Idle = "idle",
        /// Clocks set by an application or an operator.
        ApplicationClocks = "application_clocks",
        /// The driver keeps to a power limit. Normal under full load on these machines.
        SwPowerCap = "sw_power_cap",
        /// The hardware slows the clocks down by half or more: heat or a power brake.
        HwSlowdown = "hw_slowdown",
        /// Kept in step with other GPUs.
        SyncBoost = "sync_boost",
        /// The driver lowers the clocks because of heat.
        SwThermal = "sw_thermal",
        /// The hardware lowers the clocks because of heat.
        HwThermal = "hw_thermal",
        /// The power supply asks for less.
        HwPowerBrake = "hw_power_brake",
        /// The display sets the limit.
        DisplayClock = "display_clock",
        /// The board's limit.
        BoardLimit = "board_limit",
        /// A limit for the sake of reliability.
        Reliability = "reliability",
    }
}

impl EventReason {
    /// Its bit in NVIDIA's mask.
    #[must_use]
    pub const fn bit(self) -> u64 {
        match self {
            Self::Idle => 0x1,
            Self::ApplicationClocks => 0x2,
            Self::SwPowerCap => 0x4,
            Self::HwSlowdown => 0x8,
            Self::SyncBoost => 0x10,
            Self::SwThermal => 0x20,
            Self::HwThermal => 0x40,
            Self::HwPowerBrake => 0x80,
            Self::DisplayClock => 0x100,
            Self::BoardLimit => 0x200,
            Self::Reliability => 0x400,
        }
    }
}

/// The reasons that the driver keeps a running time of.
pub const TIMED: [EventReason; 5] = [
    EventReason::SwPowerCap,
    EventReason::SyncBoost,
    EventReason::SwThermal,
    EventReason::HwThermal,
    EventReason::HwPowerBrake,
];

states! {
    /// The driver's lists of processes.
    ProcessList {
        /// Those with a compute context.
        Compute = "compute",
        /// Those with a graphics context.
        Graphics = "graphics",
        /// Clients of the Multi-Process Service.
        Mps = "mps",
    }
}

/// What the driver says about a GPU's memory, exactly as it says it: on a GB10 nothing, elsewhere all
/// zeros, a small part or the whole pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Total.
    pub total: Bytes,
    /// Free.
    pub free: Bytes,
    /// Used.
    pub used: Bytes,
}

/// A process that has something on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Process id in the driver's view, which in a container need not be ours.
    pub pid: u32,
    /// What the driver charges to it: the largest figure of any list. One process often stands in two
    /// lists with the same memory, so figures are never added up. Managed memory is under-reported.
    pub memory: Reading<Bytes>,
    /// The lists it stands in, by [`ProcessList`].
    pub lists: [bool; ProcessList::ALL.len()],
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// The driver's index.
    pub index: u32,
    /// Product name.
    pub name: Reading<String>,
    /// Identity.
    pub uuid: Reading<String>,
    /// PCI address, `0000000F:01:00.0`.
    pub bus: Reading<String>,
    /// PCI device and vendor, `0x2E1210DE` for a GB10.
    pub pci_device_id: Reading<String>,
    /// Firmware.
    pub vbios: Reading<String>,
    /// CUDA compute capability, `12.1`.
    pub compute_capability: Reading<String>,
    /// How the GPU addresses system memory: `ATS`, `HMM`, `None`.
    pub addressing_mode: Reading<String>,
    /// Share of the last sampling period in which a kernel ran.
    pub utilization: Reading<Ratio>,
    /// Temperature.
    pub temperature: Reading<Celsius>,
    /// Margin to the highest operating temperature (T.Limit).
    pub margin: Reading<Celsius>,
    /// Power by the driver's plain query. The GPU alone, without CPU and memory.
    pub power: Reading<Watts>,
    /// Power, mean of one second.
    pub power_average: Reading<Watts>,
    /// Power at an instant.
    pub power_instant: Reading<Watts>,
    /// Energy since the driver was loaded.
    pub energy: Reading<Joules>,
    /// Clocks now, by [`ClockKind`].
    pub clocks: [Reading<Hertz>; ClockKind::ALL.len()],
    /// Highest clocks, by [`ClockKind`].
    pub clocks_max: [Reading<Hertz>; ClockKind::ALL.len()],
    /// Performance state: 0 with a CUDA context, 8 without one.
    pub performance_state: Reading<Count>,
    /// Event reasons that hold now, as NVIDIA's mask.
    pub event_reasons: Reading<Count>,
    /// Time under an event reason since the driver was loaded, in the order of [`TIMED`].
    pub event_seconds: [Reading<Seconds>; TIMED.len()],
    /// What the driver says about memory.
    pub memory: Reading<MemoryFigures>,
    /// Processes, by pid.
    pub processes: Reading<Vec<GpuProcess>>,
    /// How many rows each list had, by [`ProcessList`].
    pub listed: [Reading<Count>; ProcessList::ALL.len()],
}

impl Gpu {
    /// A GPU of which nothing is known, for one reason.
    #[must_use]
    pub const fn absent(index: u32, reason: Missing) -> Self {
        Self {
            index,
            name: Err(reason),
            uuid: Err(reason),
            bus: Err(reason),
            pci_device_id: Err(reason),
            vbios: Err(reason),
            compute_capability: Err(reason),
            addressing_mode: Err(reason),
            utilization: Err(reason),
            temperature: Err(reason),
            margin: Err(reason),
            power: Err(reason),
            power_average: Err(reason),
            power_instant: Err(reason),
            energy: Err(reason),
            clocks: [Err(reason); ClockKind::ALL.len()],
            clocks_max: [Err(reason); ClockKind::ALL.len()],
            performance_state: Err(reason),
            event_reasons: Err(reason),
            event_seconds: [Err(reason); TIMED.len()],
            memory: Err(reason),
            processes: Err(reason),
            listed: [Err(reason); ProcessList::ALL.len()],
        }
    }

    /// Whether the lists tell of every process: those with a compute or a graphics context were read to
    /// their end, and that of the Multi-Process Service where there is one.
    #[must_use]
    pub fn lists_everybody(&self) -> bool {
        let Ok(processes) = &self.processes else { return false };
        let whole = |list: &Reading<Count>| list.is_ok_and(|rows| rows.0 <= processes.len() as u64);
        let [compute, graphics, mps] = &self.listed;
        let no_mps = matches!(mps, Err(Missing::Unsupported | Missing::NoSymbol));
        whole(compute) && whole(graphics) && (no_mps || whole(mps))
    }

    /// Whether a process with a compute context is listed.
    #[must_use]
    pub fn computes(&self) -> bool {
        self.processes.iter().flatten().any(|process| {
            process.lists[ProcessList::Compute as usize] || process.lists[ProcessList::Mps as usize]
        })
    }

    /// A clock.
    #[must_use]
    pub const fn clock(&self, kind: ClockKind) -> Reading<Hertz> {
        self.clocks[kind as usize]
    }

    /// Power: the mean of a second where the driver gives it, its plain query otherwise.
    #[must_use]
    pub fn mean_power(&self) -> Reading<Watts> {
        self.power_average.or(self.power)
    }
}

/// The GPUs and their driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpus {
    /// Through what they were asked.
    pub via: Reading<Via>,
    /// The driver's version.
    pub driver: Reading<String>,
    /// The NVML library's version.
    pub library: Reading<String>,
    /// The file that was loaded as NVML, or the program that was run.
    pub path: Reading<String>,
    /// The newest CUDA version that the driver serves, `13.0`.
    pub cuda: Reading<String>,
    /// The GPUs, by index.
    pub devices: Reading<Vec<Gpu>>,
    /// Xid errors by GPU and number since the exporter listens for them.
    pub xids: Reading<BTreeMap<(u32, u32), u64>>,
}

impl Group for Gpus {
    fn absent(reason: Missing) -> Self {
        Self {
            via: Err(reason),
            driver: Err(reason),
            library: Err(reason),
            path: Err(reason),
            cuda: Err(reason),
            devices: Err(reason),
            xids: Err(reason),
        }
    }
}

impl Gpus {
    /// The GPUs, none when they cannot be read.
    pub fn each(&self) -> impl Iterator<Item = &Gpu> {
        self.devices.iter().flatten()
    }
}

/// A GPU by the key of a member: `0`, or `0.sm` for the name behind it.
fn of<'a>(snapshot: &'a mut Snapshot, key: &str) -> Option<&'a mut Gpu> {
    let index: u32 = key.split('.').next()?.parse().ok()?;
    snapshot.gpus.devices.as_mut().ok()?.iter_mut().find(|gpu| gpu.index == index)
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
                of(snapshot, key).is_some_and(|gpu| put(&mut gpu.$field, value))
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
    for &which in ProcessList::ALL {
        let rows = list.iter().filter(|process| process.lists[which as usize]).count();
        if let Ok(listed) = &mut gpu.listed[which as usize] {
            *listed = Count(rows as u64);
        }
    }
    true
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
