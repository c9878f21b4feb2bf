//! The pool cut into parts that add up to it, on every frame and for every input.
//!
//! What is mine and what is yours, by the kernel's counters:
//!
//! - `Cached` contains `Shmem`, so shared memory is taken out of the page cache; `Buffers` is page
//!   cache too.
//! - `SwapCached` is no part: its pages that are mapped are in `AnonPages` already. Those that are
//!   not stay unaccounted, at most `SwapCached` bytes.
//! - `VmallocUsed` contains kernel stacks on kernels with virtually mapped stacks, and `KernelStack`
//!   counts them again. The kernel's part may be too large by at most `KernelStack` (tens of MiB),
//!   the unaccounted part too small by as much.
//! - Preallocated huge pages are in no other line, used or not.
//! - zram and zswap keep pages that only `nr_zspages` of vmstat counts. zswap with another allocator
//!   than zsmalloc shows in `Zswap` alone, so the larger of both is taken.
//! - What is left is unaccounted: GPU memory, driver pools, network buffers, free pages on the lists
//!   of single CPUs. It is never blamed on
//!   anybody here.
//!
//! The counters are not read at one instant. When together they exceed the pool, the excess is taken
//! off the parts in the order of [`ABSORB`], kernel first because it may count stacks twice, then
//! the page cache because it moves fastest; `Partition::absorbed` says how much.

use crate::model::memory::{Meminfo, Vmstat};
use crate::model::pool::{Partition, Segment};
use crate::model::reading::{Missing, Reading};
use crate::units::Bytes;

/// Which part gives way first when the kernel's counters exceed the pool. `Free` is last: it is
/// exported on its own as well and must agree.
pub const ABSORB: [Segment; 9] = [
    Segment::Kernel,
    Segment::PageCache,
    Segment::Anonymous,
    Segment::SlabReclaimable,
    Segment::SlabUnreclaimable,
    Segment::Shared,
    Segment::Compressed,
    Segment::HugePages,
    Segment::Free,
];

/// Cuts the pool.
///
/// Needs its size and its free memory; any other part that cannot be read is missing, and its bytes
/// are unaccounted.
pub fn partition(m: &Meminfo, vmstat: &Vmstat, page_size: Reading<Bytes>) -> Reading<Partition> {
    let size = m.total?;
    m.free?;
    let mut parts = [Ok(Bytes(0)); Segment::ALL.len()];
    for &segment in Segment::ALL {
        parts[segment as usize] = claimed(segment, m, vmstat, page_size);
    }
    let sum: u128 = parts.iter().flatten().map(|bytes| u128::from(bytes.0)).sum();
    let excess = sum.saturating_sub(u128::from(size.0));
    let mut left = excess;
    for segment in ABSORB {
        if let Ok(bytes) = &mut parts[segment as usize] {
            let taken = u64::try_from(left).unwrap_or(u64::MAX).min(bytes.0);
            bytes.0 -= taken;
            left -= u128::from(taken);
        }
    }
    let claimed: Bytes = parts.iter().flatten().copied().sum();
    parts[Segment::Unaccounted as usize] = Ok(size.less(claimed));
    Ok(Partition { size, parts, absorbed: Bytes(u64::try_from(excess).unwrap_or(u64::MAX)) })
}

/// What the kernel's counters claim for one part.
fn claimed(
    segment: Segment,
    m: &Meminfo,
    vmstat: &Vmstat,
    page_size: Reading<Bytes>,
) -> Reading<Bytes> {
    match segment {
        Segment::Free => m.free,
        Segment::PageCache => Ok(m.buffers?.plus(m.cached?.less(m.shmem?))),
        Segment::Shared => Ok(m.shmem?.min(m.cached?)),
        Segment::Anonymous => m.anon_pages,
        Segment::SlabReclaimable => m.s_reclaimable,
        Segment::SlabUnreclaimable => m.s_unreclaim,
        Segment::Kernel => {
            let newer = [m.sec_page_tables, m.percpu].into_iter().flatten().sum();
            Ok(m.kernel_stack?.plus(m.page_tables?).plus(m.vmalloc_used?).plus(newer))
        }
        Segment::HugePages => m
            .huge_tlb
            .or_else(|_| Ok(Bytes(m.huge_pages_total?.0.saturating_mul(m.huge_page_size?.0)))),
        Segment::Compressed => compressed(m, vmstat, page_size),
        Segment::Unaccounted => Ok(Bytes(0)),
    }
}

/// Pages of zsmalloc, or of zswap with another allocator. `Zswap` alone is not enough: where vmstat
/// could not be read there may be gigabytes of zram that it does not count.
fn compressed(m: &Meminfo, vmstat: &Vmstat, page_size: Reading<Bytes>) -> Reading<Bytes> {
    match vmstat.nr_zspages {
        Ok(pages) => {
            let zspages =
                if pages.0 == 0 { Bytes(0) } else { Bytes(pages.0.saturating_mul(page_size?.0)) };
            Ok(zspages.max(m.zswap.unwrap_or(Bytes(0))))
        }
        // A kernel without zsmalloc has no such line in a vmstat that is otherwise there.
        Err(Missing::NotPresent) if vmstat.nr_free_pages.is_ok() => m.zswap,
        Err(reason) => Err(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fields::Group;
    use crate::model::reading::Raw;
    use crate::sources::proc::{meminfo, vmstat};
    use proptest::prelude::*;

    #[expect(clippy::unnecessary_wraps, reason = "compared with readings")]
    fn kib(kib: u64) -> Reading<Bytes> {
        Ok(Bytes::from_kib(kib))
    }

    fn sum(p: &Partition) -> u128 {
        p.parts.iter().flatten().map(|b| u128::from(b.0)).sum()
    }

    const PLAIN: &str = "MemTotal: 1000 kB\nMemFree: 400 kB\nBuffers: 10 kB\nCached: 200 kB\n\
        Shmem: 50 kB\nAnonPages: 100 kB\nSReclaimable: 20 kB\nSUnreclaim: 30 kB\nKernelStack: 5 kB\n\
        PageTables: 6 kB\nSecPageTables: 1 kB\nPercpu: 2 kB\nVmallocUsed: 7 kB\nHugetlb: 40 kB\nZswap: 8 kB\n";

    #[test]
    fn every_part_gets_its_counters() {
        let p =
            partition(&meminfo::parse(PLAIN), &vmstat::parse("nr_zspages 4\n"), Ok(Bytes(4096)))
                .unwrap();
        let want = [400, 160, 50, 100, 20, 30, 21, 40, 16, 163];
        for (segment, kib_wanted) in Segment::ALL.iter().zip(want) {
            assert_eq!(p.part(*segment), kib(kib_wanted), "{}", segment.as_str());
        }
        assert_eq!(p.absorbed, Bytes(0));
    }

    #[test]
    fn an_excess_is_taken_off_the_kernel_first_and_then_off_the_page_cache() {
        let text = PLAIN.replace("MemTotal: 1000", "MemTotal: 790");
        let p = partition(&meminfo::parse(&text), &vmstat::parse(""), Ok(Bytes(4096))).unwrap();
        assert_eq!(p.absorbed, Bytes::from_kib(31));
        assert_eq!(p.part(Segment::Kernel), kib(0));
        assert_eq!(p.part(Segment::PageCache), kib(150));
        assert_eq!(p.part(Segment::Free), kib(400));
        assert_eq!(p.part(Segment::Unaccounted), kib(0));
        assert_eq!(sum(&p), 790 * 1024);
    }

    #[test]
    fn a_part_without_its_input_is_missing_and_its_bytes_are_unaccounted() {
        let text = PLAIN.replace("AnonPages: 100 kB\n", "");
        let p = partition(&meminfo::parse(&text), &vmstat::parse(""), Ok(Bytes(4096))).unwrap();
        assert_eq!(p.part(Segment::Anonymous), Err(Missing::NotPresent));
        assert_eq!(p.part(Segment::Compressed), Err(Missing::NotPresent), "zram may be there");
        assert_eq!(p.part(Segment::Unaccounted), kib(163 + 100 + 16));
        assert_eq!(sum(&p), 1000 * 1024);
    }

    #[test]
    fn without_size_or_free_there_is_no_partition() {
        let none = Meminfo::absent(Missing::Denied);
        assert_eq!(partition(&none, &vmstat::parse(""), Ok(Bytes(4096))), Err(Missing::Denied));
    }

    #[test]
    fn older_kernels_give_huge_pages_by_number_and_size() {
        let text = PLAIN.replace("Hugetlb: 40 kB\n", "HugePages_Total: 3\nHugepagesize: 2 kB\n");
        let p = partition(&meminfo::parse(&text), &vmstat::parse(""), Ok(Bytes(4096))).unwrap();
        assert_eq!(p.part(Segment::HugePages), kib(6));
    }

    proptest! {
        /// Whatever the kernel says, torn, wild or incomplete, the parts add up to the pool.
        #[test]
        fn the_parts_always_add_up(
            values in proptest::collection::vec(proptest::option::of(any::<u64>()), 14),
            small in any::<bool>(),
            pages in proptest::option::of(any::<u64>()),
        ) {
            let names = ["MemFree", "Buffers", "Cached", "Shmem", "AnonPages", "SReclaimable",
                "SUnreclaim", "KernelStack", "PageTables", "SecPageTables", "Percpu", "VmallocUsed",
                "Hugetlb", "Zswap"];
            let mut info = meminfo::parse("MemTotal: 127600748 kB\nMemFree: 1 kB\n");
            for (name, value) in names.iter().zip(&values) {
                if let Some(v) = value {
                    info.put(name, || Ok(Raw::Kib(if small { v % (1 << 27) } else { v % (1 << 54) })));
                }
            }
            let mut stat = Vmstat::absent(Missing::NotPresent);
            if let Some(v) = pages { stat.put("nr_zspages", || Ok(Raw::Plain(v))); }
            let p = partition(&info, &stat, Ok(Bytes(65536))).unwrap();
            prop_assert_eq!(sum(&p), u128::from(p.size.0));
        }
    }
}
