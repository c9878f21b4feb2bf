//! `/proc/PID`: which processes matter, and what they hold.
//!
//! One `stat` for each process of the box and nothing more, unless its name is one that matters or the
//! GPU's driver names it. What is read of a command line and an environment is reduced here and dropped.

use super::caps;
use super::classes;
use super::command::{CommandLine, Environment};
use super::files::{Files, MAX_LINE, MAX_TEXT};
use super::groups::Groups;
use super::stat::{self, Stat};
use super::unit::{self, Unit};
use crate::model::naming::Naming;
use crate::model::reading::Missing;
use crate::model::workload::{CapSetting, Class, ClassName, Family, Proc, Processes};
use crate::sources::files::{FileError, ReadError};
use crate::units::{Count, Seconds};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Processes that are looked at in a round. A box has hundreds; where there are more, those that matter and
/// those that are new come first and the rest take turns.
const BUDGET: usize = 4096;
/// Processes that are listed.
const LISTED: usize = 512;
/// Takes over what has lost its parent.
const INIT: u32 = 1;
/// Until it is this old a process may still turn into another program, with the same name.
const YOUNG: f64 = 30.0;
/// Ancestors that are looked through for one that is listed.
const ANCESTORS: usize = 64;
/// The first process, which is there for as long as there are others.
const FIRST: u32 = 1;

/// What is known of a process that was looked at more closely.
struct Known {
    started: u64,
    comm: Vec<u8>,
    on_gpu: bool,
    /// Nothing for one that does not matter.
    reduced: Option<Reduced>,
}

/// What a process is, for as long as it is that.
#[derive(Clone)]
struct Reduced {
    class: ClassName,
    cap: CapSetting,
    unit: Unit,
}

/// Reads processes, and remembers those that matter.
pub struct Reader {
    files: Files,
    groups: Groups,
    naming: Naming,
    known: HashMap<u32, Known>,
    /// The parents of those that were looked at; 0 where that could not be seen.
    parents: HashMap<u32, u32>,
    /// Where the turn of those begins that do not matter.
    turn: u32,
}

/// What came of one process.
enum Looked {
    /// It has ended meanwhile, or does not matter.
    Nothing,
    Denied,
    Matters(Box<Proc>),
}

impl Reader {
    /// Below these roots.
    #[must_use]
    pub fn new(procfs: &Path, sysfs: &Path, naming: Naming) -> Self {
        Self {
            files: Files::new(procfs),
            groups: Groups::new(sysfs),
            naming,
            known: HashMap::new(),
            parents: HashMap::new(),
            turn: 0,
        }
    }

    /// One round. `on_gpu` are the pids that the GPU's driver names.
    ///
    /// # Errors
    /// The processes cannot be listed.
    pub fn read(&mut self, on_gpu: &BTreeSet<u32>, into: &mut Processes) -> Result<(), ReadError> {
        let pids = self.files.pids().inspect_err(|error| {
            *into = crate::model::fields::Group::absent(error.reason());
        })?;
        let total = pids.len();
        self.known.retain(|pid, _| pids.contains(pid));
        self.parents.retain(|pid, _| pids.contains(pid));
        let uptime = self.files.uptime();
        let due = self.due(&pids, on_gpu);
        let left_out = total - due.len();
        self.groups.forget();
        let (mut list, mut denied) = (Vec::new(), 0);
        for pid in due {
            match self.look(pid, on_gpu.contains(&pid), uptime) {
                Looked::Nothing => {}
                Looked::Denied => denied += 1,
                Looked::Matters(proc) => list.push(*proc),
            }
        }
        let dropped = cut(&mut list, on_gpu);
        self.name_parents(&mut list);
        list.sort_by_key(|proc| proc.pid);
        *into = Processes {
            list: Ok(list),
            count: Ok(Count(total as u64)),
            // Where others' processes are not even listed nobody can count them.
            denied: if pids.contains(&FIRST) { Ok(Count(denied)) } else { Err(Missing::Denied) },
            left_out: Ok(Count((left_out + dropped) as u64)),
        };
        Ok(())
    }

    /// Those to look at in this round.
    fn due(&mut self, pids: &BTreeSet<u32>, on_gpu: &BTreeSet<u32>) -> Vec<u32> {
        if pids.len() <= BUDGET {
            return pids.iter().copied().collect();
        }
        let rank = |pid: &u32| {
            let known = self.known.get(pid).and_then(|known| known.reduced.as_ref());
            known.map(|known| rank(*pid, &known.class, on_gpu))
        };
        let matters = |pid: &u32| on_gpu.contains(pid) || rank(pid).is_some();
        let new = |pid: &u32| !self.parents.contains_key(pid);
        let (mut first, mut rest): (Vec<u32>, Vec<u32>) = pids.iter().partition(|pid| matters(pid));
        first.sort_by_key(|pid| (!on_gpu.contains(pid), rank(pid)));
        // Even where thousands of compilers run, what is new is looked at.
        rest.extend(first.drain(first.len().min(LISTED)..));
        rest.sort_unstable();
        let (fresh, rest): (Vec<u32>, Vec<u32>) = rest.iter().partition(|pid| new(pid));
        let from = rest.partition_point(|pid| *pid < self.turn);
        let (before, after) = rest.split_at(from);
        let all = first.iter().chain(&fresh).chain(after).chain(before);
        let due: Vec<u32> = all.take(BUDGET).copied().collect();
        self.turn = due.last().map_or(0, |last| last.saturating_add(1));
        due
    }

    fn look(&mut self, pid: u32, on_gpu: bool, uptime: Option<f64>) -> Looked {
        // Whatever comes of it, it has had its turn.
        self.parents.entry(pid).or_insert(0);
        match self.files.read(pid, "stat", MAX_TEXT) {
            Ok(_) => {}
            // Something is there, and it may not be seen: not the same as nothing.
            Err(FileError::Denied) => return Looked::Denied,
            Err(_) => return Looked::Nothing,
        }
        let Some(stat) = stat::parse(self.files.bytes()) else { return Looked::Nothing };
        self.parents.insert(pid, stat.parent);
        // They have no memory and no command line.
        if stat.kernel {
            return Looked::Nothing;
        }
        let started = Seconds::from_ticks(stat.started);
        let young = uptime.is_none_or(|now| now - started.0 < YOUNG);
        if !self.knows(pid, &stat, on_gpu, young) {
            let reduced = self.reduce(pid, &stat, on_gpu);
            // What it was on the GPU it is without it, too: it may come back to it.
            let before = self.known.get(&pid).filter(|known| {
                known.started == stat.started && known.comm == stat.comm && known.on_gpu && !on_gpu
            });
            let reduced = reduced.or_else(|| before.and_then(|known| known.reduced.clone()));
            // Its pid may have become another's meanwhile, or itself another program.
            if reduced.is_some() && !self.is_still(pid, &stat) {
                return Looked::Nothing;
            }
            let comm = stat.comm.clone();
            self.known.insert(pid, Known { started: stat.started, comm, on_gpu, reduced });
        }
        let reduced = self.known.get(&pid).and_then(|known| known.reduced.clone());
        let Some(Reduced { class, cap, unit }) = reduced else { return Looked::Nothing };
        let mut proc = Proc::new(&pid.to_string(), pid, class, Missing::NotPresent);
        (proc.started, proc.cap, proc.unit) = (started, cap, unit.name.clone());
        proc.zombie = stat.zombie;
        // With a parent it is that one's; one that init has taken over has lost it.
        proc.worker = classes::works_for_another(&stat.comm) && stat.parent <= INIT;
        proc.cpu = Ok(Seconds::from_ticks(stat.cpu));
        proc.major_faults = Ok(Count(stat.major_faults));
        match self.files.read(pid, "status", MAX_TEXT) {
            Ok(_) => stat::memory(self.files.bytes(), &mut proc),
            // It has ended since: the next round does not list it.
            Err(FileError::NotPresent) => return Looked::Nothing,
            Err(why) => stat::no_memory(&mut proc, why.reason()),
        }
        if let Some(path) = &unit.path {
            (proc.group_current, proc.group_limit) = self.groups.memory(path, unit.v1);
        }
        Looked::Matters(Box::new(proc))
    }

    /// Whether it is known what this process is, and that still holds.
    fn knows(&self, pid: u32, stat: &Stat, on_gpu: bool, young: bool) -> bool {
        let Some(known) = self.known.get(&pid) else { return false };
        // Of one that has ended there is nothing left to read: it stays what it was.
        let same = (stat.zombie && known.reduced.is_some())
            || (known.comm == stat.comm
                && known.on_gpu == on_gpu
                && !(young && self.looks_closer(&stat.comm, on_gpu)));
        known.started == stat.started && same
    }

    fn is_still(&mut self, pid: u32, before: &Stat) -> bool {
        let now = self.files.read(pid, "stat", MAX_TEXT).ok();
        let now = now.and_then(|_| stat::parse(self.files.bytes()));
        now.is_some_and(|now| now.started == before.started && now.comm == before.comm)
    }

    /// What a process is; nothing for one that does not matter.
    fn reduce(&mut self, pid: u32, stat: &Stat, on_gpu: bool) -> Option<Reduced> {
        let comm = String::from_utf8_lossy(&stat.comm).into_owned();
        let closer = self.looks_closer(&stat.comm, on_gpu);
        let line = closer.then(|| self.command_line(pid)).flatten();
        let environment = (closer && line.is_some()).then(|| self.environment(pid)).flatten();
        let directory = (on_gpu && line.is_some()).then(|| self.files.directory(pid)).flatten();
        let class = classes::classify(
            &comm,
            line.as_ref(),
            environment.as_ref(),
            directory.as_deref(),
            &self.naming.own,
            on_gpu,
        )?;
        let cap = caps::cap(&class, line.as_ref(), environment.as_ref());
        let unit = match self.files.read(pid, "cgroup", MAX_TEXT) {
            Ok(_) => unit::unit(&String::from_utf8_lossy(self.files.bytes()), &self.naming.units),
            Err(_) => Unit { name: "unknown".into(), path: None, v1: false },
        };
        Some(Reduced { class, cap, unit })
    }

    /// Whether more than its name is needed to tell what a process is.
    fn looks_closer(&self, comm: &[u8], on_gpu: bool) -> bool {
        let comm = String::from_utf8_lossy(comm);
        on_gpu
            || classes::wants_command_line(&comm)
            || self.naming.own.iter().any(|own| classes::own_wants_command_line(own, &comm))
    }

    fn command_line(&mut self, pid: u32) -> Option<CommandLine> {
        let cut = self.files.read(pid, "cmdline", MAX_LINE);
        let line = self.files.reduce(|bytes| cut.ok().map(|cut| CommandLine::new(bytes, cut)))?;
        Some(line).filter(|line| !line.is_empty())
    }

    /// Only where it is permitted: of one's own processes, and to root.
    fn environment(&mut self, pid: u32) -> Option<Environment> {
        let read = self.files.read(pid, "environ", MAX_LINE);
        self.files.reduce(|bytes| read.ok().map(|_| Environment::new(bytes)))
    }

    /// The nearest ancestor of each that is listed: wrappers and shells between them do not matter.
    fn name_parents(&self, list: &mut [Proc]) {
        let listed: BTreeSet<u32> = list.iter().map(|proc| proc.pid).collect();
        for proc in list {
            let mut pid = proc.pid;
            for _ in 0..ANCESTORS {
                match self.parents.get(&pid) {
                    Some(parent) if listed.contains(parent) => {
                        proc.parent = *parent;
                        break;
                    }
                    Some(parent) if *parent != 0 => pid = *parent,
                    _ => break,
                }
            }
        }
    }
}

/// What comes first where there is not room for all: those on the GPU, then servers and trainers.
fn rank(pid: u32, class: &ClassName, on_gpu: &BTreeSet<u32>) -> (bool, bool, bool) {
    let compiles = class.class.family() == Family::Compiler;
    (!on_gpu.contains(&pid), compiles, *class == Class::Other.into())
}

/// Keeps the list bounded.
fn cut(list: &mut Vec<Proc>, on_gpu: &BTreeSet<u32>) -> usize {
    let dropped = list.len().saturating_sub(LISTED);
    if dropped > 0 {
        list.sort_by_key(|proc| (rank(proc.pid, &proc.class, on_gpu), proc.pid));
        list.truncate(LISTED);
    }
    dropped
}
