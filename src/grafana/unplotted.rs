//! Stable metrics that no panel shows, and why not.

use crate::catalog::Metric;
use crate::catalog::metrics as m;

const NOT_ON_A_GB10: &str = "absent where the GPU shares the pool, as on every GB10";
const ENOUGH: &str = "the other end of the window is drawn, and its line of now shows this one";

/// Each with its reason. A test holds that nothing else is missing, and that nothing here is shown.
pub const UNPLOTTED: &[(&Metric, &str)] = &[
    (&m::GPU_POWER_INSTANT_WATTS, "the mean of a second is drawn; an instant is noise"),
    (&m::GPU_ENERGY_JOULES_TOTAL, "its rate is the power that is drawn"),
    (&m::GPU_PERFORMANCE_STATE, "0 whenever a context is open; the clock says more"),
    (&m::GPU_MEMORY_REPORTED_SIZE_BYTES, NOT_ON_A_GB10),
    (&m::GPU_MEMORY_REPORTED_USED_BYTES, NOT_ON_A_GB10),
    (&m::GPU_MEMORY_REPORTED_FREE_BYTES, NOT_ON_A_GB10),
    (&m::GPU_POWER_MIN_WATTS, ENOUGH),
    (&m::GPU_SM_CLOCK_MAX_HERTZ, ENOUGH),
    (&m::GPU_TEMPERATURE_MAX_CELSIUS, "a die moves slowly enough for scrapes to see it"),
    (
        &m::KERNEL_MESSAGE_LAST_TIMESTAMP_SECONDS,
        "the bars of messages stand where they came; this is for what reads no series",
    ),
    (&m::LANE_TICKS_TOTAL, "the age of the last round and missed ones show a lane that stops"),
    (
        &m::OTLP_EXPORTS_TOTAL,
        "what arrives is seen at the collector, and the log says when it stops",
    ),
    (&m::REPLAY_INFO, "of a replay, which its log and its page say as well"),
    (&m::PROCESS_VIRTUAL_MEMORY_BYTES, "address space costs nothing; resident memory is drawn"),
    (&m::PROCESS_MAX_FDS, "a limit of the system; what is open is drawn"),
    (&m::PROCESS_START_TIME_SECONDS, "counters that begin anew show it"),
];
