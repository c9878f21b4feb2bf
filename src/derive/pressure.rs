//! How hard it is to get memory, and the signs that it was taken from somebody.
//!
//! The level of the pool alone is no crisis: boxes run at 90 % by design. What counts is what the kernel has
//! to do to go on.

use super::rates::{Rate, number};
use crate::model::contention::{Pressed, PressureState, Sign, Symptom};
use crate::model::memory::{Vmstat, ZoneBlocks};
use crate::model::pool::Pool;
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::workload::{Family, Job, Phase, Workloads};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, BytesPerSecond, MIB, Ratio, Seconds};
use std::time::Duration;

/// Something was killed for want of memory: told for this long.
const KILLED_FOR: Duration = Duration::from_secs(60);
/// A job that has only begun may reclaim for its load for so many seconds before it shows one.
const BEGINS: f64 = 180.0;
/// Free memory of so many times what is little in large blocks is in pieces.
const PIECES: u64 = 16;
/// Blocks that count as large.
const LARGE: u64 = 2 * MIB;

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub struct State {
    swap_in: Rate,
    refault_anon: Rate,
    refault_file: Rate,
    kswapd: Rate,
    direct: Rate,
    stalls: Rate,
    compact_fail: Rate,
    psi: Rate,
    kills: Option<(f64, Option<Duration>)>,
    /// The worst state lately, and when its signs were last there.
    held: Option<(PressureState, Duration)>,
}

/// What the kernel does, a second.
struct Doing {
    swap_in: Reading<f64>,
    refault_anon: Reading<f64>,
    refault_file: Reading<f64>,
    kswapd: Reading<f64>,
    direct: Reading<f64>,
    stalls: Reading<f64>,
    compact_fail: Reading<f64>,
    /// Share of the time in which something stood still for memory.
    stalled: Reading<f64>,
}

impl State {
    fn learn(&mut self, snapshot: &Snapshot, window: Duration) {
        let read = snapshot.read_at[Source::Vmstat.index()].map(|read| read.mono);
        let at = read.unwrap_or(snapshot.at.mono);
        let v = &snapshot.vmstat;
        self.swap_in.push(at, number(v.swap_in), window);
        self.refault_anon.push(at, number(v.refault_anon), window);
        self.refault_file.push(at, number(v.refault_file), window);
        self.kswapd.push(at, number(v.steal_kswapd), window);
        self.direct.push(at, number(v.steal_direct), window);
        self.stalls.push(at, stalls(v), window);
        self.compact_fail.push(at, number(v.compact_fail), window);
        let psi = snapshot.pressure.memory_some.map(|Seconds(s)| s);
        self.psi.push(at, psi, window);
        if let Ok(kills) = number(v.oom_kill) {
            self.kills = Some(match self.kills {
                Some((before, _)) if kills > before => (kills, Some(at)),
                Some((before, _)) if kills < before => (kills, None),
                Some((_, when)) => (kills, when),
                None => (kills, None),
            });
        }
    }

    fn doing(&self, page: Reading<Bytes>, window: Duration) -> Doing {
        let bytes = |rate: &Rate| Ok(rate.get(window)? * page?.as_f64());
        Doing {
            swap_in: bytes(&self.swap_in),
            refault_anon: bytes(&self.refault_anon),
            refault_file: bytes(&self.refault_file),
            kswapd: bytes(&self.kswapd),
            direct: bytes(&self.direct),
            stalls: self.stalls.get(window),
            compact_fail: self.compact_fail.get(window),
            stalled: self.psi.get(window),
        }
    }

    /// Whether something was killed a moment ago.
    fn killed(&self, now: Duration) -> bool {
        let when = self.kills.and_then(|(_, when)| when);
        when.is_some_and(|when| now.saturating_sub(when) <= KILLED_FOR)
    }
}

/// Allocations that had to reclaim first, in all zones.
fn stalls(v: &Vmstat) -> Reading<f64> {
    let normal = number(v.stall_normal)?;
    let others = [v.stall_dma, v.stall_dma32, v.stall_movable];
    Ok(normal + others.into_iter().filter_map(|stall| number(stall).ok()).sum::<f64>())
}

fn mib(rate: f64) -> String {
    format!("{:.1} MiB/s", rate / Bytes(MIB).as_f64())
}

/// A symptom that shows when a rate is at its limit.
fn sign(rate: Reading<f64>, from: f64, told: impl Fn(f64) -> String) -> Sign {
    Sign {
        shows: rate.map(|rate| rate >= from),
        evidence: rate.map_or_else(|reason| reason.as_str().to_owned(), told),
    }
}

/// Derives the pressure.
pub fn derive(
    state: &mut State,
    snapshot: &Snapshot,
    pool: &Pool,
    workloads: &Workloads,
    t: &Thresholds,
) -> Pressed {
    let window = Duration::try_from_secs_f64(t.pressure_window.0).unwrap_or_default();
    state.learn(snapshot, window);
    let doing = state.doing(pool.page_size, window);
    let jobs: &[Job] = workloads.jobs.as_deref().map_or(&[], Vec::as_slice);
    let contiguous = contiguous(snapshot, pool.page_size);
    let sign_of = |symptom: Symptom| match symptom {
        Symptom::SwapIn => {
            sign(doing.swap_in, t.swap_in_from.0, |r| format!("{} from swap", mib(r)))
        }
        Symptom::AnonymousRefaults => sign(doing.refault_anon, t.refault_from.0, |r| {
            format!("{} of programs' pages read back", mib(r))
        }),
        Symptom::FileRefaults => sign(doing.refault_file, t.refault_from.0, |r| {
            format!("{} of file pages read back", mib(r))
        }),
        Symptom::KernelReclaim => sign(doing.kswapd, t.refault_from.0, |r| {
            format!("{} reclaimed in the background", mib(r))
        }),
        Symptom::WorkloadFaults => faults(workloads, pool, t),
        Symptom::ResidencyLost => residency(workloads, t),
        Symptom::ContiguityLost => fragmented(contiguous, pool, &doing, t),
    };
    let signs = std::array::from_fn(|i| sign_of(Symptom::ALL[i]));
    let loading = jobs.iter().find(|job| loads(job, snapshot));
    let judged = judge(state, snapshot.at.mono, pool, &doing, loading, t);
    let (now, evidence) = state.hold(judged, snapshot.at.mono, t);
    Pressed { state: now, evidence, signs, contiguous }
}

impl State {
    /// A worse state is kept for a while after its signs: reclaim comes in waves.
    fn hold(
        &mut self,
        (now, evidence): (PressureState, String),
        at: Duration,
        t: &Thresholds,
    ) -> (PressureState, String) {
        if now == PressureState::Unknown {
            self.held = None;
            return (now, evidence);
        }
        let longest = Duration::try_from_secs_f64(t.pressure_hold.0).unwrap_or_default();
        match self.held {
            Some((held, since)) if held > now && at.saturating_sub(since) < longest => {
                let seconds = Seconds(at.saturating_sub(since).as_secs_f64());
                (held, format!("{evidence}; its signs were last seen {seconds} ago"))
            }
            _ => {
                self.held = Some((now, at));
                (now, evidence)
            }
        }
    }
}

/// The state by what is seen now.
fn judge(
    state: &State,
    at: Duration,
    pool: &Pool,
    doing: &Doing,
    loading: Option<&Job>,
    t: &Thresholds,
) -> (PressureState, String) {
    let (available, direct) = match (pool.available, doing.direct) {
        (Ok(available), Ok(direct)) => (available, direct),
        (Err(reason), _) | (_, Err(reason)) => {
            return (PressureState::Unknown, reason.as_str().to_owned());
        }
    };
    let tight = little(available, t);
    let stalled = doing.stalled.unwrap_or(0.0) >= t.stall_from.0;
    let reclaims = direct >= t.direct_reclaim_from.0;
    let distress = reclaims || stalled;
    let back = |rate: Reading<f64>, from: BytesPerSecond| rate.is_ok_and(|rate| rate >= from.0);
    let read_back = back(doing.swap_in, t.swap_in_from) || back(doing.refault_anon, t.refault_from);
    let evidence = told(available, doing);
    let killed = state.killed(at);
    let evidence = if killed {
        format!("a process was killed for want of memory; {evidence}")
    } else {
        evidence
    };
    // One that reaches the limit of its own control group is killed on an empty box, too.
    let was_tight = pool.available_min[0].is_ok_and(|least| little(least, t));
    if killed && was_tight {
        return (PressureState::Exhausted, evidence);
    }
    if available < t.exhausted_below && distress {
        return (PressureState::Exhausted, evidence);
    }
    if read_back && distress {
        return (PressureState::Thrashing, evidence);
    }
    if tight && distress {
        // Page cache gives way to a model that is loaded: that is what it is for, until the slope says that
        // it will not be enough.
        if let Some(job) = loading.filter(|_| pool.imminent != Ok(true)) {
            let phase = job.phase.map_or("", Phase::as_str);
            let class = job.class.as_str();
            return (
                PressureState::Tight,
                format!("{evidence}; {class} is {phase}, a load is no crisis"),
            );
        }
        return (PressureState::Reclaiming, evidence);
    }
    let level = if tight { PressureState::Tight } else { PressureState::Comfortable };
    (level, evidence)
}

fn told(available: Bytes, doing: &Doing) -> String {
    let mut parts = vec![format!("available {available}")];
    let mut part = |rate: Reading<f64>, what: &str| {
        if let Ok(rate) = rate
            && rate >= Bytes(MIB).as_f64() / 8.0
        {
            parts.push(format!("{} {what}", mib(rate)));
        }
    };
    part(doing.direct, "reclaimed by programs themselves");
    part(doing.kswapd, "reclaimed in the background");
    part(doing.swap_in, "from swap");
    part(doing.refault_anon, "of programs' pages read back");
    if let Ok(stalls) = doing.stalls
        && stalls >= 1.0
    {
        parts.push(format!("{stalls:.0} allocations a second had to reclaim first"));
    }
    if let Ok(share) = doing.stalled
        && share >= 0.01
    {
        parts.push(format!("{} stalled for memory", Ratio(share)));
    }
    parts.join(", ")
}

/// A job that has settled and waits for the disk, where another job is there to have pushed it out.
fn faults(workloads: &Workloads, pool: &Pool, t: &Thresholds) -> Sign {
    let jobs = match &workloads.jobs {
        Ok(jobs) => jobs,
        Err(reason) => return Sign { shows: Err(*reason), evidence: reason.as_str().to_owned() },
    };
    let settled = jobs.iter().filter(|job| matches!(job.phase, Ok(Phase::Serving | Phase::Idle)));
    let worst =
        settled.filter_map(|job| Some((job, job.faults.ok()?))).max_by(|a, b| a.1.total_cmp(&b.1));
    match worst {
        None => Sign { shows: Ok(false), evidence: "no job that has settled".to_owned() },
        Some((job, rate)) => {
            let limit = t.faults_from.as_f64();
            // Its own companions and a desktop take nothing from it; nor does anybody while there is room.
            let counts = |other: &&Job| {
                let idle = matches!(other.class.class.family(), Family::Launcher | Family::Desktop);
                let holds = other.in_pool.is_ok_and(|gpu| gpu >= t.job_small);
                other.id() != job.id() && !idle && (holds || other.held() >= t.heavy_from)
            };
            let tight = pool.available.is_ok_and(|left| little(left, t));
            let others = tight && jobs.iter().any(|other| counts(&other));
            let name = job.class.as_str();
            let unit = &job.unit;
            let alone = if others { "" } else { ", which is alone or has room" };
            Sign {
                shows: Ok(rate >= limit && others),
                evidence: format!("{rate:.0} major faults a second of {name} ({unit}){alone}"),
            }
        }
    }
}

/// Whether so little is available that the kernel soon has to take memory back from somebody.
fn little(available: Bytes, t: &Thresholds) -> bool {
    available < t.reserve.plus(t.comfort)
}

/// Whether a job loads. One that has only begun is given a while; a notebook waits for somebody to type.
fn loads(job: &Job, snapshot: &Snapshot) -> bool {
    let family = job.class.class.family();
    let age = snapshot.uptime.since_boot.map(|Seconds(now)| now - job.started.0);
    match job.phase {
        Ok(Phase::Loading | Phase::Warming) => true,
        Ok(Phase::Starting) => {
            matches!(family, Family::Server | Family::Trainer) && age.is_ok_and(|age| age < BEGINS)
        }
        _ => false,
    }
}

/// A server that holds less than when it had settled.
fn residency(workloads: &Workloads, t: &Thresholds) -> Sign {
    let jobs = match &workloads.jobs {
        Ok(jobs) => jobs,
        Err(reason) => return Sign { shows: Err(*reason), evidence: reason.as_str().to_owned() },
    };
    let lost = |job: &Job| {
        let (settled, now) = (job.settled.ok()?, job.gpu.ok()?);
        (job.class.class.family() == Family::Server).then(|| settled.less(now))
    };
    let most = jobs.iter().filter_map(|job| Some((job, lost(job)?))).max_by_key(|(_, lost)| *lost);
    match most {
        Some((job, lost)) if lost >= t.job_reload_rise => Sign {
            shows: Ok(true),
            evidence: format!(
                "{} ({}) holds {lost} less than when it had settled; one that sleeps or unloads does so",
                job.class.as_str(),
                job.unit
            ),
        },
        _ => Sign { shows: Ok(false), evidence: String::new() },
    }
}

/// Free memory in large blocks, of the zones that the driver takes from: small ones below 4 GiB have their
/// blocks to the end.
fn contiguous(snapshot: &Snapshot, page: Reading<Bytes>) -> Reading<Bytes> {
    let page = page?;
    let zones = snapshot.blocks.as_ref().map_err(|reason| *reason)?;
    let normal: Vec<&ZoneBlocks> =
        zones.iter().filter(|zone| zone.name.ends_with(".Normal")).collect();
    if normal.is_empty() {
        return Err(Missing::NotPresent);
    }
    let of = |zone: &&ZoneBlocks| {
        let orders = zone.by_order.iter().enumerate();
        orders.fold(0_u64, |sum, (order, count)| {
            let size = page.0.checked_shl(u32::try_from(order).unwrap_or(u32::MAX)).unwrap_or(0);
            if size >= LARGE { sum.saturating_add(count.saturating_mul(size)) } else { sum }
        })
    };
    Ok(normal.iter().map(of).map(Bytes).sum())
}

/// Memory is there, and hardly a large block of it: it is free in small pieces, or the kernel fails to put
/// pieces together. A box whose memory is in the page cache has few large blocks and makes them when asked.
fn fragmented(contiguous: Reading<Bytes>, pool: &Pool, doing: &Doing, t: &Thresholds) -> Sign {
    let fails = doing.compact_fail.is_ok_and(|rate| rate > 0.0);
    let pieces = pool.free.is_ok_and(|free| free.0 >= t.contiguous_low.0.saturating_mul(PIECES));
    let shows = match (contiguous, pool.available) {
        (Ok(large), Ok(available)) => {
            Ok(large < t.contiguous_low && available >= t.reserve && (fails || pieces))
        }
        (Err(reason), _) | (_, Err(reason)) => Err(reason),
    };
    let failing = doing.compact_fail.ok().filter(|rate| *rate > 0.0);
    let failing = failing.map(|rate| format!(", {rate:.1} compactions a second fail"));
    let evidence = match contiguous {
        Ok(large) => {
            format!("{large} free in blocks of 2 MiB and more{}", failing.unwrap_or_default())
        }
        Err(reason) => reason.as_str().to_owned(),
    };
    Sign { shows, evidence }
}

#[cfg(test)]
mod tests;
