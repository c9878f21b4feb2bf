//! A fake `libcuda.so`. `FAKE_CUDA_MEMORY` is what it answers, `FREE TOTAL` in bytes; `FAKE_CUDA_HANG` names
//! the call that never returns, `FAKE_CUDA_FAIL` the one that fails with 2, out of memory.
//!
//! With `FAKE_CUDA_TRACE` it appends to that file: its process first, then each call.
#![expect(unsafe_code, reason = "a C library, as the driver's is")]
#![expect(clippy::disallowed_methods, reason = "it hangs as the driver does")]

use std::ffi::{c_int, c_uint, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

const OUT_OF_MEMORY: c_uint = 2;
/// The context: a handle, and nothing behind it.
const HANDLE: usize = 0xc0de;

fn call(name: &str) -> c_uint {
    if let Some(path) = std::env::var_os("FAKE_CUDA_TRACE") {
        let line = format!("{} {name}\n", std::process::id());
        let file = OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    let is = |variable: &str| std::env::var(variable).is_ok_and(|wanted| wanted == name);
    while is("FAKE_CUDA_HANG") {
        std::thread::sleep(Duration::from_secs(3600));
    }
    if is("FAKE_CUDA_FAIL") { OUT_OF_MEMORY } else { 0 }
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> c_uint {
    call("cuInit")
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: &mut c_int, ordinal: c_int) -> c_uint {
    *device = ordinal + 7;
    call("cuDeviceGet")
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: &mut *mut c_void, device: c_int) -> c_uint {
    assert_eq!(device, 7, "the device that was given");
    *context = HANDLE as *mut c_void;
    call("cuDevicePrimaryCtxRetain")
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_uint {
    assert_eq!(context as usize, HANDLE, "the context that was given");
    call("cuCtxSetCurrent")
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: &mut usize, total: &mut usize) -> c_uint {
    let text = std::env::var("FAKE_CUDA_MEMORY").unwrap_or_default();
    let mut numbers = text.split(' ').map(|word| word.parse().unwrap_or(0));
    *free = numbers.next().unwrap_or(0);
    *total = numbers.next().unwrap_or(0);
    call("cuMemGetInfo_v2")
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_uint {
    assert_eq!(device, 7, "the device that was given");
    call("cuDevicePrimaryCtxRelease")
}
