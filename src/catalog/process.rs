//! The exporter's own process, under the names that every Prometheus client gives to its own.

use super::{Metric, metric};
use crate::units::{Bytes, Count};

pub(super) const ROWS: &[Metric] = &[
    metric!(
        "process_cpu_seconds_total",
        Counter,
        Seconds,
        [],
        [Process],
        Stable,
        "/proc/self/stat",
        "CPU time that the exporter itself has used, user and system together.",
        |f, out| out.one(f.snapshot.process.cpu, |t| t.0)
    ),
    metric!(
        "process_resident_memory_bytes",
        Gauge,
        Bytes,
        [],
        [Process],
        Stable,
        "/proc/self/status VmRSS",
        "Resident memory of the exporter itself.",
        |f, out| out.one(f.snapshot.process.resident, Bytes::as_f64)
    ),
    metric!(
        "process_virtual_memory_bytes",
        Gauge,
        Bytes,
        [],
        [Process],
        Stable,
        "/proc/self/status VmSize",
        "Address space of the exporter itself.",
        |f, out| out.one(f.snapshot.process.virtual_memory, Bytes::as_f64)
    ),
    metric!(
        "process_open_fds",
        Gauge,
        Count,
        [],
        [Process],
        Stable,
        "/proc/self/fd",
        "File descriptors that the exporter itself has open.",
        |f, out| out.one(f.snapshot.process.open_fds, Count::as_f64)
    ),
    metric!(
        "process_max_fds",
        Gauge,
        Count,
        [],
        [Process],
        Stable,
        "/proc/self/limits",
        "File descriptors that the exporter itself may have open.",
        |f, out| out.one(f.snapshot.process.max_fds, Count::as_f64)
    ),
    metric!(
        "process_start_time_seconds",
        Gauge,
        Seconds,
        [],
        [Process],
        Stable,
        "/proc/self/stat, /proc/stat btime",
        "When the exporter itself started, seconds since 1970.",
        |f, out| if let Ok(booted) = f.snapshot.stat.boot_time {
            out.one(f.snapshot.process.started, |t| booted.as_f64() + t.0);
        }
    ),
    metric!(
        "process_threads",
        Gauge,
        Count,
        [],
        [Process],
        Stable,
        "/proc/self/status Threads",
        "Threads of the exporter itself.",
        |f, out| out.one(f.snapshot.process.threads, Count::as_f64)
    ),
];
