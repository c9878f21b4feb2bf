//! Plain facts of one instant.

use super::fields::Group;
use super::gpu::Gpus;
use super::kernel_log::KernelLog;
use super::machine::{Dmi, Kernel, Load, Nvidia, Os, Stat, Uptime, VmSettings};
use super::memory::{Blocks, Meminfo, Swaps, Vmstat};
use super::moment::Moment;
use super::pressure::Pressure;
use super::process::Process;
use super::reading::Missing;
use super::sensors::{Hwmon, Zones};
use super::source::Source;
use super::training::Training;
use super::workload::Processes;

/// Declares the snapshot: one group a source, with what it takes to move and to lose a group.
macro_rules! snapshot {
    ($( #[doc = $doc:literal] $member:ident: $ty:ty = $source:ident, )+) => {
        /// Every reading of one instant, group by group, and when each source was last read.
        #[derive(Clone, Debug)]
        pub struct Snapshot {
            /// When the snapshot was put together.
            pub at: Moment,
            /// When each source was last read, by [`Source::index`].
            pub read_at: [Option<Moment>; Source::COUNT],
            $( #[doc = $doc] pub $member: $ty, )+
        }

        impl Snapshot {
            /// A snapshot in which nothing has been read, for one reason.
            #[must_use]
            pub fn absent(at: Moment, reason: Missing) -> Self {
                Self { at, read_at: [None; Source::COUNT], $( $member: Group::absent(reason), )+ }
            }

            /// Takes over what `source` said in another snapshot.
            pub fn take(&mut self, source: Source, from: &Self) {
                self.read_at[source.index()] = from.read_at[source.index()];
                match source { $( Source::$source => self.$member.clone_from(&from.$member), )+ }
            }

            /// Forgets what `source` said: its readings are missing for `reason` from now on.
            pub fn lose(&mut self, source: Source, reason: Missing) {
                match source { $( Source::$source => self.$member = Group::absent(reason), )+ }
            }
        }
    };
}

snapshot! {
    /// `/proc/meminfo`
    meminfo: Meminfo = Meminfo,
    /// `/proc/vmstat`
    vmstat: Vmstat = Vmstat,
    /// `/proc/buddyinfo`
    blocks: Blocks = Buddyinfo,
    /// `/proc/pressure`
    pressure: Pressure = Pressure,
    /// Thermal zones
    zones: Zones = Thermal,
    /// hwmon inputs
    hwmon: Hwmon = Hwmon,
    /// Training logs that are followed
    training: Training = Training,
    /// What the kernel says
    kernel_log: KernelLog = KernelLog,
    /// The GPU
    gpus: Gpus = Gpu,
    /// `/proc/loadavg`
    load: Load = Loadavg,
    /// `/proc/uptime`
    uptime: Uptime = Uptime,
    /// `/proc/stat`
    stat: Stat = Stat,
    /// `/proc/swaps`
    swaps: Swaps = Swaps,
    /// Virtual memory settings
    vm: VmSettings = VmSettings,
    /// Kernel
    kernel: Kernel = Kernel,
    /// `/etc/os-release`
    os: Os = OsRelease,
    /// DMI
    dmi: Dmi = Dmi,
    /// NVIDIA kernel driver
    nvidia: Nvidia = Nvidia,
    /// The processes that matter
    processes: Processes = Processes,
    /// The exporter itself
    process: Process = Process,
}
