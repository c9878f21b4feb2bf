//! The settings, one row each.

use super::super::checks::{flag, one};
use super::super::table::{Row, Standard};
use super::read::{
    attribute, base, boolean, endpoint, exporters, file, headers, list, milliseconds, named, plain,
    seconds, time,
};
use super::{
    Compression, GENERAL, HIDDEN, OF_LOGS, OF_METRICS, Protocol, Temporality, Way, without_query,
};

/// The settings of one way, in three sets.
macro_rules! way {
    ($(#[$doc:meta])* $table:ident, $way:ident, $infix:literal, $variable:literal, $of:literal, $endpoint:literal, $read:ident) => {
        $(#[$doc])*
        pub(in crate::config) const $table: &[Row] = &[
            way!(row $way, $infix, $variable, "endpoint", "ENDPOINT", "URL", $endpoint, "http://collector:4318",
                |w, values| { w.endpoint = Some($read(values)?); Ok(()) },
                |w| w.endpoint.iter().map(|url| without_query(url).to_owned()).collect()),
            way!(row $way, $infix, $variable, "protocol", "PROTOCOL", "NAME",
                concat!("How ", $of, " travel: http/protobuf (the default) or grpc"), "grpc",
                |w, values| { w.protocol = Some(named(values, Protocol::ALL, Protocol::as_str)?); Ok(()) },
                |w| w.protocol.iter().map(|p| p.as_str().to_owned()).collect()),
            way!(many $way, $infix, $variable, "headers", "HEADERS", "NAME=VALUE",
                concat!("A header of each request with ", $of, "; may be given several times. Others see the arguments of a program: keep \
                    passwords in the file of the next setting, or in the environment"), "x-scope-orgid=lab",
                |w, values| { w.headers = headers(values)?; Ok(()) },
                |w| w.headers.iter().map(|(name, _)| format!("{name}={HIDDEN}")).collect()),
            way!(own $way, $infix, "headers_file", "FILE",
                concat!("A file with headers of ", $of, ", one NAME=VALUE a line; read once, when the exporter starts"), "/etc/gb10-exporter/headers",
                |w, values| { w.headers_file = Some(file(values)?); Ok(()) },
                |w| w.headers_file.iter().map(|p| p.display().to_string()).collect()),
            way!(row $way, $infix, $variable, "timeout", "TIMEOUT", "TIME",
                concat!("How long one export of ", $of, " may take, repetitions included (default 10s)"), "10s",
                |w, values| { w.timeout = Some(time(values, 0.1, 600.0)?); Ok(()) },
                |w| w.timeout.iter().map(|t| seconds(*t)).collect(), milliseconds),
            way!(row $way, $infix, $variable, "compression", "COMPRESSION", "NAME",
                concat!("How ", $of, " are packed: none (the default) or gzip"), "gzip",
                |w, values| { w.compression = Some(named(values, Compression::ALL, Compression::as_str)?); Ok(()) },
                |w| w.compression.iter().map(|c| c.as_str().to_owned()).collect()),
            way!(row $way, $infix, $variable, "insecure", "INSECURE", "true|false",
                concat!("Whether an endpoint of ", $of, " that is HOST:PORT without http:// or https:// is meant unencrypted (default false)"), "true",
                |w, values| { w.insecure = Some(flag(values)?); Ok(()) },
                |w| w.insecure.iter().map(ToString::to_string).collect(), boolean),
            way!(row $way, $infix, $variable, "certificate", "CERTIFICATE", "FILE",
                concat!("PEM file with the roots that a collector of ", $of, " is trusted by, instead of the system's"), "/etc/ssl/collector-ca.pem",
                |w, values| { w.certificate = Some(file(values)?); Ok(()) },
                |w| w.certificate.iter().map(|p| p.display().to_string()).collect()),
            way!(row $way, $infix, $variable, "client_certificate", "CLIENT_CERTIFICATE", "FILE",
                concat!("PEM file with the exporter's own certificate for ", $of), "/etc/ssl/gb10-exporter.pem",
                |w, values| { w.client_certificate = Some(file(values)?); Ok(()) },
                |w| w.client_certificate.iter().map(|p| p.display().to_string()).collect()),
            way!(row $way, $infix, $variable, "client_key", "CLIENT_KEY", "FILE",
                concat!("PEM file with the key of that certificate, for ", $of), "/etc/ssl/private/gb10-exporter.key",
                |w, values| { w.client_key = Some(file(values)?); Ok(()) },
                |w| w.client_key.iter().map(|p| p.display().to_string()).collect()),
        ];
    };
    (row $way:ident, $infix:literal, $variable:literal, $key:literal, $name:literal, $value:literal, $help:expr, $example:literal, $set:expr, $show:expr) => {
        way!(row $way, $infix, $variable, $key, $name, $value, $help, $example, $set, $show, plain)
    };
    (row $way:ident, $infix:literal, $variable:literal, $key:literal, $name:literal, $value:literal, $help:expr, $example:literal, $set:expr, $show:expr, $read:ident) => {
        way!(any $way, $infix, $key, $value, $help, $example, $set, $show, false,
            Some(Standard { name: concat!("OTEL_EXPORTER_OTLP_", $variable, $name), read: $read }))
    };
    (many $way:ident, $infix:literal, $variable:literal, $key:literal, $name:literal, $value:literal, $help:expr, $example:literal, $set:expr, $show:expr) => {
        way!(any $way, $infix, $key, $value, $help, $example, $set, $show, true,
            Some(Standard { name: concat!("OTEL_EXPORTER_OTLP_", $variable, $name), read: list }))
    };
    (own $way:ident, $infix:literal, $key:literal, $value:literal, $help:expr, $example:literal, $set:expr, $show:expr) => {
        way!(any $way, $infix, $key, $value, $help, $example, $set, $show, false, None)
    };
    (any $way:ident, $infix:literal, $key:literal, $value:literal, $help:expr, $example:literal, $set:expr, $show:expr, $many:literal, $standard:expr) => {
        Row {
            key: concat!("otlp.", $infix, $key),
            value_name: $value,
            help: $help,
            example: $example,
            many: $many,
            machine: false,
            standard: $standard,
            reloads: false,
            set: |c, values| {
                let set: fn(&mut Way, &[String]) -> Result<(), String> = $set;
                set(&mut c.otlp.ways[$way], values)
            },
            show: |c| {
                let show: fn(&Way) -> Vec<String> = $show;
                show(&c.otlp.ways[$way])
            },
        }
    };
}

way!(
    /// For every signal.
    ALL, GENERAL, "", "", "metrics and log records",
    "Send metrics to this OpenTelemetry collector, at http://HOST:PORT/v1/metrics, and log records if otlp.logs is on. \
     Nothing is sent without it",
    base
);
way!(
    /// For metrics alone.
    METRICS, OF_METRICS, "metrics_", "METRICS_", "metrics",
    "Send metrics to exactly this URL, whatever otlp.endpoint is",
    endpoint
);
way!(
    /// For log records alone.
    LOGS, OF_LOGS, "logs_", "LOGS_", "log records",
    "Send log records to exactly this URL, whatever otlp.endpoint is",
    endpoint
);

/// What there is once.
pub(in crate::config) const ONCE: &[Row] = &[
    Row {
        key: "otlp.disabled",
        value_name: "true|false",
        help: "Send nothing, whatever else is said",
        example: "",
        many: false,
        machine: false,
        standard: Some(Standard { name: "OTEL_SDK_DISABLED", read: boolean }),
        reloads: false,
        set: |c, values| {
            c.otlp.disabled = flag(values)?;
            Ok(())
        },
        show: |c| vec![c.otlp.disabled.to_string()],
    },
    Row {
        key: "otlp.metrics",
        value_name: "true|false",
        help: "Send metrics",
        example: "",
        many: false,
        machine: false,
        standard: Some(Standard { name: "OTEL_METRICS_EXPORTER", read: exporters }),
        reloads: false,
        set: |c, values| {
            c.otlp.metrics = flag(values)?;
            Ok(())
        },
        show: |c| vec![c.otlp.metrics.to_string()],
    },
    Row {
        key: "otlp.logs",
        value_name: "true|false",
        help: "Send events as log records",
        example: "",
        many: false,
        machine: false,
        standard: Some(Standard { name: "OTEL_LOGS_EXPORTER", read: exporters }),
        reloads: false,
        set: |c, values| {
            c.otlp.logs = flag(values)?;
            Ok(())
        },
        show: |c| vec![c.otlp.logs.to_string()],
    },
    Row {
        key: "otlp.interval",
        value_name: "TIME",
        help: "Distance of two exports of metrics",
        example: "",
        many: false,
        machine: false,
        standard: Some(Standard { name: "OTEL_METRIC_EXPORT_INTERVAL", read: milliseconds }),
        reloads: false,
        set: |c, values| {
            c.otlp.interval = time(values, 1.0, 3600.0)?;
            Ok(())
        },
        show: |c| vec![seconds(c.otlp.interval)],
    },
    Row {
        key: "otlp.temporality",
        value_name: "NAME",
        help: "What counters say: cumulative (the sum since the start, which Prometheus needs), delta (what was added \
               since the last export), lowmemory (here the same as cumulative)",
        example: "",
        many: false,
        machine: false,
        standard: Some(Standard {
            name: "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            read: |text| Ok(vec![text.trim().to_ascii_lowercase()]),
        }),
        reloads: false,
        set: |c, values| {
            c.otlp.temporality = named(values, Temporality::ALL, Temporality::as_str)?;
            Ok(())
        },
        show: |c| vec![c.otlp.temporality.as_str().to_owned()],
    },
    Row {
        key: "otlp.service_name",
        value_name: "NAME",
        help: "What the sender is called (default gb10-exporter)",
        example: "gb10-exporter",
        many: false,
        machine: false,
        standard: Some(Standard { name: "OTEL_SERVICE_NAME", read: plain }),
        reloads: false,
        set: |c, values| {
            c.otlp.service_name = Some(one(values)?.to_owned());
            Ok(())
        },
        show: |c| c.otlp.service_name.iter().cloned().collect(),
    },
    Row {
        key: "otlp.resource_attributes",
        value_name: "NAME=VALUE",
        help: "An attribute of the box and the exporter, beside or instead of what the exporter finds; may be given several times",
        example: "deployment.environment.name=lab",
        many: true,
        machine: false,
        standard: Some(Standard { name: "OTEL_RESOURCE_ATTRIBUTES", read: list }),
        reloads: false,
        set: |c, values| {
            c.otlp.resource_attributes =
                values.iter().map(|value| attribute(value)).collect::<Result<_, _>>()?;
            Ok(())
        },
        show: |c| {
            let pairs = c.otlp.resource_attributes.iter();
            pairs.map(|(name, value)| format!("{name}={value}")).collect()
        },
    },
];
