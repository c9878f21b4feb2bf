//! What the kernel says about the memory pool.

use super::fields::{Field, Group};
use super::reading::{Missing, Quantity, Reading, Value};
use crate::units::{Bytes, Count};

readings! {
    keyed
    /// `/proc/meminfo`. On a GB10 these are the only trustworthy totals: CPU and GPU share the pool,
    /// and NVML answers its memory query with "not supported".
    Meminfo from Meminfo at meminfo as "meminfo" {
        /// The pool: RAM that the kernel manages. Differs from box to box and by firmware.
        total: Bytes = Required "MemTotal",
        /// Pages nobody uses. `cudaMemGetInfo` reports this figure as free on a GB10.
        free: Bytes = Required "MemFree",
        /// The kernel's estimate of what a new program could get without swapping.
        available: Bytes = Required "MemAvailable",
        /// Block device cache.
        buffers: Bytes = Required "Buffers",
        /// Page cache, shared memory included.
        cached: Bytes = Required "Cached",
        /// Anonymous pages that are also in swap. Those mapped are in AnonPages too.
        swap_cached: Bytes = Optional "SwapCached",
        /// Recently used pages.
        active: Bytes = Required "Active",
        /// Pages not recently used.
        inactive: Bytes = Required "Inactive",
        /// Recently used anonymous and shared pages.
        active_anon: Bytes = Required "Active(anon)",
        /// Anonymous and shared pages not recently used.
        inactive_anon: Bytes = Required "Inactive(anon)",
        /// Recently used file pages.
        active_file: Bytes = Required "Active(file)",
        /// File pages not recently used.
        inactive_file: Bytes = Required "Inactive(file)",
        /// Pages that reclaim may not touch.
        unevictable: Bytes = Required "Unevictable",
        /// Pages locked by mlock. Memory that a driver pins for its device is not among them.
        mlocked: Bytes = Required "Mlocked",
        /// Swap space.
        swap_total: Bytes = Required "SwapTotal",
        /// Unused swap space.
        swap_free: Bytes = Required "SwapFree",
        /// Memory that zswap's compressed store takes.
        zswap: Bytes = Optional "Zswap",
        /// What is stored compressed in zswap, at its uncompressed size.
        zswapped: Bytes = Optional "Zswapped",
        /// File pages that wait to be written.
        dirty: Bytes = Required "Dirty",
        /// File pages being written.
        writeback: Bytes = Required "Writeback",
        /// Anonymous pages mapped by programs.
        anon_pages: Bytes = Required "AnonPages",
        /// File and shared pages mapped by programs.
        mapped: Bytes = Required "Mapped",
        /// Shared memory and tmpfs.
        shmem: Bytes = Required "Shmem",
        /// Kernel memory that reclaim can take back.
        k_reclaimable: Bytes = Optional "KReclaimable",
        /// All slab memory.
        slab: Bytes = Required "Slab",
        /// Slab memory that reclaim can take back: directory and inode caches.
        s_reclaimable: Bytes = Required "SReclaimable",
        /// Slab memory that reclaim cannot take back.
        s_unreclaim: Bytes = Required "SUnreclaim",
        /// Kernel stacks.
        kernel_stack: Bytes = Required "KernelStack",
        /// Page tables.
        page_tables: Bytes = Required "PageTables",
        /// Page tables of virtual machines and the IOMMU (Linux 6.1 and later).
        sec_page_tables: Bytes = Optional "SecPageTables",
        /// Per-CPU allocations.
        percpu: Bytes = Optional "Percpu",
        /// vmalloc area in use.
        vmalloc_used: Bytes = Required "VmallocUsed",
        /// Pages taken out of service after a memory error.
        hardware_corrupted: Bytes = Optional "HardwareCorrupted",
        /// Anonymous memory in transparent huge pages (part of AnonPages).
        anon_huge_pages: Bytes = Optional "AnonHugePages",
        /// Memory set aside for contiguous allocations.
        cma_total: Bytes = Optional "CmaTotal",
        /// The free part of it (part of MemFree).
        cma_free: Bytes = Optional "CmaFree",
        /// What the kernel would promise to allocations under strict overcommit.
        commit_limit: Bytes = Optional "CommitLimit",
        /// What programs have been promised.
        committed: Bytes = Optional "Committed_AS",
        /// Preallocated huge pages of the default size.
        huge_pages_total: Count = Optional "HugePages_Total",
        /// Unused preallocated huge pages of the default size.
        huge_pages_free: Count = Optional "HugePages_Free",
        /// Default huge page size.
        huge_page_size: Bytes = Optional "Hugepagesize",
        /// All preallocated huge pages of every size.
        huge_tlb: Bytes = Optional "Hugetlb",
    }
}

readings! {
    keyed
    /// `/proc/vmstat`: page counts and event counters since boot.
    Vmstat from Vmstat at vmstat as "vmstat" {
        /// Free pages.
        nr_free_pages: Count = Required "nr_free_pages",
        /// Free pages in whole page blocks (Linux 6.15 and later).
        nr_free_pages_blocks: Count = Optional "nr_free_pages_blocks",
        /// Slab pages that reclaim cannot take back; SUnreclaim in pages, which gives the page size.
        nr_slab_unreclaimable: Count = Required "nr_slab_unreclaimable",
        /// Pages that zsmalloc (zram, zswap) holds; in no line of /proc/meminfo.
        nr_zspages: Count = Optional "nr_zspages",
        /// Anonymous pages read back soon after they were reclaimed.
        refault_anon: Count = Optional "workingset_refault_anon",
        /// File pages read back soon after they were reclaimed.
        refault_file: Count = Optional "workingset_refault_file",
        /// Pages read from swap.
        swap_in: Count = Optional "pswpin",
        /// Pages written to swap.
        swap_out: Count = Optional "pswpout",
        /// Page faults that waited for a disk.
        major_faults: Count = Required "pgmajfault",
        /// Pages that the background reclaimer took back.
        steal_kswapd: Count = Required "pgsteal_kswapd",
        /// Pages that an allocating program had to take back itself.
        steal_direct: Count = Required "pgsteal_direct",
        /// Pages that khugepaged took back.
        steal_khugepaged: Count = Optional "pgsteal_khugepaged",
        /// Pages that proactive reclaim (cgroup memory.reclaim) took back.
        steal_proactive: Count = Optional "pgsteal_proactive",
        /// Pages that the background reclaimer looked at.
        scan_kswapd: Count = Required "pgscan_kswapd",
        /// Pages that allocating programs looked at.
        scan_direct: Count = Required "pgscan_direct",
        /// Allocations that had to reclaim first, zone DMA.
        stall_dma: Count = Optional "allocstall_dma",
        /// Allocations that had to reclaim first, zone DMA32.
        stall_dma32: Count = Optional "allocstall_dma32",
        /// Allocations that had to reclaim first, zone Normal.
        stall_normal: Count = Required "allocstall_normal",
        /// Allocations that had to reclaim first, zone Movable.
        stall_movable: Count = Optional "allocstall_movable",
        /// Allocations of large blocks that had to compact memory first.
        compact_stall: Count = Optional "compact_stall",
        /// Of those, the ones that failed.
        compact_fail: Count = Optional "compact_fail",
        /// Of those, the ones that succeeded.
        compact_success: Count = Optional "compact_success",
        /// Processes killed for want of memory.
        oom_kill: Count = Optional "oom_kill",
        /// Times that somebody dropped the page cache by hand.
        drop_pagecache: Count = Optional "drop_pagecache",
        /// Times that somebody dropped the reclaimable slab by hand.
        drop_slab: Count = Optional "drop_slab",
    }
}

/// Free blocks of one zone of one node, from `/proc/buddyinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneBlocks {
    /// `node0.Normal`: how the table names the zone.
    pub name: String,
    /// Free blocks of 2^n pages, by n.
    pub by_order: Vec<u64>,
    /// The counts as the kernel prints them, for captures and people.
    pub text: String,
}

impl ZoneBlocks {
    /// Takes other counts, as the kernel prints them; false when they are none.
    pub fn set(&mut self, text: &str) -> bool {
        let counts: Option<Vec<u64>> =
            text.split_ascii_whitespace().map(|count| count.parse().ok()).collect();
        match counts.filter(|counts| !counts.is_empty()) {
            Some(counts) => {
                self.put(counts);
                true
            }
            None => false,
        }
    }

    /// Takes other counts.
    pub fn put(&mut self, counts: Vec<u64>) {
        let words: Vec<String> = counts.iter().map(u64::to_string).collect();
        (self.text, self.by_order) = (words.join(" "), counts);
    }
}

/// Puts an amount that is never missing.
fn amount(place: &mut Bytes, value: Reading<Value<'_>>) -> bool {
    match value.ok().as_ref().and_then(Bytes::from_value) {
        Some(bytes) => {
            *place = bytes;
            true
        }
        None => false,
    }
}

/// One line of `/proc/swaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// `file0`, `zram0`, `partition1`: kind and position. The path is the operator's business.
    pub name: String,
    /// Size.
    pub size: Bytes,
    /// Used.
    pub used: Bytes,
}

/// Free blocks by zone.
pub type Blocks = Reading<Vec<ZoneBlocks>>;
/// Swap areas; empty on a box without swap.
pub type Swaps = Reading<Vec<SwapArea>>;

impl<T> Group for Reading<Vec<T>> {
    fn absent(reason: Missing) -> Self {
        Err(reason)
    }
}

/// Rows of the field table for what comes in lists.
pub const FAMILIES: &[Field] = &[
    family!(
        "buddyinfo.free_blocks",
        None,
        Required,
        Buddyinfo,
        " Free blocks of 1, 2, 4, ... pages by zone: whether large contiguous pieces are left.",
        blocks,
        |zone, out| out(&zone.name, Ok(zone.text.value())),
        |zone, value| match value {
            Ok(Value::Text(text)) => zone.set(text),
            _ => false,
        }
    ),
    family!(
        "swaps.size",
        Bytes,
        Optional,
        Swaps,
        " Size of a swap area.",
        swaps,
        |area, out| out(&area.name, Ok(area.size.value())),
        |area, value| amount(&mut area.size, value)
    ),
    family!(
        "swaps.used",
        Bytes,
        Optional,
        Swaps,
        " Used part of a swap area.",
        swaps,
        |area, out| out(&area.name, Ok(area.used.value())),
        |area, value| amount(&mut area.used, value)
    ),
];
