//! The GPU through NVML, the driver's own library.
//!
//! Whatever is asked here is asked by one thread, the lane's. The library is loaded when it is first
//! needed, and loaded again, after a pause, when the driver has gone away, a GPU was lost or the
//! library never came up.

mod raw;

use super::answers::{
    Answer, Answers, FIELDS, Heard, Number, ProcessRow, Refusal, System, Text, code,
};
use super::gather::{Memory, gather};
use super::notes::Noting;
use super::{Notes, Pace, Retry, gone};
use crate::model::fields::Group;
use crate::model::gpu::{ClockKind, EventReason, Gpus, MemoryFigures, ProcessList, Via};
use crate::model::reading::Missing;
use crate::sources::files::ReadError;
use crate::units::Bytes;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, FieldIdScheme, Nvml};
use std::ffi::OsStr;

/// Reads the GPU through NVML.
pub struct Reader {
    library: String,
    session: Option<Session>,
    /// Why there is no session.
    failure: Option<ReadError>,
    /// Whether the session is of no use any more for at least one GPU.
    ailing: bool,
    retry: Retry,
    memory: Memory,
}

/// The library, initialised.
struct Session {
    // Before `nvml`: fields are dropped in this order, and events must be freed before the shutdown.
    events: Result<raw::Events, Refusal>,
    nvml: Nvml,
    path: Option<String>,
}

impl Reader {
    /// With the library's name, as the dynamic linker looks it up, or its path.
    #[must_use]
    pub fn new(library: &str) -> Self {
        Self {
            library: library.to_owned(),
            session: None,
            failure: None,
            ailing: false,
            retry: Retry::default(),
            memory: Memory::default(),
        }
    }

    /// Shuts the library down and forgets its failures: it is not asked any more.
    pub fn close(&mut self) {
        self.shut();
        (self.failure, self.ailing, self.retry) = (None, false, Retry::default());
    }

    /// Shuts the library down.
    fn shut(&mut self) {
        if let Some(Session { events, nvml, .. }) = self.session.take() {
            if let Ok(events) = events {
                events.free(&nvml);
            }
            drop(nvml);
        }
        self.memory.forget_devices();
    }

    /// One round, with every answer noted where somebody takes notes.
    ///
    /// # Errors
    /// Why there is no NVML, or the first thing that it did not say.
    pub fn read(
        &mut self,
        pace: &Pace<'_>,
        into: &mut Gpus,
        notes: Option<&Notes>,
    ) -> Result<(), ReadError> {
        let now = (pace.now)();
        if self.ailing && self.retry.due(now) {
            self.shut();
        }
        let fresh = self.session.is_none();
        if fresh && self.retry.due(now) {
            match self.open(pace, notes) {
                Ok(session) => (self.session, self.failure) = (Some(session), None),
                Err(error) => {
                    // From now on, not from when it was tried: that may have taken minutes.
                    self.retry.failed((pace.now)(), &pace.limits);
                    self.failure = Some(error);
                }
            }
        }
        let Some(session) = &mut self.session else {
            let pending = || gone("NVML has not been loaded yet", Missing::Pending);
            let error = self.failure.clone().unwrap_or_else(pending);
            *into = Gpus::absent(error.reason());
            return Err(error);
        };
        *into = Gpus {
            via: Ok(Via::Nvml),
            path: session.path.clone().ok_or(Missing::NotAvailable),
            ..Gpus::absent(Missing::NotAvailable)
        };
        let mut asking = Asking { nvml: &session.nvml, events: &mut session.events, device: None };
        let outcome = match notes {
            None => gather(&mut asking, pace, &mut self.memory, into),
            Some(notes) => {
                let mut noting = Noting { answers: &mut asking, notes, now: pace.now };
                let began = (pace.now)();
                let outcome = gather(&mut noting, pace, &mut self.memory, into);
                notes.ended(&outcome.result, (pace.now)().saturating_sub(began));
                outcome
            }
        };
        if !outcome.ends_session {
            self.retry.worked();
        } else if fresh || !self.ailing {
            self.retry.failed((pace.now)(), &pace.limits);
        }
        self.ailing = outcome.ends_session;
        outcome.result
    }
}

impl Reader {
    /// Starts the library.
    fn open(&self, pace: &Pace<'_>, notes: Option<&Notes>) -> Result<Session, ReadError> {
        if let Some(notes) = notes {
            notes.ask("init", (pace.now)());
        }
        let opened = Session::open(&self.library);
        if let Some(notes) = notes {
            // A library that is not there is a machine without a section.
            let failed = opened.as_ref().err();
            let failed = failed.filter(|(error, _)| error.reason() != Missing::NoLibrary);
            let value = failed.map(|(_, refusal)| match refusal {
                Refusal::Code(number) if *number != code::NOT_SUPPORTED => format!("!{number}"),
                _ => format!("!{}", code::UNKNOWN),
            });
            notes.answered("init", value, (pace.now)());
        }
        opened.map_err(|(error, _)| error)
    }
}

impl Session {
    fn open(library: &str) -> Result<Self, (ReadError, Refusal)> {
        let nvml = Nvml::builder().lib_path(OsStr::new(library)).init().map_err(|error| {
            let refusal = refusal(&error);
            let what = match &error {
                NvmlError::LibloadingError(why) => format!("{library} cannot be loaded: {why}"),
                NvmlError::FailedToLoadSymbol(_) => {
                    format!("{library} is no NVML library: it lacks nvmlInit_v2")
                }
                _ => format!("NVML does not start: {refusal}"),
            };
            let reason = match refusal.reason() {
                Missing::NoSymbol => Missing::NoLibrary,
                reason => reason,
            };
            (gone(what, reason), refusal)
        })?;
        if let Err(what) = fields_are_understood(&nvml) {
            return Err((gone(what, Missing::Failed), Refusal::Code(code::UNKNOWN)));
        }
        let events = raw::Events::new(&nvml).map_err(|e| refusal(&e));
        Ok(Self { events, path: loaded_from(library), nvml })
    }
}

/// Whether the wrapper numbers field values as this driver does. It decides that once, by the version
/// that it reads when the library starts; when that fails, it takes the older numbers, which from 580.82
/// on mean something else.
fn fields_are_understood(nvml: &Nvml) -> Result<(), String> {
    let version = nvml.sys_driver_version().map_err(|e| {
        format!("NVML starts and does not tell the driver's version: {}", refusal(&e))
    })?;
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let newer = (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (580, 82);
    if newer == (nvml.field_id_scheme() == FieldIdScheme::V13Update1) {
        Ok(())
    } else {
        Err(format!("NVML has not told the driver's version {version} when it started"))
    }
}

/// The file that the dynamic linker found for the library.
fn loaded_from(library: &str) -> Option<String> {
    if library.contains('/') {
        let path = std::fs::canonicalize(library).ok()?;
        return Some(path.display().to_string());
    }
    // libnvidia-ml.so.1 is a link to libnvidia-ml.so.580.82.09, and the kernel lists the latter.
    let stem = library.split_once(".so").map_or(library, |(stem, _)| stem);
    let mapped = format!("/{stem}.so");
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|line| line.find('/').map(|start| &line[start..]))
        .find(|path| path.contains(&mapped))
        .map(str::to_owned)
}

/// One round's view of the session.
struct Asking<'a> {
    nvml: &'a Nvml,
    events: &'a mut Result<raw::Events, Refusal>,
    device: Option<(u32, Device<'a>)>,
}

impl<'a> Asking<'a> {
    /// The GPU that was found last.
    fn device(&self, index: u32) -> Answer<&Device<'a>> {
        match &self.device {
            Some((found, device)) if *found == index => Ok(device),
            _ => Err(Refusal::Code(code::NOT_FOUND)),
        }
    }

    fn ask<T>(
        &self,
        index: u32,
        question: impl FnOnce(&Device<'a>) -> Result<T, NvmlError>,
    ) -> Answer<T> {
        question(self.device(index)?).map_err(|e| refusal(&e))
    }
}

impl Answers for Asking<'_> {
    fn system(&mut self, what: System) -> Answer<String> {
        let nvml = self.nvml;
        let answer = match what {
            System::Driver => nvml.sys_driver_version(),
            System::Library => nvml.sys_nvml_version(),
        };
        answer.map_err(|e| refusal(&e))
    }

    fn cuda(&mut self) -> Answer<i64> {
        self.nvml.sys_cuda_driver_version().map(i64::from).map_err(|e| refusal(&e))
    }

    fn count(&mut self) -> Answer<u32> {
        self.nvml.device_count().map_err(|e| refusal(&e))
    }

    fn find(&mut self, index: u32) -> Answer<()> {
        let device = self.nvml.device_by_index(index).map_err(|e| refusal(&e))?;
        if let Ok(events) = self.events {
            events.listen(index, &device);
        }
        self.device = Some((index, device));
        Ok(())
    }

    fn text(&mut self, index: u32, what: Text) -> Answer<String> {
        self.ask(index, |device| match what {
            Text::Name => device.name(),
            Text::Uuid => device.uuid(),
            Text::Bus => device.pci_info().map(|pci| pci.bus_id),
            Text::PciDeviceId => device
                .pci_info()
                .map(|pci| format!("{:#010X}", pci.pci_device_id).replace('X', "x")),
            Text::Vbios => device.vbios_version(),
            Text::ComputeCapability => {
                device.cuda_compute_capability().map(|cc| format!("{}.{}", cc.major, cc.minor))
            }
            Text::AddressingMode => raw::addressing_mode(device).map(|mode| {
                match mode {
                    0 => "None",
                    1 => "HMM",
                    2 => "ATS",
                    _ => "unknown",
                }
                .to_owned()
            }),
        })
    }

    fn number(&mut self, index: u32, what: Number) -> Answer<i64> {
        if let Some(place) = FIELDS.iter().position(|field| *field == what) {
            return self.fields(index)[place];
        }
        self.ask(index, |device| {
            Ok(match what {
                Number::Utilization => device.utilization_rates()?.gpu.into(),
                Number::Temperature => device.temperature(TemperatureSensor::Gpu)?.into(),
                Number::Margin => raw::margin(device)?.into(),
                Number::Power => device.power_usage()?.into(),
                Number::Energy => saturated(device.total_energy_consumption()?),
                Number::PerformanceState => match raw::performance_state(device)? {
                    raw::UNKNOWN_PERFORMANCE_STATE => return Err(NvmlError::NoData),
                    state => state.into(),
                },
                Number::EventReasons => saturated(raw::event_reasons(device)?),
                Number::Clock(kind) => device.clock_info(clock(kind))?.into(),
                Number::ClockMax(kind) => device.max_clock_info(clock(kind))?.into(),
                Number::PowerAverage | Number::PowerInstant | Number::EventTime(_) => {
                    return Err(NvmlError::NotFound);
                }
            })
        })
    }

    fn fields(&mut self, index: u32) -> [Answer<i64>; FIELDS.len()] {
        let ids = FIELDS.map(|what| FieldId(field(what)));
        let samples = match self.ask(index, |device| device.field_values_for(&ids)) {
            Ok(samples) => samples,
            Err(refusal) => return [Err(refusal); FIELDS.len()],
        };
        // By position: the library answers with its own numbers, which changed within 580.
        let mut samples = samples.into_iter();
        FIELDS.map(|_| match samples.next() {
            Some(Ok(sample)) => sample.value.as_ref().map_err(refusal).and_then(whole),
            Some(Err(error)) => Err(refusal(&error)),
            None => Err(Refusal::Nonsense),
        })
    }

    fn memory(&mut self, index: u32) -> Answer<MemoryFigures> {
        self.ask(index, |device| match device.memory_info() {
            Ok(m) => Ok(figures(m.total, m.free, m.used)),
            // Libraries before 11.5 know the first form only.
            Err(
                NvmlError::FailedToLoadSymbol(_)
                | NvmlError::FunctionNotFound
                | NvmlError::UnexpectedVariant(code::ARGUMENT_VERSION_MISMATCH),
            ) => raw::memory(device).map(|[total, free, used]| figures(total, free, used)),
            Err(error) => Err(error),
        })
    }

    fn processes(&mut self, index: u32, list: ProcessList) -> Answer<Vec<ProcessRow>> {
        let question = |device: &Device<'_>| match list {
            ProcessList::Compute => device.running_compute_processes(),
            ProcessList::Graphics => device.running_graphics_processes(),
            ProcessList::Mps => device.mps_running_compute_processes(),
        };
        let mut answer = self.ask(index, question);
        // The list grew between the question for its length and the question for the rows.
        if answer == Err(Refusal::Code(code::INSUFFICIENT_SIZE)) {
            answer = self.ask(index, question);
        }
        let rows = answer?;
        let used = |memory| match memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        Ok(rows.into_iter().map(|row| (row.pid, used(row.used_gpu_memory))).collect())
    }

    fn xids(&mut self) -> Answer<Heard> {
        match self.events {
            Ok(events) => events.take(self.nvml),
            Err(refusal) => Err(*refusal),
        }
    }
}

fn figures(total: u64, free: u64, used: u64) -> MemoryFigures {
    MemoryFigures { total: Bytes(total), free: Bytes(free), used: Bytes(used) }
}

const fn clock(kind: ClockKind) -> Clock {
    match kind {
        ClockKind::Graphics => Clock::Graphics,
        ClockKind::Sm => Clock::SM,
        ClockKind::Memory => Clock::Memory,
        ClockKind::Video => Clock::Video,
    }
}

/// NVML's id of a field value. The wrapper gives numbers of the older scheme and translates them for
/// drivers from 580.82 on.
const fn field(what: Number) -> u32 {
    match what {
        Number::PowerAverage => field_id::NVML_FI_DEV_POWER_AVERAGE,
        Number::PowerInstant => field_id::NVML_FI_DEV_POWER_INSTANT,
        Number::EventTime(EventReason::SyncBoost) => {
            field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST
        }
        Number::EventTime(EventReason::SwThermal) => {
            field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN
        }
        Number::EventTime(EventReason::HwThermal) => {
            field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN
        }
        Number::EventTime(EventReason::HwPowerBrake) => {
            field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN
        }
        _ => field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
    }
}

fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A field's value; none of ours is a fraction.
fn whole(value: &SampleValue) -> Answer<i64> {
    match *value {
        SampleValue::U32(n) => Ok(n.into()),
        SampleValue::U64(n) => i64::try_from(n).map_err(|_| Refusal::Nonsense),
        SampleValue::I64(n) => Ok(n),
        SampleValue::F64(_) => Err(Refusal::Nonsense),
    }
}

/// The wrapper's error as NVML's return code.
fn refusal(error: &NvmlError) -> Refusal {
    Refusal::Code(match error {
        NvmlError::UnexpectedVariant(number) => *number,
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => code::LIBRARY_NOT_FOUND,
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => code::FUNCTION_NOT_FOUND,
        NvmlError::Uninitialized => code::UNINITIALIZED,
        NvmlError::InvalidArg => code::INVALID_ARGUMENT,
        NvmlError::NotSupported => code::NOT_SUPPORTED,
        NvmlError::NoPermission => code::NO_PERMISSION,
        NvmlError::NotFound => code::NOT_FOUND,
        NvmlError::InsufficientSize(_) => code::INSUFFICIENT_SIZE,
        NvmlError::InsufficientPower => code::INSUFFICIENT_POWER,
        NvmlError::DriverNotLoaded => code::DRIVER_NOT_LOADED,
        NvmlError::Timeout => code::TIMEOUT,
        NvmlError::IrqIssue => code::IRQ_ISSUE,
        NvmlError::CorruptedInfoROM => code::CORRUPTED_INFOROM,
        NvmlError::GpuLost => code::GPU_IS_LOST,
        NvmlError::ResetRequired => code::RESET_REQUIRED,
        NvmlError::OperatingSystem => code::OPERATING_SYSTEM,
        NvmlError::LibRmVersionMismatch => code::LIB_RM_VERSION_MISMATCH,
        NvmlError::InUse => code::IN_USE,
        NvmlError::InsufficientMemory => code::MEMORY,
        NvmlError::NoData => code::NO_DATA,
        NvmlError::Unknown => code::UNKNOWN,
        _ => return Refusal::Nonsense,
    })
}

#[cfg(test)]
mod tests;
