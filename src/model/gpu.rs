//! What the GPU's driver says, whether through NVML or through nvidia-smi.

mod rows;

pub use rows::FIELDS;

use super::fields::Group;
use super::reading::{Missing, Reading};
use crate::units::{Bytes, Celsius, Count, Hertz, Joules, Ratio, Seconds, Watts};
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
