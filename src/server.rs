//! The web server: scrapes, JSON, one page for people, two for probes.
//!
//! Everything it serves is made from the last frame, in memory. It never reads the machine and never
//! waits for a lane. What was encoded for one request is kept until the next frame, so that many
//! scrapers cost little more than one.

mod gzip;
mod quiet;
mod seats;
mod stream;

use crate::config::table::split_address;
use crate::config::{Config, paths};
use crate::engine::{Engine, NoFrame};
use crate::export::{
    html, prometheus,
    prometheus::{Selection, SelectionError},
    status::Status,
};
use crate::model::frame::Frame;
use crate::model::source::Lane;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, VARY,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use quiet::Quiet;
use seats::Seats;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stream::{Stalled, Watched};
use tokio::net::TcpListener;
use tokio_io_timeout::TimeoutStream;

/// A client must send its next request within this time. Longer than the usual scrape intervals, so
/// that a Prometheus keeps its connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// Buffered of one connection's request or answer, at the most: the smallest that hyper allows. A
/// scraper's request has some hundred bytes.
const MAX_BUFFER: usize = 8 * 1024;
/// A client must take something of its answer within this time, or it loses its connection and its
/// place among the requests in flight.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections kept at a time; for one more the idlest gives way. Half of the usual limit on open
/// files.
const MAX_CONNECTIONS: usize = 512;
/// How long a stopping server waits for answers that are on their way.
const DRAIN: Duration = Duration::from_secs(5);
/// A complaint that clients can cause at will is made so often at the most.
const SAME_AGAIN: Duration = Duration::from_secs(60);

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not an address; the configuration has checked it before.
    #[error("cannot listen on {0:?}: that is no address")]
    Address(String),
    /// The operating system refused.
    #[error("cannot listen on {0}")]
    Bind(String, #[source] io::Error),
}

/// Binds every configured address.
///
/// # Errors
/// An address makes no sense or cannot be had.
pub fn bind(config: &Config) -> Result<Vec<std::net::TcpListener>, ListenError> {
    config.listen.iter().map(|address| bind_one(address)).collect()
}

fn bind_one(address: &str) -> Result<std::net::TcpListener, ListenError> {
    let unlike = || ListenError::Address(address.to_owned());
    let (host, port) = split_address(address).ok_or_else(unlike)?;
    let candidates: Vec<SocketAddr> = if host.is_empty() {
        // Both families on one socket; IPv4 alone where the kernel has no IPv6.
        vec![SocketAddr::from(([0_u16; 8], port)), SocketAddr::from(([0_u8; 4], port))]
    } else {
        let failed = |e| ListenError::Bind(address.to_owned(), e);
        address.to_socket_addrs().map_err(failed)?.collect()
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for candidate in candidates {
        match std::net::TcpListener::bind(candidate) {
            Ok(listener) => {
                listener
                    .set_nonblocking(true)
                    .map_err(|e| ListenError::Bind(address.to_owned(), e))?;
                return Ok(listener);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(ListenError::Bind(address.to_owned(), error));
            }
            Err(error) => last = error,
        }
    }
    Err(ListenError::Bind(address.to_owned(), last))
}

/// One thing that is served: how a frame becomes bytes, and what was made of the last one.
struct Page {
    content_type: &'static str,
    encode: fn(&Frame, &str) -> Vec<u8>,
    made: Mutex<Option<Made>>,
}

struct Made {
    frame: u64,
    plain: Bytes,
    gzip: Option<Bytes>,
}

impl Page {
    const fn new(content_type: &'static str, encode: fn(&Frame, &str) -> Vec<u8>) -> Self {
        Self { content_type, encode, made: Mutex::new(None) }
    }

    /// The bytes for this frame, from the last request's work where it is the same frame.
    fn bytes(&self, frame: &Frame, telemetry_path: &str, gzip: bool) -> Bytes {
        let mut slot = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|made| made.frame != frame.number) {
            let plain = (self.encode)(frame, telemetry_path).into();
            *slot = Some(Made { frame: frame.number, plain, gzip: None });
        }
        let made = slot.as_mut().expect("made just now");
        if gzip {
            made.gzip.get_or_insert_with(|| gzip::compress(&made.plain)).clone()
        } else {
            made.plain.clone()
        }
    }
}

/// What every request needs.
struct Site {
    engine: Arc<Engine>,
    telemetry_path: String,
    metrics: Page,
    status: Page,
    home: Page,
    max_requests: usize,
    stalled: Stalled,
    refusals: Mutex<Quiet>,
}

type Answer = Response<Full<Bytes>>;

impl Site {
    fn answer(&self, request: &Request<Incoming>) -> Answer {
        let path = request.uri().path();
        let known = path == self.telemetry_path || paths::TAKEN.contains(&path);
        // A probe is answered whatever others do: restarting a healthy exporter would help nobody.
        let probe = [paths::HEALTHY, paths::READY].contains(&path);
        let mut response = if !probe && self.stalled.now() >= self.max_requests {
            self.refuse()
        } else if !known {
            text(StatusCode::NOT_FOUND, "not found\n")
        } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        } else {
            match self.selection(request) {
                Ok(selection) => self.page(path, wants_gzip(request), selection),
                Err(error) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
            }
        };
        if request.method() == Method::HEAD {
            *response.body_mut() = Full::new(Bytes::new());
        }
        response
    }

    /// Too many clients do not read what they have asked for.
    fn refuse(&self) -> Answer {
        let mut quiet = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept_back) = quiet.may_say() {
            let most = self.max_requests;
            tracing::warn!(
                kept_back,
                "{most} clients do not read their answers; requests are refused"
            );
        }
        text(StatusCode::SERVICE_UNAVAILABLE, "too many requests at a time\n")
    }

    /// What a scrape asks for; other pages take no parameters.
    fn selection(&self, request: &Request<Incoming>) -> Result<Option<Selection>, SelectionError> {
        match request.uri().query() {
            Some(query) if request.uri().path() == self.telemetry_path => {
                Selection::from_query(form_urlencoded::parse(query.as_bytes()))
            }
            _ => Ok(None),
        }
    }

    fn page(&self, path: &str, gzip: bool, selection: Option<Selection>) -> Answer {
        let page = match path {
            paths::HEALTHY => return text(StatusCode::OK, "healthy\n"),
            paths::READY => return self.ready(),
            paths::STATUS => &self.status,
            paths::HOME => &self.home,
            _ => &self.metrics,
        };
        match self.engine.frame() {
            Ok(frame) => {
                // A selection is nobody else's scrape: it is not kept.
                let bytes = match selection {
                    None => page.bytes(&frame, &self.telemetry_path, gzip),
                    some if gzip => gzip::compress(&prometheus::encode(&frame, some)),
                    some => prometheus::encode(&frame, some).into(),
                };
                let mut response = reply(StatusCode::OK, page.content_type, bytes);
                let headers = response.headers_mut();
                headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
                if gzip {
                    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                }
                response
            }
            Err(error) => unavailable(error),
        }
    }

    /// Ready means that the fast lane has finished its first round.
    fn ready(&self) -> Answer {
        match self.engine.frame() {
            Ok(frame) if frame.health.lanes[Lane::Fast as usize].ticks > 0 => {
                text(StatusCode::OK, "ready\n")
            }
            Ok(_) => unavailable(NoFrame::NotYet),
            Err(error) => unavailable(error),
        }
    }
}

fn unavailable(error: NoFrame) -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    reply(status, "text/plain; charset=utf-8", body.into())
}

fn reply(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Answer {
    let length = bytes.len();
    let mut response = Response::new(Full::new(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Set here, so that an answer to HEAD carries the length that GET would have.
    headers.insert(CONTENT_LENGTH, length.into());
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// Whether the client accepts gzip: named, or by `*`, with a weight above zero.
fn wants_gzip(request: &Request<Incoming>) -> bool {
    let accepted = request.headers().get_all(ACCEPT_ENCODING);
    gzip::accepted(accepted.iter().filter_map(|value| value.to_str().ok()))
}

/// Serves until `stop` resolves, then lets answers that are on their way finish.
///
/// # Errors
/// A bound socket cannot be used.
pub async fn serve(
    listeners: Vec<std::net::TcpListener>,
    engine: Arc<Engine>,
    config: &Config,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let site = Arc::new(Site {
        engine,
        telemetry_path: config.telemetry_path.clone(),
        metrics: Page::new(prometheus::CONTENT_TYPE, |frame, _| prometheus::encode(frame, None)),
        status: Page::new("application/json", |frame, _| Status::of(frame).to_json()),
        home: Page::new("text/html; charset=utf-8", |frame, telemetry| {
            let links = [
                ("Metrics", telemetry),
                ("Status as JSON", paths::STATUS),
                ("Healthy", paths::HEALTHY),
                ("Ready", paths::READY),
            ];
            html::page(&Status::of(frame), &links).into_bytes()
        }),
        max_requests: config.max_requests,
        stalled: Stalled::default(),
        refusals: Mutex::new(Quiet::new(SAME_AGAIN)),
    });
    let graceful = Arc::new(GracefulShutdown::new());
    let seats = Seats::new(MAX_CONNECTIONS);
    let mut accepting = Vec::new();
    for listener in listeners {
        let listener = TcpListener::from_std(listener)?;
        accepting.push(tokio::spawn(accept(
            listener,
            Arc::clone(&site),
            Arc::clone(&graceful),
            Arc::clone(&seats),
        )));
    }
    stop.await;
    for task in &accepting {
        task.abort();
    }
    for task in accepting {
        let _ = task.await;
    }
    // The tasks are gone, and with them every other owner.
    if let Some(graceful) = Arc::into_inner(graceful) {
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    }
    Ok(())
}

async fn accept(
    listener: TcpListener,
    site: Arc<Site>,
    graceful: Arc<GracefulShutdown>,
    seats: Arc<Seats>,
) {
    let mut failures = Quiet::new(SAME_AGAIN);
    let mut evictions = Quiet::new(SAME_AGAIN);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: wait for some to come back instead of spinning.
                if let Some(kept_back) = failures.may_say() {
                    tracing::warn!(kept_back, "cannot accept a connection: {error}");
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let (seat, crowded) = seats.take();
        if crowded && let Some(kept_back) = evictions.may_say() {
            tracing::warn!(
                kept_back,
                "{MAX_CONNECTIONS} connections are open; the idlest give way to new ones"
            );
        }
        // Head and body of an answer are two writes; without this the second may wait 40 ms for the
        // client's delayed acknowledgement.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIMEOUT));
        let stream = Watched::new(Box::pin(stream), site.stalled.clone());
        let site = Arc::clone(&site);
        let seat = Arc::new(seat);
        let asking = Arc::clone(&seat);
        let service = service_fn(move |request| {
            asking.asked();
            let answer = site.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(MAX_BUFFER)
            .serve_connection(TokioIo::new(stream), service);
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off or sends garbage is its own affair.
            tokio::select! {
                _ = watched => {}
                () = seat.must_leave() => {}
            }
        });
    }
}
