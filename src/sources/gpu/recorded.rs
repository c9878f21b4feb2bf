//! A recorded machine answers from the GPU section of its capture.

use super::answers::{
    Answer, Answers, FIELDS, Heard, Number, ProcessRow, Refusal, System, Text, code,
};
use super::gather::{Memory, gather, too_late};
use super::{Pace, gone};
use crate::model::fields::Group;
use crate::model::gpu::{ClockKind, Gpus, MemoryFigures, ProcessList, Via};
use crate::model::reading::Missing;
use crate::sources::files::ReadError;
use crate::units::Bytes;
use std::time::Duration;

/// Reads the section `pairs` into `into`.
///
/// # Errors
/// As a live GPU: what could not be read, first of all.
pub fn read(pairs: &[(String, String)], pace: &Pace<'_>, into: &mut Gpus) -> Result<(), ReadError> {
    if pairs.is_empty() {
        *into = Gpus::absent(Missing::NoLibrary);
        return Err(gone("the capture has no GPU section", Missing::NoLibrary));
    }
    let mut section = Section { pairs };
    if section.slowest() > pace.limits.deadline {
        *into = Gpus::absent(Missing::Hung);
        return Err(too_late(pace));
    }
    if let Err(refusal) = section.raw("init").map(drop)
        && refusal != Refusal::Code(code::NOT_SUPPORTED)
    {
        *into = Gpus::absent(refusal.reason());
        return Err(gone(format!("NVML does not start: {refusal}"), refusal.reason()));
    }
    *into = Gpus {
        via: Ok(Via::Nvml),
        path: Err(Missing::NotPresent),
        ..Gpus::absent(Missing::NotAvailable)
    };
    gather(&mut section, pace, &mut Memory::default(), into).result
}

/// Says what is wrong with a line of the section, so that a slip of the pen does not become "not
/// supported". Figures that cannot be are allowed: drivers have them too.
///
/// # Errors
/// What was expected.
pub fn check(key: &str, value: &str) -> Result<(), String> {
    if key.starts_with("smi.") {
        return Ok(());
    }
    let value = match value.strip_prefix('~') {
        None => value,
        Some(delayed) => match delayed.split_once(' ') {
            Some((millis, value)) if millis.parse::<u32>().is_ok() => value.trim(),
            _ => return Err(format!("{key}: expected \"~MILLISECONDS VALUE\", found {value:?}")),
        },
    };
    if let Some(code) = value.strip_prefix('!') {
        return code.parse::<u32>().map(drop).map_err(|_| {
            format!("{key}: expected a return code of NVML after the \"!\", found {value:?}")
        });
    }
    let expect = |what: &str, fits: bool| {
        if fits { Ok(()) } else { Err(format!("{key}: expected {what}, found {value:?}")) }
    };
    match key {
        "driver" | "nvml" => return Ok(()),
        "init" => return expect("!N or ~MS !N", false),
        "cuda" | "count" => return expect("a whole number", number(value).is_ok()),
        "events" => return expect("SEQUENCE:GPU:XID, ...", list(value, event).is_ok()),
        _ => {}
    }
    let unknown = || Err(format!("{key}: unknown key (docs/CAPTURES.md lists them)"));
    let Some((index, name)) = key.split_once('.') else { return unknown() };
    if index.parse::<u32>().is_err() {
        return unknown();
    }
    let texts = [
        Text::Name,
        Text::Uuid,
        Text::Bus,
        Text::PciDeviceId,
        Text::Vbios,
        Text::ComputeCapability,
        Text::AddressingMode,
    ];
    if texts.iter().any(|text| text.key() == name)
        || (name.starts_with("process") && name.contains("_name."))
    {
        return Ok(());
    }
    match name {
        "device" => return expect("!N or ~MS !N", false),
        "memory" => {
            let figures = list(value, number).is_ok_and(|figures| figures.len() == 3);
            return expect("TOTAL,FREE,USED in bytes", figures);
        }
        _ => {}
    }
    if ProcessList::ALL.iter().any(|list| name == format!("processes.{}", list.as_str())) {
        return expect("PID:BYTES or PID:NA, ...", list(value, row).is_ok());
    }
    if numbers().any(|what| what.key() == name) {
        return expect("a whole number", number(value).is_ok());
    }
    unknown()
}

/// Every number that a GPU is asked for.
fn numbers() -> impl Iterator<Item = Number> {
    let plain = [
        Number::Utilization,
        Number::Temperature,
        Number::Margin,
        Number::Power,
        Number::Energy,
        Number::PerformanceState,
        Number::EventReasons,
    ];
    let clocks = ClockKind::ALL.iter().flat_map(|k| [Number::Clock(*k), Number::ClockMax(*k)]);
    plain.into_iter().chain(FIELDS).chain(clocks)
}

/// The section, as somebody who can be asked.
struct Section<'a> {
    pairs: &'a [(String, String)],
}

impl Section<'_> {
    /// The value of a key. One that is left out is not supported.
    fn raw(&self, key: &str) -> Answer<&str> {
        let pair = self.pairs.iter().rev().find(|(name, _)| name == key);
        let (_, value) = pair.ok_or(Refusal::Code(code::NOT_SUPPORTED))?;
        let value = match value.strip_prefix('~') {
            Some(delayed) => delayed.split_once(' ').ok_or(Refusal::Nonsense)?.1.trim(),
            None => value,
        };
        match value.strip_prefix('!') {
            Some(number) => Err(number.parse().map_or(Refusal::Nonsense, Refusal::Code)),
            None => Ok(value),
        }
    }

    /// How long the slowest answer takes. Nobody waits for it here: past the deadline the machine hangs.
    fn slowest(&self) -> Duration {
        let asked = self.pairs.iter().filter(|(name, _)| !name.starts_with("smi."));
        let delays = asked.filter_map(|(_, value)| value.strip_prefix('~')?.split_once(' '));
        let longest = delays.filter_map(|(millis, _)| millis.parse().ok()).max();
        Duration::from_millis(longest.unwrap_or(0))
    }

    fn of(&self, index: u32, key: &str) -> Answer<&str> {
        self.raw(&format!("{index}.{key}"))
    }
}

fn number(text: &str) -> Answer<i64> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| Refusal::Nonsense)
}

fn row(text: &str) -> Answer<ProcessRow> {
    let (pid, bytes) = text.trim().split_once(':').ok_or(Refusal::Nonsense)?;
    let pid = pid.parse().map_err(|_| Refusal::Nonsense)?;
    let bytes = match bytes {
        "NA" => None,
        bytes => Some(bytes.parse().map_err(|_| Refusal::Nonsense)?),
    };
    Ok((pid, bytes))
}

fn event(text: &str) -> Answer<(u32, u32)> {
    let mut parts = text.trim().split(':').skip(1).map(str::parse);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Ok(gpu)), Some(Ok(xid)), None) => Ok((gpu, xid)),
        _ => Err(Refusal::Nonsense),
    }
}

fn list<T>(text: &str, item: impl Fn(&str) -> Answer<T>) -> Answer<Vec<T>> {
    text.split(',').filter(|part| !part.trim().is_empty()).map(item).collect()
}

impl Answers for Section<'_> {
    fn system(&mut self, what: System) -> Answer<String> {
        self.raw(what.key()).map(str::to_owned)
    }

    fn cuda(&mut self) -> Answer<i64> {
        self.raw("cuda").and_then(number)
    }

    fn count(&mut self) -> Answer<u32> {
        self.raw("count").and_then(|text| text.parse().map_err(|_| Refusal::Nonsense))
    }

    fn find(&mut self, index: u32) -> Answer<()> {
        match self.of(index, "device") {
            Ok(_) | Err(Refusal::Code(code::NOT_SUPPORTED)) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    fn text(&mut self, index: u32, what: Text) -> Answer<String> {
        self.of(index, what.key()).map(str::to_owned)
    }

    fn number(&mut self, index: u32, what: Number) -> Answer<i64> {
        self.of(index, &what.key()).and_then(number)
    }

    fn fields(&mut self, index: u32) -> [Answer<i64>; FIELDS.len()] {
        FIELDS.map(|what| self.number(index, what))
    }

    fn memory(&mut self, index: u32) -> Answer<MemoryFigures> {
        let figures = list(self.of(index, "memory")?, number)?;
        match figures.as_slice() {
            &[total, free, used] if total >= 0 && free >= 0 && used >= 0 => Ok(MemoryFigures {
                total: Bytes(total.unsigned_abs()),
                free: Bytes(free.unsigned_abs()),
                used: Bytes(used.unsigned_abs()),
            }),
            _ => Err(Refusal::Nonsense),
        }
    }

    fn processes(&mut self, index: u32, which: ProcessList) -> Answer<Vec<ProcessRow>> {
        let key = format!("processes.{}", which.as_str());
        list(self.of(index, &key)?, row)
    }

    fn xids(&mut self) -> Answer<Heard> {
        // Left out means none so far; a GPU that does not tell them answers "!3".
        let told = self.pairs.iter().any(|(key, _)| key == "events");
        let errors = if told { list(self.raw("events")?, event)? } else { Vec::new() };
        let gpus = (0..self.count()?).filter(|index| self.find(*index).is_ok()).collect();
        Ok(Heard { gpus, errors, end: None })
    }
}
