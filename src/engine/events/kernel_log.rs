//! What the kernel has said: one event for a burst of a kind, and one for each process that was killed. The
//! facts as they were told, never what caused them.

use super::{EventKind, Journal, Severity, told};
use crate::model::kernel_log::{MessageKind, Messages, Noticed, Victim};
use crate::model::moment::Moment;
use crate::model::pool::Verdicts;
use crate::model::snapshot::Snapshot;
use crate::thresholds::Thresholds;
use std::collections::BTreeMap;
use std::time::Duration;

/// Victims of one second that are told one by one.
const EACH: usize = 4;

/// What was noted before.
#[derive(Default)]
pub(super) struct Noted {
    counts: Option<[u64; MessageKind::COUNT]>,
    /// When each kind came last.
    last: [Option<Moment>; MessageKind::COUNT],
    /// When each Xid came last.
    pub(super) xids: BTreeMap<u64, Moment>,
    /// The last entry that was seen.
    entry: u64,
}

/// How much a kind asks of its reader; none for what is counted only.
const fn severity(kind: MessageKind) -> Option<Severity> {
    match kind {
        MessageKind::PcieFatal | MessageKind::ThermalCritical => Some(Severity::Error),
        MessageKind::Xid
        | MessageKind::OomKill
        | MessageKind::HungTask
        | MessageKind::SoftLockup
        | MessageKind::RcuStall
        | MessageKind::IoError => Some(Severity::Warning),
        // Healthy loads log it, too.
        MessageKind::DriverNoMemory => Some(Severity::Info),
        MessageKind::DriverError
        | MessageKind::DriverLoaded
        | MessageKind::OomInvoked
        | MessageKind::PageAllocationFailure
        | MessageKind::PcieNonfatal
        | MessageKind::PcieCorrected => None,
    }
}

/// What a kind's number is.
const fn unit(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::HungTask | MessageKind::SoftLockup => " s",
        _ => "",
    }
}

impl Journal {
    pub(super) fn note_kernel(
        &mut self,
        snapshot: &Snapshot,
        verdicts: &Verdicts,
        thresholds: &Thresholds,
    ) {
        let (Ok(messages), Ok(heard)) = (&snapshot.kernel_log, &verdicts.kernel_log) else {
            return;
        };
        let settle = Duration::from_secs_f64(thresholds.event_settle.0);
        let known = self.kernel.counts.replace(messages.counts).unwrap_or(messages.old);
        let seen = self.kernel.entry;
        let fresh = |kind: MessageKind| {
            let of = move |noticed: &&Noticed| {
                let e = &noticed.entry;
                e.message.kind == kind && !e.old && e.number > seen
            };
            heard.entries.iter().filter(of)
        };
        for &kind in MessageKind::ALL {
            let index = kind as usize;
            let new = messages.counts[index].saturating_sub(known[index]);
            let Some(severity) = severity(kind).filter(|_| new > 0) else { continue };
            let at = snapshot.at;
            let before = self.kernel.last[index].replace(at);
            match kind {
                MessageKind::Xid => {
                    self.note_kernel_xids(fresh(kind), messages, at, settle);
                }
                MessageKind::OomKill => {
                    self.note_victims(fresh(kind), new, at);
                }
                // One that goes on is one.
                _ if before.is_some_and(|before| at.since(before) < settle) => {}
                _ => {
                    let evidence = burst(kind, new, fresh(kind).next(), messages);
                    self.push(at, EventKind::KernelMessage, severity, kind.as_str(), evidence);
                }
            }
        }
        self.kernel.entry = messages.latest.last().map_or(seen, |entry| entry.number);
    }

    /// An Xid that the driver's own events have told is not told again, but for whose it was.
    fn note_kernel_xids<'a>(
        &mut self,
        fresh: impl Iterator<Item = &'a Noticed>,
        messages: &Messages,
        at: Moment,
        settle: Duration,
    ) {
        for noticed in fresh {
            let Some(xid) = noticed.entry.message.number else { continue };
            let before = self.kernel.xids.insert(xid, at);
            let near = |when: &Moment| at.since(*when) < settle;
            let by_driver = self.xids.iter().find_map(|((_, known), (_, when))| {
                (u64::from(*known) == xid && near(when)).then_some(*when)
            });
            if before.as_ref().is_some_and(near) {
                continue;
            }
            let of = whose(noticed);
            if let Some(when) = by_driver {
                // What is told in this second has it already.
                if !of.is_empty() && when.mono < at.mono {
                    let evidence = format!("the kernel's log: Xid {xid}{of}");
                    self.push(at, EventKind::Xid, Severity::Info, "kernel_log", evidence);
                }
                continue;
            }
            let count = messages.xids.get(&xid).copied().unwrap_or_default();
            let evidence = format!("the kernel's log: Xid {xid}{of}, {count} since boot");
            self.push(at, EventKind::Xid, Severity::Warning, "kernel_log", evidence);
        }
    }

    fn note_victims<'a>(&mut self, fresh: impl Iterator<Item = &'a Noticed>, new: u64, at: Moment) {
        let kind = MessageKind::OomKill.as_str();
        let mut count = 0;
        for noticed in fresh.take(EACH) {
            count += noticed.entry.count;
            let message = &noticed.entry.message;
            let program = message.name.as_deref().unwrap_or("a process");
            let victim = message.victim.as_ref();
            let class = victim.and_then(|victim| victim.class);
            let class = class.map(|class| format!(" ({})", class.as_str())).unwrap_or_default();
            let memory = victim.map(|victim| held(victim, noticed)).unwrap_or_default();
            let evidence = format!("{program}{class} was killed{memory}");
            self.push(at, EventKind::KernelMessage, Severity::Warning, kind, evidence);
        }
        if count < new {
            let evidence = format!("{} more processes were killed", new - count);
            self.push(at, EventKind::KernelMessage, Severity::Warning, kind, evidence);
        }
    }
}

/// `, of vllm`, where that is known.
fn whose(noticed: &Noticed) -> String {
    noticed.class.as_ref().map(|class| format!(", of {}", class.as_str())).unwrap_or_default()
}

/// The same of an Xid that the driver has told and the kernel's log has had of late.
pub(super) fn of_job(verdicts: &Verdicts, xid: u64, at: Moment, settle: Duration) -> String {
    let entries = verdicts.kernel_log.iter().flat_map(|heard| heard.entries.iter().rev());
    let is = |noticed: &&Noticed| {
        let message = &noticed.entry.message;
        let same = message.kind == MessageKind::Xid && message.number == Some(xid);
        same && !noticed.entry.old && at.since(noticed.at) < settle
    };
    entries.into_iter().find(is).map(whose).unwrap_or_default()
}

/// What a victim held, what was short, and beside a tiny one what the kernel had no account of.
fn held(victim: &Victim, noticed: &Noticed) -> String {
    let word = match noticed.tiny {
        Some(Ok(bytes)) => {
            format!("; a tiny victim, while the kernel has no account of {bytes}")
        }
        Some(Err(_)) => "; a tiny victim".to_owned(),
        None => String::new(),
    };
    let short =
        victim.constraint.map(|c| format!(", constraint {}", c.as_str())).unwrap_or_default();
    format!(
        ": total-vm {}, anon-rss {}, shmem-rss {}{short}{word}",
        told(victim.total_vm),
        told(victim.anonymous),
        told(victim.shared)
    )
}

fn burst(kind: MessageKind, new: u64, first: Option<&Noticed>, messages: &Messages) -> String {
    let facts = first.map(|first| {
        let entry = &first.entry;
        if let (MessageKind::DriverNoMemory, Some(during)) = (kind, first.phase) {
            return format!(", {}", during.told(first.jobs.as_deref()));
        }
        let name = entry.message.name.as_deref().map(|name| format!(": {name}"));
        let number = entry.message.number.map(|number| format!(", {number}{}", unit(kind)));
        name.unwrap_or_default() + &number.unwrap_or_default()
    });
    let facts = facts.unwrap_or_default();
    let all = messages.counts[kind as usize];
    let lines = if new == 1 { "line" } else { "lines" };
    format!("{new} {lines} in the kernel's log, {all} since boot{facts}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kernel_log::LogPlace;
    use crate::model::reading::Missing;
    use crate::model::source::Source;
    use crate::model::workload::{Class, Proc};
    use crate::sources::kernel_log::Tally;

    const NO_MEMORY: &str = "NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY]";

    struct Scene {
        journal: Journal,
        tally: Tally,
        driver: BTreeMap<(u32, u32), u64>,
        state: crate::derive::State,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                journal: Journal::default(),
                tally: Tally::new(LogPlace::Ring),
                driver: BTreeMap::new(),
                state: crate::derive::State::default(),
            }
        }

        fn say(&mut self, second: u64, text: &str, times: u64) {
            self.tally.take(text, Ok(Duration::from_secs(second)), false, times);
        }

        /// What is told at this second, as `subject: evidence`.
        fn tick(&mut self, second: u64) -> Vec<String> {
            let at = Duration::from_secs(second);
            let mut snapshot = Snapshot::absent(Moment { mono: at, wall: at }, Missing::Pending);
            snapshot.kernel_log = Ok(self.tally.told());
            snapshot.gpus.xids = Ok(self.driver.clone());
            snapshot.gpus.devices = Ok(Vec::new());
            let server = Proc::new("7", 7, Class::Vllm.into(), Missing::Pending);
            snapshot.processes.list = Ok(vec![server]);
            snapshot.read_at[Source::Processes.index()] = Some(snapshot.at);
            let before = self.journal.events().len();
            let t = Thresholds::default();
            let verdicts = crate::derive::derive(&mut self.state, &snapshot, &t);
            let settle = Duration::from_secs_f64(t.event_settle.0);
            self.journal.note_xids(&snapshot, &verdicts, settle);
            self.journal.note_kernel(&snapshot, &verdicts, &t);
            let events = self.journal.events();
            events[before..].iter().map(|e| format!("{}: {}", e.subject, e.evidence)).collect()
        }
    }

    #[test]
    fn a_burst_is_one_event_and_what_was_before_the_start_none() {
        let mut scene = Scene::new();
        scene.tally.take(NO_MEMORY, Ok(Duration::ZERO), true, 60);
        assert_eq!(scene.tick(1), [""; 0]);
        scene.say(2, NO_MEMORY, 16);
        assert_eq!(
            scene.tick(2),
            [
                "driver_no_memory: 16 lines in the kernel's log, 76 since boot, while vllm (unknown) was starting: usual during a load"
            ]
        );
        for second in 3..60 {
            scene.say(second, NO_MEMORY, 1);
            assert_eq!(scene.tick(second), [""; 0], "it goes on");
        }
        assert_eq!(scene.tick(60), [""; 0]);
        scene.say(89, NO_MEMORY, 1);
        let told = scene.tick(89);
        assert_eq!(
            told,
            [
                "driver_no_memory: 1 line in the kernel's log, 134 since boot, what the jobs did then is not known"
            ],
            "nobody looked for half a minute"
        );
    }

    #[test]
    fn each_victim_is_told_with_what_it_held_and_a_massacre_in_one_line_more() {
        let mut scene = Scene::new();
        scene.tick(0);
        scene.say(1, "oom-kill:constraint=CONSTRAINT_NONE,", 1);
        scene.say(
            1,
            "Out of memory: Killed process 7 (python) total-vm:158493688kB, anon-rss:1000kB",
            1,
        );
        let told = scene.tick(1);
        assert_eq!(
            told,
            [
                "oom_kill: python was killed: total-vm 151.15 GiB, anon-rss 1000 KiB, shmem-rss not_available, \
              constraint none; a tiny victim"
            ]
        );
        for n in 0..10 {
            let line =
                format!("Out of memory: Killed process 7 (p{n}) total-vm:9kB, anon-rss:99999999kB");
            scene.say(2, &line, 1);
        }
        let told = scene.tick(2);
        assert_eq!(told.len(), 5);
        assert!(told[0].contains("p0 was killed") && !told[0].contains("tiny"), "{told:?}");
        let line =
            "Out of memory: Killed process 7 (VLLM::EngineCor) total-vm:9kB, anon-rss:99999999kB";
        let mut scene = Scene::new();
        scene.tick(0);
        scene.say(1, line, 1);
        let named = scene.tick(1);
        assert!(named[0].starts_with("oom_kill: VLLM::EngineCor (vllm) was killed: "), "{named:?}");
        assert_eq!(told[4], "oom_kill: 6 more processes were killed");
    }

    #[test]
    fn an_xid_is_told_once_whoever_tells_it_first() {
        let mut scene = Scene::new();
        scene.tick(0);
        scene.say(1, "NVRM: Xid (PCI:000f:01:00): 13, x", 1);
        assert_eq!(scene.tick(1), ["kernel_log: the kernel's log: Xid 13, 1 since boot"]);
        scene.driver.insert((0, 13), 1);
        assert_eq!(scene.tick(2), [""; 0], "the driver tells the same");
        scene.driver.insert((0, 31), 1);
        assert_eq!(scene.tick(3), ["gpu: GPU 0: Xid 31, 1 since the exporter started"]);
        scene.say(4, "NVRM: Xid (PCI:000f:01:00): 31, x", 1);
        scene.say(4, "NVRM: Xid (PCI:000f:01:00): 79, x", 1);
        assert_eq!(scene.tick(4), ["kernel_log: the kernel's log: Xid 79, 1 since boot"]);
        scene.say(40, "NVRM: Xid (PCI:000f:01:00): 13, x", 1);
        assert_eq!(scene.tick(40), ["kernel_log: the kernel's log: Xid 13, 2 since boot"]);
    }

    /// Only the kernel's line tells whose it was, whoever tells the error first.
    #[test]
    fn an_xid_is_told_with_the_class_of_its_job() {
        let mut scene = Scene::new();
        scene.tick(0);
        let line = |xid: u64, pid: u32| {
            format!("NVRM: Xid (PCI:000f:01:00): {xid}, pid={pid}, name=python, Channel")
        };
        scene.say(1, &line(13, 7), 1);
        assert_eq!(scene.tick(1), ["kernel_log: the kernel's log: Xid 13, of vllm, 1 since boot"]);
        scene.say(2, &line(31, 7), 1);
        scene.driver.insert((0, 31), 1);
        assert_eq!(scene.tick(2), ["gpu: GPU 0: Xid 31, of vllm, 1 since the exporter started"]);
        scene.driver.insert((0, 43), 1);
        assert_eq!(scene.tick(3), ["gpu: GPU 0: Xid 43, 1 since the exporter started"]);
        scene.say(4, &line(43, 7), 1);
        assert_eq!(scene.tick(4), ["kernel_log: the kernel's log: Xid 43, of vllm"]);
        scene.say(5, &line(79, 8), 1);
        assert_eq!(scene.tick(5), ["kernel_log: the kernel's log: Xid 79, 1 since boot"]);
    }

    #[test]
    fn what_is_counted_only_is_no_event() {
        let mut scene = Scene::new();
        scene.tick(0);
        scene.say(1, "NVRM: loading NVIDIA UNIX Kernel Module", 1);
        scene.say(1, "x invoked oom-killer: gfp_mask=0x0, order=0", 1);
        assert_eq!(scene.tick(1), [""; 0]);
        scene.say(2, "INFO: task llama-server:1 blocked for more than 122 seconds.", 1);
        let told = scene.tick(2);
        assert_eq!(
            told,
            ["hung_task: 1 line in the kernel's log, 1 since boot: llama-server, 122 s"]
        );
    }
}
