//! The only readers of the machine.
//!
//! A source is a pure `parse` beside a short `read`. `read` goes through [`Files`], so the same code
//! runs on the live machine ([`Roots`]) and on a recorded one (a capture). Units are fixed here; the
//! clock and the deadlines are the engine's.

pub mod files;
pub mod follow;
pub mod gpu;
pub mod identity;
pub mod kernel_log;
pub mod lines;
pub mod models;
pub mod proc;
pub mod processes;
pub mod recorder;
pub mod roots;
pub mod samples;
pub mod sys;
pub mod train;
pub mod training;

pub use files::{FileError, Files, ReadError};
pub use recorder::Recorder;
pub use roots::{Live, Roots};

use crate::model::fields::Group;
use crate::model::gpu::Gpus;
use crate::model::kernel_log::KernelLog;
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::training::Training;
use crate::model::workload::Processes;

/// A machine, live or recorded: its files and its GPU.
pub trait Machine: Files {
    /// One round of questions to the GPU's driver. Only one thread at a time asks.
    ///
    /// # Errors
    /// Why the GPU cannot be read, or the first thing about it that could not.
    fn gpu(&self, pace: &gpu::Pace<'_>, into: &mut Gpus) -> Result<(), ReadError>;

    /// The same, with what is answered noted as a capture has it.
    ///
    /// # Errors
    /// As [`Machine::gpu`].
    fn note_gpu(
        &self,
        pace: &gpu::Pace<'_>,
        into: &mut Gpus,
        notes: &gpu::Notes,
    ) -> Result<(), ReadError> {
        let result = self.gpu(pace, into);
        notes.take_facts(pace, into, &result);
        result
    }

    /// One round of the training logs that are followed.
    ///
    /// # Errors
    /// That none is followed, or why one cannot be read.
    fn training(&self, into: &mut Training) -> Result<(), ReadError> {
        let none = FileError::NotPresent.at("--train-log");
        *into = Err(none.reason());
        Err(none)
    }

    /// The processes that use the GPU or are of a known class.
    ///
    /// # Errors
    /// Why none can be seen.
    fn processes(&self, into: &mut Processes) -> Result<(), ReadError> {
        *into = Processes::absent(Missing::NotPresent);
        Err(FileError::NotPresent.at("/proc/PID"))
    }

    /// One round of the kernel's log.
    ///
    /// # Errors
    /// Why it cannot be read. A recorded machine has none.
    fn kernel_log(&self, into: &mut KernelLog) -> Result<(), ReadError> {
        kernel_log::none(into)
    }

    /// The exporter stops, whatever is under way: no program that was started is left behind. Never
    /// waits.
    fn stop(&self) {}
}

/// Reads one source into its group of the snapshot.
///
/// What could be read is there even when the source as a whole is not well; what could not carries
/// its reason.
///
/// # Errors
/// Says why the source is not well: not there, denied, blocked by an input/output error, or not what
/// the kernel documents.
pub fn read(
    source: Source,
    machine: &dyn Machine,
    pace: &gpu::Pace<'_>,
    into: &mut Snapshot,
) -> Result<(), ReadError> {
    let files: &dyn Files = machine;
    match source {
        Source::Gpu => machine.gpu(pace, &mut into.gpus),
        Source::Meminfo => proc::meminfo::read(files, &mut into.meminfo),
        Source::Vmstat => proc::vmstat::read(files, &mut into.vmstat),
        Source::Buddyinfo => fill(&mut into.blocks, proc::buddyinfo::read(files)),
        Source::Pressure => proc::pressure::read(files, &mut into.pressure),
        Source::Thermal => fill(&mut into.zones, sys::thermal::read(files)),
        Source::Hwmon => fill(&mut into.hwmon, sys::hwmon::read(files)),
        Source::Training => machine.training(&mut into.training),
        Source::KernelLog => machine.kernel_log(&mut into.kernel_log),
        Source::Loadavg => proc::load::read(files, &mut into.load),
        Source::Uptime => proc::load::read_uptime(files, &mut into.uptime),
        Source::Stat => proc::stat::read(files, &mut into.stat),
        Source::Swaps => fill(&mut into.swaps, proc::swaps::read(files)),
        Source::VmSettings => proc::settings::read(files, &mut into.vm),
        Source::Kernel => proc::kernel::read(files, &mut into.kernel),
        Source::OsRelease => sys::os_release::read(files, &mut into.os),
        Source::Dmi => sys::dmi::read(files, &mut into.dmi),
        Source::Nvidia => proc::nvidia::read(files, &mut into.nvidia),
        Source::Processes => machine.processes(&mut into.processes),
        Source::Process => proc::process::read(files, &mut into.process),
    }
}

/// Stores a list, or the reason why there is none.
fn fill<T>(
    slot: &mut crate::model::reading::Reading<Vec<T>>,
    result: Result<Vec<T>, ReadError>,
) -> Result<(), ReadError> {
    match result {
        Ok(list) => {
            *slot = Ok(list);
            Ok(())
        }
        Err(error) => {
            *slot = Err(error.reason());
            Err(error)
        }
    }
}
