//! A fake `libnvidia-ml.so` of a current driver. It answers every call from the GPU section of the
//! capture that `FAKE_GPU_CAPTURE` names, read anew whenever the file has changed.
//!
//! With `FAKE_NVML_TRACE` it appends to that file: `init` and `shutdown` for these calls, and `OVERLAP`
//! for each call that begins while another one is still running.
#![expect(unsafe_code, reason = "a C library, as the driver's is")]
#![expect(clippy::disallowed_methods, reason = "it waits and keeps time as the driver does")]

#[macro_use]
#[path = "call.rs"]
mod call;

#[path = "base.rs"]
mod base;
#[path = "events.rs"]
mod events;
#[path = "newer.rs"]
mod newer;
#[path = "../state.rs"]
mod state;
