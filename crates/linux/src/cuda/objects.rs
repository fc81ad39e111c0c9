//! Driver objects, released when dropped.

use super::driver::{DeviceAddress, Driver, Handle, ResultCode};
use numaio_machine::probe::ProbeError;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

/// `CU_MEMHOSTREGISTER_PORTABLE`: pinned for every context.
const PORTABLE: u32 = 1;
/// `CU_STREAM_NON_BLOCKING`: not synchronized with other streams.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`: without a time stamp.
const NO_TIMING: u32 = 2;

/// The primary context of a device.
pub struct Context<'d> {
    pub driver: &'d Driver,
    device: c_int,
    raw: Handle,
}

// SAFETY: all threads may use the driver's contexts (CUDA Driver API, "Difference between the
// driver and runtime APIs" and cuCtxSetCurrent); the other fields are `Sync`.
unsafe impl Sync for Context<'_> {}

impl<'d> Context<'d> {
    /// Retains the primary context of a device by index.
    pub fn of(driver: &'d Driver, index: u32) -> Result<Self, ProbeError> {
        let what = format!("GPU cuda:{index}");
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        let of = &driver.functions;
        let mut device = 0;
        // SAFETY: the pointer is to a value that lives through the call.
        driver.check(&what, unsafe { (of.device)(&raw mut device, index) })?;
        let mut raw = ptr::null_mut();
        // SAFETY: as above.
        driver.check(&what, unsafe { (of.retain)(&raw mut raw, device) })?;
        Ok(Self { driver, device, raw })
    }

    /// Makes the context current on the calling thread.
    pub fn enter(&self) -> Result<(), ProbeError> {
        // SAFETY: the context is alive.
        let code = unsafe { (self.driver.functions.set_current)(self.raw) };
        self.driver.check("cuCtxSetCurrent", code)
    }

    /// Pins memory and makes it accessible to the device.
    ///
    /// # Safety
    /// The memory must stay mapped until the returned object is dropped.
    pub unsafe fn register(
        &self,
        start: *mut u8,
        bytes: usize,
    ) -> Result<DriverObject<'_, *mut c_void>, ProbeError> {
        let what = format!("pin {bytes} bytes for the GPU (cuMemHostRegister)");
        let of = &self.driver.functions;
        let start: *mut c_void = start.cast();
        // SAFETY: the caller's promise.
        self.driver.check(&what, unsafe { (of.register)(start, bytes, PORTABLE) })?;
        Ok(DriverObject { raw: start, release: of.unregister, context: PhantomData })
    }

    /// Allocates device memory.
    pub fn allocate(&self, bytes: usize) -> Result<DriverObject<'_, DeviceAddress>, ProbeError> {
        let of = &self.driver.functions;
        let make = |made: &mut DeviceAddress| {
            // SAFETY: the pointer is to a value that lives through the call; so in all calls below.
            unsafe { (of.allocate)(&raw mut *made, bytes) }
        };
        self.make(&format!("{bytes} bytes of the GPU's memory (cuMemAlloc)"), 0, make, of.free)
    }

    /// Creates a stream, which serializes its operations.
    pub fn stream(&self) -> Result<DriverObject<'_, Handle>, ProbeError> {
        let of = &self.driver.functions;
        // SAFETY: as in `allocate`.
        let make = |made: &mut Handle| unsafe { (of.create_stream)(&raw mut *made, NON_BLOCKING) };
        self.make("cuStreamCreate", ptr::null_mut(), make, of.destroy_stream)
    }

    /// Creates an event.
    pub fn event(&self) -> Result<DriverObject<'_, Handle>, ProbeError> {
        let of = &self.driver.functions;
        // SAFETY: as in `allocate`.
        let make = |made: &mut Handle| unsafe { (of.create_event)(&raw mut *made, NO_TIMING) };
        self.make("cuEventCreate", ptr::null_mut(), make, of.destroy_event)
    }

    fn make<T: Copy>(
        &self,
        what: &str,
        nothing: T,
        make: impl Fn(&mut T) -> ResultCode,
        release: unsafe extern "C" fn(T) -> ResultCode,
    ) -> Result<DriverObject<'_, T>, ProbeError> {
        let mut made = nothing;
        self.driver.check(what, make(&mut made))?;
        Ok(DriverObject { raw: made, release, context: PhantomData })
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: `of` retained the context once. Errors cannot be reported in drop.
        unsafe { (self.driver.functions.release)(self.device) };
    }
}

/// A driver object with its release function.
pub struct DriverObject<'c, T: Copy> {
    pub raw: T,
    release: unsafe extern "C" fn(T) -> ResultCode,
    context: PhantomData<&'c Context<'c>>,
}

impl<T: Copy> Drop for DriverObject<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the driver created the object, it is released only here, and its context outlives
        // it.
        unsafe { (self.release)(self.raw) };
    }
}
