//! The GPU, through its driver.
//!
//! The driver is asked through NVML in this process ([`nvml`]), through the program `nvidia-smi`
//! where the library cannot be loaded ([`smi`]), or a recorded machine answers ([`recorded`]). All
//! three end in the same [`Gpus`]; NVML and recorded machines answer the same questions in the same
//! units (module `answers`) and share everything behind them (module `gather`).
//!
//! Every call here can block for minutes on a wedged driver. That is the lane's business: one thread
//! asks, and a round that is over its deadline asks no more.

mod answers;
pub mod cuda;
mod gather;
mod notes;
pub mod nvml;
pub mod probe;
pub mod recorded;
pub mod smi;

pub use notes::Notes;

use super::files::ReadError;
use crate::model::fields::Group;
use crate::model::gpu::{GpuChoice, Gpus};
use crate::model::reading::Missing;
use std::time::Duration;

/// How long a round may take and how often a driver that is not there is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// NVML: after this long a round asks no more questions.
    pub deadline: Duration,
    /// nvidia-smi: after this long it is killed.
    pub smi_deadline: Duration,
    /// Pause before a failed initialisation is tried again.
    pub retry_first: Duration,
    /// The pause doubles up to this.
    pub retry_max: Duration,
}

/// What a round is given: whom to ask, for how long, and what time it is.
pub struct Pace<'a> {
    /// Whom to ask.
    pub choice: GpuChoice,
    /// The limits.
    pub limits: Limits,
    /// Time since some fixed instant, from the engine's clock.
    pub now: &'a dyn Fn() -> Duration,
}

/// When a thing that failed is tried again.
#[derive(Debug, Default)]
struct Retry {
    pause: Duration,
    not_before: Duration,
}

impl Retry {
    fn due(&self, now: Duration) -> bool {
        now >= self.not_before
    }

    fn failed(&mut self, now: Duration, limits: &Limits) {
        self.pause = (self.pause * 2).clamp(limits.retry_first, limits.retry_max);
        self.not_before = now + self.pause;
    }

    fn worked(&mut self) {
        *self = Self::default();
    }
}

/// A failure of the GPU as a whole.
fn gone(what: impl Into<String>, reason: Missing) -> ReadError {
    ReadError::Gpu { what: what.into(), reason }
}

/// The live GPU.
pub struct Live {
    nvml: nvml::Reader,
    smi: smi::Reader,
}

impl Live {
    /// With the library and the program to use: names to look up, or paths.
    #[must_use]
    pub fn new(library: &str, program: &str) -> Self {
        Self { nvml: nvml::Reader::new(library), smi: smi::Reader::new(program) }
    }

    /// What is to be done when the exporter stops while a round is under way.
    pub(super) fn stopper(&self) -> impl Fn() + Send + Sync + use<> {
        let running = self.smi.running();
        move || running.end()
    }

    /// One round.
    ///
    /// # Errors
    /// Why the GPU cannot be read, or the first thing about it that could not.
    pub fn read(&mut self, pace: &Pace<'_>, into: &mut Gpus) -> Result<(), ReadError> {
        self.ask(pace, into, None)
    }

    /// One round, with every answer noted.
    ///
    /// # Errors
    /// As [`Live::read`].
    pub fn note(
        &mut self,
        pace: &Pace<'_>,
        into: &mut Gpus,
        notes: &Notes,
    ) -> Result<(), ReadError> {
        notes.take_pairs(&[]);
        let result = self.ask(pace, into, Some(notes));
        // NVML has not been asked.
        if notes.taken().0.is_empty() {
            notes.take_facts(pace, into, &result);
        }
        result
    }

    fn ask(
        &mut self,
        pace: &Pace<'_>,
        into: &mut Gpus,
        notes: Option<&Notes>,
    ) -> Result<(), ReadError> {
        match pace.choice {
            GpuChoice::Off => {
                self.nvml.close();
                *into = Gpus::absent(Missing::Disabled);
                Err(gone("switched off", Missing::Disabled))
            }
            GpuChoice::Nvml => self.nvml.read(pace, into, notes),
            GpuChoice::Smi => {
                self.nvml.close();
                self.smi.read(pace, into)
            }
            GpuChoice::Auto => {
                let library = match self.nvml.read(pace, into, notes) {
                    Err(error) if error.reason() == Missing::NoLibrary => error,
                    other => return other,
                };
                match self.smi.read(pace, into) {
                    Err(program) if program.reason() == Missing::NoLibrary => {
                        Err(gone(format!("{library}; {program}"), Missing::NoLibrary))
                    }
                    other => other,
                }
            }
        }
    }
}
