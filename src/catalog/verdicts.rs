//! The verdict table: every conclusion that has states, once. Timelines and the expectations of
//! scenarios go by it.

use crate::model::frame::Frame;
use crate::model::pool::{Exhaustion, Reader};
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{Attribution, Holder, MemoryReport, Sharing};
use crate::model::source::{Source, SourceState};
use crate::model::throttle::ThrottleState;
use crate::model::training::TrainingRun;
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
        states: || vec!["steady", "slow", "unknown"],
        read: |f, out| {
            for run in &f.verdicts.training {
                let (state, evidence) = match run.pace.slow {
                    Ok(true) => ("slow", pace(run)),
                    Ok(false) => ("steady", pace(run)),
                    Err(reason) => ("unknown", reason.as_str().to_owned()),
                };
                out(&run.run, state, evidence);
            }
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
