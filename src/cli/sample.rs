//! `sample`: one GPU's temperature and power as lines of CSV beside a training log, until a signal.
//!
//! A thread of its own takes the samples and writes them; the main thread waits for signals. So a disk that
//! blocks stops the samples, which could not be written anyhow, and never the stop.

mod file;

use super::{USAGE, VERSION, log, print, replay};
use crate::clock::{Clock, System};
use crate::config::Origin;
use crate::engine::{Engine, Options, Settings};
use crate::export::sample::{self, Columns, Style};
use crate::model::frame::Frame;
use crate::model::reading::Missing;
use crate::model::source::Source;
use anyhow::{Context, anyhow, bail};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use file::LogFile;
use jiff::tz::TimeZone;
use std::future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// How long the first row waits for the first answers: a driver's library that nobody else uses takes its
/// time, and so does nvidia-smi.
const FIRST_ANSWERS: Duration = Duration::from_secs(10);
/// How often it is looked whether they are there.
const LOOK: Duration = Duration::from_millis(50);
/// How long a stop waits for the row that is being written.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// There is a frame a second, and a sample takes the last one. Half-way between two of them neither comes
/// twice nor is left out because one of them was a little late.
const BETWEEN_FRAMES: Duration = Duration::from_millis(500);
/// Rarer samples are no log any more.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
/// Standard output in place of a file.
const STDOUT: &str = "-";

/// Its number on every architecture that this runs on.
const SIGXFSZ: i32 = 25;

#[derive(Debug, Args)]
#[command(mut_arg("capture", |arg| arg.hide(true)))]
pub(super) struct SampleArgs {
    /// The file to write; - is standard output. After a log rotation, told by SIGHUP or noticed, it is made
    /// anew.
    #[arg(value_name = "PATH", conflicts_with = "capture")]
    path: PathBuf,
    /// How often, from 1s to 1h. A plain number means seconds.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    interval: Duration,
    /// End after this long. Without it, SIGINT or SIGTERM is the end.
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    duration: Option<Duration>,
    /// Which GPU, by the driver's index.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    gpu: u32,
    /// The first line.
    #[arg(long, value_name = "STYLE", default_value = "short")]
    header: Header,
    /// Go on with a file that exists. It gets a header only if it is empty.
    #[arg(long)]
    append: bool,
    /// More columns: every reading that is a number, and every verdict (docs/METRICS.md). The columns are
    /// settled by the first line, and make the file a table for scenarios (docs/SCENARIOS.md).
    #[arg(long)]
    extended: bool,
    #[command(flatten)]
    given: super::settings::Given<false>,
}

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Header {
    /// `timestamp,temperature.gpu,power.draw`
    Short,
    /// What nvidia-smi --format=csv prints: `timestamp, temperature.gpu, power.draw [W]`
    Smi,
    /// No header
    None,
}

impl Header {
    const fn style(self) -> Option<Style> {
        match self {
            Self::Short => Some(Style::Short),
            Self::Smi => Some(Style::Smi),
            Self::None => None,
        }
    }
}

fn whole_seconds(text: &str) -> Result<Duration, String> {
    // 1.5m are whole seconds, too, and 1e3 is a number; both are more likely slips of the pen.
    if text.contains(['.', 'e', 'E']) {
        return Err(format!("expected whole seconds, minutes or hours, found {text:?}"));
    }
    replay::interval(text)
}

fn interval(text: &str) -> Result<Duration, String> {
    let limits = |_| format!("expected a time from 1s to 1h without a fraction, found {text:?}");
    match whole_seconds(text).map_err(limits)? {
        time if time <= MAX_INTERVAL => Ok(time),
        _ => Err(limits(String::new())),
    }
}

pub(super) fn run(args: &SampleArgs) -> anyhow::Result<ExitCode> {
    if let Some(what) = args.contradiction() {
        let mut command = super::command();
        command.build();
        if let Some(own) = command.find_subcommand_mut("sample") {
            let _ = own.error(ErrorKind::ArgumentConflict, what).print();
        }
        return Ok(USAGE.into());
    }
    let mut config = args.given.config()?;
    if config.origin("log.level") == Origin::Default {
        // Beside a training run nobody wants to read what is well.
        "warn".clone_into(&mut config.log_level);
    }
    let machine = args.given.machine(&config)?;
    log::to_stderr(&config);
    // Opened before anything is started: a file that is there is the commonest mistake.
    let (target, columns) = args.open()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime that waits for signals")?;
    let signals = {
        let _context = runtime.enter();
        Signals::listen(matches!(target, Target::File(_))).context("cannot listen for signals")?
    };
    let engine = Engine::start(Options {
        machine,
        clock: std::sync::Arc::new(System),
        settings: Settings::of(&config),
        // What is remembered from run to run is `serve`'s.
        state_directory: None,
        version: VERSION,
    })?;
    let sampler = Sampler {
        engine,
        zone: zone(),
        gpu: args.gpu,
        interval: args.interval,
        duration: args.duration,
        style: args.header.style(),
        extended: args.extended,
        columns,
        header: None,
        target,
    };
    let (orders, told) = channel();
    let (over, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("sampler".to_owned())
        // Nobody waits any more when this fails.
        .spawn(move || drop(over.send(sampler.run(&told))))
        .context("cannot start the sampler's thread")?;
    runtime.block_on(attend(signals, &orders, ended))?;
    Ok(ExitCode::SUCCESS)
}

impl SampleArgs {
    /// What the parser cannot see.
    fn contradiction(&self) -> Option<&'static str> {
        if self.extended && self.header == Header::None {
            return Some(
                "--extended cannot be used with --header none: nobody could tell the columns",
            );
        }
        if self.append && self.path.as_os_str() == STDOUT {
            return Some(
                "--append cannot be used with -: standard output is no file to go on with",
            );
        }
        None
    }

    /// Where the rows go, and the columns that they have there already.
    fn open(&self) -> anyhow::Result<(Target, Option<Columns>)> {
        if self.path.as_os_str() == STDOUT {
            return Ok((Target::Stdout { begun: false }, None));
        }
        let file = LogFile::open(&self.path, self.append)?;
        let there = file.first_line()?.map(|line| Columns::parse(&line));
        let columns = match (self.extended, there) {
            (true, Some(Ok(columns))) if columns.is_empty() => {
                let what = "this header has no more columns than three; leave out --extended";
                return Err(file.wrong_header(what.to_owned()).into());
            }
            (true, Some(columns)) => Some(columns.map_err(|what| file.wrong_header(what))?),
            (false, Some(Ok(columns))) if !columns.is_empty() => {
                let what = "this header has more columns than three; --extended fills them";
                return Err(file.wrong_header(what.to_owned()).into());
            }
            // Rows alone are what --header none leaves.
            (false, Some(Err(_))) if !file.begins_with_a_row()? => {
                let what = "this is neither a header nor a row of sample's; it may be somebody else's file";
                return Err(file.wrong_header(what.to_owned()).into());
            }
            _ => None,
        };
        file.end_half_line()?;
        Ok((Target::File(file), columns))
    }
}

/// The machine's time zone, looked up once: a zone knows its own summer time.
fn zone() -> TimeZone {
    TimeZone::try_system().unwrap_or_else(|error| {
        tracing::warn!("timestamps are UTC, the local time zone cannot be told: {error}");
        TimeZone::UTC
    })
}

/// What the main thread tells the sampler.
enum Order {
    /// The file may have been rotated away.
    Reopen,
    /// It is over.
    Stop,
}

/// The signals that mean something.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// A limit on the size of files says so with a signal that kills; with a handler the write fails, and is
    /// counted.
    _too_large: Signal,
    /// Not for standard output: there it keeps its meaning, that the terminal is gone.
    hangup: Option<Signal>,
}

impl Signals {
    fn listen(hangup: bool) -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _too_large: signal(SignalKind::from_raw(SIGXFSZ))?,
            hangup: hangup.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Passes on that a file is to be opened again, until it is time to stop.
    async fn until_stop(&mut self, orders: &Sender<Order>) {
        loop {
            let hangup = async {
                match &mut self.hangup {
                    Some(signal) => signal.recv().await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                // A sampler that has ended needs no orders.
                _ = hangup => drop(orders.send(Order::Reopen)),
            }
        }
    }
}

/// Waits for the sampler's end or makes it.
async fn attend(
    mut signals: Signals,
    orders: &Sender<Order>,
    mut ended: oneshot::Receiver<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let broken = |_| anyhow!("the sampler's thread has ended; this is a bug, please report it");
    tokio::select! {
        result = &mut ended => return result.map_err(broken)?,
        () = signals.until_stop(orders) => {}
    }
    let _ = orders.send(Order::Stop);
    match tokio::time::timeout(STOP_PATIENCE, ended).await {
        Ok(result) => result.map_err(broken)?,
        Err(_) => bail!("what is written to does not answer: the last line may be missing"),
    }
}

/// Where the rows go.
enum Target {
    Stdout { begun: bool },
    File(LogFile),
}

impl Target {
    fn put(&mut self, header: Option<&str>, row: &str) -> anyhow::Result<()> {
        match self {
            Self::Stdout { begun } => {
                if let Some(header) = header.filter(|_| !*begun) {
                    print(header.as_bytes())?;
                }
                *begun = true;
                print(row.as_bytes())?;
            }
            Self::File(file) => file.put(header, row),
        }
        Ok(())
    }
}

/// Takes the samples.
struct Sampler {
    engine: Engine,
    zone: TimeZone,
    gpu: u32,
    interval: Duration,
    duration: Option<Duration>,
    style: Option<Style>,
    extended: bool,
    /// Those of the file that is gone on with; else of the first frame.
    columns: Option<Columns>,
    header: Option<String>,
    target: Target,
}

impl Sampler {
    fn run(mut self, orders: &Receiver<Order>) -> anyhow::Result<()> {
        if self.wait_for_answers(orders) {
            self.engine.stop();
            return Ok(());
        }
        let first = self.engine.frame();
        self.say_what_is_missing(first.as_deref().ok());
        if self.extended && self.columns.is_none() {
            let frame = first.as_ref().map_err(|e| *e).context("this machine could not be read")?;
            self.columns = Some(Columns::of(frame));
        }
        let columns = self.columns.get_or_insert_default();
        self.header = self.style.map(|style| sample::header(style, columns));
        let start = first.map_or_else(|_| System.now(), |frame| frame.snapshot.at).mono;
        let result = self.rows(start + BETWEEN_FRAMES, orders);
        self.engine.stop();
        result
    }

    /// Said once, because a night of rows without values is a mistake that nobody notices: the row says
    /// that there is no value, and this says why.
    fn say_what_is_missing(&self, first: Option<&Frame>) {
        let Some(frame) = first else { return };
        let gpu = self.gpu;
        let why = match &frame.snapshot.gpus.devices {
            Ok(all) if all.iter().any(|one| one.index == gpu) => return,
            Ok(all) => {
                let there: Vec<String> = all.iter().map(|one| one.index.to_string()).collect();
                format!("there is GPU {}", there.join(", "))
            }
            Err(reason) => {
                let message = frame.health.sources[Source::Gpu.index()].message.as_deref();
                message.unwrap_or(reason.as_str()).to_owned()
            }
        };
        tracing::warn!("GPU {gpu} is not to be read, rows say [N/A] until it is: {why}");
    }

    /// Until every source has answered, or is known not to: a column that is not there by then will never
    /// be. True when it is to stop.
    fn wait_for_answers(&mut self, orders: &Receiver<Order>) -> bool {
        let until = System.now().mono + FIRST_ANSWERS;
        loop {
            let now = System.now().mono;
            let all = self.engine.frame().is_ok_and(|frame| {
                // nvidia-smi answers several times before it has said what it can say at all.
                let gpus = frame.snapshot.gpus.devices != Err(Missing::Pending);
                gpus && frame.health.sources.iter().all(|source| source.state.is_some())
            });
            if all || now >= until {
                return false;
            }
            if self.rest(now + LOOK, orders) {
                return true;
            }
        }
    }

    /// The first row at once, then one at each multiple of the interval after `start`. Those for which the
    /// disk took too long are left out: a row written late would tell of another time than its neighbours.
    fn rows(&mut self, start: Duration, orders: &Receiver<Order>) -> anyhow::Result<()> {
        let end = self.duration.map(|duration| start.saturating_add(duration));
        loop {
            let row = self.row();
            self.target.put(self.header.as_deref(), &row)?;
            let gone = System.now().mono.saturating_sub(start).as_secs();
            let every = self.interval.as_secs();
            let due = start + Duration::from_secs((gone / every + 1) * every);
            let last = end.filter(|end| *end < due);
            if self.rest(last.unwrap_or(due), orders) || last.is_some() {
                return Ok(());
            }
        }
    }

    fn row(&self) -> String {
        let frame = self.engine.frame().ok();
        let at = frame.as_ref().map_or_else(|| System.now(), |frame| frame.snapshot.at);
        let at = sample::timestamp(at.wall, &self.zone);
        let columns = self.columns.as_ref();
        sample::row(at, frame.as_deref(), self.gpu, columns.unwrap_or(&Columns::default()))
    }

    /// Waits until a time and does meanwhile as told; true when that is to stop.
    fn rest(&mut self, until: Duration, orders: &Receiver<Order>) -> bool {
        loop {
            match orders.recv_timeout(until.saturating_sub(System.now().mono)) {
                Ok(Order::Reopen) => {
                    if let Target::File(file) = &mut self.target {
                        file.reopen(self.header.as_deref());
                    }
                }
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}
