//! What the kernel says, by kind.

use super::{Label, Samples, metric, rows};
use crate::model::frame::Frame;
use crate::model::kernel_log::{During, MessageKind, Messages};
use crate::units::Count;

/// Every kind, once the log could be read: 0 is a figure then.
fn each(f: &Frame, out: &mut Samples, figure: impl Fn(&Messages, usize) -> Option<f64>) {
    let Ok(messages) = &f.snapshot.kernel_log else { return };
    for kind in MessageKind::ALL {
        if let Some(figure) = figure(messages, *kind as usize) {
            out.add([Label::Borrowed(kind.as_str())], figure);
        }
    }
}

rows![
    KERNEL_MESSAGES_TOTAL = metric!(
        "gb10_kernel_messages_total",
        Counter,
        Count,
        ["kind"],
        [KernelLog],
        Stable,
        "/dev/kmsg, /var/log/kern.log, /var/log/syslog",
        "Messages of the kernel since boot, by kind, as far as its log still had them when the exporter started. A burst of driver_no_memory is normal while a model is loaded (gb10_driver_no_memory_total). Absent where the log cannot be read (gb10_source_state).",
        |f, out| each(f, out, |m, kind| Some(Count(m.counts[kind]).as_f64()))
    ),
    KERNEL_MESSAGE_LAST_TIMESTAMP_SECONDS = metric!(
        "gb10_kernel_message_last_timestamp_seconds",
        Gauge,
        Seconds,
        ["kind"],
        [KernelLog],
        Stable,
        "/dev/kmsg, /var/log/kern.log, /var/log/syslog",
        "When the last message of the kind came, since 1970. The kernel's own clock, which /dev/kmsg goes by, may be off by some seconds for each day since boot.",
        |f, out| each(f, out, |m, kind| m.last[kind].map(|at| at.as_secs_f64()))
    ),
    KERNEL_MESSAGES_LOST_TOTAL = metric!(
        "gb10_kernel_messages_lost_total",
        Counter,
        Count,
        [],
        [KernelLog],
        Stable,
        "/dev/kmsg, /var/log/kern.log, /var/log/syslog",
        "Lines of the kernel's log, of whatever kind, that were overwritten or were too long before they could be read, since the exporter started; of a file at least so many.",
        |f, out| if let Ok(messages) = &f.snapshot.kernel_log {
            out.add([], Count(messages.lost).as_f64());
        }
    ),
    DRIVER_NO_MEMORY_TOTAL = metric!(
        "gb10_driver_no_memory_total",
        Counter,
        Count,
        ["during"],
        [KernelLog, Processes, Gpu],
        Stable,
        "the kernel's log; phases of the jobs",
        "Messages of NVIDIA's driver that it got no memory (NV_ERR_NO_MEMORY), since the exporter started, by what the jobs were doing when they were noticed: load (one was starting, loading or warming up: healthy loads log them), serving (none was, and one was serving or training), idle (no job, or all idle), unknown (processes or GPU not read, or a phase not known). Outside of a load they have preceded hard reboots; boxes at rest that stayed well have logged them, too. Absent where the log cannot be read.",
        |f, out| if let Ok(heard) = &f.verdicts.kernel_log {
            for (during, count) in During::ALL.iter().zip(heard.no_memory.all) {
                out.add([during.as_str().into()], Count(count).as_f64());
            }
        }
    ),
];
