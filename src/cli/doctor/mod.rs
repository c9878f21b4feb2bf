//! `doctor`: checks on the real hardware what could not be checked without it.
//!
//! What this program takes a GB10 for comes from what owners and NVIDIA have published. Each row of
//! [`CHECKS`] holds one such belief against the machine. A row that differs is a find, not a fault of the
//! machine: whoever sees one is asked to report it.

mod activity;
mod board;
mod cuda;
mod identity;
mod kernel_log;
mod memory;
mod observed;
mod outcome;
mod print;

pub(super) use cuda::{ProbeArgs, probe};

use super::settings::Given;
use super::{VERSION, print};
use crate::clock::{Clock, System};
use crate::engine::{Engine, Options, Settings};
use clap::Args;
use observed::Observed;
use outcome::{Judged, Outcome, Row, Verdict};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The command that makes the file for a report.
const REPORT: &str = "gb10-exporter record gb10-report.txt";
/// That file.
const REPORT_FILE: &str = "gb10-report.txt";
/// Exit code when something differs.
const DIFFERS: u8 = 1;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Watch for so long. What is a matter of time (power against energy, counters) needs 5 s or more,
    /// and says more while the GPU works.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Ask CUDA, too, what it calls free. This makes a CUDA context for a moment, in a process of its own
    /// that is killed after 20 s. Refused with less than 16 GiB available or beside another GPU process.
    #[arg(long)]
    cuda: bool,
    /// With --cuda: the CUDA driver's library, as a name to look up or a path.
    #[arg(long, value_name = "FILE", default_value = cuda::LIBRARY)]
    cuda_library: String,
    #[command(flatten)]
    given: Given<false>,
}

/// What a check needs before it can be made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing.
    Nothing,
    /// A machine with a GB10.
    Machine,
    /// A GB10 that its driver tells about.
    Gpu,
    /// The same, watched for a while: more than a recorded machine gives.
    Time,
}

/// One belief about the hardware.
struct Check {
    /// Its name in the output.
    name: &'static str,
    /// What is expected.
    expected: &'static str,
    /// Where that comes from, and why its limits are what they are.
    because: &'static str,
    needs: Needs,
    judge: fn(&Observed) -> Judged,
}

/// Every check but the one that asks CUDA, which needs more than an observation.
const CHECKS: &[Check] = &[
    identity::IDENTITY,
    memory::ANSWER,
    memory::PARTITION,
    activity::POWER,
    activity::EVENTS,
    activity::MARGIN,
    activity::CLOCKS,
    activity::PERFORMANCE_STATE,
    board::ZONES,
    memory::SIZE,
    board::COST,
    memory::PAGE_POOLS,
    board::FAN,
    activity::UTILIZATION,
    kernel_log::KERNEL_LOG,
];

impl Check {
    fn row(&self, observed: &Observed) -> Row {
        let found = self.refused(observed).unwrap_or_else(|| {
            let (Ok(outcome) | Err(outcome)) = (self.judge)(observed);
            outcome
        });
        Row::new(self, found)
    }

    /// Why the check cannot be made.
    fn refused(&self, observed: &Observed) -> Option<Outcome> {
        if self.needs == Needs::Nothing {
            return None;
        }
        if !observed.is_gb10() {
            return Some(Outcome::unknown("not a GB10"));
        }
        if self.needs != Needs::Machine && observed.readings().next().is_none() {
            return Some(Outcome::unknown("the GPU is not read (see identity)"));
        }
        (self.needs == Needs::Time && observed.recorded)
            .then(|| Outcome::unknown("a recorded machine does not move"))
    }
}

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let config = args.given.config()?;
    let clock: Arc<dyn Clock> = Arc::new(System);
    let engine = Engine::start(Options {
        machine: args.given.machine(&config)?,
        clock: Arc::clone(&clock),
        settings: Settings::of(&config),
        state_directory: None,
        version: VERSION,
    })?;
    let recorded = args.given.is_capture();
    let time = Duration::from_secs(args.seconds);
    let observed = Observed::watch(&engine, clock.as_ref(), time, recorded);
    // Before CUDA is asked: one at a time asks the driver.
    engine.stop();
    let observed = observed?;
    let mut rows: Vec<Row> = CHECKS.iter().map(|check| check.row(&observed)).collect();
    let asked = if args.cuda {
        cuda::ask(&observed, &args.cuda_library, &config.procfs, clock.as_ref())
    } else {
        Err(Outcome::unknown("not asked: only with --cuda"))
    };
    let (Ok(asked) | Err(asked)) = asked;
    rows.push(Row::new(&cuda::CUDA, asked));
    let text =
        if args.json { print::json(&observed, &rows) } else { print::text(&observed, &rows) };
    print(text.as_bytes())?;
    let differs = rows.iter().any(|row| row.verdict() == Verdict::Differs);
    Ok(if differs { DIFFERS.into() } else { ExitCode::SUCCESS })
}
