//! Collectors of a test's own: a real one, and one that misbehaves to order.

use super::tool;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;

/// Waits until something is so.
pub fn wait_for<T>(what: &str, patience: Duration, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < patience, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A port that nobody has.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A point as a collector has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub name: String,
    pub unit: String,
    pub kind: String,
    pub temporality: String,
    pub attributes: BTreeMap<String, String>,
    pub value: f64,
}

/// A log record as a collector has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub event: String,
    pub severity: String,
    pub body: String,
    pub nanoseconds: u128,
    pub attributes: BTreeMap<String, String>,
}

/// Everything that one export said.
#[derive(Clone, Debug, Default)]
pub struct Export {
    pub resource: BTreeMap<String, String>,
    pub schema: String,
    pub scope: String,
    pub points: Vec<Point>,
    pub records: Vec<Record>,
}

/// rotel, a real collector, which prints all that it receives.
pub struct Rotel {
    child: Child,
    dir: tempfile::TempDir,
    pub http: u16,
    pub grpc: u16,
}

impl Rotel {
    pub fn start() -> Self {
        Self::at(free_port(), free_port())
    }

    /// On these ports.
    pub fn at(http: u16, grpc: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let out = File::create(dir.path().join("log")).unwrap();
        let child = Command::new(tool("rotel-agent"))
            .args(["start", "--exporter", "blackhole", "--debug-log-verbosity", "detailed"])
            .args(["--debug-log", "metrics", "--debug-log", "logs"])
            .arg(format!("--otlp-http-endpoint=127.0.0.1:{http}"))
            .arg(format!("--otlp-grpc-endpoint=127.0.0.1:{grpc}"))
            .arg(format!("--pid-file={}", dir.path().join("pid").display()))
            .env("ROTEL_LOG_FORMAT", "text")
            .current_dir(dir.path())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .stdin(Stdio::null())
            .spawn()
            .expect("rotel");
        let rotel = Self { child, dir, http, grpc };
        for port in [http, grpc] {
            wait_for("rotel listens", Duration::from_secs(20), || {
                TcpStream::connect(("127.0.0.1", port)).ok()
            });
        }
        rotel
    }

    /// What it received so far, whole exports only.
    pub fn exports(&self) -> Vec<Export> {
        let text = fs::read_to_string(self.dir.path().join("log")).unwrap();
        let mut all = parse(&text);
        // The last one may still be on its way into the file.
        all.pop();
        all
    }

    /// Exports of metrics, whole ones.
    pub fn metrics(&self) -> Vec<Export> {
        self.exports().into_iter().filter(|export| !export.points.is_empty()).collect()
    }

    /// Every log record, in order. The last one counts when something follows it.
    pub fn records(&self) -> Vec<Record> {
        self.exports().into_iter().flat_map(|export| export.records).collect()
    }

    /// As if its machine had gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Rotel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads rotel's own words.
#[derive(Default)]
struct Reader {
    all: Vec<Export>,
    metric: Point,
    /// What the lines are about.
    part: &'static str,
}

fn parse(text: &str) -> Vec<Export> {
    let mut reader = Reader::default();
    for line in text.lines() {
        if line.starts_with("ResourceMetrics #") || line.starts_with("ResourceLogs #") {
            reader.all.push(Export::default());
        } else if !reader.all.is_empty() {
            match line.strip_prefix("     -> ").and_then(|pair| pair.split_once(": ")) {
                Some((key, value)) => reader.pair(key, value),
                None => reader.line(line),
            }
        }
    }
    reader.all
}

impl Reader {
    fn pair(&mut self, key: &str, value: &str) {
        let Some(export) = self.all.last_mut() else { return };
        let plain = value.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        let plain = plain.unwrap_or(value).to_owned();
        let attributes = match self.part {
            "resource" => Some(&mut export.resource),
            "point" => export.points.last_mut().map(|point| &mut point.attributes),
            "record" => export.records.last_mut().map(|record| &mut record.attributes),
            _ => None,
        };
        if let Some(attributes) = attributes {
            attributes.insert(key.to_owned(), plain);
            return;
        }
        match key {
            "Name" => value.clone_into(&mut self.metric.name),
            "Unit" => value.clone_into(&mut self.metric.unit),
            "DataType" => value.clone_into(&mut self.metric.kind),
            "IsMonotonic" if value == "false" => "UpDown".clone_into(&mut self.metric.kind),
            "AggregationTemporality" => value.clone_into(&mut self.metric.temporality),
            _ => {}
        }
    }

    fn line(&mut self, line: &str) {
        let Some(export) = self.all.last_mut() else { return };
        if let Some(url) = line.strip_prefix("Resource SchemaURL: ") {
            url.clone_into(&mut export.schema);
        } else if line.starts_with("Resource attributes:") {
            self.part = "resource";
        } else if let Some(scope) = line.strip_prefix("InstrumentationScope ") {
            scope.clone_into(&mut export.scope);
        } else if line.starts_with("Descriptor:") {
            (self.metric, self.part) = (Point::default(), "descriptor");
        } else if line.starts_with("NumberDataPoints #") {
            export.points.push(self.metric.clone());
            self.part = "point";
        } else if line.starts_with("LogRecord #") {
            export.records.push(Record::default());
            self.part = "record";
        } else if let Some(value) = line.strip_prefix("Value: ") {
            export.points.last_mut().unwrap().value = value.trim().parse().unwrap();
        } else if let Some(record) = export.records.last_mut() {
            record.line(line);
        }
    }
}

impl Record {
    fn line(&mut self, line: &str) {
        let after = |name: &str| line.strip_prefix(name);
        if let Some(name) = after("EventName: ") {
            name.clone_into(&mut self.event);
        } else if let Some(text) = after("SeverityText: ") {
            text.clone_into(&mut self.severity);
        } else if let Some(number) = after("Timestamp: ") {
            self.nanoseconds = number.trim().parse().unwrap();
        } else if let Some(body) = after("Body: Str(") {
            body.strip_suffix(')').unwrap_or(body).clone_into(&mut self.body);
        }
    }
}

/// How a collector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Takes everything.
    Takes,
    /// Takes the connection and the request, and says nothing.
    Hangs,
    /// Answers with this status.
    Refuses(u16),
    /// Answers with this status, and says when to come back, in seconds.
    Later(u16, u64),
    /// Answers what is no HTTP.
    Garbage,
    /// Closes each connection at once.
    Closes,
    /// Answers with a page for browsers.
    Page,
    /// Takes all but some points, and says why.
    Rejects,
}

/// One request that came.
#[derive(Clone, Debug)]
pub struct Came {
    pub at: Instant,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub size: usize,
}

/// A collector that does as it is told, by HTTP and gRPC on one port.
pub struct Collector {
    pub address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
    came: Arc<Mutex<Vec<Came>>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Collector {
    pub fn start(mood: Mood) -> Self {
        Self::at(0, mood, None)
    }

    /// On this port, with encryption or without.
    pub fn at(port: u16, mood: Mood, tls: Option<TlsAcceptor>) -> Self {
        let listener = wait_for("the port is free", Duration::from_secs(20), || {
            TcpListener::bind(("127.0.0.1", port)).ok()
        });
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (mood, came) = (Arc::new(Mutex::new(mood)), Arc::default());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (its_mood, its_came) = (Arc::clone(&mood), Arc::clone(&came));
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                tokio::select! {
                    () = serve(listener, its_mood, its_came, tls) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, mood, came, stop: Some(stop), thread: Some(thread) }
    }

    pub fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

async fn serve(
    listener: TcpListener,
    mood: Arc<Mutex<Mood>>,
    came: Arc<Mutex<Vec<Came>>>,
    tls: Option<TlsAcceptor>,
) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((mut stream, _)) = listener.accept().await {
        let (mood, came, tls) = (Arc::clone(&mood), Arc::clone(&came), tls.clone());
        tokio::spawn(async move {
            let now = *mood.lock().unwrap();
            if now == Mood::Garbage {
                use tokio::io::AsyncWriteExt;
                let _ = stream.write_all(b"\x00\xff\x13 what do you want?\r\n\r\n").await;
                return;
            }
            if now == Mood::Closes {
                return;
            }
            let service =
                service_fn(move |request| answer(request, Arc::clone(&mood), Arc::clone(&came)));
            let server = auto::Builder::new(TokioExecutor::new());
            // A connection that breaks is the exporter's matter.
            let _ = match tls {
                None => server.serve_connection(TokioIo::new(stream), service).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => server.serve_connection(TokioIo::new(stream), service).await,
                    Err(_) => return,
                },
            };
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    mood: Arc<Mutex<Mood>>,
    came: Arc<Mutex<Vec<Came>>>,
) -> std::io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let headers = head.headers.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let grpc = head
        .headers
        .get("content-type")
        .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
    came.lock().unwrap().push(Came {
        at: Instant::now(),
        path: head.uri.path().to_owned(),
        headers: headers.collect(),
        size: body.len(),
    });
    let now = *mood.lock().unwrap();
    match now {
        Mood::Hangs => std::future::pending::<()>().await,
        // On a connection from better times it is broken off.
        Mood::Garbage | Mood::Closes => return Err(std::io::ErrorKind::ConnectionReset.into()),
        _ => {}
    }
    let mut response = Response::builder();
    let mut said = Bytes::new();
    if grpc {
        response = response.header("content-type", "application/grpc");
    }
    match now {
        // A call without a message and with its status among the headers: the shortest answer.
        Mood::Refuses(status) | Mood::Later(status, _) if grpc => {
            let code = if status == 429 { "8" } else { "14" };
            response = response.header("grpc-status", code);
        }
        Mood::Refuses(status) => response = response.status(status),
        Mood::Later(status, seconds) => {
            response = response.status(status).header("retry-after", seconds.to_string());
        }
        Mood::Page => {
            response = response.header("content-type", "text/html");
            said = Bytes::from_static(b"<html>hello</html>");
        }
        // partial_success { rejected_data_points: 3, error_message: "too old" }
        Mood::Rejects => said = Bytes::from_static(b"\x0a\x0b\x08\x03\x12\x07too old"),
        _ if grpc => {
            // An empty message; the status that belongs after it is left to the headers.
            response = response.header("grpc-status", "0");
            said = Bytes::from_static(&[0, 0, 0, 0, 0]);
        }
        _ => response = response.status(StatusCode::OK),
    }
    Ok(response.body(Full::new(said)).unwrap())
}
