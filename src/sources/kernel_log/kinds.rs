//! From a line's text to its facts: one row a kind, by the words of the kernel and of NVIDIA's driver.
//!
//! A process names itself, and the kernel puts that name at the start of some of its lines. A name has
//! at most 15 bytes, and every row asks for more than that of the kernel's own words, in its own order.

use crate::model::kernel_log::{Constraint, Message, MessageKind, Victim};
use crate::model::reading::{Missing, Reading};
use crate::sources::lines::label;
use crate::sources::processes::classes;
use crate::units::{Bytes, KIB};

/// The kernel keeps so much of a process's name; that of a worker names its queue as well.
const MAX_NAME: usize = 32;
/// A name as it stands in a line: what is no ASCII takes four characters (`\xff`), or three bytes.
const MAX_WRITTEN: usize = 4 * MAX_NAME;

/// What a row takes from a line.
#[derive(Default)]
struct Facts {
    number: Option<u64>,
    name: Option<String>,
    victim: Option<Victim>,
    pid: Option<u32>,
}

/// A kind, and how its lines are known.
struct Row {
    kind: MessageKind,
    read: fn(&str) -> Option<Facts>,
}

const ROWS: &[Row] = &[
    Row { kind: MessageKind::Xid, read: xid },
    Row {
        kind: MessageKind::DriverNoMemory,
        read: |text| driver(text, &["NV_ERR_NO_MEMORY", "(0x00000051)"]),
    },
    Row {
        kind: MessageKind::DriverError,
        read: |text| driver(text, &["Check failed: ", "Assertion failed: "]),
    },
    Row { kind: MessageKind::DriverLoaded, read: |text| driver(text, &["loading NVIDIA UNIX "]) },
    Row { kind: MessageKind::OomKill, read: oom_kill },
    Row { kind: MessageKind::OomInvoked, read: oom_invoked },
    Row { kind: MessageKind::PageAllocationFailure, read: page_allocation_failure },
    Row { kind: MessageKind::HungTask, read: hung_task },
    Row { kind: MessageKind::SoftLockup, read: soft_lockup },
    Row { kind: MessageKind::RcuStall, read: rcu_stall },
    Row { kind: MessageKind::PcieFatal, read: |text| pcie(text, "Uncorrect", " (Fatal)") },
    Row { kind: MessageKind::PcieNonfatal, read: |text| pcie(text, "Uncorrect", " (Non-Fatal)") },
    Row { kind: MessageKind::PcieCorrected, read: |text| pcie(text, "Correct", "") },
    Row { kind: MessageKind::IoError, read: io_error },
    Row { kind: MessageKind::ThermalCritical, read: thermal_critical },
];

/// Lines that look bad and are known not to be: words, and why. No row sees them.
pub(super) const BENIGN: &[(&str, &str)] = &[(
    "Detected insufficient power on the PCIe slot",
    "the network adapter of a healthy box says so four times at every boot",
)];

const CONSTRAINTS: &[(&str, Constraint)] = &[
    ("CONSTRAINT_NONE", Constraint::None),
    ("CONSTRAINT_MEMCG", Constraint::Memcg),
    ("CONSTRAINT_CPUSET", Constraint::Cpuset),
    ("CONSTRAINT_MEMORY_POLICY", Constraint::MemoryPolicy),
];

/// What a line says, if it is of a kind.
///
/// The name of the line before it matters once: the kernel says what was short in a line of its own
/// before it names its victim.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    pub(super) constraint: Option<Constraint>,
    /// The process that the last message names, where that matters.
    pub(super) pid: Option<u32>,
}

impl Parser {
    /// The facts of a line of the kernel.
    pub fn message(&mut self, text: &str) -> Option<Message> {
        if BENIGN.iter().any(|(words, _)| text.contains(words)) {
            return None;
        }
        if let Some(rest) = text.strip_prefix("oom-kill:constraint=") {
            self.constraint = constraint(rest);
            return None;
        }
        let (kind, mut facts) = ROWS.iter().find_map(|row| Some((row.kind, (row.read)(text)?)))?;
        if let Some(victim) = &mut facts.victim {
            victim.constraint = self.constraint.take().ok_or(Missing::NotAvailable);
        }
        self.pid = facts.pid;
        Some(Message { kind, number: facts.number, name: facts.name, victim: facts.victim })
    }
}

fn constraint(text: &str) -> Option<Constraint> {
    let word = text.split(',').next()?;
    CONSTRAINTS.iter().find(|(known, _)| *known == word).map(|(_, constraint)| *constraint)
}

/// A process's name as it may be shown; nothing for what is too long to be one.
fn name(written: &str) -> Option<String> {
    (!written.is_empty() && written.len() <= MAX_WRITTEN)
        .then(|| label(written).chars().take(MAX_NAME).collect())
}

/// The number at the start of a text.
fn number(text: &str) -> Option<u64> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..end].parse().ok()
}

/// `NVRM: Xid (PCI:000f:01:00): 13, pid=1, name=python, Graphics Exception: ...`
fn xid(text: &str) -> Option<Facts> {
    let (address, rest) = text.strip_prefix("NVRM: Xid (PCI:")?.split_once("): ")?;
    let is_address = address.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
    let end = rest.bytes().take_while(u8::is_ascii_digit).count();
    let ends = rest[end..].is_empty() || rest[end..].starts_with(',');
    let error = number(rest).filter(|_| is_address && ends)?;
    // Others have pid='<unknown>'.
    let pid = rest[end..].strip_prefix(", pid=").and_then(number);
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    Some(Facts { number: Some(error), pid, ..Facts::default() })
}

/// `NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from
/// _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359`. File and line differ from version to version.
fn driver(text: &str, words: &[&str]) -> Option<Facts> {
    let rest = text.strip_prefix("NVRM: ")?;
    words.iter().any(|words| rest.contains(words)).then(Facts::default)
}

/// `python invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO), order=0, oom_score_adj=0`
fn oom_invoked(text: &str) -> Option<Facts> {
    let (program, rest) = text.split_once(" invoked oom-killer: gfp_mask=")?;
    let order = rest.split_once(", order=").and_then(|(_, rest)| number(rest));
    Some(Facts { name: Some(name(program)?), number: order, ..Facts::default() })
}

/// `Out of memory: Killed process 7 (python) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:1kB, ...`
fn oom_kill(text: &str) -> Option<Facts> {
    let ours = ["Out of memory", "Memory cgroup out of memory"];
    let (said, rest) = text.split_once(": Killed process ")?;
    let pid = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (program, sizes) = rest[pid..].strip_prefix(" (")?.rsplit_once(") total-vm:")?;
    if pid == 0 || !ours.iter().any(|begins| said.starts_with(begins)) {
        return None;
    }
    let size = |key: &str| -> Reading<Bytes> {
        let (_, rest) = sizes.split_once(key).ok_or(Missing::NotAvailable)?;
        amount(rest)
    };
    Some(Facts {
        name: Some(name(program)?),
        number: None,
        victim: Some(Victim {
            total_vm: amount(sizes),
            anonymous: size("anon-rss:"),
            file: size("file-rss:"),
            shared: size("shmem-rss:"),
            constraint: Err(Missing::NotAvailable),
            class: classes::named(program),
        }),
        pid: None,
    })
}

/// `123kB`
fn amount(text: &str) -> Reading<Bytes> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let kib = number(text).filter(|kib| text[end..].starts_with("kB") && *kib <= u64::MAX / KIB);
    kib.map(Bytes::from_kib).ok_or(Missing::Malformed)
}

/// `python: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null),...`
fn page_allocation_failure(text: &str) -> Option<Facts> {
    let (program, rest) = text.split_once(": page allocation failure: order:")?;
    Some(Facts { name: Some(name(program)?), number: Some(number(rest)?), ..Facts::default() })
}

/// `INFO: task llama-server:4711 blocked for more than 122 seconds.`
fn hung_task(text: &str) -> Option<Facts> {
    let (task, rest) = text.strip_prefix("INFO: task ")?.rsplit_once(" blocked for more than ")?;
    let (program, pid) = task.rsplit_once(':')?;
    let seconds = number(rest)?;
    (number(pid).is_some() && rest.contains(" seconds")).then_some(Facts {
        name: Some(name(program)?),
        number: Some(seconds),
        ..Facts::default()
    })
}

/// `watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python:4711]`
fn soft_lockup(text: &str) -> Option<Facts> {
    let text = text.strip_prefix("watchdog: ").unwrap_or(text);
    let rest = text.strip_prefix("BUG: soft lockup - CPU#")?;
    let (_, rest) = rest.split_once(" stuck for ")?;
    let (seconds, task) = rest.split_once("s! [")?;
    let (program, _) = task.rsplit_once(':')?;
    Some(Facts { name: Some(name(program)?), number: Some(number(seconds)?), ..Facts::default() })
}

/// `rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:`, `... self-detected stall on CPU`
fn rcu_stall(text: &str) -> Option<Facts> {
    let text = text.strip_prefix("rcu: ").unwrap_or(text).strip_prefix("INFO: ")?;
    let (_, said) = text.split_once(' ')?;
    let ways = ["self-detected stall on CPU", "detected stalls on", "detected expedited stalls on"];
    ways.iter().any(|begins| said.starts_with(begins)).then(Facts::default)
}

/// `pcieport 000f:00:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, ...`.
/// Kernels have written Uncorrected and Uncorrectable, Corrected and Correctable.
fn pcie(text: &str, begins: &str, ends: &str) -> Option<Facts> {
    let (_, rest) = text.split_once("PCIe Bus Error: severity=")?;
    let severity = rest.split(", type=").next()?;
    (severity.starts_with(begins) && severity.ends_with(ends)).then(Facts::default)
}

/// `I/O error, dev nvme0n1, sector 123 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2`
fn io_error(text: &str) -> Option<Facts> {
    let (status, rest) = text.split_once(" error, dev ")?;
    let (disk, rest) = rest.split_once(", sector ")?;
    let written = number(rest).is_some() && rest.contains(" op 0x");
    (written && status.len() <= MAX_WRITTEN && !disk.contains(' ')).then(Facts::default)
}

/// `thermal thermal_zone0: acpitz: critical temperature reached`
fn thermal_critical(text: &str) -> Option<Facts> {
    let rest = text.strip_prefix("thermal thermal_zone")?;
    rest.contains("critical temperature reached").then(Facts::default)
}

/// Lines that say what a message says, for those who pass facts on: [`Parser`] makes the same message of
/// them. No pid, address or text of the original is in them.
#[must_use]
pub fn written(message: &Message) -> Vec<String> {
    let short = message.victim.as_ref().and_then(|victim| victim.constraint.ok());
    let word = short.map(|short| CONSTRAINTS.iter().find(|(_, known)| *known == short));
    let short = word.flatten().map(|(word, _)| format!("oom-kill:constraint={word},"));
    short.into_iter().chain([line(message)]).collect()
}

fn line(message: &Message) -> String {
    let program = message.name.as_deref().unwrap_or("?");
    let number = message.number.unwrap_or_default();
    match message.kind {
        MessageKind::Xid => format!("NVRM: Xid (PCI:0000:00:00): {number}"),
        MessageKind::DriverNoMemory => {
            "NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)".to_owned()
        }
        MessageKind::DriverError => "NVRM: Check failed: ?".to_owned(),
        MessageKind::DriverLoaded => "NVRM: loading NVIDIA UNIX Kernel Module".to_owned(),
        MessageKind::OomInvoked => match message.number {
            Some(order) => format!("{program} invoked oom-killer: gfp_mask=0x0, order={order}"),
            None => format!("{program} invoked oom-killer: gfp_mask=0x0"),
        },
        MessageKind::OomKill => killed(program, message.victim.as_ref()),
        MessageKind::PageAllocationFailure => {
            format!("{program}: page allocation failure: order:{number}, mode:0x0")
        }
        MessageKind::HungTask => {
            format!("INFO: task {program}:0 blocked for more than {number} seconds.")
        }
        MessageKind::SoftLockup => {
            format!("watchdog: BUG: soft lockup - CPU#0 stuck for {number}s! [{program}:0]")
        }
        MessageKind::RcuStall => "rcu: INFO: rcu_preempt self-detected stall on CPU".to_owned(),
        MessageKind::PcieFatal => severity("Uncorrectable (Fatal)"),
        MessageKind::PcieNonfatal => severity("Uncorrectable (Non-Fatal)"),
        MessageKind::PcieCorrected => severity("Correctable"),
        MessageKind::IoError => "I/O error, dev ?, sector 0 op 0x0:(?)".to_owned(),
        MessageKind::ThermalCritical => {
            "thermal thermal_zone0: critical temperature reached".to_owned()
        }
    }
}

fn severity(word: &str) -> String {
    format!("pcieport 0000:00:00.0: PCIe Bus Error: severity={word}, type=?")
}

fn killed(program: &str, victim: Option<&Victim>) -> String {
    let size = |of: fn(&Victim) -> Reading<Bytes>| victim.and_then(|victim| of(victim).ok());
    let total = size(|v| v.total_vm).map_or_else(|| "?".to_owned(), |b| format!("{}kB", b.0 / KIB));
    let parts = [
        ("anon-rss", size(|v| v.anonymous)),
        ("file-rss", size(|v| v.file)),
        ("shmem-rss", size(|v| v.shared)),
    ];
    let parts =
        parts.iter().filter_map(|(key, size)| Some(format!(", {key}:{}kB", (*size)?.0 / KIB)));
    let parts: String = parts.collect();
    format!("Out of memory: Killed process 1 ({program}) total-vm:{total}{parts}")
}

#[cfg(test)]
mod tests;
