//! How an export gets to a collector: connection, encryption, headers. The library would take much of this
//! from the environment by itself, and in an order of its own; it is told everything instead.

use super::StartError;
use crate::config::otlp::{Compression, Protocol, Secret, Target, header};
use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    LogExporter, MetricExporter, RetryPolicy, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};

/// An answer is some bytes; what is longer is no answer of a collector.
const LONGEST_ANSWER: usize = 64 * 1024;
/// A file of headers is a few lines.
const LONGEST_FILE: u64 = 64 * 1024;
/// An idle connection is kept to the next export of a common interval.
const IDLE: Duration = Duration::from_secs(90);

/// Who asks, as OpenTelemetry's specification wants it said.
const AGENT: &str =
    concat!("gb10-exporter/", env!("CARGO_PKG_VERSION"), " OTel-OTLP-Exporter-Rust");

type Connector = HttpsConnector<HttpConnector>;

/// What the last exchange left to be said, where the library keeps it to itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Note(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    failure: Option<String>,
    refused: bool,
    rejected: Option<String>,
}

impl Note {
    fn with<T>(&self, change: impl FnOnce(&mut Told) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why the last exchange failed.
    pub(super) fn failure(&self) -> Option<String> {
        self.with(|told| told.failure.take())
    }

    /// Whether the last exchange was refused for good: the same again would be refused again.
    pub(super) fn refused(&self) -> bool {
        self.with(|told| std::mem::take(&mut told.refused))
    }

    /// What a collector that took the rest did not take.
    pub(super) fn rejected(&self) -> Option<String> {
        self.with(|told| told.rejected.take())
    }
}

/// A way to a collector that is known to be usable.
pub(super) struct Way {
    pub(super) target: Target,
    pub(super) note: Note,
    uri: Uri,
    headers: HeaderMap,
    tls: ClientConfig,
}

impl Way {
    /// Reads what the settings name.
    pub(super) fn new(target: Target) -> Result<Self, StartError> {
        let unusable = |what: String| StartError::Way(target.shown().to_owned(), what);
        let uri: Uri = target.url.parse().map_err(|e| unusable(format!("{e}")))?;
        if uri.authority().is_none_or(|a| a.host().is_empty()) {
            return Err(unusable("it names no host".to_owned()));
        }
        if target.compression == Compression::None
            && let Some(variable) = asked_to_pack(&target)
        {
            return Err(unusable(format!(
                "its compression is none, and {variable} says gzip: the library packs then; unset that variable"
            )));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &target.headers {
            add(&mut headers, name, value).map_err(unusable)?;
        }
        if let Some(path) = &target.headers_file {
            read_headers(path, &mut headers)?;
        }
        let tls = tls(&target)?;
        Ok(Self { note: Note::default(), uri, headers, tls, target })
    }

    /// The exporter of metrics. To be called on the runtime that sends.
    pub(super) fn metrics(&self) -> Result<MetricExporter, String> {
        let builder = MetricExporter::builder();
        let built = match self.target.protocol {
            Protocol::HttpProtobuf => self.http(builder.with_http()).build(),
            Protocol::Grpc => self.grpc(builder.with_tonic()).build(),
        };
        built.map_err(|error| error.to_string())
    }

    /// The exporter of log records.
    pub(super) fn logs(&self) -> Result<LogExporter, String> {
        let builder = LogExporter::builder();
        let built = match self.target.protocol {
            Protocol::HttpProtobuf => self.http(builder.with_http()).build(),
            Protocol::Grpc => self.grpc(builder.with_tonic()).build(),
        };
        built.map_err(|error| error.to_string())
    }

    fn http<B: WithHttpConfig + WithExportConfig>(&self, builder: B) -> B {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(self.connector());
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        let poster = Poster {
            client,
            uri: self.uri.clone(),
            headers: self.headers.clone(),
            timeout: self.target.timeout,
            note: self.note.clone(),
        };
        let builder = builder
            .with_http_client(poster)
            .with_endpoint(self.target.url.clone())
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_timeout(self.target.timeout)
            .with_retry_policy(retries());
        match self.target.compression {
            Compression::None => builder,
            Compression::Gzip => builder.with_compression(opentelemetry_otlp::Compression::Gzip),
        }
    }

    fn grpc<B: WithTonicConfig + WithExportConfig>(&self, builder: B) -> B {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls.clone())
            .https_or_http()
            .enable_http2()
            .wrap_connector(self.connector());
        let channel: Channel = Endpoint::from(self.uri.clone())
            .connect_timeout(self.target.timeout)
            .timeout(self.target.timeout)
            .connect_with_connector_lazy(connector);
        let metadata = MetadataMap::from_headers(self.headers.clone());
        let builder = builder
            .with_channel(channel)
            .with_interceptor(move |mut request: tonic::Request<()>| {
                // The library has put the environment's headers there, whoever had the last word about them.
                request.metadata_mut().clone_from(&metadata);
                Ok(request)
            })
            .with_timeout(self.target.timeout)
            .with_retry_policy(retries());
        match self.target.compression {
            Compression::None => builder,
            Compression::Gzip => builder.with_compression(opentelemetry_otlp::Compression::Gzip),
        }
    }

    fn connector(&self) -> HttpConnector {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(self.target.timeout));
        connector
    }
}

/// What did not get through is tried again while the export's time lasts: after a second, two, four, and a
/// part of one more, so that boxes that lost their collector together do not come back together. A
/// collector that says when to come back is obeyed.
fn retries() -> RetryPolicy {
    RetryPolicy::recommended()
        .with_max_retries(5)
        .with_initial_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(5))
        .with_max_jitter(Duration::from_secs(1))
}

/// The variable by which the library would pack what is to go unpacked.
fn asked_to_pack(target: &Target) -> Option<String> {
    let signal = target.signal.as_str().to_uppercase();
    let own = format!("OTEL_EXPORTER_OTLP_{signal}_COMPRESSION");
    for name in [own, "OTEL_EXPORTER_OTLP_COMPRESSION".to_owned()] {
        match std::env::var(&name) {
            Ok(value) if !value.is_empty() => return (value != "none").then_some(name),
            _ => {}
        }
    }
    None
}

fn add(headers: &mut HeaderMap, name: &str, value: &Secret) -> Result<(), String> {
    let unusable = || format!("its header {name} cannot be sent");
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
    let mut text = HeaderValue::from_str(value.reveal()).map_err(|_| unusable())?;
    text.set_sensitive(true);
    if headers.insert(key, text).is_some() {
        Err(format!("its header {name} is there twice"))
    } else {
        Ok(())
    }
}

/// Headers from a file, one `NAME=VALUE` a line; empty lines and those that begin with # say nothing.
fn read_headers(path: &Path, headers: &mut HeaderMap) -> Result<(), StartError> {
    use std::io::Read;
    let failed = |error| StartError::Read(path.to_owned(), error);
    let wrong = |line, what| StartError::Wrong { path: path.to_owned(), line, what };
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(wrong(None, "expected a file".to_owned()));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(LONGEST_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(wrong(None, "is larger than 64 KiB; that is no file of headers".to_owned()));
    }
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let added = header(line).and_then(|(name, value)| add(headers, &name, &value));
        added.map_err(|what| wrong(Some(number + 1), what))?;
    }
    Ok(())
}

/// Encryption: the system's roots or those given, and the exporter's own certificate if it has one.
fn tls(target: &Target) -> Result<ClientConfig, StartError> {
    let wrong = |path: &Path, error: pem::Error| match error {
        pem::Error::Io(error) => StartError::Read(path.to_owned(), error),
        other => StartError::Wrong {
            path: path.to_owned(),
            line: None,
            what: format!("expected PEM: {other}"),
        },
    };
    let unusable =
        |error: rustls::Error| StartError::Way(target.shown().to_owned(), error.to_string());
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, StartError> {
        let all: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let all = all.map_err(|error| wrong(path, error))?;
        if all.is_empty() {
            return Err(wrong(path, pem::Error::NoItemsFound));
        }
        Ok(all)
    };
    let mut roots = RootCertStore::empty();
    if let Some(path) = &target.certificate {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(unusable)?;
        }
    } else if target.is_tls() {
        let (found, _) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if found == 0 {
            let what = "this system has no certificates to trust it by; give otlp.certificate";
            return Err(StartError::Way(target.shown().to_owned(), what.to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots);
    match target.client_certificate.as_ref().zip(target.client_key.as_ref()) {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
            builder.with_client_auth_cert(chain, key).map_err(unusable)
        }
    }
}

/// Posts what the library has made, where and with what headers it is told.
#[derive(Debug)]
struct Poster {
    client: Client<Connector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    timeout: Duration,
    note: Note,
}

#[async_trait]
impl HttpClient for Poster {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (made, body) = request.into_parts();
        let mut request = Request::post(self.uri.clone()).body(Full::new(body))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        for name in [CONTENT_TYPE, CONTENT_ENCODING] {
            if let Some(value) = made.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        headers.extend(self.headers.clone());
        let exchange = tokio::time::timeout(self.timeout, self.exchange(request));
        let answer = match exchange.await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", self.timeout.as_secs_f64()).into()),
        };
        self.note.with(|told| told.failure = answer.as_ref().err().map(|error| chain(&**error)));
        let answer = answer?;
        if answer.status().is_success() {
            self.note.with(|told| told.rejected = rejected(answer.body()));
        } else {
            let status = answer.status();
            self.note.with(|told| {
                told.failure = Some(format!("it answered {status}"));
                told.refused = ![429, 502, 503, 504].contains(&status.as_u16());
            });
        }
        Ok(answer)
    }
}

impl Poster {
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = self.client.request(request).await?.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
        let of_type = |kind: &[u8]| {
            head.headers.get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(kind))
        };
        // Some say in JSON that all is well.
        let (page, json) = (of_type(b"text/html"), of_type(b"application/json"));
        if head.status.is_success() && page {
            // Whatever answers every POST with a page has lost the data.
            return Err("it answered with a web page; is this the address of a collector?".into());
        }
        if head.status.is_success()
            && !json
            && ExportMetricsServiceResponse::decode(body.clone()).is_err()
        {
            return Err("it answered with something that is no answer of a collector".into());
        }
        Ok(Response::from_parts(head, body))
    }
}

/// What a collector that took an export says that it did not take of it. Protobuf of both signals is alike:
/// how much was rejected, and why.
fn rejected(body: &Bytes) -> Option<String> {
    let said = ExportMetricsServiceResponse::decode(body.clone()).ok()?.partial_success?;
    let why = tidy(&said.error_message);
    match said.rejected_data_points {
        0 if why.is_empty() => None,
        0 => Some(why),
        count => Some(format!("{count} were rejected: {why}")),
    }
}

/// What somebody else says, as it may stand in one line of a log.
fn tidy(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// An error and what led to it, each said once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
