//! What is left of a pool: of this machine, a recorded one, a running exporter's, or as given.

use super::super::settings::Given;
use super::super::status;
use super::options::size;
use crate::config::Config;
use crate::export::status::{Figure, Status};
use crate::model::pool::Reader;
use crate::model::reading::{Missing, Reading};
use crate::planning::verdict::Budget;
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use clap::Args;

/// Where what is left comes from.
#[derive(Debug, Args)]
pub(in crate::cli) struct PoolArgs {
    /// Ask a running exporter instead of reading this machine: it has watched for longer.
    #[arg(long, value_name = "URL", conflicts_with_all = ["config.file", "capture", "path.procfs", "path.sysfs", "path.rootfs"])]
    url: Option<String>,
    /// Plan for a machine that has this much available (MemAvailable), instead of reading one.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with_all = ["url", "capture"])]
    available: Option<Bytes>,
    /// With --available: its free memory (MemFree).
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "available")]
    free: Option<Bytes>,
    /// With --available: the size of its pool, which --utilization is a share of.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "available")]
    pool: Option<Bytes>,
    #[command(flatten)]
    given: Given<false>,
}

/// What is left, and of what.
pub(in crate::cli) struct Left {
    pub(in crate::cli) budget: Budget,
    /// Of which machine.
    pub(in crate::cli) of: String,
    /// Whether it was watched for a while. One look cannot tell what others may still take.
    pub(in crate::cli) watched: bool,
    /// All that is known of it, unless it was given in figures.
    pub(in crate::cli) status: Option<Status>,
}

impl PoolArgs {
    /// Whether it is a machine and not a few figures.
    pub(in crate::cli) const fn is_machine(&self) -> bool {
        self.available.is_none()
    }

    /// Whether it is this machine.
    pub(in crate::cli) const fn is_here(&self) -> bool {
        self.is_machine() && self.url.is_none() && !self.given.is_capture()
    }

    /// Its settings.
    pub(in crate::cli) fn config(&self) -> anyhow::Result<Config> {
        self.given.config()
    }

    /// The numbers that decide.
    pub(in crate::cli) fn thresholds(&self) -> anyhow::Result<Thresholds> {
        Ok(self.given.config()?.thresholds)
    }

    /// Looks.
    pub(in crate::cli) fn left(&self) -> anyhow::Result<Left> {
        if let Some(available) = self.available {
            let optional = |bytes: Option<Bytes>| bytes.ok_or(Missing::NotPresent);
            let budget = Budget {
                free: optional(self.free),
                size: optional(self.pool),
                flushable: self
                    .free
                    .map_or(Err(Missing::NotPresent), |free| Ok(available.less(free))),
                ..Budget::given(available)
            };
            return Ok(Left { budget, of: "as given".to_owned(), watched: false, status: None });
        }
        let (status, of) = match &self.url {
            Some(url) => (status::fetch(url)?, url.clone()),
            None if self.given.is_capture() => {
                (status::read_here(&self.given)?, "the recorded machine".to_owned())
            }
            None => (status::read_here(&self.given)?, "this machine".to_owned()),
        };
        Ok(Left { budget: budget(&status), of, watched: self.url.is_some(), status: Some(status) })
    }
}

impl Left {
    /// What other jobs hold on the GPU, at the least; it is off what is available already.
    pub(in crate::cli) fn held(&self) -> Reading<Bytes> {
        let status = self.status.as_ref().ok_or(Missing::NotPresent)?;
        let jobs = match &status.holders.jobs {
            Figure::Value(jobs) => jobs,
            Figure::Missing { missing } => {
                return reading(Some(&Figure::<u64>::Missing { missing: missing.clone() }))
                    .map(Bytes);
            }
        };
        Ok(jobs.iter().filter_map(|job| job.gpu_memory.value()).map(|bytes| Bytes(*bytes)).sum())
    }
}

/// A figure of the document as a reading.
pub(in crate::cli) fn reading<T: Copy>(figure: Option<&Figure<T>>) -> Reading<T> {
    match figure {
        Some(Figure::Value(value)) => Ok(*value),
        Some(Figure::Missing { missing }) => Err(Missing::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == missing)
            .unwrap_or(Missing::Failed)),
        None => Err(Missing::NotPresent),
    }
}

fn budget(status: &Status) -> Budget {
    let pool = &status.pool;
    let bytes = |figure: &Figure<u64>| reading(Some(figure)).map(Bytes);
    Budget {
        size: bytes(&pool.size),
        available: bytes(&pool.available),
        free: bytes(&pool.free),
        flushable: bytes(&pool.flushable),
        claimed: [Reader::Free, Reader::Available].map(|reader| {
            let headroom = reading(pool.headroom.get(reader.as_str()))?;
            let safe = reading(status.release.safe_to_start.get(reader.as_str()))?;
            Ok(Bytes(headroom.saturating_sub(safe).max(0).unsigned_abs()))
        }),
        // Of the zones that the driver takes from.
        contiguous: bytes(&status.pressure.contiguous_normal),
    }
}
