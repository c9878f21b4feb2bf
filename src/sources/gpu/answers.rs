//! The questions that a driver is asked, and how it may refuse.
//!
//! NVML answers them live, a capture answers them from its GPU section, with the same units. The
//! keys here are the keys of that section (docs/CAPTURES.md).

use crate::model::gpu::{ClockKind, EventReason, MemoryFigures, ProcessList, TIMED};
use crate::model::reading::Missing;
use std::fmt;

/// NVML's return codes that mean something of their own here.
pub(super) mod code {
    macro_rules! codes {
        ($($name:ident = $number:literal,)+) => {
            $( pub(in super::super) const $name: u32 = $number; )+
            /// By NVIDIA's name without its prefix.
            #[cfg(test)]
            pub(in super::super) const ALL: &[(&str, u32)] = &[$( (stringify!($name), $number), )+];
        };
    }

    codes! {
        UNINITIALIZED = 1,
        INVALID_ARGUMENT = 2,
        NOT_SUPPORTED = 3,
        NO_PERMISSION = 4,
        NOT_FOUND = 6,
        INSUFFICIENT_SIZE = 7,
        INSUFFICIENT_POWER = 8,
        DRIVER_NOT_LOADED = 9,
        TIMEOUT = 10,
        IRQ_ISSUE = 11,
        LIBRARY_NOT_FOUND = 12,
        FUNCTION_NOT_FOUND = 13,
        CORRUPTED_INFOROM = 14,
        GPU_IS_LOST = 15,
        RESET_REQUIRED = 16,
        OPERATING_SYSTEM = 17,
        LIB_RM_VERSION_MISMATCH = 18,
        IN_USE = 19,
        MEMORY = 20,
        NO_DATA = 21,
        ARGUMENT_VERSION_MISMATCH = 25,
        DEPRECATED = 26,
        NOT_READY = 27,
        GPU_NOT_FOUND = 28,
        UNKNOWN = 999,
    }
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The driver's return code.
    Code(u32),
    /// The answer is not one that the question can have.
    Nonsense,
    /// Not asked, because the round is over its deadline.
    Late,
}

pub(super) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    /// The reason that the reading carries.
    pub(super) const fn reason(self) -> Missing {
        match self {
            Self::Code(code) => match code {
                code::NOT_SUPPORTED | code::ARGUMENT_VERSION_MISMATCH | code::DEPRECATED => {
                    Missing::Unsupported
                }
                code::NO_PERMISSION | code::OPERATING_SYSTEM => Missing::Denied,
                code::NOT_FOUND | code::NO_DATA | code::NOT_READY => Missing::NotAvailable,
                code::DRIVER_NOT_LOADED => Missing::NoDriver,
                code::LIB_RM_VERSION_MISMATCH => Missing::VersionMismatch,
                code::LIBRARY_NOT_FOUND => Missing::NoLibrary,
                code::FUNCTION_NOT_FOUND => Missing::NoSymbol,
                code::GPU_IS_LOST | code::RESET_REQUIRED => Missing::Lost,
                code::GPU_NOT_FOUND => Missing::NotPresent,
                _ => Missing::Failed,
            },
            Self::Nonsense => Missing::Malformed,
            Self::Late => Missing::Hung,
        }
    }

    /// Whether only a fresh start of the library can help.
    pub(super) const fn ends_session(self) -> bool {
        matches!(
            self,
            Self::Code(
                code::UNINITIALIZED
                    | code::DRIVER_NOT_LOADED
                    | code::GPU_IS_LOST
                    | code::RESET_REQUIRED
                    | code::LIB_RM_VERSION_MISMATCH
                    | code::GPU_NOT_FOUND
            )
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Nonsense => "an answer that cannot be",
            Self::Late => "no answer within the deadline",
            Self::Code(code) => match *code {
                code::UNINITIALIZED => "the library is not initialised",
                code::INVALID_ARGUMENT => "invalid argument",
                code::NOT_SUPPORTED => "not supported",
                code::NO_PERMISSION => "no permission",
                code::NOT_FOUND => "not found",
                code::INSUFFICIENT_POWER => "a power cable is not attached",
                code::DRIVER_NOT_LOADED => "the NVIDIA driver is not loaded",
                code::TIMEOUT => "the driver timed out",
                code::IRQ_ISSUE => "the kernel sees an interrupt problem with the GPU",
                code::FUNCTION_NOT_FOUND => "the library does not know this question",
                code::CORRUPTED_INFOROM => "the GPU's infoROM is corrupted",
                code::GPU_IS_LOST => "the GPU has fallen off the bus",
                code::RESET_REQUIRED => "the GPU needs a reset",
                code::OPERATING_SYSTEM => "the operating system blocks the device",
                code::LIB_RM_VERSION_MISMATCH => {
                    "the loaded driver and its library are of different versions, as after an upgrade \
                     without a reboot"
                }
                code::IN_USE => "the GPU is in use",
                code::MEMORY => "the driver is out of memory",
                code::GPU_NOT_FOUND => "no GPU was found",
                code::UNKNOWN => "unknown error",
                _ => "refused",
            },
        };
        match self {
            Self::Code(code) => write!(f, "{text} (NVML code {code})"),
            _ => f.write_str(text),
        }
    }
}

/// A question about the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Driver,
    Library,
}

impl System {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Library => "nvml",
        }
    }
}

/// A question about a GPU that has text for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Name,
    Uuid,
    Bus,
    PciDeviceId,
    Vbios,
    ComputeCapability,
    AddressingMode,
}

impl Text {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uuid => "uuid",
            Self::Bus => "bus",
            Self::PciDeviceId => "pci_device_id",
            Self::Vbios => "vbios",
            Self::ComputeCapability => "compute_cap",
            Self::AddressingMode => "addressing_mode",
        }
    }
}

/// A question about a GPU that has a number for an answer, in NVML's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// Percent.
    Utilization,
    /// Degrees.
    Temperature,
    /// Degrees, may be negative.
    Margin,
    /// Milliwatts.
    Power,
    /// Milliwatts.
    PowerAverage,
    /// Milliwatts.
    PowerInstant,
    /// Millijoules.
    Energy,
    /// 0 to 15.
    PerformanceState,
    /// A mask.
    EventReasons,
    /// Nanoseconds. nvidia-smi prints the same counter in microseconds.
    EventTime(EventReason),
    /// MHz.
    Clock(ClockKind),
    /// MHz.
    ClockMax(ClockKind),
}

impl Number {
    pub(super) fn key(self) -> String {
        match self {
            Self::Utilization => "utilization".to_owned(),
            Self::Temperature => "temperature".to_owned(),
            Self::Margin => "margin".to_owned(),
            Self::Power => "power_mw".to_owned(),
            Self::PowerAverage => "power_average_mw".to_owned(),
            Self::PowerInstant => "power_instant_mw".to_owned(),
            Self::Energy => "energy_mj".to_owned(),
            Self::PerformanceState => "pstate".to_owned(),
            Self::EventReasons => "event_reasons".to_owned(),
            Self::EventTime(reason) => format!("event_ns.{}", reason.as_str()),
            Self::Clock(kind) => format!("clock.{}", kind.as_str()),
            Self::ClockMax(kind) => format!("clock_max.{}", kind.as_str()),
        }
    }
}

/// The numbers that NVML hands out as "field values", all in one call.
pub(super) const FIELDS: [Number; 2 + TIMED.len()] = [
    Number::PowerAverage,
    Number::PowerInstant,
    Number::EventTime(TIMED[0]),
    Number::EventTime(TIMED[1]),
    Number::EventTime(TIMED[2]),
    Number::EventTime(TIMED[3]),
    Number::EventTime(TIMED[4]),
];

/// One row of a process list: pid, and bytes where the driver has a figure.
pub(super) type ProcessRow = (u32, Option<u64>);

/// What was heard of Xid errors.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The GPUs that are listened to.
    pub(super) gpus: Vec<u32>,
    /// The errors, as GPU and number.
    pub(super) errors: Vec<(u32, u32)>,
    /// What ended the listening.
    pub(super) end: Option<Refusal>,
}

/// Somebody who can be asked.
pub(super) trait Answers {
    fn system(&mut self, what: System) -> Answer<String>;
    /// CUDA version as a number: 13000 is 13.0.
    fn cuda(&mut self) -> Answer<i64>;
    fn count(&mut self) -> Answer<u32>;
    /// Finds a GPU, before anything else is asked about it.
    fn find(&mut self, index: u32) -> Answer<()>;
    fn text(&mut self, index: u32, what: Text) -> Answer<String>;
    fn number(&mut self, index: u32, what: Number) -> Answer<i64>;
    /// [`FIELDS`], by position.
    fn fields(&mut self, index: u32) -> [Answer<i64>; FIELDS.len()];
    fn memory(&mut self, index: u32) -> Answer<MemoryFigures>;
    fn processes(&mut self, index: u32, list: ProcessList) -> Answer<Vec<ProcessRow>>;
    /// Xid errors since the last call.
    fn xids(&mut self) -> Answer<Heard>;
}
