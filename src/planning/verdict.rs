//! Whether an estimate fits what a pool has left.

use super::plan::Estimate;
use crate::model::pool::Reader;
use crate::model::reading::{Missing, Reading};
use crate::thresholds::Thresholds;
use crate::units::Bytes;

states! {
    /// Whether it fits.
    Outcome {
        /// With room to spare.
        Fits = "fits",
        /// Just so: with less than the comfort above it, or only if what is a range turns out low.
        Tight = "tight",
        /// Not.
        DoesNotFit = "does_not_fit",
        /// Not to be told: what is left could not be read.
        Unknown = "unknown",
    }
}

/// What a pool has left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The pool.
    pub size: Reading<Bytes>,
    /// MemAvailable.
    pub available: Reading<Bytes>,
    /// MemFree, which is what CUDA calls free.
    pub free: Reading<Bytes>,
    /// What a flush returns at the least.
    pub flushable: Reading<Bytes>,
    /// What running jobs may still take by their caps, and what ended ones have not given back, by reader.
    pub claimed: [Reading<Bytes>; Reader::ALL.len()],
    /// Free memory in blocks of 2 MiB and more.
    pub contiguous: Reading<Bytes>,
}

impl Budget {
    /// A pool of which only what is available is known.
    #[must_use]
    pub const fn given(available: Bytes) -> Self {
        let absent = Err(Missing::NotPresent);
        Self {
            size: absent,
            available: Ok(available),
            free: absent,
            flushable: absent,
            claimed: [Ok(Bytes(0)); Reader::ALL.len()],
            contiguous: absent,
        }
    }

    /// What is left for one who goes by a figure; what others may still take is off where it is known.
    pub fn room(&self, reader: Reader) -> Reading<Bytes> {
        let reading = match reader {
            Reader::Free => self.free,
            Reader::Available => self.available,
        };
        let claimed = self.claimed[reader as usize].unwrap_or(Bytes(0));
        reading.map(|bytes| bytes.less(claimed))
    }

    /// The same when others have given back what they hold, and have no claims any more.
    #[must_use]
    pub fn with_back(&self, held: Bytes) -> Self {
        let more = |reading: Reading<Bytes>| reading.map(|bytes| bytes.plus(held));
        Self {
            available: more(self.available),
            free: more(self.free),
            claimed: [Ok(Bytes(0)); Reader::ALL.len()],
            ..*self
        }
    }

    /// The page cache that is in the way of one who needs so much: more than a share of it, where what is free
    /// does not do.
    #[must_use]
    pub fn cache_in_the_way(&self, need: Bytes, t: &Thresholds) -> Option<Bytes> {
        let (free, cache) = (self.free.ok()?, self.flushable.ok()?);
        let short = free < need.plus(t.plan_comfort);
        (short && cache > need.scaled(t.plan_flush_from.0)).then_some(cache)
    }
}

/// From what to what something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// If everything goes well.
    pub low: Bytes,
    /// As estimated.
    pub usual: Bytes,
    /// If what is a range turns out high.
    pub high: Bytes,
}

/// Whether a need fits.
#[must_use]
pub fn judge(need: Need, room: Reading<Bytes>, t: &Thresholds) -> Outcome {
    let Ok(room) = room else { return Outcome::Unknown };
    let fits = |bytes: Bytes, spare: Bytes| bytes.plus(spare) <= room;
    let comfort = t.plan_comfort.max(t.reserve);
    if fits(need.usual, comfort) && fits(need.high, t.reserve) {
        Outcome::Fits
    } else if fits(need.usual, t.reserve) || fits(need.low, comfort) {
        Outcome::Tight
    } else {
        Outcome::DoesNotFit
    }
}

/// The verdicts on a plan, for each figure that engines go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// While it loads, by [`Reader`].
    pub load: [Outcome; Reader::ALL.len()],
    /// While it runs, by [`Reader`].
    pub steady: [Outcome; Reader::ALL.len()],
    /// The figure that its engine goes by.
    pub reader: Reader,
}

impl Verdicts {
    /// The worse of both, for the figure that the engine goes by.
    #[must_use]
    pub fn whole(&self) -> Outcome {
        worse(self.load[self.reader as usize], self.steady[self.reader as usize])
    }
}

impl Outcome {
    /// The worse, the higher. What cannot be told is no excuse for what does not fit.
    #[must_use]
    pub const fn rank(self) -> u8 {
        match self {
            Self::Fits => 0,
            Self::Tight => 1,
            Self::Unknown => 2,
            Self::DoesNotFit => 3,
        }
    }
}

/// The worse of two.
#[must_use]
pub fn worse(a: Outcome, b: Outcome) -> Outcome {
    if a.rank() >= b.rank() { a } else { b }
}

/// What an estimate needs while it loads and while it runs.
#[must_use]
pub fn needs(estimate: &Estimate) -> (Need, Need) {
    let load = &estimate.load;
    (
        Need { low: load.pool, usual: load.pool, high: load.pool_high },
        Need { low: estimate.pool_low, usual: estimate.pool, high: estimate.pool_high },
    )
}

/// Judges an estimate.
#[must_use]
pub fn verdicts(estimate: &Estimate, reader: Reader, budget: &Budget, t: &Thresholds) -> Verdicts {
    if estimate.refused {
        let none = [Outcome::DoesNotFit; Reader::ALL.len()];
        return Verdicts { load: none, steady: none, reader };
    }
    let (load, steady) = needs(estimate);
    let of =
        |need: Need| [Reader::Free, Reader::Available].map(|by| judge(need, budget.room(by), t));
    Verdicts { load: of(load), steady: of(steady), reader }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::choice::{Loader, Method};
    use crate::planning::estimate::estimate;
    use crate::planning::plan::Plan;
    use crate::planning::shapes::find;
    use crate::units::GIB;

    fn at(gib: u64) -> Need {
        let bytes = Bytes::from_gib(gib);
        Need { low: bytes, usual: bytes, high: bytes }
    }

    #[test]
    fn the_edges_of_comfort_and_reserve() {
        let t = Thresholds::default();
        let of = |need, room| judge(need, Ok(Bytes(room)), &t);
        assert_eq!(of(at(100), 108 * GIB), Outcome::Fits);
        assert_eq!(of(at(100), 108 * GIB - 1), Outcome::Tight);
        assert_eq!(of(at(100), 104 * GIB), Outcome::Tight);
        assert_eq!(of(at(100), 104 * GIB - 1), Outcome::DoesNotFit);
        // Without the allocator's slack it would fit in comfort.
        let slack = Need { low: Bytes::from_gib(90), ..at(100) };
        assert_eq!(of(slack, 98 * GIB), Outcome::Tight);
        assert_eq!(of(slack, 98 * GIB - 1), Outcome::DoesNotFit);
        // A range whose upper end breaks into the reserve is no plain yes.
        let range = Need { high: Bytes::from_gib(110), ..at(100) };
        assert_eq!(of(range, 114 * GIB), Outcome::Fits);
        assert_eq!(of(range, 113 * GIB), Outcome::Tight);
        assert_eq!(judge(at(1), Err(Missing::Denied), &t), Outcome::Unknown);
    }

    #[test]
    fn cache_is_in_the_way_where_what_is_free_does_not_do() {
        let t = Thresholds::default();
        let of = |free, cache| {
            let budget = Budget {
                free: Ok(Bytes::from_gib(free)),
                flushable: Ok(Bytes::from_gib(cache)),
                ..Budget::given(Bytes::from_gib(free + cache))
            };
            budget.cache_in_the_way(Bytes::from_gib(50), &t)
        };
        assert_eq!(of(57, 60), Some(Bytes::from_gib(60)));
        assert_eq!(of(58, 60), None);
        assert_eq!(of(40, 15), None);
        assert_eq!(Budget::given(Bytes(1)).cache_in_the_way(Bytes(0), &t), None);
    }

    /// Vector 8: the remedy is the loader, not a smaller model.
    #[test]
    fn a_load_that_is_streamed_fits_where_a_copy_does_not() {
        let t = Thresholds::default();
        let budget = Budget::given(Bytes(123_904_000_000));
        assert_eq!(budget.available.unwrap().less(t.reserve), Bytes(119_609_032_704));
        let mut plan = Plan::of(find("llama-3.1-8b").unwrap().shape(), Method::Inference);
        plan.shape.parameters = Some(31_000_000_000);
        let mut load = |loader| {
            plan.loader = loader;
            let estimate = estimate(&plan, None, &t);
            verdicts(&estimate, Reader::Available, &budget, &t)
        };
        let copied = load(Loader::CpuFirst);
        assert_eq!(copied.load[Reader::Available as usize], Outcome::DoesNotFit);
        assert_eq!(copied.steady[Reader::Available as usize], Outcome::Fits);
        assert_eq!(copied.whole(), Outcome::DoesNotFit);
        assert_eq!(load(Loader::Streamed).whole(), Outcome::Fits);
        assert_eq!(load(Loader::Streamed).load[Reader::Free as usize], Outcome::Unknown);
    }
}
