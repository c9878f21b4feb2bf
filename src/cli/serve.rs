//! `serve`: lanes, ticker, web server, until a signal.

use super::reload::Reloader;
use super::{VERSION, notify};
use crate::clock::System;
use crate::config::Config;
use crate::engine::{Engine, Options, Settings};
use crate::server;
use crate::sources::Files;
use anyhow::Context;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long the start waits for the first frame before it serves without one.
const FIRST_FRAME: Duration = Duration::from_secs(2);

pub(super) fn run(
    config: &Config,
    files: Arc<dyn Files + Send + Sync>,
    mut reloader: Reloader,
) -> anyhow::Result<ExitCode> {
    // Bound before anything is started: an address that is taken is the commonest mistake.
    let listeners = server::bind(config)?;
    let engine = Arc::new(Engine::start(Options {
        files,
        clock: Arc::new(System),
        settings: Settings { thresholds: config.thresholds, collectors: config.collectors },
        state_directory: config.state_directory.clone(),
        version: VERSION,
    })?);
    engine.wait_for_frames(1, FIRST_FRAME);
    for listener in &listeners {
        tracing::info!("listening on http://{}{}", listener.local_addr()?, config.telemetry_path);
    }
    if config.state_directory.is_none() {
        tracing::info!("no state directory: unclean boots are not told (see --state.directory)");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the web server's runtime")?;
    let watchdog = notify::Watchdog::start(&engine)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        // From here on a signal means an orderly stop.
        notify::ready();
        let stop = async {
            let name = loop {
                tokio::select! {
                    _ = terminate.recv() => break "SIGTERM",
                    _ = interrupt.recv() => break "SIGINT",
                    _ = hangup.recv() => {
                        notify::reloading();
                        reloader.reload(&engine).await;
                        notify::ready();
                    }
                }
            };
            notify::stopping();
            tracing::info!("{name}: finishing answers that are on their way");
        };
        server::serve(listeners, Arc::clone(&engine), config, stop).await
    })?;
    drop(watchdog);
    engine.stop();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}
