//! A run's slow stretches beside samples of its box: what the samples show, and whether that explains them.
//!
//! The samples go through the verdict of a live machine, so a stretch is explained by what `serve` would
//! have said at the time. A cause is named only where the samples show it in the stretch and not as much in
//! the run's own steady minutes; otherwise nothing is.

use super::causes::{self, Facts, Looks};
use super::throttle;
use crate::model::contention::ContentionState;
use crate::model::gpu::{ClockKind, EventReason, Gpu, TIMED};
use crate::model::module::Module;
use crate::model::moment::Moment;
use crate::model::pool::{Partition, Segment};
use crate::model::reading::{Missing, Reading};
use crate::model::samples::SamplePoint;
use crate::model::sharing::{Basis, GpuMemory, Hidden, MemoryReport, Sharing};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::throttle::{Throttle, ThrottleState};
use crate::model::training::{Beside, Explained, SlowCause, Stretch};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Celsius, Count, Hertz, Ratio, Watts};
use std::time::Duration;

/// Samples are judged as often as this, whatever their distance: they hold until the next one.
const STEP: Duration = Duration::from_secs(5);
/// Samples hold for so many times their usual distance; what is longer is a gap.
const HOLDS: u32 = 3;
/// More than the memory of any box: what is taken is what is not available of it.
const MUCH: u64 = 1 << 50;

/// How the GPU worked at one time.
struct Seen<'a> {
    at: Duration,
    point: &'a SamplePoint,
    judged: Throttle,
}

/// Judges the samples and lays the stretches beside them. `steady` is the time of the run's own steady
/// minutes. Times are since 1970.
#[must_use]
pub fn explain(
    points: &[SamplePoint],
    stretches: &[Stretch],
    steady: (Duration, Duration),
    t: &Thresholds,
) -> Vec<Explained> {
    let seen = judge(points, t);
    let before = beside(&seen, steady);
    let explained = stretches.iter().map(|stretch| {
        let within = (stretch.from, stretch.to);
        let during = beside(&seen, within);
        let causes = causes(&seen, stretch, (&during, &before), looks(&seen, steady), t);
        Explained { stretch: *stretch, during, before: before.clone(), causes }
    });
    explained.collect()
}

/// The usual distance of the samples.
fn distance(points: &[SamplePoint]) -> Duration {
    let mut all: Vec<Duration> =
        points.windows(2).map(|pair| pair[1].wall.saturating_sub(pair[0].wall)).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(STEP)
}

/// What a live machine would have said. That the steps are slow is not fed into it: it would prove itself.
fn judge<'a>(points: &'a [SamplePoint], t: &Thresholds) -> Vec<Seen<'a>> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let holds = distance(points).max(STEP) * HOLDS;
    let mut state = throttle::State::default();
    let mut out = Vec::new();
    let (mut at, mut next) = (first.wall, 0);
    while at <= last.wall {
        while points.get(next + 1).is_some_and(|point| point.wall <= at) {
            next += 1;
        }
        let point = &points[next];
        if at.saturating_sub(point.wall) <= holds {
            let judged = throttle::derive(
                &mut state,
                &snapshot(point, at),
                &held(point),
                &Ok(vec![GB10]),
                &Module::absent(Missing::NotPresent),
                Err(Missing::NotPresent),
                t,
            );
            out.extend(judged.into_iter().map(|judged| Seen { at, point, judged }));
        } else if let Some(next) = points.get(next + 1) {
            // Nothing is to be seen in a gap, however long it is.
            at = at.max(next.wall.saturating_sub(STEP));
        }
        at += STEP;
    }
    out
}

/// The samples are taken to be of one.
const GB10: GpuMemory = GpuMemory {
    index: 0,
    report: MemoryReport::Unsupported,
    sharing: Sharing::Shared,
    basis: Basis::Gb10,
    hidden: Hidden::Unknown,
};

fn snapshot(point: &SamplePoint, at: Duration) -> Snapshot {
    let now = Moment { mono: at, wall: at };
    let mut snapshot = Snapshot::absent(now, Missing::NotPresent);
    let mut gpu = Gpu::absent(0, Missing::NotPresent);
    gpu.temperature = point.temperature;
    gpu.power = point.power;
    gpu.utilization = point.utilization;
    gpu.clocks[ClockKind::Sm as usize] = point.clock;
    gpu.event_reasons = point.reasons.map(Count);
    for (reason, time) in TIMED.iter().zip(&mut gpu.event_seconds) {
        if *reason == EventReason::SwThermal {
            *time = point.thermal_seconds;
        }
    }
    snapshot.gpus.devices = Ok(vec![gpu]);
    snapshot.read_at[Source::Gpu.index()] = Some(now);
    snapshot
}

/// What the jobs hold grows as what is available falls.
fn held(point: &SamplePoint) -> Reading<Partition> {
    let mut parts = [Err(Missing::NotPresent); Segment::ALL.len()];
    parts[Segment::Unaccounted as usize] = Ok(Bytes(MUCH).less(point.available?));
    Ok(Partition { size: Bytes(MUCH), parts, absorbed: Bytes(0) })
}

/// What the samples of a time show.
fn beside(seen: &[Seen<'_>], (from, to): (Duration, Duration)) -> Beside {
    let within: Vec<&Seen<'_>> = seen.iter().filter(|s| from <= s.at && s.at < to).collect();
    let mean = |of: &dyn Fn(&SamplePoint) -> Reading<f64>| -> Reading<f64> {
        let all: Vec<Reading<f64>> = within.iter().map(|s| of(s.point)).collect();
        let told: Vec<f64> = all.iter().copied().filter_map(Result::ok).collect();
        let why = all.iter().copied().find_map(Result::err).unwrap_or(Missing::NotPresent);
        let count = u32::try_from(told.len()).unwrap_or(u32::MAX);
        if told.is_empty() { Err(why) } else { Ok(told.iter().sum::<f64>() / f64::from(count)) }
    };
    let hottest = within.iter().filter_map(|s| s.point.temperature.ok()).map(|Celsius(c)| c);
    let lowest = within.iter().filter_map(|s| s.point.available.ok()).min();
    let mut states: Vec<(ThrottleState, f64)> = ThrottleState::ALL
        .iter()
        .map(|state| (*state, held_for(&within, *state) / seconds(within.len()).max(1.0)))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    states.sort_by(|a, b| b.1.total_cmp(&a.1));
    let most = states.first().map(|(state, _)| *state);
    let last = within.iter().rev().find(|s| Some(s.judged.state()) == most);
    Beside {
        temperature: mean(&|p| p.temperature.map(|Celsius(c)| c)).map(Celsius),
        peak: hottest.reduce(f64::max).map(Celsius).ok_or(Missing::NotPresent),
        power: mean(&|p| p.power.map(|Watts(w)| w)).map(Watts),
        clock: mean(&|p| p.clock.map(|Hertz(h)| h)).map(Hertz),
        utilization: mean(&|p| p.utilization.map(|Ratio(r)| r)).map(Ratio),
        available: lowest.ok_or(Missing::NotPresent),
        states,
        evidence: last.map(|s| s.judged.evidence.clone()).unwrap_or_default(),
        jobs: jobs(&within),
    }
}

/// The shares of the time in each state of the jobs, the largest first.
fn jobs(within: &[&Seen<'_>]) -> Vec<(ContentionState, f64)> {
    let share = |state: &ContentionState| {
        let held = within.iter().filter(|s| s.point.contention == Some(*state)).count();
        (*state, seconds(held) / seconds(within.len()).max(1.0))
    };
    let mut all: Vec<(ContentionState, f64)> = ContentionState::ALL.iter().map(share).collect();
    all.retain(|(_, share)| *share > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

fn seconds(steps: usize) -> f64 {
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    f64::from(steps) * STEP.as_secs_f64()
}

fn held_for(within: &[&Seen<'_>], state: ThrottleState) -> f64 {
    seconds(within.iter().filter(|s| s.judged.state() == state).count())
}

/// What the samples show in the stretch, and not as much in the run's own steady minutes. They must cover the
/// larger part of the stretch, and there must be something to compare it with.
fn causes(
    seen: &[Seen<'_>],
    stretch: &Stretch,
    (during, before): (&Beside, &Beside),
    jobs_before: Looks,
    t: &Thresholds,
) -> Vec<(SlowCause, String)> {
    let (from, to) = (stretch.from, stretch.to);
    let within: Vec<&Seen<'_>> = seen.iter().filter(|s| from <= s.at && s.at < to).collect();
    let whole = to.saturating_sub(from).as_secs_f64();
    let covered = seconds(within.len()) >= whole * t.run_cause_share.0;
    if !covered || before.states.is_empty() {
        return Vec::new();
    }
    let told = |state: ThrottleState| {
        let last = within.iter().rev().find(|s| s.judged.state() == state);
        last.map(|s| s.judged.evidence.clone()).unwrap_or_default()
    };
    // More of it than before, by far.
    let new = |state| share_of(during, state) >= share_of(before, state) * 2.0;
    let fault = ThrottleState::PowerDelivery;
    let stalled = ThrottleState::StalledBusy;
    let reasons = within.iter().filter_map(|s| s.judged.thermal_share.ok()).map(|Ratio(r)| r);
    let reason = reasons.fold(0.0, f64::max) >= t.event_share.0;
    let warmer = match (during.temperature, before.temperature) {
        (Ok(now), Ok(then)) => now.0 - then.0,
        _ => 0.0,
    };
    let facts = Facts {
        ratio: stretch.ratio,
        hot: hot(&within, reason, t),
        reason,
        warmer,
        then: before.clock.ok(),
        lower: lower(during, before),
        fault: (held_for(&within, fault) >= t.run_cause_for.0 && new(fault)).then(|| told(fault)),
        stalled: (share_of(during, stalled) >= t.run_cause_share.0 && new(stalled))
            .then(|| told(stalled)),
        cap: within.iter().rev().find_map(|s| s.judged.cap.ok()),
        contended: looks(seen, (from, to)).since(jobs_before, t),
    };
    causes::named(&facts, t)
}

/// How the jobs got along at a time, as far as the samples tell it.
fn looks(seen: &[Seen<'_>], (from, to): (Duration, Duration)) -> Looks {
    let within = seen.iter().filter(|s| from <= s.at && s.at < to);
    within.map(|s| s.point.contention).collect()
}

fn share_of(beside: &Beside, state: ThrottleState) -> f64 {
    beside.states.iter().find(|(one, _)| *one == state).map_or(0.0, |(_, share)| *share)
}

/// What the clock was lower by.
fn lower(during: &Beside, before: &Beside) -> Option<f64> {
    Some(1.0 - during.clock.ok()?.0 / before.clock.ok()?.0)
}

/// What heat rests on: its signature for the larger part of the stretch, or a thermal reason.
fn hot(within: &[&Seen<'_>], reason: bool, t: &Thresholds) -> Option<String> {
    let hot =
        |s: &Seen<'_>| s.judged.state() == ThrottleState::Thermal || s.judged.signature == Ok(true);
    let count = within.iter().filter(|s| hot(s)).count();
    if seconds(count) / seconds(within.len()).max(1.0) < t.run_cause_share.0 && !reason {
        return None;
    }
    // The last that could be judged.
    let judged = within.iter().rev().find(|s| s.judged.state() != ThrottleState::Unknown);
    Some(judged.map(|s| s.judged.evidence.clone()).unwrap_or_default())
}

#[cfg(test)]
mod tests;
