//! Jobs, and what they do to one another and leave behind; training runs.

use super::expr::{Context, SAME_RUN, Shown, amount};
use super::{Alert, Condition, Group, Is, Severity, When, on};
use crate::catalog::links::AlertName;
use crate::catalog::metrics;
use crate::model::contention::{ContentionState, PressureState};
use crate::model::pool::Reader;
use crate::model::workload::Phase;

const RUN: &[(&str, &str)] = &[("run", SAME_RUN)];
const RESTARTED_WITHIN: u32 = 900;
/// Pressure at which jobs that do not fit cost one another something.
const PRESSED: &[&str] = &[
    PressureState::Reclaiming.as_str(),
    PressureState::Thrashing.as_str(),
    PressureState::Exhausted.as_str(),
];
const EVICTING: (&str, &str) = ("state", ContentionState::Evicting.as_str());
const OVERCOMMITTED: (&str, &str) = ("state", ContentionState::Overcommitted.as_str());

fn contend(c: &Context<'_>) -> String {
    format!(
        "max without (state) (\n  {} == 1\n  or\n  ({} == 1 and on (job, instance) (max without (state) ({}) == 1))\n)",
        c.of(&metrics::CONTENTION_STATE, &[EVICTING]),
        c.of(&metrics::CONTENTION_STATE, &[OVERCOMMITTED]),
        c.series(&metrics::PRESSURE_STATE, &[("state", PRESSED)]),
    )
}

fn held(c: &Context<'_>) -> String {
    let from = amount(c.thresholds().release_from);
    format!("{} >= {from}", c.of(&metrics::RELEASE_PENDING_BYTES, &[]))
}

fn restarts(c: &Context<'_>) -> String {
    let ends = c.series(
        &metrics::WORKLOAD_ENDS_TOTAL,
        &[("phase", &[Phase::Starting.as_str(), Phase::Loading.as_str(), Phase::Warming.as_str()])],
    );
    // Extrapolation makes 2.9 of three.
    let count = c.thresholds().alert_restarts.as_f64() - 0.5;
    format!(
        "sum by (job, instance, workload, unit) (increase({ends}[{}])) > {count}",
        c.span(RESTARTED_WITHIN)
    )
}

fn room(c: &Context<'_>) -> String {
    let reader = [("reader", Reader::Available.as_str())];
    format!(
        "{} available, {} of the pool promised, pressure {}",
        c.last(&metrics::POOL_AVAILABLE_BYTES, &[], Shown::Bytes),
        c.last(&metrics::CONTENTION_COMMITTED_RATIO, &[], Shown::Share),
        c.states(&metrics::PRESSURE_STATE, "state"),
    ) + &format!(
        ", safe to start {}",
        c.last(&metrics::POOL_SAFE_TO_START_BYTES, &reader, Shown::Bytes)
    )
}

const fn flagged(metric: &'static crate::catalog::Metric) -> When {
    When::Series(Condition::new(metric, &[], Is::AtLeast(on)))
}

pub(super) const ROWS: &[Alert] = &[
    Alert {
        name: AlertName::JobsContend,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: When::Expression(contend),
        outlives: 0,
        wait: 60,
        keep: 300,
        summary: "Jobs take memory from one another.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. Both logs may be free of errors: slow steps and a lost cache are all \
                 that shows. {} First: end the job that gb10-exporter status names to stop first, or give the \
                 uncapped one a cap.",
                room(c),
                c.holders()
            )
        },
        fires: &["two-fight"],
        silent: &[
            "trainer-beside-server",
            "capped-server-beside-lora",
            "two-idle-notebooks",
            "three-llama-servers",
            "data-set-streams",
            "router-swaps-models",
            "second-job-slows-training",
        ],
    },
    Alert {
        name: AlertName::EvictionSymptoms,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: When::Series(Condition::new(
            &metrics::EVICTION_SYMPTOM,
            &[("proof", &["proven"])],
            Is::AtLeast(on),
        )),
        outlives: 0,
        wait: 120,
        keep: 300,
        summary: "Memory in use is taken away and read back.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {{{{ $labels.symptom }}}}; {}. {} First: see which job's memory is in swap, \
                 and make room before anything else is started.",
                room(c),
                c.holders()
            )
        },
        fires: &["two-fight"],
        silent: &["data-set-streams", "router-swaps-models", "server-asleep", "full-at-ninety"],
    },
    Alert {
        name: AlertName::SwapThrash,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: When::Series(Condition::new(
            &metrics::PRESSURE_STATE,
            &[("state", &[PressureState::Thrashing.as_str()])],
            Is::AtLeast(on),
        )),
        outlives: 0,
        wait: 60,
        keep: 120,
        summary: "What is reclaimed is read back at once, and work stands still.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. {} First: stop the newest job; a box in this state answers ever more slowly.",
                room(c),
                c.holders()
            )
        },
        fires: &["two-fight"],
        silent: &["data-set-streams", "full-at-ninety", "jit-in-warm-up", "locked-and-lingering"],
    },
    Alert {
        name: AlertName::CapsOvercommitted,
        severity: Severity::Info,
        group: Group::Jobs,
        when: When::Series(Condition::new(
            &metrics::CONTENTION_STATE,
            &[("state", &[OVERCOMMITTED.1])],
            Is::AtLeast(on),
        )),
        outlives: 0,
        wait: 600,
        keep: 0,
        summary: "Two heavy jobs run together, or sizes and caps are more than the pool less its reserve.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. It may go well for hours. {} Before the next long run: cap the jobs so \
                 that their sum leaves the reserve.",
                room(c),
                c.holders()
            )
        },
        fires: &["trainer-beside-server", "two-shares-and-tenants"],
        silent: &["capped-server-beside-lora", "three-llama-servers", "two-idle-notebooks"],
    },
    Alert {
        name: AlertName::CapExceeded,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: flagged_from_one(),
        outlives: 0,
        wait: 300,
        keep: 0,
        summary: "A job holds more than the cap that it was given.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {{{{ $labels.workload }}}} ({{{{ $labels.unit }}}}) does not keep its cap; {}. {} \
                 First: do not plan with that cap; bound the job by its model, its sequences or its cache.",
                room(c),
                c.holders()
            )
        },
        fires: &["cap-that-does-not-hold"],
        silent: &["capped-server-beside-lora", "two-shares-and-tenants", "second-copy"],
    },
    Alert {
        name: AlertName::MemoryHeldAfterStop,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: When::Expression(held),
        outlives: 0,
        wait: 120,
        keep: 0,
        summary: "A job has ended and its memory is still held.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {{{{ $value | humanize1024 }}}}B of jobs that have ended are not back after {}. \
                 First: start nothing that needs it; wait a minute, then look for a worker that was left behind.",
                c.last(&metrics::RELEASE_LAG_SECONDS, &[], Shown::Seconds)
            )
        },
        fires: &["stop-is-not-release"],
        silent: &["release-after-kill", "page-pools", "server-asleep", "router-swaps-models"],
    },
    Alert {
        name: AlertName::OrphanedMemory,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: When::Expression(|c| {
            format!("{} > 0", c.of(&metrics::WORKLOAD_ORPHANED_BYTES, &[("proof", "seen")]))
        }),
        outlives: 0,
        wait: 60,
        keep: 0,
        summary: "A worker whose server has ended still holds memory.",
        says: |_| {
            "{{ $labels.instance }}: {{ $labels.workload }} ({{ $labels.unit }}) holds {{ $value | humanize1024 }}B and does \
             nothing; its server ended. First: end the worker itself; a kill by the server's name has missed it."
                .to_owned()
        },
        fires: &["engine-left-behind"],
        silent: &["server-asleep", "engine-from-before", "release-after-kill"],
    },
    Alert {
        name: AlertName::OrphanedMemory,
        severity: Severity::Info,
        group: Group::Jobs,
        when: When::Expression(|c| {
            format!("{} > 0", c.of(&metrics::WORKLOAD_ORPHANED_BYTES, &[("proof", "suspected")]))
        }),
        outlives: 0,
        wait: 60,
        keep: 0,
        summary: "A worker without a server holds memory and does nothing.",
        says: |_| {
            "{{ $labels.instance }}: {{ $labels.workload }} ({{ $labels.unit }}) holds {{ $value | humanize1024 }}B. It was there \
             before the exporter, so the end of its server was not seen. First: see whether anybody still uses it."
                .to_owned()
        },
        fires: &["engine-from-before"],
        silent: &["engine-left-behind", "server-asleep"],
    },
    Alert {
        name: AlertName::RestartLoop,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: When::Expression(restarts),
        outlives: 0,
        wait: 0,
        keep: 900,
        summary: "A job ends again and again before it serves.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {{{{ $labels.workload }}}} ({{{{ $labels.unit }}}}) ended about {{{{ $value | humanize }}}} \
                 times within a quarter of an hour while it started; {}. Health checks may pass all the while. First: \
                 stop its supervisor, read its first error, then see what it wants and what is there.",
                room(c)
            )
        },
        fires: &["restart-loop"],
        silent: &["starts-and-no-memory", "router-swaps-models", "engine-left-behind"],
    },
    Alert {
        name: AlertName::TrainingSlowed,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: flagged(&metrics::TRAIN_SLOW),
        outlives: 0,
        wait: 60,
        keep: 120,
        summary: "A training run's steps take longer than its own pace.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: run {{{{ $labels.run }}}}, a step takes {}, {} in its own steady minutes. GPU \
                 within the last quarter of an hour: {}; jobs: {}; pressure: {}. First: gb10-exporter correlate on its log.",
                c.last(&metrics::TRAIN_STEP_SECONDS, RUN, Shown::Seconds),
                c.last(&metrics::TRAIN_STEP_BASELINE_SECONDS, RUN, Shown::Seconds),
                c.states(&metrics::THROTTLE_STATE, "state"),
                c.states(&metrics::CONTENTION_STATE, "state"),
                c.states(&metrics::PRESSURE_STATE, "state"),
            )
        },
        fires: &["second-job-slows-training", "training-slows-down", "training-under-a-cap"],
        silent: &["training-varies", "heating-up"],
    },
    Alert {
        name: AlertName::TrainingStalled,
        severity: Severity::Warning,
        group: Group::Jobs,
        when: flagged(&metrics::TRAIN_STALLED),
        outlives: 0,
        wait: 60,
        keep: 0,
        summary: "A training run does not report any more.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: run {{{{ $labels.run }}}} has not reported for {}; it stands still, or has ended \
                 without saying so. GPU within the last quarter of an hour: {}. First: see whether its process lives.",
                c.last(&metrics::TRAIN_LAST_STEP_AGE_SECONDS, RUN, Shown::Seconds),
                c.states(&metrics::THROTTLE_STATE, "state"),
            )
        },
        fires: &["training-slows-down"],
        silent: &["training-varies", "training-under-a-cap"],
    },
];

/// Jobs beyond their cap: one is enough.
const fn flagged_from_one() -> When {
    When::Expression(|c| format!("{} > 0", c.of(&metrics::WORKLOAD_CAP_EXCEEDED, &[])))
}
