//! Xid errors as events: `events = SEQUENCE:GPU:XID,...` of the capture, each delivered once.

use crate::call::{Device, INVALID_ARGUMENT, Out, call, put, ready};
use crate::state::{Code, NOT_SUPPORTED, State, UNKNOWN, number};
use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `nvmlEventTypeXidCriticalError`.
const XID: u64 = 8;
const TIMEOUT: Code = 10;
const GPU_IS_LOST: Code = 15;

/// `nvmlEventSet_t`: a number in disguise, as handles of GPUs are.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct EventSet(*mut c_void);

/// `nvmlEventData_t`.
#[repr(C)]
struct EventData {
    device: Device,
    kind: u64,
    data: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}
const _: () = assert!(size_of::<EventData>() == 32);

/// What waits for events, and what has been delivered.
struct Sets {
    made: usize,
    /// By handle: the registered GPUs, and for which types.
    open: BTreeMap<usize, BTreeMap<u32, u64>>,
    /// The last sequence number that this process has been given.
    delivered: u64,
}

static SETS: Mutex<Sets> = Mutex::new(Sets { made: 0, open: BTreeMap::new(), delivered: 0 });

fn sets() -> MutexGuard<'static, Sets> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The types that a GPU reports. A capture without `events` has had none so far.
fn supported(state: &State) -> u64 {
    match state.raw("events") {
        Some(_) if state.peek("events").is_err() => 0,
        _ => XID,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetCreate(out: Out<'_, EventSet>) -> Code {
    call(|| {
        ready()?;
        let mut sets = sets();
        sets.made += 1;
        let handle = 0x4720_0000 + sets.made * 0x10;
        sets.open.insert(handle, BTreeMap::new());
        put(out, EventSet(std::ptr::without_provenance_mut(handle)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(set: EventSet) -> Code {
    call(|| sets().open.remove(&set.0.addr()).map(drop).ok_or(INVALID_ARGUMENT))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedEventTypes(device: Device, out: Out<'_, u64>) -> Code {
    call(|| put(out, supported(&device.gpu()?.state)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceRegisterEvents(device: Device, types: u64, set: EventSet) -> Code {
    call(|| {
        let gpu = device.gpu()?;
        if types & !supported(&gpu.state) != 0 {
            return Err(NOT_SUPPORTED);
        }
        let mut sets = sets();
        let open = sets.open.get_mut(&set.0.addr()).ok_or(INVALID_ARGUMENT)?;
        *open.entry(gpu.index).or_default() |= types;
        Ok(())
    })
}

/// The capture's events, by sequence number: GPU and Xid.
fn events(state: &State) -> Result<BTreeMap<u64, (u32, u64)>, Code> {
    if state.raw("events").is_none() {
        return Ok(BTreeMap::new());
    }
    state
        .peek("events")?
        .split(',')
        .filter(|event| !event.trim().is_empty())
        .map(|event| {
            let mut parts = event.split(':');
            let mut part = || parts.next().ok_or(UNKNOWN);
            Ok((number(part()?)?, (number(part()?)?, number(part()?)?)))
        })
        .collect()
}

/// The next event for a set, if there is one.
fn next(state: &State, set: EventSet) -> Result<Option<EventData>, Code> {
    let mut sets = sets();
    let registered = sets.open.get(&set.0.addr()).ok_or(INVALID_ARGUMENT)?;
    let wants = |gpu: u32| registered.get(&gpu).is_some_and(|types| types & XID != 0);
    let after = sets.delivered;
    let found =
        events(state)?.into_iter().find(|(sequence, (gpu, _))| *sequence > after && wants(*gpu));
    let Some((sequence, (gpu, xid))) = found else {
        // What has happened to a lost GPU comes before its loss.
        let lost = |gpu: &u32| state.succeeds(&format!("{gpu}.device"), false) == Err(GPU_IS_LOST);
        return if registered.keys().any(lost) { Err(GPU_IS_LOST) } else { Ok(None) };
    };
    sets.delivered = sequence;
    Ok(Some(EventData {
        device: Device::of(gpu),
        kind: XID,
        data: xid,
        gpu_instance: u32::MAX,
        compute_instance: u32::MAX,
    }))
}

/// Waits for an event, and looks at the capture again and again meanwhile.
fn wait(set: EventSet, out: Out<'_, EventData>, timeout_ms: c_uint) -> Result<(), Code> {
    let began = Instant::now();
    let timeout = Duration::from_millis(timeout_ms.into());
    // Waits as long as the capture says; what it answers comes below.
    let _ = ready()?.get("events");
    loop {
        let state = ready()?;
        if let Some(event) = next(&state, set)? {
            return put(out, event);
        }
        if began.elapsed() >= timeout {
            return Err(TIMEOUT);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait(set: EventSet, out: Out<'_, EventData>, timeout: c_uint) -> Code {
    call(|| wait(set, out, timeout))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(set: EventSet, out: Out<'_, EventData>, timeout: c_uint) -> Code {
    call(|| wait(set, out, timeout))
}
