//! The exporter and its sources.

use super::{Samples, flag, metric, rows};
use crate::model::fields;
use crate::model::frame::{Frame, LaneHealth, SourceHealth};
use crate::model::push::{ExportResult, Signal};
use crate::model::reading::Missing;
use crate::model::source::{Lane, Source, SourceState};
use crate::units::Count;

fn sources(f: &Frame) -> impl Iterator<Item = (Source, &SourceHealth)> {
    Source::ALL.iter().map(|source| (*source, &f.health.sources[source.index()]))
}

fn lanes(f: &Frame) -> impl Iterator<Item = (Lane, &LaneHealth)> {
    Lane::ALL.iter().map(|lane| (*lane, &f.health.lanes[*lane as usize]))
}

fn states(f: &Frame, out: &mut Samples) {
    for (source, health) in sources(f) {
        let Some(current) = health.state else { continue };
        for state in SourceState::ALL {
            out.add([source.as_str().into(), state.as_str().into()], flag(*state == current));
        }
    }
}

/// One series for each field and reason, however many zones or chips share it.
fn missing(f: &Frame, out: &mut Samples) {
    for field in fields::all() {
        let mut reasons = [false; Missing::ALL.len()];
        (field.visit)(&f.snapshot, &mut |_, reading| {
            if let Err(reason) = reading {
                reasons[reason as usize] = true;
            }
        });
        for (reason, is) in Missing::ALL.iter().zip(reasons) {
            if is {
                out.add([field.id.into(), reason.as_str().into()], 1.0);
            }
        }
    }
}

rows![
    EXPORTER_BUILD_INFO = metric!(
        "gb10_exporter_build_info",
        Info,
        None,
        ["version", "revision"],
        [],
        Stable,
        "the build",
        "Version and commit of the exporter.",
        |f, out| out.info([Some(f.exporter.version), Some(f.exporter.revision)])
    ),
    REPLAY_INFO = metric!(
        "gb10_replay_info",
        Info,
        None,
        ["scenario"],
        [],
        Stable,
        "the scenario",
        "There only when a scenario is replayed and no machine is read: its title.",
        |f, out| if let Some(title) = f.replay.as_deref() {
            out.info([Some(title)]);
        }
    ),
    SOURCE_STATE = metric!(
        "gb10_source_state",
        StateSet,
        None,
        ["source", "state"],
        [],
        Stable,
        "the exporter",
        "How each source of readings is doing: ok, not_present (this machine does not have it), disabled, denied, failed or hung.",
        states
    ),
    SOURCE_DURATION_SECONDS = metric!(
        "gb10_source_duration_seconds",
        Gauge,
        Seconds,
        ["source"],
        [],
        Stable,
        "the exporter",
        "How long the last read of the source took.",
        |f, out| for (source, health) in sources(f) {
            if let Some(took) = health.duration {
                out.add([source.as_str().into()], took.as_secs_f64());
            }
        }
    ),
    SOURCE_ERRORS_TOTAL = metric!(
        "gb10_source_errors_total",
        Counter,
        Count,
        ["source"],
        [],
        Stable,
        "the exporter",
        "Reads of the source that failed since the exporter started. A source that the machine does not have is no failure.",
        |f, out| for (source, health) in sources(f) {
            out.add([source.as_str().into()], Count(health.errors).as_f64());
        }
    ),
    READING_MISSING = metric!(
        "gb10_reading_missing",
        Gauge,
        None,
        ["reading", "reason"],
        [],
        Stable,
        "the exporter",
        "1 for each reading that has no value now, or lacks it for some of its members (a clock, a zone, one of several GPUs), with the reason. The value itself is absent, never 0.",
        missing
    ),
    OTLP_EXPORTS_TOTAL = metric!(
        "gb10_otlp_exports_total",
        Counter,
        Count,
        ["signal", "result"],
        [],
        Stable,
        "the exporter",
        "Exports to the OpenTelemetry collector since the exporter started, by how they ended after all repetitions: delivered or failed. Absent for a signal that is not sent.",
        |f, out| for (signal, results) in Signal::ALL.iter().zip(f.exports) {
            for (result, count) in ExportResult::ALL.iter().zip(results.iter().flatten()) {
                out.add([signal.as_str().into(), result.as_str().into()], Count(*count).as_f64());
            }
        }
    ),
    LANE_TICKS_TOTAL = metric!(
        "gb10_lane_ticks_total",
        Counter,
        Count,
        ["lane"],
        [],
        Stable,
        "the exporter",
        "Rounds that the lane has finished.",
        |f, out| for (lane, health) in lanes(f) {
            out.add([lane.as_str().into()], Count(health.ticks).as_f64());
        }
    ),
    LANE_MISSED_TICKS_TOTAL = metric!(
        "gb10_lane_missed_ticks_total",
        Counter,
        Count,
        ["lane"],
        [],
        Stable,
        "the exporter",
        "Rounds that did not take place because an earlier one was still running.",
        |f, out| for (lane, health) in lanes(f) {
            out.add([lane.as_str().into()], Count(health.missed).as_f64());
        }
    ),
    LANE_LAST_TICK_TIMESTAMP_SECONDS = metric!(
        "gb10_lane_last_tick_timestamp_seconds",
        Gauge,
        Seconds,
        ["lane"],
        [],
        Stable,
        "the exporter",
        "When the lane last finished a round, seconds since 1970.",
        |f, out| for (lane, health) in lanes(f) {
            if let Some(at) = health.last {
                out.add([lane.as_str().into()], at.wall.as_secs_f64());
            }
        }
    ),
];
