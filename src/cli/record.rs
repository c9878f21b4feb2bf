//! `record`: writes this machine, as it is now, into a file that others can replay.

use super::{RecordArgs, VERSION, print, whole};
use crate::capture::mask::Mask;
use crate::capture::scenario::Beginning;
use crate::capture::scenario::write::Diary;
use crate::capture::write::Recording;
use crate::capture::{Capture, MAX_SIZE};
use crate::clock::{Clock, System};
use crate::config::Config;
use crate::engine::{Engine, Options, Settings, limits};
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::sources::gpu::Pace;
use crate::sources::{self, Files, Machine, Recorder};
use anyhow::{Context, anyhow, bail};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long the machine has for its answers. What has not come back by then is recorded as such.
const PATIENCE: Duration = Duration::from_secs(10);
/// NVIDIA's library was written for a stack of the usual size.
const STACK: usize = 8 * 1024 * 1024;
/// Runs of nvidia-smi that it may take to find out which fields it knows.
const MAX_ROUNDS: usize = 16;
/// Standard output in place of a file.
const STDOUT: &str = "-";
/// Where the host's name is told.
const HOST_NAMES: [&str; 3] =
    ["/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/etc/hostname"];
/// Where the user's name is told; of a home directory, the last part.
const USER_NAMES: [&str; 5] = ["USER", "LOGNAME", "SUDO_USER", "USERNAME", "HOME"];

pub(super) fn run(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let target = Target::new(&args.path, args.force)?;
    let config = args.given.config()?;
    let machine = args.given.machine(&config)?;
    let (mut mask, remark) = if args.no_mask {
        (Mask::off(), Some("NOT MASKED: may hold names, addresses, serial numbers and secrets"))
    } else {
        mask(&machine).context("cannot start a thread")?
    };
    let mut recording = read(&machine, &config)?;
    recording.notes.splice(0..0, remark.map(str::to_owned));
    for note in &recording.notes {
        say(note);
    }
    let source = format!("recorded with gb10-exporter {}", VERSION.0);
    let capture = recording.into_capture(&source, &mut mask);
    let text = capture.to_text();
    // Nobody can do anything with a file that does not load.
    if text.len() as u64 > MAX_SIZE {
        bail!("{}: the machine's files are larger than a capture may be", args.path.display());
    }
    Capture::parse(&text).map_err(|(line, what)| {
        anyhow!("{}: line {line} would be wrong, this is a bug: {what}", args.path.display())
    })?;
    match args.duration {
        // A machine of its own: the first one has been told that it is not asked any more.
        Some(duration) => {
            let machine = args.given.machine(&config)?;
            watch(args, duration, &target, &capture, machine, &config, &mut mask)?;
        }
        None => target.write(&text, args.no_mask)?,
    }
    if !args.no_mask {
        let masked: Vec<_> = mask.counts().map(|(kind, n)| format!("{kind} {n}")).collect();
        let nothing = "nothing that had to be".to_owned();
        say(&format!("masked: {}", if masked.is_empty() { nothing } else { masked.join(", ") }));
        say("read it before you show it to others: it is plain text");
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes on, and writes down what changes. After each look the file is a whole scenario: whoever stops this
/// has what was seen until then.
fn watch(
    args: &RecordArgs,
    duration: Duration,
    target: &Target,
    capture: &Capture,
    machine: Arc<dyn Machine + Send + Sync>,
    config: &Config,
    mask: &mut Mask,
) -> anyhow::Result<()> {
    let start = System.now();
    let mut diary = Diary::new(&Beginning::of(capture, start.wall));
    let options = Options {
        machine,
        clock: Arc::new(System),
        settings: Settings::of(config),
        state_directory: None,
        version: VERSION,
    };
    let engine = Engine::start(options)?;
    engine.wait_for_frames(1, PATIENCE);
    let mut target = target.clone();
    let mut looks = 0;
    loop {
        let time = args.interval * looks;
        // One frame a second.
        engine.wait_for_frames(time.as_secs() + 1, duration + PATIENCE);
        let frame = engine.frame().context("this machine could not be read")?;
        let processes = mask.processes(frame.snapshot.processes.clone());
        diary.note(time, &Snapshot { processes, ..frame.snapshot.clone() });
        looks += 1;
        let last = args.interval * looks > duration;
        // What is printed can be printed only once.
        if last || !matches!(target, Target::Stdout) {
            target.write(&diary.scenario(capture, duration, start.wall), args.no_mask)?;
            target.replace_own();
        }
        if last {
            engine.stop();
            return Ok(());
        }
    }
}

/// For the person at the terminal; whether it can be printed changes nothing.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "gb10-exporter: {text}");
}

/// The names that must not appear, and what is to be said about them.
fn mask(machine: &Arc<dyn Machine + Send + Sync>) -> io::Result<(Mask, Option<&'static str>)> {
    let (told, names) = channel();
    let asked = Arc::clone(machine);
    // On a thread of its own, like every source: the files may be on a disk that does not answer.
    thread::Builder::new().name("names".to_owned()).spawn(move || {
        let own = sources::Roots::default();
        for path in HOST_NAMES {
            // Seen from a container there are two of each.
            for name in [own.text(path), asked.text(path)].into_iter().flatten() {
                // Nobody waits any more when this fails.
                let _ = told.send(name.trim().to_owned());
            }
        }
    })?;
    let until = System.now().mono + PATIENCE;
    let mut hosts = BTreeSet::new();
    let remark = loop {
        match names.recv_timeout(until.saturating_sub(System.now().mono)) {
            Ok(name) => hosts.insert(name),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {
                break Some("the host's name did not answer and may be NOT MASKED");
            }
        };
    };
    hosts.extend(std::env::var("HOSTNAME"));
    for name in hosts.clone() {
        if let Some((host, domain)) = name.split_once('.') {
            hosts.insert(host.to_owned());
            hosts.extend(domain.contains('.').then(|| domain.to_owned()));
        }
    }
    let users: BTreeSet<String> = USER_NAMES
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .flat_map(|value| {
            let last = value.rsplit('/').next().unwrap_or_default().to_owned();
            [value, last]
        })
        .collect();
    let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>();
    Ok((Mask::new(&list(hosts), &list(users)), remark))
}

/// Reads every source once, each on a thread of its own: one that blocks keeps nobody else.
fn read(machine: &Arc<dyn Machine + Send + Sync>, config: &Config) -> anyhow::Result<Recording> {
    let recorder = Arc::new(Recorder::new(Arc::clone(machine)));
    let mut notes = Vec::new();
    let mut waiting = BTreeSet::new();
    let (done, finished) = channel();
    let until = System.now().mono + PATIENCE;
    let (gpu, processes) = (Source::Gpu.as_str(), Source::Processes.as_str());
    for &source in Source::ALL {
        // The process that reads is no part of the machine.
        if source == Source::Process {
            continue;
        }
        // Which processes matter is told by the GPU, among others.
        if source == Source::Processes {
            wait(&finished, &mut waiting, until, |waiting| waiting.contains(gpu));
        }
        if !config.collectors[source.index()] {
            notes.push(format!("{} is switched off in the settings", source.as_str()));
            continue;
        }
        start(source, Arc::clone(&recorder), config, done.clone())
            .with_context(|| format!("cannot start a thread for {}", source.as_str()))?;
        waiting.insert(source.as_str());
    }
    drop(done);
    // What came after a GPU that does not answer has as long as the others had.
    let later = System.now().mono + PATIENCE;
    wait(&finished, &mut waiting, until, |waiting| !waiting.is_empty());
    wait(&finished, &mut waiting, later, |waiting| waiting.contains(processes));
    for source in &waiting {
        let seconds = PATIENCE.as_secs();
        notes.push(format!("{source} did not answer within {seconds} s; what it had said is here"));
    }
    if waiting.contains(gpu) {
        recorder.gpu_notes().give_up(PATIENCE);
    }
    machine.stop();
    let (gpu, remarks) = recorder.gpu_notes().taken();
    notes.extend(remarks);
    let (processes, kernel_log) = (recorder.processes(), recorder.kernel_log());
    Ok(Recording { files: recorder.files(), gpu, processes, kernel_log, notes })
}

fn start(
    source: Source,
    recorder: Arc<Recorder>,
    config: &Config,
    done: Sender<Source>,
) -> io::Result<()> {
    let choice = config.gpu;
    let limits = limits(&config.thresholds);
    let run = move || {
        let now = || System.now().mono;
        let pace = Pace { choice, limits, now: &now };
        let mut snapshot = Snapshot::absent(System.now(), Missing::Pending);
        for _ in 0..MAX_ROUNDS {
            let result = sources::read(source, recorder.as_ref(), &pace, &mut snapshot);
            if !result.is_err_and(|error| error.reason() == Missing::Pending) {
                break;
            }
        }
        // Nobody waits any more when this fails.
        let _ = done.send(source);
    };
    thread::Builder::new().name(source.as_str().to_owned()).stack_size(STACK).spawn(run).map(drop)
}

/// Waits for sources while it is worth it, and no longer than until then.
fn wait(
    finished: &Receiver<Source>,
    waiting: &mut BTreeSet<&'static str>,
    until: Duration,
    worth: impl Fn(&BTreeSet<&'static str>) -> bool,
) {
    while worth(waiting) {
        let left = until.saturating_sub(System.now().mono);
        match finished.recv_timeout(left) {
            Ok(source) => waiting.remove(source.as_str()),
            Err(_) => return,
        };
    }
}

/// Where the text goes.
#[derive(Clone)]
enum Target {
    Stdout,
    File { path: PathBuf, replace: bool },
}

impl Target {
    /// Refuses at once what would be refused in the end.
    fn new(path: &Path, force: bool) -> anyhow::Result<Self> {
        if path.as_os_str() == STDOUT {
            return Ok(Self::Stdout);
        }
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context(format!("{}", path.display())),
            Ok(_) if !force => bail!("{} exists; --force replaces it", path.display()),
            // A device or a directory would be lost.
            Ok(facts) if !facts.is_file() => bail!("{} is not a plain file", path.display()),
            Ok(_) => {}
        }
        if path.file_name().is_none() {
            bail!("{} does not name a file", path.display());
        }
        Ok(Self::File { path: path.to_owned(), replace: force })
    }

    /// The file is ours from now on.
    fn replace_own(&mut self) {
        if let Self::File { replace, .. } = self {
            *replace = true;
        }
    }

    /// Writes the whole text or nothing.
    fn write(&self, text: &str, private: bool) -> anyhow::Result<()> {
        match self {
            Self::Stdout => print(text.as_bytes()),
            Self::File { path, replace } => {
                let mode = if private { 0o600 } else { 0o644 };
                whole::write(path, text, mode, *replace)
                    .with_context(|| format!("{} cannot be written", path.display()))
            }
        }
    }
}
