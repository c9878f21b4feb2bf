//! The calls of NVML that its wrapper lacks: the only unsafe code of this program.
//!
//! Each passes a structure of the size and version that NVIDIA's header gives and reads it back after
//! a success, nothing else. The function pointers come from the wrapper, which has loaded them from
//! the library and keeps it loaded for as long as the [`Nvml`] lives.
#![expect(unsafe_code, reason = "a C interface; every block says why it is sound")]

use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlDeviceAddressingMode_t, nvmlEventData_t, nvmlEventSet_t,
    nvmlMarginTemperature_t, nvmlMemory_t,
};
use std::mem::size_of;
use std::ptr::null_mut;

/// `nvmlEventTypeXidCriticalError`
pub(super) const XID_CRITICAL_ERROR: u64 = 0x8;
/// Events taken in one round. A storm goes on in the next.
const MAX_EVENTS: usize = 64;

/// NVIDIA's macro `NVML_STRUCT_VERSION`: the size, and the version in the highest byte.
#[expect(clippy::cast_possible_truncation, reason = "structures of a few bytes")]
const fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

/// The function, or the wrapper's error for one that this library does not have.
fn symbol<F: Copy, E: std::fmt::Display>(loaded: &Result<F, E>) -> Result<F, NvmlError> {
    loaded.as_ref().copied().map_err(|e| NvmlError::FailedToLoadSymbol(e.to_string()))
}

fn library<'a>(device: &Device<'a>) -> &'a nvml_wrapper_sys::bindings::NvmlLib {
    device.nvml().lib()
}

fn handle(device: &Device<'_>) -> nvmlDevice_t {
    // SAFETY: taking the handle is always sound; it is passed to this device's own library only.
    unsafe { device.handle() }
}

/// Degrees left to the highest operating temperature; negative beyond it.
pub(super) fn margin(device: &Device<'_>) -> Result<i32, NvmlError> {
    let call = symbol(&library(device).nvmlDeviceGetMarginTemperature)?;
    let mut out = nvmlMarginTemperature_t {
        version: version::<nvmlMarginTemperature_t>(1),
        marginTemperature: 0,
    };
    // SAFETY: the structure has the version and size that it states, and outlives the call.
    nvml_try(unsafe { call(handle(device), &raw mut out) })?;
    Ok(out.marginTemperature)
}

/// 0 none, 1 HMM, 2 ATS.
pub(super) fn addressing_mode(device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = symbol(&library(device).nvmlDeviceGetAddressingMode)?;
    let mut out =
        nvmlDeviceAddressingMode_t { version: version::<nvmlDeviceAddressingMode_t>(1), value: 0 };
    // SAFETY: the structure has the version and size that it states, and outlives the call.
    nvml_try(unsafe { call(handle(device), &raw mut out) })?;
    Ok(out.value)
}

/// The event reasons as a mask. The wrapper refuses masks with bits that it does not know.
pub(super) fn event_reasons(device: &Device<'_>) -> Result<u64, NvmlError> {
    let lib = library(device);
    // The older name asks the same; libraries from 535 on have both.
    let call = symbol(&lib.nvmlDeviceGetCurrentClocksEventReasons)
        .or_else(|_| symbol(&lib.nvmlDeviceGetCurrentClocksThrottleReasons))?;
    let mut out = 0;
    // SAFETY: the call writes one number, into `out`.
    nvml_try(unsafe { call(handle(device), &raw mut out) })?;
    Ok(out)
}

/// Total, free and used bytes, by the first form of the question.
pub(super) fn memory(device: &Device<'_>) -> Result<[u64; 3], NvmlError> {
    let call = symbol(&library(device).nvmlDeviceGetMemoryInfo)?;
    let mut out = nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: the structure is the one that this form takes, and outlives the call.
    nvml_try(unsafe { call(handle(device), &raw mut out) })?;
    Ok([out.total, out.free, out.used])
}

/// A set of events: the Xid errors of every GPU that tells them. Needs no privilege.
#[derive(Debug)]
pub(super) struct Events {
    set: nvmlEventSet_t,
    devices: Vec<(nvmlDevice_t, u32)>,
}

// SAFETY: the handles are numbers of the library, which may be used from any thread; a set must not be
// used from two at once, and `&mut`-less sharing is excluded because `Events` is not `Sync`.
unsafe impl Send for Events {}

impl Events {
    /// Listens from now on.
    pub(super) fn listen(nvml: &Nvml) -> Result<Self, NvmlError> {
        let lib = nvml.lib();
        let create = symbol(&lib.nvmlEventSetCreate)?;
        let register = symbol(&lib.nvmlDeviceRegisterEvents)?;
        let mut set = null_mut();
        // SAFETY: the call writes one handle, into `set`.
        nvml_try(unsafe { create(&raw mut set) })?;
        let mut events = Self { set, devices: Vec::new() };
        let mut refused = NvmlError::NotSupported;
        for index in 0..nvml.device_count().unwrap_or(0) {
            let Ok(device) = nvml.device_by_index(index) else { continue };
            let device = handle(&device);
            // SAFETY: both handles come from this library.
            match nvml_try(unsafe { register(device, XID_CRITICAL_ERROR, set) }) {
                Ok(()) => events.devices.push((device, index)),
                Err(error) => refused = error,
            }
        }
        if events.devices.is_empty() {
            events.free(nvml);
            return Err(refused);
        }
        Ok(events)
    }

    /// The errors since the last call, as GPU and Xid.
    pub(super) fn take(&self, nvml: &Nvml) -> Result<Vec<(u32, u32)>, NvmlError> {
        let lib = nvml.lib();
        let wait = symbol(&lib.nvmlEventSetWait_v2)?;
        let mut seen = Vec::new();
        while seen.len() < MAX_EVENTS {
            let mut data = nvmlEventData_t {
                device: null_mut(),
                eventType: 0,
                eventData: 0,
                gpuInstanceId: 0,
                computeInstanceId: 0,
            };
            // SAFETY: the set is alive, and the call writes one event, into `data`. It does not wait.
            match nvml_try(unsafe { wait(self.set, &raw mut data, 0) }) {
                Err(NvmlError::Timeout) => break,
                other => other?,
            }
            let device = self.devices.iter().find(|(device, _)| *device == data.device);
            if let (Some((_, index)), Ok(xid)) = (device, u32::try_from(data.eventData)) {
                seen.push((*index, xid));
            }
        }
        Ok(seen)
    }

    /// Stops listening.
    pub(super) fn free(self, nvml: &Nvml) {
        if let Ok(free) = symbol(&nvml.lib().nvmlEventSetFree) {
            // SAFETY: the set was made by this library and is not used again: `self` ends here.
            let _ = unsafe { free(self.set) };
        }
    }
}
