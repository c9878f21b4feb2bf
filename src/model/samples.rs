//! Samples of one GPU and its box, read back from what noted them beside a training run.

use super::contention::ContentionState;
use super::gpu::EventReason;
use super::reading::{Missing, Reading};
use crate::units::{Bytes, Celsius, Hertz, Ratio, Seconds, Watts};
use std::fmt;
use std::time::Duration;

states! {
    /// Who has noted the samples.
    SampleOrigin {
        /// This program's `sample`, told by its short header or its columns of readings.
        Sample = "sample",
        /// nvidia-smi, or `sample` in its words: a file with its header, or with none, may be of either.
        NvidiaSmi = "nvidia_smi",
        /// A Prometheus that scraped this exporter.
        Prometheus = "prometheus",
    }
}

/// One sample of one GPU and its box.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplePoint {
    /// When, since 1970.
    pub wall: Duration,
    /// Temperature of the GPU.
    pub temperature: Reading<Celsius>,
    /// Its power: the mean of a second where it was noted, the plain query otherwise.
    pub power: Reading<Watts>,
    /// The SM clock.
    pub clock: Reading<Hertz>,
    /// Share of time in which a kernel ran.
    pub utilization: Reading<Ratio>,
    /// The event reasons that held, as the driver's mask.
    pub reasons: Reading<u64>,
    /// The running time of the thermal reasons, the larger of the driver's and the hardware's.
    pub thermal_seconds: Reading<Seconds>,
    /// MemAvailable of the box.
    pub available: Reading<Bytes>,
    /// Our own verdict on how the GPU worked, where it was noted.
    pub throttle: Option<String>,
    /// Whether the jobs on the box fitted together, where it was noted.
    pub contention: Option<ContentionState>,
}

impl SamplePoint {
    /// A sample of which nothing was noted but its time.
    #[must_use]
    pub const fn at(wall: Duration) -> Self {
        const NOT: Missing = Missing::NotPresent;
        Self {
            wall,
            temperature: Err(NOT),
            power: Err(NOT),
            clock: Err(NOT),
            utilization: Err(NOT),
            reasons: Err(NOT),
            thermal_seconds: Err(NOT),
            available: Err(NOT),
            throttle: None,
            contention: None,
        }
    }
}

/// What a series of numbers is of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamplePart {
    /// Degrees Celsius.
    Temperature,
    /// Watts.
    Power,
    /// The SM clock in hertz.
    Clock,
    /// From 0 to 1.
    Utilization,
    /// Whether a reason holds: 1 or 0.
    Reason(EventReason),
    /// The running time of one thermal reason in seconds. The larger one counts.
    ThermalSeconds,
    /// Bytes.
    Available,
    /// Whether our verdict is this one: 1 or 0.
    Throttle(String),
    /// Whether our verdict on the jobs is this one: 1 or 0.
    Contention(ContentionState),
}

/// What is to be known about samples, told beside the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleRemark {
    /// Times have no zone: the one that was given was taken.
    ZoneAssumed,
    /// Times of the hour that the end of summer time doubles, from this line on. Before the clock jumps
    /// back they are taken for its first pass, after that for its second.
    DoubledHour(u64),
    /// The clock went back at this line, by this much, and no end of summer time explains it: it was set,
    /// or an older file follows. The samples are in the order of their times.
    ClockWentBack {
        /// The line.
        line: u64,
        /// By how much.
        by: Duration,
        /// How often in all; the line is the first.
        times: u64,
    },
    /// There are several GPUs, this many, and this one was taken.
    SeveralGpus {
        /// How many.
        count: usize,
        /// The one that was taken, as its column names it.
        taken: String,
    },
    /// A GPU was asked for, and nothing here says which one the samples are of.
    GpuNotTold,
    /// Lines that were cut short, or messages of nvidia-smi: how many, and the first one.
    LeftOut {
        /// How many.
        lines: u64,
        /// The first one.
        first: u64,
    },
    /// The last line has no end, so that its last figure may lack digits, and was left out.
    HalfLastLine(u64),
}

impl fmt::Display for SampleRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZoneAssumed => write!(f, "times without a zone were taken as local"),
            Self::DoubledHour(line) => write!(
                f,
                "from line {line} on there are times of the hour that the end of summer time doubles"
            ),
            Self::ClockWentBack { line, by, times } => {
                let by = by.as_secs_f64();
                write!(f, "the clock goes back by {by:.1} s at line {line}")?;
                if *times > 1 {
                    write!(f, ", and {} more times", times - 1)?;
                }
                write!(f, "; samples were put in the order of their times")
            }
            Self::SeveralGpus { count, taken } => {
                write!(f, "samples of {count} GPUs; those of {taken} were taken")
            }
            Self::GpuNotTold => {
                write!(f, "nothing says which GPU the samples are of; all were taken")
            }
            Self::LeftOut { lines, first } => {
                let s = if *lines == 1 { "" } else { "s" };
                write!(f, "{lines} line{s} cut short or no sample, the first is line {first}")
            }
            Self::HalfLastLine(line) => {
                write!(f, "line {line}, the last, is not ended and was left out")
            }
        }
    }
}

/// Samples, in the order of their times.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleSeries {
    /// The samples.
    pub points: Vec<SamplePoint>,
    /// Who has noted them.
    pub origin: SampleOrigin,
    /// What is to be known about them.
    pub remarks: Vec<SampleRemark>,
}
