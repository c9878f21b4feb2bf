//! docs/OTLP.md: what is sent, under which name, and which setting comes from where.

use super::GENERATED;
use crate::catalog::Metric;
use crate::catalog::otlp::{CONVENTIONS, Instrument, SCHEMA_URL, instruments};
use crate::config::table::rows;
use crate::model::push::ExportResult;
use std::fmt::Write;

const SENDING: &str = "\
## Sending

    gb10-exporter --otlp.endpoint http://collector:4318
    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 gb10-exporter

The first export leaves with the first frame, the next ones every `otlp.interval` (a minute), and one more when the exporter is
stopped, for which it waits five seconds at most. Scrapes go on beside it and never wait for it. One export is one frame: its figures
were read together. What was not read is not sent, and a state set has one series for each state.

An export that does not get through is tried again while its time (`otlp.timeout`) lasts: after a second, two, four, and a part of one
more, or when the collector says. Then its points are lost, and nothing else: sums are told anew by the next one. The log says when a
collector stops taking them, why, and when it takes them again; `gb10_otlp_exports_total` counts.

Counters are cumulative by default, and their start time is the one that OpenTelemetry's library gives them, when the exporter began to
send. Counters of the kernel, which began with the boot, carry their whole value all the same. With `otlp.temporality: delta` they say
what was added since the last export, from what was there when the exporter began; what a failed export held is lost then.

`otlp.logs` sends the list of events (those of the log and of `/api/v1/status`) as log records: event name `gb10.` and the kind, severity,
the evidence as body, `gb10.subject`, and `gb10.event.number`, which counts from 1 with each start: a gap is an event that was not sent.
The list is bounded, so that a collector that is away for long misses the oldest. Records that are refused for good are not sent again.

A build without the cargo feature `otlp` (`cargo build --release --no-default-features`) does not start when an endpoint is set.

";

const PRECEDENCE: &str = "\
## Settings

Each setting is a flag, a variable of the exporter's own, and a key in the YAML file; most are a variable of OpenTelemetry's
specification too. A flag wins over the exporter's own variable, that one over OpenTelemetry's, that one over the file, and the file over the default.
What is said for one signal (`otlp.metrics_...`, `otlp.logs_...`) wins over what is said for all of them, wherever either is said. An
empty variable is as good as none. `gb10-exporter config` shows what is in force and who decided it, without the values of headers.

- `otlp.endpoint` gets `/v1/metrics` and `/v1/logs` appended with http/protobuf; `otlp.metrics_endpoint` and `otlp.logs_endpoint` are used as they are.
- Certificates are PEM files. Without `otlp.certificate` the system's roots are trusted. With `http://` nothing is encrypted, and a
  certificate is a mistake.
- Headers of `otlp.headers` and those of `otlp.headers_file` are sent together; the same name in both is a mistake.
- Proxies are not used, and redirects are not followed. One export at a time: `OTEL_METRIC_EXPORT_TIMEOUT` is not needed, `otlp.timeout` holds.
- Variables of the specification that make no sense here are a mistake only where something is sent: other programs read them too.

| setting | variable of the specification | what it is |
| --- | --- | --- |
";

const RESOURCE: &str = "
## Resource

| attribute | where it comes from |
| --- | --- |
| `service.name` | `gb10-exporter`; `otlp.service_name` |
| `service.version` | the build |
| `service.instance.id` | made of `/etc/machine-id` (or the host's name) and the addresses that are listened on: the same after each restart |
| `host.id` | `/etc/machine-id`, or D-Bus's copy |
| `host.name` | `/proc/sys/kernel/hostname` |
| `host.arch` | the kernel's machine; `arm64` on a GB10 |
| `host.type` | the product's name in the firmware |
| `os.type`, `os.name`, `os.version`, `os.description` | `linux`, and `/etc/os-release` |
| `telemetry.sdk.*` | the library |

`otlp.resource_attributes` adds to them and replaces any of them. What cannot be read is absent. A backend with Prometheus's names makes `job`
of `service.name`, `instance` of `service.instance.id`, and `target_info` of the rest.
";

/// docs/OTLP.md
#[must_use]
pub fn otlp() -> String {
    let mut out = format!("{GENERATED}# OpenTelemetry\n\n{SENDING}{PRECEDENCE}");
    for row in rows().filter(|row| row.key.starts_with("otlp.")) {
        let standard = row.standard.map_or(String::new(), |s| format!("`{}`", s.name));
        let _ =
            writeln!(out, "| `{}` | {standard} | {}. |", row.key, row.help.trim_end_matches('.'));
    }
    out.push_str(RESOURCE);
    let results: Vec<_> = ExportResult::ALL.iter().map(|result| result.as_str()).collect();
    let _ = write!(
        out,
        "\nExports end as one of: {}.\n\n## Names\n\nA metric goes under the name of a semantic convention ({SCHEMA_URL}) where it meets that \
         convention's definition, and under `gb10.` otherwise. What has no convention keeps its labels as attributes (an empty label is none), \
         and gets its name of a scrape back where a backend stores Prometheus's names (`UnderscoreEscapingWithSuffixes`). A pool that CPU and \
         GPU share is the system's memory, so nothing is sent as `hw.gpu.memory.*`; what a driver reports may be all of it, a part, or a card's own, \
         and one name cannot mean all three. Xid errors are no `hw.errors`, since some are a program's own fault. Swap is told as its size and what is \
         free, and of the states of `system.paging.usage` one alone would be added up to something wrong.\n\n\
         ### By a convention\n\n| metric | OpenTelemetry | unit | kind | attributes | Prometheus's name of it |\n| --- | --- | --- | --- | --- | --- |\n",
        results.join(", ")
    );
    let all = instruments();
    let named = |name: &str| all.iter().find(|instrument| instrument.name == name);
    for convention in CONVENTIONS {
        let Some(instrument) = named(convention.name) else { continue };
        let _ = writeln!(
            out,
            "| `{}` | `{}` | `{}` | {} | {} | `{}` |",
            convention.metric.name,
            convention.name,
            convention.unit,
            convention.form.as_str(),
            convention.says,
            instrument.prometheus()
        );
    }
    out.push_str(
        "\n### Under names of their own\n\n| metric | OpenTelemetry | unit | kind |\n| --- | --- | --- | --- |\n",
    );
    for instrument in &all {
        for part in instrument.parts.iter().filter(|part| part.convention.is_none()) {
            own(&mut out, instrument, part.metric);
        }
    }
    out
}

fn own(out: &mut String, instrument: &Instrument, metric: &Metric) {
    let unit =
        if instrument.unit.is_empty() { String::new() } else { format!("`{}`", instrument.unit) };
    let form = instrument.form.as_str();
    let _ = writeln!(out, "| `{}` | `{}` | {unit} | {form} |", metric.name, instrument.name);
}
