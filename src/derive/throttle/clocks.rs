//! The highest clock under load, and whether somebody has capped it.
//!
//! No query tells a clock lock (`nvidia-smi -lgc`), and a reboot or a reset of the driver loses it. So it
//! is inferred: a clock that stays at one value for minutes, well below the highest that this GPU has had
//! under load, while neither power nor heat governs it. And it is lost when a clock above it is seen, busy
//! or not: a lock holds for an idle GPU as well.

use super::history::{History, Sample};
use crate::model::gpu::EventReason;
use crate::model::reading::{Missing, Reading};
use crate::model::throttle::CapChange;
use crate::thresholds::Thresholds;
use crate::units::{Hertz, Seconds};
use std::time::Duration;

/// So many samples in a row are believed.
const IN_A_ROW: u8 = 5;
/// Reasons for which a clock is lower than it could be.
const GOVERNED: [EventReason; 5] = [
    EventReason::SwPowerCap,
    EventReason::HwSlowdown,
    EventReason::SwThermal,
    EventReason::HwThermal,
    EventReason::HwPowerBrake,
];

#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    /// The highest under load.
    pub learned: Option<f64>,
    /// In force.
    pub cap: Option<f64>,
    /// Was in force in an earlier run, and neither seen nor disproved since.
    pub remembered: Option<f64>,
    pub changes: [u64; CapChange::ALL.len()],
    pub changed: Option<(CapChange, Hertz)>,
    /// The lowest of the busy samples in a row, and how many there are.
    run: (f64, u8),
    /// Samples in a row above the cap.
    above: u8,
    /// Whether there has been enough to look at.
    judged: bool,
    /// When a cap was lost: what was before shows it still, and proves nothing.
    lost: Option<Duration>,
}

impl Clocks {
    /// What is known of a cap.
    pub(super) fn cap(&self) -> Reading<Hertz> {
        let none = if self.judged { Missing::NotPresent } else { Missing::Pending };
        self.cap.map(Hertz).ok_or(none)
    }

    /// The highest clock under load, once it is as high as that of any healthy GPU.
    pub(super) fn learned(&self, t: &Thresholds) -> Reading<Hertz> {
        let enough = self.learned.filter(|clock| *clock >= t.learned_clock_floor.0);
        enough.map(Hertz).ok_or(Missing::Pending)
    }

    /// Takes the newest sample into account.
    pub(super) fn look(&mut self, history: &History, t: &Thresholds) {
        let Some(sample) = history.last() else { return };
        self.learn(sample, t);
        self.lose(sample, t);
        self.find(history, t);
    }

    fn learn(&mut self, sample: &Sample, t: &Thresholds) {
        let (Ok(clock), true) = (sample.clock, sample.busy(t)) else {
            self.run.1 = 0;
            return;
        };
        let (lowest, count) = self.run;
        let lowest = if count == 0 { clock } else { lowest.min(clock) };
        self.run = (lowest, count.saturating_add(1));
        if self.run.1 >= IN_A_ROW {
            self.learned = Some(self.learned.map_or(lowest, |known| known.max(lowest)));
            self.run.1 = 0;
        }
    }

    fn lose(&mut self, sample: &Sample, t: &Thresholds) {
        let (Some(cap), Ok(clock)) = (self.cap.or(self.remembered), sample.clock) else { return };
        self.above = if clock > cap + t.clock_cap_spread.0 { self.above + 1 } else { 0 };
        if self.above >= IN_A_ROW {
            (self.cap, self.remembered, self.above) = (None, None, 0);
            self.lost = Some(sample.at);
            self.change(CapChange::Lost, cap);
        }
    }

    fn change(&mut self, change: CapChange, cap: f64) {
        self.changes[change as usize] += 1;
        self.changed = Some((change, Hertz(cap)));
    }

    fn find(&mut self, history: &History, t: &Thresholds) {
        let now = history.last().map_or(Duration::ZERO, |s| s.at);
        let window = Duration::from_secs_f64(t.clock_cap_window.0);
        if self.lost.is_some_and(|lost| now.saturating_sub(lost) < window) {
            return;
        }
        let cap = match seen(history, t.clock_cap_window, t) {
            Seen::TooLittle => return,
            Seen::Wandering => {
                self.judged = true;
                return;
            }
            Seen::Pinned(clock) => clock,
        };
        self.judged = true;
        let reference = self.learned.unwrap_or(0.0).max(t.learned_clock_floor.0);
        let near = |other: Option<f64>| {
            other.is_some_and(|other| (other - cap).abs() <= t.clock_cap_spread.0)
        };
        if cap > reference * (1.0 - t.clock_cap_margin.0)
            || cap < t.fault_normal_clock.0
            || near(self.cap)
        {
            return;
        }
        // The one that was there before the exporter was started again is no news.
        if !near(self.remembered) {
            self.change(CapChange::Appeared, cap);
        }
        (self.cap, self.remembered) = (Some(cap), None);
    }
}

/// What the busy minutes show.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Too little to tell by.
    TooLittle,
    /// A clock that goes up and down.
    Wandering,
    /// A clock that stays at one value.
    Pinned(f64),
}

/// Whether the GPU looks as if somebody held its clock down, before that has lasted long enough to be called
/// a cap.
pub(super) fn looks_capped(history: &History, t: &Thresholds) -> bool {
    let half = Seconds(t.clock_cap_window.0 / 2.0);
    matches!(seen(history, half, t), Seen::Pinned(_))
}

/// Whether the GPU stayed at one clock.
fn seen(history: &History, over: Seconds, t: &Thresholds) -> Seen {
    let window = Duration::from_secs_f64(over.0);
    let free: Vec<f64> = history.recent(window).filter_map(|s| ungoverned(s, t)).collect();
    let enough = share(free.len(), history.recent(window).count(), t);
    let Some(highest) = free.iter().copied().max_by(f64::total_cmp) else { return Seen::TooLittle };
    if !enough || !history.covers(over) {
        return Seen::TooLittle;
    }
    let near = free.iter().filter(|clock| **clock >= highest - t.clock_cap_spread.0).count();
    if share(near, free.len(), t) { Seen::Pinned(highest) } else { Seen::Wandering }
}

/// The clock of a busy sample that neither power nor heat holds down.
fn ungoverned(sample: &Sample, t: &Thresholds) -> Option<f64> {
    let governed = GOVERNED.iter().fold(0, |mask, reason| mask | reason.bit());
    let free = sample.reasons.is_ok_and(|mask| mask & governed == 0)
        && sample.power.is_ok_and(|watts| watts < t.cap_power_from.0)
        // The module's limit holds clocks down, too, and NVML does not know of it.
        && sample.spare.is_ok_and(|watts| watts > t.power_hysteresis.0 * 2.0) | sample.spare.is_err();
    sample.clock.ok().filter(|_| free && sample.busy(t))
}

fn share(part: usize, whole: usize, t: &Thresholds) -> bool {
    super::share(part, whole) >= t.alike_share.0
}
