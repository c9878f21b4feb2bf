//! Power and heat: how each GPU works, what it is judged by, and how near the board is to a cut.

use super::{Label, Samples, flag, metric, rows};
use crate::model::frame::Frame;
use crate::model::pool::Window;
use crate::model::reading::Reading;
use crate::model::throttle::{CapChange, Extremes, Throttle, ThrottleState};
use crate::units::{Count, Hertz, Seconds, Watts};

fn index(throttle: &Throttle) -> Label {
    throttle.index.to_string().into()
}

/// One sample for each judged GPU that has the figure.
fn each<T>(
    f: &Frame,
    out: &mut Samples,
    figure: impl Fn(&Throttle) -> Reading<T>,
    value: impl Fn(T) -> f64,
) {
    for throttle in &f.verdicts.throttle {
        out.each([index(throttle)], figure(throttle), &value);
    }
}

/// One sample for each judged GPU and window.
fn windows<T>(
    f: &Frame,
    out: &mut Samples,
    figure: impl Fn(&Extremes) -> Reading<T>,
    value: impl Fn(T) -> f64,
) {
    for throttle in &f.verdicts.throttle {
        for (window, extremes) in Window::ALL.iter().zip(&throttle.extremes) {
            let labels = [index(throttle), window.as_str().into()];
            out.each(labels, figure(extremes), &value);
        }
    }
}

/// One sample for each judged GPU and counted state.
fn counted(f: &Frame, out: &mut Samples, figure: impl Fn(&Throttle, usize) -> f64) {
    for throttle in &f.verdicts.throttle {
        for (i, state) in ThrottleState::COUNTED.iter().enumerate() {
            out.add([index(throttle), state.as_str().into()], figure(throttle, i));
        }
    }
}

rows![
    THROTTLE_STATE = metric!(
        "gb10_throttle_state",
        StateSet,
        None,
        ["gpu", "state"],
        [Gpu, Meminfo, Hwmon],
        Stable,
        "means of minutes of utilization, power, temperature and SM clock; event reasons and their running times",
        "How the GPU works, one state at a time, the gravest that holds: idle, nominal, at_power_cap (the platform, no fault), heating_at_cap (the signature of heat; good to know), thermal (heat that is proven to cost work), power_delivery (busy at a fraction of its clock and power without a reason; kept until disproved), stalled_busy (busy without doing work), unknown. Only a GB10 is judged: the numbers are its own.",
        |f, out| for throttle in &f.verdicts.throttle {
            for state in ThrottleState::ALL {
                let on = flag(*state == throttle.state());
                out.add([index(throttle), state.as_str().into()], on);
            }
        }
    ),
    THROTTLE_SIGNATURE = metric!(
        "gb10_throttle_signature",
        Gauge,
        None,
        ["gpu"],
        [Gpu],
        Stable,
        "means of ten minutes of utilization, power and temperature",
        "1 while the GPU has been busy for the whole window (throttle.window, ten minutes) with flat power, well under what the supply is rated for, and a temperature that climbs or is high. No proof that it costs anything. Absent until that long was watched.",
        |f, out| each(f, out, |t| t.signature, flag)
    ),
    THROTTLE_UNREACHABLE = metric!(
        "gb10_throttle_unreachable",
        Gauge,
        None,
        ["gpu", "state", "input"],
        [Gpu, Meminfo],
        Stable,
        "what each state needs",
        "1 for each state that cannot be told because an input of it is missing; gb10_reading_missing says why. Absent while all can.",
        |f, out| for throttle in &f.verdicts.throttle {
            for never in &throttle.unreachable {
                let labels =
                    [index(throttle), never.state.as_str().into(), never.input.as_str().into()];
                out.add(labels, 1.0);
            }
        }
    ),
    THROTTLE_EPISODES_TOTAL = metric!(
        "gb10_throttle_episodes_total",
        Counter,
        Count,
        ["gpu", "kind"],
        [Gpu],
        Stable,
        "gb10_throttle_state",
        "Times that the GPU went over to a state in which something holds it back, since the exporter started.",
        |f, out| counted(f, out, |t, i| Count(t.episodes[i]).as_f64())
    ),
    THROTTLE_SECONDS_TOTAL = metric!(
        "gb10_throttle_seconds_total",
        Counter,
        Seconds,
        ["gpu", "kind"],
        [Gpu],
        Stable,
        "gb10_throttle_state",
        "Time in these states, since the exporter started. Times in which the GPU could not be read are not in it.",
        |f, out| counted(f, out, |t, i| {
            let Seconds(seconds) = t.seconds[i];
            seconds
        })
    ),
    THROTTLE_THERMAL_RATIO = metric!(
        "gb10_throttle_thermal_ratio",
        Gauge,
        Ratio,
        ["gpu"],
        [Gpu],
        Stable,
        "NVML field values, nvidia-smi clocks_event_reasons_counters.*",
        "Share of the last while (throttle.event_window, five minutes) under a thermal reason, by the driver's own counters, or where it has none by the samples in which one held.",
        |f, out| each(f, out, |t| t.thermal_share, |share| share.0)
    ),
    THROTTLE_BASELINE_HERTZ = metric!(
        "gb10_throttle_baseline_hertz",
        Gauge,
        Hertz,
        ["gpu"],
        [Gpu],
        Stable,
        "means of the job's first steady minutes",
        "SM clock of the present job's first steady minutes (throttle.window): what its later minutes are compared with. Absent until there were some.",
        |f, out| each(f, out, |t| t.baseline, |base| base.clock.0)
    ),
    THROTTLE_CLOCK_LOST_RATIO = metric!(
        "gb10_throttle_clock_lost_ratio",
        Gauge,
        Ratio,
        ["gpu"],
        [Gpu],
        Stable,
        "SM clock of the last minute against gb10_throttle_baseline_hertz",
        "What the last minute's SM clock is below that of the job's first steady minutes, of whatever cause: other work has other clocks. Absent without a baseline and while the GPU is not busy.",
        |f, out| each(f, out, |t| t.clock_lost, |lost| lost.0)
    ),
    GPU_CLOCK_CAP_HERTZ = metric!(
        "gb10_gpu_clock_cap_hertz",
        Gauge,
        Hertz,
        ["gpu"],
        [Gpu],
        Stable,
        "SM clock of busy minutes",
        "The clock cap (nvidia-smi -lgc) that seems to be in force: no query tells it, so it is inferred from a clock that stays at one value while neither power nor heat governs it. Caps within 8 % of the highest clock (clock.cap_margin) cannot be told. Absent without one, and until ten busy minutes were watched.",
        |f, out| each(f, out, |t| t.cap, |Hertz(hertz)| hertz)
    ),
    GPU_CLOCK_CAP_CHANGES_TOTAL = metric!(
        "gb10_gpu_clock_cap_changes_total",
        Counter,
        Count,
        ["gpu", "change"],
        [Gpu],
        Stable,
        "SM clock",
        "Times that a clock cap appeared or was lost, since the exporter started. A reboot or a reset of the driver loses it; that is noticed when a clock above it is seen.",
        |f, out| for throttle in &f.verdicts.throttle {
            for (change, count) in CapChange::ALL.iter().zip(throttle.cap_changes) {
                out.add([index(throttle), change.as_str().into()], Count(count).as_f64());
            }
        }
    ),
    GPU_CLOCK_LEARNED_HERTZ = metric!(
        "gb10_gpu_clock_learned_hertz",
        Gauge,
        Hertz,
        ["gpu"],
        [Gpu],
        Stable,
        "learned, kept in the state file",
        "The highest SM clock that this GPU has had under load with this driver. Absent until it is as high as that of healthy ones.",
        |f, out| each(f, out, |t| t.learned, |Hertz(hertz)| hertz)
    ),
    GPU_POWER_MIN_WATTS = metric!(
        "gb10_gpu_power_min_watts",
        Gauge,
        Watts,
        ["gpu", "window"],
        [Gpu],
        Stable,
        "rolling window over gb10_gpu_power_watts",
        "Lowest power within the window.",
        |f, out| windows(f, out, |e| e.power_min, |w| w.0)
    ),
    GPU_POWER_MAX_WATTS = metric!(
        "gb10_gpu_power_max_watts",
        Gauge,
        Watts,
        ["gpu", "window"],
        [Gpu],
        Stable,
        "rolling window over gb10_gpu_power_watts",
        "Highest power within the window.",
        |f, out| windows(f, out, |e| e.power_max, |w| w.0)
    ),
    GPU_TEMPERATURE_MAX_CELSIUS = metric!(
        "gb10_gpu_temperature_max_celsius",
        Gauge,
        Celsius,
        ["gpu", "window"],
        [Gpu],
        Stable,
        "rolling window over gb10_gpu_temperature_celsius",
        "Highest temperature of the GPU within the window.",
        |f, out| windows(f, out, |e| e.temperature_max, |c| c.0)
    ),
    GPU_SM_CLOCK_MIN_HERTZ = metric!(
        "gb10_gpu_sm_clock_min_hertz",
        Gauge,
        Hertz,
        ["gpu", "window"],
        [Gpu],
        Stable,
        "rolling window over gb10_gpu_clock_hertz",
        "Lowest SM clock within the window. An idle GPU without a context runs at 208 MHz; judge it beside utilization.",
        |f, out| windows(f, out, |e| e.clock_min, |h| h.0)
    ),
    GPU_SM_CLOCK_MAX_HERTZ = metric!(
        "gb10_gpu_sm_clock_max_hertz",
        Gauge,
        Hertz,
        ["gpu", "window"],
        [Gpu],
        Stable,
        "rolling window over gb10_gpu_clock_hertz",
        "Highest SM clock within the window.",
        |f, out| windows(f, out, |e| e.clock_max, |h| h.0)
    ),
    POWER_THRESHOLD_WATTS = metric!(
        "gb10_power_threshold_watts",
        Gauge,
        Watts,
        ["scope", "threshold"],
        [Gpu],
        Stable,
        "configuration",
        "Powers that panels and rules draw and compare with, as they are configured: what is sustained by the gpu, what the module and the supply are rated for, and what the states are judged by. Each holds for its scope alone: the GPU's power is not the module's.",
        |f, out| {
            let t = &f.thresholds;
            for (scope, threshold, Watts(watts)) in [
                ("gpu", "sustained", t.gpu_sustained),
                ("gpu", "cap_from", t.cap_power_from),
                ("gpu", "stalled_below", t.stall_power_below),
                ("gpu", "fault_max", t.fault_power_max),
                ("module", "rated", t.module_rated),
                ("supply", "rated", t.supply_rated),
            ] {
                out.add([scope.into(), threshold.into()], watts);
            }
        }
    ),
    TEMPERATURE_THRESHOLD_CELSIUS = metric!(
        "gb10_temperature_threshold_celsius",
        Gauge,
        Celsius,
        ["scope", "threshold"],
        [Thermal],
        Stable,
        "configuration",
        "Temperatures that panels and rules draw and compare with, as they are configured. The board's zones read about ten degrees more than the gpu.",
        |f, out| {
            let t = &f.thresholds;
            for (scope, threshold, celsius) in [
                ("gpu", "hot", t.hot_from),
                ("board", "cutoff_from", t.board_cutoff_from),
                ("board", "cutoff_to", t.board_cutoff_to),
            ] {
                out.add([scope.into(), threshold.into()], celsius.0);
            }
        }
    ),
    BOARD_MARGIN_CELSIUS = metric!(
        "gb10_board_margin_celsius",
        Gauge,
        Celsius,
        [],
        [Thermal],
        Stable,
        "/sys/class/thermal",
        "Degrees between the hottest zone and where boards begin to cut the power (93 of 93 to 96, whatever the firmware states). Negative within that range.",
        |f, out| {
            let hottest = f.verdicts.hottest.as_ref().map_err(|m| *m);
            out.one(hottest, |(_, t)| f.thresholds.board_cutoff_from.0 - t.0);
        }
    ),
];
