//! The functions that every driver has.

use crate::call::{
    Device, INVALID_ARGUMENT, NOT_FOUND, Out, Running, call, init, put, put_text, ready, shutdown,
};
use crate::state::{Code, NOT_SUPPORTED, UNKNOWN, number};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::time::{SystemTime, UNIX_EPOCH};

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> Code {
    call(init)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> Code {
    call(init)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Code {
    call(init)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> Code {
    call(shutdown)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: Code) -> *const c_char {
    let _running = Running::begin();
    let text = match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        13 => c"Function Not Found",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        18 => c"Driver/library version mismatch",
        25 => c"Argument version mismatch",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

/// Texts of the whole driver.
macro_rules! system_texts {
    ($($name:ident = $key:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(out: *mut c_char, room: c_uint) -> Code {
            // SAFETY: the caller's promise.
            call(|| unsafe { put_text(out, room, ready()?.get($key)?) })
        }
    )*};
}

system_texts! {
    nvmlSystemGetDriverVersion = "driver";
    nvmlSystemGetNVMLVersion = "nvml";
}

/// Texts of a GPU.
macro_rules! texts {
    ($($name:ident = $key:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(device: Device, out: *mut c_char, room: c_uint) -> Code {
            // SAFETY: the caller's promise.
            call(|| unsafe { put_text(out, room, device.gpu()?.text($key)?) })
        }
    )*};
}

texts! {
    nvmlDeviceGetName = "name";
    nvmlDeviceGetUUID = "uuid";
    nvmlDeviceGetVbiosVersion = "vbios";
}

numbers! {
    nvmlDeviceGetPowerUsage: c_uint = "power_mw";
    nvmlDeviceGetTotalEnergyConsumption: u64 = "energy_mj";
    nvmlDeviceGetPerformanceState: c_uint = "pstate";
    nvmlDeviceGetCurrentClocksThrottleReasons: u64 = "event_reasons";
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(out: Out<'_, c_int>) -> Code {
    call(|| put(out, ready()?.number("cuda")?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: Out<'_, c_int>) -> Code {
    call(|| put(out, ready()?.number("cuda")?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(out: Out<'_, c_uint>) -> Code {
    call(|| put(out, ready()?.number("count")?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: Out<'_, Device>) -> Code {
    call(|| {
        let state = ready()?;
        if index >= state.peek("count").and_then(number)? {
            return Err(INVALID_ARGUMENT);
        }
        state.succeeds(&format!("{index}.device"), true)?;
        put(out, Device::of(index))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, out: Out<'_, Device>) -> Code {
    call(|| {
        if uuid.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: it is not null, and the caller ends its texts with a zero.
        let uuid = unsafe { CStr::from_ptr(uuid) }.to_str().map_err(|_| INVALID_ARGUMENT)?;
        let state = ready()?;
        let count: u32 = state.peek("count").and_then(number)?;
        let index = (0..count)
            .find(|gpu| state.peek(&format!("{gpu}.uuid")) == Ok(uuid))
            .ok_or(NOT_FOUND)?;
        state.succeeds(&format!("{index}.device"), true)?;
        put(out, Device::of(index))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(device: Device, out: Out<'_, c_uint>) -> Code {
    call(|| put(out, device.gpu()?.index))
}

/// `nvmlPciInfo_t`.
#[repr(C)]
struct PciInfo {
    bus_id_legacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [u8; 32],
}
const _: () = assert!(size_of::<PciInfo>() == 68);

/// A text in a field of fixed size, zeros behind it.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    // The last byte stays zero.
    out[..N - 1].iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    out
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, out: Out<'_, PciInfo>) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        let bus_id = gpu.text("bus")?;
        let parts: Vec<u32> = bus_id
            .split([':', '.'])
            .map(|part| u32::from_str_radix(part, 16).map_err(|_| UNKNOWN))
            .collect::<Result<_, _>>()?;
        let [domain, bus, device, function] = parts[..] else { return Err(UNKNOWN) };
        let legacy = format!("{:04X}:{bus:02X}:{device:02X}.{function}", domain & 0xffff);
        put(
            out,
            PciInfo {
                bus_id_legacy: padded(&legacy),
                domain,
                bus,
                device,
                pci_device_id: gpu.number("pci_device_id").unwrap_or(0),
                pci_subsystem_id: 0,
                bus_id: padded(bus_id),
            },
        )
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Device,
    major: Out<'_, c_int>,
    minor: Out<'_, c_int>,
) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        let (first, second) = gpu.text("compute_cap")?.split_once('.').ok_or(UNKNOWN)?;
        put(major, number(first)?)?;
        put(minor, number(second)?)
    })
}

/// `nvmlMemory_t`.
#[repr(C)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}
const _: () = assert!(size_of::<Memory>() == 24);

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, out: Out<'_, Memory>) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        let [total, free, used] = gpu.state.memory(gpu.index)?;
        put(out, Memory { total, free, used })
    })
}

/// `nvmlUtilization_t`.
#[repr(C)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}
const _: () = assert!(size_of::<Utilization>() == 8);

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, out: Out<'_, Utilization>) -> Code {
    // The memory figure is 0 on these machines, whatever the load.
    call(|| put(out, Utilization { gpu: device.gpu()?.number("utilization")?, memory: 0 }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(
    device: Device,
    sensor: c_uint,
    out: Out<'_, c_uint>,
) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        if sensor != 0 {
            return Err(INVALID_ARGUMENT);
        }
        put(out, gpu.number("temperature")?)
    })
}

/// A clock's name in captures.
fn clock(kind: c_uint) -> Result<&'static str, Code> {
    ["graphics", "sm", "memory", "video"].get(kind as usize).copied().ok_or(INVALID_ARGUMENT)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(device: Device, kind: c_uint, out: Out<'_, c_uint>) -> Code {
    call(|| put(out, device.gpu()?.number(&format!("clock.{}", clock(kind)?))?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxClockInfo(
    device: Device,
    kind: c_uint,
    out: Out<'_, c_uint>,
) -> Code {
    call(|| put(out, device.gpu()?.number(&format!("clock_max.{}", clock(kind)?))?))
}

/// `nvmlViolationTime_t`: microseconds of the clock, nanoseconds of violation.
#[repr(C)]
struct ViolationTime {
    reference: u64,
    violation: u64,
}
const _: () = assert!(size_of::<ViolationTime>() == 16);

/// Microseconds since 1970.
pub(crate) fn microseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetViolationStatus(
    device: Device,
    policy: c_uint,
    out: Out<'_, ViolationTime>,
) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        let key = match policy {
            0 => "event_ns.sw_power_cap",
            1 => "event_ns.sw_thermal",
            2 => "event_ns.sync_boost",
            3..=11 => return Err(NOT_SUPPORTED),
            _ => return Err(INVALID_ARGUMENT),
        };
        put(out, ViolationTime { reference: microseconds(), violation: gpu.number(key)? })
    })
}

processes! {
    nvmlDeviceGetComputeRunningProcesses_v3 = "compute";
    nvmlDeviceGetGraphicsRunningProcesses_v3 = "graphics";
}
