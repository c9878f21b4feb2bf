//! The alert table: every alert, once. Rule files, their reference and the exporter's own notices
//! iterate [`all`].
//!
//! An expression is built from rows of the catalog and from thresholds; no name of a series and no
//! number that decides is written here. What is written here is patience: how long something must hold
//! before somebody is told, and over which time a counter is looked at.

mod exporter;
pub mod expr;
mod heat;
mod jobs;
mod kernel;
mod moment;
mod optional;
mod pool;
mod yaml;

pub use crate::catalog::links::Severity;
pub use expr::Options;
pub use moment::{Holding, Watch};
pub use yaml::{Format, render};

use crate::catalog::Metric;
use crate::catalog::links::AlertName;
use crate::thresholds::Thresholds;
use expr::Context;

states! {
    /// A group of rules. Those of [`Group::optional`] need series that not everybody has.
    Group {
        /// The memory pool.
        Pool = "gb10-pool",
        /// Jobs, and what they do to one another.
        Jobs = "gb10-jobs",
        /// Heat and power.
        Heat = "gb10-heat",
        /// What the kernel and the driver say.
        Kernel = "gb10-kernel",
        /// The exporter and its sources.
        Exporter = "gb10-exporter",
        /// vLLM's own metrics.
        Vllm = "gb10-vllm",
        /// A blackbox exporter's ping of the boxes.
        Ping = "gb10-ping",
        /// Boxes compared with one another.
        Fleet = "gb10-fleet",
    }
}

impl Group {
    /// Whether its rules are written on request only.
    #[must_use]
    pub const fn optional(self) -> bool {
        matches!(self, Self::Vllm | Self::Ping | Self::Fleet)
    }
}

/// What series of a metric must be for an alert to hold. The rule and the exporter's own notice come
/// from the same condition.
pub struct Condition {
    /// The metric.
    pub metric: &'static Metric,
    /// Labels, and the values of which one must be theirs.
    pub with: &'static [(&'static str, &'static [&'static str])],
    /// What it must be.
    pub is: Is,
    /// The series that is recorded for it: its figure while it can be told, and nothing while it cannot.
    pub recorded: Option<&'static Record>,
}

impl Condition {
    /// Series of a metric as they are exported.
    const fn new(
        metric: &'static Metric,
        with: &'static [(&'static str, &'static [&'static str])],
        is: Is,
    ) -> Self {
        Self { metric, with, is, recorded: None }
    }
}

/// What a series must be.
pub enum Is {
    /// At least this.
    AtLeast(fn(&Thresholds) -> f64),
    /// Less than this.
    Below(fn(&Thresholds) -> f64),
    /// A counter that grew by at least this within so many seconds.
    Grew {
        /// By how much.
        by: fn(&Thresholds) -> f64,
        /// Within how many seconds.
        within: u32,
    },
}

/// When an alert holds.
pub enum When {
    /// While a series is what the condition says.
    Series(Condition),
    /// The same, and another condition about the same GPU holds too.
    Both(Condition, Condition),
    /// By an expression of its own.
    Expression(fn(&Context<'_>) -> String),
}

/// One alert at one severity.
pub struct Alert {
    /// Its name.
    pub name: AlertName,
    /// How much it asks.
    pub severity: Severity,
    /// Its group.
    pub group: Group,
    /// When it holds.
    pub when: When,
    /// It goes on for this many seconds when its series vanish while it fires: a box that dies must not
    /// look cured. It ends at once when they say that all is well.
    pub outlives: u32,
    /// Seconds that it must hold before anybody is told.
    pub wait: u32,
    /// Seconds for which it is kept after it held last, against flapping.
    pub keep: u32,
    /// One sentence, the same each time.
    pub summary: &'static str,
    /// What is so, with its numbers, and what to do first.
    pub says: fn(&Context<'_>) -> String,
    /// Scenarios in which it fires.
    pub fires: &'static [&'static str],
    /// Scenarios that are nearly like that and in which it must be silent.
    pub silent: &'static [&'static str],
}

/// A series that is computed once for several moments.
pub struct Record {
    /// Its name.
    pub name: &'static str,
    /// The group whose alerts read it; it stands before them.
    pub group: Group,
    /// What it is.
    pub is: fn(&Context<'_>) -> String,
}

/// Every recorded series.
pub const RECORDS: &[&Record] = &[&pool::FALL_IN_SERVICE, &heat::THERMAL_KNOWN, &kernel::NO_MEMORY];

/// One, for states and flags.
const fn on(_: &Thresholds) -> f64 {
    1.0
}

/// How long alerts of a dying box go on after its series have vanished.
const DYING: u32 = 1800;

/// Every alert, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Alert> {
    [pool::ROWS, jobs::ROWS, heat::ROWS, kernel::ROWS, exporter::ROWS, optional::ROWS]
        .into_iter()
        .flatten()
}
