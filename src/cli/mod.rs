//! The command line. Exit codes: 0 done, 1 the verdict is "no", 2 an error, 64 usage; output into a
//! closed pipe is 0, because whoever closed it has read enough.

mod columns;
mod config;
mod correlate;
mod dashboards;
mod doctor;
mod flush;
pub mod history;
mod log;
mod notify;
mod plan;
mod preflight;
mod push;
mod record;
mod reload;
mod replay;
mod rules;
mod sample;
mod serve;
mod settings;
mod status;
mod whole;

use clap::{Args, CommandFactory, Parser, Subcommand};
use reload::Reloader;
use settings::Given;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Version and commit of this build.
pub const VERSION: (&str, &str) = (
    env!("CARGO_PKG_VERSION"),
    match option_env!("GB10_EXPORTER_REVISION") {
        Some(revision) => revision,
        None => "unknown",
    },
);

const USAGE: u8 = 64;
const FAILED: u8 = 2;

const AFTER_HELP: &str = "\
Without a command it serves. Then:
  curl localhost:10058/metrics        what Prometheus scrapes
  gb10-exporter status                the same for a person, read by this command itself
  gb10-exporter status --url http://spark:10058

Exit codes: 0 done, 1 the answer is no, 2 an error, 64 wrong usage.";

/// Prometheus exporter for NVIDIA DGX Spark and other GB10 machines: the true state of the memory pool
/// that CPU and GPU share, and of the board around it.
#[derive(Debug, Parser)]
#[command(
    name = "gb10-exporter",
    version,
    about,
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Given<true>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve metrics over HTTP (the default).
    Serve(Given<true>),
    /// Show how the machine stands, for a person or as JSON.
    Status(StatusArgs),
    /// Check on a real GB10 what could not be checked without one. Exit code 1 when something differs.
    Doctor(doctor::DoctorArgs),
    /// The part of `doctor --cuda` that makes a CUDA context, in a process of its own.
    #[command(hide = true)]
    CudaProbe(doctor::ProbeArgs),
    /// Will it fit? What a job will take of the pool, term by term, what is left, what others measured, and what
    /// to do if it does not fit. Exit code 0 when it fits or is tight, 1 when it does not fit.
    Plan(Box<plan::PlanArgs>),
    /// Is the box fit for a run that is about to start? Exit code 0 when it is, or will only be slow, 1 when
    /// something is in the way.
    Preflight(Box<preflight::PreflightArgs>),
    /// Give page cache back before a run, and say what that brought. Needs root; --files does not.
    Flush(flush::FlushArgs),
    /// Replay a scenario: a machine over time, from a text file.
    Replay(replay::ReplayArgs),
    /// Lay a training log beside samples of its box: when was the run slow, how much, and what the box did
    /// then. Exit code 0 when it was healthy, 1 when it was slow, 2 when that cannot be told.
    Correlate(Box<correlate::CorrelateArgs>),
    /// Write this machine, as it is now, into a file that anybody can replay.
    Record(RecordArgs),
    /// Write a GPU's temperature and power beside a training log, as lines of CSV like nvidia-smi's.
    Sample(sample::SampleArgs),
    /// Print the alert rules, for the thresholds in force.
    Rules(rules::RulesArgs),
    /// Write the Grafana dashboards as files, to be imported or provisioned.
    Dashboards(dashboards::DashboardsArgs),
    /// Print the configuration in force and who decided each setting.
    Config(ConfigArgs),
    /// Print every number that decides anything, with its default, range and reason.
    Thresholds(Given<true>),
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Ask a running exporter instead of reading this machine. It has watched for longer, so its
    /// trends and windows say more.
    #[arg(long, value_name = "URL", conflicts_with_all = ["config.file", "capture", "path.procfs", "path.sysfs", "path.rootfs"])]
    url: Option<String>,
    /// Print JSON: the document of /api/v1/status.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    given: Given<false>,
}

#[derive(Debug, Args)]
#[command(mut_arg("capture", |arg| arg.hide(true)))]
struct RecordArgs {
    /// The file to write; - is standard output.
    #[arg(value_name = "PATH", conflicts_with = "capture")]
    path: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Leave names, addresses, serial numbers and what looks like a secret as they are. Without this
    /// they are masked, so that the file can be shown to others.
    #[arg(long)]
    no_mask: bool,
    /// Go on for this long, and write a scenario (docs/SCENARIOS.md) with everything that changes.
    #[arg(long, value_name = "TIME", value_parser = replay::interval)]
    duration: Option<std::time::Duration>,
    /// With --duration: how often it is looked.
    #[arg(long, value_name = "TIME", default_value = "5s", requires = "duration", value_parser = replay::interval)]
    interval: std::time::Duration,
    #[command(flatten)]
    given: Given<false>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
struct ConfigArgs {
    #[command(subcommand)]
    check: Option<ConfigCommand>,
    #[command(flatten)]
    given: Given<true>,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say whether a file would be accepted.
    Check {
        /// The file.
        file: PathBuf,
    },
}

/// The command line as data, for the reference.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(given) => given.config().and_then(|config| {
            let level = log::to_stderr(&config);
            let machine = given.machine(&config)?;
            serve::run(&config, machine, Reloader::new(given, config.clone(), level))
        }),
        Command::Status(args) => status::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::CudaProbe(args) => doctor::probe(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Preflight(args) => preflight::run(&args),
        Command::Flush(args) => flush::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Correlate(args) => correlate::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Dashboards(args) => dashboards::run(&args),
        Command::Config(ConfigArgs { check: Some(ConfigCommand::Check { file }), .. }) => {
            config::check(&file)
        }
        Command::Config(args) => config::show(&args.given),
        Command::Thresholds(given) => config::thresholds(&given),
    };
    match result {
        Ok(code) => code,
        Err(error) if closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain once, on one line.
            let _ = writeln!(io::stderr(), "gb10-exporter: {error:#}");
            FAILED.into()
        }
    }
}

fn closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints to standard output.
fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}
