//! Checks of the board's sensors, and of what it costs to read all of them.

use super::observed::Observed;
use super::outcome::{Judged, Outcome, need};
use super::{Check, Needs};
use crate::model::frame::Frame;
use crate::model::gpu::Via;
use crate::model::sensors::{SensorValue, ThermalZone};
use crate::model::source::Lane;
use crate::units::Watts;
use std::time::Duration;

/// The ACPI names that were published.
const ZONE_NAMES: [&str; 7] = ["TSOC", "TS0E", "TS0P", "TS1E", "TS1P", "TGPU", "TUNC"];
/// ACPI says 104.85; the kernel gives it in tenths.
const CRITICAL: f64 = 104.8;
const CRITICAL_WITHIN: f64 = 0.1;

pub(super) const ZONES: Check = Check {
    name: "thermal-zones",
    expected: "7 zones, named TSOC TS0E TS0P TS1E TS1P TGPU TUNC where ACPI tells names, critical trip 104.8 C in each",
    because: "published by owners; the alarm that comes before a power-off counts from the trip",
    needs: Needs::Machine,
    judge: zones,
};

fn zones(observed: &Observed) -> Judged {
    let zones =
        need("thermal zones", observed.last().snapshot.zones.as_ref().map_err(|reason| *reason))?;
    let names: Vec<&str> = zones.iter().map(|zone| zone.name.as_str()).collect();
    let trip = |zone: &ThermalZone| match zone.critical {
        Ok(critical) => format!("{:.1}", critical.0),
        Err(reason) => reason.as_str().to_owned(),
    };
    let mut trips: Vec<String> = zones.iter().map(trip).collect();
    trips.dedup();
    let found =
        format!("{} zones: {}; critical trip {}", zones.len(), names.join(" "), trips.join(", "));
    let known = |name: &&str| ZONE_NAMES.contains(name) || name.starts_with("thermal_zone");
    let off = |zone: &ThermalZone| {
        zone.critical.is_ok_and(|trip| (trip.0 - CRITICAL).abs() > CRITICAL_WITHIN)
    };
    if zones.len() != ZONE_NAMES.len() || !names.iter().all(known) || zones.iter().any(off) {
        return Ok(Outcome::differs(found));
    }
    for zone in zones {
        need(&format!("{found}; trip of {}", zone.name), zone.critical)?;
    }
    Ok(Outcome::pass(found))
}

/// What a small fan can draw.
const FAN_POWER: [Watts; 2] = [Watts(0.1), Watts(30.0)];

pub(super) const FAN: Check = Check {
    name: "fan-power",
    expected: "hwmon's acpi_fan power, in the microwatts that the kernel promises, is 0.1 to 30 W",
    because: "5000 (5 mW) and 5000000 (5 W) were both published; no fan turns on 5 mW, so that would be another unit",
    needs: Needs::Machine,
    judge: fan,
};

fn fan(observed: &Observed) -> Judged {
    let inputs = need("hwmon", observed.last().snapshot.hwmon.as_ref().map_err(|reason| *reason))?;
    let powers: Vec<(&str, Watts)> = inputs
        .iter()
        .filter(|input| input.name.starts_with("acpi_fan."))
        .filter_map(|input| match input.value {
            Ok(SensorValue::Power(watts)) => Some((input.name.as_str(), watts)),
            _ => None,
        })
        .collect();
    if powers.is_empty() {
        return Err(Outcome::unknown("no acpi_fan tells its power"));
    }
    let words: Vec<String> =
        powers.iter().map(|(name, watts)| format!("{name} {} W", watts.0)).collect();
    let found = words.join(", ");
    if powers.iter().all(|(_, watts)| watts.0 == 0.0) {
        return Err(Outcome::unknown(format!("{found}: it stands still")));
    }
    let plausible = |watts: Watts| watts.0 == 0.0 || (FAN_POWER[0]..=FAN_POWER[1]).contains(&watts);
    Ok(Outcome::of(powers.iter().all(|(_, watts)| plausible(*watts)), found))
}

/// The longest median of a lane's rounds.
const fn limit(lane: Lane, smi: bool) -> Duration {
    match lane {
        // Kernel memory; 0.2 ms on the machines where it was measured.
        // No training log is followed here, and the kernel's ring is kernel memory, too.
        Lane::Fast | Lane::Logs | Lane::Messages => Duration::from_millis(1),
        // ACPI evaluates code for each zone; a tenth of the period leaves the lane in time.
        Lane::Sensors => Duration::from_millis(100),
        // Calls of 1 to 2 us were published for NVML, 20 ms for a run of nvidia-smi.
        Lane::Gpu if smi => Duration::from_millis(500),
        Lane::Gpu => Duration::from_millis(5),
        Lane::Slow | Lane::Processes => Duration::from_millis(50),
    }
}

pub(super) const COST: Check = Check {
    name: "cost",
    expected: "median round: fast lane 1 ms, sensors 100 ms, GPU 5 ms (500 ms through nvidia-smi), slow lane and processes 50 ms at most",
    because: "the exporter promises not to make things worse; on a GB10 its cost was not measured",
    // Also where the GPU is not read: that it is not costs something, too.
    needs: Needs::Machine,
    judge: cost,
};

/// How long the round took that a frame shows.
fn round(frame: &Frame, lane: Lane) -> Duration {
    lane.sources().filter_map(|source| frame.health.sources[source.index()].duration).sum()
}

fn cost(observed: &Observed) -> Judged {
    if observed.recorded {
        return Err(Outcome::unknown("reading a recorded machine costs something else"));
    }
    let smi = observed.last().snapshot.gpus.via == Ok(Via::NvidiaSmi);
    let mut found = Vec::new();
    let mut over = false;
    for &lane in Lane::ALL {
        let health = |frame: &Frame| frame.health.lanes[lane as usize];
        if let Some(source) = health(observed.last()).stuck_on {
            let text = format!("the {} lane waits for {}", lane.as_str(), source.describe());
            return Err(Outcome::unknown(text));
        }
        let mut rounds: Vec<(u64, Duration)> = observed
            .frames()
            .filter(|frame| health(frame).ticks > 0)
            .map(|frame| (health(frame).ticks, round(frame, lane)))
            .collect();
        rounds.dedup_by_key(|(ticks, _)| *ticks);
        // The first round opens libraries and fills caches.
        let skip = usize::from(rounds.len() > 1);
        let mut times: Vec<Duration> = rounds.iter().skip(skip).map(|(_, time)| *time).collect();
        times.sort_unstable();
        let Some(median) = times.get(times.len() / 2) else { continue };
        over |= *median > limit(lane, smi);
        let millis = median.as_secs_f64() * 1e3;
        found.push(format!("{} {millis:.2} ms of {}", lane.as_str(), times.len()));
    }
    Ok(Outcome::of(!over, found.join(", ")))
}
