//! Verdicts on the memory pool: what is left, in which parts, for whom, and for how long.

use super::contention::{Contention, Pressed, Release};
use super::kernel_log::Heard;
use super::module::Module;
use super::reading::{Missing, Reading};
use super::sharing::{GpuMemory, Unaccounted};
use super::throttle::Throttle;
use super::training::TrainingRun;
use super::workload::Workloads;
use crate::units::{Bytes, BytesPerSecond, Celsius, Seconds, SignedBytes};
use std::time::Duration;

states! {
    /// A part of the pool. On every frame the parts add up to the pool exactly.
    Segment {
        /// Pages nobody uses.
        Free = "free",
        /// File pages, shared memory excluded.
        PageCache = "page_cache",
        /// Shared memory and tmpfs.
        Shared = "shared",
        /// Programs' own pages.
        Anonymous = "anonymous",
        /// Kernel objects that reclaim can take back.
        SlabReclaimable = "slab_reclaimable",
        /// Kernel objects that reclaim cannot take back.
        SlabUnreclaimable = "slab_unreclaimable",
        /// Kernel stacks, page tables, per-CPU areas and vmalloc.
        Kernel = "kernel",
        /// Preallocated huge pages, used or not.
        HugePages = "huge_pages",
        /// Compressed swap in memory (zram, zswap).
        Compressed = "compressed",
        /// What no counter of the kernel claims. GPU allocations are here: they are in no line of
        /// /proc/meminfo and only lower MemFree.
        Unaccounted = "unaccounted",
    }
}

states! {
    /// Who asks for memory, by the figure it goes by.
    Reader {
        /// The CUDA driver's own view (cudaMemGetInfo) and engines that trust it: MemFree.
        Free = "free",
        /// Newer vLLM and llama.cpp, which know that cache can be reclaimed: MemAvailable.
        Available = "available",
    }
}

states! {
    /// A rolling window that ends now. Until the exporter has run that long, it is shorter.
    Window {
        /// One minute.
        OneMinute = "1m",
        /// Five minutes.
        FiveMinutes = "5m",
        /// Fifteen minutes.
        FifteenMinutes = "15m",
    }
}

impl Window {
    /// Its length.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::OneMinute => 60,
            Self::FiveMinutes => 300,
            Self::FifteenMinutes => 900,
        })
    }
}

states! {
    /// A size of physically contiguous block that the driver may ask for.
    Block {
        /// 2 MiB: a huge page.
        TwoMib = "2MiB",
        /// 4 MiB: the largest block of a common arm64 kernel.
        FourMib = "4MiB",
        /// 16 MiB.
        SixteenMib = "16MiB",
        /// 32 MiB.
        ThirtyTwoMib = "32MiB",
    }
}

impl Block {
    /// Its size.
    #[must_use]
    pub const fn size(self) -> Bytes {
        Bytes::from_mib(match self {
            Self::TwoMib => 2,
            Self::FourMib => 4,
            Self::SixteenMib => 16,
            Self::ThirtyTwoMib => 32,
        })
    }
}

states! {
    /// Why pages cannot be reclaimed.
    Pinned {
        /// Locked by mlock. Memory that a driver pins for its device is not among them.
        Mlocked = "mlocked",
        /// On the unevictable list for any reason, mlock included.
        Unevictable = "unevictable",
    }
}

/// The pool cut into parts that add up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The pool.
    pub size: Bytes,
    /// The parts, by [`Segment`] in the order of `Segment::ALL`. A part whose input is missing is
    /// missing, and its bytes are in `unaccounted`.
    pub parts: [Reading<Bytes>; Segment::ALL.len()],
    /// Bytes by which the kernel's counters together exceeded the pool and that were taken off the
    /// parts, kernel first. Its counters are not read at one instant, and `VmallocUsed` may contain
    /// kernel stacks that `KernelStack` counts again.
    pub absorbed: Bytes,
}

impl Partition {
    /// One part.
    #[must_use]
    pub const fn part(&self, segment: Segment) -> Reading<Bytes> {
        self.parts[segment as usize]
    }
}

/// Whether and when the pool runs down to its reserve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exhaustion {
    /// Available memory could not be read, or has not been read often enough yet.
    Unknown(Missing),
    /// More is available than the level below which the slope is judged.
    Roomy,
    /// Not falling.
    Steady,
    /// Falling.
    Falling {
        /// Time until available memory reaches the reserve; zero when it has.
        to_reserve: Seconds,
        /// The slope that this comes from, negative.
        slope: BytesPerSecond,
        /// The length of the window that gave this slope.
        over: Seconds,
    },
}

/// Everything derived about the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// MemTotal.
    pub size: Reading<Bytes>,
    /// MemFree.
    pub free: Reading<Bytes>,
    /// MemAvailable.
    pub available: Reading<Bytes>,
    /// size - available.
    pub used: Reading<Bytes>,
    /// The pool in parts.
    pub partition: Reading<Partition>,
    /// Pinned pages by kind, in the order of `Pinned::ALL`. The kinds overlap.
    pub pinned: [Reading<Bytes>; Pinned::ALL.len()],
    /// What a flush of the page cache returns at the least.
    pub flushable: Reading<Bytes>,
    /// What is left above the reserve, by reader. Negative when the reserve is broken into.
    pub headroom: [Reading<SignedBytes>; Reader::ALL.len()],
    /// Room that exists and that CUDA's own query does not show: available - free.
    pub hidden: Reading<Bytes>,
    /// Smallest MemAvailable by window.
    pub available_min: [Reading<Bytes>; Window::ALL.len()],
    /// Smallest MemFree by window.
    pub free_min: [Reading<Bytes>; Window::ALL.len()],
    /// Largest fall of MemAvailable within ten seconds, by window.
    pub fall_max: [Reading<Bytes>; Window::ALL.len()],
    /// Time to the reserve.
    pub exhaustion: Exhaustion,
    /// Whether the reserve is about to be reached. Held for a while and for as long as the reserve is
    /// broken into, so that a pause in a fall is not taken for its end.
    pub imminent: Reading<bool>,
    /// Whether the reserve is broken into, by MemAvailable. With hysteresis.
    pub below_reserve: Reading<bool>,
    /// Free memory in contiguous blocks of at least a size, in the order of `Block::ALL`.
    pub contiguous: [Reading<Bytes>; Block::ALL.len()],
    /// Page size of the machine the readings come from.
    pub page_size: Reading<Bytes>,
}

/// Everything that was derived from a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts {
    /// The pool.
    pub pool: Pool,
    /// The hottest thermal zone that could be read, and its temperature.
    pub hottest: Reading<(String, Celsius)>,
    /// The highest temperature of the hottest zone, by window.
    pub board_max: [Reading<Celsius>; Window::ALL.len()],
    /// The module's power controller, where the optional driver tells of it.
    pub module: Module,
    /// What is known about each GPU's memory, by index.
    pub gpus: Reading<Vec<GpuMemory>>,
    /// Who holds what the kernel has no account of.
    pub unaccounted: Unaccounted,
    /// What CUDA calls free, on a proven GB10.
    pub cuda_free: Reading<Bytes>,
    /// Room that exists and that CUDA's query does not show, on a proven GB10. Negative where the kernel
    /// would give less than CUDA promises.
    pub cuda_blind: Reading<SignedBytes>,
    /// How the runs go whose logs are followed.
    pub training: Vec<TrainingRun>,
    /// What was made of the kernel's log.
    pub kernel_log: Reading<Heard>,
    /// How each GB10 works; by index.
    pub throttle: Vec<Throttle>,
    /// Who holds the pool.
    pub workloads: Workloads,
    /// The pressure on memory.
    pub pressed: Pressed,
    /// Whether jobs fight.
    pub contention: Contention,
    /// What ended jobs have not given back.
    pub release: Release,
}
