//! Sources below `/proc`.
//!
//! The procfs crate parses what it parses well (load average, uptime, pressure
//! records, limits, a process's stat). meminfo and
//! vmstat are parsed here, because a line that is missing or cut short must cost its own reading and
//! no other, and because that crate's maps cost twice the time of a whole fast tick; it has no
//! parser for buddyinfo and swaps.

pub mod buddyinfo;
pub mod kernel;
pub mod load;
pub mod meminfo;
pub mod nvidia;
pub mod pressure;
pub mod process;
pub mod settings;
pub mod stat;
pub mod swaps;
pub mod vmstat;
