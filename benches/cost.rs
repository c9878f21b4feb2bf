//! What running costs, in one table: `make bench`.
//!
//! First in this process: what the parts of a tick and of a scrape take on this machine. Then the
//! released binary beside Debian's node_exporter, both with default settings, on loopback, in the
//! same run and in turns, so that both meet the same machine.
//!
//! No time is asserted: a busy machine makes every figure worse, and the heading says how busy it
//! was. The exit status is non-zero only when something could not be measured.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "it measures time, waits, and starts what it measures; the rule is for the exporter"
)]

#[path = "cost/processes.rs"]
mod processes;
#[path = "cost/size.rs"]
mod size;

use gb10_exporter::capture::Capture;
use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::cli::VERSION;
use gb10_exporter::clock::{Clock, System};
use gb10_exporter::config::Config;
use gb10_exporter::derive::{self, State};
use gb10_exporter::engine::player::Player;
use gb10_exporter::engine::{Engine, Options, Settings};
use gb10_exporter::export::{prometheus, status::Status};
use gb10_exporter::model::gpu::GpuChoice;
use gb10_exporter::model::source::{Lane, Source};
use gb10_exporter::model::{frame::Frame, reading::Missing, snapshot::Snapshot};
use gb10_exporter::sources::gpu::{Limits, Pace};
use gb10_exporter::sources::{self, Live, Roots};
use gb10_exporter::{thresholds::Thresholds, units::Bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{array, fs};

/// Rounds of each measurement in this process, after a tenth as many to warm up.
const ROUNDS: usize = 3000;
/// How long both exporters are left alone before their memory is looked at.
const SETTLE: Duration = Duration::from_secs(5);
/// How long both run without a scrape while their CPU is counted.
const IDLE: Duration = Duration::from_secs(10);
/// Scrapes of each exporter in direct succession.
const RAPID: usize = 300;
/// A machine with slow sensors makes node_exporter slow: then it is fewer scrapes.
const RAPID_LIMIT: Duration = Duration::from_secs(15);
/// Scrapes of each exporter at a distance, for each content coding.
const SPACED: usize = 15;
/// Longer than our tick, so that each of these scrapes meets a frame that was not encoded before.
const SPACING: Duration = Duration::from_millis(1100);
/// What an exporter does within this time after a request is counted as the scrape's: the
/// collection of garbage goes on after the answer.
const WINDOW: Duration = Duration::from_millis(100);
/// How long an exporter may take to listen or to answer.
const PATIENCE: Duration = Duration::from_secs(10);

const NODE_EXPORTER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools/bin/prometheus-node-exporter");

/// A value, or what could not be measured and why.
type Outcome<T> = Result<T, String>;

fn main() -> ExitCode {
    let done = heading()
        .and_then(|()| in_process())
        .and_then(|()| processes::measure())
        .and_then(|()| as_processes())
        .and_then(|()| size::measure());
    let Err(why) = done else { return ExitCode::SUCCESS };
    eprintln!("cost: {why}");
    ExitCode::FAILURE
}

// ---- the table -----------------------------------------------------

fn line(label: &str, cells: [&str; 3], aim: &str) {
    let text = format!("{label:<56}{:>10}{:>15}{:>12}   {aim}", cells[0], cells[1], cells[2]);
    println!("{}", text.trim_end());
}

fn section(title: &str, columns: [&str; 3]) {
    println!();
    line(title, columns, "aim");
    println!("{}", "-".repeat(118));
}

/// Three digits that matter, no more.
fn number(value: f64) -> String {
    if value.abs() < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A row of both exporters: ours, node_exporter's, and how many times ours goes into theirs.
fn pair_row(label: &str, [ours, theirs]: [f64; 2], aim: &str) {
    let ratio = if ours > 0.0 { format!("{:.2}", theirs / ours) } else { "-".to_owned() };
    line(label, [&number(ours), &number(theirs), &ratio], aim);
}

fn heading() -> Outcome<()> {
    let text = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let cores = std::thread::available_parallelism().map_err(|e| format!("cores: {e}"))?;
    let date = Command::new("date").args(["-u", "+%F %H:%M UTC"]).output();
    let date = date.map_err(|e| format!("date: {e}"))?.stdout;
    println!("The cost of gb10-exporter {} ({})", VERSION.0, VERSION.1);
    println!("  date     {}", String::from_utf8_lossy(&date).trim());
    println!("  CPU      {}, {cores} cores", cpu_model(&text("/proc/cpuinfo")?));
    println!("  memory   {}", text("/proc/meminfo")?.lines().next().unwrap_or_default());
    println!("  kernel   {}", text("/proc/sys/kernel/osrelease")?.trim());
    println!("  load     {} (before the start; 0 is best)", text("/proc/loadavg")?.trim());
    Ok(())
}

/// The model's name; ARM kernels give only the numbers of the kinds of core.
fn cpu_model(cpuinfo: &str) -> String {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let models: BTreeSet<&str> = fields
        .filter(|(name, _)| matches!(name.trim(), "model name" | "CPU part"))
        .map(|(_, model)| model.trim())
        .collect();
    models.into_iter().collect::<Vec<_>>().join(", ")
}

// ---- times -----------------------------------------------------

/// Measured values, smallest first; never empty.
struct Spread(Vec<f64>);

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The value that this share of all does not exceed.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position among a few thousand values"
    )]
    fn at(&self, share: f64) -> f64 {
        let position = (share * self.0.len() as f64).ceil() as usize;
        self.0[position.clamp(1, self.0.len()) - 1]
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Does the work again and again; a row of how long it took, in µs.
fn timed_row(label: &str, aim: &str, mut work: impl FnMut()) {
    (0..ROUNDS / 10).for_each(|_| work());
    let one = |_| {
        let began = Instant::now();
        work();
        micros(began.elapsed())
    };
    let times = Spread::of((0..ROUNDS).map(one).collect());
    line(label, [&number(times.at(0.5)), &number(times.at(0.99)), ""], aim);
}

// ---- in this process -----------------------------------------------------

/// A machine that is read and thought about, as lanes and ticker do, but without their threads.
struct Machine {
    live: Live,
    snapshot: Snapshot,
    state: State,
}

impl Machine {
    fn read(&mut self, source: Source) -> bool {
        black_box(sources::read(source, &self.live, &pace(), &mut self.snapshot)).is_ok()
    }

    /// The GPU of a recorded machine: everything of a round but the driver's own time.
    fn read_recorded(&mut self, machine: &Capture) {
        let _ = black_box(sources::read(Source::Gpu, machine, &pace(), &mut self.snapshot));
    }

    fn read_lane(&mut self, lane: Lane) {
        lane.sources().for_each(|source| _ = self.read(source));
    }

    /// A second passes in every round, whatever the round took: otherwise the windows would hold
    /// far more samples than they ever do.
    fn derive(&mut self, thresholds: &Thresholds) {
        let at = &mut self.snapshot.at;
        at.mono += Lane::Fast.period();
        self.snapshot.read_at[Source::Meminfo.index()] = Some(*at);
        black_box(derive::derive(&mut self.state, &self.snapshot, thresholds));
    }
}

fn live() -> Live {
    Live::new(Roots::default(), "libnvidia-ml.so.1", "nvidia-smi")
}

fn pace() -> Pace<'static> {
    let second = Duration::from_secs(1);
    let limits = Limits {
        deadline: second * 2,
        smi_deadline: second * 5,
        retry_first: second,
        retry_max: second * 60,
    };
    Pace { choice: GpuChoice::Nvml, limits, now: &|| System.now().mono }
}

fn in_process() -> Outcome<()> {
    section("In this process, µs", ["median", "p99", ""]);
    let thresholds = Thresholds::default();
    // Trends are worked out only below a level of memory, which large machines seldom meet.
    let short = Thresholds { exhaustion_level: Bytes(u64::MAX), ..thresholds };
    let snapshot = Snapshot::absent(System.now(), Missing::Pending);
    let mut machine = Machine { live: live(), snapshot, state: State::default() };
    let recorded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/spark-fe-llm-server.txt");
    let recorded = Capture::load(&recorded).map_err(|e| e.to_string())?;
    timed_row("fast tick, each second: read, parse, derive", "median below 150", || {
        machine.read_lane(Lane::Fast);
        machine.derive(&thresholds);
    });
    for source in Lane::Fast.sources() {
        let label = format!("  of which {}", source.describe());
        timed_row(&label, "", || _ = machine.read(source));
    }
    timed_row("  of which derivation", "", || machine.derive(&thresholds));
    timed_row("  derivation, memory short", "", || machine.derive(&short));
    timed_row("sensors tick, each second", "", || machine.read_lane(Lane::Sensors));
    timed_row("gpu tick, each second, without the driver's own time", "", || {
        machine.read_recorded(&recorded);
    });
    timed_row("slow tick, each 5 seconds", "", || machine.read_lane(Lane::Slow));
    let frame = real_frame()?;
    timed_row("scrape, encoded without gzip", "", || {
        drop(black_box(prometheus::encode(&frame, None)));
    });
    timed_row("status as JSON", "", || drop(black_box(Status::of(&frame).to_json())));
    replayed()?;
    let not_well = Source::ALL.iter().filter(|source| !machine.read(**source));
    let not_well: Vec<_> = not_well.map(|source| source.describe()).collect();
    if !not_well.is_empty() {
        println!("Not readable on this machine, so cheaper above: {}", not_well.join(", "));
    }
    Ok(())
}

/// How much faster than the clock a day goes by, at a frame a second with all its derivations.
fn replayed() -> Outcome<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/idle-day.txt");
    let scenario = Scenario::load(&path).map_err(|e| e.to_string())?;
    let length = scenario.length;
    let began = Instant::now();
    let frames = Player::new(scenario, Thresholds::default(), VERSION).map(black_box).count();
    let took = began.elapsed();
    let speed = length.as_secs_f64() / took.as_secs_f64();
    let label = format!("a replayed day, {frames} frames: times real time");
    line(&label, [&number(speed), "", ""], "above 1000");
    Ok(())
}

/// A frame as it is served, from an engine on this machine.
fn real_frame() -> Outcome<Arc<Frame>> {
    let engine = Engine::start(Options {
        machine: Arc::new(live()),
        clock: Arc::new(System),
        settings: Settings::of(&Config::default()),
        state_directory: None,
        version: VERSION,
    })
    .map_err(|e| format!("the engine: {e}"))?;
    engine.wait_for_frames(2, PATIENCE);
    let frame = engine.frame().map_err(|e| format!("the engine: {e}"));
    engine.stop();
    frame
}

// ---- an exporter as a process -----------------------------------------------------

/// A process that is killed when this value goes, whatever the reason.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Exporter {
    name: &'static str,
    process: Running,
    address: SocketAddr,
    connection: BufReader<TcpStream>,
    /// CPU time of each thread when it was last looked at, in ns.
    threads: BTreeMap<String, u64>,
    /// Threads that ended, whose last CPU time nobody counted.
    ended: usize,
}

impl Exporter {
    fn start(name: &'static str, program: &str, address: SocketAddr) -> Outcome<Self> {
        let child = Command::new(program)
            .arg(format!("--web.listen-address={address}"))
            // Default settings: what this shell's environment says is none of them.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{program}: {e} (`make tools` fetches node_exporter)"))?;
        let mut process = Running(child);
        let connection = connect_when_up(&mut process.0, address)
            .map_err(|e| format!("{program} does not listen on {address}: {e}"))?;
        Ok(Self { name, process, address, connection, threads: BTreeMap::new(), ended: 0 })
    }

    /// An exporter may close a connection that was quiet for a while.
    fn reconnect(&mut self) -> Outcome<()> {
        self.connection = connect(self.address).map_err(|e| format!("{}: {e}", self.name))?;
        Ok(())
    }

    /// CPU time in µs, user and system, since the last call. The kernel counts it exactly.
    fn spent(&mut self) -> Outcome<f64> {
        let dir = format!("/proc/{}/task", self.process.0.id());
        let failed = |e: io::Error| format!("CPU time of {} from {dir}: {e}", self.name);
        let mut threads: BTreeMap<String, u64> = BTreeMap::new();
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A thread may end between the listing and the reading.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
            let on_cpu = text.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok());
            let on_cpu = on_cpu.ok_or_else(|| format!("{dir}/*/schedstat says {text:?}"))?;
            threads.insert(entry.file_name().to_string_lossy().into_owned(), on_cpu);
        }
        if threads.is_empty() {
            return Err(format!("{dir}/*/schedstat cannot be read (CONFIG_SCHED_INFO)"));
        }
        let before = |id: &String| self.threads.get(id).copied().unwrap_or(0);
        let spent: u64 = threads.iter().map(|(id, now)| now.saturating_sub(before(id))).sum();
        self.ended += self.threads.keys().filter(|id| !threads.contains_key(*id)).count();
        self.threads = threads;
        Ok(micros(Duration::from_nanos(spent)))
    }

    /// Resident memory, MB.
    fn resident(&self) -> Outcome<f64> {
        let path = format!("/proc/{}/status", self.process.0.id());
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        text.lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_ascii_whitespace().next())
            .and_then(|kib| Some(kib.parse::<f64>().ok()? * 1024.0 / 1e6))
            .ok_or_else(|| format!("{path} has no VmRSS"))
    }

    /// One scrape over the connection as it is: time in µs and bytes of the body.
    fn scrape(&mut self, coding: &str) -> Outcome<(f64, usize)> {
        let began = Instant::now();
        let body = get(&mut self.connection, coding);
        let took = micros(began.elapsed());
        Ok((took, body.map_err(|e| format!("a scrape of {} failed: {e}", self.name))?.len()))
    }
}

fn connect_when_up(child: &mut Child, address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it ended with {status}")));
        }
        let connection = connect(address);
        if connection.is_ok() || began.elapsed() > PATIENCE {
            return connection;
        }
        sleep(Duration::from_millis(20));
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::with_capacity(128 * 1024, stream))
}

/// Just enough of HTTP: the body of `/metrics` as it was sent, its chunks joined.
fn get(connection: &mut BufReader<TcpStream>, coding: &str) -> io::Result<Vec<u8>> {
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {coding}\r\n\r\n");
    connection.get_mut().write_all(request.as_bytes())?;
    let status = text_line(connection)?;
    if !status.starts_with("HTTP/1.1 200 ") {
        return Err(io::Error::other(format!("the answer is {status:?}")));
    }
    let mut body = Vec::new();
    let mut length = None;
    loop {
        let header = text_line(connection)?.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = Some(value.trim().parse().map_err(io::Error::other)?);
        } else if header.is_empty() {
            break;
        }
    }
    if let Some(length) = length {
        read_into(connection, length, &mut body)?;
        return Ok(body);
    }
    // No length: chunks, the last of which is empty.
    loop {
        let size = text_line(connection)?;
        let size = u64::from_str_radix(&size, 16).map_err(io::Error::other)?;
        read_into(connection, size, &mut body)?;
        text_line(connection)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn text_line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    connection.by_ref().lines().next().unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()))
}

fn read_into(from: &mut BufReader<TcpStream>, size: u64, body: &mut Vec<u8>) -> io::Result<()> {
    let read = from.take(size).read_to_end(body)?;
    if read as u64 == size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

// ---- both exporters, in turns -----------------------------------------------------

/// Ours first.
type Pair = [Exporter; 2];

/// The same of both exporters, or the first failure.
fn both<T>(pair: &mut Pair, mut of: impl FnMut(&mut Exporter) -> Outcome<T>) -> Outcome<[T; 2]> {
    let [ours, theirs] = pair;
    Ok([of(ours)?, of(theirs)?])
}

fn start_both() -> Outcome<Pair> {
    // Held at the same time, so that the kernel hands out two different ports.
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|l| Ok((l.local_addr()?, l)));
    let ports = free().and_then(|ours| Ok([ours, free()?]));
    let [(ours, _), (theirs, _)] = ports.map_err(|e| format!("no free port: {e}"))?;
    Ok([
        Exporter::start("gb10-exporter", env!("CARGO_BIN_EXE_gb10-exporter"), ours)?,
        Exporter::start("node_exporter", NODE_EXPORTER, theirs)?,
    ])
}

fn as_processes() -> Outcome<()> {
    let mut pair = start_both()?;
    section("As processes, default settings", ["ours", "node_exporter", "node/ours"]);
    sleep(SETTLE);
    let resident = both(&mut pair, |e| e.resident())?;
    pair_row("resident memory before the first scrape, MB", resident, "below 7");
    both(&mut pair, Exporter::spent)?;
    let began = Instant::now();
    sleep(IDLE);
    let elapsed = began.elapsed().as_secs_f64();
    let idle = both(&mut pair, Exporter::spent)?.map(|spent| spent / elapsed);
    pair_row("CPU without scrapes, µs per second (ours ticks)", idle, "");
    rapid(&mut pair, idle)?;
    spaced(&mut pair, "identity")?;
    let compressed = spaced(&mut pair, "gzip")?;
    // What an operator pays: ours reads whether or not it is asked, theirs only when it is.
    let whole = array::from_fn(|i| idle[i] + compressed[i] / 15.0);
    pair_row("CPU in all with a gzip scrape each 15 s, µs per s (sum)", whole, "");
    let resident = both(&mut pair, |e| e.resident())?;
    pair_row("resident memory after all of these, MB", resident, "");
    for Exporter { name, ended, .. } in pair.iter().filter(|exporter| exporter.ended > 0) {
        println!("{ended} threads of {name} ended meanwhile: its true CPU figures are higher");
    }
    Ok(())
}

/// One after the other without a pause. Ours encodes once for each frame, so nearly all of these
/// meet a body that is ready: this is what a second scraper costs, not the first.
#[expect(clippy::cast_precision_loss, reason = "a few hundred scrapes")]
fn rapid(pair: &mut Pair, idle: [f64; 2]) -> Outcome<()> {
    both(pair, Exporter::reconnect)?;
    both(pair, |e| (0..5).try_for_each(|_| e.scrape("identity").map(drop)))?;
    both(pair, Exporter::spent)?;
    let began = Instant::now();
    let mut latencies = [Vec::new(), Vec::new()];
    while latencies[0].len() < RAPID && began.elapsed() < RAPID_LIMIT {
        for (exporter, latencies) in pair.iter_mut().zip(&mut latencies) {
            latencies.push(exporter.scrape("identity")?.0);
        }
    }
    sleep(WINDOW);
    let elapsed = began.elapsed().as_secs_f64();
    let spent = both(pair, Exporter::spent)?;
    let count = latencies[0].len();
    let per_scrape = array::from_fn(|i| (spent[i] - idle[i] * elapsed) / count as f64);
    let latencies = latencies.map(Spread::of);
    println!("{count} scrapes in direct succession, identity (ours from its cache)");
    pair_row("  p50, µs", latencies.each_ref().map(|l| l.at(0.5)), "ours below 300");
    pair_row("  p99, µs", latencies.each_ref().map(|l| l.at(0.99)), "");
    let label = "  CPU per scrape, µs (mean, less CPU without scrapes)";
    pair_row(label, per_scrape, "node/ours at least 10");
    Ok(())
}

/// One scrape at a time, each of a frame that nobody asked for before; what scraping really costs.
/// Hands back the CPU time of one scrape.
///
/// The CPU is that of the time right after the request. A tick of ours falls into few of these
/// times, and the median leaves those out.
#[expect(clippy::cast_precision_loss, reason = "a body is a few kilobytes")]
fn spaced(pair: &mut Pair, coding: &str) -> Outcome<[f64; 2]> {
    let mut latencies = [Vec::new(), Vec::new()];
    let mut spent = [Vec::new(), Vec::new()];
    let mut bytes = [0.0; 2];
    both(pair, Exporter::reconnect)?;
    for _ in 0..SPACED {
        let began = Instant::now();
        for (i, exporter) in pair.iter_mut().enumerate() {
            exporter.spent()?;
            let (latency, body) = exporter.scrape(coding)?;
            sleep(WINDOW);
            spent[i].push(exporter.spent()?);
            latencies[i].push(latency);
            bytes[i] = body as f64;
        }
        sleep(SPACING.saturating_sub(began.elapsed()));
    }
    let latencies = latencies.map(Spread::of);
    let spent = spent.map(|values| Spread::of(values).at(0.5));
    println!(
        "{SPACED} scrapes, one each {} s, {coding} (ours encodes each)",
        SPACING.as_secs_f64()
    );
    pair_row("  p50, µs", latencies.each_ref().map(|l| l.at(0.5)), "ours below 300");
    pair_row("  slowest, µs", latencies.each_ref().map(|l| l.at(1.0)), "");
    pair_row("  CPU per scrape, µs (median, within 0.1 s)", spent, "node/ours at least 10");
    pair_row("  body of the last, bytes", bytes, "");
    Ok(spent)
}
