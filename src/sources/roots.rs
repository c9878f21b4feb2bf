//! The live machine's files, below configurable roots.

use super::files::{FileError, Files, MAX_FILE, ReadError};
use super::{Machine, gpu, kernel_log, processes, training};
use crate::model::gpu::Gpus;
use crate::model::kernel_log::KernelLog;
use crate::model::naming::Naming;
use crate::model::training::Training;
use crate::model::workload::Processes;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Where `/proc`, `/sys` and the rest are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Stands for `/proc`.
    pub procfs: PathBuf,
    /// Stands for `/sys`.
    pub sysfs: PathBuf,
    /// Stands for `/`, for everything else.
    pub rootfs: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { procfs: "/proc".into(), sysfs: "/sys".into(), rootfs: "/".into() }
    }
}

impl Roots {
    /// Whoever reads the processes.
    fn processes(&self, naming: Naming) -> processes::Reader {
        processes::Reader::new(&self.procfs, &self.sysfs, naming)
    }

    /// Where `path` really is.
    pub(super) fn real(&self, path: &str) -> PathBuf {
        let below = |prefix: &str| path.strip_prefix(prefix).map(|p| p.trim_start_matches('/'));
        if let Some(rest) = below("/proc/") {
            self.procfs.join(rest)
        } else if let Some(rest) = below("/sys/") {
            self.sysfs.join(rest)
        } else {
            self.rootfs.join(path.trim_start_matches('/'))
        }
    }
}

/// Bounded: a device node or a runaway file in place of a kernel file costs no memory.
fn read_bounded(path: &Path) -> Result<String, FileError> {
    let file = File::open(path).map_err(|e| why(&e))?;
    let mut bytes = Vec::with_capacity(4096);
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(|e| why(&e))?;
    if bytes.len() > MAX_FILE {
        return Err(FileError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}

fn why(error: &io::Error) -> FileError {
    match error.kind() {
        // A kernel built with PSI but booted with psi=0 lists the files and refuses to open them.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::Unsupported => {
            FileError::NotPresent
        }
        io::ErrorKind::PermissionDenied => FileError::Denied,
        _ => FileError::Failed(error.to_string()),
    }
}

/// The pids that the GPU's driver named last, from one lane to another.
#[derive(Default)]
struct OnGpu {
    pids: Mutex<Option<BTreeSet<u32>>>,
    told: Condvar,
}

impl OnGpu {
    /// A driver that has to be loaded takes its time; whoever reads processes before it has answered would
    /// not know which of them matter.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn note(&self, gpus: &Gpus) {
        let lists: Option<Vec<_>> =
            gpus.devices.iter().flatten().map(|gpu| gpu.processes.as_ref().ok()).collect();
        // A driver that does not answer has not ended anybody.
        let Some(lists) = lists.filter(|_| gpus.devices.is_ok()) else {
            // Who waits for the first answer has it: there is none.
            self.pids.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
            self.told.notify_all();
            return;
        };
        let pids = lists.into_iter().flatten().map(|process| process.pid).collect();
        *self.pids.lock().unwrap_or_else(PoisonError::into_inner) = Some(pids);
        self.told.notify_all();
    }

    /// Those of the last round, whatever has become of the driver since. Waits a moment for the first one,
    /// and after that never again.
    fn pids(&self) -> BTreeSet<u32> {
        let pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut pids, _) = self
            .told
            .wait_timeout_while(pids, Self::PATIENCE, |pids| pids.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        pids.get_or_insert_default().clone()
    }
}

/// The live machine: its files and its GPU.
pub struct Live {
    roots: Roots,
    gpu: Mutex<gpu::Live>,
    logs: Mutex<training::Logs>,
    processes: Mutex<processes::Reader>,
    on_gpu: OnGpu,
    kernel_log: Mutex<kernel_log::Reader>,
    stop_gpu: Box<dyn Fn() + Send + Sync>,
}

impl Live {
    /// With its roots, and the NVML library and the nvidia-smi to use.
    #[must_use]
    pub fn new(roots: Roots, library: &str, program: &str) -> Self {
        let gpu = gpu::Live::new(library, program);
        let logs = Mutex::new(training::Logs::new(&[]));
        let processes = Mutex::new(roots.processes(Naming::default()));
        let kernel_log = Mutex::new(kernel_log::Reader::new(roots.clone()));
        Self {
            roots,
            stop_gpu: Box::new(gpu.stopper()),
            gpu: Mutex::new(gpu),
            logs,
            processes,
            on_gpu: OnGpu::default(),
            kernel_log,
        }
    }

    /// The same, with training logs to follow.
    #[must_use]
    pub fn following(self, logs: &[PathBuf]) -> Self {
        Self { logs: Mutex::new(training::Logs::new(logs)), ..self }
    }

    /// The same, with processes named as the operator wants it.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        Self { processes: Mutex::new(self.roots.processes(naming)), ..self }
    }
}

impl Files for Live {
    fn text(&self, path: &str) -> Result<String, FileError> {
        self.roots.text(path)
    }

    fn names(&self, path: &str) -> Result<Vec<String>, FileError> {
        self.roots.names(path)
    }
}

impl Machine for Live {
    fn gpu(&self, pace: &gpu::Pace<'_>, into: &mut Gpus) -> Result<(), ReadError> {
        // Only the GPU's lane comes here, so nobody waits. After a panic in an earlier round the
        // reader is as good as before: every round fills everything anew.
        let result = self.gpu.lock().unwrap_or_else(PoisonError::into_inner).read(pace, into);
        self.on_gpu.note(into);
        result
    }

    fn note_gpu(
        &self,
        pace: &gpu::Pace<'_>,
        into: &mut Gpus,
        notes: &gpu::Notes,
    ) -> Result<(), ReadError> {
        let mut gpu = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
        let result = gpu.note(pace, into, notes);
        drop(gpu);
        self.on_gpu.note(into);
        result
    }

    fn processes(&self, into: &mut Processes) -> Result<(), ReadError> {
        let on_gpu = self.on_gpu.pids();
        // As with the GPU, only one lane comes here.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).read(&on_gpu, into)
    }

    fn training(&self, into: &mut Training) -> Result<(), ReadError> {
        // As with the GPU, only one lane comes here.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).read(into)
    }

    fn kernel_log(&self, into: &mut KernelLog) -> Result<(), ReadError> {
        self.kernel_log.lock().unwrap_or_else(PoisonError::into_inner).read(into)
    }

    fn stop(&self) {
        (self.stop_gpu)();
    }
}

impl Files for Roots {
    fn text(&self, path: &str) -> Result<String, FileError> {
        read_bounded(&self.real(path))
    }

    fn names(&self, path: &str) -> Result<Vec<String>, FileError> {
        let entries = fs::read_dir(self.real(path)).map_err(|e| why(&e))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| why(&e))?;
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_move_below_their_roots() {
        let roots = Roots {
            procfs: "/host/proc".into(),
            sysfs: "/host/sys".into(),
            rootfs: "/host".into(),
        };
        assert_eq!(roots.real("/proc/meminfo"), Path::new("/host/proc/meminfo"));
        assert_eq!(roots.real("/sys/class/hwmon"), Path::new("/host/sys/class/hwmon"));
        assert_eq!(roots.real("/etc/os-release"), Path::new("/host/etc/os-release"));
    }

    #[test]
    fn an_endless_file_is_refused_and_a_missing_one_is_not_present() {
        assert_eq!(read_bounded(Path::new("/dev/zero")), Err(FileError::TooLarge));
        assert_eq!(read_bounded(Path::new("/nowhere/at/all")), Err(FileError::NotPresent));
        assert!(matches!(read_bounded(Path::new("/proc")), Err(FileError::Failed(_))));
    }
}
