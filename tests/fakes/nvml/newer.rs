//! The functions that came with later drivers.

use crate::base::microseconds;
use crate::call::{Device, Gpu, INVALID_ARGUMENT, SUCCESS, call, check_version};
use crate::state::{Code, NOT_SUPPORTED, UNKNOWN};
use std::ffi::{c_int, c_uint};

numbers! {
    nvmlDeviceGetCurrentClocksEventReasons: u64 = "event_reasons";
}

processes! {
    nvmlDeviceGetMPSComputeRunningProcesses_v3 = "mps";
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
struct MemoryV2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}
const _: () = assert!(size_of::<MemoryV2>() == 40);

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, out: *mut MemoryV2) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        // SAFETY: the caller's promise.
        unsafe { check_version(out, 2)? };
        let [total, free, used] = gpu.state.memory(gpu.index)?;
        let reserved = total.saturating_sub(free).saturating_sub(used);
        // SAFETY: it is not null, as just checked, and the fields behind the version are the caller's
        // to be filled.
        unsafe {
            (&raw mut (*out).total).write(total);
            (&raw mut (*out).reserved).write(reserved);
            (&raw mut (*out).free).write(free);
            (&raw mut (*out).used).write(used);
        }
        Ok(())
    })
}

/// `nvmlMarginTemperature_v1_t` and `nvmlDeviceAddressingMode_v1_t`.
#[repr(C)]
struct Versioned<T> {
    version: c_uint,
    value: T,
}
const _: () = assert!(size_of::<Versioned<c_int>>() == 8);

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMarginTemperature(
    device: Device,
    out: *mut Versioned<c_int>,
) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        // SAFETY: the caller's promise.
        unsafe { check_version(out, 1)? };
        let margin = gpu.number("margin")?;
        // SAFETY: it is not null, as just checked.
        unsafe { (&raw mut (*out).value).write(margin) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetAddressingMode(
    device: Device,
    out: *mut Versioned<c_uint>,
) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        // SAFETY: the caller's promise.
        unsafe { check_version(out, 1)? };
        let mode = match gpu.text("addressing_mode")? {
            "None" => 0,
            "HMM" => 1,
            "ATS" => 2,
            _ => return Err(UNKNOWN),
        };
        // SAFETY: it is not null, as just checked.
        unsafe { (&raw mut (*out).value).write(mode) };
        Ok(())
    })
}

/// `nvmlFieldValue_t`. The value is a union in C; all that is given here is unsigned, and on these
/// little-endian machines a shorter number lies where the longest one begins.
#[repr(C)]
struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_uint,
    code: Code,
    value: u64,
}
const _: () = assert!(size_of::<FieldValue>() == 40 && cfg!(target_endian = "little"));

const UNSIGNED_INT: c_uint = 1;
const UNSIGNED_LONG_LONG: c_uint = 3;

/// The value of a field and its type.
///
/// Fields 251 to 273 changed their meaning with 580.82: the counters of slowdowns moved from 251..=253
/// to 269..=271, and power smoothing took their place. Asked by the wrong number, the library answers
/// something else with success, as the real one may.
fn field(gpu: &Gpu, id: c_uint) -> Result<(c_uint, u64), Code> {
    let renumbered = gpu.state.driver_is_at_least(580, 82);
    let key = match (id, renumbered) {
        (185, _) => return Ok((UNSIGNED_INT, gpu.number("power_average_mw")?)),
        (186, _) => return Ok((UNSIGNED_INT, gpu.number("power_instant_mw")?)),
        (74, _) => "event_ns.sw_power_cap",
        (76, _) => "event_ns.sync_boost",
        (251, false) | (269, true) => "event_ns.sw_thermal",
        (252, false) | (270, true) => "event_ns.hw_thermal",
        (253, false) | (271, true) => "event_ns.hw_power_brake",
        // Power smoothing: on, and a level that nobody asked for.
        (251 | 253, true) => return Ok((UNSIGNED_INT, 1)),
        (252, true) | (269..=271, false) => return Ok((UNSIGNED_INT, 2)),
        _ => return Err(NOT_SUPPORTED),
    };
    Ok((UNSIGNED_LONG_LONG, gpu.number(key)?))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Device,
    count: c_int,
    values: *mut FieldValue,
) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
        if values.is_null() || count == 0 {
            return Err(INVALID_ARGUMENT);
        }
        for i in 0..count {
            // SAFETY: the caller's array has that many records, each with its field written. The rest
            // is only written to.
            unsafe {
                let to = values.add(i);
                let (code, kind, value) = match field(&gpu, (&raw const (*to).field).read()) {
                    Ok((kind, value)) => (SUCCESS, kind, value),
                    Err(code) => (code, UNSIGNED_LONG_LONG, 0),
                };
                let now = i64::try_from(microseconds()).unwrap_or(i64::MAX);
                (&raw mut (*to).timestamp).write(now);
                (&raw mut (*to).latency).write(1);
                (&raw mut (*to).kind).write(kind);
                (&raw mut (*to).code).write(code);
                (&raw mut (*to).value).write(value);
            }
        }
        Ok(())
    })
}
