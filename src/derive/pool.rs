//! What is left of the pool, for whom, and for how long.

use super::partition::partition;
use super::slope::Samples;
use super::window::{Extreme, Keep};
use crate::model::memory::{Meminfo, Vmstat, ZoneBlocks};
use crate::model::moment::Moment;
use crate::model::pool::{Block, Exhaustion, Pinned, Pool, Reader, Window};
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Seconds, SignedBytes};
use std::time::Duration;

const WINDOWS: usize = Window::ALL.len();

/// What is remembered between snapshots.
#[derive(Clone, Debug)]
pub struct State {
    last_read: Option<Moment>,
    available_min: [Extreme; WINDOWS],
    free_min: [Extreme; WINDOWS],
    fall_max: [Extreme; WINDOWS],
    /// Highest available memory within the time that falls are measured over.
    recent_high: Option<Extreme>,
    samples: Samples,
    imminent_until: Option<Duration>,
    below_reserve: bool,
}

impl Default for State {
    fn default() -> Self {
        let windows = |keep| std::array::from_fn(|i| Extreme::new(keep, Window::ALL[i].length()));
        Self {
            last_read: None,
            available_min: windows(Keep::Min),
            free_min: windows(Keep::Min),
            fall_max: windows(Keep::Max),
            recent_high: None,
            samples: Samples::default(),
            imminent_until: None,
            below_reserve: false,
        }
    }
}

impl State {
    /// Takes the snapshot's memory figures into the windows, once for each time they were read.
    fn learn(&mut self, snapshot: &Snapshot, t: &Thresholds) {
        let now = snapshot.at.mono;
        let read = snapshot.read_at[Source::Meminfo.index()];
        if let Some(at) = read.filter(|_| read != self.last_read) {
            self.last_read = read;
            if let Ok(available) = snapshot.meminfo.available {
                self.learn_available(at.mono, available.0, t);
            }
            if let Ok(free) = snapshot.meminfo.free {
                self.free_min.iter_mut().for_each(|w| w.push(at.mono, free.0));
            }
        }
        for window in
            self.available_min.iter_mut().chain(&mut self.free_min).chain(&mut self.fall_max)
        {
            window.forget(now);
        }
    }

    fn learn_available(&mut self, at: Duration, available: u64, t: &Thresholds) {
        self.available_min.iter_mut().for_each(|w| w.push(at, available));
        let within = Duration::from_secs_f64(t.fall_within.0);
        let high = self.recent_high.get_or_insert_with(|| Extreme::new(Keep::Max, within));
        high.resize(within);
        high.push(at, available);
        let fall = high.get().unwrap_or(available) - available;
        self.fall_max.iter_mut().for_each(|w| w.push(at, fall));
        self.samples.push(at, available, Duration::from_secs_f64(t.slope_long.0));
    }

    /// Time to the reserve by the steeper of the two slopes.
    fn exhaustion(&self, available: Reading<Bytes>, t: &Thresholds) -> Exhaustion {
        let available = match available {
            Ok(bytes) if bytes > t.exhaustion_level => return Exhaustion::Roomy,
            Ok(bytes) => bytes,
            Err(reason) => return Exhaustion::Unknown(reason),
        };
        let slopes = [t.slope_short, t.slope_long].map(|over| {
            let slope = self.samples.slope(Duration::from_secs_f64(over.0))?;
            Some((slope, over))
        });
        let steepest = slopes.into_iter().flatten().min_by(|a, b| a.0.0.total_cmp(&b.0.0));
        match steepest {
            None => Exhaustion::Unknown(Missing::Pending),
            Some((slope, over)) if -slope.0 >= t.exhaustion_min_rate.0 => Exhaustion::Falling {
                to_reserve: Seconds(available.less(t.reserve).as_f64() / -slope.0),
                slope,
                over,
            },
            Some(_) => Exhaustion::Steady,
        }
    }

    /// Whether the reserve is broken into. What is not read changes nothing of what is remembered.
    fn reserve(&mut self, available: Reading<Bytes>, t: &Thresholds) -> Reading<bool> {
        let bytes = available?;
        self.below_reserve = bytes < t.reserve
            || (self.below_reserve && bytes < t.reserve.plus(t.reserve_hysteresis));
        Ok(self.below_reserve)
    }

    /// Whether exhaustion is near, held for a while after it was and while the reserve is broken into:
    /// a pool that has hit the ground falls no further, and nothing is over.
    fn imminent(
        &mut self,
        exhaustion: Exhaustion,
        below_reserve: Reading<bool>,
        now: Duration,
        t: &Thresholds,
    ) -> Reading<bool> {
        let below_reserve = below_reserve?;
        let near = matches!(exhaustion, Exhaustion::Falling { to_reserve, .. } if to_reserve.0 <= t.imminent_within.0);
        let held = self.imminent_until.is_some_and(|until| now <= until);
        if near || (below_reserve && self.imminent_until.is_some()) {
            self.imminent_until = Some(now + Duration::from_secs_f64(t.imminent_hold.0));
        } else if !held {
            self.imminent_until = None;
        }
        Ok(self.imminent_until.is_some())
    }
}

/// Derives the pool's verdicts.
pub fn derive(state: &mut State, snapshot: &Snapshot, t: &Thresholds) -> Pool {
    state.learn(snapshot, t);
    let m = &snapshot.meminfo;
    let page_size = page_size(m, &snapshot.vmstat, snapshot.blocks.as_deref());
    let exhaustion = state.exhaustion(m.available, t);
    let below_reserve = state.reserve(m.available, t);
    let over = |windows: &[Extreme; WINDOWS], current: Reading<Bytes>| {
        std::array::from_fn(|i| {
            windows[i].get().map(Bytes).ok_or_else(|| current.err().unwrap_or(Missing::Pending))
        })
    };
    Pool {
        size: m.total,
        free: m.free,
        available: m.available,
        used: both(m.total, m.available, Bytes::less),
        partition: partition(m, &snapshot.vmstat, page_size),
        pinned: Pinned::ALL.map_to(|kind| match kind {
            Pinned::Mlocked => m.mlocked,
            Pinned::Unevictable => m.unevictable,
        }),
        flushable: flushable(m),
        headroom: Reader::ALL.map_to(|reader| headroom(reader, m, t)),
        hidden: both(m.available, m.free, Bytes::less),
        available_min: over(&state.available_min, m.available),
        free_min: over(&state.free_min, m.free),
        fall_max: over(&state.fall_max, m.available),
        exhaustion,
        imminent: state.imminent(exhaustion, below_reserve, snapshot.at.mono, t),
        below_reserve,
        contiguous: Block::ALL.map_to(|block| {
            contiguous(block.size(), snapshot.blocks.as_deref().map_err(|m| *m)?, page_size?)
        }),
        page_size,
    }
}

/// An array with one entry for each member of a closed set, in its order.
trait MapTo<T: Copy> {
    fn map_to<R, const N: usize>(&self, f: impl Fn(T) -> R) -> [R; N];
}

impl<T: Copy> MapTo<T> for [T] {
    fn map_to<R, const N: usize>(&self, f: impl Fn(T) -> R) -> [R; N] {
        std::array::from_fn(|i| f(self[i]))
    }
}

fn both(a: Reading<Bytes>, b: Reading<Bytes>, f: fn(Bytes, Bytes) -> Bytes) -> Reading<Bytes> {
    Ok(f(a?, b?))
}

fn headroom(reader: Reader, m: &Meminfo, t: &Thresholds) -> Reading<SignedBytes> {
    let figure = match reader {
        Reader::Free => m.free,
        Reader::Available => m.available,
    };
    Ok(figure?.signed_less(t.reserve))
}

/// What `drop_caches` gives back, about: file pages that are clean and not mapped, and reclaimable
/// slab.
///
/// `Mapped` also counts mapped shared memory, which is no file page, so with much of that the true
/// figure is higher. Slab objects in use stay, so with much slab it is lower. The pages that drivers
/// from 590.44 on keep in pools come back as well, but nothing says how many they are.
fn flushable(m: &Meminfo) -> Reading<Bytes> {
    let files = m.active_file?.plus(m.inactive_file?);
    let kept = m.mapped?.plus(m.dirty?).plus(m.writeback?);
    Ok(files.less(kept).plus(m.s_reclaimable?))
}

/// Free memory in blocks of at least `block`, or "not present" where the kernel's largest block is
/// smaller: it may well have such pieces, it just does not count them.
fn contiguous(block: Bytes, zones: &[ZoneBlocks], page_size: Bytes) -> Reading<Bytes> {
    let order_size = |order: usize| {
        u32::try_from(order).ok().and_then(|o| page_size.0.checked_shl(o)).unwrap_or(u64::MAX)
    };
    let counted = zones.iter().any(|zone| order_size(zone.by_order.len() - 1) >= block.0);
    if !counted {
        return Err(Missing::NotPresent);
    }
    Ok(zones
        .iter()
        .flat_map(|zone| zone.by_order.iter().enumerate())
        .map(|(order, count)| (order_size(order), count))
        .filter(|(size, _)| *size >= block.0)
        .map(|(size, count)| Bytes(size.saturating_mul(*count)))
        .sum())
}

/// The page size of the machine that the readings come from, which need not be the one we run on (a
/// capture, another machine's `/proc`). No file states it, but `SUnreclaim` is given in bytes and, as
/// `nr_slab_unreclaimable`, in pages. Free memory is the second choice: one virtual machine
/// was seen whose `MemFree` counts memory that it has not initialised yet and vmstat does not count.
fn page_size(
    m: &Meminfo,
    vmstat: &Vmstat,
    blocks: Result<&[ZoneBlocks], &Missing>,
) -> Reading<Bytes> {
    let by_slab = || quotient(m.s_unreclaim?, vmstat.nr_slab_unreclaimable?.0);
    let by_free = || quotient(m.free?, vmstat.nr_free_pages?.0);
    let by_blocks = || {
        let zones = blocks.map_err(|reason| *reason)?;
        let orders = zones.iter().flat_map(|zone| zone.by_order.iter().enumerate());
        let pages = orders.fold(0_u64, |sum, (order, count)| {
            let size = u32::try_from(order).ok().and_then(|o| 1_u64.checked_shl(o)).unwrap_or(0);
            sum.saturating_add(count.saturating_mul(size))
        });
        quotient(m.free?, pages)
    };
    by_slab().or_else(|_| by_free()).or_else(|_| by_blocks())
}

/// The page size that Linux knows of by which `pages` come to about `bytes`. The two figures are read
/// microseconds apart, so near is enough, and page sizes are a factor of four apart.
fn quotient(bytes: Bytes, pages: u64) -> Reading<Bytes> {
    [4, 16, 64]
        .map(Bytes::from_kib)
        .into_iter()
        .find(|size| {
            let product = size.0.saturating_mul(pages);
            pages > 0 && product.abs_diff(bytes.0) <= bytes.0 / 8
        })
        .ok_or(Missing::Malformed)
}

#[cfg(test)]
mod tests;
