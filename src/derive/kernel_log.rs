//! The kernel's log over time: how much of each kind is recent, the latest entries with when they were noticed,
//! and what the jobs were doing then.
//!
//! The driver logs that it got no memory during healthy loads, too. What it may mean hangs on whether anything
//! was loading.

use crate::model::kernel_log::{
    ByDuring, During, Entry, Heard, MessageKind, Messages, NoMemory, Noticed,
};
use crate::model::naming::OTHER;
use crate::model::pool::{Partition, Segment};
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::workload::{ClassName, Family, Job, Phase, View, Workloads};
use crate::thresholds::Thresholds;
use crate::units::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Entries that are kept.
const KEPT: usize = 128;
/// Jobs that are told by name.
const TOLD: usize = 3;
/// What comes after a log could not be read for longer than this has come at some time before.
const AWAY: Duration = Duration::from_secs(10);

type Counts = [u64; MessageKind::COUNT];

/// What else is known of the box.
pub(super) struct Beside<'a> {
    /// The jobs.
    pub workloads: &'a Workloads,
    /// The pool.
    pub partition: Result<&'a Partition, Missing>,
    /// The class of the job that a process belongs to.
    pub class_of: &'a dyn Fn(u32) -> Option<ClassName>,
}

/// What is remembered between snapshots.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The counts that were seen last, and when.
    known: Option<Counts>,
    looked: Option<Duration>,
    /// What came, and when it was noticed.
    arrivals: VecDeque<(Duration, Counts)>,
    entries: Arc<Vec<Noticed>>,
    /// Messages of memory that the driver did not get: all, and those of late.
    no_memory: ByDuring,
    late: VecDeque<(Duration, During, u64)>,
}

/// What came is counted when it is noticed: the ring's own clock drifts by seconds a day.
pub(super) fn derive(
    state: &mut State,
    snapshot: &Snapshot,
    beside: &Beside<'_>,
    thresholds: &Thresholds,
) -> Reading<Heard> {
    let messages = snapshot.kernel_log.as_ref().map_err(|reason| *reason)?;
    let now = snapshot.at.mono;
    // What came before the start is no news.
    let known = state.known.unwrap_or(messages.old);
    let new: Counts = std::array::from_fn(|kind| messages.counts[kind].saturating_sub(known[kind]));
    if new.iter().any(|count| *count > 0) {
        state.arrivals.push_back((now, new));
    }
    let before = state.looked.replace(now);
    let away = before.is_some_and(|before| now.saturating_sub(before) > AWAY);
    let doing = if away { (During::Unknown, None) } else { doing(beside.workloads) };
    let first = state.known.is_none();
    if first || messages.counts != known {
        notice(&mut state.entries, messages, snapshot, beside, &doing, thresholds);
    }
    state.known = Some(messages.counts);
    let no_memory = state.no_memory(now, doing.0, &new, thresholds);
    let within = thresholds.kernel_recent;
    let length = Duration::from_secs_f64(within.0);
    while state.arrivals.front().is_some_and(|(at, _)| now.saturating_sub(*at) > length) {
        state.arrivals.pop_front();
    }
    let sum = |kind: usize| {
        state.arrivals.iter().fold(0_u64, |sum, (_, counts)| sum.saturating_add(counts[kind]))
    };
    let recent = std::array::from_fn(sum);
    Ok(Heard { recent, within, entries: Arc::clone(&state.entries), no_memory })
}

impl State {
    fn no_memory(
        &mut self,
        now: Duration,
        during: During,
        new: &Counts,
        t: &Thresholds,
    ) -> NoMemory {
        let count = new[MessageKind::DriverNoMemory as usize];
        if count > 0 {
            let all = &mut self.no_memory[during as usize];
            *all = all.saturating_add(count);
            self.late.push_back((now, during, count));
        }
        let within = t.no_memory_within;
        let length = Duration::from_secs_f64(within.0);
        while self.late.front().is_some_and(|(at, ..)| now.saturating_sub(*at) > length) {
            self.late.pop_front();
        }
        let mut recent = ByDuring::default();
        for (_, during, count) in &self.late {
            let sum = &mut recent[*during as usize];
            *sum = sum.saturating_add(*count);
        }
        NoMemory { all: self.no_memory, recent, within }
    }
}

/// What the jobs are doing, and those of them that tell it.
fn doing(workloads: &Workloads) -> (During, Option<Arc<str>>) {
    // Whoever is not seen may be loading.
    let seen = matches!(workloads.view, Ok(View::Full | View::OwnOnly | View::OtherNamespace));
    let Some(jobs) = workloads.jobs.as_ref().ok().filter(|_| seen) else {
        return (During::Unknown, None);
    };
    let which = |phases: &[Phase]| -> Vec<&Job> {
        let is = |job: &&Job| job.phase.is_ok_and(|phase| phases.contains(&phase));
        jobs.iter().filter(is).collect()
    };
    let loading = which(&[Phase::Starting, Phase::Loading, Phase::Warming]);
    if !loading.is_empty() {
        return (During::Load, Some(told(&loading)));
    }
    if !which(&[Phase::Unknown]).is_empty() {
        return (During::Unknown, None);
    }
    let serving = which(&[Phase::Serving]);
    if serving.is_empty() {
        return (During::Idle, None);
    }
    (During::Serving, Some(told(&serving)))
}

/// `vllm (docker) was loading`
fn told(jobs: &[&Job]) -> Arc<str> {
    let named = |job: &&Job| {
        let unit = if &*job.unit == OTHER { String::new() } else { format!(" ({})", job.unit) };
        format!("{}{unit} was {}", job.class.as_str(), does(job))
    };
    let mut all: Vec<String> = jobs.iter().take(TOLD).map(named).collect();
    if jobs.len() > TOLD {
        all.push(format!("{} more", jobs.len() - TOLD));
    }
    all.join(", ").into()
}

/// What it does in a word: one that works need not be a server.
fn does(job: &Job) -> &'static str {
    match (job.phase, job.class.class.family()) {
        (Ok(Phase::Serving), Family::Trainer) => "training",
        (Ok(Phase::Serving), family) if family != Family::Server => "working",
        (phase, _) => phase.map_or("there", Phase::as_str),
    }
}

fn notice(
    entries: &mut Arc<Vec<Noticed>>,
    messages: &Messages,
    snapshot: &Snapshot,
    beside: &Beside<'_>,
    doing: &(During, Option<Arc<str>>),
    t: &Thresholds,
) {
    let entries = Arc::make_mut(entries);
    for entry in messages.latest.iter() {
        // One that has grown is the same entry.
        let known = entries.iter_mut().rev().find(|known| known.entry.number == entry.number);
        if let Some(known) = known {
            known.entry.count = entry.count;
            continue;
        }
        let (phase, jobs) = if entry.old { (None, None) } else { (Some(doing.0), doing.1.clone()) };
        let (entry, class, tiny) = (entry.clone(), class(entry, beside), tiny(entry, beside, t));
        entries.push(Noticed { entry, at: snapshot.at, phase, jobs, class, tiny });
    }
    let old = entries.len().saturating_sub(KEPT);
    entries.drain(..old);
}

/// The class of the job that an Xid is of. A pid of another namespace is another process's.
fn class(entry: &Entry, beside: &Beside<'_>) -> Option<ClassName> {
    let same = matches!(beside.workloads.view, Ok(View::Full | View::OwnOnly));
    let pid = entry.pid.filter(|_| same && !entry.old)?;
    (beside.class_of)(pid)
}

/// Beside a victim that had next to nothing of its own: what no counter of the kernel claims.
fn tiny(entry: &Entry, beside: &Beside<'_>, t: &Thresholds) -> Option<Reading<Bytes>> {
    let own = entry.message.victim.as_ref()?.anonymous.ok()?;
    let part = || beside.partition.and_then(|partition| partition.part(Segment::Unaccounted));
    (own < t.tiny_victim && !entry.old).then(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kernel_log::{LogPlace, Message, NoMemoryState};
    use crate::model::moment::Moment;
    use crate::model::workload::{Cap, CapKind, CapSetting, Class, Sight};
    use crate::units::Seconds;
    use std::collections::BTreeMap;

    const KIND: MessageKind = MessageKind::DriverNoMemory;

    fn snapshot(second: u64, count: u64, old: u64, latest: &[(u64, u64)]) -> Snapshot {
        let at = Duration::from_secs(second);
        let mut snapshot = Snapshot::absent(Moment { mono: at, wall: at }, Missing::Pending);
        let (mut counts, mut before) = ([0; MessageKind::COUNT], [0; MessageKind::COUNT]);
        (counts[KIND as usize], before[KIND as usize]) = (count, old);
        let message = Message { kind: KIND, number: None, name: None, victim: None };
        let entry = |&(number, count): &(u64, u64)| Entry {
            number,
            at: Ok(at),
            message: message.clone(),
            count,
            old: false,
            pid: None,
        };
        snapshot.kernel_log = Ok(Arc::new(Messages {
            place: LogPlace::Ring,
            counts,
            old: before,
            last: [None; MessageKind::COUNT],
            xids: BTreeMap::new(),
            lost: 0,
            overwritten: 0,
            latest: Arc::new(latest.iter().map(entry).collect()),
        }));
        snapshot
    }

    fn hear(state: &mut State, snapshot: &Snapshot, workloads: &Workloads) -> Reading<Heard> {
        let known = |pid| (pid == 7).then(|| Class::Vllm.into());
        let partition = Err(Missing::NotPresent);
        let beside = Beside { workloads, partition, class_of: &known };
        derive(state, snapshot, &beside, &Thresholds::default())
    }

    fn nobody() -> Workloads {
        jobs(&[])
    }

    /// vLLM in docker, once for each of these phases.
    fn jobs(phases: &[Phase]) -> Workloads {
        let missing = Err(Missing::NotPresent);
        let job = |phase: &Phase| Job {
            class: Class::Vllm.into(),
            unit: "docker".into(),
            pid: 7,
            started: Seconds(0.0),
            processes: 1,
            gpu: Ok(Bytes::from_gib(9)),
            in_pool: Ok(Bytes::from_gib(9)),
            resident: missing,
            host: missing,
            file: missing,
            swap: missing,
            group: missing,
            group_limit: missing,
            cap: Cap {
                kind: CapKind::None,
                setting: CapSetting::None,
                bytes: missing,
                exceeded: false,
            },
            phase: Ok(*phase),
            load_peak: missing,
            settled: missing,
            cpus: Err(Missing::NotPresent),
            faults: Err(Missing::NotPresent),
            worker: false,
            left: None,
            sight: Sight::Found,
            compiles: false,
        };
        let jobs = Ok(Arc::new(phases.iter().map(job).collect()));
        let totals = missing.and(Err(Missing::NotPresent));
        Workloads { view: Ok(View::Full), jobs, totals, driver: Ok(()), present: None }
    }

    #[test]
    fn what_the_jobs_were_doing_is_told_by_their_phases() {
        use Phase::{Idle, Loading, Serving, Starting, Unknown, Warming};
        let told = |workloads: &Workloads| {
            let (during, jobs) = doing(workloads);
            (during, jobs.as_deref().unwrap_or_default().to_owned())
        };
        for phase in [Starting, Loading, Warming] {
            let words = format!("vllm (docker) was {}", phase.as_str());
            // Whatever else there is.
            assert_eq!(told(&jobs(&[Unknown, Serving, phase])), (During::Load, words));
        }
        assert_eq!(told(&jobs(&[Serving, Unknown])).0, During::Unknown, "it may be loading");
        let words = "vllm (docker) was serving".to_owned();
        assert_eq!(told(&jobs(&[Idle, Serving])), (During::Serving, words));
        let mut trains = jobs(&[Serving]);
        for (class, word) in [(Class::Trl, "training"), (Class::Python, "working")] {
            let all = Arc::make_mut(trains.jobs.as_mut().unwrap());
            all[0].class = class.into();
            assert_eq!(told(&trains).1, format!("{} (docker) was {word}", class.as_str()));
        }
        assert_eq!(told(&jobs(&[Idle])), (During::Idle, String::new()));
        assert_eq!(told(&nobody()), (During::Idle, String::new()));
        let many = told(&jobs(&[Loading; 5])).1;
        assert!(many.ends_with("was loading, 2 more") && many.matches("vllm").count() == 3);
        for view in [Ok(View::Nobody), Ok(View::Unknown), Err(Missing::Denied)] {
            let hidden = Workloads { view, ..nobody() };
            assert_eq!(told(&hidden).0, During::Unknown, "{view:?}");
        }
    }

    /// Each message counts where the jobs were when it came, and the counts stay.
    #[test]
    fn memory_that_the_driver_did_not_get_is_counted_by_what_the_jobs_did() {
        let mut state = State::default();
        let mut look = |second, count, phases: &[Phase]| {
            let latest = [(second, 1)];
            let snapshot = snapshot(second, count, 50, &latest);
            hear(&mut state, &snapshot, &jobs(phases)).unwrap().no_memory
        };
        let at = |second,
                  count,
                  phases: &[Phase],
                  look: &mut dyn FnMut(u64, u64, &[Phase]) -> NoMemory| {
            let told = look(second, count, phases);
            (told.all, told.state())
        };
        assert_eq!(
            at(0, 50, &[], &mut look),
            ([0; 4], NoMemoryState::None),
            "from before the start"
        );
        let loading = [Phase::Loading];
        assert_eq!(at(1, 73, &loading, &mut look), ([23, 0, 0, 0], NoMemoryState::DuringLoad));
        assert_eq!(at(2, 73, &[], &mut look), ([23, 0, 0, 0], NoMemoryState::DuringLoad));
        let unknown = [Phase::Unknown];
        assert_eq!(at(3, 74, &unknown, &mut look), ([23, 0, 0, 1], NoMemoryState::Unknown));
        assert_eq!(at(4, 90, &[], &mut look), ([23, 0, 16, 1], NoMemoryState::OutsideLoad));
        let serving = [Phase::Serving];
        assert_eq!(at(5, 91, &serving, &mut look), ([23, 1, 16, 1], NoMemoryState::OutsideLoad));
        // Nobody looked for a while: when these came is not known.
        assert_eq!(at(100, 95, &loading, &mut look).0, [23, 1, 16, 5]);
        for second in 101..401 {
            look(second, 95, &[]);
        }
        assert_eq!(at(401, 95, &[], &mut look), ([23, 1, 16, 5], NoMemoryState::None), "long ago");
    }

    #[test]
    fn an_entry_is_joined_with_the_job_that_it_names_and_with_what_the_jobs_did() {
        let mut state = State::default();
        let mut log = snapshot(1, 1, 0, &[(1, 1), (2, 1), (3, 1)]);
        let messages = Arc::make_mut(log.kernel_log.as_mut().unwrap());
        let latest = Arc::make_mut(&mut messages.latest);
        (latest[0].pid, latest[1].pid, latest[2].old) = (Some(7), Some(8), true);
        let loading = jobs(&[Phase::Loading]);
        let heard = hear(&mut state, &log, &loading).unwrap();
        let told: Vec<_> = heard.entries.iter().map(|n| (n.phase, n.class.clone())).collect();
        let load = Some(During::Load);
        assert_eq!(told, [(load, Some(Class::Vllm.into())), (load, None), (None, None)]);
        // In another namespace the same number is another process.
        let other = Workloads { view: Ok(View::OtherNamespace), ..loading };
        let heard = hear(&mut State::default(), &log, &other).unwrap();
        assert_eq!(heard.entries[0].class, None);
    }

    #[test]
    fn what_came_before_the_start_is_counted_and_not_recent() {
        let mut state = State::default();
        let mut recent = |second, count, latest: &[(u64, u64)]| {
            let heard = hear(&mut state, &snapshot(second, count, 50, latest), &nobody()).unwrap();
            (heard.recent[KIND as usize], heard.entries.len())
        };
        assert_eq!(recent(0, 50, &[(1, 50)]), (0, 1));
        assert_eq!(recent(1, 66, &[(1, 50), (2, 16)]), (16, 2));
        assert_eq!(recent(2, 68, &[(1, 50), (2, 18)]), (18, 2), "one that grows is the same");
        assert_eq!(recent(61, 68, &[(2, 18)]), (18, 2));
        assert_eq!(recent(62, 68, &[(2, 18)]), (2, 2), "a minute");
        assert_eq!(recent(63, 68, &[(2, 18)]), (0, 2));
        assert_eq!(recent(64, 3, &[(2, 18)]), (0, 2), "counts that fall are no news");
    }

    #[test]
    fn the_list_is_bounded_and_the_reason_of_a_log_that_is_not_read_is_kept() {
        let mut state = State::default();
        for n in 1..1000 {
            let heard = hear(&mut state, &snapshot(n, n, 0, &[(n, 1)]), &nobody()).unwrap();
            assert!(heard.entries.len() <= KEPT && state.arrivals.len() <= 61);
            assert_eq!(heard.entries.last().map(|noticed| noticed.entry.number), Some(n));
        }
        let mut absent = snapshot(1000, 0, 0, &[]);
        absent.kernel_log = Err(Missing::Denied);
        assert_eq!(hear(&mut state, &absent, &nobody()), Err(Missing::Denied));
    }
}
