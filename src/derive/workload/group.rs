//! Processes into jobs: whose child does its parent's work.

use super::Held;
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::workload::{CapSetting, Class, ClassName, Family, Proc};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A tree of processes that belong together.
pub(super) struct Tree<'a> {
    /// The first process.
    pub(super) root: Cow<'a, Proc>,
    /// The others, from the root outwards.
    rest: Vec<&'a Proc>,
    /// Whether something compiles below it.
    pub(super) compiles: bool,
    /// Whether its processes are listed: otherwise it is a pid that the driver names.
    pub(super) listed: bool,
}

impl Tree<'_> {
    /// Its processes, the root first.
    pub(super) fn members(&self) -> impl Iterator<Item = &Proc> {
        std::iter::once(self.root.as_ref()).chain(self.rest.iter().copied())
    }

    /// The process that tells most about what it is; of equals the one nearest to the root.
    pub(super) fn named(&self) -> &Proc {
        let mut best = self.root.as_ref();
        for proc in &self.rest {
            if proc.class.precision() > best.class.precision() {
                best = proc;
            }
        }
        best
    }

    /// The cap of the whole: what the process nearest to the root says that is of the job's class and can
    /// be seen. An engine that has renamed itself says nothing; its server does.
    pub(super) fn cap(&self, class: &ClassName) -> CapSetting {
        let said = |p: &&Proc| p.class == *class && p.cap != CapSetting::Unknown;
        self.members().find(said).map_or(CapSetting::Unknown, |p| p.cap)
    }
}

/// Whether a child does its parent's work.
fn joins(parent: &Proc, child: &Proc) -> bool {
    let (p, c) = (parent.class.class, child.class.class);
    let generic = child.class.own.is_none() && matches!(c, Class::Python | Class::Other);
    match (p.family(), c.family()) {
        // A compiler is a load of its own, whoever started it; and what a desktop starts is not the desktop.
        (Family::Compiler | Family::Desktop, _) | (_, Family::Compiler | Family::Desktop) => {
            p.family() == c.family()
        }
        // Each kernel of a notebook server is a job.
        (_, Family::Notebook) => false,
        (Family::Launcher | Family::Notebook, _) => generic || parent.class == child.class,
        _ => true,
    }
}

/// All jobs, and the GPU's processes of which nothing else is known, each as one.
pub(super) fn trees<'a>(
    snapshot: &'a Snapshot,
    charged: Option<&BTreeMap<u32, Held>>,
) -> Vec<Tree<'a>> {
    let list = snapshot.processes.list.as_deref().unwrap_or_default();
    let by_pid: BTreeMap<u32, &Proc> = list.iter().map(|proc| (proc.pid, proc)).collect();
    let parent_of = |proc: &Proc| {
        let parent = by_pid.get(&proc.parent).copied();
        // A parent that is younger than its child is another process with the same pid.
        parent.filter(|parent| parent.pid != proc.pid && parent.started.0 <= proc.started.0)
    };
    let root_of = |proc: &'a Proc| {
        let mut root = proc;
        // A chain is no longer than the list, whatever it says.
        for _ in 0..list.len() {
            match parent_of(root) {
                Some(parent) if joins(parent, root) => root = parent,
                _ => break,
            }
        }
        root
    };
    let mut members: BTreeMap<u32, Vec<&Proc>> = BTreeMap::new();
    for proc in list {
        members.entry(root_of(proc).pid).or_default().push(proc);
    }
    let mut compiling: Vec<u32> = Vec::new();
    for proc in list.iter().filter(|proc| proc.class.class == Class::Compiler) {
        if let Some(parent) = parent_of(root_of(proc)) {
            compiling.push(root_of(parent).pid);
        }
    }
    let mut trees = Vec::with_capacity(members.len());
    for (pid, mut all) in members {
        let Some(root) = by_pid.get(&pid).copied() else { continue };
        all.retain(|proc| proc.pid != pid);
        all.sort_by(|a, b| a.started.0.total_cmp(&b.started.0).then(a.pid.cmp(&b.pid)));
        trees.push(Tree {
            root: Cow::Borrowed(root),
            rest: all,
            compiles: compiling.contains(&pid),
            listed: true,
        });
    }
    for pid in charged.into_iter().flat_map(BTreeMap::keys) {
        if !by_pid.contains_key(pid) {
            let reason = snapshot.processes.list.as_ref().err().copied();
            let reason = reason.unwrap_or(Missing::NotPresent);
            let proc = Proc::new(&pid.to_string(), *pid, Class::Other.into(), reason);
            trees.push(Tree {
                root: Cow::Owned(proc),
                rest: Vec::new(),
                compiles: false,
                listed: false,
            });
        }
    }
    trees
}
