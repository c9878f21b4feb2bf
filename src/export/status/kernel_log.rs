//! The kernel's log, as a part of the status document.

use super::{Figure, Map};
use crate::model::frame::Frame;
use crate::model::kernel_log::{During, MessageKind, Noticed};
use crate::model::workload::{Class, ClassName};
use serde::{Deserialize, Serialize};

/// Entries in the document.
const ENTRIES: usize = 16;

/// What the kernel has said since boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelLogPart {
    /// Where it is read.
    pub place: String,
    /// Messages since boot, by kind.
    pub messages: Map<u64>,
    /// Those of them that came lately (`kernel_log.recent`), by kind; kinds without are left out.
    pub recent: Map<u64>,
    /// How long that is, in seconds.
    pub recent_seconds: f64,
    /// When the last of each kind came, seconds since 1970.
    pub last: Map<f64>,
    /// Xid errors since boot, by number.
    pub xids: Map<u64>,
    /// Messages of memory that the driver did not get, since the exporter started, by what the jobs were doing.
    #[serde(default)]
    pub no_memory: Map<u64>,
    /// Lines that were lost.
    pub lost: u64,
    /// Lines of this boot that were overwritten before the exporter had started.
    pub overwritten: u64,
    /// The latest, oldest first.
    pub latest: Vec<MessagePart>,
}

/// Messages with the same facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePart {
    /// Seconds since 1970.
    pub at: Figure<f64>,
    /// Kind.
    pub kind: String,
    /// Its number: an Xid, seconds, an order.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub number: Option<u64>,
    /// The program that it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<String>,
    /// How many.
    pub count: u64,
    /// Whether they came before the exporter had started.
    pub before_start: bool,
    /// What the jobs were doing then: load, serving, idle, unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub during: Option<String>,
    /// Those of them that were loading, or else serving.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub jobs: Option<String>,
    /// The class of the job that an Xid is of, or of the process that was killed, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workload: Option<String>,
    /// Of a process that was killed: its memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub victim: Option<VictimPart>,
}

/// A process that was killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VictimPart {
    /// Its address space.
    pub total_vm: Figure<u64>,
    /// Its own memory.
    pub anonymous: Figure<u64>,
    /// Pages of files.
    pub file: Figure<u64>,
    /// Shared memory.
    pub shared: Figure<u64>,
    /// What was short.
    pub constraint: Figure<String>,
    /// Of one that had next to nothing of its own: what the kernel had no account of then, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tiny_beside_unaccounted: Option<Figure<u64>>,
}

fn message(noticed: &Noticed) -> MessagePart {
    let entry = &noticed.entry;
    let victim = entry.message.victim.as_ref();
    let class = victim.and_then(|victim| victim.class).map(Class::as_str);
    let class = noticed.class.as_ref().map(ClassName::as_str).or(class);
    MessagePart {
        at: Figure::of(entry.at, |at| at.as_secs_f64()),
        kind: entry.message.kind.as_str().to_owned(),
        number: entry.message.number,
        program: entry.message.name.clone(),
        count: entry.count,
        before_start: entry.old,
        during: noticed.phase.map(|during| during.as_str().to_owned()),
        jobs: noticed.jobs.as_deref().map(str::to_owned),
        workload: class.map(str::to_owned),
        victim: victim.map(|victim| VictimPart {
            total_vm: super::bytes(victim.total_vm),
            anonymous: super::bytes(victim.anonymous),
            file: super::bytes(victim.file),
            shared: super::bytes(victim.shared),
            constraint: Figure::of(victim.constraint, |c| c.as_str().to_owned()),
            tiny_beside_unaccounted: noticed.tiny.map(super::bytes),
        }),
    }
}

pub(super) fn kernel_log(frame: &Frame) -> Figure<KernelLogPart> {
    let messages = frame.snapshot.kernel_log.as_ref().map_err(|reason| *reason);
    let heard = frame.verdicts.kernel_log.as_ref().map_err(|reason| *reason);
    let both = messages.and_then(|messages| Ok((messages, heard?)));
    Figure::of(both, |(messages, heard)| {
        let named = || MessageKind::ALL.iter().map(|kind| kind.as_str().to_owned());
        let skipped = heard.entries.len().saturating_sub(ENTRIES);
        KernelLogPart {
            place: messages.place.as_str().to_owned(),
            messages: named().zip(messages.counts).collect(),
            recent: named().zip(heard.recent).filter(|(_, count)| *count > 0).collect(),
            recent_seconds: heard.within.0,
            last: named()
                .zip(messages.last)
                .filter_map(|(kind, at)| Some((kind, at?.as_secs_f64())))
                .collect(),
            xids: messages.xids.iter().map(|(xid, count)| (xid.to_string(), *count)).collect(),
            no_memory: During::ALL
                .iter()
                .map(|during| during.as_str().to_owned())
                .zip(heard.no_memory.all)
                .collect(),
            lost: messages.lost,
            overwritten: messages.overwritten,
            latest: heard.entries.iter().skip(skipped).map(message).collect(),
        }
    })
}
