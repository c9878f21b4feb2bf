//! Where OpenTelemetry's data goes, and how.
//!
//! Each setting of a way to a collector is there three times, as in OpenTelemetry's specification: for every
//! signal, for metrics alone, for logs alone. What is said for one signal wins over what is said for all.

mod read;
mod rows;

use super::{Config, Contradiction, Origin, table};
use crate::model::push::Signal;
pub use read::header;
pub(super) use rows::{ALL, LOGS, METRICS, ONCE};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

states! {
    /// How data travels.
    Protocol {
        /// One POST of protobuf an export.
        HttpProtobuf = "http/protobuf",
        /// One call an export.
        Grpc = "grpc",
    }
}

states! {
    /// How data is packed on its way.
    Compression {
        /// As it is.
        None = "none",
        /// By gzip.
        Gzip = "gzip",
    }
}

states! {
    /// What the points of a counter say.
    Temporality {
        /// The sum since the exporter started; what Prometheus needs.
        Cumulative = "cumulative",
        /// What was added since the last export.
        Delta = "delta",
        /// Whichever needs less memory. Every counter here is asked for its sum, so that is cumulative.
        LowMemory = "lowmemory",
    }
}

/// What nobody may see.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// For the one who sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

const HIDDEN: &str = "<hidden>";

/// A way to a collector, as far as it is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    endpoint: Option<String>,
    insecure: Option<bool>,
    protocol: Option<Protocol>,
    headers: Vec<(String, Secret)>,
    headers_file: Option<PathBuf>,
    timeout: Option<Duration>,
    compression: Option<Compression>,
    certificate: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

/// Everything about OpenTelemetry.
#[derive(Clone, Debug, PartialEq)]
pub struct Otlp {
    /// Nothing is sent, whatever else is said.
    pub disabled: bool,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// Whether events are sent as log records.
    pub logs: bool,
    /// Distance of the exports of metrics.
    pub interval: Duration,
    /// What counters say.
    pub temporality: Temporality,
    /// Another name than the exporter's own.
    pub service_name: Option<String>,
    /// More attributes of the resource, or other values of its own.
    pub resource_attributes: Vec<(String, String)>,
    /// For all signals, for metrics, for logs.
    ways: [Way; 3],
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            disabled: false,
            metrics: true,
            logs: false,
            interval: Duration::from_secs(60),
            temporality: Temporality::Cumulative,
            service_name: None,
            resource_attributes: Vec::new(),
            ways: Default::default(),
        }
    }
}

/// Where a signal goes: settings and defaults together.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The signal.
    pub signal: Signal,
    /// The whole URL; with gRPC that of the server.
    pub url: String,
    /// How.
    pub protocol: Protocol,
    /// Headers of each request.
    pub headers: Vec<(String, Secret)>,
    /// A file with more of them.
    pub headers_file: Option<PathBuf>,
    /// How long one export may take, repetitions included.
    pub timeout: Duration,
    /// How it is packed.
    pub compression: Compression,
    /// Roots that are trusted, instead of the system's.
    pub certificate: Option<PathBuf>,
    /// The exporter's own certificate.
    pub client_certificate: Option<PathBuf>,
    /// Its key.
    pub client_key: Option<PathBuf>,
}

impl Target {
    /// The URL for people: a query may hold a key.
    #[must_use]
    pub fn shown(&self) -> &str {
        without_query(&self.url)
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.url.starts_with("https://")
    }
}

fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

const GENERAL: usize = 0;
const OF_METRICS: usize = 1;
const OF_LOGS: usize = 2;

impl Otlp {
    /// Where a signal goes; nowhere if it is switched off or no endpoint is set.
    #[must_use]
    pub fn target(&self, signal: Signal) -> Option<Target> {
        let (on, own) = match signal {
            Signal::Metrics => (self.metrics, &self.ways[OF_METRICS]),
            Signal::Logs => (self.logs, &self.ways[OF_LOGS]),
        };
        if self.disabled || !on {
            return None;
        }
        let all = &self.ways[GENERAL];
        let protocol = own.protocol.or(all.protocol).unwrap_or(Protocol::HttpProtobuf);
        let insecure = own.insecure.or(all.insecure).unwrap_or(false);
        let url = match (&own.endpoint, &all.endpoint, protocol) {
            // For one signal it is the whole URL; for all, the path of the signal follows.
            (Some(own), _, _) => own.clone(),
            (None, Some(all), Protocol::HttpProtobuf) => {
                format!("{}/v1/{}", all.trim_end_matches('/'), signal.as_str())
            }
            (None, Some(all), Protocol::Grpc) => all.clone(),
            (None, None, _) => return None,
        };
        let scheme = if insecure { "http" } else { "https" };
        let url = if url.contains("://") { url } else { format!("{scheme}://{url}") };
        let (headers, headers_file) = if own.headers.is_empty() && own.headers_file.is_none() {
            (all.headers.clone(), all.headers_file.clone())
        } else {
            (own.headers.clone(), own.headers_file.clone())
        };
        let path = |of: fn(&Way) -> &Option<PathBuf>| of(own).clone().or_else(|| of(all).clone());
        Some(Target {
            signal,
            url,
            protocol,
            headers,
            headers_file,
            timeout: own.timeout.or(all.timeout).unwrap_or(Duration::from_secs(10)),
            compression: own.compression.or(all.compression).unwrap_or(Compression::None),
            certificate: path(|way| &way.certificate),
            client_certificate: path(|way| &way.client_certificate),
            client_key: path(|way| &way.client_key),
        })
    }

    /// Every signal that is sent, and where.
    pub fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        Signal::ALL.iter().filter_map(|signal| self.target(*signal))
    }

    /// Why nothing is sent although an endpoint is set: the key that says so, and its value.
    #[must_use]
    pub fn silenced(&self) -> Option<(&'static str, &'static str)> {
        let [all, metrics, logs] = &self.ways;
        let set = |ways: &[&Way]| ways.iter().any(|way| way.endpoint.is_some());
        if !set(&[all, metrics, logs]) || self.targets().next().is_some() {
            None
        } else if self.disabled {
            Some(("otlp.disabled", "true"))
        } else if set(&[all, metrics]) {
            Some(("otlp.metrics", "false"))
        } else {
            Some(("otlp.logs", "false"))
        }
    }

    /// Whether a configuration says something that cannot be meant. What everybody's environment says may be
    /// about other programs; what is said to this one is meant.
    pub(super) fn contradiction(config: &Config) -> Option<Contradiction> {
        let otlp = &config.otlp;
        let found = |keys, what: String| Some(Contradiction { keys, what });
        let unsaid = Config::default();
        // What is said as it is anyway says nothing: the output of `config` is a file.
        let said = |key: &str| {
            !matches!(config.origin(key), Origin::Default | Origin::Standard)
                && table::shown(config, key) != table::shown(&unsaid, key)
        };
        let targets: Vec<Target> = otlp.targets().collect();
        for target in &targets {
            if let Some(wrong) = otlp.unusable(target, &targets, said) {
                return Some(wrong);
            }
        }
        if let Some((key, value)) = otlp.silenced() {
            let endpoints = ["otlp.endpoint", "otlp.metrics_endpoint", "otlp.logs_endpoint"];
            let meant = endpoints.into_iter().find(|endpoint| said(endpoint));
            // Where OpenTelemetry's variables switch it off, that is told when the exporter starts.
            let by_others = config.origin(key) == Origin::Standard;
            return meant.filter(|_| !by_others).and_then(|endpoint| {
                found([endpoint, key], format!("nothing is sent while {key} is {value}"))
            });
        }
        if otlp.disabled {
            return None;
        }
        let rows = [ALL, METRICS, LOGS, ONCE].into_iter().flatten();
        let orphan =
            rows.map(|row| row.key).filter(|key| *key != "otlp.metrics").find(|key| said(key));
        if let (true, Some(key)) = (targets.is_empty() && otlp.metrics, orphan) {
            return found(
                [key, "otlp.endpoint"],
                "nothing is sent without otlp.endpoint".to_owned(),
            );
        }
        let logs = otlp.logs && said("otlp.logs");
        if logs && !targets.iter().any(|target| target.signal == Signal::Logs) {
            return found(
                ["otlp.logs", "otlp.logs_endpoint"],
                "nothing is sent without otlp.endpoint or otlp.logs_endpoint".to_owned(),
            );
        }
        None
    }

    /// What is wrong with the way to one collector.
    fn unusable(
        &self,
        target: &Target,
        targets: &[Target],
        said: impl Fn(&str) -> bool,
    ) -> Option<Contradiction> {
        let way = match target.signal {
            Signal::Metrics => OF_METRICS,
            Signal::Logs => OF_LOGS,
        };
        let own = &self.ways[way];
        let found = |keys, what: String| Some(Contradiction { keys, what });
        if target.client_certificate.is_some() != target.client_key.is_some() {
            let what = "otlp.client_certificate and otlp.client_key need each other".to_owned();
            return found(["otlp.client_certificate", "otlp.client_key"], what);
        }
        let given = |way: &Way| way.certificate.is_some() || way.client_certificate.is_some();
        // A general one may be there for another signal's collector.
        let general = given(&self.ways[GENERAL])
            && !targets.iter().any(Target::is_tls)
            && (said("otlp.certificate") || said("otlp.client_certificate"));
        if !target.is_tls() && (given(own) || general) {
            let what =
                format!("{} is not encrypted, and a certificate is given for it", target.shown());
            return found(ENDPOINT_AND_CERTIFICATE[if given(own) { way } else { GENERAL }], what);
        }
        let late = target.signal == Signal::Metrics && target.timeout > self.interval;
        if late && said("otlp.interval") && (said("otlp.timeout") || said("otlp.metrics_timeout")) {
            let what = "an export may not take longer than otlp.interval".to_owned();
            return found(["otlp.timeout", "otlp.interval"], what);
        }
        None
    }
}

const ENDPOINT_AND_CERTIFICATE: [[&str; 2]; 3] = [
    ["otlp.endpoint", "otlp.certificate"],
    ["otlp.metrics_endpoint", "otlp.metrics_certificate"],
    ["otlp.logs_endpoint", "otlp.logs_certificate"],
];

#[cfg(test)]
mod tests;
