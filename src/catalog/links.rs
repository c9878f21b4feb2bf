//! What alerts, runbooks, dashboards and panels are called, so that each can lead to the others without
//! knowing them.

/// The job under which Prometheus scrapes the exporters, unless it is said otherwise.
pub const JOB: &str = "gb10";
/// Where the runbooks can be read, unless it is said otherwise.
pub const RUNBOOK_BASE: &str =
    "https://github.com/gb10-exporter/gb10-exporter/blob/main/alerts/runbooks/";
/// Where Grafana is, unless it is said otherwise.
pub const GRAFANA_BASE: &str = "http://localhost:3000";

states! {
    /// A dashboard, by its uid, which is also the name of its file.
    Board {
        /// One box: its verdicts, the pool, heat and power, pressure, the exporter itself.
        Box = "gb10-box",
        /// Who holds what, and who fights.
        Workloads = "gb10-workloads",
        /// Every box as a row.
        Fleet = "gb10-fleet",
        /// The last quarter of an hour at full resolution, for who was just paged.
        Incident = "gb10-incident",
    }
}

states! {
    /// How much an alert asks of who gets it.
    Severity {
        /// Somebody must act now.
        Critical = "critical",
        /// Somebody should look today.
        Warning = "warning",
        /// Good to know, when one looks anyway.
        Info = "info",
    }
}

/// Declares the panels that alerts lead to. A panel's number is the one in its dashboard's JSON and in
/// links: it stays when panels move, and a new one gets a new number.
macro_rules! panels {
    ($($(#[doc = $doc:literal])+ $panel:ident = $board:ident $id:literal,)+) => {
        /// A panel that an alert leads to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Panel { $($(#[doc = $doc])+ $panel,)+ }

        impl Panel {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$panel),+];

            /// Its dashboard.
            #[must_use]
            pub const fn board(self) -> Board {
                match self { $(Self::$panel => Board::$board),+ }
            }

            /// Its number there.
            #[must_use]
            pub const fn id(self) -> u32 {
                match self { $(Self::$panel => $id),+ }
            }
        }
    };
}

panels! {
    /// The pool in parts that add up to it, with the reserve.
    PoolParts = Box 10,
    /// Headroom by reader, and the smallest within windows.
    Headroom = Box 11,
    /// Free beside available, and the room that CUDA does not see.
    FreeAndAvailable = Box 12,
    /// Free memory in large blocks, and compaction.
    Fragmentation = Box 13,
    /// Power of the GPU with the sustained and rated lines.
    Power = Box 20,
    /// SM clock, its cap and what was learned.
    Clock = Box 21,
    /// The throttle state over time.
    ThrottleStates = Box 22,
    /// The board's zones.
    BoardZones = Box 23,
    /// The pressure state over time, and symptoms of eviction.
    Pressure = Box 30,
    /// Swap, refaults and reclaim.
    SwapAndReclaim = Box 31,
    /// What the kernel and the driver say.
    KernelMessages = Box 32,
    /// Sources, lanes and boots.
    Health = Box 40,
    /// Who holds what over time.
    Holders = Workloads 10,
    /// Caps against use.
    Caps = Workloads 11,
    /// What ended jobs have not given back, and orphans.
    Release = Workloads 12,
    /// The contention state over time.
    ContentionStates = Workloads 13,
    /// Starts and ends of jobs, by what they were doing.
    StartsAndEnds = Workloads 14,
    /// Steps of training runs against their own pace.
    TrainingSteps = Workloads 20,
    /// Every box, worst first.
    Boxes = Fleet 10,
    /// The last minutes before a box fell silent.
    LastMinutes = Incident 10,
}

/// Declares the alerts: variant, name, and the panel that shows what the alert reads.
macro_rules! alerts {
    ($($(#[doc = $doc:literal])+ $alert:ident = $name:literal on $panel:ident,)+) => {
        states! {
            /// An alert. Its runbook is `alerts/runbooks/NAME.md`.
            AlertName { $($(#[doc = $doc])+ $alert = $name,)+ }
        }

        impl AlertName {
            /// The panel that shows what it reads.
            #[must_use]
            pub const fn panel(self) -> Panel {
                match self { $(Self::$alert => Panel::$panel),+ }
            }

            /// Where its runbook is, below this address.
            #[must_use]
            pub fn runbook(self, base: &str) -> String {
                format!("{base}{}.md", self.as_str())
            }
        }
    };
}

alerts! {
    /// The next fall as large as those seen in service breaks into the reserve.
    PoolHeadroomLow = "GB10PoolHeadroomLow" on Headroom,
    /// The pool reaches its reserve within seconds.
    PoolExhaustionImminent = "GB10PoolExhaustionImminent" on Headroom,
    /// Available memory goes down hour after hour and reaches the reserve within hours.
    PoolSlowLeak = "GB10PoolSlowLeak" on Headroom,
    /// There is room, but not in the large blocks that the driver needs.
    PoolFragmented = "GB10PoolFragmented" on Fragmentation,
    /// CUDA does not see room that is there, because the page cache holds it.
    PageCacheHidesRoom = "GB10PageCacheHidesRoom" on FreeAndAvailable,
    /// A job has ended and its memory is still held.
    MemoryHeldAfterStop = "GB10MemoryHeldAfterStop" on Release,
    /// A worker without its server holds memory and does nothing.
    OrphanedMemory = "GB10OrphanedMemory" on Release,
    /// Memory in use is swapped out and read back, and work stands still for it.
    SwapThrash = "GB10SwapThrash" on SwapAndReclaim,
    /// Jobs take memory from one another.
    JobsContend = "GB10JobsContend" on ContentionStates,
    /// The jobs' sizes and caps are more than the pool.
    CapsOvercommitted = "GB10CapsOvercommitted" on Caps,
    /// A job holds more than the cap that it was given.
    CapExceeded = "GB10CapExceeded" on Caps,
    /// Memory in use was taken away and read back.
    EvictionSymptoms = "GB10EvictionSymptoms" on Pressure,
    /// A job ends again and again before it serves.
    RestartLoop = "GB10RestartLoop" on StartsAndEnds,
    /// The kernel killed a process for want of memory.
    OomKill = "GB10OomKill" on KernelMessages,
    /// The driver got no memory although no job was loading.
    DriverNoMemory = "GB10DriverNoMemory" on KernelMessages,
    /// A task or a CPU does not come back from the kernel.
    HungTask = "GB10HungTask" on KernelMessages,
    /// The driver reports an Xid error.
    Xid = "GB10Xid" on KernelMessages,
    /// Flat power well under the supply's rating and a high temperature, under load.
    ThrottleSignature = "GB10ThrottleSignature" on ThrottleStates,
    /// Heat costs work.
    ThermalThrottling = "GB10ThermalThrottling" on ThrottleStates,
    /// Busy at a fraction of its clock and power, for no reason that the driver knows.
    PowerDeliveryFault = "GB10PowerDeliveryFault" on ThrottleStates,
    /// Busy without doing work.
    StalledBusy = "GB10StalledBusy" on ThrottleStates,
    /// At the power that the platform sustains.
    AtPowerCap = "GB10AtPowerCap" on Power,
    /// A clock cap that was there is gone.
    ClockCapLost = "GB10ClockCapLost" on Clock,
    /// A zone of the board is near where boxes cut the power.
    BoardHot = "GB10BoardHot" on BoardZones,
    /// A training run's steps take longer than its own pace.
    TrainingSlowed = "GB10TrainingSlowed" on TrainingSteps,
    /// A training run does not report any more.
    TrainingStalled = "GB10TrainingStalled" on TrainingSteps,
    /// The box went down without having been told to.
    UncleanBoot = "GB10UncleanBoot" on Health,
    /// The exporter does not answer: on these machines often the box itself.
    ExporterDown = "GB10ExporterDown" on LastMinutes,
    /// A source of readings fails.
    SourceFailing = "GB10SourceFailing" on Health,
    /// The GPU's driver cannot be read.
    GpuUnreadable = "GB10GpuUnreadable" on Health,
    /// The kernel's log cannot be read, and alerts that rest on it are blind.
    KernelLogUnread = "GB10KernelLogUnread" on Health,
    /// A lane has not read anything for a while.
    DataStale = "GB10DataStale" on Health,
    /// Rounds of a lane are missed.
    TicksMissed = "GB10TicksMissed" on Health,
    /// vLLM evicts running requests for want of cache (optional).
    VllmPreemptions = "GB10VllmPreemptions" on Holders,
    /// vLLM has running requests and produces no tokens (optional).
    VllmFrozen = "GB10VllmFrozen" on Holders,
    /// The box answers ping and nothing else (optional).
    AnswersPingOnly = "GB10AnswersPingOnly" on LastMinutes,
    /// One box fails or throttles where its twins do not (optional).
    FleetUnitFails = "GB10FleetUnitFails" on Boxes,
    /// Boxes run different drivers or firmware (optional).
    FleetVersionsDiffer = "GB10FleetVersionsDiffer" on Boxes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_panels_of_a_dashboard_have_one_number() {
        let places: BTreeSet<_> = Panel::ALL.iter().map(|p| (p.board(), p.id())).collect();
        assert_eq!(places.len(), Panel::ALL.len());
    }

    #[test]
    fn every_alert_is_called_after_what_it_is() {
        for alert in AlertName::ALL {
            assert!(alert.as_str().starts_with("GB10"), "{}", alert.as_str());
            assert!(alert.describe().ends_with('.') || alert.describe().ends_with("(optional)."));
        }
        for panel in Panel::ALL {
            assert!(
                AlertName::ALL.iter().any(|a| a.panel() == *panel) || *panel == Panel::PoolParts
            );
        }
    }
}
