//! The small HTTP client of `--url`: one GET, bounded in time and size.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;

/// The whole exchange must be over by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// A status document is some tens of kilobytes.
const MAX_BODY: usize = 4 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Not a URL that this client can use.
    #[error("{0:?} is not a URL of the form http://HOST:PORT")]
    Url(String),
    /// No connection, or it broke.
    #[error("{0} cannot be reached")]
    Reach(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// It took too long.
    #[error("{0} did not answer within {secs} s", secs = PATIENCE.as_secs())]
    Slow(String),
    /// It answered something else.
    #[error("{0} answered {1}")]
    Answer(String, StatusCode),
}

/// The body of `path` below `base`.
///
/// # Errors
/// Says why there is none.
pub fn get(base: &str, path: &str) -> Result<Vec<u8>, FetchError> {
    let url = format!("{}{path}", base.trim_end_matches('/'));
    let uri: Uri = url.parse().map_err(|_| FetchError::Url(base.to_owned()))?;
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
    let authority = authority.ok_or_else(|| FetchError::Url(base.to_owned()))?.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| FetchError::Reach(url.clone(), e.into()))?;
    let answer = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, exchange(&url, &uri, &authority))
            .await
            .unwrap_or_else(|_| Err(FetchError::Slow(url.clone())))
    });
    // Not dropped: that would wait for a name server that does not answer.
    runtime.shutdown_background();
    answer
}

async fn exchange(url: &str, uri: &Uri, authority: &str) -> Result<Vec<u8>, FetchError> {
    let reach = |e: Box<dyn std::error::Error + Send + Sync>| FetchError::Reach(url.to_owned(), e);
    let address =
        if uri.port().is_some() { authority.to_owned() } else { format!("{authority}:80") };
    let stream = TcpStream::connect(address).await.map_err(|e| reach(e.into()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| reach(e.into()))?;
    tokio::spawn(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = uri.path_and_query().map_or_else(Uri::default, |p| p.clone().into());
    let host = HeaderValue::from_str(authority).map_err(|e| reach(e.into()))?;
    request.headers_mut().insert(HOST, host);
    let response = sender.send_request(request).await.map_err(|e| reach(e.into()))?;
    if response.status() != StatusCode::OK {
        return Err(FetchError::Answer(url.to_owned(), response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(reach)?;
    Ok(body.to_bytes().to_vec())
}
