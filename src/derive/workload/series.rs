//! Jobs into workloads: a bounded number of series that a restart does not multiply.

use super::follow::{Followed, Identity, identity};
use super::group::Tree;
use super::{plus, sum};
use crate::model::moment::Moment;
use crate::model::naming::OTHER;
use crate::model::reading::{Missing, Reading};
use crate::model::workload::{
    CapKind, Class, ClassName, Job, JobId, LearnedWorkload, Phase, Proc, Workload,
};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Count};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A workload keeps its place for this long after its last job has ended: it may be restarted.
const KEEP: Duration = Duration::from_secs(3600);
/// Workloads that are remembered in the state file.
const REMEMBERED: usize = 64;

/// A class and a unit.
type Key = (ClassName, Arc<str>);

fn key(job: &Job) -> Key {
    (job.class.clone(), job.unit.clone())
}

/// The place of a workload.
#[derive(Clone, Debug)]
struct Place {
    last: Duration,
    faults: u64,
    /// Whether its processes tell their faults at all.
    told: bool,
    starts: u64,
    ends: [u64; Phase::ALL.len()],
}

/// A job as it was last seen.
#[derive(Clone, Debug)]
struct Known {
    key: Key,
    phase: Phase,
    /// Whether its start is counted, or is none to count.
    counted: bool,
}

/// The places, what each process has counted, and what was learned.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    places: BTreeMap<Key, Place>,
    faults: BTreeMap<Identity, u64>,
    /// The jobs of the last round, and what each was doing.
    known: BTreeMap<Identity, Known>,
    pub(super) learned: Learned,
}

impl Series {
    /// What is left when the machine has rebooted: what was learned.
    pub(super) fn rebooted(self) -> Self {
        Self { learned: self.learned, ..Self::default() }
    }

    /// Takes in a new round of processes.
    pub(super) fn note(
        &mut self,
        jobs: &[Job],
        trees: &[Tree<'_>],
        (followed, present): (&BTreeMap<Identity, Followed>, &BTreeSet<JobId>),
        now: Moment,
        t: &Thresholds,
    ) {
        self.give_places(jobs, now.mono, t);
        let mut known = BTreeMap::new();
        for job in jobs.iter().filter(|job| job.sight.runs()) {
            let id = job.id();
            let begun = followed.get(&id).is_some_and(|followed| followed.begun);
            // Under the name that it has when it is seen again: a launcher turns into what it launches.
            let before = self.known.get(&id).map(|before| before.counted);
            if begun && before == Some(false) {
                self.start(&key(job));
            }
            let phase = job.phase.unwrap_or(Phase::Unknown);
            let counted = before.is_some() || !begun;
            known.insert(id, Known { key: key(job), phase, counted });
            self.learned.note(job, now);
        }
        for (id, ended) in std::mem::take(&mut self.known) {
            // One whose first process has become part of another job has not ended.
            if known.contains_key(&id) || present.contains(&id) {
                continue;
            }
            if !ended.counted {
                self.start(&ended.key);
            }
            if let Some(place) = self.places.get_mut(&ended.key) {
                place.ends[super::place(ended.phase)] += 1;
            }
        }
        self.known = known;
        self.count_faults(jobs, trees, followed);
    }

    fn start(&mut self, key: &Key) {
        if let Some(place) = self.places.get_mut(key) {
            place.starts += 1;
        }
    }

    /// Who has no place gets one, the largest first, if there is one or one whose owner is long gone.
    fn give_places(&mut self, jobs: &[Job], at: Duration, t: &Thresholds) {
        let limit = usize::try_from(t.job_shown.0).unwrap_or(usize::MAX);
        // A desktop's programs, and what holds nothing and will hold nothing, are told together.
        let worth =
            |job: &&Job| job.sight.runs() && (job.phase.is_ok() || job.held() >= t.job_small);
        for job in jobs.iter().filter(worth) {
            let key = key(job);
            if let Some(place) = self.places.get_mut(&key) {
                place.last = at;
                continue;
            }
            if self.places.len() >= limit {
                let gone = self.places.iter().min_by_key(|(_, place)| place.last);
                let gone = gone.filter(|(_, place)| at.saturating_sub(place.last) > KEEP);
                let Some(gone) = gone.map(|(key, _)| key.clone()) else { continue };
                self.places.remove(&gone);
            }
            self.places.insert(
                key,
                Place { last: at, faults: 0, told: false, starts: 0, ends: [0; Phase::ALL.len()] },
            );
        }
    }

    /// Adds what each process has counted since it was last read. A process that was there before the
    /// exporter brings nothing along; one that began under its eyes brings all.
    fn count_faults(
        &mut self,
        jobs: &[Job],
        trees: &[Tree<'_>],
        followed: &BTreeMap<Identity, Followed>,
    ) {
        let mut now = BTreeMap::new();
        let jobs: BTreeMap<JobId, &Job> = jobs.iter().map(|job| (job.id(), job)).collect();
        for tree in trees {
            let root = identity(&tree.root);
            let Some(job) = jobs.get(&root) else { continue };
            let begun = followed.get(&root).is_some_and(|followed| followed.begun);
            let mut place = self.places.get_mut(&key(job));
            for proc in tree.members() {
                let Proc { major_faults: Ok(Count(faults)), .. } = proc else { continue };
                let id = identity(proc);
                let before = self.faults.get(&id).copied();
                let before = before.unwrap_or(if begun { 0 } else { *faults });
                if let Some(place) = &mut place {
                    place.faults += faults.saturating_sub(before);
                    place.told = true;
                }
                now.insert(id, *faults);
            }
        }
        self.faults = now;
    }

    /// The workloads, largest first; those without a place together.
    pub(super) fn tell(&self, jobs: &[Job], listed: bool, driver: Reading<()>) -> Vec<Workload> {
        let mut shown: BTreeMap<Key, Vec<&Job>> = BTreeMap::new();
        let other: Key = (Class::Other.into(), OTHER.into());
        for job in jobs {
            let key = key(job);
            let key = if self.places.contains_key(&key) { key } else { other.clone() };
            shown.entry(key).or_default().push(job);
        }
        // A workload that may come back stays, with nothing in it, so that its counters do. Where processes
        // cannot be read it may well be there.
        for key in self.places.keys().filter(|_| listed) {
            shown.entry(key.clone()).or_default();
        }
        let mut all: Vec<Workload> =
            shown.into_iter().map(|(key, jobs)| self.workload(key, &jobs, driver)).collect();
        all.sort_by_key(|w| {
            std::cmp::Reverse((w.gpu.unwrap_or_default(), w.resident.unwrap_or_default()))
        });
        all
    }

    fn workload(&self, key: Key, jobs: &[&Job], driver: Reading<()>) -> Workload {
        let place = self.places.get(&key);
        let of = |figure: fn(&Job) -> Reading<Bytes>| {
            jobs.iter().map(|job| figure(job)).fold(Ok(Bytes(0)), plus)
        };
        let mut cap_kinds = [0; CapKind::ALL.len()];
        let mut phases = [0; Phase::ALL.len()];
        let mut any = false;
        for job in jobs {
            cap_kinds[job.cap.kind as usize] += 1;
            if let Ok(phase) = job.phase {
                phases[super::place(phase)] += 1;
                any = true;
            }
        }
        let learned = self.learned.peak(&key);
        let peaks = jobs.iter().map(|job| job.load_peak).chain([learned]);
        let load_peak = peaks.flatten().max().ok_or(Missing::NotPresent);
        let (class, unit) = key;
        Workload {
            processes: jobs.iter().map(|job| job.processes).sum(),
            // What nobody is seen to hold is nothing only if somebody could be seen.
            gpu: driver.and_then(|()| of(|job| job.gpu)),
            // A process that has ended between two looks takes nothing from the others.
            resident: if jobs.is_empty() {
                Ok(Bytes(0))
            } else {
                sum(jobs.iter().map(|j| j.resident))
            },
            swap: if jobs.is_empty() { Ok(Bytes(0)) } else { sum(jobs.iter().map(|job| job.swap)) },
            group: groups(jobs),
            major_faults: match place {
                Some(place) if place.told => Ok(Count(place.faults)),
                Some(_) => Err(Missing::Pending),
                None => Err(Missing::NotPresent),
            },
            starts: place.map(|place| Count(place.starts)).ok_or(Missing::NotPresent),
            ends: place.map(|place| place.ends).ok_or(Missing::NotPresent),
            cap: match jobs {
                [] => Err(Missing::NotPresent),
                jobs => jobs.iter().map(|job| job.cap.bytes).fold(Ok(Bytes(0)), plus),
            },
            cap_kinds,
            phases: if any { Ok(phases) } else { Err(Missing::NotPresent) },
            load_peak,
            class,
            unit,
        }
    }
}

/// What the control groups of jobs account for. Several jobs of one service are in one group, which shows by
/// figures that agree to the byte.
fn groups(jobs: &[&Job]) -> Reading<Bytes> {
    let mut groups: Vec<Bytes> = Vec::new();
    for job in jobs {
        let current = job.group?;
        if !groups.contains(&current) {
            groups.push(current);
        }
    }
    Ok(groups.into_iter().sum())
}

/// What was learned of workloads, in this run and in earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    entries: Vec<LearnedWorkload>,
}

impl Learned {
    pub(super) fn load(&mut self, entries: Vec<LearnedWorkload>) {
        // What was learned before the file was read is newer.
        let new = std::mem::take(&mut self.entries);
        self.entries = entries;
        self.entries.truncate(REMEMBERED);
        for entry in new {
            match self.find(&entry.class, &entry.unit) {
                Some(old) => {
                    old.load_peak = old.load_peak.max(entry.load_peak);
                    old.settled = entry.settled.or(old.settled);
                    old.seen = entry.seen;
                }
                None => self.add(entry),
            }
        }
    }

    pub(super) fn entries(&self) -> Vec<LearnedWorkload> {
        self.entries.clone()
    }

    fn find(&mut self, class: &str, unit: &str) -> Option<&mut LearnedWorkload> {
        self.entries.iter_mut().find(|entry| entry.class == class && entry.unit == unit)
    }

    /// The oldest gives way.
    fn add(&mut self, entry: LearnedWorkload) {
        if self.entries.len() >= REMEMBERED {
            let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.seen);
            if let Some((oldest, _)) = oldest {
                self.entries.swap_remove(oldest);
            }
        }
        self.entries.push(entry);
    }

    fn note(&mut self, job: &Job, now: Moment) {
        let (load_peak, settled) = (job.load_peak.ok(), job.settled.ok());
        if load_peak.is_none() && settled.is_none() {
            return;
        }
        let seen = now.wall.as_secs();
        match self.find(job.class.as_str(), &job.unit) {
            Some(entry) => {
                entry.load_peak = entry.load_peak.max(load_peak);
                entry.settled = settled.or(entry.settled);
                entry.seen = seen;
            }
            None => self.add(LearnedWorkload {
                class: job.class.as_str().to_owned(),
                unit: job.unit.to_string(),
                load_peak,
                settled,
                seen,
            }),
        }
    }

    fn peak(&self, (class, unit): &Key) -> Reading<Bytes> {
        let of = |entry: &&LearnedWorkload| entry.class == class.as_str() && *entry.unit == **unit;
        let entry = self.entries.iter().find(of);
        entry.and_then(|entry| entry.load_peak).ok_or(Missing::NotPresent)
    }
}
