//! Who holds the pool: processes into jobs, jobs into workloads.
//!
//! A job is a tree of processes that do one thing: a server with its engine and workers, a trainer with
//! its launcher. Sizes come from the GPU's driver, what it may still take from its flags, what it is
//! doing from how its size moves.

mod follow;
mod group;
mod series;

pub use series::Learned;

use crate::model::gpu::Gpus;
use crate::model::pool::Pool;
use crate::model::reading::{Missing, Reading};
use crate::model::sharing::{GpuMemory, Hidden, Sharing};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::workload::{
    Cap, CapKind, CapSetting, ClassName, Family, Job, JobId, Phase, Proc, Sight, View, Workloads,
};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Ratio, Seconds};
use follow::{Followed, Identity, Look, Moved, identity};
use group::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What only the driver names is a job when it was in none of so many rounds of processes.
const UNLISTED: u32 = 2;
/// More jobs are not followed one by one; the largest are.
const MAX_JOBS: usize = 64;

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub struct State {
    jobs: BTreeMap<Identity, Followed>,
    moved: Moved,
    busy: follow::Busy,
    /// The jobs of the last round by their processes, and which job those were part of that have lost it.
    members: BTreeMap<Identity, Identity>,
    left: BTreeMap<Identity, JobId>,
    /// How many rounds of processes a pid was not in that the driver names.
    unlisted: BTreeMap<u32, u32>,
    series: series::Series,
    /// Whether a GPU shares the pool, as it could last be told.
    shares: bool,
    /// When the processes were last read.
    read: Option<Duration>,
}

impl State {
    /// What was learned in earlier runs.
    pub fn load(&mut self, learned: Vec<crate::model::workload::LearnedWorkload>) {
        self.series.learned.load(learned);
    }

    /// What is to be kept.
    #[must_use]
    pub fn entries(&self) -> Vec<crate::model::workload::LearnedWorkload> {
        self.series.learned.entries()
    }

    /// What is left of it when the machine has rebooted.
    #[must_use]
    pub fn rebooted(self) -> Self {
        Self { series: self.series.rebooted(), ..Self::default() }
    }

    /// The class of the job that a listed process belongs to.
    pub(super) fn class_of(
        &self,
        pid: u32,
        snapshot: &Snapshot,
        workloads: &Workloads,
    ) -> Option<ClassName> {
        let list = snapshot.processes.list.as_ref().ok()?;
        let proc = list.iter().find(|proc| proc.pid == pid)?;
        let root = self.members.get(&identity(proc))?;
        let jobs = workloads.jobs.as_ref().ok()?;
        let job = jobs.iter().find(|job| job.id() == *root);
        Some(job.map_or_else(|| proc.class.clone(), |job| job.class.clone()))
    }

    /// Notes which job each process belongs to. The first process of a job that was part of another one,
    /// whose own first process is gone, has been left alone.
    fn note_members(&mut self, trees: &[Tree<'_>]) {
        let mut members = BTreeMap::new();
        for tree in trees {
            let root = identity(&tree.root);
            members.extend(tree.members().map(|p| (identity(p), root)));
        }
        self.left.retain(|id, _| members.contains_key(id));
        for tree in trees {
            let root = identity(&tree.root);
            let before = self.members.get(&root).filter(|before| **before != root);
            if let Some(of) = before.filter(|before| !members.contains_key(before)) {
                self.left.entry(root).or_insert(*of);
            }
        }
        self.members = members;
    }

    /// Counts how often what the driver names was not listed.
    fn note_unlisted(&mut self, trees: &[Tree<'_>]) {
        let unlisted = trees.iter().filter(|tree| !tree.listed);
        let before = std::mem::take(&mut self.unlisted);
        let rounds = |pid: u32| before.get(&pid).map_or(1, |rounds| rounds.saturating_add(1));
        self.unlisted = unlisted.map(|tree| (tree.root.pid, rounds(tree.root.pid))).collect();
    }

    fn sight(&self, tree: &Tree<'_>) -> Sight {
        let asked = self.unlisted.get(&tree.root.pid).is_some_and(|rounds| *rounds >= UNLISTED);
        if tree.members().all(|proc| proc.zombie) {
            Sight::Ended
        } else if tree.listed || asked {
            Sight::Found
        } else {
            Sight::Unsure
        }
    }

    /// Who is there. Whom only the driver names has not ended while it does not answer.
    fn present(&self, trees: &[Tree<'_>], driver: Reading<()>) -> BTreeSet<JobId> {
        let listed = trees.iter().flat_map(Tree::members).filter(|proc| !proc.zombie).map(identity);
        let unlisted =
            self.jobs.keys().filter(|id| driver.is_err() && id.1 == Seconds(0.0).ticks());
        listed.chain(unlisted.copied()).collect()
    }

    /// A job from its processes. Pages that processes share are in the figure of each: of shared memory the
    /// largest figure is taken, and of anonymous memory no more than there is.
    fn assemble(
        &self,
        tree: &Tree<'_>,
        charged: &Reading<BTreeMap<u32, Held>>,
        anonymous: Reading<Bytes>,
    ) -> Job {
        let on_gpu = |of: fn(&Held) -> Reading<Bytes>| match charged {
            Ok(charged) => {
                let held = tree.members().filter_map(|p| charged.get(&p.pid));
                // Nothing on the GPU is a figure, too.
                held.map(of).fold(Ok(Bytes(0)), plus)
            }
            Err(reason) => Err(*reason),
        };
        let of = |figure: fn(&Proc) -> Reading<Bytes>| sum(tree.members().map(figure));
        let own = of(|p| p.anonymous).map(|own| own.min(anonymous.unwrap_or(own)));
        let most = tree.members().filter_map(|p| p.shared.ok()).max();
        let shared = most.ok_or(tree.root.shared.err().unwrap_or(Missing::NotPresent));
        let named = tree.named();
        let root = tree.root.as_ref();
        let setting = tree.cap(&named.class);
        let kind = setting.kind();
        Job {
            class: named.class.clone(),
            unit: root.unit.clone(),
            pid: root.pid,
            started: root.started,
            processes: tree.members().count() as u64,
            gpu: on_gpu(|held| held.all),
            in_pool: on_gpu(|held| held.in_pool),
            resident: of(|p| p.resident),
            host: plus(own, shared),
            file: of(|p| p.file),
            swap: of(|p| p.swap),
            group: root.group_current,
            group_limit: root.group_limit,
            cap: Cap { kind, setting, bytes: Err(Missing::Pending), exceeded: false },
            phase: Err(Missing::NotPresent),
            load_peak: Err(Missing::NotPresent),
            settled: Err(Missing::NotPresent),
            cpus: Err(Missing::Pending),
            faults: Err(Missing::Pending),
            worker: root.worker,
            left: None,
            sight: self.sight(tree),
            compiles: tree.compiles,
        }
    }
}

/// What a GPU process holds.
#[derive(Clone, Copy)]
struct Held {
    all: Reading<Bytes>,
    in_pool: Reading<Bytes>,
}

/// Adds two figures; what is missing of one is missing of the sum.
fn plus(a: Reading<Bytes>, b: Reading<Bytes>) -> Reading<Bytes> {
    Ok(a?.plus(b?))
}

/// Adds what is there; a process that ended while it was looked at takes nothing from the others.
fn sum(readings: impl Iterator<Item = Reading<Bytes>>) -> Reading<Bytes> {
    let (mut total, mut missing) = (None, Missing::NotPresent);
    for reading in readings {
        match reading {
            Ok(bytes) => total = Some(total.unwrap_or(Bytes(0)).plus(bytes)),
            Err(reason) => missing = reason,
        }
    }
    total.ok_or(missing)
}

/// What the driver charges to each process, on all GPUs.
fn charged(gpus: &Gpus, memory: &Reading<Vec<GpuMemory>>) -> Reading<BTreeMap<u32, Held>> {
    let devices = gpus.devices.as_ref().map_err(|reason| *reason)?;
    let (mut all, mut reason) = (BTreeMap::new(), None);
    for gpu in devices {
        let kind = memory.iter().flatten().find(|m| m.index == gpu.index).map(|m| m.sharing);
        match &gpu.processes {
            Ok(processes) => {
                for process in processes {
                    let zero = Held { all: Ok(Bytes(0)), in_pool: Ok(Bytes(0)) };
                    let held = all.entry(process.pid).or_insert(zero);
                    held.all = plus(held.all, process.memory);
                    let in_pool = match kind {
                        Some(Sharing::Shared) => process.memory,
                        Some(Sharing::Separate) => Ok(Bytes(0)),
                        _ => process.memory.and(Err(Missing::NotAvailable)),
                    };
                    held.in_pool = plus(held.in_pool, in_pool);
                }
            }
            Err(why) => reason = Some(*why),
        }
    }
    // What a list that could not be read charges to a job is not nothing.
    reason.map_or(Ok(all), Err)
}

/// How much of the box can be seen.
fn view(
    snapshot: &Snapshot,
    charged: &Reading<BTreeMap<u32, Held>>,
    memory: &Reading<Vec<GpuMemory>>,
) -> Reading<View> {
    let list = snapshot.processes.list.as_ref().map_err(|reason| *reason)?;
    let seen = |pid: &u32| list.iter().any(|proc| proc.pid == *pid);
    if memory.iter().flatten().any(|gpu| gpu.hidden == Hidden::Yes) {
        return Ok(View::Nobody);
    }
    let Ok(charged) = charged else { return Ok(View::Unknown) };
    let unseen = charged.keys().filter(|pid| !seen(pid)).count();
    let hidden = match snapshot.processes.denied {
        Ok(denied) => denied.0 > 0,
        // Others' processes are not even listed.
        Err(reason) => reason == Missing::Denied,
    };
    Ok(match (unseen, hidden) {
        (_, true) => View::OwnOnly,
        // One that has just ended is no sign of a wall; when nobody is to be seen there is one.
        (n, false) if n > 0 && n == charged.len() => View::OtherNamespace,
        _ => View::Full,
    })
}

/// Derives who holds the pool.
pub fn derive(
    state: &mut State,
    snapshot: &Snapshot,
    pool: &Pool,
    memory: &Reading<Vec<GpuMemory>>,
    t: &Thresholds,
) -> Workloads {
    let charged = charged(&snapshot.gpus, memory);
    let view = view(snapshot, &charged, memory);
    let driver = charged.as_ref().map(|_| ()).map_err(|reason| *reason);
    if let (Err(reason), Err(_)) = (&snapshot.processes.list, &charged) {
        let (jobs, totals) = (Err(*reason), Err(*reason));
        return Workloads { view, jobs, totals, driver, present: None };
    }
    let at = snapshot.at.mono;
    let read = snapshot.read_at[Source::Processes.index()].map(|read| read.mono);
    let listed = snapshot.processes.list.is_ok();
    let fresh = read.is_some() && read != state.read && listed;
    let trees = group::trees(snapshot, charged.as_ref().ok());
    state.busy.note(at, &snapshot.gpus, t);
    if fresh {
        state.moved.note(at, &trees);
        state.note_members(&trees);
        state.note_unlisted(&trees);
    }
    let anonymous = snapshot.meminfo.anon_pages;
    let mut jobs: Vec<Job> =
        trees.iter().map(|tree| state.assemble(tree, &charged, anonymous)).collect();
    // Three hundred compilers are counted; they are not followed one by one, nor do they push others out.
    let compiles = |job: &Job| job.class.class.family() == Family::Compiler;
    jobs.sort_by_key(|job| (compiles(job), std::cmp::Reverse(job.held()), job.id()));
    let now: Vec<Identity> = jobs.iter().take(MAX_JOBS).map(Job::id).collect();
    let present = state.present(&trees, driver);
    // Nobody has ended while the processes cannot be read.
    if listed {
        state.jobs.retain(|id, _| present.contains(id));
    }
    let holders = jobs.iter().filter(|job| job.gpu.is_ok_and(|gpu| gpu >= t.job_small)).count();
    if let Ok(memory) = memory {
        state.shares = memory.iter().any(|gpu| gpu.sharing == Sharing::Shared);
    }
    for (job, id) in jobs.iter_mut().zip(now) {
        let uptime = snapshot.uptime.since_boot.ok();
        let followed = state.jobs.entry(id).or_insert_with(|| {
            let begun = state.read.is_some() && young(job, uptime);
            Followed::new(at, begun, pool.available)
        });
        let look = Look { at, alone: holders == 1, uptime, busy: state.busy.state() };
        (job.cpus, job.faults) = state.moved.told(id);
        job.left = state.left.get(&id).copied();
        if followed.begun && job.sight == Sight::Found {
            job.sight = Sight::Begun;
        }
        follow(followed, job, &look, pool, t);
        // A share of a card's memory is no share of the pool.
        if !state.shares && matches!(job.cap.kind, CapKind::Whole | CapKind::FractionOfFree) {
            (job.cap.bytes, job.cap.exceeded) = (Err(Missing::NotAvailable), false);
        }
    }
    if fresh {
        state.series.note(&jobs, &trees, (&state.jobs, &present), snapshot.at, t);
        state.read = read;
    }
    let totals = state.series.tell(&jobs, listed, driver);
    jobs.truncate(MAX_JOBS);
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.held()), job.id()));
    let (jobs, totals) = (Ok(Arc::new(jobs)), Ok(Arc::new(totals)));
    Workloads { view, jobs, totals, driver, present: listed.then(|| Arc::new(present)) }
}

/// Whether a job has begun a moment ago: one that is new here may also be an old one that has only now
/// turned to the GPU.
fn young(job: &Job, uptime: Option<Seconds>) -> bool {
    const MOMENT: f64 = 60.0;
    uptime.is_none_or(|Seconds(now)| now - job.started.0 <= MOMENT)
}

/// Phase, sizes and cap, which follow from what was seen before.
fn follow(followed: &mut Followed, job: &mut Job, look: &Look, pool: &Pool, t: &Thresholds) {
    if applies(job.class.class.family(), job, t) {
        job.phase = Ok(followed.phase(job, look, t));
    }
    job.load_peak = followed.load_peak();
    job.settled = followed.settled();
    let bytes = match job.cap.setting {
        CapSetting::Whole(Ratio(share)) => pool.size.map(|size| size.scaled(share)),
        CapSetting::KvOnly(bytes) => Ok(bytes),
        CapSetting::FractionOfFree(Ratio(share)) => {
            followed.available_at_start().map(|free| free.scaled(share))
        }
        CapSetting::Fixed => followed.settled(),
        CapSetting::None => Err(Missing::NotPresent),
        CapSetting::Unknown => Err(Missing::NotAvailable),
    };
    let all = matches!(job.cap.kind, CapKind::Whole | CapKind::FractionOfFree);
    let exceeded = match (job.in_pool, bytes) {
        (Ok(held), Ok(cap)) if all => {
            held > Bytes(cap.scaled(1.0 + t.job_cap_tolerance.0).0 + t.job_cap_overshoot.0)
        }
        _ => false,
    };
    job.cap = Cap { bytes, exceeded, ..job.cap };
}

/// Whether a job is one that loads and serves. A launcher holds nothing itself; what is not known
/// counts when it holds something.
fn applies(family: Family, job: &Job, t: &Thresholds) -> bool {
    match family {
        Family::Server | Family::Trainer | Family::Notebook => true,
        Family::Other => job.gpu.is_ok_and(|gpu| gpu >= t.job_small),
        Family::Launcher | Family::Compiler | Family::Desktop => false,
    }
}

/// The phase of a job by its number.
const fn place(phase: Phase) -> usize {
    phase as usize
}

#[cfg(test)]
mod tests;
