//! What every call of the fake library goes through: the capture, the count of initialisations, the
//! trace for tests, and the ways in which answers leave it.

use crate::state::{self, Code, DRIVER_NOT_LOADED, State, UNKNOWN};
use std::ffi::{c_char, c_uint, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) const SUCCESS: Code = 0;
pub(crate) const UNINITIALIZED: Code = 1;
pub(crate) const INVALID_ARGUMENT: Code = 2;
pub(crate) const NOT_FOUND: Code = 6;
pub(crate) const INSUFFICIENT_SIZE: Code = 7;
pub(crate) const VERSION_MISMATCH: Code = 25;

/// Calls that are running now, in any thread.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// Initialisations without their shutdown.
static INITS: AtomicUsize = AtomicUsize::new(0);
/// The driver went away after a successful initialisation.
static GONE: AtomicBool = AtomicBool::new(false);
static CACHE: Mutex<Option<(Stamp, Arc<State>)>> = Mutex::new(None);

/// Tells one version of a file from another. A file renamed over another has another inode, one
/// written in place another time.
type Stamp = (u64, u64, u64, [i64; 4]);

/// The capture as it is now.
fn now() -> Arc<State> {
    let path = state::path();
    let stamp = std::fs::metadata(&path).map_or((0, 0, 0, [0; 4]), |m| {
        (m.dev(), m.ino(), m.size(), [m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()])
    });
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*cache {
        Some((at, state)) if *at == stamp => Arc::clone(state),
        _ => {
            let state = Arc::new(State::load(&path));
            *cache = Some((stamp, Arc::clone(&state)));
            state
        }
    }
}

/// Appends a line to the trace; lines of several processes do not mix.
fn trace(line: &str) {
    let Some(path) = std::env::var_os("FAKE_NVML_TRACE") else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

/// Counts a call while it runs.
pub(crate) struct Running;

impl Running {
    pub(crate) fn begin() -> Self {
        if RUNNING.fetch_add(1, Ordering::SeqCst) > 0 {
            trace("OVERLAP");
        }
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs the body of a call. A panic in it is an unknown error and does not reach the caller's C frames.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Code>) -> Code {
    let _running = Running::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// One initialisation more, if the capture lets it succeed.
pub(crate) fn init() -> Result<(), Code> {
    trace("init");
    now().succeeds("init", true)?;
    GONE.store(false, Ordering::SeqCst);
    INITS.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// One initialisation less. This works without a driver too.
pub(crate) fn shutdown() -> Result<(), Code> {
    trace("shutdown");
    INITS
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |inits| inits.checked_sub(1))
        .map(drop)
        .map_err(|_| UNINITIALIZED)
}

/// The capture, for a call that needs a successful initialisation and a driver that is still there. Once
/// the driver is seen to be gone, only the next initialisation brings it back.
pub(crate) fn ready() -> Result<Arc<State>, Code> {
    if INITS.load(Ordering::SeqCst) == 0 {
        return Err(UNINITIALIZED);
    }
    let state = now();
    if state.succeeds("init", false) == Err(DRIVER_NOT_LOADED) {
        GONE.store(true, Ordering::SeqCst);
    }
    if GONE.load(Ordering::SeqCst) { Err(DRIVER_NOT_LOADED) } else { Ok(state) }
}

/// `nvmlDevice_t`. The caller sees a pointer; it is a number in disguise and nobody follows it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Device(*mut c_void);

/// The handle of GPU 0 and the distance to the next, far from anything that is an index.
const FIRST: usize = 0x4710_0000;
const STEP: usize = 0x100;

impl Device {
    pub(crate) fn of(gpu: u32) -> Self {
        Self(std::ptr::without_provenance_mut(FIRST + gpu as usize * STEP))
    }

    /// The GPU, which may have been lost since the caller was given its handle.
    pub(crate) fn gpu(self) -> Result<Gpu, Code> {
        let state = ready()?;
        let offset = self.0.addr().checked_sub(FIRST).ok_or(INVALID_ARGUMENT)?;
        if !offset.is_multiple_of(STEP) {
            return Err(INVALID_ARGUMENT);
        }
        let index = u32::try_from(offset / STEP).map_err(|_| INVALID_ARGUMENT)?;
        let count = state.peek("count").and_then(state::number).unwrap_or(0);
        if index >= count {
            return Err(INVALID_ARGUMENT);
        }
        state.succeeds(&format!("{index}.device"), false)?;
        Ok(Gpu { index, state })
    }
}

/// A GPU that is there.
pub(crate) struct Gpu {
    pub(crate) index: u32,
    pub(crate) state: Arc<State>,
}

impl Gpu {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.index)
    }

    pub(crate) fn text(&self, key: &str) -> Result<&str, Code> {
        self.state.get(&self.key(key))
    }

    pub(crate) fn number<T: TryFrom<i64>>(&self, key: &str) -> Result<T, Code> {
        self.state.number(&self.key(key))
    }
}

/// Where the caller wants a value: perhaps nowhere, and perhaps memory that it has not written to.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Hands a value out.
pub(crate) fn put<T>(out: Out<'_, T>, value: T) -> Result<(), Code> {
    out.ok_or(INVALID_ARGUMENT)?.write(value);
    Ok(())
}

/// Hands a text out.
///
/// # Safety
///
/// `out` is null or has room for `room` bytes.
pub(crate) unsafe fn put_text(out: *mut c_char, room: c_uint, text: &str) -> Result<(), Code> {
    if out.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= room as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the text and its terminator fit, as just seen, and nobody else knows the buffer yet.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// Checks the version word with which a versioned structure begins: its size and its number.
///
/// # Safety
///
/// `structure` is null or points to a `T` whose version word is written.
pub(crate) unsafe fn check_version<T>(structure: *const T, version: u32) -> Result<(), Code> {
    if structure.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let size = u32::try_from(size_of::<T>()).map_err(|_| UNKNOWN)?;
    // SAFETY: it is not null, so its first word is there.
    let found = unsafe { structure.cast::<u32>().read() };
    if found == size | (version << 24) { Ok(()) } else { Err(VERSION_MISMATCH) }
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
pub(crate) struct ProcessInfo {
    pid: c_uint,
    used_gpu_memory: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}
const _: () = assert!(size_of::<ProcessInfo>() == 24);

/// A process list as NVML gives it: without room for all of it, only how many there are.
///
/// # Safety
///
/// `count` is null or points to the number of records that `infos` has room for, unless that is null.
pub(crate) unsafe fn put_processes(
    device: Device,
    kind: &str,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> Result<(), Code> {
    let gpu = device.gpu()?;
    let list = gpu.state.processes(gpu.index, kind)?;
    if count.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: it is not null.
    let room = unsafe { count.read() } as usize;
    // SAFETY: as above.
    unsafe { count.write(u32::try_from(list.len()).map_err(|_| UNKNOWN)?) };
    if list.len() > room || (infos.is_null() && !list.is_empty()) {
        return Err(INSUFFICIENT_SIZE);
    }
    for (i, (pid, bytes)) in list.into_iter().enumerate() {
        let info = ProcessInfo {
            pid,
            // All ones: not available.
            used_gpu_memory: bytes.unwrap_or(u64::MAX),
            // All ones: no multi-instance GPU.
            gpu_instance: u32::MAX,
            compute_instance: u32::MAX,
        };
        // SAFETY: i is below the number that there is room for.
        unsafe { infos.add(i).write(info) };
    }
    Ok(())
}

/// Numbers of a GPU.
macro_rules! numbers {
    ($($name:ident: $number:ty = $key:literal;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            device: $crate::call::Device,
            out: $crate::call::Out<'_, $number>,
        ) -> $crate::state::Code {
            $crate::call::call(|| $crate::call::put(out, device.gpu()?.number($key)?))
        }
    )*};
}

/// Process lists.
macro_rules! processes {
    ($($name:ident = $kind:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            device: $crate::call::Device,
            count: *mut std::ffi::c_uint,
            infos: *mut $crate::call::ProcessInfo,
        ) -> $crate::state::Code {
            // SAFETY: the caller's promise.
            $crate::call::call(|| unsafe { $crate::call::put_processes(device, $kind, count, infos) })
        }
    )*};
}
