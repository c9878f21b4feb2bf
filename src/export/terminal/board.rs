//! The board in the terminal: how hot it is and has been, and what its power controller keeps to.

use super::super::status::{Figure, ModulePart, Status};
use super::{Written, gpu};
use crate::model::module::{Limit, Rail};
use crate::model::pool::Window;
use crate::units::Seconds;
use std::fmt::Write;

/// Thermal zones on a line: with their longest names these fit 80 columns.
const ZONES_PER_LINE: usize = 4;
/// Zones tell thousandths and are shown with one decimal: less above the present is no peak.
const PEAK: f64 = 0.1;

/// Temperatures.
pub(super) fn board(out: &mut String, status: &Status) -> Written {
    let read: Vec<_> =
        status.zones.iter().filter_map(|z| Some((z.zone.as_str(), *z.celsius.value()?))).collect();
    let Figure::Value(name) = &status.hottest_zone else { return Ok(()) };
    let Some(zone) = status.zones.iter().find(|zone| zone.zone == *name) else { return Ok(()) };
    let hottest = zone.celsius.value().copied().unwrap_or_default();
    let trip = zone.critical_celsius.value();
    let trip = trip
        .map(|t| format!("; the firmware says that it cuts power at {t:.1} °C"))
        .unwrap_or_default();
    writeln!(out, "Board: hottest zone {name} {hottest:.1} °C{trip}")?;
    if gpu::shared(status) {
        // What is known of cut-offs is known of boards with a GB10.
        let margin = status.cutoff_celsius - hottest;
        if margin > 0.0 {
            writeln!(out, "  {margin:.1} °C below where boards have begun to cut it")?;
        } else {
            writeln!(out, "  BOARDS HAVE CUT THE POWER AT THIS TEMPERATURE.")?;
        }
    }
    if let Some(peak) = peak(status, hottest) {
        writeln!(out, "  {peak}")?;
    }
    for line in read.chunks(ZONES_PER_LINE) {
        let line: Vec<String> = line.iter().map(|(name, t)| format!("{name} {t:.1}")).collect();
        writeln!(out, "  {}", line.join("  "))?;
    }
    writeln!(out)
}

/// `highest in 15 min 00 s: 84.0 °C`, over the longest window or as long as it has been watched; nothing
/// where it is no hotter than now.
fn peak(status: &Status, now: f64) -> Option<String> {
    let window = Window::ALL.last()?;
    let highest = *status.board_max_celsius.get(window.as_str())?.value()?;
    let over = window.length().as_secs_f64().min(status.exporter.running_seconds);
    (highest >= now + PEAK).then(|| format!("highest in {}: {highest:.1} °C", Seconds(over)))
}

/// `Module: 92.0 of 140.0 W (pl1), 120.3 of 231.0 W (syspl1); system 118.2 W`, where the optional driver
/// tells of it.
pub(super) fn module(out: &mut String, status: &Status) -> Written {
    let Some(module) = &status.module else { return Ok(()) };
    // The second limit of each pair is for short peaks, and JSON's.
    let limits = [Limit::Pl1, Limit::Syspl1].iter().filter_map(|limit| used(module, *limit));
    let limits: Vec<String> = limits.collect();
    let system = module.power_watts.get(Rail::SysTotal.as_str()).and_then(Figure::value);
    let system = system.map(|watts| format!("system {watts:.1} W"));
    let hot = module.prochot.value() == Some(&true);
    let hot = hot.then(|| "PROCHOT: the board slows the SoC down".to_owned());
    let limits = (!limits.is_empty()).then(|| limits.join(", "));
    let parts: Vec<String> = [limits, system, hot].into_iter().flatten().collect();
    if parts.is_empty() {
        return Ok(());
    }
    writeln!(out, "Module: {}\n", parts.join("; "))
}

fn used(module: &ModulePart, limit: Limit) -> Option<String> {
    let part = module.limits.get(limit.as_str())?;
    let name = limit.as_str();
    match (part.used_watts.value(), part.limit_watts.value()) {
        (Some(used), Some(limit)) => Some(format!("{used:.1} of {limit:.1} W ({name})")),
        (Some(used), None) => Some(format!("{used:.1} W ({name}, no limit read)")),
        (None, Some(limit)) => Some(format!("limit {limit:.1} W ({name})")),
        (None, None) => None,
    }
}
