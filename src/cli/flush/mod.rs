//! `flush`: gives page cache back before a run, and says what that brought.
//!
//! It is a step between runs: whoever is in a step waits for the disk afterwards. The kernel is asked to drop
//! what is clean; nothing that is needed is lost.

mod files;
mod glob;

use super::columns::wrapped;
use super::plan::usage;
use super::settings::Given;
use super::{log, print, status};
use crate::config::Config;
use crate::export::status::{Figure, PoolPart, Status};
use crate::model::pool::{Block, Segment};
use crate::units::{Bytes, SignedBytes};
use clap::{ArgAction, Args};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing::info;

/// Exit code of a flush that a person did not want after all.
const NOT_DONE: u8 = 1;

#[derive(Debug, Args)]
#[command(mut_arg("capture", |arg| arg.hide(true)))]
pub(super) struct FlushArgs {
    /// What is dropped: 1 page cache, 2 reclaimable kernel objects, 3 both.
    #[arg(long, value_name = "1|2|3", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    level: u8,
    /// Let the kernel put free memory together afterwards, for drivers that need large blocks.
    #[arg(long)]
    compact: bool,
    /// Do not ask when a GPU workload is running.
    #[arg(long)]
    yes: bool,
    /// Say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// One's own files instead of the whole cache, without root: paths or patterns with * and ?. May be given
    /// several times.
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, num_args = 1.., conflicts_with_all = ["level", "compact", "yes"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    given: Given<false>,
}

/// Why nothing was flushed.
#[derive(Debug, thiserror::Error)]
enum FlushError {
    /// Only root may.
    #[error("only root may flush: sudo {command}")]
    Root {
        /// The exact command.
        command: String,
    },
    /// A container sees the file and may not write it.
    #[error("{path} is read-only here: flush on the host, or in a privileged container")]
    ReadOnly {
        /// The kernel's file.
        path: PathBuf,
    },
    /// It is not there, or something else.
    #[error("{path} cannot be written")]
    Write {
        /// The kernel's file.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Nobody could be asked.
    #[error("{jobs}: a flush is a step between runs; stop it first, or give --yes")]
    Busy {
        /// Who runs.
        jobs: String,
    },
}

pub(super) fn run(args: &FlushArgs) -> anyhow::Result<ExitCode> {
    if args.given.is_capture() {
        return Ok(usage("flush works on this machine, not on a recorded one"));
    }
    let config = args.given.config()?;
    if !args.files.is_empty() {
        return files::run(&args.files, args.dry_run, &config);
    }
    let drop_caches = config.procfs.join("sys/vm/drop_caches");
    let compact = config.procfs.join("sys/vm/compact_memory");
    let before = status::read_here(&args.given)?;
    let jobs = running(&before);
    if args.dry_run {
        print(plan(args, &before, &jobs).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Opened before anything is asked or waited for: a refusal comes at once.
    let mut dropping = open(&drop_caches, args)?;
    let compacting = args.compact.then(|| open(&compact, args)).transpose()?;
    if !jobs.is_empty() && !args.yes && !agreed(&jobs)? {
        return Ok(NOT_DONE.into());
    }
    let _level = log::to_stderr(&config);
    // What is dirty cannot be dropped.
    rustix::fs::sync();
    write(&mut dropping, &drop_caches, args.level)?;
    if let Some(mut compacting) = compacting {
        write(&mut compacting, &compact, 1)?;
    }
    let after = status::read_here(&args.given)?;
    note(&before.pool, &after.pool, args);
    print(gained(&before.pool, &after.pool).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The same flush as a command for root.
fn command(args: &FlushArgs) -> String {
    let program = std::env::current_exe();
    let program = program.as_deref().unwrap_or(Path::new("gb10-exporter")).display();
    let compact = if args.compact { " --compact" } else { "" };
    let yes = if args.yes { " --yes" } else { "" };
    format!("{program} flush --level {}{compact}{yes}", args.level)
}

fn open(path: &Path, args: &FlushArgs) -> Result<File, FlushError> {
    OpenOptions::new().write(true).open(path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => FlushError::Root { command: command(args) },
        io::ErrorKind::ReadOnlyFilesystem => FlushError::ReadOnly { path: path.to_owned() },
        _ => FlushError::Write { path: path.to_owned(), source },
    })
}

/// The kernel acts on what is written before the call comes back.
fn write(file: &mut File, path: &Path, number: u8) -> Result<(), FlushError> {
    file.write_all(format!("{number}\n").as_bytes())
        .map_err(|source| FlushError::Write { path: path.to_owned(), source })
}

/// Jobs that use the GPU, in words.
fn running(status: &Status) -> Vec<String> {
    let jobs = status.holders.jobs.value().map_or(&[][..], Vec::as_slice);
    jobs.iter()
        .filter(|job| job.is_at_work())
        .map(|job| {
            let phase = job.phase.value().map(String::as_str).filter(|phase| *phase != "unknown");
            let what = phase.map_or("runs".to_owned(), |phase| format!("is {phase}"));
            format!("{} in {} (pid {}) {what}", job.workload, job.unit, job.pid)
        })
        .collect()
}

/// Asks whoever sits at the terminal.
fn agreed(jobs: &[String]) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(FlushError::Busy { jobs: jobs.join("; ") }.into());
    }
    let mut err = io::stderr();
    for job in jobs {
        writeln!(err, "{job}")?;
    }
    write!(
        err,
        "A flush is a step between runs: a job in a step waits for the disk afterwards. Flush? [y/N] "
    )?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn plan(args: &FlushArgs, before: &Status, jobs: &[String]) -> String {
    let mut out = String::new();
    let flushable = words(&before.pool.flushable);
    let what = match args.level {
        1 => "page cache",
        2 => "reclaimable kernel objects",
        _ => "page cache and reclaimable kernel objects",
    };
    let first =
        format!("Would write dirty pages to disk, then drop {what} (level {}).", args.level);
    out.push_str(&wrapped("", 2, &first));
    if args.compact {
        let _ = writeln!(out, "Would then let the kernel put free memory together.");
    }
    let _ = writeln!(out, "A full flush returns {flushable} at the least.");
    for job in jobs {
        out.push_str(&wrapped("Would ask first: ", 2, &format!("{job}.")));
    }
    let _ = writeln!(out, "As root: {}", command(args));
    out
}

fn words(figure: &Figure<u64>) -> String {
    match figure {
        Figure::Value(bytes) => Bytes(*bytes).to_string(),
        Figure::Missing { missing } => format!("an amount that is not known ({missing})"),
    }
}

/// What is compared: name, and its figure.
fn lines(pool: &PoolPart) -> Vec<(String, Option<u64>)> {
    let value = |figure: Option<&Figure<u64>>| figure.and_then(Figure::value).copied();
    let mut out = vec![("available".to_owned(), value(Some(&pool.available)))];
    for segment in Segment::ALL {
        let name = segment.as_str();
        out.push((name.replace('_', " "), value(pool.segments.get(name))));
    }
    for block in Block::ALL {
        let name = block.as_str();
        out.push((format!("in blocks of {name}"), value(pool.contiguous_free.get(name))));
    }
    out
}

/// Before, after and the difference, by segment; what did not change is left out, but for what is free.
fn gained(before: &PoolPart, after: &PoolPart) -> String {
    let mut out = format!("{:<22}{:>12}{:>12}{:>13}\n", "", "before", "after", "difference");
    for ((name, before), (_, after)) in lines(before).into_iter().zip(lines(after)) {
        let (Some(before), Some(after)) = (before, after) else { continue };
        let difference = Bytes(after).signed_less(Bytes(before));
        if difference.0 == 0 && !["available", "free"].contains(&name.as_str()) {
            continue;
        }
        let sign = if difference.0 > 0 { "+" } else { "" };
        let difference = format!("{sign}{difference}");
        let (before, after) = (Bytes(before), Bytes(after));
        let _ = writeln!(out, "{name:<22}{before:>12}{after:>12}{difference:>13}");
    }
    out
}

/// One line in the log, so that a flush can be found beside what it did to others.
fn note(before: &PoolPart, after: &PoolPart, args: &FlushArgs) {
    let difference = |of: fn(&PoolPart) -> &Figure<u64>| {
        let pair = of(after).value().zip(of(before).value());
        pair.map_or("unknown".to_owned(), |(after, before)| {
            Bytes(*after).signed_less(Bytes(*before)).to_string()
        })
    };
    info!(
        event = "cache_flushed",
        level = args.level,
        compacted = args.compact,
        free = difference(|pool| &pool.free),
        available = difference(|pool| &pool.available),
        "the page cache was flushed"
    );
}

/// The gain of free memory, in words.
fn gain(before: Option<u64>, after: Option<u64>) -> String {
    match (before, after) {
        (Some(before), Some(after)) => {
            let SignedBytes(gain) = Bytes(after).signed_less(Bytes(before));
            let sign = if gain > 0 { "+" } else { "" };
            format!(
                "free memory: {} before, {} after, {sign}{}",
                Bytes(before),
                Bytes(after),
                SignedBytes(gain)
            )
        }
        _ => "free memory could not be read".to_owned(),
    }
}

/// MemFree of the machine.
fn free(config: &Config) -> Option<u64> {
    use crate::model::fields::Group;
    let roots = crate::sources::Roots {
        procfs: config.procfs.clone(),
        sysfs: config.sysfs.clone(),
        rootfs: config.rootfs.clone(),
    };
    let mut meminfo =
        crate::model::memory::Meminfo::absent(crate::model::reading::Missing::Pending);
    // Lines that are missing do not matter here.
    let _ = crate::sources::proc::meminfo::read(&roots, &mut meminfo);
    meminfo.free.ok().map(|bytes| bytes.0)
}
