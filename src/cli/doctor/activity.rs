//! Checks of what the GPU says about its own work: units, ranges, and figures that belong together.

use super::observed::Observed;
use super::outcome::{Judged, Outcome, need};
use super::{Check, Needs};
use crate::model::gpu::{ClockKind, EventReason, Gpu, TIMED};
use crate::units::{Hertz, Ratio, Seconds, Watts};

/// Shortest time over which counters are compared: a few of the driver's own periods of a second.
const LONG_ENOUGH: f64 = 3.0;

/// The first and the last reading, and the seconds between them.
struct Ends<'a> {
    first: &'a Gpu,
    last: &'a Gpu,
    seconds: f64,
}

fn ends(observed: &Observed) -> Result<Ends<'_>, Outcome> {
    let short = || Outcome::unknown("watched for too short a time (--seconds)");
    let (began, first) = observed.readings().next().ok_or_else(short)?;
    let (ended, last) = observed.readings().last().ok_or_else(short)?;
    let seconds = ended.since(began).as_secs_f64();
    if seconds < LONG_ENOUGH { Err(short()) } else { Ok(Ends { first, last, seconds }) }
}

/// Readings are a second apart and each is the mean of one, so the edges may be off by a part of it.
const POWER_WITHIN: f64 = 0.15;
/// When the highest is that many times the lowest, samples say too little for [`POWER_WITHIN`].
const STEADY: f64 = 1.5;
/// What no uneven load explains: another unit.
const ANOTHER_UNIT: f64 = 2.0;

pub(super) const POWER: Check = Check {
    name: "power-energy",
    expected: "mean power is within 15 % of what the energy counter grew by, over the same time",
    because: "mW and mJ by NVIDIA's header; a wrong unit is off by 1000, a counter of another part of the board by less",
    needs: Needs::Time,
    judge: power,
};

fn power(observed: &Observed) -> Judged {
    let Ends { first, last, seconds } = ends(observed)?;
    let joules = need("energy", last.energy)?.0 - need("energy", first.energy)?.0;
    // Each tells the second before it; that before the first is outside.
    let powers: Vec<f64> = observed
        .readings()
        .skip(1)
        .filter_map(|(_, gpu)| gpu.mean_power().ok())
        .map(|Watts(watts)| watts)
        .collect();
    let Some(count) = u32::try_from(powers.len()).ok().filter(|count| *count > 0) else {
        return need("power", last.mean_power()).map(|_| Outcome::unknown("power was not read"));
    };
    let mean = powers.iter().sum::<f64>() / f64::from(count);
    let by_counter = joules / seconds;
    let found = format!(
        "{mean:.2} W by {count} readings, {by_counter:.2} W by the counter, over {seconds:.1} s"
    );
    if joules <= 0.0 {
        return Err(Outcome::unknown(format!("{found}: the counter did not grow")));
    }
    let ratio = by_counter / mean;
    if (ratio - 1.0).abs() <= POWER_WITHIN {
        return Ok(Outcome::pass(found));
    }
    let highest = powers.iter().copied().fold(f64::MIN, f64::max);
    let lowest = powers.iter().copied().fold(f64::MAX, f64::min);
    let uneven = highest > STEADY * lowest;
    if uneven && (1.0 / ANOTHER_UNIT..=ANOTHER_UNIT).contains(&ratio) {
        return Err(Outcome::unknown(format!(
            "{found}: too uneven a load for readings so far apart"
        )));
    }
    Ok(Outcome::differs(found))
}

/// Counters are updated now and then, and their rounds are not those of the readings.
const COUNTER_WITHIN: f64 = 1.05;
const COUNTER_SLACK: f64 = 1.0;
/// A reason that held in every reading makes its counter run with the clock; a tenth of it is far from that,
/// and a thousandth, that of another unit, farther.
const RUNS_WITH_CLOCK: f64 = 0.1;

pub(super) const EVENTS: Check = Check {
    name: "event-counters",
    expected: "no time under an event reason grows faster than the clock or is longer than the box is up; one that \
               holds throughout grows with the clock",
    because: "NVML counts ns where nvidia-smi prints us; a mix-up is off by 1000",
    needs: Needs::Gpu,
    judge: events,
};

fn events(observed: &Observed) -> Judged {
    let gpu = observed.gpu().ok_or_else(|| Outcome::unknown("the GPU is gone"))?;
    let up = observed.last().snapshot.uptime.since_boot;
    for (reason, seconds) in TIMED.iter().zip(gpu.event_seconds) {
        if let (Ok(Seconds(total)), Ok(Seconds(up))) = (seconds, up)
            && total > up * COUNTER_WITHIN + COUNTER_SLACK
        {
            let found =
                format!("{} {total:.0} s, and the box is up for {up:.0} s", reason.as_str());
            return Ok(Outcome::differs(found));
        }
    }
    if observed.recorded {
        return Err(Outcome::unknown(
            "no longer than the box is up; a recorded machine does not move",
        ));
    }
    growth(observed)
}

/// The counter that grew most, against the clock.
fn growth(observed: &Observed) -> Judged {
    let Ends { first, last, seconds } = ends(observed)?;
    let mut most: Option<(EventReason, f64)> = None;
    for (place, reason) in TIMED.iter().enumerate() {
        if let (Ok(before), Ok(after)) = (first.event_seconds[place], last.event_seconds[place]) {
            let growth = after.0 - before.0;
            if most.is_none_or(|(_, most)| growth > most) {
                most = Some((*reason, growth));
            }
        }
    }
    let Some((reason, growth)) = most else {
        need("counters", last.event_seconds[0])?;
        return Err(Outcome::unknown("the counters were not read twice"));
    };
    let found = format!("{} grew by {growth:.3} s in {seconds:.1} s", reason.as_str());
    if growth > seconds * COUNTER_WITHIN + COUNTER_SLACK {
        return Ok(Outcome::differs(found));
    }
    if growth >= seconds * RUNS_WITH_CLOCK {
        return Ok(Outcome::pass(found));
    }
    let held = observed
        .readings()
        .all(|(_, gpu)| gpu.event_reasons.is_ok_and(|mask| mask.0 & reason.bit() != 0));
    if held && growth > 0.0 {
        return Ok(Outcome::differs(format!("{found}, and the reason held all the time")));
    }
    Err(Outcome::unknown(format!("{found}: too little to tell; try it under full load")))
}

/// 96 C was published (39 + 57).
const HIGHEST_OPERATING: [f64; 2] = [90.0, 100.0];

pub(super) const MARGIN: Check = Check {
    name: "temperature-margin",
    expected: "temperature and margin add up to 90 to 100 C",
    because: "39 and 57 C were published: 96 C is the highest operating temperature, 98 C slows down, 101 C shuts down",
    needs: Needs::Gpu,
    judge: margin,
};

fn margin(observed: &Observed) -> Judged {
    let gpu = observed.gpu().ok_or_else(|| Outcome::unknown("the GPU is gone"))?;
    let temperature = need("temperature", gpu.temperature)?.0;
    let margin = need("margin", gpu.margin)?.0;
    let sum = temperature + margin;
    let found = format!("{temperature:.0} C and {margin:.0} C to the limit: {sum:.0} C");
    Ok(Outcome::of((HIGHEST_OPERATING[0]..=HIGHEST_OPERATING[1]).contains(&sum), found))
}

/// Published: 208 MHz idle, 3003 MHz at most, 500 MHz in the supply's safety mode.
const SM_CLOCK: [Hertz; 2] = [Hertz(100e6), Hertz(3500e6)];

pub(super) const CLOCKS: Check = Check {
    name: "clocks",
    expected: "the SM clock is 100 to 3500 MHz, and not above its maximum",
    because: "208 to 2522 MHz and a maximum of 3003 MHz were published",
    needs: Needs::Gpu,
    judge: clocks,
};

fn clocks(observed: &Observed) -> Judged {
    let sm = ClockKind::Sm as usize;
    let last = observed.gpu().ok_or_else(|| Outcome::unknown("the GPU is gone"))?;
    let now = need("SM clock", last.clocks[sm])?;
    let most = need("highest SM clock", last.clocks_max[sm])?;
    let off = observed
        .readings()
        .filter_map(|(_, gpu)| gpu.clocks[sm].ok())
        .find(|clock| !(SM_CLOCK[0]..=SM_CLOCK[1]).contains(clock) || *clock > most);
    let mega = |clock: Hertz| clock.0 / 1e6;
    let found = format!("{:.0} of {:.0} MHz", mega(off.unwrap_or(now)), mega(most));
    Ok(Outcome::of(off.is_none(), found))
}

pub(super) const PERFORMANCE_STATE: Check = Check {
    name: "performance-state",
    expected: "P0 with a CUDA context, P8 without one",
    because: "published for 580 drivers; that something uses the GPU which no list shows is told by it",
    needs: Needs::Gpu,
    judge: performance_state,
};

/// Whether a reading is as expected; none where nothing follows from it.
fn as_expected(gpu: &Gpu) -> Option<bool> {
    let state = gpu.performance_state.ok()?.0;
    if gpu.computes() {
        return Some(state == 0);
    }
    if !gpu.lists_everybody() || gpu.utilization != Ok(Ratio(0.0)) {
        return None;
    }
    match state {
        8 => Some(true),
        // Where graphics contexts are listed, a compute context would be. An empty list may only mean a
        // container without the host's pids.
        0 if gpu.processes.as_ref().is_ok_and(Vec::is_empty) => None,
        _ => Some(false),
    }
}

fn performance_state(observed: &Observed) -> Judged {
    let last = observed.gpu().ok_or_else(|| Outcome::unknown("the GPU is gone"))?;
    let state = need("performance state", last.performance_state)?.0;
    let listed = need("processes", last.processes.as_ref().map_err(|m| *m))?.len();
    let context = if last.computes() { "with" } else { "without" };
    let found = format!("P{state}, processes listed: {listed}, {context} a compute context");
    // A context that opens or closes takes its time to show: it differs when it does all along.
    let told: Vec<bool> = observed.readings().filter_map(|(_, gpu)| as_expected(gpu)).collect();
    Ok(if told.is_empty() {
        Outcome::unknown(format!("{found}: it may be used by somebody who is not listed"))
    } else {
        Outcome::of(told.contains(&true), found)
    })
}

/// Published: 10 to 11.5 W with an idle context.
const CERTAINLY_BUSY: Watts = Watts(25.0);

pub(super) const UTILIZATION: Check = Check {
    name: "utilization",
    expected: "0 to 100 %, and not 0 all along at more than 25 W",
    because: "96 % was published for a busy GPU; one binding gave empty figures. An idle context draws 11.5 W at most",
    needs: Needs::Gpu,
    judge: utilization,
};

fn utilization(observed: &Observed) -> Judged {
    let last = observed.gpu().ok_or_else(|| Outcome::unknown("the GPU is gone"))?;
    need("utilization", last.utilization)?;
    let all: Vec<f64> =
        observed.readings().filter_map(|(_, gpu)| gpu.utilization.ok()).map(|r| r.0).collect();
    let highest = all.iter().copied().fold(0.0, f64::max);
    let mut powers = observed.readings().map(|(_, gpu)| gpu.mean_power());
    let busy = powers.all(|power| power.is_ok_and(|power| power > CERTAINLY_BUSY));
    let found = format!("at most {:.0} %, readings: {}", highest * 100.0, all.len());
    if highest == 0.0 && busy {
        return Ok(Outcome::differs(format!("{found}, at more than {} W", CERTAINLY_BUSY.0)));
    }
    Ok(Outcome::of(highest <= 1.0, found))
}
