//! Arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    gb10_exporter::cli::main()
}
