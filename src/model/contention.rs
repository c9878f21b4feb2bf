//! Whether jobs fight over the pool, what the kernel has to do about it, and what is still held after a
//! job has ended.

use super::moment::Moment;
use super::pool::Reader;
use super::reading::Reading;
use super::workload::{ClassName, Phase};
use crate::units::{Bytes, Ratio, Seconds, SignedBytes};
use std::sync::Arc;

states! {
    /// Whether the jobs on the box fit together.
    ContentionState {
        /// At most one job holds or may take anything worth mentioning.
        None = "none",
        /// Several do, and they fit together with the reserve.
        Shared = "shared",
        /// Two or more are heavy, or what they hold and may still take is more than the pool without its
        /// reserve.
        Overcommitted = "overcommitted",
        /// They do not fit, or little is left, and it is proven that memory which is in use is taken away and
        /// read back.
        Evicting = "evicting",
        /// Not to be told: a cap that would decide it cannot be seen, or not all of the jobs can.
        Unknown = "unknown",
    }
}

states! {
    /// How hard it is to get memory on the box.
    PressureState {
        /// There is room.
        Comfortable = "comfortable",
        /// Little is left. That alone is how many boxes are meant to run.
        Tight = "tight",
        /// Little is left, and programs have to reclaim memory themselves before they get any.
        Reclaiming = "reclaiming",
        /// What was reclaimed is needed again at once: work stands still for it.
        Thrashing = "thrashing",
        /// Nothing is left to reclaim, or something was killed for want of memory.
        Exhausted = "exhausted",
        /// Not to be told.
        Unknown = "unknown",
    }
}

states! {
    /// A sign that memory was taken from somebody. Each has its own evidence, and none stands for another.
    /// Whether one job's GPU pages are taken for another's cannot be seen on these machines and is not
    /// among them.
    Symptom {
        /// Programs' own pages were read back soon after they had been reclaimed.
        AnonymousRefaults = "anonymous_refaults",
        /// Pages were read from swap.
        SwapIn = "swap_in",
        /// A job that has settled waits for a disk at page faults.
        WorkloadFaults = "workload_faults",
        /// File pages were read back soon after they had been reclaimed. Normal for a data set that is larger
        /// than the cache.
        FileRefaults = "file_refaults",
        /// The kernel takes pages back in the background. Normal wherever files are read.
        KernelReclaim = "kernel_reclaim",
        /// A server holds less on the GPU than when it had settled. One that sleeps or unloads does that on
        /// purpose.
        ResidencyLost = "residency_lost",
        /// Hardly a large block of memory is left, though memory is.
        ContiguityLost = "contiguity_lost",
    }
}

impl Symptom {
    /// Whether it proves that memory in use was taken away. The others are context.
    #[must_use]
    pub const fn proves(self) -> bool {
        matches!(self, Self::AnonymousRefaults | Self::SwapIn | Self::WorkloadFaults)
    }
}

/// A symptom as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Sign {
    /// Whether it shows.
    pub shows: Reading<bool>,
    /// The figures.
    pub evidence: String,
}

/// The pressure on memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Pressed {
    /// The state.
    pub state: PressureState,
    /// What it rests on.
    pub evidence: String,
    /// The symptoms, by [`Symptom`].
    pub signs: [Sign; Symptom::ALL.len()],
    /// Free memory in blocks of 2 MiB and more of the zones that the driver takes from.
    pub contiguous: Reading<Bytes>,
}

impl Pressed {
    /// A symptom.
    #[must_use]
    pub const fn sign(&self, symptom: Symptom) -> &Sign {
        &self.signs[symptom as usize]
    }

    /// The symptoms that prove something and show.
    pub fn proven(&self) -> impl Iterator<Item = (Symptom, &Sign)> {
        let shows = |symptom: &Symptom| symptom.proves() && self.sign(*symptom).shows == Ok(true);
        Symptom::ALL.iter().copied().filter(shows).map(|symptom| (symptom, self.sign(symptom)))
    }
}

/// A job's part in a contention.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its class.
    pub class: ClassName,
    /// Its unit.
    pub unit: Arc<str>,
    /// The pid of its first process.
    pub pid: u32,
    /// What it holds.
    pub held: Bytes,
    /// What it holds or may take, whichever is more.
    pub claims: Bytes,
    /// Whether it is heavy; absent when its cap would have to be known.
    pub heavy: Reading<bool>,
    /// Whether nothing bounds it.
    pub uncapped: bool,
}

/// Whether jobs fight.
#[derive(Clone, Debug, PartialEq)]
pub struct Contention {
    /// The state.
    pub state: ContentionState,
    /// Who, how much, by which cap.
    pub evidence: String,
    /// What to stop first, and why.
    pub stop_first: Option<String>,
    /// Those that hold or may take something, largest first.
    pub claims: Arc<Vec<Claim>>,
    /// How many are heavy; those of which it cannot be told are not counted.
    pub heavy: Reading<u64>,
    /// How many nothing bounds.
    pub uncapped: Reading<u64>,
    /// What they claim together as a share of the pool.
    pub committed: Reading<Ratio>,
}

/// A job without the server that it worked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Orphan {
    /// Its class.
    pub class: ClassName,
    /// Its unit.
    pub unit: Arc<str>,
    /// Its pid.
    pub pid: u32,
    /// What it holds.
    pub held: Bytes,
    /// Whether the end of its server was seen; otherwise it is only suspected.
    pub seen: bool,
    /// For how long it has done nothing.
    pub idle: Seconds,
}

/// What ended jobs have not given back, and what that leaves for the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// What is still held of jobs that have ended.
    pub pending: Reading<Bytes>,
    /// Whether it was given up just now to follow what had not come back: nobody knows whose it is any more.
    pub gave_up: bool,
    /// How long the last release took, or has taken so far; not present before there was one.
    pub lag: Reading<Seconds>,
    /// Jobs that were found to have ended just now.
    pub ended: Vec<Ended>,
    /// Jobs without their server.
    pub orphans: Arc<Vec<Orphan>>,
    /// What the next job can take, by reader: headroom less what running jobs may still take by their caps.
    pub safe: [Reading<SignedBytes>; Reader::ALL.len()],
    /// What that waits for.
    pub waits_for: Option<String>,
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// When.
    pub at: Moment,
    /// Its class.
    pub class: ClassName,
    /// Its unit.
    pub unit: Arc<str>,
    /// What it held of the pool.
    pub held: Bytes,
    /// What it was doing.
    pub phase: Reading<Phase>,
}
