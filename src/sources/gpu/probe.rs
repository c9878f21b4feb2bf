//! A child of this program that may hang or crash in the driver: started, waited for, killed.

use super::smi::run::{Failure, Runner};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::path::Path;
use std::time::Duration;

/// Runs it and returns what it printed. It is killed, with all that it started, when `deadline` is over.
///
/// # Errors
/// Why there is nothing, in a few words.
pub fn run(
    program: &Path,
    arguments: &[&str],
    deadline: Duration,
    now: &dyn Fn() -> Duration,
) -> Result<String, String> {
    let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    let output = match Runner::default().run(program, &arguments, now() + deadline, now) {
        Ok(output) => output,
        Err(Failure::Late) => {
            return Err(format!("no answer within {} s; the child was killed", deadline.as_secs()));
        }
        Err(Failure::Start(error)) => {
            return Err(format!("the child could not be started: {error}"));
        }
        Err(Failure::Flood | Failure::Stuck(_)) => return Err("the child misbehaved".to_owned()),
    };
    if output.status.success() {
        return Ok(output.stdout);
    }
    // Its last line is the reason; before it a library may have said something of its own.
    let last = output.stderr.lines().last().unwrap_or_default();
    let why = last.strip_prefix("gb10-exporter: ").unwrap_or(last);
    Err(if why.is_empty() { output.status.to_string() } else { why.to_owned() })
}

/// In the child: ends it when the one that asked ends first, as when somebody presses ctrl-c.
pub fn die_with_parent() {
    // Where the kernel refuses, the deadline remains.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}
