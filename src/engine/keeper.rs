//! The keeper: reads and writes the state file on a thread of its own, so that a dead disk stops
//! nothing else.

use super::StartError;
use super::boots::Entry;
use crate::model::reading::Missing;
use crate::model::sharing::IdleRemainder;
use crate::model::throttle::LearnedGpu;
use crate::model::workload::LearnedWorkload;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

const NAME: &str = "state.json";
const VERSION: u32 = 1;
/// How long a stop waits for the last write.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What is remembered from run to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Boots that were seen.
    pub boots: Vec<Entry>,
    /// What was learned about the idle box. Files of earlier versions lack it.
    #[serde(default)]
    pub idle_remainders: Vec<IdleRemainder>,
    /// What was learned about the GPUs' clocks and power. Files of earlier versions lack it.
    #[serde(default)]
    pub gpus: Vec<LearnedGpu>,
    /// What was learned about workloads. Files of earlier versions lack it.
    #[serde(default)]
    pub workloads: Vec<LearnedWorkload>,
}

/// The state file. A newer version is left alone.
#[derive(Serialize, Deserialize)]
struct StateFile {
    version: u32,
    #[serde(flatten)]
    kept: Kept,
}

/// Only the version, which is read first.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Why the state file cannot be used.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error("{path} cannot be read", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("{path} is not a state file", path = .0.display())]
    Parse(PathBuf, #[source] serde_json::Error),
    #[error("{path} is of version {1}; this exporter knows version {VERSION} and leaves it alone", path = .0.display())]
    Newer(PathBuf, u32),
    #[error("{path} cannot be written", path = .0.display())]
    Write(PathBuf, #[source] io::Error),
}

/// The ticker's end of the keeper.
pub(super) struct Keeper {
    to_write: SyncSender<Kept>,
    loaded: Receiver<Option<Kept>>,
    gone: Receiver<()>,
    outcome: Result<(), Missing>,
}

impl Keeper {
    /// Starts the thread, which loads the file first.
    pub(super) fn start(directory: PathBuf) -> Result<Self, StartError> {
        let (to_write, orders) = sync_channel(1);
        let (answer, loaded) = channel();
        let (presence, gone) = channel();
        std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || run(&directory, &answer, &orders, presence))
            .map_err(|e| StartError::Thread("keeper", e))?;
        Ok(Self { to_write, loaded, gone, outcome: Err(Missing::Pending) })
    }

    /// What was loaded, once; the reason why there is none (yet).
    pub(super) fn loaded(&mut self) -> Result<Option<Kept>, Missing> {
        if self.outcome == Err(Missing::Pending) {
            match self.loaded.try_recv() {
                Ok(Some(kept)) => {
                    self.outcome = Ok(());
                    return Ok(Some(kept));
                }
                Ok(None) | Err(TryRecvError::Disconnected) => self.outcome = Err(Missing::Failed),
                Err(TryRecvError::Empty) => {}
            }
        }
        self.outcome.map(|()| None)
    }

    /// Has it written. While an earlier write has not finished, this one is dropped; the next
    /// minute brings another.
    pub(super) fn keep(&self, kept: Kept) {
        let _ = self.to_write.try_send(kept);
    }

    /// Has it written for the last time, and waits a moment for it.
    pub(super) fn finish(self, kept: Kept) {
        if self.outcome.is_ok() && self.to_write.try_send(kept).is_ok() {
            drop(self.to_write);
            // Nothing is ever sent: it disconnects when the keeper has written everything.
            let _ = self.gone.recv_timeout(PATIENCE);
        }
    }
}

fn run(
    directory: &Path,
    answer: &Sender<Option<Kept>>,
    orders: &Receiver<Kept>,
    presence: Sender<()>,
) {
    let path = directory.join(NAME);
    match load(&path) {
        Ok(kept) => drop(answer.send(Some(kept))),
        Err(error) => {
            report(&error);
            drop(answer.send(None));
            return;
        }
    }
    let mut failing = false;
    while let Ok(kept) = orders.recv() {
        let result = save(directory, &path, &kept);
        if let Err(error) = &result
            && !failing
        {
            report(error);
        }
        failing = result.is_err();
    }
    drop(presence);
}

fn report(error: &StateError) {
    let cause = std::error::Error::source(error).map(|c| format!(": {c}")).unwrap_or_default();
    tracing::warn!("{error}{cause}");
}

/// Loads the file; one that does not exist is an empty one. A file that is not a state file is
/// moved aside, never overwritten: it may be somebody's.
fn load(path: &Path) -> Result<Kept, StateError> {
    let text = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
        Err(e) => return Err(StateError::Read(path.to_owned(), e)),
    };
    let parsed = serde_json::from_slice::<Versioned>(&text).and_then(|v| {
        if v.version > VERSION {
            Ok(Err(v.version))
        } else {
            serde_json::from_slice::<StateFile>(&text).map(Ok)
        }
    });
    match parsed {
        Ok(Ok(file)) => Ok(file.kept),
        Ok(Err(version)) => Err(StateError::Newer(path.to_owned(), version)),
        Err(error) => {
            let aside = path.with_extension("json.unreadable");
            fs::rename(path, &aside).map_err(|e| StateError::Write(aside.clone(), e))?;
            report(&StateError::Parse(aside, error));
            Ok(Kept::default())
        }
    }
}

/// Writes a new file and renames it over the old one, so that a power cut leaves either.
fn save(directory: &Path, path: &Path, kept: &Kept) -> Result<(), StateError> {
    let failed = |e| StateError::Write(path.to_owned(), e);
    let file = StateFile { version: VERSION, kept: kept.clone() };
    let text = serde_json::to_vec_pretty(&file).map_err(|e| failed(e.into()))?;
    fs::create_dir_all(directory).map_err(failed)?;
    let temporary = path.with_extension("json.new");
    let mut out = File::create(&temporary).map_err(failed)?;
    out.write_all(&text).and_then(|()| out.sync_all()).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    File::open(directory).and_then(|dir| dir.sync_all()).map_err(failed)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set the scene")]
mod tests {
    use super::*;
    use crate::engine::boots::BootLog;
    use crate::units::Bytes;

    fn kept() -> Kept {
        let mut log = BootLog::default();
        let at = crate::model::moment::Moment {
            mono: Duration::from_secs(1),
            wall: Duration::from_secs(1000),
        };
        log.alive("6f1c", Some(900), at);
        let idle =
            IdleRemainder { boot_id: "6f1c".into(), driver: "580.82.09".into(), bytes: Bytes(5) };
        let gpu = LearnedGpu {
            gpu: "GPU-1".into(),
            driver: "580.82.09".into(),
            boot_id: "6f1c".into(),
            clock: Some(2.47e9),
            cap: None,
            power_fault: true,
        };
        let workload = LearnedWorkload {
            class: "vllm".into(),
            unit: "docker".into(),
            load_peak: Some(Bytes::from_gib(80)),
            settled: Some(Bytes::from_gib(60)),
            seen: 1000,
        };
        Kept {
            boots: log.boots,
            idle_remainders: vec![idle],
            gpus: vec![gpu],
            workloads: vec![workload],
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(load(&path).unwrap(), Kept::default());
        save(dir.path(), &path, &kept()).unwrap();
        assert_eq!(load(&path).unwrap(), kept());
        assert!(!path.with_extension("json.new").exists());
    }

    #[test]
    fn a_file_that_is_no_state_file_is_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        fs::write(&path, b"\xff{\"version\":1,\"boots\":[{\"boot").unwrap();
        assert_eq!(load(&path).unwrap(), Kept::default());
        let aside = fs::read(path.with_extension("json.unreadable")).unwrap();
        assert!(aside.ends_with(b"{\"boot"));
    }

    #[test]
    fn a_file_of_an_earlier_version_of_the_exporter_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        fs::write(&path, "{\"version\":1,\"boots\":[]}").unwrap();
        assert_eq!(load(&path).unwrap(), Kept::default());
    }

    #[test]
    fn a_newer_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        fs::write(&path, "{\"version\":7,\"anything\":[]}").unwrap();
        assert!(matches!(load(&path), Err(StateError::Newer(_, 7))));
        assert!(path.exists());
    }
}
