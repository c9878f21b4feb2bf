//! A fake `nvidia-smi`. It answers from the GPU section of the capture that `FAKE_GPU_CAPTURE` names,
//! in the words of the real one: `--query-gpu`, `--query-compute-apps`, `-L` and `--version`.
//!
//! It appends the process ids of itself and of all that it starts to the file that `FAKE_SMI_PIDS`
//! names, when it hangs. Removing that file ends the hold of an unkillable one.
#![expect(unsafe_code, reason = "forks and traces itself to hang as a driver's process does")]
#![expect(clippy::disallowed_methods, reason = "it hangs and starts children as the real one may")]

#[path = "smi/fields.rs"]
mod fields;
#[path = "smi/hang.rs"]
mod hang;
#[path = "smi/query.rs"]
mod query;
#[path = "state.rs"]
mod state;

use crate::query::Format;
use crate::state::{DRIVER_NOT_LOADED, State};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// What goes to standard output, and the exit code.
type Answer = (String, u8);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let state = State::load(&state::path());
    if let Some(delay) = state.raw("smi.delay").and_then(|ms| ms.parse().ok()) {
        std::thread::sleep(Duration::from_millis(delay));
    }
    hang::hang(state.raw("smi.hang").filter(|how| !how.is_empty()));
    let (text, code) = run(&state, &arguments);
    // Nobody may be there to read it.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::from(code)
}

const NO_DRIVER: &str = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. \
                         Make sure that the latest NVIDIA driver is installed and running.\n\n";

/// Why NVML does not start, in the words of the real one.
fn init(state: &State) -> Result<(), Answer> {
    let failed = |text: &str| format!("Failed to initialize NVML: {text}\n");
    state.succeeds("init", true).map_err(|code| {
        let text = match code {
            DRIVER_NOT_LOADED => NO_DRIVER.to_owned(),
            4 => failed("Insufficient Permissions"),
            18 => {
                let version = state.peek("nvml").map_or("", fields::short_nvml);
                failed("Driver/library version mismatch")
                    + &format!("NVML library version: {version}\n")
            }
            _ => failed("Unknown Error"),
        };
        (text, u8::try_from(code).unwrap_or(255))
    })
}

const USAGE: &str =
    "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n";

fn run(state: &State, arguments: &[String]) -> Answer {
    let option = |name: &str| arguments.iter().find_map(|a| a.strip_prefix(name));
    let flag = |names: &[&str]| arguments.iter().any(|a| names.contains(&a.as_str()));
    if let Err(answer) = init(state) {
        return answer;
    }
    if flag(&["--version"]) {
        return (query::version(state), 0);
    }
    if flag(&["-L", "--list-gpus"]) {
        return query::list(state);
    }
    let fields = (option("--query-gpu="), option("--query-compute-apps="));
    let known = ["--query-gpu=", "--query-compute-apps=", "--format="];
    let strange = |a: &String| !known.iter().any(|name| a.starts_with(name));
    if arguments.iter().any(strange) || fields.0.is_some() == fields.1.is_some() {
        return (USAGE.to_owned(), 2);
    }
    let Some(format) = option("--format=").and_then(Format::parse) else {
        let text = "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n";
        return (text.to_owned(), 2);
    };
    // Some leave the units where nobody wants them.
    let format = Format { units: format.units || state.raw("smi.units") == Some("1"), ..format };
    match fields {
        (Some(fields), _) => query::gpus(state, fields, format),
        (_, fields) => query::compute_apps(state, fields.unwrap_or(""), format),
    }
}
