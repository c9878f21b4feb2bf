//! The calls of NVML that its wrapper lacks: the only unsafe code of this program.
//!
//! Each passes a structure of the size and version that NVIDIA's header gives and reads it back after
//! a success, nothing else. The function pointers come from the wrapper, which has loaded them from
//! the library and keeps it loaded for as long as the [`Nvml`] lives.
#![expect(unsafe_code, reason = "a C interface; every block says why it is sound")]

use super::super::answers::{Answer, Heard, Refusal, code};
use super::refusal;
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
/// `NVML_PSTATE_UNKNOWN`
pub(super) const UNKNOWN_PERFORMANCE_STATE: u32 = 32;
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

/// The performance state as a number.
pub(super) fn performance_state(device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = symbol(&library(device).nvmlDeviceGetPerformanceState)?;
    let mut out = UNKNOWN_PERFORMANCE_STATE;
    // SAFETY: the call writes one number, into `out`.
    nvml_try(unsafe { call(handle(device), &raw mut out) })?;
    Ok(out)
}

/// A set of events: the Xid errors of every GPU that tells them. Needs no privilege.
#[derive(Debug)]
pub(super) struct Events {
    set: nvmlEventSet_t,
    devices: Vec<(nvmlDevice_t, u32)>,
    /// Why the last GPU that is not among them could not be listened to.
    refused: Refusal,
}

// SAFETY: the handles are numbers of the library, which may be used from any thread; a set must not be
// used from two at once, and `&mut`-less sharing is excluded because `Events` is not `Sync`.
unsafe impl Send for Events {}

impl Events {
    /// A set that listens to nobody yet.
    pub(super) fn new(nvml: &Nvml) -> Result<Self, NvmlError> {
        let create = symbol(&nvml.lib().nvmlEventSetCreate)?;
        let mut set = null_mut();
        // SAFETY: the call writes one handle, into `set`.
        nvml_try(unsafe { create(&raw mut set) })?;
        Ok(Self { set, devices: Vec::new(), refused: Refusal::Code(code::NOT_SUPPORTED) })
    }

    /// Listens to a GPU, if it does not already.
    pub(super) fn listen(&mut self, index: u32, device: &Device<'_>) {
        if self.devices.iter().any(|(_, listened)| *listened == index) {
            return;
        }
        let device_handle = handle(device);
        let register = symbol(&library(device).nvmlDeviceRegisterEvents);
        // SAFETY: both handles come from this library.
        let registered = register.and_then(|call| {
            nvml_try(unsafe { call(device_handle, XID_CRITICAL_ERROR, self.set) })
        });
        match registered {
            Ok(()) => self.devices.push((device_handle, index)),
            Err(error) => self.refused = refusal(&error),
        }
    }

    /// The errors since the last call, as GPU and Xid, and what ended the listening.
    pub(super) fn take(&self, nvml: &Nvml) -> Answer<Heard> {
        if self.devices.is_empty() {
            return Err(self.refused);
        }
        let wait = symbol(&nvml.lib().nvmlEventSetWait_v2).map_err(|e| refusal(&e))?;
        let gpus = self.devices.iter().map(|(_, index)| *index).collect();
        let mut heard = Heard { gpus, ..Heard::default() };
        for _ in 0..MAX_EVENTS {
            let mut data = nvmlEventData_t {
                device: null_mut(),
                eventType: 0,
                eventData: 0,
                gpuInstanceId: 0,
                computeInstanceId: 0,
            };
            // SAFETY: the set is alive, and the call writes one event, into `data`. It does not wait.
            match nvml_try(unsafe { wait(self.set, &raw mut data, 0) }) {
                Ok(()) => {}
                Err(NvmlError::Timeout) => break,
                // What came before it is kept: the last Xid of a GPU may be that it is lost.
                Err(error) => {
                    heard.end = Some(refusal(&error));
                    break;
                }
            }
            let device = self.devices.iter().find(|(device, _)| *device == data.device);
            if let (Some((_, index)), Ok(xid)) = (device, u32::try_from(data.eventData)) {
                heard.errors.push((*index, xid));
            }
        }
        Ok(heard)
    }

    /// Stops listening.
    pub(super) fn free(self, nvml: &Nvml) {
        if let Ok(free) = symbol(&nvml.lib().nvmlEventSetFree) {
            // SAFETY: the set was made by this library and is not used again: `self` ends here.
            let _ = unsafe { free(self.set) };
        }
    }
}
