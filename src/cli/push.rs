//! OpenTelemetry, in a build that has it and in one that has not.

use crate::config::Config;
use crate::engine::Engine;
use crate::sources::identity::Identity;
use std::sync::Arc;

#[cfg(feature = "otlp")]
pub(super) type Sender = crate::otlp::Sender;

/// Begins to send, if an endpoint is set.
#[cfg(feature = "otlp")]
pub(super) fn start(
    config: &Config,
    engine: &Arc<Engine>,
    identity: &Identity,
) -> anyhow::Result<Option<Sender>> {
    Ok(crate::otlp::start(config, engine, identity, super::VERSION.0)?)
}

/// The last exports.
#[cfg(feature = "otlp")]
pub(super) fn finish(sender: Option<Sender>) {
    if let Some(sender) = sender {
        sender.finish();
    }
}

/// Nobody sends.
#[cfg(not(feature = "otlp"))]
pub(super) enum Sender {}

/// An endpoint is a mistake: data that somebody waits for would never come.
#[cfg(not(feature = "otlp"))]
pub(super) fn start(
    config: &Config,
    _: &Arc<Engine>,
    _: &Identity,
) -> anyhow::Result<Option<Sender>> {
    match config.otlp.targets().next() {
        None => Ok(None),
        Some(target) => anyhow::bail!(
            "otlp.endpoint: {} is set, and this build is without OpenTelemetry (cargo feature otlp)",
            target.url
        ),
    }
}

/// Nothing to finish.
#[cfg(not(feature = "otlp"))]
pub(super) fn finish(_: Option<Sender>) {}
