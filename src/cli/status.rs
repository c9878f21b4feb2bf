//! `status`: how the machine stands, for a person.

use super::columns::colour;
use super::settings::Given;
use super::{StatusArgs, VERSION, print};
use crate::client;
use crate::clock::System;
use crate::config::paths;
use crate::engine::{Engine, Options, Settings};
use crate::export::status::{FORMAT, Status};
use crate::export::terminal;
use anyhow::{Context, bail};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Frames that a local reading waits for: a slope needs three samples.
const FRAMES: u64 = 3;
/// How long it waits for them. A box that hangs is told about, not waited for.
const PATIENCE: Duration = Duration::from_secs(6);

pub(super) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let status = match &args.url {
        Some(url) => fetch(url)?,
        None => read_here(&args.given)?,
    };
    if args.json {
        print(&status.to_json())?;
    } else {
        print(terminal::render(&status, colour()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// From a running exporter.
pub(super) fn fetch(url: &str) -> anyhow::Result<Status> {
    let body = client::get(url, paths::STATUS)?;
    let status: Status = serde_json::from_slice(&body).with_context(|| {
        format!("{url}{} is not a status document of this exporter", paths::STATUS)
    })?;
    if status.format != FORMAT {
        bail!("{url} speaks format {}, this program knows format {FORMAT}", status.format);
    }
    Ok(status)
}

/// From this machine, by the same engine that serves; it writes nothing.
pub(super) fn read_here(given: &Given<false>) -> anyhow::Result<Status> {
    let config = given.config()?;
    let engine = Engine::start(Options {
        machine: given.machine(&config)?,
        clock: Arc::new(System),
        settings: Settings::of(&config),
        state_directory: None,
        version: VERSION,
    })?;
    engine.wait_for_frames(FRAMES, PATIENCE);
    let frame = engine.frame().context("this machine could not be read");
    engine.stop();
    Ok(Status::of(&*frame?))
}
