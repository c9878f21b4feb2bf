//! SIGHUP: the configuration is read anew. A bad file is refused, and what was in force stays; what
//! needs a restart is said.

use super::log::Verbosity;
use super::settings::Given;
use crate::config::Config;
use crate::config::table::{self, rows};
use crate::engine::{Engine, Settings};
use std::time::Duration;
use tokio::sync::oneshot;

/// A configuration file that is not read within this time is on a disk that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a running exporter can be told anew.
pub(super) struct Reloader {
    given: Given<true>,
    /// What the exporter was started with: what needs a restart is still as it says.
    started: Config,
    config: Config,
    verbosity: Verbosity,
}

/// A reading that is under way.
pub(super) type Reading = oneshot::Receiver<anyhow::Result<Config>>;

impl Reloader {
    /// With the configuration that the exporter was started with.
    pub(super) fn new(given: Given<true>, config: Config, verbosity: Verbosity) -> Self {
        Self { given, started: config.clone(), config, verbosity }
    }

    /// Begins to read the file again, on a thread of its own: neither the server nor a stop waits for a
    /// disk.
    pub(super) fn begin(&self) -> Reading {
        let (done, reading) = oneshot::channel();
        let given = self.given.clone();
        let spawned = std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
            // Nobody waits any more when the exporter is stopping.
            let _ = done.send(given.config());
        });
        if let Err(error) = spawned {
            tracing::error!("configuration not read, the old one stays in force: {error}");
        }
        reading
    }

    /// Takes over what was read, as far as it can be.
    pub(super) async fn finish(&mut self, reading: Reading, engine: &Engine) {
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Ok(Ok(config))) => self.take(config, engine),
            // Somebody has to correct the file: the exporter would not start again with it.
            Ok(Ok(Err(error))) => {
                tracing::error!("configuration refused, the old one stays in force: {error:#}");
            }
            Ok(Err(_)) => tracing::error!("configuration not read, the old one stays in force"),
            Err(_) => tracing::error!(
                "the configuration file has not been read within {} s, the old one stays in force",
                PATIENCE.as_secs()
            ),
        }
    }

    fn take(&mut self, new: Config, engine: &Engine) {
        let differ =
            |a: &Config, b: &Config, key: &str| table::shown(a, key) != table::shown(b, key);
        let changed: Vec<String> =
            table::keys().filter(|key| differ(&self.config, &new, key)).collect();
        let (later, now): (Vec<_>, Vec<_>) =
            changed.iter().map(String::as_str).partition(|key| needs_restart(key));
        for key in &later {
            if differ(&self.started, &new, key) {
                tracing::warn!(
                    "{key} has changed and needs a restart; the old value stays in force"
                );
            } else {
                tracing::info!("{key} is again what is in force");
            }
        }
        engine.reconfigure(Settings::of(&new));
        let what = match (now.is_empty(), later.is_empty()) {
            (true, true) => "nothing has changed".to_owned(),
            (true, false) => "nothing has changed that can change now".to_owned(),
            _ => now.join(", "),
        };
        // Said at whichever level says more, so that a quieter log still tells that it gets quieter.
        self.verbosity.set_louder(&self.config.log_level, &new.log_level);
        tracing::info!("configuration read again: {what}");
        self.verbosity.set(&new.log_level);
        // What needs a restart is told once for each change, not with every reload.
        self.config = new;
    }
}

/// Whether a setting is looked at only when the exporter starts.
fn needs_restart(key: &str) -> bool {
    rows().any(|row| row.key == key && !row.reloads)
}
