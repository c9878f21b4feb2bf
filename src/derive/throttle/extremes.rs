//! What a scrape every fifteen seconds does not see: extremes of power, temperature and clock.

use super::history::Sample;
use crate::derive::window::{Extreme, Keep};
use crate::model::pool::Window;
use crate::model::reading::{Missing, Reading};
use crate::model::throttle::Extremes;
use crate::units::{Celsius, Hertz, Watts};
use std::time::Duration;

/// Lowest and highest power, highest temperature, lowest and highest clock.
const KEPT: [Keep; 5] = [Keep::Min, Keep::Max, Keep::Max, Keep::Min, Keep::Max];

/// The windows of one GPU.
#[derive(Clone, Debug)]
pub(super) struct Windows([[Extreme<f64>; KEPT.len()]; Window::ALL.len()]);

impl Default for Windows {
    fn default() -> Self {
        Self(std::array::from_fn(|w| KEPT.map(|keep| Extreme::new(keep, Window::ALL[w].length()))))
    }
}

impl Windows {
    /// Takes a sample in.
    pub(super) fn push(&mut self, sample: &Sample) {
        let values = [sample.power, sample.power, sample.temperature, sample.clock, sample.clock];
        for window in &mut self.0 {
            for (extreme, value) in window.iter_mut().zip(values) {
                if let Ok(value) = value {
                    extreme.push(sample.at, value);
                }
            }
        }
    }

    /// What they hold now; where they hold nothing, why.
    pub(super) fn read(&mut self, now: Duration, last: Option<&Sample>) -> [Extremes; 3] {
        let why = |reading: Option<Reading<f64>>| match reading {
            Some(Err(reason)) => reason,
            _ => Missing::Pending,
        };
        let reasons = [
            why(last.map(|s| s.power)),
            why(last.map(|s| s.temperature)),
            why(last.map(|s| s.clock)),
        ];
        std::array::from_fn(|w| {
            let window = &mut self.0[w];
            for extreme in window.iter_mut() {
                extreme.forget(now);
            }
            let [power_min, power_max, temperature_max, clock_min, clock_max] =
                window.each_ref().map(Extreme::get);
            let [power, temperature, clock] = reasons;
            Extremes {
                power_min: power_min.map(Watts).ok_or(power),
                power_max: power_max.map(Watts).ok_or(power),
                temperature_max: temperature_max.map(Celsius).ok_or(temperature),
                clock_min: clock_min.map(Hertz).ok_or(clock),
                clock_max: clock_max.map(Hertz).ok_or(clock),
            }
        })
    }
}
