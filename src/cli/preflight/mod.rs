//! `preflight`: is the box fit for a run that is about to start?
//!
//! Each row of [`CHECKS`] looks at one thing that has spoilt runs. What one look cannot tell is unknown and never
//! assumed: ask a running exporter (`--url`) for what needs history.

mod checks;
mod print;

use super::columns::colour;
use super::plan::{Job, JobArgs, Left, PlanError, PoolArgs, size, usage};
use super::{print, replay};
use crate::clock::{Clock, System};
use crate::engine::Settings;
use crate::export::status::Status;
use crate::model::pool::Reader;
use crate::model::readiness::{Level, Readiness};
use crate::planning::estimate::estimate;
use crate::planning::verdict::{Budget, Need, Outcome, judge, verdicts};
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use anyhow::bail;
use checks::CHECKS;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Exit code when something is in the way.
const BLOCKED: u8 = 1;
/// How long it waits between two looks.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct PreflightArgs {
    /// What the job will take of the pool. Or describe it with the options of `plan`.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with_all = ["model", "params"])]
    need: Option<Bytes>,
    /// Look again and again until nothing is in the way, for so long at most.
    #[arg(long, value_name = "TIME", value_parser = replay::interval)]
    wait: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    pool: PoolArgs,
}

/// What was found, and what to do about it.
struct Finding {
    check: &'static str,
    level: Level,
    evidence: String,
    remedy: Option<String>,
}

impl Finding {
    fn pass(evidence: impl Into<String>) -> Self {
        Self { check: "", level: Level::Pass, evidence: evidence.into(), remedy: None }
    }

    fn unknown(evidence: impl Into<String>) -> Self {
        Self { level: Level::Unknown, ..Self::pass(evidence) }
    }

    fn warn(evidence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warn, remedy: Some(remedy.into()), ..Self::pass(evidence) }
    }

    fn fail(evidence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(evidence, remedy) }
    }
}

/// What the checks look at.
struct Seen<'a> {
    status: &'a Status,
    budget: &'a Budget,
    t: &'a Thresholds,
    /// What the job takes while it loads or runs, whichever is more; nothing where no job was told.
    need: Option<Need>,
    fits: Outcome,
    reader: Reader,
    /// Whether it was watched for a while, and not only looked at.
    watched: bool,
    /// Where the system's journal would lie, on this machine.
    journal: Option<PathBuf>,
}

/// One look.
struct Look {
    of: String,
    findings: Vec<Finding>,
    waited: Duration,
}

impl Look {
    fn readiness(&self) -> Readiness {
        let has = |level| self.findings.iter().any(|finding| finding.level == level);
        match (has(Level::Fail), has(Level::Warn)) {
            (true, _) => Readiness::Blocked,
            (false, true) => Readiness::Slow,
            (false, false) => Readiness::Ready,
        }
    }
}

pub(super) fn run(args: &PreflightArgs) -> anyhow::Result<ExitCode> {
    if !args.pool.is_machine() {
        return Ok(usage("preflight looks at a machine: --available is for plan"));
    }
    let job = match args.job.is_given().then(|| args.job.job()).transpose() {
        Ok(job) => job,
        Err(PlanError::Usage(what)) => return Ok(usage(&what)),
        Err(PlanError::Model(error)) => return Err(error.into()),
    };
    let look = until_ready(args, job.as_ref())?;
    let text = if args.json { print::json(&look) } else { print::text(&look, colour()) };
    print(text.as_bytes())?;
    Ok(match look.readiness() {
        Readiness::Ready | Readiness::Slow => ExitCode::SUCCESS,
        Readiness::Blocked => BLOCKED.into(),
    })
}

/// Looks until nothing is in the way, or the time is over.
fn until_ready(args: &PreflightArgs, job: Option<&Job>) -> anyhow::Result<Look> {
    let began = System.now().mono;
    // Nobody sends anything: it only waits.
    let (_sender, bell) = channel::<()>();
    loop {
        let mut look = look(args, job)?;
        look.waited = System.now().mono.saturating_sub(began);
        let patience = args.wait.unwrap_or_default();
        if look.readiness() != Readiness::Blocked || look.waited >= patience {
            return Ok(look);
        }
        let _ = bell.recv_timeout(PAUSE.min(patience.saturating_sub(look.waited)));
    }
}

fn look(args: &PreflightArgs, job: Option<&Job>) -> anyhow::Result<Look> {
    let config = args.pool.config()?;
    let Settings { thresholds, .. } = Settings::of(&config);
    let Left { budget, of, status, watched } = args.pool.left()?;
    let Some(status) = status else { bail!("{of}: there is no machine to look at") };
    let reader = job.map_or(Reader::Available, |job| job.plan.serving.engine.reader());
    let (need, fits) = needed(args.need, job, reader, &budget, &thresholds);
    let journal = args.pool.is_here().then(|| config.rootfs.join("var/log/journal"));
    let (status, budget, t) = (&status, &budget, &thresholds);
    let seen = Seen { status, budget, t, need, fits, reader, watched, journal };
    let findings =
        CHECKS.iter().map(|(name, judge)| Finding { check: name, ..judge(&seen) }).collect();
    Ok(Look { of, findings, waited: Duration::ZERO })
}

/// What a job needs, and whether that fits.
fn needed(
    said: Option<Bytes>,
    job: Option<&Job>,
    reader: Reader,
    budget: &Budget,
    t: &Thresholds,
) -> (Option<Need>, Outcome) {
    if let Some(bytes) = said {
        let need = Need { low: bytes, usual: bytes, high: bytes };
        return (Some(need), judge(need, budget.room(reader), t));
    }
    let Some(job) = job else { return (None, Outcome::Unknown) };
    let estimate = estimate(&job.plan, budget.size.ok(), t);
    let whole = verdicts(&estimate, reader, budget, t).whole();
    let need = Need {
        low: estimate.pool_low.max(estimate.load.pool),
        usual: estimate.pool.max(estimate.load.pool),
        high: estimate.pool_high.max(estimate.load.pool_high),
    };
    (Some(need), whole)
}
