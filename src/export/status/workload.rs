//! Jobs and workloads, as parts of the status document.

use super::{Figure, bytes};
use crate::model::workload::{CapSetting, Job, Workloads};
use crate::units::Ratio;
use serde::{Deserialize, Serialize};

/// Who holds the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldersPart {
    /// How much of the box's processes can be seen.
    pub view: Figure<String>,
    /// What that means, and what to do about it.
    pub hint: Option<String>,
    /// The jobs, largest first.
    pub jobs: Figure<Vec<JobPart>>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobPart {
    /// Its class.
    pub workload: String,
    /// Its unit.
    pub unit: String,
    /// The pid of its first process.
    pub pid: u32,
    /// When that started, seconds since boot.
    pub started: f64,
    /// Processes.
    pub processes: u64,
    /// What the driver charges to it.
    pub gpu_memory: Figure<u64>,
    /// The part of it that lies in the pool.
    pub in_pool: Figure<u64>,
    /// Resident memory, mapped files included.
    pub resident: Figure<u64>,
    /// Anonymous and shared memory.
    pub host: Figure<u64>,
    /// Memory in swap.
    pub swap: Figure<u64>,
    /// What the control group of its unit accounts for.
    pub group: Figure<u64>,
    /// The limit of that. It does not bind the GPU's memory.
    pub group_limit: Figure<u64>,
    /// What bounds its GPU memory.
    pub cap: CapPart,
    /// What it is doing.
    pub phase: Figure<String>,
    /// The most that it held while it loaded.
    pub load_peak: Figure<u64>,
    /// What it held when it had settled.
    pub settled: Figure<u64>,
    /// CPUs that it uses.
    pub cpus: Figure<f64>,
}

impl JobPart {
    /// Whether it holds memory of a GPU, or does what jobs on a GPU do: launchers, compilers and the desktop
    /// have no phase.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.gpu_memory.value().is_some_and(|bytes| *bytes > 0) || self.phase.value().is_some()
    }
}

/// What bounds a job's GPU memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapPart {
    /// What kind of bound it is.
    pub kind: String,
    /// The share that was set, for kinds that are shares.
    pub share: Option<f64>,
    /// The bound in bytes.
    pub bytes: Figure<u64>,
    /// Whether it holds more than that: then it is no bound.
    pub exceeded: bool,
}

impl HoldersPart {
    pub(super) fn of(workloads: &Workloads) -> Self {
        let hint = workloads.view.ok().map(|view| match view.advice() {
            Some(advice) => format!("{} To do: {advice}.", view.describe()),
            None => view.describe().to_owned(),
        });
        Self {
            view: Figure::of(workloads.view, |view| view.as_str().to_owned()),
            hint,
            jobs: match &workloads.jobs {
                Ok(jobs) => Figure::Value(jobs.iter().map(JobPart::of).collect()),
                Err(reason) => Figure::Missing { missing: reason.as_str().to_owned() },
            },
        }
    }
}

impl JobPart {
    fn of(job: &Job) -> Self {
        let share = match job.cap.setting {
            CapSetting::Whole(Ratio(share)) | CapSetting::FractionOfFree(Ratio(share)) => {
                Some(share)
            }
            _ => None,
        };
        Self {
            workload: job.class.as_str().to_owned(),
            unit: job.unit.to_string(),
            pid: job.pid,
            started: job.started.0,
            processes: job.processes,
            gpu_memory: bytes(job.gpu),
            in_pool: bytes(job.in_pool),
            resident: bytes(job.resident),
            host: bytes(job.host),
            swap: bytes(job.swap),
            group: bytes(job.group),
            group_limit: bytes(job.group_limit),
            cap: CapPart {
                kind: job.cap.kind.as_str().to_owned(),
                share,
                bytes: bytes(job.cap.bytes),
                exceeded: job.cap.exceeded,
            },
            phase: Figure::of(job.phase, |phase| phase.as_str().to_owned()),
            load_peak: bytes(job.load_peak),
            settled: bytes(job.settled),
            cpus: Figure::of(job.cpus, |Ratio(cpus)| cpus),
        }
    }
}
