//! One job from look to look: its phase, its sizes, the work it does.

use super::group::Tree;
use crate::derive::window::{Extreme, Keep};
use crate::model::gpu::Gpus;
use crate::model::reading::{Missing, Reading};
use crate::model::workload::{Family, Job, JobId, Phase, Proc};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Count, Ratio, Seconds};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Which process: pids come again, a pid with a start does not.
pub(super) type Identity = JobId;

pub(super) fn identity(proc: &Proc) -> Identity {
    (proc.pid, proc.started.ticks())
}

/// The utilization of the GPUs over the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy {
    samples: VecDeque<(Duration, f64)>,
    state: Option<bool>,
}

impl Busy {
    /// Single requests come and go; the phase is that of a quarter of a minute.
    const WINDOW: Duration = Duration::from_secs(15);

    pub(super) fn note(&mut self, at: Duration, gpus: &Gpus, t: &Thresholds) {
        let told = gpus.each().filter_map(|gpu| gpu.utilization.ok()).map(|Ratio(share)| share);
        let Some(most) = told.reduce(f64::max) else {
            self.samples.clear();
            self.state = None;
            return;
        };
        self.samples.push_back((at, most));
        while self.samples.front().is_some_and(|(then, _)| at.saturating_sub(*then) > Self::WINDOW)
        {
            self.samples.pop_front();
        }
        let sum: f64 = self.samples.iter().map(|(_, share)| share).sum();
        let mean = sum / Count(self.samples.len() as u64).as_f64();
        self.state = Some(mean >= t.idle_below.0);
    }

    /// Whether the GPU works; none when its utilization is not told.
    pub(super) const fn state(&self) -> Option<bool> {
        self.state
    }
}

/// What processes have used and waited for since they were last read.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    at: Option<Duration>,
    cpu: Counted,
    faults: Counted,
}

/// A counter of each process, and what it has moved by.
#[derive(Clone, Debug, Default)]
struct Counted {
    before: BTreeMap<Identity, f64>,
    /// A second, by a job's first process.
    rates: BTreeMap<Identity, f64>,
}

impl Counted {
    fn note(&mut self, trees: &[Tree<'_>], passed: Option<f64>, of: fn(&Proc) -> Reading<f64>) {
        let mut now = BTreeMap::new();
        self.rates.clear();
        for tree in trees {
            let (mut moved, mut known) = (0.0, false);
            for proc in tree.members() {
                let id = identity(proc);
                let Ok(reads) = of(proc) else { continue };
                if let Some(before) = self.before.get(&id) {
                    moved += (reads - before).max(0.0);
                    known = true;
                }
                now.insert(id, reads);
            }
            if let (true, Some(passed)) = (known, passed.filter(|passed| *passed > 0.0)) {
                let id = identity(&tree.root);
                self.rates.insert(id, moved / passed);
            }
        }
        self.before = now;
    }

    fn told(&self, id: Identity) -> Reading<f64> {
        self.rates.get(&id).copied().ok_or(Missing::Pending)
    }
}

impl Moved {
    /// Takes in a new round of processes.
    pub(super) fn note(&mut self, at: Duration, trees: &[Tree<'_>]) {
        let passed = self.at.map(|before| at.saturating_sub(before).as_secs_f64());
        self.cpu.note(trees, passed, |proc| proc.cpu.map(|Seconds(cpu)| cpu));
        self.faults.note(trees, passed, |proc| proc.major_faults.map(Count::as_f64));
        self.at = Some(at);
    }

    /// CPUs that a job uses, and its major faults a second.
    pub(super) fn told(&self, id: Identity) -> (Reading<Ratio>, Reading<f64>) {
        (self.cpu.told(id).map(Ratio), self.faults.told(id))
    }
}

/// What the phase depends on beside the job itself.
pub(super) struct Look {
    /// Now.
    pub(super) at: Duration,
    /// Whether nothing else holds GPU memory worth mentioning.
    pub(super) alone: bool,
    /// Time since boot.
    pub(super) uptime: Option<Seconds>,
    /// Whether the GPU works.
    pub(super) busy: Option<bool>,
}

/// What is remembered of a job.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    /// Since when it is watched.
    since: Duration,
    /// Whether it began under the exporter's eyes.
    pub(super) begun: bool,
    /// Available memory when it began.
    available: Reading<Bytes>,
    /// The least that it held on the GPU lately, and the least that it had mapped.
    gpu: Extreme<u64>,
    file: Extreme<u64>,
    /// When it was last seen to grow.
    grew: Option<Duration>,
    settled: Option<Bytes>,
    peak: Option<Bytes>,
    /// Whether it neither begins nor grows, whatever else it does.
    rests: bool,
    pub(super) phase: Phase,
}

impl Followed {
    pub(super) fn new(at: Duration, begun: bool, available: Reading<Bytes>) -> Self {
        let window = || Extreme::new(Keep::Min, Duration::ZERO);
        let available = if begun { available } else { Err(Missing::NotAvailable) };
        Self {
            since: at,
            begun,
            available,
            gpu: window(),
            file: window(),
            grew: None,
            settled: None,
            peak: None,
            rests: false,
            phase: Phase::Unknown,
        }
    }

    /// What was available when it began.
    pub(super) const fn available_at_start(&self) -> Reading<Bytes> {
        self.available
    }

    /// What it held when it had last settled.
    pub(super) fn settled(&self) -> Reading<Bytes> {
        self.settled.ok_or(Missing::Pending)
    }

    /// The most that it held while it loaded, if that was seen.
    pub(super) fn load_peak(&self) -> Reading<Bytes> {
        self.peak.ok_or(Missing::NotPresent)
    }

    /// What it does now.
    pub(super) fn phase(&mut self, job: &Job, look: &Look, t: &Thresholds) -> Phase {
        self.rests = false;
        self.phase = self.judge(job, look, t);
        let (gpu, resident) = (job.gpu.unwrap_or_default(), job.resident.unwrap_or_default());
        match self.phase {
            Phase::Starting | Phase::Loading | Phase::Warming
                if self.begun || self.grew.is_some() =>
            {
                let holds = Bytes(gpu.0.saturating_add(resident.0));
                self.peak = Some(self.peak.map_or(holds, |peak| peak.max(holds)));
            }
            // An engine that is idle holds what it holds; one that serves may breathe.
            Phase::Serving | Phase::Idle | Phase::Unknown if self.rests && gpu >= t.job_small => {
                self.settled = Some(self.settled.map_or(gpu, |settled| settled.max(gpu)));
            }
            _ => {}
        }
        self.phase
    }

    fn judge(&mut self, job: &Job, look: &Look, t: &Thresholds) -> Phase {
        let Ok(gpu) = job.gpu else { return Phase::Unknown };
        let rise = self.rise(job, look.at, t);
        let small = gpu < t.job_small;
        let limit = if self.settled.is_some() { t.job_reload_rise } else { t.job_load_rise };
        if rise >= limit {
            self.grew = Some(look.at);
            if !small {
                self.settled = None;
            }
            return Phase::Loading;
        }
        if small {
            let age = look.uptime.map(|Seconds(now)| now - job.started.0);
            let old =
                age.unwrap_or(look.at.saturating_sub(self.since).as_secs_f64()) > t.job_start.0;
            // What had loaded and holds nothing any more has unloaded; it does not start again.
            let had = self.settled.is_some();
            // A notebook waits for whoever types in it.
            let waits = job.class.class.family() == Family::Notebook;
            return if old || had || waits { Phase::Idle } else { Phase::Starting };
        }
        let passed = |since: Duration| look.at.saturating_sub(since).as_secs_f64();
        match self.grew {
            Some(grew) if passed(grew) < t.job_settle.0 || job.compiles => Phase::Warming,
            None if job.compiles => Phase::Warming,
            // One that has only begun has a bare context and more to come; of one that was there before
            // nothing is known yet.
            None if passed(self.since) < t.job_settle.0 => {
                if self.begun {
                    Phase::Starting
                } else {
                    Phase::Unknown
                }
            }
            _ => {
                self.rests = true;
                Self::works(job, look, t)
            }
        }
    }

    /// By how much it has grown within the window: on the GPU, or in files that it reads before.
    fn rise(&mut self, job: &Job, at: Duration, t: &Thresholds) -> Bytes {
        let window = Duration::try_from_secs_f64(t.job_load_window.0).unwrap_or_default();
        let grown = |least: &mut Extreme<u64>, figure: Reading<Bytes>| {
            least.resize(window);
            let Ok(Bytes(now)) = figure else { return 0 };
            least.push(at, now);
            now.saturating_sub(least.get().unwrap_or(now))
        };
        Bytes(grown(&mut self.gpu, job.gpu).max(grown(&mut self.file, job.file)))
    }

    /// Whether a job that has settled works.
    fn works(job: &Job, look: &Look, t: &Thresholds) -> Phase {
        match (look.busy, look.alone, job.cpus) {
            (Some(true), true, _) => Phase::Serving,
            (Some(true), false, Ok(Ratio(cpus))) if cpus >= t.job_busy_cpus.0 => Phase::Serving,
            (Some(false), ..) | (Some(true), false, Ok(_)) => Phase::Idle,
            (None, ..) | (Some(true), false, Err(_)) => Phase::Unknown,
        }
    }
}
