//! Where the kernel's log is read.

use super::observed::Observed;
use super::outcome::{Judged, Outcome};
use super::{Check, Needs};
use crate::model::kernel_log::MessageKind;
use crate::model::source::Source;

pub(super) const KERNEL_LOG: Check = Check {
    name: "kernel-log",
    expected: "the kernel's log can be read: /dev/kmsg, or the file of a syslog daemon",
    because: "Xid errors, memory that the driver did not get, victims of the OOM killer and hung tasks are told there",
    needs: Needs::Nothing,
    judge: kernel_log,
};

fn kernel_log(observed: &Observed) -> Judged {
    let frame = observed.last();
    match &frame.snapshot.kernel_log {
        Ok(messages) => {
            let seen: Vec<String> = MessageKind::ALL
                .iter()
                .zip(messages.counts)
                .filter(|(_, count)| *count > 0)
                .map(|(kind, count)| format!("{} {count}", kind.as_str()))
                .collect();
            let seen = if seen.is_empty() { "nothing of note".to_owned() } else { seen.join(", ") };
            let gone = match messages.overwritten {
                0 => String::new(),
                lines => format!("; the first {lines} lines of this boot were overwritten before"),
            };
            let place = messages.place.describe();
            Ok(Outcome::pass(format!("read from {place}: {seen} since boot{gone}")))
        }
        Err(reason) => {
            let health = &frame.health.sources[Source::KernelLog.index()];
            let why = health.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            Err(Outcome::unknown(format!("not read ({}){why}", reason.as_str())))
        }
    }
}
