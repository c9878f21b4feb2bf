//! Samples from series of numbers, as a Prometheus keeps them.

use crate::model::reading::{Quantity, Reading, Value};
use crate::model::samples::{SamplePart, SamplePoint};
use crate::units::Seconds;
use std::collections::BTreeMap;
use std::time::Duration;

/// Lays series beside each other: one sample for each time at which any of them has a value. What has none
/// then is absent. Times are of whole milliseconds, as a Prometheus has them.
#[must_use]
pub fn merge(series: Vec<(SamplePart, Vec<(Duration, f64)>)>) -> Vec<SamplePoint> {
    let mut points: BTreeMap<Duration, SamplePoint> = BTreeMap::new();
    for (part, values) in series {
        for (wall, value) in values.into_iter().filter(|(_, value)| value.is_finite()) {
            put(points.entry(wall).or_insert_with(|| SamplePoint::at(wall)), &part, value);
        }
    }
    points.into_values().collect()
}

fn set<T: Quantity>(place: &mut Reading<T>, value: f64) {
    if let Some(value) = T::from_value(&Value::Float(value)) {
        *place = Ok(value);
    }
}

fn put(point: &mut SamplePoint, part: &SamplePart, value: f64) {
    let on = value > 0.0;
    match part {
        SamplePart::Temperature => set(&mut point.temperature, value),
        SamplePart::Power => set(&mut point.power, value),
        SamplePart::Clock => set(&mut point.clock, value),
        SamplePart::Utilization => set(&mut point.utilization, value),
        SamplePart::Available => set(&mut point.available, value),
        SamplePart::Reason(reason) => {
            // The series that says "no" makes an empty mask, which is not the same as none.
            let mask = point.reasons.unwrap_or(0);
            point.reasons = Ok(if on { mask | reason.bit() } else { mask });
        }
        SamplePart::ThermalSeconds => {
            let larger = point.thermal_seconds.map_or(value, |Seconds(old)| old.max(value));
            set(&mut point.thermal_seconds, larger);
        }
        SamplePart::Throttle(state) => {
            if on {
                point.throttle = Some(state.clone());
            }
        }
        SamplePart::Contention(state) => {
            if on {
                point.contention = Some(*state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::contention::ContentionState;
    use crate::model::gpu::EventReason;
    use crate::model::reading::Missing;
    use crate::units::{Bytes, Celsius};

    #[test]
    fn series_are_laid_beside_each_other() {
        let at = Duration::from_secs;
        let thermal = |value| (SamplePart::ThermalSeconds, vec![(at(10), value)]);
        let reason = |reason, value| (SamplePart::Reason(reason), vec![(at(10), value)]);
        let points = merge(vec![
            (SamplePart::Temperature, vec![(at(10), 48.0), (at(20), f64::NAN), (at(30), 50.0)]),
            (SamplePart::Available, vec![(at(20), 1e9)]),
            thermal(3.0),
            thermal(7.0),
            thermal(5.0),
            reason(EventReason::Idle, 0.0),
            reason(EventReason::SwPowerCap, 1.0),
            (SamplePart::Throttle("idle".to_owned()), vec![(at(10), 0.0)]),
            (SamplePart::Throttle("nominal".to_owned()), vec![(at(10), 1.0)]),
            (SamplePart::Contention(ContentionState::Evicting), vec![(at(10), 0.0)]),
            (SamplePart::Contention(ContentionState::Shared), vec![(at(10), 1.0)]),
        ]);
        let [first, second, third] = points.as_slice() else { panic!("{points:?}") };
        assert_eq!(first.temperature, Ok(Celsius(48.0)));
        assert_eq!(first.thermal_seconds, Ok(Seconds(7.0)));
        assert_eq!(first.reasons, Ok(EventReason::SwPowerCap.bit()));
        assert_eq!(first.throttle.as_deref(), Some("nominal"));
        assert_eq!((first.contention, third.contention), (Some(ContentionState::Shared), None));
        assert_eq!(second.temperature, Err(Missing::NotPresent));
        assert_eq!(second.available, Ok(Bytes(1_000_000_000)));
        assert_eq!((third.wall, third.reasons), (at(30), Err(Missing::NotPresent)));
    }
}
