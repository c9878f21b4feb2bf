//! The exporter's own process, as the kernel accounts for it.

use crate::units::{Bytes, Count, Seconds};

readings! {
    /// `/proc/self`: what the exporter itself costs. A recorded machine has no such process.
    Process from Process at process as "process" {
        /// CPU time of all threads, user and system together.
        cpu: Seconds = Optional "cpu",
        /// Memory that is resident.
        resident: Bytes = Optional "VmRSS",
        /// Address space.
        virtual_memory: Bytes = Optional "VmSize",
        /// Threads.
        threads: Count = Optional "Threads",
        /// Descriptors that are open.
        open_fds: Count = Optional "open_fds",
        /// Descriptors that may be open; absent where there is no limit.
        max_fds: Count = Optional "max_fds",
        /// When it started, in time since boot.
        started: Seconds = Optional "started",
    }
}
