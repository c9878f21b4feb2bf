//! The memory pool.

use super::{flag, metric, rows};
use crate::model::pool::{Block, Exhaustion, Pinned, Reader, Segment, Window};
use crate::units::{Bytes, SignedBytes};

rows![
    POOL_SIZE_BYTES = metric!(
        "gb10_pool_size_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "/proc/meminfo MemTotal",
        "Memory that the kernel manages. On a GB10 CPU and GPU share it (gb10_gpu_memory_sharing says whether here); differs from box to box.",
        |f, out| out.one(f.verdicts.pool.size, Bytes::as_f64)
    ),
    POOL_FREE_BYTES = metric!(
        "gb10_pool_free_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "/proc/meminfo MemFree",
        "Pages nobody uses. On a GB10 this is what cudaMemGetInfo calls free; page cache counts as used there.",
        |f, out| out.one(f.verdicts.pool.free, Bytes::as_f64)
    ),
    POOL_AVAILABLE_BYTES = metric!(
        "gb10_pool_available_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "/proc/meminfo MemAvailable",
        "What a new program could get without swapping, by the kernel's estimate. An upper bound: drivers have failed to allocate with tens of GiB of it left.",
        |f, out| out.one(f.verdicts.pool.available, Bytes::as_f64)
    ),
    POOL_USED_BYTES = metric!(
        "gb10_pool_used_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "size - available",
        "The pool less what is available.",
        |f, out| out.one(f.verdicts.pool.used, Bytes::as_f64)
    ),
    POOL_SEGMENT_BYTES = metric!(
        "gb10_pool_segment_bytes",
        Gauge,
        Bytes,
        ["segment"],
        [Meminfo, Vmstat],
        Stable,
        "/proc/meminfo, /proc/vmstat nr_zspages",
        "The pool in parts that add up to gb10_pool_size_bytes exactly. Where a GPU shares the pool, its memory is in no counter of the kernel and shows as unaccounted.",
        |f, out| if let Ok(p) = &f.verdicts.pool.partition {
            for segment in Segment::ALL {
                out.each([segment.as_str().into()], p.part(*segment), Bytes::as_f64);
            }
        }
    ),
    POOL_OVERCOUNTED_BYTES = metric!(
        "gb10_pool_overcounted_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo, Vmstat],
        Experimental,
        "/proc/meminfo",
        "Bytes by which the kernel's counters together exceeded the pool and that were taken off its parts, kernel first. Normally 0.",
        |f, out| if let Ok(p) = &f.verdicts.pool.partition {
            out.add([], p.absorbed.as_f64());
        }
    ),
    POOL_PINNED_BYTES = metric!(
        "gb10_pool_pinned_bytes",
        Gauge,
        Bytes,
        ["kind"],
        [Meminfo],
        Stable,
        "/proc/meminfo Mlocked, Unevictable",
        "Pages that reclaim may not touch. The kinds overlap: locked pages are unevictable.",
        |f, out| for (kind, bytes) in Pinned::ALL.iter().zip(f.verdicts.pool.pinned) {
            out.each([kind.as_str().into()], bytes, Bytes::as_f64);
        }
    ),
    POOL_FLUSHABLE_BYTES = metric!(
        "gb10_pool_flushable_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "/proc/meminfo",
        "About what dropping the page cache returns: clean file pages that no program maps, and reclaimable slab, of which objects in use stay. Pages that drivers from 590.44 on keep in pools come on top and are not known.",
        |f, out| out.one(f.verdicts.pool.flushable, Bytes::as_f64)
    ),
    POOL_RESERVE_BYTES = metric!(
        "gb10_pool_reserve_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "threshold pool.reserve",
        "Memory that should stay available for the operating system and the driver, as configured.",
        |f, out| out.add([], f.thresholds.reserve.as_f64())
    ),
    POOL_COMFORT_BYTES = metric!(
        "gb10_pool_comfort_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Experimental,
        "threshold pool.comfort",
        "Headroom that is called comfortable, as configured.",
        |f, out| out.add([], f.thresholds.comfort.as_f64())
    ),
    POOL_HEADROOM_BYTES = metric!(
        "gb10_pool_headroom_bytes",
        Gauge,
        Bytes,
        ["reader"],
        [Meminfo],
        Stable,
        "MemFree or MemAvailable, less the reserve",
        "What is left above the reserve, by the figure that the reader goes by: free is CUDA's own view on a GB10 and that of older engines, available is newer vLLM (llama.cpp adds free swap). Do not add them up. Negative when the reserve is broken into.",
        |f, out| for (reader, bytes) in Reader::ALL.iter().zip(f.verdicts.pool.headroom) {
            out.each([reader.as_str().into()], bytes, SignedBytes::as_f64);
        }
    ),
    POOL_AVAILABLE_MIN_BYTES = metric!(
        "gb10_pool_available_min_bytes",
        Gauge,
        Bytes,
        ["window"],
        [Meminfo],
        Stable,
        "MemAvailable, every second",
        "Smallest available memory within the window. Collapses here last seconds and fall between two scrapes.",
        |f, out| for (window, bytes) in Window::ALL.iter().zip(f.verdicts.pool.available_min) {
            out.each([window.as_str().into()], bytes, Bytes::as_f64);
        }
    ),
    POOL_FREE_MIN_BYTES = metric!(
        "gb10_pool_free_min_bytes",
        Gauge,
        Bytes,
        ["window"],
        [Meminfo],
        Stable,
        "MemFree, every second",
        "Smallest free memory within the window.",
        |f, out| for (window, bytes) in Window::ALL.iter().zip(f.verdicts.pool.free_min) {
            out.each([window.as_str().into()], bytes, Bytes::as_f64);
        }
    ),
    POOL_FALL_MAX_BYTES = metric!(
        "gb10_pool_fall_max_bytes",
        Gauge,
        Bytes,
        ["window"],
        [Meminfo],
        Stable,
        "MemAvailable, every second",
        "Largest fall of available memory within the time of threshold pool.fall_within, by window.",
        |f, out| for (window, bytes) in Window::ALL.iter().zip(f.verdicts.pool.fall_max) {
            out.each([window.as_str().into()], bytes, Bytes::as_f64);
        }
    ),
    POOL_EXHAUSTION_SECONDS = metric!(
        "gb10_pool_exhaustion_seconds",
        Gauge,
        Seconds,
        [],
        [Meminfo],
        Stable,
        "MemAvailable, every second",
        "Time until available memory reaches the reserve, by the steeper of a robust short and long slope (thresholds pool.slope_short, pool.slope_long). Absent while it is not falling, or above threshold pool.exhaustion_level.",
        |f, out| if let Exhaustion::Falling { to_reserve, .. } = f.verdicts.pool.exhaustion {
            out.add([], to_reserve.0);
        }
    ),
    POOL_EXHAUSTION_IMMINENT = metric!(
        "gb10_pool_exhaustion_imminent",
        Gauge,
        None,
        [],
        [Meminfo],
        Stable,
        "MemAvailable, every second",
        "1 while the reserve is about to be reached (threshold pool.imminent_within), for a while after, and for as long as it then stays broken into.",
        |f, out| out.one(f.verdicts.pool.imminent, flag)
    ),
    POOL_BELOW_RESERVE = metric!(
        "gb10_pool_below_reserve",
        Gauge,
        None,
        [],
        [Meminfo],
        Stable,
        "MemAvailable, every second",
        "1 while available memory is below the reserve, with hysteresis (threshold pool.reserve_hysteresis).",
        |f, out| out.one(f.verdicts.pool.below_reserve, flag)
    ),
    POOL_CONTIGUOUS_FREE_BYTES = metric!(
        "gb10_pool_contiguous_free_bytes",
        Gauge,
        Bytes,
        ["block"],
        [Buddyinfo],
        Stable,
        "/proc/buddyinfo",
        "Free memory in contiguous blocks of at least this size, in all zones and of all kinds, so it is what the driver can get at most; it needs large ones. Absent for sizes above the kernel's largest block, which it does not count.",
        |f, out| for (block, bytes) in Block::ALL.iter().zip(f.verdicts.pool.contiguous) {
            out.each([block.as_str().into()], bytes, Bytes::as_f64);
        }
    ),
    SWAP_SIZE_BYTES = metric!(
        "gb10_swap_size_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "/proc/meminfo SwapTotal",
        "Swap space. 0 on a box without swap.",
        |f, out| out.one(f.snapshot.meminfo.swap_total, Bytes::as_f64)
    ),
    SWAP_FREE_BYTES = metric!(
        "gb10_swap_free_bytes",
        Gauge,
        Bytes,
        [],
        [Meminfo],
        Stable,
        "/proc/meminfo SwapFree",
        "Unused swap space.",
        |f, out| out.one(f.snapshot.meminfo.swap_free, Bytes::as_f64)
    ),
];
