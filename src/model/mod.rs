//! Facts without behaviour: what was read, what was derived, what a frame holds.
//!
//! Everything here is plain data. A reading is one row of [`fields::all`]; a state is one enum
//! with `ALL` and `as_str`, and label values come from there and nowhere else.

#[macro_use]
mod states;
#[macro_use]
pub mod fields;
pub mod contention;
pub mod event;
pub mod frame;
pub mod gpu;
pub mod kernel_log;
pub mod machine;
pub mod memory;
pub mod module;
pub mod moment;
pub mod naming;
pub mod pool;
pub mod pressure;
pub mod process;
pub mod push;
pub mod readiness;
pub mod reading;
pub mod samples;
pub mod sensors;
pub mod shape;
pub mod sharing;
pub mod snapshot;
pub mod source;
pub mod throttle;
pub mod training;
pub mod workload;
