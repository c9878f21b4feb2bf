//! Where readings come from, and how the places are doing.

use super::reading::Missing;
use std::time::Duration;

states! {
    /// A lane: one thread that reads its sources at a fixed period. A source that blocks stops its
    /// own lane and no other.
    Lane {
        /// What the pool does from second to second; kernel memory only, it cannot block on hardware.
        Fast = "fast",
        /// Sensors behind ACPI firmware and chips, which can take their time or hang.
        Sensors = "sensors",
        /// The GPU, through its driver, which can block for minutes.
        Gpu = "gpu",
        /// Training logs that are followed, on disks that may not answer.
        Logs = "logs",
        /// Programs: the kernel reads a command line from the program's own memory, and waits where that
        /// is locked.
        Processes = "processes",
        /// The kernel's log, which may have to be read from a disk.
        Messages = "messages",
        /// What changes slowly or never.
        Slow = "slow",
    }
}

impl Lane {
    /// How often the lane reads. Collapses here run at 2 to 14 GiB/s, hence one second for the pool.
    /// The GPU's lane has thresholds for it, whose default this is.
    #[must_use]
    pub const fn period(self) -> Duration {
        match self {
            Self::Fast | Self::Sensors | Self::Gpu | Self::Logs | Self::Messages => {
                Duration::from_secs(1)
            }
            Self::Slow | Self::Processes => Duration::from_secs(5),
        }
    }

    /// The sources it reads, in order.
    pub fn sources(self) -> impl Iterator<Item = Source> {
        Source::ALL.iter().copied().filter(move |source| source.lane() == self)
    }
}

states! {
    /// A source of readings.
    Source {
        /// /proc/meminfo
        Meminfo = "meminfo",
        /// /proc/vmstat
        Vmstat = "vmstat",
        /// /proc/buddyinfo
        Buddyinfo = "buddyinfo",
        /// /proc/pressure
        Pressure = "pressure",
        /// /sys/class/thermal
        Thermal = "thermal",
        /// /sys/class/hwmon
        Hwmon = "hwmon",
        /// the GPU (NVML or nvidia-smi)
        Gpu = "gpu",
        /// training logs (--train-log)
        Training = "training",
        /// the kernel's log (/dev/kmsg, /var/log/kern.log)
        KernelLog = "kernel_log",
        /// /proc/loadavg
        Loadavg = "loadavg",
        /// /proc/uptime
        Uptime = "uptime",
        /// /proc/stat
        Stat = "stat",
        /// /proc/swaps
        Swaps = "swaps",
        /// /proc/sys/vm and /sys/kernel/mm/transparent_hugepage
        VmSettings = "vm_settings",
        /// /proc/sys/kernel
        Kernel = "kernel",
        /// /etc/os-release
        OsRelease = "os_release",
        /// /sys/class/dmi/id
        Dmi = "dmi",
        /// /proc/driver/nvidia
        Nvidia = "nvidia",
        /// /proc/PID
        Processes = "processes",
        /// /proc/self
        Process = "process",
    }
}

impl Source {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Its place in a table with one entry a source.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The lane that reads it.
    #[must_use]
    pub const fn lane(self) -> Lane {
        match self {
            Self::Meminfo | Self::Vmstat | Self::Buddyinfo | Self::Pressure => Lane::Fast,
            Self::Thermal | Self::Hwmon => Lane::Sensors,
            Self::Gpu => Lane::Gpu,
            Self::Training => Lane::Logs,
            Self::Processes => Lane::Processes,
            Self::KernelLog => Lane::Messages,
            _ => Lane::Slow,
        }
    }
}

states! {
    /// How a source is doing.
    SourceState {
        /// It was read and said what it should.
        Ok = "ok",
        /// This kernel or this machine does not have it.
        NotPresent = "not_present",
        /// Switched off by the operator.
        Disabled = "disabled",
        /// The exporter may not read it.
        Denied = "denied",
        /// Reading it failed, or what it said is not what the kernel documents.
        Failed = "failed",
        /// Reading it has not come back.
        Hung = "hung",
    }
}

impl From<Missing> for SourceState {
    fn from(reason: Missing) -> Self {
        match reason {
            Missing::NotPresent
            | Missing::NoDriver
            | Missing::NoLibrary
            | Missing::NoSymbol
            | Missing::Unsupported
            | Missing::NotAvailable => Self::NotPresent,
            Missing::Denied => Self::Denied,
            Missing::Disabled => Self::Disabled,
            Missing::Hung => Self::Hung,
            Missing::Pending
            | Missing::Malformed
            | Missing::Failed
            | Missing::Stale
            | Missing::VersionMismatch
            | Missing::Lost => Self::Failed,
        }
    }
}
