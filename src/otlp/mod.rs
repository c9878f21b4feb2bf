//! OpenTelemetry's way out: frames as metrics and events as log records, sent to collectors.
//!
//! One thread with a runtime of its own does all of it, so that neither a lane nor a scrape ever waits for a
//! collector. What it holds is one export at a time: an export that fails after its repetitions loses its
//! own points and nothing else, for the next one says the sums anew (with deltas, what they had added).
//!
//! - `instruments`: the catalog as instruments of the SDK, and one frame at a time as its data
//! - `records`: events as log records
//! - `resource`: which exporter on which box
//! - `transport`: how an export gets there
//! - `turns`: when, and what is said and counted about it

mod instruments;
mod records;
mod resource;
mod transport;
mod turns;

use crate::config::Config;
use crate::engine::Engine;
use crate::sources::identity::Identity;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::sync::watch;

/// How long the last exports may take after a stop.
const LAST: Duration = Duration::from_secs(5);
/// Threads that look up names. A resolver that hangs takes them, and no more.
const RESOLVERS: usize = 2;
/// How much longer than that the stop waits for them.
const GRACE: Duration = Duration::from_millis(500);

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file of the settings cannot be read.
    #[error("{path} cannot be read", path = .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// A file of the settings holds something else.
    #[error("{path}{place}: {what}", path = .path.display(), place = .line.map_or(String::new(), |line| format!(":{line}")))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: Option<usize>,
        /// What was expected.
        what: String,
    },
    /// The connection cannot be set up that way.
    #[error("{0} cannot be used: {1}")]
    Way(String, String),
    /// No thread.
    #[error("cannot start the otlp thread")]
    Thread(#[source] std::io::Error),
}

/// Those who send; told to stop, they send once more.
pub struct Sender {
    stop: watch::Sender<bool>,
    done: Receiver<()>,
}

impl Sender {
    /// The last exports, within five seconds.
    pub fn finish(self) {
        let _ = self.stop.send(true);
        // The thread drops its end when it is done, or dies.
        let _ = self.done.recv_timeout(LAST + GRACE);
    }
}

/// Begins to send, if there is anywhere to send to.
///
/// # Errors
/// A file that the settings name cannot be used, or there is no thread.
pub fn start(
    config: &Config,
    engine: &Arc<Engine>,
    identity: &Identity,
    version: &'static str,
) -> Result<Option<Sender>, StartError> {
    let ways: Vec<_> = config.otlp.targets().map(transport::Way::new).collect::<Result<_, _>>()?;
    if let Some((key, value)) = config.otlp.silenced() {
        let who = config.origin(key).as_str();
        tracing::info!("nothing is sent to the collector: {key} is {value} ({who})");
    }
    if ways.is_empty() {
        return Ok(None);
    }
    for way in &ways {
        engine.exports().begin(way.target.signal);
        tracing::info!(
            "{} go to {} by {}",
            way.target.signal.as_str(),
            way.target.shown(),
            way.target.protocol.as_str()
        );
    }
    let sending = turns::Sending {
        engine: Arc::clone(engine),
        otlp: config.otlp.clone(),
        who: resource::Who::new(config, identity, version),
        version,
    };
    let (stop, stopped) = watch::channel(false);
    let (alive, done) = channel();
    std::thread::Builder::new()
        .name("otlp".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(RESOLVERS)
                .build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(turns::run(sending, ways, stopped));
                    drop(alive);
                    // A look-up of a name that does not come back is left behind.
                    runtime.shutdown_background();
                }
                Err(error) => tracing::error!("nothing is sent to the collector: {error}"),
            }
        })
        .map_err(StartError::Thread)?;
    Ok(Some(Sender { stop, done }))
}
