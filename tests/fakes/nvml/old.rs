//! The fake `libnvidia-ml.so` of an old driver: that of lib.rs without the functions that came later.
#![expect(unsafe_code, reason = "a C library, as the driver's is")]
#![expect(clippy::disallowed_methods, reason = "it waits and keeps time as the driver does")]

#[macro_use]
#[path = "call.rs"]
#[expect(dead_code, reason = "the newer functions use the rest")]
mod call;

#[path = "base.rs"]
mod base;
#[path = "../state.rs"]
#[expect(dead_code, reason = "the newer functions use the rest")]
mod state;
