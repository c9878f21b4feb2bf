//! From answers to facts: units, plausibility, and the process lists joined by pid.

use super::Pace;
use super::answers::{Answer, Answers, FIELDS, Number, Refusal, System, Text};
use super::gone;
use crate::model::fields::Group;
use crate::model::gpu::{ClockKind, Gpu, GpuProcess, Gpus, MemoryFigures, ProcessList, TIMED};
use crate::model::reading::{Missing, Reading};
use crate::sources::files::ReadError;
use crate::sources::lines::label;
use crate::units::{Bytes, Celsius, Count, Hertz, Joules, Ratio, Seconds, Watts};
use std::collections::BTreeMap;

/// More GPUs than a machine has.
pub(super) const MAX_GPUS: u32 = 32;
/// More processes than a GPU serves; a list that is longer is cut.
const MAX_PROCESSES: usize = 1024;
/// Different Xid errors kept apart, those counted from zero included. A machine sees a handful in its
/// life.
const MAX_XIDS: usize = 512;
/// Xids that GB10 machines are known for, and those that end in a reset. They are counted from zero, so that the
/// first one shows as an increase.
const KNOWN_XIDS: [u32; 14] = [13, 31, 43, 45, 48, 62, 64, 74, 79, 94, 95, 119, 120, 154];

/// What is kept from round to round.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The GPUs as they were found. What a GPU is does not change while the driver is loaded, so it is
    /// asked once.
    known: Vec<Gpu>,
    /// Xid errors so far.
    xids: BTreeMap<(u32, u32), u64>,
    /// Whose they are.
    uuids: BTreeMap<u32, String>,
}

impl Memory {
    /// Xid errors are a GPU's own: another one in its place starts from zero.
    fn meet(&mut self, gpu: &Gpu) {
        let Ok(uuid) = &gpu.uuid else { return };
        let before = self.uuids.insert(gpu.index, uuid.clone());
        if before.is_some_and(|before| before != *uuid) {
            self.xids.retain(|(index, _), _| *index != gpu.index);
        }
    }

    /// The driver may be another one now.
    pub(super) fn forget_devices(&mut self) {
        self.known.clear();
    }
}

/// What a round has come across.
struct Round<'a> {
    answers: &'a mut dyn Answers,
    late: Box<dyn Fn() -> bool + 'a>,
    /// The first thing worth reporting about the source as a whole.
    problem: Option<(String, Refusal)>,
    ends_session: bool,
}

/// How a round ended.
pub(super) struct Outcome {
    pub(super) result: Result<(), ReadError>,
    /// Whether the library has to be started afresh.
    pub(super) ends_session: bool,
}

/// Asks everything, until `deadline`.
pub(super) fn gather(
    answers: &mut dyn Answers,
    pace: &Pace<'_>,
    memory: &mut Memory,
    into: &mut Gpus,
) -> Outcome {
    let until = (pace.now)() + pace.limits.deadline;
    let late = Box::new(move || (pace.now)() > until);
    let mut round = Round { answers, late, problem: None, ends_session: false };
    round.system(into);
    round.devices(memory, into);
    round.xids(memory, into);
    let result = if (round.late)() {
        // What was answered before the call that blocked may be minutes old by now.
        *into = Gpus { via: into.via, ..Gpus::absent(Missing::Hung) };
        Err(too_late(pace))
    } else if let Some((what, refusal)) = round.problem {
        Err(gone(format!("{what}: {refusal}"), refusal.reason()))
    } else {
        Ok(())
    };
    Outcome { result, ends_session: round.ends_session }
}

/// A round that took too long.
pub(super) fn too_late(pace: &Pace<'_>) -> ReadError {
    let deadline = pace.limits.deadline.as_secs_f64();
    gone(format!("the driver took longer than {deadline} s to answer"), Missing::Hung)
}

impl Round<'_> {
    /// Asks one question, unless time is up.
    fn ask<T>(
        &mut self,
        what: &dyn Fn() -> String,
        question: impl FnOnce(&mut dyn Answers) -> Answer<T>,
    ) -> Reading<T> {
        let answer = if (self.late)() { Err(Refusal::Late) } else { question(self.answers) };
        answer.map_err(|refusal| self.refused(what, refusal))
    }

    /// Notes a refusal. That a device does not have something, or an older library does not know it,
    /// is no fault of the source.
    fn refused(&mut self, what: &dyn Fn() -> String, refusal: Refusal) -> Missing {
        let reason = refusal.reason();
        if refusal.ends_session() && !std::mem::replace(&mut self.ends_session, true) {
            // Worth more than a small problem that came before it.
            self.problem = None;
        }
        let harmless =
            matches!(reason, Missing::Unsupported | Missing::NotAvailable | Missing::NoSymbol);
        if !harmless && self.problem.is_none() {
            self.problem = Some((what(), refusal));
        }
        reason
    }

    fn system(&mut self, into: &mut Gpus) {
        let named = |what: &'static str| move || what.to_owned();
        into.driver = self
            .ask(&named("driver version"), |a| a.system(System::Driver))
            .map(|text| label(&text));
        into.library = self
            .ask(&named("NVML version"), |a| a.system(System::Library))
            .map(|text| label(&text));
        let cuda = self.ask(&named("CUDA version"), |a| {
            a.cuda().and_then(|v| if v >= 1000 { Ok(v) } else { Err(Refusal::Nonsense) })
        });
        into.cuda = cuda.map(|v| format!("{}.{}", v / 1000, v % 1000 / 10));
    }

    fn devices(&mut self, memory: &mut Memory, into: &mut Gpus) {
        let count = match self.ask(&|| "number of GPUs".to_owned(), |a| a.count()) {
            Ok(0) => {
                let none = Refusal::Code(super::answers::code::GPU_NOT_FOUND);
                self.refused(&|| "number of GPUs".to_owned(), none);
                // Worth more than "not present", which it is no harm to be.
                self.problem.get_or_insert(("number of GPUs".to_owned(), none));
                into.devices = Ok(Vec::new());
                return;
            }
            Ok(count) => count.min(MAX_GPUS),
            Err(reason) => {
                *into = Gpus { via: into.via, path: into.path.clone(), ..Gpus::absent(reason) };
                return;
            }
        };
        let known = std::mem::take(&mut memory.known);
        let devices: Vec<Gpu> = (0..count)
            .map(|index| {
                let found = self.ask(&|| format!("GPU {index}"), |a| a.find(index));
                match found {
                    Ok(()) => self.device(index, known.get(index as usize)),
                    Err(reason) => Gpu::absent(index, reason),
                }
            })
            .collect();
        for gpu in &devices {
            memory.meet(gpu);
        }
        memory.known.clone_from(&devices);
        into.devices = Ok(devices);
    }

    fn device(&mut self, index: u32, known: Option<&Gpu>) -> Gpu {
        let mut gpu = self.identity(index, known);
        gpu.memory = self.memory(index);
        (gpu.processes, gpu.listed) = self.processes(index);
        gpu.utilization = self
            .number(index, Number::Utilization, UTILIZATION)
            .map(|percent| Ratio::from_percent(percent.unsigned_abs()));
        gpu.temperature = self
            .number(index, Number::Temperature, TEMPERATURE)
            .map(|degrees| Celsius::from_milli(degrees * 1000));
        gpu.margin = self
            .number(index, Number::Margin, MARGIN)
            .map(|degrees| Celsius::from_milli(degrees * 1000));
        gpu.power = self.number(index, Number::Power, POWER).map(watts);
        gpu.energy = self
            .number(index, Number::Energy, 0..=i64::MAX)
            .map(|milli| Joules::from_milli(milli.unsigned_abs()));
        for kind in ClockKind::ALL {
            gpu.clocks[*kind as usize] = self.number(index, Number::Clock(*kind), CLOCK).map(hertz);
        }
        gpu.performance_state = self
            .number(index, Number::PerformanceState, PERFORMANCE_STATE)
            .map(|state| Count(state.unsigned_abs()));
        gpu.event_reasons = self
            .number(index, Number::EventReasons, 0..=i64::MAX)
            .map(|mask| Count(mask.unsigned_abs()));
        self.fields(index, &mut gpu);
        gpu
    }

    /// What the GPU is. It is asked once, but for its identity, which tells whether it is still the same
    /// one, and for what was not answered.
    fn identity(&mut self, index: u32, known: Option<&Gpu>) -> Gpu {
        let mut gpu = Gpu::absent(index, Missing::Pending);
        let ask = |round: &mut Self, what: Text| {
            let named = || format!("GPU {index}: {}", what.key());
            round.ask(&named, |a| a.text(index, what)).map(|text| label(&text))
        };
        gpu.uuid = ask(self, Text::Uuid);
        let known = known.filter(|known| known.uuid.is_ok() && known.uuid == gpu.uuid);
        let mut known = known.cloned();
        for what in [
            Text::Name,
            Text::Bus,
            Text::PciDeviceId,
            Text::Vbios,
            Text::ComputeCapability,
            Text::AddressingMode,
        ] {
            *slot(&mut gpu, what) = match known.as_mut().map(|known| slot(known, what).clone()) {
                Some(settled @ (Ok(_) | Err(Missing::Unsupported | Missing::NoSymbol))) => settled,
                _ => ask(self, what),
            };
        }
        for kind in ClockKind::ALL {
            let place = *kind as usize;
            gpu.clocks_max[place] = match known.as_ref().map(|known| known.clocks_max[place]) {
                Some(settled @ (Ok(_) | Err(Missing::Unsupported | Missing::NoSymbol))) => settled,
                _ => self.number(index, Number::ClockMax(*kind), CLOCK).map(hertz),
            };
        }
        gpu
    }

    /// A number within what the question can have for an answer.
    fn number(
        &mut self,
        index: u32,
        what: Number,
        range: std::ops::RangeInclusive<i64>,
    ) -> Reading<i64> {
        let named = || format!("GPU {index}: {}", what.key());
        self.ask(&named, |a| a.number(index, what).and_then(|n| within(n, &range)))
    }

    fn fields(&mut self, index: u32, gpu: &mut Gpu) {
        let answers = if (self.late)() {
            [Err(Refusal::Late); FIELDS.len()]
        } else {
            self.answers.fields(index)
        };
        for (what, answer) in FIELDS.into_iter().zip(answers) {
            let range = match what {
                Number::PowerAverage | Number::PowerInstant => POWER,
                _ => 0..=i64::MAX,
            };
            let reading = answer.and_then(|n| within(n, &range)).map_err(|refusal| {
                self.refused(&|| format!("GPU {index}: {}", what.key()), refusal)
            });
            match what {
                Number::PowerAverage => gpu.power_average = reading.map(watts),
                Number::PowerInstant => gpu.power_instant = reading.map(watts),
                Number::EventTime(reason) => {
                    if let Some(place) = TIMED.iter().position(|timed| *timed == reason) {
                        gpu.event_seconds[place] =
                            reading.map(|nano| Seconds::from_nano(nano.unsigned_abs()));
                    }
                }
                _ => {}
            }
        }
    }

    fn memory(&mut self, index: u32) -> Reading<MemoryFigures> {
        let named = || format!("GPU {index}: memory");
        self.ask(&named, |a| {
            let figures = a.memory(index)?;
            // Reserved memory makes free and used together less than the total, never more.
            let sensible = figures.free.plus(figures.used) <= figures.total;
            if sensible { Ok(figures) } else { Err(Refusal::Nonsense) }
        })
    }

    fn processes(&mut self, index: u32) -> (Reading<Vec<GpuProcess>>, Listed) {
        let mut all = BTreeMap::new();
        let mut listed = [Err(Missing::Pending); ProcessList::ALL.len()];
        for &list in ProcessList::ALL {
            let named = || format!("GPU {index}: {} processes", list.as_str());
            let rows = self.ask(&named, |a| a.processes(index, list));
            if let Ok(rows) = &rows {
                join(&mut all, list, rows);
            }
            listed[list as usize] = rows.map(|rows| Count(rows.len() as u64));
        }
        let all = listed[ProcessList::Compute as usize].map(|_| all.into_values().collect());
        (all, listed)
    }

    fn xids(&mut self, memory: &mut Memory, into: &mut Gpus) {
        let named = || "Xid events".to_owned();
        let present = into.each().count();
        let present = |gpu: u32| (gpu as usize) < present;
        into.xids = self.ask(&named, |a| a.xids()).map(|heard| {
            for gpu in heard.gpus.iter().filter(|gpu| present(**gpu)) {
                for xid in KNOWN_XIDS {
                    memory.xids.entry((*gpu, xid)).or_insert(0);
                }
            }
            for seen in heard.errors {
                if memory.xids.len() < MAX_XIDS || memory.xids.contains_key(&seen) {
                    *memory.xids.entry(seen).or_insert(0) += 1;
                }
            }
            if let Some(end) = heard.end {
                self.refused(&named, end);
            }
            let of = |((gpu, _), _): &(&(u32, u32), &u64)| present(*gpu);
            memory.xids.iter().filter(of).map(|(key, count)| (*key, *count)).collect()
        });
    }
}

/// Rows of each list.
type Listed = [Reading<Count>; ProcessList::ALL.len()];

/// Percent.
pub(super) const UTILIZATION: std::ops::RangeInclusive<i64> = 0..=100;
/// Degrees.
pub(super) const TEMPERATURE: std::ops::RangeInclusive<i64> = 0..=150;
/// Degrees.
pub(super) const MARGIN: std::ops::RangeInclusive<i64> = -100..=150;
/// Milliwatts: more than any GPU draws.
pub(super) const POWER: std::ops::RangeInclusive<i64> = 0..=10_000_000;
/// MHz: faster than any GPU runs.
pub(super) const CLOCK: std::ops::RangeInclusive<i64> = 0..=20_000;
/// From the fastest to the slowest.
pub(super) const PERFORMANCE_STATE: std::ops::RangeInclusive<i64> = 0..=15;

/// The place of a text.
fn slot(gpu: &mut Gpu, what: Text) -> &mut Reading<String> {
    match what {
        Text::Name => &mut gpu.name,
        Text::Uuid => &mut gpu.uuid,
        Text::Bus => &mut gpu.bus,
        Text::PciDeviceId => &mut gpu.pci_device_id,
        Text::Vbios => &mut gpu.vbios,
        Text::ComputeCapability => &mut gpu.compute_capability,
        Text::AddressingMode => &mut gpu.addressing_mode,
    }
}

fn within(number: i64, range: &std::ops::RangeInclusive<i64>) -> Answer<i64> {
    if range.contains(&number) { Ok(number) } else { Err(Refusal::Nonsense) }
}

pub(super) fn watts(milli: i64) -> Watts {
    Watts::from_milli(milli.unsigned_abs())
}

pub(super) fn hertz(mega: i64) -> Hertz {
    Hertz::from_mega(mega.unsigned_abs())
}

/// Adds a list to the processes by pid: the larger figure counts, because one process often stands in
/// two lists with the same memory.
pub(super) fn join(
    all: &mut BTreeMap<u32, GpuProcess>,
    list: ProcessList,
    rows: &[super::answers::ProcessRow],
) {
    for &(pid, bytes) in rows {
        if all.len() >= MAX_PROCESSES && !all.contains_key(&pid) {
            continue;
        }
        let process = all.entry(pid).or_insert(GpuProcess {
            pid,
            memory: Err(Missing::NotAvailable),
            lists: [false; ProcessList::ALL.len()],
        });
        process.lists[list as usize] = true;
        if let Some(bytes) = bytes {
            process.memory = Ok(process.memory.unwrap_or(Bytes(0)).max(Bytes(bytes)));
        }
    }
}
