//! Where a log's own time lies on the clock of the samples: found, estimated, doubted.

use super::told::Clock;
use super::{MARGIN, busy_onset, moved};
use crate::model::samples::{SamplePoint, SampleSeries};
use crate::model::training::Step;
use crate::units::{Count, Ratio, Seconds};
use anyhow::{Context, bail};
use std::path::Path;
use std::time::Duration;

/// A GPU that is used this much at a time is busy then.
pub(super) const BUSY: f64 = 0.5;
/// Zones are whole half hours apart, and no two by more than this.
const HALF_HOUR: f64 = 1800.0;
const FURTHEST: i32 = 28;
/// The clock is doubted when the GPU was busy for less of the run than this,
const DOUBTFUL: f64 = 0.8;
/// another zone is named when it was busy for nearly all of it there, and for much more of it,
const FITS: f64 = 0.9;
const BETTER: f64 = 0.3;
/// and otherwise only when it was idle for most of it.
const IDLE: f64 = 0.5;
/// A sample holds for at most this long.
const HOLDS: Duration = Duration::from_secs(180);

/// The ends of a run whose log tells tokens in a second and no time at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub begins: (Duration, &'static str),
    pub ends: (Duration, &'static str),
}

/// Whether the steps tell of their time only how many tokens a second had.
pub(super) fn rates_only(steps: &[Step]) -> bool {
    let timed = |step: &Step| {
        step.wall.is_some()
            || step.elapsed.is_some()
            || step.seconds.is_some()
            || step.smoothed.is_some()
    };
    let rated = |step: &Step| step.number.is_some() && step.tokens_per_second.is_some();
    !steps.iter().any(timed) && steps.iter().any(rated)
}

/// When a run without any time began and ended: as it was said, by what its file tells, or by the samples.
pub(super) fn ends(
    said: (Option<Duration>, Option<Duration>),
    (path, written): (&Path, Option<Duration>),
    series: &SampleSeries,
) -> anyhow::Result<Ends> {
    let within = |at: &Duration| {
        let ends = series.points.first().zip(series.points.last());
        ends.is_some_and(|(first, last)| first.wall <= *at && *at <= last.wall + MARGIN)
    };
    let (begins, ends) = said;
    // torchtune calls its file log_1764000000.txt, by the time at which it begins.
    let named = path.file_stem().and_then(|name| name.to_str()?.rsplit('_').next()?.parse().ok());
    let named = named.map(Duration::from_secs).filter(within);
    let busy = |point: &&SamplePoint| point.utilization.is_ok_and(|share| share.0 >= BUSY);
    let begins = begins
        .map(|at| (at, "--log-start"))
        .or(named.map(|at| (at, "the log's name")))
        .or(busy_onset(series).map(|at| (at, "a GPU that becomes busy")));
    let ends = ends
        .map(|at| (at, "--log-end"))
        .or(written.filter(within).map(|at| (at, "the last writing of its file")))
        .or(series.points.iter().rev().find(busy).map(|p| (p.wall, "a GPU that is busy no more")));
    let (begins, ends) = begins.zip(ends).context(
        "the log tells tokens per second and no time, and neither its file nor a busy GPU in the samples tells \
         when the run was; say --log-start TIME and --log-end TIME",
    )?;
    if begins.0 >= ends.0 {
        let (from, to) = (begins.1, ends.1);
        bail!(
            "the log tells tokens per second and no time, and the run would end (by {to}) before it begins (by \
             {from}); say --log-start TIME and --log-end TIME"
        );
    }
    Ok(Ends { begins, ends })
}

impl Ends {
    /// Gives the steps times that fill the run, as if each had as many tokens as any other: how many times as
    /// long one took is the log's own figure, and how long is not.
    pub(super) fn lay(&self, steps: &mut [Step]) -> Clock {
        let mut number = None;
        let mut whole = 0.0;
        for step in steps.iter() {
            let Some(rate) = step.tokens_per_second else { continue };
            let advanced = match (number, step.number) {
                (Some(then), Some(now)) if now > then => now - then,
                (Some(then), Some(now)) if now == then => 0,
                _ => 1,
            };
            number = step.number;
            whole += Count(advanced).as_f64() / rate;
        }
        let length = self.ends.0.saturating_sub(self.begins.0).as_secs_f64();
        for step in steps.iter_mut() {
            let seconds = step.tokens_per_second.map(|rate| Seconds(length / whole / rate));
            step.seconds = seconds.filter(|_| whole > 0.0);
        }
        Clock::Rates(self.begins.0.as_secs_f64())
    }

    /// What must be known of such a clock.
    pub(super) fn remark(&self) -> String {
        format!(
            "the log tells tokens per second and no time: ratios are its own; lengths are laid between {} and {}, as if all steps had as many tokens",
            self.begins.1, self.ends.1
        )
    }
}

/// The share of a time in which the samples show a busy GPU, and that in which they show an idle one.
fn shares(points: &[SamplePoint], (from, to): (Duration, Duration)) -> (f64, f64) {
    let first = points.partition_point(|point| point.wall < from);
    let (mut busy, mut idle) = (0.0, 0.0);
    for (i, point) in points.iter().enumerate().skip(first) {
        if point.wall >= to {
            break;
        }
        let next = points.get(i + 1).map_or(point.wall, |next| next.wall).min(to);
        let holds = next.saturating_sub(point.wall).min(HOLDS).as_secs_f64();
        match point.utilization {
            Ok(Ratio(share)) if share >= BUSY => busy += holds,
            Ok(_) => idle += holds,
            Err(_) => {}
        }
    }
    let length = to.saturating_sub(from).as_secs_f64().max(f64::MIN_POSITIVE);
    (busy / length, idle / length)
}

/// Whether what the GPU did contradicts where the run lies, in words.
pub(super) fn doubt(points: &[SamplePoint], (from, to): (Duration, Duration)) -> Option<String> {
    let at = |by: f64| shares(points, (moved(from, by), moved(to, by)));
    let (busy, idle) = at(0.0);
    if busy >= DOUBTFUL {
        return None;
    }
    let best = (-FURTHEST..=FURTHEST)
        .filter(|halves| *halves != 0)
        .map(|halves| (halves, at(f64::from(halves) * HALF_HOUR).0))
        // Of those that fit alike the nearest.
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.abs().cmp(&a.0.abs())));
    let told = Ratio(busy);
    match best {
        Some((halves, share)) if share >= FITS && share - busy >= BETTER => {
            let (hours, way) =
                (f64::from(halves) / 2.0, if halves > 0 { "later" } else { "earlier" });
            let (by, share) = (hours.abs(), Ratio(share));
            Some(format!(
                "by this clock the GPU was busy in {told} of the run, and in {share} of it {by} h {way}: the log's times may be of another zone (--offset {hours}h, or --zone)"
            ))
        }
        _ if idle >= IDLE => Some(format!(
            "by this clock the GPU was idle in {} of the run: the run may lie elsewhere (--offset, --zone, --log-start)",
            Ratio(idle)
        )),
        _ => None,
    }
}
