//! Checks of the pool: what the driver says about it, and what the kernel leaves unaccounted.

use super::observed::Observed;
use super::outcome::{Judged, Outcome, need};
use super::{Check, Needs};
use crate::model::frame::Frame;
use crate::model::pool::Segment;
use crate::model::reading::Missing;
use crate::model::sharing::{Attribution, Basis, MemoryReport};
use crate::units::{Bytes, GIB, KIB, MIB, SignedBytes};

pub(super) const ANSWER: Check = Check {
    name: "memory-answer",
    expected: "the driver has no figure for the GPU's memory (NVML code 3, [N/A] in nvidia-smi)",
    because: "every return code that was shown is 3; success with zeros and with about MemTotal is claimed, too",
    needs: Needs::Gpu,
    judge: answer,
};

fn answer(observed: &Observed) -> Judged {
    let frame = observed.last();
    let verdicts = need("GPUs", frame.verdicts.gpus.as_ref().map_err(|reason| *reason))?;
    let verdict = verdicts.iter().find(|gpu| gpu.basis == Basis::Gb10);
    let (Some(gpu), Some(verdict)) = (observed.gpu_now(), verdict) else {
        return Err(Outcome::unknown("the GPU is gone"));
    };
    Ok(match (verdict.report, gpu.memory) {
        (MemoryReport::Unsupported, _) => Outcome::pass(MemoryReport::Unsupported.as_str()),
        (report, Ok(figures)) => Outcome::differs(format!(
            "{}: total {}, free {}, used {}",
            report.as_str(),
            figures.total,
            figures.free,
            figures.used
        )),
        (_, Err(reason)) => return need("memory", Err(reason)),
    })
}

/// The kernel's own counters are not read at one instant and may count stacks twice; what the driver
/// charges is rounded up to whole pages of 2 MiB.
const LEAST_REMAINDER: SignedBytes = SignedBytes(-256 * MIB.cast_signed());
/// Published: about 0.4 GiB with a 580 driver, network buffers and contiguous areas (919 MiB seen) on top.
const MOST_REMAINDER: SignedBytes = SignedBytes(4 * GIB.cast_signed());

pub(super) const PARTITION: Check = Check {
    name: "partition",
    expected: "what no counter of the kernel claims, less what NVML charges to processes, is -0.25 to 4 GiB",
    because: "about 0.4 GiB was published for driver 580.82.09; the rest is room for network buffers, contiguous areas \
              and counters that are not read at one instant",
    needs: Needs::Gpu,
    judge: partition,
};

/// Unaccounted less charged, and both.
fn remainder(frame: &Frame) -> Result<(SignedBytes, Bytes, Bytes), Missing> {
    let partition = frame.verdicts.pool.partition.as_ref().map_err(|reason| *reason)?;
    let unaccounted = partition.part(Segment::Unaccounted)?;
    let charged = frame.verdicts.unaccounted.charged?;
    Ok((unaccounted.signed_less(charged), unaccounted, charged))
}

fn partition(observed: &Observed) -> Judged {
    let attribution = observed.last().verdicts.unaccounted.attribution;
    // A load or an exit between two readings moves GiB: the middle one of all frames counts.
    let mut all: Vec<_> = observed.frames().filter_map(|frame| remainder(frame).ok()).collect();
    all.sort_unstable();
    let Some((left, unaccounted, charged)) = all.get(all.len() / 2).copied() else {
        let _ = need("unaccounted", remainder(observed.last()))?;
        return Err(Outcome::unknown("no figure"));
    };
    let found = format!("{unaccounted} unaccounted, {charged} charged, {left} left");
    let over = left > MOST_REMAINDER;
    let pools = observed.last().snapshot.nvidia.pools_on();
    Ok(match attribution {
        _ if left < LEAST_REMAINDER => Outcome::differs(found),
        Attribution::Partial if over => {
            Outcome::unknown(format!("{found}; a process has no figure or is not listed"))
        }
        _ if over && pools != Ok(false) && pools != Err(Missing::NotPresent) => {
            Outcome::unknown(format!("{found}; the driver keeps freed pages in pools"))
        }
        _ => Outcome::of(!over, found),
    })
}

/// Published: 123218076 to 127606860 kB.
const SIZES: [Bytes; 2] = [Bytes::from_gib(117), Bytes::from_gib(122)];
const PAGE: Bytes = Bytes(4 * KIB);
const LARGE_PAGE: Bytes = Bytes(64 * KIB);

pub(super) const SIZE: Check = Check {
    name: "memory-size",
    expected: "pages of 4 KiB and a MemTotal of 117 to 122 GiB (64 KiB pages exist; no total is published for them)",
    because: "123218076 to 127606860 kB were published, by box and firmware",
    needs: Needs::Machine,
    judge: size,
};

fn size(observed: &Observed) -> Judged {
    let pool = &observed.last().verdicts.pool;
    let total = need("MemTotal", pool.size)?;
    let page = need("page size", pool.page_size)?;
    let found = format!("pages of {page}, MemTotal {} kB ({total})", total.0 / KIB);
    Ok(match page {
        PAGE => Outcome::of((SIZES[0]..=SIZES[1]).contains(&total), found),
        LARGE_PAGE => Outcome::unknown(found),
        _ => Outcome::differs(found),
    })
}

/// The first driver with pools.
const FIRST_WITH_POOLS: [u32; 2] = [590, 44];

pub(super) const PAGE_POOLS: Check = Check {
    name: "page-pools",
    expected: "drivers from 590.44 on have EnableSystemMemoryPools (529, or 0 for off), older ones do not",
    because: "the driver's source; whether tens of GiB may be put down to the pools rests on it",
    needs: Needs::Machine,
    judge: page_pools,
};

fn page_pools(observed: &Observed) -> Judged {
    let snapshot = &observed.last().snapshot;
    let version = need(
        "driver version",
        snapshot.nvidia.driver_version.as_ref().or(snapshot.gpus.driver.as_ref()).map_err(|m| *m),
    )?;
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let number = [parts.next().unwrap_or(0), parts.next().unwrap_or(0)];
    let expected = number >= FIRST_WITH_POOLS;
    Ok(match snapshot.nvidia.page_pools {
        Ok(mask) => Outcome::of(expected, format!("driver {version}, the setting is {}", mask.0)),
        // Without the driver's files nothing follows from a missing one.
        Err(Missing::NotPresent) if snapshot.nvidia.driver_version.is_ok() => {
            Outcome::of(!expected, format!("driver {version}, no such setting"))
        }
        Err(reason) => return need("EnableSystemMemoryPools", Err(reason)),
    })
}
