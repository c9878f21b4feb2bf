//! The exporter's own process, under the names that every Prometheus client gives to its own.

use super::{metric, rows};
use crate::units::{Bytes, Count};

rows![
    PROCESS_CPU_SECONDS_TOTAL = metric!(
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
    PROCESS_RESIDENT_MEMORY_BYTES = metric!(
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
    PROCESS_VIRTUAL_MEMORY_BYTES = metric!(
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
    PROCESS_OPEN_FDS = metric!(
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
    PROCESS_MAX_FDS = metric!(
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
    PROCESS_START_TIME_SECONDS = metric!(
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
    PROCESS_THREADS = metric!(
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
