//! The command line. Exit codes: 0 done, 1 the verdict is "no", 2 an error, 64 usage; output into a
//! closed pipe is 0, because whoever closed it has read enough.

mod serve;
mod status;

use crate::capture::Capture;
use crate::config::{Config, DEFAULT_LISTEN, paths};
use crate::sources::{Files, Roots};
use crate::thresholds::Thresholds;
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;

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
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve metrics over HTTP (the default).
    Serve(ServeArgs),
    /// Show how the machine stands, for a person or as JSON.
    Status(StatusArgs),
}

#[derive(Debug, Args)]
struct Machine {
    /// Where procfs is mounted.
    #[arg(long = "path.procfs", value_name = "DIR", default_value = "/proc")]
    procfs: PathBuf,
    /// Where sysfs is mounted.
    #[arg(long = "path.sysfs", value_name = "DIR", default_value = "/sys")]
    sysfs: PathBuf,
    /// Where the rest of the machine is (for /etc/os-release).
    #[arg(long = "path.rootfs", value_name = "DIR", default_value = "/")]
    rootfs: PathBuf,
    /// Read a recorded machine (docs/CAPTURES.md) instead of this one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["procfs", "sysfs", "rootfs"])]
    capture: Option<PathBuf>,
}

impl Machine {
    /// The files to read: this machine's, or a recorded one's.
    fn files(&self) -> anyhow::Result<Arc<dyn Files + Send + Sync>> {
        Ok(match &self.capture {
            Some(path) => Arc::new(Capture::load(path)?),
            None => Arc::new(Roots {
                procfs: self.procfs.clone(),
                sysfs: self.sysfs.clone(),
                rootfs: self.rootfs.clone(),
            }),
        })
    }
}

#[derive(Debug, Args)]
struct Web {
    /// Address to listen on; may be given several times. :PORT means all addresses, IPv4 and IPv6.
    #[arg(long = "web.listen-address", value_name = "HOST:PORT", default_value = DEFAULT_LISTEN)]
    listen: Vec<String>,
    /// Path of the metrics.
    #[arg(long = "web.telemetry-path", value_name = "PATH", default_value = "/metrics", value_parser = telemetry_path)]
    telemetry_path: String,
    /// Requests answered at a time; one more is refused with 503.
    #[arg(long = "web.max-requests", value_name = "N", default_value = "40", value_parser = clap::value_parser!(u16).range(1..))]
    max_requests: u16,
}

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    web: Web,
    /// Directory for what is remembered from run to run (which boots ended badly). Created if needed.
    /// Without it nothing is written anywhere. Default: the directory that systemd gives a service
    /// with StateDirectory=.
    #[arg(long = "state.directory", value_name = "DIR", conflicts_with = "capture")]
    state_directory: Option<PathBuf>,
    /// Log this much and less: error, warn, info, debug.
    #[arg(long = "log.level", value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    #[command(flatten)]
    machine: Machine,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Ask a running exporter instead of reading this machine. It has watched for longer, so its
    /// trends and windows say more.
    #[arg(long, value_name = "URL", conflicts_with_all = ["procfs", "sysfs", "rootfs", "capture"])]
    url: Option<String>,
    /// Print JSON: the document of /api/v1/status.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// The command line as data, for the reference.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

fn telemetry_path(path: &str) -> Result<String, String> {
    if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
        return Err("expected a path that begins with / and has no query, fragment or space".into());
    }
    if paths::TAKEN.contains(&path) {
        return Err(format!("{path} is another page of this server"));
    }
    Ok(path.to_owned())
}

impl ServeArgs {
    fn config(&self) -> Config {
        Config {
            listen: self.web.listen.clone(),
            telemetry_path: self.web.telemetry_path.clone(),
            max_requests: self.web.max_requests.into(),
            // A recorded machine's boots are not this machine's.
            state_directory: match self.machine.capture {
                Some(_) => None,
                None => self.state_directory.clone().or_else(state_directory_of_the_service),
            },
            thresholds: Thresholds::default(),
        }
    }
}

/// What systemd gives a service with `StateDirectory=`. Several are separated by colons; ours is the
/// first.
fn state_directory_of_the_service() -> Option<PathBuf> {
    let list = std::env::var_os("STATE_DIRECTORY")?.into_string().ok()?;
    list.split(':').next().filter(|dir| !dir.is_empty()).map(PathBuf::from)
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
        Command::Serve(args) => {
            log_to_stderr(args.log_level);
            args.machine.files().and_then(|files| serve::run(&args.config(), files))
        }
        Command::Status(args) => status::run(&args),
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

fn log_to_stderr(level: LevelFilter) {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        // A log that cannot be written must not take the exporter with it.
        .log_internal_errors(false)
        .init();
}

/// Prints to standard output.
fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}
