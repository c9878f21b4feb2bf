//! The memory pool: what is left, whether it can be used, and how soon it ends.

use super::expr::{Context, Shown, amount};
use super::{Alert, Condition, DYING, Group, Is, Record, Severity, When, on};
use crate::catalog::links::AlertName;
use crate::catalog::metrics;
use crate::model::pool::{Block, Reader, Window};
use crate::model::workload::Phase;

const AVAILABLE: (&str, &str) = ("reader", Reader::Available.as_str());
const OF_AVAILABLE: &[(&str, &str)] = &[AVAILABLE];
const MINUTE: &[(&str, &str)] = &[("window", Window::OneMinute.as_str())];
/// The largest blocks that kernels with pages of 64 KiB count, and those of 4 KiB.
const LARGE: [&str; 2] = [Block::ThirtyTwoMib.as_str(), Block::FourMib.as_str()];
/// Phases in which a job takes memory.
const TAKING: &[(&str, &[&str])] =
    &[("phase", &[Phase::Starting.as_str(), Phase::Loading.as_str(), Phase::Warming.as_str()])];
/// Over which time falls in service are remembered.
const REMEMBERED: u32 = 21_600;
const HOUR: u32 = 3600;

/// Falls while nothing takes memory for good: how much this box takes in one go when it serves. Recorded,
/// for whether something loaded then is not asked anew for each of six hours.
pub(super) static FALL_IN_SERVICE: Record = Record {
    name: "instance:gb10_pool_fall_bytes:in_service",
    group: Group::Pool,
    is: |c| {
        let fall = c.of(&metrics::POOL_FALL_MAX_BYTES, MINUTE);
        let taking = c.series(&metrics::WORKLOAD_PHASE, TAKING);
        // Where no phase is seen, nobody knows what was service.
        let seen = c.of(&metrics::WORKLOAD_PHASE, &[]);
        format!(
            "max by (job, instance) ({fall})\nand on (job, instance)\n(sum by (job, instance) ({seen}) > 0)\n\
             unless on (job, instance)\n(sum by (job, instance) ({taking}) > 0)"
        )
    },
};

fn headroom_low(c: &Context<'_>) -> String {
    let headroom = c.of(&metrics::POOL_HEADROOM_BYTES, OF_AVAILABLE);
    format!(
        "{headroom} < on (job, instance) group_left () max_over_time({}[{}])\nor\n{headroom} < 0",
        FALL_IN_SERVICE.name,
        c.span(REMEMBERED),
    )
}

/// Minima of three hours, each lower than the one before. A load is a step in one of them; a leak is in
/// all. Jobs that begin explain any fall.
fn slow_leak(c: &Context<'_>) -> String {
    let t = c.thresholds();
    let least = c.of(&metrics::POOL_AVAILABLE_MIN_BYTES, MINUTE);
    let hour = c.span(HOUR);
    let at = |offset: &str| format!("min_over_time({least}[{hour}]{offset})");
    let ago = |hours: u32| at(&format!(" offset {}", c.span(hours * HOUR)));
    let hours = t.alert_leak_ahead.0 / f64::from(HOUR);
    let reserve = c.of(&metrics::POOL_RESERVE_BYTES, &[]);
    let starts = c.of(&metrics::WORKLOAD_STARTS_TOTAL, &[]);
    let from = amount(t.alert_leak_from);
    let (now, one, two) = (at(""), ago(1), ago(2));
    format!(
        "(\n  {now} - {hours} * ({one} - {now})\n    < on (job, instance) group_left () {reserve}\n)\n\
         and\n({now} - {hours} * ({two} - {one}) < on (job, instance) group_left () {reserve})\n\
         and\n({one} - {now} >= {from})\nand\n({two} - {one} >= {from})\n\
         unless on (job, instance)\n(sum by (job, instance) (increase({starts}[{}])) > 0.5)",
        c.span(3 * HOUR)
    )
}

/// Free memory in the largest blocks that the kernel counts.
fn large(c: &Context<'_>) -> String {
    let [largest, next] =
        LARGE.map(|block| c.of(&metrics::POOL_CONTIGUOUS_FREE_BYTES, &[("block", block)]));
    format!("({largest} or on (job, instance) {next})")
}

fn fragmented_before_launch(c: &Context<'_>) -> String {
    let t = c.thresholds();
    format!(
        "{} < {}\nand on (job, instance)\n{} >= {}",
        large(c),
        amount(t.alert_launch_contiguous),
        c.of(&metrics::POOL_AVAILABLE_BYTES, &[]),
        amount(t.alert_launch_available),
    )
}

fn fragmented_in_service(c: &Context<'_>) -> String {
    let t = c.thresholds();
    let failing = c.of(&metrics::MEMORY_COMPACTIONS_TOTAL, &[("result", "failure")]);
    let stalled =
        c.of(&metrics::PRESSURE_STALL_SECONDS_TOTAL, &[("resource", "memory"), ("kind", "some")]);
    let five = c.span(300);
    format!(
        "{} < {}\nand on (job, instance) (\n  sum by (job, instance) (rate({failing}[{five}])) > 0\n  \
         or rate({stalled}[{five}]) > {}\n)",
        large(c),
        amount(t.contiguous_low),
        t.stall_from.0,
    )
}

fn cache_hides(c: &Context<'_>) -> String {
    let t = c.thresholds();
    format!(
        "{} >= {}\nand on (job, instance)\n{} < on (job, instance) group_left () ({} * {})",
        c.of(&metrics::CUDA_BLIND_BYTES, &[]),
        amount(t.alert_blind_from),
        c.of(&metrics::CUDA_FREE_BYTES, &[]),
        t.alert_blind_share.0,
        c.of(&metrics::POOL_AVAILABLE_BYTES, &[]),
    )
}

fn level(c: &Context<'_>) -> String {
    format!(
        "{} available, {} free, at least {} available within a quarter of an hour",
        c.last(&metrics::POOL_AVAILABLE_BYTES, &[], Shown::Bytes),
        c.last(&metrics::POOL_FREE_BYTES, &[], Shown::Bytes),
        c.least(&metrics::POOL_AVAILABLE_MIN_BYTES, MINUTE, Shown::Bytes),
    )
}

pub(super) const ROWS: &[Alert] = &[
    Alert {
        name: AlertName::PoolExhaustionImminent,
        severity: Severity::Critical,
        group: Group::Pool,
        // A load that fits falls as fast as one that does not; how little is left tells them apart.
        when: When::Both(
            Condition::new(&metrics::POOL_EXHAUSTION_IMMINENT, &[], Is::AtLeast(on)),
            Condition::new(
                &metrics::POOL_AVAILABLE_MIN_BYTES,
                &[("window", &[Window::OneMinute.as_str()])],
                Is::Below(|t| t.alert_exhaustion_below.as_f64()),
            ),
        ),
        outlives: DYING,
        wait: 0,
        keep: 60,
        summary: "The memory pool runs out within seconds.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. The largest fall was {} in ten seconds. {} First: stop the job \
                 that is loading, newest first; gb10-exporter status names it.",
                level(c),
                c.last(&metrics::POOL_FALL_MAX_BYTES, MINUTE, Shown::Bytes),
                c.holders()
            )
        },
        fires: &[
            "build-beside-model",
            "cap-that-does-not-hold",
            "eventful-hour",
            "fourth-container",
            "graph-takes-the-box",
            "large-model-and-tenants",
            "locked-and-lingering",
            "lora-load",
            "small-victims",
            "startup-collapse",
            "startup-collapse-recorded",
            "stop-is-not-release",
            "two-fight",
            "two-hundred-lines",
        ],
        silent: &[
            "load-that-fits",
            "full-at-ninety",
            "full-and-healthy",
            "trainer-beside-server",
            "mapping-and-copy",
            "page-pools",
            "page-cache",
            "second-copy",
        ],
    },
    Alert {
        name: AlertName::PoolHeadroomLow,
        severity: Severity::Warning,
        group: Group::Pool,
        when: When::Expression(headroom_low),
        outlives: 0,
        wait: 300,
        keep: 300,
        summary: "The next fall of available memory breaks into the reserve.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: headroom above the reserve is {}; {}. In service it has fallen by more \
                 within seconds, or the reserve is in use already. {} First: see who grew, and end or shrink the \
                 newest job between two steps.",
                c.last(&metrics::POOL_HEADROOM_BYTES, OF_AVAILABLE, Shown::Bytes),
                level(c),
                c.holders()
            )
        },
        fires: &["two-fight"],
        silent: &[
            "full-at-ninety",
            "full-and-healthy",
            "trainer-beside-server",
            "data-set-streams",
            "ray-torch-memory",
            "training-beside-serving",
        ],
    },
    Alert {
        name: AlertName::PoolSlowLeak,
        severity: Severity::Warning,
        group: Group::Pool,
        when: When::Expression(slow_leak),
        outlives: 0,
        wait: 900,
        keep: 1800,
        summary: "Available memory goes down hour after hour and reaches the reserve within hours.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: the smallest available memory of the hour is {} and has gone down for \
                 three hours while no job began. {} First: see whose memory grew over the day, and plan its restart.",
                c.least(&metrics::POOL_AVAILABLE_MIN_BYTES, MINUTE, Shown::Bytes),
                c.holders()
            )
        },
        fires: &["slow-leak"],
        silent: &["loads-through-the-day", "idle-day"],
    },
    Alert {
        name: AlertName::PoolFragmented,
        severity: Severity::Warning,
        group: Group::Pool,
        when: When::Expression(fragmented_in_service),
        outlives: 0,
        wait: 60,
        keep: 300,
        summary: "Free memory is in pieces, and the kernel fails to join them.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {{{{ $value | humanize1024 }}}}B are free in blocks of {{{{ $labels.block }}}}; {}. Compaction fails or programs stand \
                 still for memory. {} First: start nothing; between runs, flush the page cache and compact.",
                level(c),
                c.holders()
            )
        },
        fires: &["fragmentation"],
        silent: &["data-set-streams", "cache-in-the-way", "full-at-ninety"],
    },
    Alert {
        name: AlertName::PoolFragmented,
        severity: Severity::Info,
        group: Group::Pool,
        when: When::Expression(fragmented_before_launch),
        outlives: 0,
        wait: 300,
        keep: 0,
        summary: "There is room for a large job, but not in large blocks.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {{{{ $value | humanize1024 }}}}B are free in blocks of {{{{ $labels.block }}}}; {}. A large load may fail. Before the \
                 next launch: flush the page cache and compact.",
                level(c)
            )
        },
        fires: &["cache-in-the-way"],
        silent: &["full-at-ninety", "idle-day"],
    },
    Alert {
        name: AlertName::PageCacheHidesRoom,
        severity: Severity::Info,
        group: Group::Pool,
        when: When::Expression(cache_hides),
        outlives: 0,
        wait: 600,
        keep: 0,
        summary: "CUDA does not see most of the room, for the page cache holds it.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: cudaMemGetInfo says {} free; {} more are there. Programs that believe it \
                 refuse to start or take less. Before the next launch: flush the page cache.",
                c.last(&metrics::CUDA_FREE_BYTES, &[], Shown::Bytes),
                c.last(&metrics::CUDA_BLIND_BYTES, &[], Shown::Bytes)
            )
        },
        fires: &["cache-in-the-way"],
        silent: &["page-cache", "full-at-ninety"],
    },
];
