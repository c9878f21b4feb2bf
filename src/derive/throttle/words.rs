//! What a state rests on, in numbers.

use super::history::Means;
use super::judge::{Judge, Shown, Stretch};
use super::share;
use crate::model::reading::{Missing, Reading};
use crate::model::throttle::{CapBasis, Cost, Input};
use crate::thresholds::Thresholds;
use crate::units::{Celsius, Hertz, Ratio, Watts};

/// What was found.
pub(super) struct Told<'a> {
    pub minutes: &'a [Means],
    pub stretch: Reading<Stretch>,
    pub thermal_share: Reading<Ratio>,
    pub lost: Reading<Ratio>,
    pub limit: Option<f64>,
    /// What the last minute's clock is below that of the job's beginning.
    pub lost_now: Option<Ratio>,
}

/// Why nothing can be told.
pub(super) fn unknown(blind: &[Option<(Input, Missing)>], t: &Thresholds) -> String {
    let missing: Vec<String> = blind
        .iter()
        .flatten()
        .map(|(input, reason)| format!("{} {}", input.as_str(), reason.as_str()))
        .collect();
    if missing.is_empty() {
        format!("fewer than {} watched without a gap", t.first_after)
    } else {
        missing.join(", ")
    }
}

/// A fault that was seen, and of which nothing can be told now.
pub(super) fn latched(why: &str) -> String {
    format!("seen before and not disproved since; now {why}")
}

impl Told<'_> {
    /// `last minute 96 % busy, 54.9 W, 71.2 °C, SM 2405 MHz`
    pub(super) fn minute(&self) -> String {
        let minute = self.minutes.first().copied().unwrap_or_default();
        let parts = [
            minute.utilization.map(|share| format!("{} busy", Ratio(share))),
            minute.power.map(|watts| Watts(watts).to_string()),
            minute.temperature.map(|celsius| Celsius(celsius).to_string()),
            minute.clock.map(|hertz| format!("SM {}", Hertz(hertz))),
        ];
        format!("last minute {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    /// A fault that is on its way shows before it has lasted.
    pub(super) fn nominal(&self, starved: Shown, spins: Shown, t: &Thresholds) -> String {
        let minute = self.minute();
        if share(starved.shown, starved.of) >= t.fault_share.0 {
            let (clock, power, whole) = (t.fault_clock_max, t.fault_power_max, t.fault_window);
            return format!(
                "{minute}; at or below {clock} and {power} without a reason, a fault if it lasts {whole}"
            );
        }
        let recent = share(spins.shown, spins.of) > 0.0 && self.spins(t);
        if recent && share(spins.shown, spins.of) < t.stall_share.0 {
            let (power, whole) = (t.stall_power_below, t.stall_window);
            return format!("{minute}; busy below {power}, stalled if it lasts {whole}");
        }
        minute
    }

    /// Whether the last minute is that of one that spins.
    fn spins(&self, t: &Thresholds) -> bool {
        let minute = self.minutes.first().copied().unwrap_or_default();
        minute.utilization.is_some_and(|share| share >= t.busy_sample_from.0)
            && minute.power.is_some_and(|watts| watts < t.stall_power_below.0)
            && minute.clock.is_some_and(|clock| clock >= t.stall_clock_from.0)
    }

    pub(super) fn cap(&self, basis: CapBasis, t: &Thresholds) -> String {
        let minute = self.minute();
        if let (CapBasis::Module, Some(limit)) = (basis, self.limit) {
            let spare = self.minutes.first().and_then(|m| m.spare).unwrap_or(0.0);
            let (used, limit) = (Watts(limit - spare), Watts(limit));
            let at = format!("{minute}; the module uses {used} of its limit of {limit}");
            if limit.0 < t.gpu_sustained.0 {
                // A healthy module's limit is 140 W.
                let rated = t.module_rated;
                return format!(
                    "{at}, far below the {rated} that it is rated for: the supply or the firmware has lowered it"
                );
            }
            return at;
        }
        let powers = self.minutes.iter().filter_map(|m| m.power);
        let most = Watts(powers.fold(0.0, f64::max));
        format!("{minute}; near its own highest, {most} (inferred)")
    }

    /// `flat for 10 min (88.1 to 90.2 W), 79.0 -> 82.4 °C`
    fn flat(&self, t: &Thresholds) -> Option<String> {
        let Stretch { power, temperature } = self.stretch.ok()?;
        let (low, high) = (Watts(power.0), Watts(power.1));
        let (first, last) = (Celsius(temperature.0), Celsius(temperature.1));
        Some(format!(
            "power between {low} and {high}, {first} -> {last} within {}",
            t.throttle_window
        ))
    }

    pub(super) fn signature(&self, t: &Thresholds) -> String {
        let mut parts = vec![self.minute()];
        parts.extend(self.flat(t));
        // On its way to a proof, which takes its time.
        if let Some(lost) = self.lost_now.filter(|lost| lost.0 >= t.clock_lost.0) {
            let window = t.throttle_window;
            parts.push(format!(
                "clock {lost} below this job's first steady minutes, a cost if it lasts {window}"
            ));
        }
        if let Some(share) = self.thermal_share.ok().filter(|share| share.0 > 0.0) {
            parts.push(format!("{share} of {} under a thermal reason", t.event_window));
        }
        parts.join("; ")
    }

    pub(super) fn thermal(&self, judge: &Judge, t: &Thresholds) -> String {
        let mut parts = vec![self.minute()];
        parts.extend(self.flat(t).filter(|_| judge.signature.0));
        if let (true, Some(base)) = (judge.costs[Cost::Clock as usize].0, judge.baseline()) {
            let lost = self.lost.map(|lost| format!("{lost} ")).unwrap_or_default();
            parts.push(format!(
                "clock {lost}below this job's own first steady minutes ({} at {})",
                base.clock, base.power
            ));
        }
        if let (true, Ok(share)) = (judge.costs[Cost::Events as usize].0, self.thermal_share) {
            parts.push(format!("{share} of {} under a thermal reason", t.event_window));
        }
        if judge.costs[Cost::StepTime as usize].0 {
            parts.push("steps take longer than in the run's own first steady minutes".to_owned());
        }
        parts.join("; ")
    }

    pub(super) fn fault(&self, seen: Shown, t: &Thresholds) -> String {
        let minute = self.minute();
        if share(seen.shown, seen.of) < t.fault_share.0 {
            return latched(&minute);
        }
        format!(
            "{minute}; {} of {} busy samples within {} at or below {} and {}, and no reason given",
            seen.shown, seen.of, t.fault_window, t.fault_clock_max, t.fault_power_max
        )
    }

    pub(super) fn stalled(&self, seen: Shown, t: &Thresholds) -> String {
        format!(
            "{}; {} of {} samples within {} busy below {} at {} or more",
            self.minute(),
            seen.shown,
            seen.of,
            t.stall_window,
            t.stall_power_below,
            t.stall_clock_from
        )
    }
}
