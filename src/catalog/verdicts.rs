//! The verdict table: every conclusion that has states, once. Timelines and the expectations of
//! scenarios go by it.

use crate::model::contention::{ContentionState, PressureState, Symptom};
use crate::model::frame::Frame;
use crate::model::kernel_log::{During, NoMemory, NoMemoryState};
use crate::model::pool::{Exhaustion, Reader};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Attribution, Holder, MemoryReport, Sharing};
use crate::model::source::{Source, SourceState};
use crate::model::throttle::ThrottleState;
use crate::model::training::TrainingRun;
use crate::model::workload::{CapKind, Class, Family, Job, Phase, View};
use crate::units::{Bytes, GIB, Seconds};

/// One verdict.
pub struct Verdict {
    /// Its name; of those that a box has several of, `name[member]` names one.
    pub name: &'static str,
    /// Every state that it can have.
    pub states: fn() -> Vec<&'static str>,
    /// Takes its states from a frame: member (empty for a verdict that is there once), state, evidence.
    pub read: fn(&Frame, Told<'_>),
}

/// Receives a verdict's states.
pub type Told<'a> = &'a mut dyn FnMut(&str, &'static str, String);

const YES_NO: [&str; 3] = ["yes", "no", "unknown"];

fn yes_no(reading: Reading<bool>) -> &'static str {
    match reading {
        Ok(true) => "yes",
        Ok(false) => "no",
        Err(_) => "unknown",
    }
}

fn told<T: std::fmt::Display>(reading: Reading<T>) -> String {
    reading.map_or_else(|reason| reason.as_str().to_owned(), |value| value.to_string())
}

fn exhaustion(f: &Frame, out: Told<'_>) {
    let pool = &f.verdicts.pool;
    let available = told(pool.available);
    let (state, evidence) = match pool.exhaustion {
        Exhaustion::Unknown(reason) => ("unknown", reason.as_str().to_owned()),
        Exhaustion::Roomy => ("roomy", format!("available {available}")),
        Exhaustion::Steady => ("steady", format!("available {available}")),
        Exhaustion::Falling { to_reserve, slope, over } => {
            let rate = -slope.0 / Bytes(GIB).as_f64();
            let evidence = format!(
                "available {available}, falling {rate:.2} GiB/s over {over}, reserve in {to_reserve}"
            );
            ("falling", evidence)
        }
    };
    out("", state, evidence);
}

/// A run's step against its own pace.
fn pace(run: &TrainingRun) -> String {
    match (run.pace.step, run.pace.baseline) {
        (Ok(Seconds(step)), Ok(Seconds(base))) => {
            format!("a step takes {step:.3} s, {base:.3} s in the run's own steady minutes")
        }
        _ => String::new(),
    }
}

/// What a job holds.
fn held(job: &Job) -> String {
    match job.host {
        Err(Missing::NotPresent) => format!("GPU {}", told(job.gpu)),
        host => format!("GPU {}, CPU {}", told(job.gpu), told(host)),
    }
}

/// The jobs that hold something or may come to, by class and unit; of several alike, by pid as well.
fn jobs(f: &Frame) -> Vec<(String, &Job)> {
    let jobs: Vec<&Job> = f.verdicts.workloads.jobs.iter().flat_map(|jobs| jobs.iter()).collect();
    let mut named: Vec<(String, &Job)> = jobs
        .iter()
        .filter(|job| !matches!(job.class.class.family(), Family::Compiler | Family::Desktop))
        .map(|job| {
            let alike = |other: &&&Job| other.class == job.class && other.unit == job.unit;
            let name = format!("{}.{}", job.class.as_str(), job.unit);
            let several = jobs.iter().filter(alike).count() > 1;
            (if several { format!("{name}.{}", job.pid) } else { name }, *job)
        })
        .collect();
    // The order of a timeline does not change with sizes.
    named.sort_by(|a, b| a.0.cmp(&b.0));
    named
}

/// The job that holds most.
fn holder(f: &Frame, out: Told<'_>) {
    match &f.verdicts.workloads.jobs {
        Err(reason) => out("", "unknown", reason.as_str().to_owned()),
        Ok(jobs) => match jobs.first() {
            Some(job) if job.held() > Bytes(0) => {
                out(
                    "",
                    job.class.class.as_str(),
                    format!("{} ({}): {}", job.class.as_str(), job.unit, held(job)),
                );
            }
            _ => out("", "nobody", String::new()),
        },
    }
}

/// Messages of memory that the driver did not get, by what the jobs did.
fn no_memory(counts: &NoMemory) -> String {
    let counted = During::ALL.iter().zip(counts.recent).filter(|(_, count)| *count > 0);
    let parts: Vec<String> =
        counted.map(|(during, count)| format!("{count} {}", during.as_str())).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("{} within {}", parts.join(", "), counts.within)
    }
}

fn silence(run: &TrainingRun) -> String {
    run.last_step.map(|age| format!("no step for {age}")).unwrap_or_default()
}

/// Every verdict.
pub const VERDICTS: &[Verdict] = &[
    Verdict {
        name: "pool.exhaustion",
        states: || vec!["unknown", "roomy", "steady", "falling"],
        read: exhaustion,
    },
    Verdict {
        name: "pool.imminent",
        states: || YES_NO.to_vec(),
        read: |f, out| {
            let pool = &f.verdicts.pool;
            out("", yes_no(pool.imminent), format!("available {}", told(pool.available)));
        },
    },
    Verdict {
        name: "pool.below_reserve",
        states: || YES_NO.to_vec(),
        read: |f, out| {
            let pool = &f.verdicts.pool;
            let headroom = told(pool.headroom[Reader::Available as usize]);
            let evidence = format!("available {}, headroom {headroom}", told(pool.available));
            out("", yes_no(pool.below_reserve), evidence);
        },
    },
    Verdict {
        name: "pool.attribution",
        states: || Attribution::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| {
            let u = &f.verdicts.unaccounted;
            let parts = Holder::ALL.iter().zip(u.parts);
            let parts: Vec<String> = parts
                .filter_map(|(holder, part)| Some(format!("{} {}", holder.as_str(), part.ok()?)))
                .collect();
            out("", u.attribution.as_str(), parts.join(", "));
        },
    },
    Verdict {
        name: "gpu.memory_report",
        states: || MemoryReport::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| {
            for gpu in f.verdicts.gpus.iter().flatten() {
                out(&gpu.index.to_string(), gpu.report.as_str(), String::new());
            }
        },
    },
    Verdict {
        name: "gpu.sharing",
        states: || Sharing::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| {
            for gpu in f.verdicts.gpus.iter().flatten() {
                out(&gpu.index.to_string(), gpu.sharing.as_str(), gpu.basis.as_str().to_owned());
            }
        },
    },
    Verdict {
        name: "gpu.throttle",
        states: || ThrottleState::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| {
            for gpu in &f.verdicts.throttle {
                out(&gpu.index.to_string(), gpu.state().as_str(), gpu.evidence.clone());
            }
        },
    },
    Verdict {
        name: "gpu.signature",
        states: || YES_NO.to_vec(),
        read: |f, out| {
            for gpu in &f.verdicts.throttle {
                let evidence = match gpu.signature {
                    Ok(true) => gpu.evidence.clone(),
                    Ok(false) => String::new(),
                    Err(reason) => reason.as_str().to_owned(),
                };
                out(&gpu.index.to_string(), yes_no(gpu.signature), evidence);
            }
        },
    },
    Verdict {
        name: "gpu.clock_cap",
        states: || vec!["in_force", "none", "unknown"],
        read: |f, out| {
            for gpu in &f.verdicts.throttle {
                let (state, evidence) = match gpu.cap {
                    Ok(cap) => ("in_force", format!("SM clock stays at {cap}")),
                    Err(Missing::NotPresent) => ("none", String::new()),
                    Err(reason) => ("unknown", reason.as_str().to_owned()),
                };
                out(&gpu.index.to_string(), state, evidence);
            }
        },
    },
    Verdict {
        name: "train.pace",
        states: || vec!["steady", "slow", "stalled", "unknown"],
        read: |f, out| {
            for run in &f.verdicts.training {
                let (state, evidence) = match run.pace.slow {
                    _ if run.stalled == Ok(true) => ("stalled", silence(run)),
                    Ok(true) => ("slow", pace(run)),
                    Ok(false) => ("steady", pace(run)),
                    Err(reason) => ("unknown", reason.as_str().to_owned()),
                };
                out(&run.run, state, evidence);
            }
        },
    },
    Verdict {
        name: "pool.holder",
        states: || {
            Class::ALL.iter().map(|class| class.as_str()).chain(["nobody", "unknown"]).collect()
        },
        read: holder,
    },
    Verdict {
        name: "job.phase",
        states: || Phase::ALL.iter().map(|phase| phase.as_str()).collect(),
        read: |f, out| {
            for (name, job) in jobs(f) {
                if let Ok(phase) = job.phase {
                    out(&name, phase.as_str(), held(job));
                }
            }
        },
    },
    Verdict {
        name: "job.cap",
        states: || CapKind::ALL.iter().map(|kind| kind.as_str()).chain(["exceeded"]).collect(),
        read: |f, out| {
            for (name, job) in jobs(f) {
                let state = if job.cap.exceeded { "exceeded" } else { job.cap.kind.as_str() };
                let evidence = match job.cap.bytes {
                    Ok(bytes) => format!("cap {bytes}; {}", held(job)),
                    Err(_) => held(job),
                };
                out(&name, state, evidence);
            }
        },
    },
    Verdict {
        name: "jobs.contention",
        states: || ContentionState::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| {
            let contention = &f.verdicts.contention;
            let first = contention.stop_first.as_ref().map(|first| format!("; stop {first}"));
            let evidence = format!("{}{}", contention.evidence, first.unwrap_or_default());
            out("", contention.state.as_str(), evidence);
        },
    },
    Verdict {
        name: "jobs.release",
        states: || vec!["none", "pending", "unknown"],
        read: |f, out| match f.verdicts.release.pending {
            Ok(Bytes(0)) => out("", "none", String::new()),
            Ok(pending) => out("", "pending", format!("{pending} of jobs that have ended")),
            Err(reason) => out("", "unknown", reason.as_str().to_owned()),
        },
    },
    Verdict {
        name: "jobs.orphan",
        states: || vec!["none", "seen", "suspected"],
        read: |f, out| {
            let orphans = &f.verdicts.release.orphans;
            let worst = orphans.iter().find(|orphan| orphan.seen).or_else(|| orphans.first());
            match worst {
                None => out("", "none", String::new()),
                Some(orphan) => {
                    let state = if orphan.seen { "seen" } else { "suspected" };
                    let (class, unit) = (orphan.class.as_str(), &orphan.unit);
                    out("", state, format!("{class} ({unit}) holds {}", orphan.held));
                }
            }
        },
    },
    Verdict {
        name: "pool.pressure",
        states: || PressureState::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| {
            let pressed = &f.verdicts.pressed;
            out("", pressed.state.as_str(), pressed.evidence.clone());
        },
    },
    Verdict {
        name: "symptom",
        states: || YES_NO.to_vec(),
        read: |f, out| {
            for symptom in Symptom::ALL {
                let sign = f.verdicts.pressed.sign(*symptom);
                out(symptom.as_str(), yes_no(sign.shows), sign.evidence.clone());
            }
        },
    },
    Verdict {
        name: "jobs.view",
        states: || View::ALL.iter().map(|view| view.as_str()).collect(),
        read: |f, out| {
            let view = f.verdicts.workloads.view;
            let evidence = view.err().map(|reason| reason.as_str().to_owned());
            out("", view.unwrap_or(View::Unknown).as_str(), evidence.unwrap_or_default());
        },
    },
    Verdict {
        name: "kernel.no_memory",
        states: || NoMemoryState::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| match &f.verdicts.kernel_log {
            Ok(heard) => {
                let counts = &heard.no_memory;
                out("", counts.state().as_str(), no_memory(counts));
            }
            Err(reason) => out("", NoMemoryState::Unknown.as_str(), reason.as_str().to_owned()),
        },
    },
    Verdict {
        name: "source",
        states: || SourceState::ALL.iter().map(|state| state.as_str()).collect(),
        read: |f, out| {
            for source in Source::ALL {
                let health = &f.health.sources[source.index()];
                if let Some(state) = health.state {
                    let evidence = health.message.as_deref().unwrap_or_default().to_owned();
                    out(source.as_str(), state.as_str(), evidence);
                }
            }
        },
    },
    Verdict {
        name: "boot.unclean",
        states: || YES_NO.to_vec(),
        read: |f, out| {
            let seen = f.boot.previous_seen.map(|at| format!("last seen alive at {at}"));
            out("", yes_no(f.boot.unclean), seen.unwrap_or_default());
        },
    },
];

/// Every verdict of a frame, as `name` or `name[member]`, with its state and evidence.
#[must_use]
pub fn of(frame: &Frame) -> Vec<(String, &'static str, String)> {
    let mut all = Vec::new();
    for verdict in VERDICTS {
        (verdict.read)(frame, &mut |member, state, evidence| {
            let name = match member {
                "" => verdict.name.to_owned(),
                member => format!("{}[{member}]", verdict.name),
            };
            all.push((name, state, evidence));
        });
    }
    all
}

/// Whether a verdict of this name can have this state.
///
/// # Errors
/// What there is instead.
pub fn check(name: &str, state: &str) -> Result<(), String> {
    let bare = name.split('[').next().unwrap_or_default();
    let Some(verdict) = VERDICTS.iter().find(|verdict| verdict.name == bare) else {
        let names: Vec<_> = VERDICTS.iter().map(|verdict| verdict.name).collect();
        return Err(format!("{name:?} is no verdict; there are {}", names.join(", ")));
    };
    let states = (verdict.states)();
    if states.contains(&state) {
        Ok(())
    } else {
        Err(format!("{name} is never {state:?}; it can be {}", states.join(", ")))
    }
}
