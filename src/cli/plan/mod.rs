//! `plan`: will it fit?

mod budget;
mod json;
mod options;
mod text;

pub(super) use budget::{Left, PoolArgs, reading};
pub(super) use options::{Job, JobArgs, PlanError, size};

use super::columns::colour;
use super::{USAGE, print};
use crate::model::sharing::Sharing;
use crate::planning::compare::{Anchor, anchors};
use crate::planning::estimate::estimate;
use crate::planning::ladder::{Rung, ladder};
use crate::planning::plan::Estimate;
use crate::planning::verdict::{Outcome, Verdicts, verdicts};
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use anyhow::bail;
use clap::Args;
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit code when it does not fit.
const DOES_NOT_FIT: u8 = 1;

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolArgs,
}

/// All that is said about a job.
struct Told {
    job: Job,
    estimate: Estimate,
    left: Left,
    verdicts: Verdicts,
    /// What others hold on the GPU and the verdict without them, where that is a better one.
    alone: Option<(Bytes, Outcome)>,
    anchors: Vec<Anchor>,
    ladder: Vec<Rung>,
    warnings: Vec<String>,
    thresholds: Thresholds,
}

pub(super) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let job = match args.job.job() {
        Ok(job) => job,
        Err(PlanError::Usage(what)) => return Ok(usage(&what)),
        Err(PlanError::Model(error)) => return Err(error.into()),
    };
    let thresholds = args.pool.thresholds()?;
    let told = Told::of(job, args.pool.left()?, &thresholds);
    if args.json {
        print(format!("{:#}\n", json::document(&told)).as_bytes())?;
    } else {
        print(text::worksheet(&told, colour()).as_bytes())?;
    }
    for warning in &told.warnings {
        let _ = writeln!(io::stderr(), "gb10-exporter: warning: {warning}");
    }
    match told.verdicts.whole() {
        Outcome::Fits | Outcome::Tight => Ok(ExitCode::SUCCESS),
        Outcome::DoesNotFit => Ok(DOES_NOT_FIT.into()),
        Outcome::Unknown if !args.pool.is_machine() => bail!(
            "{} goes by free memory: without --free there is no verdict",
            told.job.plan.serving.engine.as_str()
        ),
        Outcome::Unknown => bail!(
            "{}: {} memory could not be read, so there is no verdict",
            told.left.of,
            told.verdicts.reader.as_str()
        ),
    }
}

/// Tells wrong usage.
pub(super) fn usage(what: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "gb10-exporter: {what}\n\nFor more information, try '--help'.");
    USAGE.into()
}

impl Told {
    fn of(job: Job, left: Left, t: &Thresholds) -> Self {
        let reader = job.plan.serving.engine.reader();
        let estimate = estimate(&job.plan, left.budget.size.ok(), t);
        let verdicts = verdicts(&estimate, reader, &left.budget, t);
        let alone = left.held().ok().and_then(|held| {
            let without = left.budget.with_back(held);
            let whole = self::verdicts(&estimate, reader, &without, t).whole();
            (whole.rank() < verdicts.whole().rank()).then_some((held, whole))
        });
        let anchors = anchors(&job.plan, &estimate, t);
        let ladder = ladder(&job.plan, &left.budget, t);
        let mut told = Self {
            job,
            estimate,
            left,
            verdicts,
            alone,
            anchors,
            ladder,
            warnings: Vec::new(),
            thresholds: *t,
        };
        told.warnings = told.warn();
        told
    }

    fn warn(&self) -> Vec<String> {
        let budget = &self.left.budget;
        let mut out = Vec::new();
        if self.verdicts.whole() == Outcome::Tight {
            out.push("it is tight: see the ladder for what makes room".to_owned());
        }
        let gpus = self.left.status.as_ref().map_or(&[][..], |status| status.gpus.as_slice());
        if !gpus.is_empty() && gpus.iter().all(|gpu| gpu.sharing == Sharing::Separate.as_str()) {
            out.push("the GPU has memory of its own; this plans for the machine's".to_owned());
        }
        if let Some(cache) = budget.cache_in_the_way(self.estimate.pool, &self.thresholds) {
            out.push(format!(
                "{cache} of page cache are in the way of programs that go by free memory: gb10-exporter flush"
            ));
        }
        if let Ok(blocks) = budget.contiguous
            && blocks < self.thresholds.contiguous_low
        {
            out.push(format!(
                "only {blocks} are free in blocks of 2 MiB and more; drivers found no memory with GiB available: flush with --compact"
            ));
        }
        if let Err(reason) = budget.claimed[self.verdicts.reader as usize] {
            let what = "what running jobs may still take is not known and not taken off";
            out.push(if self.left.watched {
                format!("{what} ({})", reason.as_str())
            } else {
                format!("{what}: one look cannot tell; ask a running exporter (--url)")
            });
        }
        for anchor in self.anchors.iter().filter(|anchor| anchor.far) {
            out.push(format!(
                "the estimate is far off {} ({}), which is like it",
                anchor.id, anchor.what
            ));
        }
        out
    }
}
