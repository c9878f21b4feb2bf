//! `serve`: lanes, ticker, web server, until a signal.

use super::reload::Reloader;
use super::{VERSION, notify};
use crate::alertmanager;
use crate::clock::System;
use crate::config::Config;
use crate::engine::{Engine, Options, Settings};
use crate::server;
use crate::sources::{Machine, identity};
use anyhow::Context;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the start waits for the first frame before it serves without one.
const FIRST_FRAME: Duration = Duration::from_secs(2);

pub(super) fn run(
    config: &Config,
    machine: Arc<dyn Machine + Send + Sync>,
    mut reloader: Reloader,
) -> anyhow::Result<ExitCode> {
    // Bound before anything is started: an address that is taken is the commonest mistake.
    let listeners = server::bind(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the web server's runtime")?;
    // From here on a signal means an orderly stop or a reload, and no longer a sudden end.
    let mut signals = {
        let _context = runtime.enter();
        Signals::listen().context("cannot listen for signals")?
    };
    let who = identity::read(&*machine);
    let engine = Arc::new(Engine::start(Options {
        machine,
        clock: Arc::new(System),
        settings: Settings::of(config),
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
    let watchdog = notify::Watchdog::start(&engine)?;
    let otlp = super::push::start(config, &engine, &who)?;
    let alertmanagers = alertmanager::start(config, &engine).context("cannot start a thread")?;
    runtime.block_on(async {
        notify::ready();
        let stop = async {
            let name = signals.until_stop(&mut reloader, &engine).await;
            notify::stopping();
            tracing::info!("{name}: finishing answers that are on their way");
        };
        server::serve(listeners, Arc::clone(&engine), config, stop).await
    })?;
    super::push::finish(otlp);
    drop((watchdog, alertmanagers));
    engine.stop();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The signals that mean something.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Reloads as often as it is asked for, until it is asked to stop: then at once, even while a
    /// configuration file is being read that does not answer.
    async fn until_stop(&mut self, reloader: &mut Reloader, engine: &Engine) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => {}
            }
            notify::reloading();
            let reading = reloader.begin();
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                () = reloader.finish(reading, engine) => notify::ready(),
            }
        }
    }
}
