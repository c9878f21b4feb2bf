//! Whether a GPU shares the pool, what its driver says about memory, and who holds what the kernel
//! has no account of.

use super::reading::Reading;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

states! {
    /// What the driver says when it is asked for a GPU's memory.
    MemoryReport {
        /// It does not tell. The normal answer of a GB10.
        Unsupported = "unsupported",
        /// It tells zero bytes. Not a figure.
        Zero = "zero",
        /// It tells about as much as the whole pool.
        WholePool = "whole_pool",
        /// It tells a small part of a pool that the GPU shares.
        CarveOut = "carve_out",
        /// It tells the memory of the GPU's own.
        Dedicated = "dedicated",
        /// It could not be asked, or what it said cannot be.
        Failed = "failed",
    }
}

states! {
    /// Whether a GPU uses the machine's pool or memory of its own.
    Sharing {
        /// CPU and GPU share one pool.
        Shared = "shared",
        /// The GPU has memory of its own; the pool is the CPU's.
        Separate = "separate",
        /// Not to be told from what could be read.
        Unknown = "unknown",
    }
}

states! {
    /// What the answer to that rests on.
    Basis {
        /// The PCI device, or the name, of a GB10.
        Gb10 = "gb10",
        /// The name of another part that is known to share its machine's memory.
        IntegratedPart = "integrated_part",
        /// The driver has no figure, and the GPU addresses system memory (ATS or HMM). Neither alone
        /// would prove anything.
        NoFigureAndAddressing = "no_figure_and_addressing",
        /// A figure that is neither about the pool's size nor a part known to be carved out of it.
        OwnFigure = "own_figure",
        /// Nothing that proves either.
        Nothing = "nothing",
    }
}

/// What is known about a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// The driver's index.
    pub index: u32,
    /// What the driver says.
    pub report: MemoryReport,
    /// Whether it shares the pool.
    pub sharing: Sharing,
    /// What that rests on.
    pub basis: Basis,
    /// Whether something uses it that its process lists do not show.
    pub hidden: Hidden,
}

/// Whether something uses a GPU that its process lists do not show, as in a container without the
/// host's pids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Everybody is listed.
    No,
    /// It is in use and nobody is listed.
    Yes,
    /// Not to be told: a list could not be read, or what uses it may be one of the listed processes.
    Unknown,
}

states! {
    /// Where the figure for CUDA's free memory comes from.
    CudaFreeSource {
        /// MemFree of /proc/meminfo, which it equals on a GB10.
        Meminfo = "meminfo",
    }
}

states! {
    /// Who holds memory that no counter of the kernel claims. The parts add up to it.
    Holder {
        /// Processes, by the driver's own figures.
        GpuProcesses = "gpu_processes",
        /// Pools of freed pages that the driver keeps (drivers from 590.44 on), only with evidence.
        PagePools = "page_pools",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

states! {
    /// How far the attribution can be trusted.
    Attribution {
        /// Every GPU that shares the pool tells every process with a figure.
        Complete = "complete",
        /// Every process has a figure, and what nothing else explains is put down to the driver's page
        /// pools, which tell no figure themselves.
        Estimated = "estimated",
        /// A process without a figure, or a GPU of which nothing is known: what is attributed is the
        /// least.
        Partial = "partial",
        /// The driver charges more to processes than is unaccounted: what is attributed was cut to it, and
        /// what else there is cannot be told.
        Clamped = "clamped",
        /// Something uses the GPU and no process is to be seen.
        Hidden = "hidden",
        /// No GPU shares the pool.
        NotShared = "not_shared",
        /// The GPU's processes cannot be read.
        Unknown = "unknown",
    }
}

/// Who holds what the kernel has no account of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unaccounted {
    /// How far to trust it.
    pub attribution: Attribution,
    /// By [`Holder`]. Those that are there add up to the unaccounted part of the pool.
    pub parts: [Reading<Bytes>; Holder::ALL.len()],
    /// What the driver charges to processes, before it is cut.
    pub charged: Reading<Bytes>,
    /// How many processes those are.
    pub processes: Reading<u64>,
    /// What remained on this box when nothing computed on its GPU: the uncertainty of `unknown`.
    pub idle_remainder: Reading<Bytes>,
}

impl Unaccounted {
    /// A part.
    #[must_use]
    pub const fn part(&self, holder: Holder) -> Reading<Bytes> {
        self.parts[holder as usize]
    }
}

/// An idle remainder as it was learned: for one boot with one driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleRemainder {
    /// The kernel's identity of the boot.
    pub boot_id: String,
    /// The driver's version.
    pub driver: String,
    /// The smallest that was seen.
    pub bytes: Bytes,
}
