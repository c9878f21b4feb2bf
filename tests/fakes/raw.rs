//! Calls of the fake library that nvml-wrapper does not make: newer ones, and wrong ones.
#![expect(unsafe_code, reason = "it calls a C library")]

use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlDeviceAddressingMode_t, nvmlFieldValue_t, nvmlMarginTemperature_t,
    nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessInfo_t,
};
use std::path::Path;
use std::ptr::null_mut;

/// The library, and the handle of GPU 0.
pub(crate) struct Raw {
    lib: NvmlLib,
    device: nvmlDevice_t,
}

/// A structure of zeros.
fn zeroed<T>() -> T {
    // SAFETY: the structures below are numbers and texts.
    unsafe { std::mem::zeroed() }
}

macro_rules! call {
    ($raw:ident.$name:ident($($argument:expr),*)) => {
        // SAFETY: the structures live as long as the call, and the fake takes null for an answer.
        unsafe { ($raw.lib.$name.as_ref().expect("a function"))($($argument),*) }
    };
}

impl Raw {
    /// Loads the library. It is the one that this process may have loaded already, and must have been
    /// initialised there.
    pub(crate) fn load(path: &Path) -> Self {
        // SAFETY: the fake does nothing when it is loaded.
        let lib = unsafe { NvmlLib::new(path) }.expect("loads");
        let mut raw = Self { lib, device: null_mut() };
        let mut device = null_mut();
        assert_eq!(call!(raw.nvmlDeviceGetHandleByIndex_v2(0, &raw mut device)), 0);
        raw.device = device;
        raw
    }

    /// The margin, asked for with this version word.
    pub(crate) fn margin(&self, version: u32) -> Result<i32, u32> {
        let mut out = nvmlMarginTemperature_t { version, ..zeroed() };
        match call!(self.nvmlDeviceGetMarginTemperature(self.device, &raw mut out)) {
            0 => Ok(out.marginTemperature),
            code => Err(code),
        }
    }

    pub(crate) fn addressing_mode(&self) -> Result<u32, u32> {
        let mut out = nvmlDeviceAddressingMode_t { version: 0x0100_0008, ..zeroed() };
        match call!(self.nvmlDeviceGetAddressingMode(self.device, &raw mut out)) {
            0 => Ok(out.value),
            code => Err(code),
        }
    }

    pub(crate) fn event_reasons(&self) -> Result<u64, u32> {
        let mut out = 0;
        match call!(self.nvmlDeviceGetCurrentClocksEventReasons(self.device, &raw mut out)) {
            0 => Ok(out),
            code => Err(code),
        }
    }

    /// Total and free memory by the first version of the call.
    pub(crate) fn memory(&self) -> Result<(u64, u64), u32> {
        let mut out: nvmlMemory_t = zeroed();
        match call!(self.nvmlDeviceGetMemoryInfo(self.device, &raw mut out)) {
            0 => Ok((out.total, out.free)),
            code => Err(code),
        }
    }

    /// Total and reserved memory by the second, asked for with this version word.
    pub(crate) fn memory_v2(&self, version: u32) -> Result<(u64, u64), u32> {
        let mut out = nvmlMemory_v2_t { version, ..zeroed() };
        match call!(self.nvmlDeviceGetMemoryInfo_v2(self.device, &raw mut out)) {
            0 => Ok((out.total, out.reserved)),
            code => Err(code),
        }
    }

    /// A field by the number that the library gets to see: the number afterwards, and the value.
    pub(crate) fn field(&self, id: u32) -> (u32, Result<u64, u32>) {
        let mut out = nvmlFieldValue_t { fieldId: id, ..zeroed() };
        assert_eq!(call!(self.nvmlDeviceGetFieldValues(self.device, 1, &raw mut out)), 0);
        // SAFETY: all of the union is written, as the widest number.
        let value = unsafe { out.value.ullVal };
        (out.fieldId, if out.nvmlReturn == 0 { Ok(value) } else { Err(out.nvmlReturn) })
    }

    /// The process list into room for one: the code and the number of processes.
    pub(crate) fn compute_processes_into_one(&self) -> (u32, u32) {
        let mut count = 1;
        let mut info: nvmlProcessInfo_t = zeroed();
        let code = call!(self.nvmlDeviceGetComputeRunningProcesses_v3(
            self.device,
            &raw mut count,
            &raw mut info
        ));
        (code, count)
    }

    /// What calls answer that have nowhere to put their result, or a handle from nowhere.
    pub(crate) fn wrong_calls(&self) -> Vec<u32> {
        let mut number = 0;
        vec![
            call!(self.nvmlDeviceGetCount_v2(null_mut())),
            call!(self.nvmlDeviceGetName(self.device, null_mut(), 96)),
            call!(self.nvmlDeviceGetHandleByUUID(null_mut(), null_mut())),
            call!(self.nvmlDeviceGetPowerUsage(self.device, null_mut())),
            call!(self.nvmlDeviceGetMemoryInfo_v2(self.device, null_mut())),
            call!(self.nvmlDeviceGetMarginTemperature(self.device, null_mut())),
            call!(self.nvmlDeviceGetFieldValues(self.device, 1, null_mut())),
            call!(self.nvmlDeviceGetFieldValues(self.device, -1, null_mut())),
            call!(self.nvmlDeviceGetComputeRunningProcesses_v3(
                self.device,
                null_mut(),
                null_mut()
            )),
            call!(self.nvmlDeviceGetPowerUsage(null_mut(), &raw mut number)),
            call!(self.nvmlDeviceGetClockInfo(self.device, 9, &raw mut number)),
            call!(self.nvmlEventSetWait_v2(null_mut(), null_mut(), 0)),
        ]
    }

    /// A name into a buffer of this size.
    pub(crate) fn name_into(&self, room: usize) -> u32 {
        let mut buffer = vec![0; room];
        let room = u32::try_from(room).expect("small");
        call!(self.nvmlDeviceGetName(self.device, buffer.as_mut_ptr(), room))
    }
}
