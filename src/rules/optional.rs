//! Rules on series that not everybody has: vLLM's own, a blackbox exporter's, those of several boxes.
//! They are written on request only.

use super::expr::{Context, Shown};
use super::{Alert, Group, Severity, When};
use crate::catalog::links::AlertName;
use crate::catalog::metrics;
use crate::model::throttle::ThrottleState;

fn preemptions(c: &Context<'_>) -> String {
    format!("sum by (job, instance) (rate(vllm:num_preemptions_total[{}])) > 0", c.span(300))
}

fn frozen(c: &Context<'_>) -> String {
    let over = c.span(300);
    format!(
        "sum by (job, instance) (min_over_time(vllm:num_requests_running[{over}])) > 0\nand\n\
         sum by (job, instance) (increase(vllm:generation_tokens_total[{over}])) == 0\nand\n\
         sum by (job, instance) (increase(vllm:prompt_tokens_total[{over}])) == 0"
    )
}

/// The blackbox exporter's target is the box's name; ours has a port behind it.
fn ping_only(c: &Context<'_>) -> String {
    let host = |expression: &str| {
        format!("label_replace({expression}, \"host\", \"$1\", \"instance\", \"([^:]+).*\")")
    };
    format!(
        "{}\nand on (host)\n{}",
        host(&format!("{} == 0", c.up())),
        host("probe_success{job=~\".*(ping|icmp).*\"} == 1")
    )
}

/// A unit that fails where its twins do not is a case for the vendor. Two of three must be well.
fn unit_fails(c: &Context<'_>) -> String {
    let day = c.span(86_400);
    let thermal =
        c.of(&metrics::THROTTLE_EPISODES_TOTAL, &[("kind", ThrottleState::Thermal.as_str())]);
    let unclean = c.of(&metrics::BOOT_UNCLEAN, &[]);
    let boots = c.of(&metrics::BOOT_TIMESTAMP_SECONDS, &[]);
    let heat = format!("sum by (job, instance) (increase({thermal}[{day}]))");
    // Boots that were unclean, told apart by when they were: an orderly one between them is none.
    let boot = format!(
        "sum by (job, instance) (1 + changes(({boots} and on (job, instance) {unclean} == 1)[{day}:{}]))",
        c.span(300)
    );
    let troubles = format!("(({heat} + {boot}) or {heat} or {boot})");
    format!(
        "{troubles} >= 2\nand on (job)\n(count by (job) ({troubles} < 1) >= 2 * count by (job) ({troubles} >= 2))"
    )
}

fn versions(c: &Context<'_>) -> String {
    let driver = c.of(&metrics::NVIDIA_DRIVER_INFO, &[]);
    let machine = c.of(&metrics::MACHINE_INFO, &[]);
    format!(
        "count by (job) (count by (job, version) ({driver})) > 1\nor\n\
         count by (job) (count by (job, product, firmware) ({machine}))\n  \
         > count by (job) (count by (job, product) ({machine}))"
    )
}

pub(super) const ROWS: &[Alert] = &[
    Alert {
        name: AlertName::VllmPreemptions,
        severity: Severity::Warning,
        group: Group::Vllm,
        when: When::Expression(preemptions),
        outlives: 0,
        wait: 300,
        keep: 300,
        summary: "vLLM evicts running requests for want of cache.",
        says: |_| {
            "{{ $labels.instance }}: {{ $value | humanize }} requests a second lose their cache and are computed anew. First: \
             fewer sequences at a time, or a shorter context."
                .to_owned()
        },
        fires: &["optional"],
        silent: &["optional"],
    },
    Alert {
        name: AlertName::VllmFrozen,
        severity: Severity::Critical,
        group: Group::Vllm,
        when: When::Expression(frozen),
        outlives: 0,
        wait: 60,
        keep: 0,
        summary: "vLLM has running requests and neither reads nor writes tokens.",
        says: |_| {
            "{{ $labels.instance }}: {{ $value }} requests run and no token has moved for five minutes, whatever the health page \
             says. At 32 W and more it reads a long prompt: wait. First: see the box's throttle state and the driver's messages; then restart the server."
                .to_owned()
        },
        fires: &["optional"],
        silent: &["optional"],
    },
    Alert {
        name: AlertName::AnswersPingOnly,
        severity: Severity::Critical,
        group: Group::Ping,
        when: When::Expression(ping_only),
        outlives: 0,
        wait: 180,
        keep: 0,
        summary: "The box answers ping and its exporter does not.",
        says: |c| {
            format!(
                "{{{{ $labels.instance }}}}: often userspace is gone then, as on boxes that ran out of memory; {} were available at \
                 least. First: try ssh. If that works, only the exporter is down; if not, read the runbook before the power switch.",
                c.least(&metrics::POOL_AVAILABLE_MIN_BYTES, &[("window", "1m")], Shown::Bytes)
            )
        },
        fires: &["optional"],
        silent: &["optional"],
    },
    Alert {
        name: AlertName::FleetUnitFails,
        severity: Severity::Warning,
        group: Group::Fleet,
        when: When::Expression(unit_fails),
        outlives: 0,
        wait: 900,
        keep: 0,
        summary: "One box fails or loses work to heat where its twins do not.",
        says: |_| {
            "{{ $labels.instance }}: {{ $value | humanize }} unclean boots and thermal episodes within a day; most of its twins had \
             none. First: compare firmware, place and air; then let units change places."
                .to_owned()
        },
        fires: &["optional"],
        silent: &["optional"],
    },
    Alert {
        name: AlertName::FleetVersionsDiffer,
        severity: Severity::Info,
        group: Group::Fleet,
        when: When::Expression(versions),
        outlives: 0,
        wait: 3600,
        keep: 0,
        summary: "Boxes run different drivers or firmware.",
        says: |_| {
            "Job {{ $labels.job }}: driver or firmware differ between boxes, so they cannot be compared. The fleet dashboard lists \
             them."
                .to_owned()
        },
        fires: &["optional"],
        silent: &["optional"],
    },
];
