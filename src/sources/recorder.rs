//! A machine that is read as always, with every outcome noted: what a recording is made of.

use super::files::{FileError, Files, ReadError};
use super::{Machine, gpu};
use crate::model::gpu::Gpus;
use crate::model::kernel_log::KernelLog;
use crate::model::reading::Missing;
use crate::model::workload::Processes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What came of each file and directory, by path. `None`: it has not come back.
pub type Outcomes = BTreeMap<String, Option<Result<String, FileError>>>;

/// Reads another machine and notes what it says. The notes can be looked at while a file or the driver
/// has not come back.
pub struct Recorder {
    machine: Arc<dyn Machine + Send + Sync>,
    files: Mutex<Outcomes>,
    gpu: gpu::Notes,
    processes: Mutex<Option<Processes>>,
    kernel_log: Mutex<KernelLog>,
}

impl Recorder {
    /// Of this machine.
    #[must_use]
    pub fn new(machine: Arc<dyn Machine + Send + Sync>) -> Self {
        Self {
            machine,
            files: Mutex::default(),
            gpu: gpu::Notes::default(),
            processes: Mutex::default(),
            kernel_log: Mutex::new(Err(Missing::Pending)),
        }
    }

    /// The files so far. A directory is there only when it could not be listed: what is in it shows by
    /// what was read.
    #[must_use]
    pub fn files(&self) -> Outcomes {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the GPU said.
    #[must_use]
    pub const fn gpu_notes(&self) -> &gpu::Notes {
        &self.gpu
    }

    /// The processes, if they were read.
    #[must_use]
    pub fn processes(&self) -> Option<Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the kernel's log had.
    #[must_use]
    pub fn kernel_log(&self) -> KernelLog {
        self.kernel_log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, path: &str, outcome: Option<Result<String, FileError>>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(path.to_owned(), outcome);
    }
}

impl Files for Recorder {
    fn text(&self, path: &str) -> Result<String, FileError> {
        self.note(path, None);
        let result = self.machine.text(path);
        self.note(path, Some(result.clone()));
        result
    }

    fn names(&self, path: &str) -> Result<Vec<String>, FileError> {
        self.note(path, None);
        let result = self.machine.names(path);
        match &result {
            Ok(_) => {
                self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
            }
            Err(error) => self.note(path, Some(Err(error.clone()))),
        }
        result
    }
}

impl Machine for Recorder {
    fn gpu(&self, pace: &gpu::Pace<'_>, into: &mut Gpus) -> Result<(), ReadError> {
        self.machine.note_gpu(pace, into, &self.gpu)
    }

    fn processes(&self, into: &mut Processes) -> Result<(), ReadError> {
        let result = self.machine.processes(into);
        // A machine without processes to look at has no section of them, not an empty one.
        let told = (into.list != Err(Missing::NotPresent)).then(|| into.clone());
        *self.processes.lock().unwrap_or_else(PoisonError::into_inner) = told;
        result
    }

    /// As many rounds as it takes to have all that is there.
    fn kernel_log(&self, into: &mut KernelLog) -> Result<(), ReadError> {
        loop {
            self.machine.kernel_log(into)?;
            if *into != Err(Missing::Pending) {
                self.kernel_log.lock().unwrap_or_else(PoisonError::into_inner).clone_from(into);
                return Ok(());
            }
        }
    }

    fn stop(&self) {
        self.machine.stop();
    }
}
