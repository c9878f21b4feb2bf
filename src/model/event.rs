//! Things that happened, in a bounded list that log lines and JSON read alike.

use super::moment::Moment;
use super::throttle::Episode;

states! {
    /// What happened.
    EventKind {
        /// A source changed its state.
        SourceChanged = "source_changed",
        /// Available memory fell below the reserve.
        ReserveBroken = "reserve_broken",
        /// Available memory is above the reserve again.
        ReserveRestored = "reserve_restored",
        /// At the present slope the pool reaches its reserve within seconds.
        ExhaustionImminent = "exhaustion_imminent",
        /// It does not any more.
        ExhaustionOver = "exhaustion_over",
        /// The box went down before this boot without telling the exporter.
        BootUnclean = "boot_unclean",
        /// It became clear, or changed, whether a GPU shares the pool.
        GpuMemory = "gpu_memory",
        /// A GPU reported Xid errors.
        Xid = "xid",
        /// The kernel's log has something that matters; the subject is its kind.
        KernelMessage = "kernel_message",
        /// A GPU works in another state than before.
        ThrottleChanged = "throttle_changed",
        /// A clock cap appeared or was lost.
        ClockCap = "clock_cap",
        /// The steps of a training run have become slow, or are no longer.
        RunSlow = "run_slow",
        /// A job holds GPU memory that did not before.
        JobHolds = "job_holds",
        /// A job has ended.
        JobEnded = "job_ended",
        /// Whether the jobs fit together has changed.
        Contention = "contention",
        /// How hard it is to get memory has changed.
        Pressure = "pressure",
        /// Memory of a job that has ended is still held, or is so no longer.
        Release = "release",
        /// A worker goes on without its server, holds memory and does nothing.
        Orphan = "orphan",
        /// A training run has not reported for longer than any pause of it takes, or goes on.
        RunStalled = "run_stalled",
        /// A lane could not keep its period.
        TicksMissed = "ticks_missed",
    }
}

states! {
    /// How much an event asks of its reader.
    Severity {
        /// Good to know.
        Info = "info",
        /// Worth a look.
        Warning = "warning",
        /// An operator must act.
        Error = "error",
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Position since the exporter started, from 1.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// What.
    pub kind: EventKind,
    /// How bad.
    pub severity: Severity,
    /// What it is about: a source, `pool`, a lane.
    pub subject: &'static str,
    /// The evidence, with its numbers.
    pub evidence: String,
    /// Of a GPU's change of state: which GPU, and the stay that ended with it.
    pub episode: Option<(u32, Episode)>,
}
