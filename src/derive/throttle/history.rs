//! The last while of one GPU, sample by sample, and what is made of it: minutes, shares, growth.

use crate::model::gpu::{ClockKind, EventReason, Gpu, TIMED};
use crate::model::reading::{Missing, Reading};
use crate::model::throttle::Input;
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Celsius, Count, Hertz, Ratio, Seconds, Watts};
use std::collections::VecDeque;
use std::time::Duration;

/// What means are taken over.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// More samples than this are not kept, whatever the windows: two hours, one a second.
const MAX_SAMPLES: usize = 7200;
/// Of the inputs of [`Input::ALL`].
const INPUTS: usize = Input::ALL.len();

/// What one round told of a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub at: Duration,
    pub utilization: Reading<f64>,
    pub power: Reading<f64>,
    pub temperature: Reading<f64>,
    pub clock: Reading<f64>,
    pub reasons: Reading<u64>,
    /// Seconds under a thermal reason since the first sample.
    pub thermal: Reading<f64>,
    /// Bytes that the jobs hold.
    pub held: Reading<u64>,
    /// Power that is left until the module's limit.
    pub spare: Reading<f64>,
    /// Whether the steps of a training run are slow.
    pub slow: Reading<bool>,
}

impl Sample {
    /// What the driver told; the rest is filled in by those who know.
    pub(super) fn of(gpu: &Gpu, at: Duration) -> Self {
        Self {
            at,
            utilization: gpu.utilization.map(|Ratio(share)| share),
            power: gpu.mean_power().map(|Watts(watts)| watts),
            temperature: gpu.temperature.map(|Celsius(celsius)| celsius),
            clock: gpu.clock(ClockKind::Sm).map(|Hertz(hertz)| hertz),
            reasons: gpu.event_reasons.map(|Count(mask)| mask),
            thermal: Err(Missing::Pending),
            held: Err(Missing::Pending),
            spare: Err(Missing::Pending),
            slow: Err(Missing::Pending),
        }
    }

    fn missing(&self, input: Input) -> Option<Missing> {
        match input {
            Input::Utilization => self.utilization.err(),
            Input::Power => self.power.err(),
            Input::Temperature => self.temperature.err(),
            Input::SmClock => self.clock.err(),
            Input::EventReasons => self.reasons.err(),
            Input::ThermalSeconds => self.thermal.err(),
            Input::HeldMemory => self.held.err(),
            Input::StepTime => self.slow.err(),
        }
    }

    /// Whether the GPU was busy in it.
    pub(super) fn busy(&self, t: &Thresholds) -> bool {
        self.utilization.is_ok_and(|share| share >= t.busy_sample_from.0)
    }
}

/// Means of a minute.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Means {
    pub utilization: Option<f64>,
    pub power: Option<f64>,
    pub temperature: Option<f64>,
    pub clock: Option<f64>,
    pub spare: Option<f64>,
}

/// Between two samples that are further apart nothing is known. A driver may be asked as rarely as once in
/// some minutes.
pub(super) fn gap(t: &Thresholds) -> Duration {
    let slowest = Duration::from_secs_f64(t.gpu_period.0.max(t.smi_period.0));
    MINUTE.max(slowest * 3)
}

/// A sum that becomes a mean.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: u32,
}

impl Sum {
    fn add(&mut self, value: Reading<f64>) {
        if let Ok(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// The running times of the two thermal reasons as one that never falls. They can hold at once, so they
/// are not added: each round counts the one that grew more.
#[derive(Clone, Copy, Debug, Default)]
struct Heat {
    last: [Option<f64>; 2],
    total: f64,
}

impl Heat {
    fn take(&mut self, gpu: &Gpu) -> Reading<f64> {
        let of = |wanted: EventReason| {
            TIMED.iter().position(|reason| *reason == wanted).map(|i| gpu.event_seconds[i])
        };
        let told = [EventReason::SwThermal, EventReason::HwThermal]
            .map(|reason| of(reason).unwrap_or(Err(Missing::Unsupported)));
        let mut grown = 0.0_f64;
        for (last, now) in self.last.iter_mut().zip(told) {
            let Ok(Seconds(now)) = now else { continue };
            // A counter that falls has begun anew with another driver.
            grown = grown.max(last.map_or(0.0, |last| (now - last).max(0.0)));
            *last = Some(now);
        }
        self.total += grown;
        match told {
            [Err(reason), Err(_)] => Err(reason),
            _ => Ok(self.total),
        }
    }
}

/// The samples of the longest window and a minute more, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    kept: VecDeque<Sample>,
    heat: Heat,
}

impl History {
    /// Adds what a round told.
    pub(super) fn push(&mut self, gpu: &Gpu, mut sample: Sample, t: &Thresholds) {
        sample.thermal = self.heat.take(gpu);
        // Across a gap nothing can be said of a time: a driver that hung for minutes and comes back must not
        // have one sample speak for all of them.
        if sample.at.saturating_sub(self.now()) > gap(t) {
            self.kept.clear();
        }
        self.kept.push_back(sample);
        let windows = [t.throttle_window, t.event_window, t.fault_window, t.stall_window];
        let longest = windows.iter().fold(t.clock_cap_window.0, |longest, w| longest.max(w.0));
        let longest = Duration::from_secs_f64(longest) + MINUTE;
        let old = |s: &Sample| sample.at.saturating_sub(s.at) > longest;
        while self.kept.len() > MAX_SAMPLES || self.kept.front().is_some_and(old) {
            self.kept.pop_front();
        }
    }

    pub(super) fn last(&self) -> Option<&Sample> {
        self.kept.back()
    }

    fn now(&self) -> Duration {
        self.kept.back().map_or(Duration::ZERO, |s| s.at)
    }

    /// Whether the samples reach back as far as this.
    pub(super) fn covers(&self, window: Seconds) -> bool {
        let span = self.kept.front().map(|first| self.now().saturating_sub(first.at));
        span.is_some_and(|span| span.as_secs_f64() >= window.0)
    }

    /// The samples of the last while, newest first.
    pub(super) fn recent(&self, window: Duration) -> impl Iterator<Item = &Sample> {
        let now = self.now();
        self.kept.iter().rev().take_while(move |s| now.saturating_sub(s.at) < window)
    }

    /// The last minutes, newest first, each from its samples.
    pub(super) fn minutes(&self, count: usize) -> Vec<Means> {
        let mut sums = vec![[Sum::default(); 5]; count];
        let now = self.now();
        for sample in self.kept.iter().rev() {
            let minute = now.saturating_sub(sample.at).as_secs() / MINUTE.as_secs();
            let Some(sums) = usize::try_from(minute).ok().and_then(|i| sums.get_mut(i)) else {
                break;
            };
            let values =
                [sample.utilization, sample.power, sample.temperature, sample.clock, sample.spare];
            sums.iter_mut().zip(values).for_each(|(sum, value)| sum.add(value));
        }
        sums.into_iter()
            .map(|sums| {
                let [utilization, power, temperature, clock, spare] = sums.map(Sum::mean);
                Means { utilization, power, temperature, clock, spare }
            })
            .collect()
    }

    /// Which inputs are missing, and why: those that fewer than half of the last minute's samples have.
    /// One answer that stays away is none.
    pub(super) fn missing(&self) -> [Option<Missing>; INPUTS] {
        let mut absent = [0_usize; INPUTS];
        let mut why = [None; INPUTS];
        let mut all = 0;
        for sample in self.recent(MINUTE) {
            all += 1;
            for (i, input) in Input::ALL.iter().enumerate() {
                if let Some(reason) = sample.missing(*input) {
                    absent[i] += 1;
                    why[i] = why[i].or(Some(reason));
                }
            }
        }
        std::array::from_fn(|i| why[i].filter(|_| absent[i] * 2 > all))
    }

    /// Share of the time under a thermal reason: by the driver's counters, or where it has none by the share
    /// of the samples in which such a reason held. A sample that tells nothing is passed over.
    pub(super) fn thermal_share(&self, window: Seconds) -> Reading<Ratio> {
        if !self.covers(window) {
            return Err(Missing::Pending);
        }
        let length = Duration::from_secs_f64(window.0);
        let told = |s: &Sample| Some((s.at, s.thermal.ok()?));
        let newest = self.recent(MINUTE).find_map(told);
        let Some((end, after)) = newest else { return self.thermal_samples(length) };
        let within = |s: &&Sample| end.saturating_sub(s.at) <= length;
        let first = self.kept.iter().filter(within).find_map(told);
        let (begin, before) = first.ok_or(Missing::Pending)?;
        let span = end.saturating_sub(begin).as_secs_f64();
        if span <= 0.0 {
            return Err(Missing::Pending);
        }
        Ok(Ratio(((after - before) / span).clamp(0.0, 1.0)))
    }

    /// Share of the samples in which a thermal reason held.
    fn thermal_samples(&self, window: Duration) -> Reading<Ratio> {
        let bits = EventReason::SwThermal.bit() | EventReason::HwThermal.bit();
        let (mut hot, mut all) = (0, 0);
        for mask in self.recent(window).filter_map(|s| s.reasons.ok()) {
            all += 1;
            hot += usize::from(mask & bits != 0);
        }
        let why = self.last().and_then(|s| s.thermal.err()).unwrap_or(Missing::Pending);
        if all * 2 < self.recent(window).count() || all == 0 {
            return Err(why);
        }
        Ok(Ratio(super::share(hot, all)))
    }

    /// What the jobs hold now beyond the least that they held within the window.
    pub(super) fn growth(&self, window: Duration) -> Option<Bytes> {
        let now = self.recent(MINUTE).find_map(|s| s.held.ok())?;
        let least = self.recent(window).filter_map(|s| s.held.ok()).min()?;
        Some(Bytes(now.saturating_sub(least)))
    }

    /// How many samples are kept.
    #[cfg(test)]
    pub(super) fn kept_at_most(&self) -> usize {
        self.kept.len()
    }
}
