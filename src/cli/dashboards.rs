//! `dashboards`: the Grafana dashboards as files.

use super::{print, whole};
use crate::catalog::links::Board;
use crate::grafana;
use anyhow::Context;
use clap::Args;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(super) struct DashboardsArgs {
    /// The directory to write to. It is made if it is not there; files of these names are replaced.
    #[arg(long, value_name = "DIR", default_value = "grafana")]
    dir: PathBuf,
    /// The data source that is chosen at first, by its uid. Without this Grafana takes its default.
    #[arg(long, value_name = "UID", value_parser = uid)]
    datasource: Option<String>,
}

/// What Grafana takes as a uid.
fn uid(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=40).contains(&text.len()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 40 letters, digits, - and _".to_owned())
    }
}

/// Writes each dashboard and says where.
pub(super) fn run(args: &DashboardsArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.display();
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot make the directory {dir}"))?;
    for board in Board::ALL {
        let path = args.dir.join(grafana::file_name(*board));
        let text = grafana::dashboard(*board, args.datasource.as_deref());
        // In one step: Grafana reads the directory while it is written.
        whole::write(&path, &text, 0o644, true)
            .with_context(|| format!("cannot write {}", path.display()))?;
        print(format!("{}: {}\n", path.display(), board.describe()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
