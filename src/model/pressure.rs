//! Pressure stall information: time that work stood still for want of something.
//!
//! There is no "all tasks waited for a CPU": it has no meaning for a whole machine, and the kernel
//! prints a constant 0 there.

use crate::units::Seconds;

readings! {
    /// `/proc/pressure/*`, the running totals.
    Pressure from Pressure at pressure as "pressure" {
        /// At least one task waited for a CPU.
        cpu_some: Seconds = Optional "cpu.some",
        /// At least one task waited for memory.
        memory_some: Seconds = Optional "memory.some",
        /// All tasks waited for memory.
        memory_full: Seconds = Optional "memory.full",
        /// At least one task waited for a disk.
        io_some: Seconds = Optional "io.some",
        /// All tasks waited for a disk.
        io_full: Seconds = Optional "io.full",
    }
}
