//! A CUDA context, for one question. Made in a child process only (`doctor --cuda`): it takes memory of
//! the pool, and what hangs in it hangs its whole process.
#![expect(unsafe_code, reason = "a C interface; every block says why it is sound")]

use libloading::{Library, Symbol};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

/// `CUresult`; 0 is success.
type Code = c_uint;
/// `CUcontext`, which only CUDA looks into.
type Handle = *mut c_void;

/// The primary context of the first GPU, current on the thread that made it.
pub struct Context {
    /// Never unloaded: the process ends soon, and its threads may still be in there.
    library: &'static Library,
    device: c_int,
}

/// What a call that failed is called in a message.
fn check(call: &str, code: Code) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{call}: CUDA error {code}")) }
}

/// A function of the library.
///
/// # Safety
/// `F` must be the type that cuda.h gives the function of this name.
unsafe fn function<F>(library: &'static Library, name: &str) -> Result<Symbol<'static, F>, String> {
    // SAFETY: the caller's promise; the library stays loaded.
    unsafe { library.get(name.as_bytes()) }.map_err(|_| format!("{name}: not in this library"))
}

impl Context {
    /// Loads the library and makes the context.
    ///
    /// # Errors
    /// The call that failed, and its code.
    pub fn new(name: &str) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers; NVIDIA's expects to be loaded this way. It is
        // loaded before anything else happens in this process.
        let library = unsafe { Library::new(name) }.map_err(|e| format!("{name}: {e}"))?;
        let library: &'static Library = Box::leak(Box::new(library));
        let (mut device, mut handle): (c_int, Handle) = (0, null_mut());
        // SAFETY: the types are those of cuda.h, and each call writes one value into a variable that
        // outlives it.
        unsafe {
            let init = function::<unsafe extern "C" fn(c_uint) -> Code>(library, "cuInit")?;
            check("cuInit", init(0))?;
            let get = function::<unsafe extern "C" fn(*mut c_int, c_int) -> Code>(
                library,
                "cuDeviceGet",
            )?;
            check("cuDeviceGet", get(&raw mut device, 0))?;
            let retain = function::<unsafe extern "C" fn(*mut Handle, c_int) -> Code>(
                library,
                "cuDevicePrimaryCtxRetain",
            )?;
            check("cuDevicePrimaryCtxRetain", retain(&raw mut handle, device))?;
        }
        // From here on it is given back when dropped.
        let context = Self { library, device };
        // SAFETY: the type is that of cuda.h, and the handle is the one that was just retained.
        unsafe {
            let set = function::<unsafe extern "C" fn(Handle) -> Code>(library, "cuCtxSetCurrent")?;
            check("cuCtxSetCurrent", set(handle))?;
        }
        Ok(context)
    }

    /// Free and total bytes, as `cudaMemGetInfo` gives them.
    ///
    /// # Errors
    /// The code.
    pub fn memory(&self) -> Result<(usize, usize), String> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the type is that of cuda.h (size_t is usize), and the call writes two numbers into
        // variables that outlive it.
        unsafe {
            let get = function::<unsafe extern "C" fn(*mut usize, *mut usize) -> Code>(
                self.library,
                "cuMemGetInfo_v2",
            )?;
            check("cuMemGetInfo_v2", get(&raw mut free, &raw mut total))?;
        }
        Ok((free, total))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the type is that of cuda.h, and the device's context was retained once in `new`.
        unsafe {
            let release = function::<unsafe extern "C" fn(c_int) -> Code>(
                self.library,
                "cuDevicePrimaryCtxRelease_v2",
            );
            if let Ok(release) = release {
                release(self.device);
            }
        }
    }
}
