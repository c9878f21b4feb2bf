//! Whether the box and its exporter answer, and whether what they say can be relied on.

use super::expr::{Context, Shown};
use super::heat::hottest;
use super::{Alert, Condition, Group, Is, Severity, When, on};
use crate::catalog::links::AlertName;
use crate::catalog::metrics;
use crate::model::pool::Window;
use crate::model::source::{Source, SourceState};

const HOUR: u32 = 3600;
const BAD: &[&str] = &[SourceState::Failed.as_str(), SourceState::Hung.as_str()];
const GPU: &[(&str, &[&str])] = &[
    ("source", &[Source::Gpu.as_str()]),
    (
        "state",
        &[SourceState::Failed.as_str(), SourceState::Hung.as_str(), SourceState::Denied.as_str()],
    ),
];
const UNREAD: &[(&str, &[&str])] = &[
    ("source", &[Source::KernelLog.as_str()]),
    (
        "state",
        &[
            SourceState::NotPresent.as_str(),
            SourceState::Disabled.as_str(),
            SourceState::Denied.as_str(),
            SourceState::Failed.as_str(),
            SourceState::Hung.as_str(),
        ],
    ),
];

/// Sources that have no alert of their own.
fn failing(c: &Context<'_>) -> String {
    let others: Vec<&str> = Source::ALL
        .iter()
        .filter(|source| !matches!(source, Source::Gpu | Source::KernelLog))
        .map(|source| source.as_str())
        .collect();
    let series = c.series(&metrics::SOURCE_STATE, &[("source", &others), ("state", BAD)]);
    format!("max without (state) ({series}) == 1")
}

fn unclean(c: &Context<'_>) -> String {
    format!(
        "{} == 1\nand on (job, instance)\ntime() - {} < {}",
        c.of(&metrics::BOOT_UNCLEAN, &[]),
        c.of(&metrics::BOOT_TIMESTAMP_SECONDS, &[]),
        f64::from(HOUR) * c.options.scale,
    )
}

fn stale(c: &Context<'_>) -> String {
    format!(
        // The time of the scrape, not of the evaluation: between the two a minute may lie.
        "timestamp({0}) - {0} > {1}",
        c.of(&metrics::LANE_LAST_TICK_TIMESTAMP_SECONDS, &[]),
        c.thresholds().alert_stale_after.0
    )
}

/// What the box said before it fell silent.
fn last_words(c: &Context<'_>) -> String {
    format!(
        "In its last quarter of an hour: at least {} available, GPU {}, pressure {}, jobs {}, hottest zone {}",
        c.least(
            &metrics::POOL_AVAILABLE_MIN_BYTES,
            &[("window", Window::OneMinute.as_str())],
            Shown::Bytes
        ),
        c.states(&metrics::THROTTLE_STATE, "state"),
        c.states(&metrics::PRESSURE_STATE, "state"),
        c.states(&metrics::CONTENTION_STATE, "state"),
        hottest(c),
    )
}

pub(super) const ROWS: &[Alert] = &[
    Alert {
        name: AlertName::ExporterDown,
        severity: Severity::Critical,
        group: Group::Exporter,
        when: When::Expression(|c| format!("{} == 0", c.up())),
        outlives: 0,
        wait: 180,
        keep: 0,
        summary: "The exporter does not answer, and often it is the box that does not.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {}. {} First: does it answer ping and ssh? A box that answers only ping has lost \
                 its userspace; read its runbook before the power cycle.",
                last_words(c),
                c.holders()
            )
        },
        fires: &["power-not-delivered", "prefill-freeze", "two-hundred-lines"],
        silent: &["reboot", "sensors-hang", "fragmentation"],
    },
    Alert {
        name: AlertName::ExporterDown,
        severity: Severity::Warning,
        group: Group::Exporter,
        when: When::Expression(|c| {
            // The second part: a target that was there within the hour and is no longer looked for.
            format!("absent({0})\nor\n(max_over_time({0}[{1}]) unless {0})", c.up(), c.span(HOUR))
        }),
        outlives: 0,
        wait: 900,
        keep: 0,
        summary: "Prometheus scrapes no exporter there any more.",
        says: |c| {
            format!(
                "{{{{ with $labels.instance }}}}{{{{ . }}}} is no longer a target of job {0}{{{{ else }}}}No target of job {0} is configured \
                 or discovered{{{{ end }}}}: nothing watches it. First: look at the targets of Prometheus.",
                c.options.job
            )
        },
        fires: &["no-targets"],
        silent: &["reboot"],
    },
    Alert {
        name: AlertName::UncleanBoot,
        severity: Severity::Warning,
        group: Group::Exporter,
        when: When::Expression(unclean),
        outlives: 0,
        wait: 0,
        keep: 0,
        summary: "The box went down without having been told to.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}} booted at {}; it was last known to be alive at {}. First: gb10-exporter status and the \
                 previous boot's log (journalctl -b -1 -e), before anything is started again.",
                c.last(&metrics::BOOT_TIMESTAMP_SECONDS, &[], Shown::Date),
                c.last(&metrics::PREVIOUS_BOOT_LAST_SEEN_TIMESTAMP_SECONDS, &[], Shown::Date),
            )
        },
        fires: &["prefill-freeze", "reboot", "two-hundred-lines"],
        silent: &["idle-day", "full-and-healthy"],
    },
    Alert {
        name: AlertName::GpuUnreadable,
        severity: Severity::Warning,
        group: Group::Exporter,
        when: When::Series(Condition::new(&metrics::SOURCE_STATE, GPU, Is::AtLeast(on))),
        outlives: 0,
        wait: 180,
        keep: 120,
        summary: "The GPU's driver cannot be read.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: the driver hangs, fails or refuses; throttle verdicts, GPU memory and jobs are blind. {}. \
                 First: do not run nvidia-smi in a loop, it hangs as well; journalctl -k says what the driver said.",
                last_words(c)
            )
        },
        fires: &["cap-lost", "fragmentation"],
        silent: &["eventful-hour", "power-unreadable", "sensors-hang"],
    },
    Alert {
        name: AlertName::SourceFailing,
        severity: Severity::Warning,
        group: Group::Exporter,
        when: When::Expression(failing),
        outlives: 0,
        wait: 300,
        keep: 0,
        summary: "A source of readings fails.",
        says: |_| {
            "{{ $labels.instance }}: source {{ $labels.source }} fails or hangs; what rests on it is absent. First: \
             gb10-exporter status says why."
                .to_owned()
        },
        fires: &["sensors-hang"],
        silent: &["fragmentation", "eventful-hour"],
    },
    Alert {
        name: AlertName::DataStale,
        severity: Severity::Warning,
        group: Group::Exporter,
        when: When::Expression(stale),
        outlives: 0,
        wait: 120,
        keep: 0,
        summary: "A lane has not read anything for a while.",
        says: |_| {
            "{{ $labels.instance }}: lane {{ $labels.lane }} finished its last round {{ $value | humanizeDuration }} ago; its \
             readings are absent. First: gb10-exporter status names the source that it waits for; clocks that differ look \
             the same."
                .to_owned()
        },
        fires: &["cap-lost", "fragmentation", "sensors-hang"],
        silent: &["eventful-hour", "reboot"],
    },
    Alert {
        name: AlertName::KernelLogUnread,
        severity: Severity::Info,
        group: Group::Exporter,
        when: When::Series(Condition::new(&metrics::SOURCE_STATE, UNREAD, Is::AtLeast(on))),
        outlives: 0,
        wait: 600,
        keep: 0,
        summary: "The kernel's log cannot be read, so alerts that rest on it are blind.",
        says: |_| {
            "{{ $labels.instance }}: the kernel's log cannot be read. GB10DriverNoMemory and GB10HungTask cannot fire. To \
             mend it: give the exporter's user the group adm, or the unit CAP_SYSLOG."
                .to_owned()
        },
        fires: &["idle-day"],
        silent: &["starts-and-no-memory", "no-memory-while-it-loads"],
    },
    Alert {
        name: AlertName::TicksMissed,
        severity: Severity::Info,
        group: Group::Exporter,
        when: When::Series(Condition::new(
            &metrics::LANE_MISSED_TICKS_TOTAL,
            &[],
            Is::Grew { by: |t| t.alert_missed_ticks.as_f64(), within: 600 },
        )),
        outlives: 0,
        wait: 0,
        keep: 0,
        summary: "Rounds of a lane are missed.",
        says: |_| {
            "{{ $labels.instance }}: lane {{ $labels.lane }} missed about {{ $value | humanize }} rounds within ten minutes; short \
             collapses may fall through. A box under heavy load does this; so does a driver that answers slowly."
                .to_owned()
        },
        fires: &["fragmentation"],
        silent: &["idle-day", "full-and-healthy"],
    },
];
