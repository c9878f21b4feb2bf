//! SIGHUP: the configuration is read anew. A bad file is refused, and what was in force stays; what
//! needs a restart is said.

use super::log::Verbosity;
use super::settings::Given;
use crate::config::Config;
use crate::config::table::{self, ROWS};
use crate::engine::{Engine, Settings};

/// What a running exporter can be told anew.
pub(super) struct Reloader {
    given: Given<true>,
    config: Config,
    level: Verbosity,
}

impl Reloader {
    /// With the configuration that the exporter was started with.
    pub(super) fn new(given: Given<true>, config: Config, level: Verbosity) -> Self {
        Self { given, config, level }
    }

    /// Reads the file again and takes over what can be.
    pub(super) async fn reload(&mut self, engine: &Engine) {
        // The file may be on a disk that does not answer: not on the thread that serves.
        let given = self.given.clone();
        let read = tokio::task::spawn_blocking(move || given.config()).await;
        match read {
            Ok(Ok(config)) => self.take(config, engine),
            // Somebody has to correct the file: it would not start again with it.
            Ok(Err(error)) => {
                tracing::error!("configuration refused, the old one stays in force: {error:#}");
            }
            Err(error) => tracing::error!("configuration not read, the old one stays: {error}"),
        }
    }

    fn take(&mut self, new: Config, engine: &Engine) {
        let changed: Vec<String> = table::keys()
            .filter(|key| table::shown(&self.config, key) != table::shown(&new, key))
            .collect();
        let (later, now): (Vec<_>, Vec<_>) =
            changed.iter().map(String::as_str).partition(|key| needs_restart(key));
        for key in later {
            tracing::warn!("{key} has changed and needs a restart; the old value stays in force");
        }
        engine.reconfigure(Settings { thresholds: new.thresholds, collectors: new.collectors });
        self.level.set(&new.log_level);
        let what = if now.is_empty() { "nothing has changed".to_owned() } else { now.join(", ") };
        tracing::info!("configuration read again: {what}");
        // What needs a restart is told once for each change, not with every reload.
        self.config = new;
    }
}

/// Whether a setting is looked at only when the exporter starts.
fn needs_restart(key: &str) -> bool {
    ROWS.iter().any(|row| row.key == key && !row.reloads)
}
