//! What the kernel and NVIDIA's driver say.

use super::expr::{Context, Shown};
use super::{Alert, Condition, DYING, Group, Is, Record, Severity, When, on};
use crate::catalog::Metric;
use crate::catalog::links::AlertName;
use crate::catalog::metrics;
use crate::model::kernel_log::{During, MessageKind};
use crate::thresholds::Thresholds;

/// What the kernel says of tasks and CPUs that do not come back.
const STUCK: &[(&str, &[&str])] = &[(
    "kind",
    &[
        MessageKind::HungTask.as_str(),
        MessageKind::SoftLockup.as_str(),
        MessageKind::RcuStall.as_str(),
    ],
)];
const TEN_MINUTES: u32 = 600;
const SERVING: &[(&str, &[&str])] = &[("during", &[During::Serving.as_str()])];

/// How often the driver got no memory while jobs served. Recorded, so that what goes on when the box falls silent is what
/// was so then, and a scrape that fails brings up nothing that is long over.
pub(super) static NO_MEMORY: Record = Record {
    name: "instance:gb10_driver_no_memory:increase10m",
    group: Group::Kernel,
    is: |c| {
        let series = c.series(&metrics::DRIVER_NO_MEMORY_TOTAL, SERVING);
        format!("increase({series}[{}])\nand\n{series}", c.span(TEN_MINUTES))
    },
};

const fn no_memory_in_service(by: fn(&Thresholds) -> f64) -> When {
    When::Series(Condition {
        recorded: Some(&NO_MEMORY),
        ..Condition::new(
            &metrics::DRIVER_NO_MEMORY_TOTAL,
            SERVING,
            Is::Grew { by, within: TEN_MINUTES },
        )
    })
}

const fn grew(
    metric: &'static Metric,
    with: &'static [(&'static str, &'static [&'static str])],
) -> When {
    When::Series(Condition::new(metric, with, Is::Grew { by: on, within: TEN_MINUTES }))
}

/// Xid numbers after which the GPU, or the box, has to be reset: memory that cannot be trusted (48, 64,
/// 95), the driver's or the GPU's processor gone (62, 119, 120), links (74), the GPU off the bus (79),
/// and a reset that the driver asks for (154).
const FATAL: &[&str] = &["48", "62", "64", "74", "79", "95", "119", "120", "154"];
/// Numbers that are a program's own mistake, or the end that follows it.
const OWN: &[&str] = &["13", "31", "43", "45"];

fn other_xids(c: &Context<'_>) -> String {
    let name = c.of(&metrics::GPU_XID_ERRORS_TOTAL, &[]);
    let not = [FATAL, OWN].concat().join("|");
    let series = match name.strip_suffix('}') {
        Some(open) => format!("{open},xid!~\"{not}\"}}"),
        None => format!("{name}{{xid!~\"{not}\"}}"),
    };
    let within = c.span(TEN_MINUTES);
    // A number that nobody counts from zero begins with its first error; one scrape that failed is no beginning.
    format!(
        "increase({series}[{within}]) > 0.5\nor\n({series} unless last_over_time({series}[{}] offset {within})) >= 1",
        c.span(3600)
    )
}

const XID_TEXT: &str =
    "{{ $labels.instance }}: GPU {{ $labels.gpu }} reports Xid {{ $labels.xid }}. ";

pub(super) const ROWS: &[Alert] = &[
    Alert {
        name: AlertName::OomKill,
        severity: Severity::Warning,
        group: Group::Kernel,
        when: grew(&metrics::MEMORY_OOM_KILLS_TOTAL, &[]),
        outlives: 0,
        wait: 0,
        keep: 300,
        summary: "The kernel killed a process for want of memory.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {} available now, at least {} within a quarter of an hour. The victim is often \
                 a small bystander: GPU memory does not count when the kernel chooses. {} First: journalctl -k names \
                 the victim; then see who took the memory.",
                c.last(&metrics::POOL_AVAILABLE_BYTES, &[], Shown::Bytes),
                c.least(&metrics::POOL_AVAILABLE_MIN_BYTES, &[("window", "1m")], Shown::Bytes),
                c.holders()
            )
        },
        fires: &["build-beside-model", "locked-and-lingering"],
        silent: &["full-at-ninety", "no-memory-while-it-loads", "graph-takes-the-box"],
    },
    Alert {
        name: AlertName::DriverNoMemory,
        severity: Severity::Critical,
        group: Group::Kernel,
        when: no_memory_in_service(|t| t.alert_no_memory_burst.as_f64()),
        outlives: DYING,
        wait: 0,
        keep: 600,
        summary: "The driver gets no memory, again and again, while jobs serve.",
        says: |c| {
            no_memory(
                c,
                "Boxes that were lost in service said so before. First: end a job in order, now.",
            )
        },
        fires: &["lines-in-service", "two-hundred-lines"],
        silent: &["no-memory-while-it-loads", "starts-and-no-memory", "prefill-freeze"],
    },
    Alert {
        name: AlertName::DriverNoMemory,
        severity: Severity::Warning,
        group: Group::Kernel,
        when: no_memory_in_service(on),
        outlives: DYING,
        wait: 0,
        keep: 600,
        summary: "The driver got no memory while jobs serve.",
        says: |c| {
            no_memory(
                c,
                "A single line is no proof of anything. First: see how much is left in large blocks, and hold back long prompts.",
            )
        },
        fires: &["lines-in-service", "two-hundred-lines"],
        silent: &["no-memory-while-it-loads", "starts-and-no-memory"],
    },
    Alert {
        name: AlertName::DriverNoMemory,
        severity: Severity::Info,
        group: Group::Kernel,
        when: grew(
            &metrics::DRIVER_NO_MEMORY_TOTAL,
            &[("during", &[During::Idle.as_str(), During::Unknown.as_str()])],
        ),
        outlives: 0,
        wait: 0,
        keep: 0,
        summary: "The driver got no memory while no job was loading or serving.",
        says: |c| no_memory(c, "Boxes at rest that stayed well have logged it, too."),
        fires: &["small-victims", "starts-and-no-memory"],
        silent: &["no-memory-while-it-loads"],
    },
    Alert {
        name: AlertName::HungTask,
        severity: Severity::Warning,
        group: Group::Kernel,
        when: grew(&metrics::KERNEL_MESSAGES_TOTAL, STUCK),
        outlives: 0,
        wait: 0,
        keep: 300,
        summary: "A task or a CPU does not come back from the kernel.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: {{{{ $labels.kind }}}}; {} available. In \
                 nvidia's code it means that the driver is wedged; then nvidia-smi hangs, too. First: journalctl -k names \
                 the task; do not start further programs that ask the GPU.",
                c.last(&metrics::POOL_AVAILABLE_BYTES, &[], Shown::Bytes)
            )
        },
        fires: &["fragmentation"],
        silent: &["eventful-hour", "sensors-hang"],
    },
    Alert {
        name: AlertName::Xid,
        severity: Severity::Critical,
        group: Group::Kernel,
        when: grew(&metrics::GPU_XID_ERRORS_TOTAL, &[("xid", FATAL)]),
        outlives: 0,
        wait: 0,
        keep: 600,
        summary: "The GPU reports an error that only a reset ends.",
        says: |_| {
            format!(
                "{XID_TEXT}What runs on it is lost or not to be trusted. First: save the kernel's log, then end the jobs \
                 and reboot; if it comes again, switch the box off and on."
            )
        },
        fires: &["driver-says-xid"],
        silent: &["no-memory-while-it-loads", "fragmentation"],
    },
    Alert {
        name: AlertName::Xid,
        severity: Severity::Warning,
        group: Group::Kernel,
        when: When::Expression(other_xids),
        outlives: 0,
        wait: 0,
        keep: 300,
        summary: "The GPU reports an error.",
        says: |_| {
            format!(
                "{XID_TEXT}First: journalctl -k has its line; look the number up in NVIDIA's list."
            )
        },
        fires: &["driver-says-xid"],
        silent: &["no-memory-while-it-loads", "fragmentation"],
    },
    Alert {
        name: AlertName::Xid,
        severity: Severity::Info,
        group: Group::Kernel,
        when: grew(&metrics::GPU_XID_ERRORS_TOTAL, &[("xid", OWN)]),
        outlives: 0,
        wait: 0,
        keep: 0,
        summary: "A program on the GPU has failed.",
        says: |_| {
            format!(
                "{XID_TEXT}Mostly a program's own mistake: its job has ended, the others go on."
            )
        },
        fires: &["driver-says-xid"],
        silent: &["no-memory-while-it-loads", "fragmentation"],
    },
];

fn no_memory(c: &Context<'_>, then: &str) -> String {
    format!(
        "{{{{ $labels.instance }}}}: NV_ERR_NO_MEMORY about {{{{ $value | humanize }}}} times; {} available, {} free. {} {then}",
        c.last(&metrics::POOL_AVAILABLE_BYTES, &[], Shown::Bytes),
        c.last(&metrics::POOL_FREE_BYTES, &[], Shown::Bytes),
        c.holders()
    )
}
