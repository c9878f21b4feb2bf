//! A machine that is read as always, with every outcome noted: what a recording is made of.

use super::files::{FileError, Files, ReadError};
use super::{Machine, gpu};
use crate::model::gpu::Gpus;
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
}

impl Recorder {
    /// Of this machine.
    #[must_use]
    pub fn new(machine: Arc<dyn Machine + Send + Sync>) -> Self {
        Self { machine, files: Mutex::default(), gpu: gpu::Notes::default() }
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

    fn stop(&self) {
        self.machine.stop();
    }
}
