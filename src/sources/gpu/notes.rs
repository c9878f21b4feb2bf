//! What a driver answered, noted as the GPU section of a capture has it (docs/CAPTURES.md).
//!
//! Questions to NVML are noted one by one, in its units ([`Noting`]). Where `nvidia-smi` stood in for
//! it there are no such answers, and the section is made from the facts ([`Notes::take_facts`]).

use super::Pace;
use super::answers::{
    Answer, Answers, FIELDS, Heard, Number, ProcessRow, Refusal, System, Text, code,
};
use crate::model::gpu::{ClockKind, Gpu, Gpus, MemoryFigures, ProcessList, TIMED};
use crate::model::reading::{Missing, Reading};
use crate::sources::files::ReadError;
use crate::sources::lines::label;
use crate::units::{Celsius, Hertz, Joules, Ratio, Seconds, Watts};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A figure that no question can have for an answer, for an answer that was none.
const NO_FIGURE: i64 = i64::MIN;

/// Notes of one round. Another thread may look at them while the driver has not come back.
#[derive(Debug, Default)]
pub struct Notes {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pairs: Vec<(String, String)>,
    remarks: Vec<String>,
    /// The question that is being answered, and since when.
    asking: Option<(String, Duration)>,
    /// The question that took longest.
    slowest: Option<(String, Duration)>,
}

impl Inner {
    fn set(&mut self, key: &str, value: String) {
        self.pairs.retain(|(known, _)| known != key);
        self.pairs.push((key.to_owned(), value));
    }

    /// The machine hangs: this answer took so long.
    fn delay(&mut self, key: &str, took: Duration) {
        let found = self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value);
        let value = found.cloned().unwrap_or_else(|| refused(code::UNKNOWN));
        self.set(key, format!("~{} {value}", took.as_millis()));
    }
}

impl Notes {
    /// Whoever panicked in the middle of a note has left a whole one.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The section so far, and remarks on what it cannot say.
    #[must_use]
    pub fn taken(&self) -> (Vec<(String, String)>, Vec<String>) {
        let inner = self.lock();
        (inner.pairs.clone(), inner.remarks.clone())
    }

    /// Takes a section as it is, from a machine that has one.
    pub fn take_pairs(&self, pairs: &[(String, String)]) {
        self.lock().pairs = pairs.to_vec();
    }

    /// Nobody waits any more for what is being asked, after so long. A driver that was not asked anything
    /// yet, or a program that stands in for it, has not come up.
    pub fn give_up(&self, after: Duration) {
        let mut inner = self.lock();
        let key = inner.asking.take().map_or_else(|| "init".to_owned(), |(key, _)| key);
        inner.delay(&key, after);
    }

    /// A question, before it is asked.
    pub(super) fn ask(&self, key: &str, now: Duration) {
        self.lock().asking = Some((key.to_owned(), now));
    }

    /// Its answer, unless that goes without saying.
    pub(super) fn answered(&self, key: &str, value: Option<String>, now: Duration) {
        let mut inner = self.lock();
        if let Some(value) = value {
            inner.set(key, value);
        }
        if let Some((asked, since)) = inner.asking.take() {
            let took = now.saturating_sub(since);
            if inner.slowest.as_ref().is_none_or(|(_, longest)| took > *longest) {
                inner.slowest = Some((asked, took));
            }
        }
    }

    /// How the round ended. One that was over its deadline says so by its slowest answer.
    pub(super) fn ended(&self, result: &Result<(), ReadError>, took: Duration) {
        if result.as_ref().is_err_and(|error| error.reason() == Missing::Hung) {
            let mut inner = self.lock();
            if let Some((key, _)) = inner.slowest.take() {
                inner.delay(&key, took);
            }
        }
    }

    fn remark(&self, text: impl Into<String>) {
        self.lock().remarks.push(text.into());
    }

    /// The section of a GPU that answered through something else than NVML's questions.
    pub fn take_facts(&self, pace: &Pace<'_>, gpus: &Gpus, result: &Result<(), ReadError>) {
        let mut pairs = Vec::new();
        match (&gpus.devices, result) {
            (Ok(devices), _) => {
                self.remark(
                    "the GPU was read through nvidia-smi, which tells less than NVML; figures are \
                     as it rounds them, and a replay answers as NVML does",
                );
                driver(gpus, devices, &mut pairs);
            }
            // No driver: no section.
            (Err(Missing::NoLibrary), _) | (_, Ok(())) => {}
            (Err(Missing::Disabled), _) => self.remark("the GPU is switched off in the settings"),
            (Err(Missing::Hung), Err(_)) => {
                let late = pace.limits.smi_deadline.max(pace.limits.deadline);
                let value = format!("~{} {}", late.as_millis() + 1, refused(code::UNKNOWN));
                pairs.push(("init".to_owned(), value));
            }
            (Err(reason), Err(_)) => pairs.push(("init".to_owned(), refused(code_of(*reason)))),
        }
        self.lock().pairs = pairs;
    }
}

/// A refusal as the section writes it.
fn refused(number: u32) -> String {
    format!("!{number}")
}

/// The code that gives a reading this reason.
const fn code_of(reason: Missing) -> u32 {
    match reason {
        Missing::Unsupported => code::NOT_SUPPORTED,
        Missing::Denied => code::NO_PERMISSION,
        Missing::NotAvailable => code::NOT_FOUND,
        Missing::NoDriver => code::DRIVER_NOT_LOADED,
        Missing::VersionMismatch => code::LIB_RM_VERSION_MISMATCH,
        Missing::NoLibrary => code::LIBRARY_NOT_FOUND,
        Missing::NoSymbol => code::FUNCTION_NOT_FOUND,
        Missing::Lost => code::GPU_IS_LOST,
        Missing::NotPresent => code::GPU_NOT_FOUND,
        _ => code::UNKNOWN,
    }
}

/// Text as a value: one line that does not begin like a refusal or a delay.
fn text(value: &str) -> String {
    label(value).trim_start_matches(['!', '~', ' ']).to_owned()
}

fn rows(list: &[ProcessRow]) -> String {
    let row = |(pid, bytes): &ProcessRow| {
        format!("{pid}:{}", bytes.map_or_else(|| "NA".to_owned(), |bytes| bytes.to_string()))
    };
    list.iter().map(row).collect::<Vec<_>>().join(",")
}

fn memory(figures: &MemoryFigures) -> String {
    format!("{},{},{}", figures.total.0, figures.free.0, figures.used.0)
}

fn processes_key(list: ProcessList) -> String {
    format!("processes.{}", list.as_str())
}

/// Somebody who is asked, with every answer noted.
pub(super) struct Noting<'a> {
    pub(super) answers: &'a mut dyn Answers,
    pub(super) notes: &'a Notes,
    pub(super) now: &'a dyn Fn() -> Duration,
}

impl Noting<'_> {
    fn noted<T>(
        &mut self,
        key: &str,
        question: impl FnOnce(&mut dyn Answers) -> Answer<T>,
        value: impl FnOnce(&T) -> Option<String>,
        nonsense: &str,
    ) -> Answer<T> {
        self.notes.ask(key, (self.now)());
        let answer = question(self.answers);
        let value = match &answer {
            Ok(answer) => value(answer),
            Err(Refusal::Code(number)) => Some(refused(*number)),
            Err(_) => Some(nonsense.to_owned()),
        };
        self.notes.answered(key, value, (self.now)());
        answer
    }
}

impl Answers for Noting<'_> {
    fn system(&mut self, what: System) -> Answer<String> {
        let nonsense = refused(code::UNKNOWN);
        self.noted(what.key(), |a| a.system(what), |t| Some(text(t)), &nonsense)
    }

    fn cuda(&mut self) -> Answer<i64> {
        self.noted("cuda", |a| a.cuda(), |n| Some(n.to_string()), &NO_FIGURE.to_string())
    }

    fn count(&mut self) -> Answer<u32> {
        let nonsense = refused(code::UNKNOWN);
        self.noted("count", |a| a.count(), |n| Some(n.to_string()), &nonsense)
    }

    fn find(&mut self, index: u32) -> Answer<()> {
        let nonsense = refused(code::UNKNOWN);
        self.noted(&format!("{index}.device"), |a| a.find(index), |()| None, &nonsense)
    }

    fn text(&mut self, index: u32, what: Text) -> Answer<String> {
        let (key, nonsense) = (format!("{index}.{}", what.key()), refused(code::UNKNOWN));
        self.noted(&key, |a| a.text(index, what), |t| Some(text(t)), &nonsense)
    }

    fn number(&mut self, index: u32, what: Number) -> Answer<i64> {
        let shown = |n: &i64| {
            Some(if what == Number::EventReasons { format!("{n:#x}") } else { n.to_string() })
        };
        let key = format!("{index}.{}", what.key());
        self.noted(&key, |a| a.number(index, what), shown, &NO_FIGURE.to_string())
    }

    fn fields(&mut self, index: u32) -> [Answer<i64>; FIELDS.len()] {
        // One call: the first of them stands for how long it takes.
        self.notes.ask(&format!("{index}.{}", FIELDS[0].key()), (self.now)());
        let answers = self.answers.fields(index);
        for (what, answer) in FIELDS.into_iter().zip(&answers) {
            let value = match answer {
                Ok(number) => number.to_string(),
                Err(Refusal::Code(number)) => refused(*number),
                Err(_) => NO_FIGURE.to_string(),
            };
            self.notes.answered(&format!("{index}.{}", what.key()), Some(value), (self.now)());
        }
        answers
    }

    fn memory(&mut self, index: u32) -> Answer<MemoryFigures> {
        let key = format!("{index}.memory");
        // More free and used than there is.
        self.noted(&key, |a| a.memory(index), |m| Some(memory(m)), "0,1,1")
    }

    fn processes(&mut self, index: u32, list: ProcessList) -> Answer<Vec<ProcessRow>> {
        let (key, nonsense) = (format!("{index}.{}", processes_key(list)), refused(code::UNKNOWN));
        self.noted(&key, |a| a.processes(index, list), |list| Some(rows(list)), &nonsense)
    }

    fn xids(&mut self) -> Answer<Heard> {
        let shown = |heard: &Heard| {
            let events = heard.errors.iter().enumerate();
            let events: Vec<_> =
                events.map(|(i, (gpu, xid))| format!("{}:{gpu}:{xid}", i + 1)).collect();
            (!events.is_empty()).then(|| events.join(","))
        };
        let answer = self.noted("events", |a| a.xids(), shown, &refused(code::UNKNOWN));
        if let Ok(Heard { end: Some(end), .. }) = &answer {
            self.notes.remark(format!("listening for Xid errors ended: {end}"));
        }
        answer
    }
}

/// Pairs of the section.
type Pairs = Vec<(String, String)>;

fn push<T>(
    pairs: &mut Pairs,
    key: impl Into<String>,
    reading: &Reading<T>,
    value: impl FnOnce(&T) -> String,
) {
    let value = reading.as_ref().map_or_else(|reason| refused(code_of(*reason)), value);
    pairs.push((key.into(), value));
}

/// The driver and its GPUs, from what is known of them.
fn driver(gpus: &Gpus, devices: &[Gpu], pairs: &mut Pairs) {
    push(pairs, System::Driver.key(), &gpus.driver, |t| text(t));
    push(pairs, System::Library.key(), &gpus.library, |t| text(t));
    // Not to be had from nvidia-smi, as far as it is asked.
    push(pairs, "cuda", &gpus.cuda, |_| refused(code::NOT_FOUND));
    pairs.push(("count".to_owned(), devices.len().to_string()));
    for (index, gpu) in devices.iter().enumerate() {
        device(index, gpu, pairs);
    }
    if let Err(reason) = &gpus.xids {
        pairs.push(("events".to_owned(), refused(code_of(*reason))));
    }
}

/// How many of `unit` an amount is.
#[expect(clippy::cast_possible_truncation, reason = "amounts that were whole numbers of it")]
fn how_many(amount: f64, unit: f64) -> String {
    ((amount / unit).round() as i64).to_string()
}

fn device(index: usize, gpu: &Gpu, pairs: &mut Pairs) {
    let of = |name: &str| format!("{index}.{name}");
    let texts = [
        (Text::Name, &gpu.name),
        (Text::Uuid, &gpu.uuid),
        (Text::Bus, &gpu.bus),
        (Text::Vbios, &gpu.vbios),
        (Text::PciDeviceId, &gpu.pci_device_id),
        (Text::ComputeCapability, &gpu.compute_capability),
        (Text::AddressingMode, &gpu.addressing_mode),
    ];
    for (what, reading) in texts {
        push(pairs, of(what.key()), reading, |t| text(t));
    }
    push(pairs, of("memory"), &gpu.memory, memory);
    let number = |what: Number| of(&what.key());
    let percent = |r: &Ratio| how_many(r.0, Ratio::from_percent(1).0);
    push(pairs, number(Number::Utilization), &gpu.utilization, percent);
    for (what, reading) in [(Number::Temperature, &gpu.temperature), (Number::Margin, &gpu.margin)]
    {
        push(pairs, number(what), reading, |c| how_many(c.0, Celsius::from_milli(1000).0));
    }
    for (what, reading) in [
        (Number::Power, &gpu.power),
        (Number::PowerAverage, &gpu.power_average),
        (Number::PowerInstant, &gpu.power_instant),
    ] {
        push(pairs, number(what), reading, |w| how_many(w.0, Watts::from_milli(1).0));
    }
    push(pairs, number(Number::Energy), &gpu.energy, |j| how_many(j.0, Joules::from_milli(1).0));
    for (place, kind) in ClockKind::ALL.iter().enumerate() {
        let mega = |h: &Hertz| how_many(h.0, Hertz::from_mega(1).0);
        push(pairs, number(Number::Clock(*kind)), &gpu.clocks[place], mega);
        push(pairs, number(Number::ClockMax(*kind)), &gpu.clocks_max[place], mega);
    }
    push(pairs, number(Number::PerformanceState), &gpu.performance_state, |n| n.0.to_string());
    push(pairs, number(Number::EventReasons), &gpu.event_reasons, |n| format!("{:#x}", n.0));
    for (reason, reading) in TIMED.iter().zip(&gpu.event_seconds) {
        let nano = |s: &Seconds| how_many(s.0, Seconds::from_nano(1).0);
        push(pairs, number(Number::EventTime(*reason)), reading, nano);
    }
    lists(index, gpu, pairs);
}

fn lists(index: usize, gpu: &Gpu, pairs: &mut Pairs) {
    for &list in ProcessList::ALL {
        let known = gpu.listed[list as usize].and(gpu.processes.as_ref().map_err(|m| *m));
        let row = |all: &&Vec<crate::model::gpu::GpuProcess>| {
            let there = all.iter().filter(|process| process.lists[list as usize]);
            let list: Vec<_> = there.map(|p| (p.pid, p.memory.ok().map(|b| b.0))).collect();
            rows(&list)
        };
        push(pairs, format!("{index}.{}", processes_key(list)), &known, row);
    }
}
