//! The program as a file, with OpenTelemetry and without.

use super::{Outcome, line, number, section};
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Beside the usual one, so that neither build undoes the other.
const WITHOUT: &str = "target/without-otlp";

fn megabytes(path: &Path) -> Outcome<f64> {
    let size = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.len();
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    Ok(size as f64 / 1e6)
}

pub(crate) fn measure() -> Outcome<()> {
    let root = Path::new(ROOT);
    let build = |more: &[&str]| -> Outcome<()> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let status = Command::new(cargo)
            .args(["build", "--release", "--quiet", "--bin", "gb10-exporter"])
            .args(more)
            .current_dir(root)
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("cargo build {}: {status}", more.join(" "))),
            Err(error) => Err(format!("cargo: {error}")),
        }
    };
    build(&[])?;
    build(&["--no-default-features", "--target-dir", WITHOUT])?;
    let with = megabytes(&root.join("target/release/gb10-exporter"))?;
    let without = megabytes(&root.join(WITHOUT).join("release/gb10-exporter"))?;
    section("As a file, stripped, MB", ["ours", "", ""]);
    line("the program", [&number(with), "", ""], "at most 10");
    line("  without OpenTelemetry (--no-default-features)", [&number(without), "", ""], "");
    line("  OpenTelemetry and encryption", [&number(with - without), "", ""], "at most 4");
    Ok(())
}
