//! What the kernel has said: the facts of its log, never its text.

use super::fields::Group;
use super::moment::Moment;
use super::reading::{Missing, Reading};
use super::workload::{Class, ClassName};
use crate::units::{Bytes, Seconds};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

states! {
    /// A kind of message that is counted. What is of no kind is not kept at all.
    MessageKind {
        /// NVIDIA's driver reports an Xid error.
        Xid = "xid",
        /// NVIDIA's driver got no memory (NV_ERR_NO_MEMORY, 0x51). Healthy loads log it, too.
        DriverNoMemory = "driver_no_memory",
        /// A check or an assertion of NVIDIA's driver failed, for another reason.
        DriverError = "driver_error",
        /// NVIDIA's driver was loaded.
        DriverLoaded = "driver_loaded",
        /// A program's allocation woke the OOM killer.
        OomInvoked = "oom_invoked",
        /// The OOM killer killed a process.
        OomKill = "oom_kill",
        /// An allocation of pages failed.
        PageAllocationFailure = "page_allocation_failure",
        /// A task has been blocked for minutes.
        HungTask = "hung_task",
        /// A CPU has not come back from the kernel for a long time.
        SoftLockup = "soft_lockup",
        /// RCU waits for a CPU or a task.
        RcuStall = "rcu_stall",
        /// A fatal error on PCI Express.
        PcieFatal = "pcie_aer_fatal",
        /// An uncorrected error on PCI Express that is not fatal.
        PcieNonfatal = "pcie_aer_nonfatal",
        /// A corrected error on PCI Express.
        PcieCorrected = "pcie_aer_corrected",
        /// A disk could not read or write.
        IoError = "io_error",
        /// A thermal zone has reached its critical temperature: the kernel shuts down.
        ThermalCritical = "thermal_critical",
    }
}

impl MessageKind {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
}

states! {
    /// Where the kernel's log is read.
    LogPlace {
        /// /dev/kmsg
        Ring = "kmsg",
        /// /var/log/kern.log
        KernLog = "kern.log",
        /// /var/log/syslog
        Syslog = "syslog",
        /// lines of a capture
        Capture = "capture",
        /// lines of a scenario
        Scenario = "scenario",
    }
}

states! {
    /// What was short when the OOM killer chose.
    Constraint {
        /// The whole machine.
        None = "none",
        /// A cgroup.
        Memcg = "memcg",
        /// The nodes of a cpuset.
        Cpuset = "cpuset",
        /// The nodes of a memory policy.
        MemoryPolicy = "memory_policy",
    }
}

/// What the kernel says of a process that it kills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its address space.
    pub total_vm: Reading<Bytes>,
    /// Its own memory that was resident: what killing it gives back.
    pub anonymous: Reading<Bytes>,
    /// Pages of files.
    pub file: Reading<Bytes>,
    /// Shared memory.
    pub shared: Reading<Bytes>,
    /// What was short.
    pub constraint: Reading<Constraint>,
    /// What it was, where its name alone tells that.
    pub class: Option<Class>,
}

/// The facts of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What kind it is.
    pub kind: MessageKind,
    /// An Xid's number; seconds of a task or a CPU; the order of an allocation.
    pub number: Option<u64>,
    /// The name of the program that it is about, at most as long as the kernel keeps one, without
    /// control characters.
    pub name: Option<String>,
    /// Of a process that was killed: its memory.
    pub victim: Option<Victim>,
}

/// Messages with the same facts that came within a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Position since the exporter started, from 1.
    pub number: u64,
    /// When the first of them came, since 1970.
    pub at: Reading<Duration>,
    /// What they say.
    pub message: Message,
    /// How many there are.
    pub count: u64,
    /// Whether they came before the exporter had started.
    pub old: bool,
    /// The process that the first of them names, to find its job by. It is shown nowhere.
    pub pid: Option<u32>,
}

/// The kernel's log of this boot, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Where it is read.
    pub place: LogPlace,
    /// Messages of each kind, those from before the exporter's start included.
    pub counts: [u64; MessageKind::COUNT],
    /// Those of them that came before the exporter had started.
    pub old: [u64; MessageKind::COUNT],
    /// When the last of each kind came, since 1970.
    pub last: [Option<Duration>; MessageKind::COUNT],
    /// Xid errors by number.
    pub xids: BTreeMap<u64, u64>,
    /// Lines that were overwritten, or were too long, before they could be read; at least so many.
    pub lost: u64,
    /// Lines of this boot that were overwritten before the exporter had started.
    pub overwritten: u64,
    /// The latest of them, oldest first. Those who look once a second miss none but in a flood.
    pub latest: Arc<Vec<Entry>>,
}

/// The kernel's log; pending while what came before the exporter is being read.
pub type KernelLog = Reading<Arc<Messages>>;

impl Group for KernelLog {
    fn absent(reason: Missing) -> Self {
        Err(reason)
    }
}

states! {
    /// What the jobs were doing when the kernel said something.
    During {
        /// One was starting, loading or warming up.
        Load = "load",
        /// None was, and one was serving or training.
        Serving = "serving",
        /// There was none, or all were idle.
        Idle = "idle",
        /// Not to be told: processes or the GPU were not read, or the phase of one is not known.
        Unknown = "unknown",
    }
}

impl During {
    /// The same in words, with those of them that matter.
    #[must_use]
    pub fn told(self, jobs: Option<&str>) -> String {
        match (self, jobs) {
            (Self::Load, Some(jobs)) => format!("while {jobs}: usual during a load"),
            (Self::Load, None) => "during a load, which is usual".to_owned(),
            (Self::Serving, Some(jobs)) => format!("while nothing was loading and {jobs}"),
            (Self::Serving | Self::Idle, _) => "while nothing was loading".to_owned(),
            (Self::Unknown, _) => "what the jobs did then is not known".to_owned(),
        }
    }
}

/// Figures of each [`During`].
pub type ByDuring = [u64; During::ALL.len()];

states! {
    /// When NVIDIA's driver has got no memory lately.
    NoMemoryState {
        /// It has not lately.
        None = "none",
        /// While a job was starting, loading or warming up, as healthy loads do.
        DuringLoad = "during_load",
        /// While no job was. That has preceded hard reboots, and boxes that stayed well have logged it, too.
        OutsideLoad = "outside_load",
        /// The kernel's log cannot be read, or what the jobs did is not known.
        Unknown = "unknown",
    }
}

/// An entry, and what the box did then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noticed {
    /// The entry, as it was when it was noticed last.
    pub entry: Entry,
    /// When it was noticed first.
    pub at: Moment,
    /// What the jobs were doing then; nothing of what came before the exporter's start.
    pub phase: Option<During>,
    /// Those of them that were loading, or else serving, in words.
    pub jobs: Option<Arc<str>>,
    /// Of an Xid: the class of the job whose process it names, when that was listed then.
    pub class: Option<ClassName>,
    /// Of a process that was killed and had next to nothing of its own: what the kernel had no account of
    /// then, which is where a GPU's memory is.
    pub tiny: Option<Reading<Bytes>>,
}

/// What is made of the kernel's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// Messages of each kind that came within the last while, without those from before the start.
    pub recent: [u64; MessageKind::COUNT],
    /// How long that while is.
    pub within: Seconds,
    /// The latest entries, oldest first.
    pub entries: Arc<Vec<Noticed>>,
    /// Messages of memory that the driver did not get, without those from before the start.
    pub no_memory: NoMemory,
}

/// Messages of memory that the driver did not get, by what the jobs were doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoMemory {
    /// Since the exporter started.
    pub all: ByDuring,
    /// Within the last while.
    pub recent: ByDuring,
    /// How long that while is.
    pub within: Seconds,
}

impl NoMemory {
    /// What is to be said of the last while: the worst that is known, and nothing is said to be usual unless
    /// all of it was.
    #[must_use]
    pub const fn state(&self) -> NoMemoryState {
        let [load, serving, idle, unknown] = self.recent;
        match (serving + idle, unknown, load) {
            (1.., _, _) => NoMemoryState::OutsideLoad,
            (0, 1.., _) => NoMemoryState::Unknown,
            (0, 0, 1..) => NoMemoryState::DuringLoad,
            (0, 0, 0) => NoMemoryState::None,
        }
    }
}
