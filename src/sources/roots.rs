//! The live machine's files, below configurable roots.

use super::files::{FileError, Files, MAX_FILE, ReadError};
use super::{Machine, gpu, training};
use crate::model::gpu::Gpus;
use crate::model::training::Training;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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
    /// Where `path` really is.
    fn real(&self, path: &str) -> PathBuf {
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

/// The live machine: its files and its GPU.
pub struct Live {
    roots: Roots,
    gpu: Mutex<gpu::Live>,
    logs: Mutex<training::Logs>,
    stop_gpu: Box<dyn Fn() + Send + Sync>,
}

impl Live {
    /// With its roots, and the NVML library and the nvidia-smi to use.
    #[must_use]
    pub fn new(roots: Roots, library: &str, program: &str) -> Self {
        let gpu = gpu::Live::new(library, program);
        let logs = Mutex::new(training::Logs::new(&[]));
        Self { roots, stop_gpu: Box::new(gpu.stopper()), gpu: Mutex::new(gpu), logs }
    }

    /// The same, with training logs to follow.
    #[must_use]
    pub fn following(self, logs: &[PathBuf]) -> Self {
        Self { logs: Mutex::new(training::Logs::new(logs)), ..self }
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
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner).read(pace, into)
    }

    fn note_gpu(
        &self,
        pace: &gpu::Pace<'_>,
        into: &mut Gpus,
        notes: &gpu::Notes,
    ) -> Result<(), ReadError> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner).note(pace, into, notes)
    }

    fn training(&self, into: &mut Training) -> Result<(), ReadError> {
        // As with the GPU, only one lane comes here.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).read(into)
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
