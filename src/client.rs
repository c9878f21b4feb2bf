//! The small HTTP client: one GET or POST, bounded in time and size.

pub mod range;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a whole exchange may take, and how large its answer may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// It must be over by then.
    pub patience: Duration,
    /// Bytes of the answer.
    pub body: usize,
}

/// A status document is some tens of kilobytes, and ready.
const STATUS: Bounds = Bounds { patience: Duration::from_secs(5), body: 4 * 1024 * 1024 };

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Not a URL that this client can use.
    #[error("{0:?} is not a URL of the form http://HOST:PORT")]
    Url(String),
    /// A URL that would need encryption.
    #[error("{0:?} is not a URL of the form http://HOST:PORT: https is not supported")]
    Https(String),
    /// No connection, or it broke.
    #[error("{0} cannot be reached")]
    Reach(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// It took too long.
    #[error("{0} did not answer within {secs} s", secs = .1.as_secs())]
    Slow(String, Duration),
    /// It answered something else.
    #[error("{0} answered {1}")]
    Answer(String, StatusCode),
    /// It answers more than is taken.
    #[error("{0} answers more than {mib} MiB", mib = .1 / (1024 * 1024))]
    Large(String, usize),
}

/// The body of `path` below `base`.
///
/// # Errors
/// Says why there is none.
pub fn get(base: &str, path: &str) -> Result<Vec<u8>, FetchError> {
    match ask(base, path, STATUS)? {
        (StatusCode::OK, body) => Ok(body),
        (status, _) => Err(FetchError::Answer(url(base, path), status)),
    }
}

/// The status and the body of `path` below `base`, whatever the status.
///
/// # Errors
/// Says why there is none.
pub fn ask(base: &str, path: &str, bounds: Bounds) -> Result<(StatusCode, Vec<u8>), FetchError> {
    talk(base, path, None, bounds)
}

/// The same, with a JSON document that is posted.
///
/// # Errors
/// Says why there is no answer.
pub fn post(
    base: &str,
    path: &str,
    json: Vec<u8>,
    bounds: Bounds,
) -> Result<(StatusCode, Vec<u8>), FetchError> {
    talk(base, path, Some(json), bounds)
}

fn talk(
    base: &str,
    path: &str,
    json: Option<Vec<u8>>,
    bounds: Bounds,
) -> Result<(StatusCode, Vec<u8>), FetchError> {
    let url = url(base, path);
    let uri: Uri = url.parse().map_err(|_| FetchError::Url(base.to_owned()))?;
    if uri.scheme_str() == Some("https") {
        return Err(FetchError::Https(base.to_owned()));
    }
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
    let authority = authority.ok_or_else(|| FetchError::Url(base.to_owned()))?.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| FetchError::Reach(url.clone(), e.into()))?;
    let answer = runtime.block_on(async {
        tokio::time::timeout(bounds.patience, exchange(&url, &uri, &authority, json, bounds.body))
            .await
            .unwrap_or_else(|_| Err(FetchError::Slow(url.clone(), bounds.patience)))
    });
    // Not dropped: that would wait for a name server that does not answer.
    runtime.shutdown_background();
    answer
}

fn url(base: &str, path: &str) -> String {
    format!("{}{path}", base.trim_end_matches('/'))
}

async fn exchange(
    url: &str,
    uri: &Uri,
    authority: &str,
    json: Option<Vec<u8>>,
    limit: usize,
) -> Result<(StatusCode, Vec<u8>), FetchError> {
    let reach = |e: Box<dyn std::error::Error + Send + Sync>| {
        if e.is::<LengthLimitError>() {
            return FetchError::Large(url.to_owned(), limit);
        }
        FetchError::Reach(url.to_owned(), e)
    };
    let address =
        if uri.port().is_some() { authority.to_owned() } else { format!("{authority}:80") };
    let stream = TcpStream::connect(address).await.map_err(|e| reach(e.into()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| reach(e.into()))?;
    tokio::spawn(connection);
    let mut request = match json {
        None => Request::new(Full::<Bytes>::default()),
        Some(json) => {
            let mut request = Request::new(Full::new(Bytes::from(json)));
            *request.method_mut() = Method::POST;
            let kind = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, kind);
            request
        }
    };
    *request.uri_mut() = uri.path_and_query().map_or_else(Uri::default, |p| p.clone().into());
    let host = HeaderValue::from_str(authority).map_err(|e| reach(e.into()))?;
    request.headers_mut().insert(HOST, host);
    let response = sender.send_request(request).await.map_err(|e| reach(e.into()))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), limit).collect().await.map_err(reach)?;
    Ok((status, body.to_bytes().to_vec()))
}
