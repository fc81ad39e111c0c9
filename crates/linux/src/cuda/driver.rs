//! CUDA driver library: loading, functions and error names.

use super::unavailable::CudaUnavailable;
use numaio_machine::probe::ProbeError;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::fs::OpenOptions;
use std::ptr;
use std::sync::OnceLock;

/// File name of the library in every NVIDIA driver.
const LIBRARY: &str = "libcuda.so.1";

/// `CUresult`; 0 is success.
pub type ResultCode = c_int;
/// `CUDA_ERROR_NOT_READY`: the operation is still in progress.
pub const NOT_READY: ResultCode = 600;
/// Maximum number of GPUs listed.
const MAX_GPUS: c_int = 256;
/// Buffer size for a device name, null terminator included.
const NAME_BYTES: usize = 256;
/// Buffer size for a PCI address, null terminator included.
const PCI_BYTES: usize = 64;

/// Handle of a context, stream or event.
pub type Handle = *mut c_void;
/// Address in device memory (`CUdeviceptr`).
pub type DeviceAddress = u64;

/// Declares the driver's functions and their lookup in the library.
macro_rules! functions {
    ($($name:ident: $symbol:literal ($($argument:ty),*);)*) => {
        /// Driver functions in use (CUDA Driver API, "Modules"), by their names in the library.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> ResultCode,)*
        }

        impl Functions {
            /// Resolves all functions. `find` returns the address of a function, or null.
            ///
            /// # Safety
            /// Each name in the library must be the driver's function of that name while this value
            /// lives.
            unsafe fn resolve(find: impl Fn(&CStr) -> *mut c_void) -> Result<Self, CudaUnavailable> {
                Ok(Self {
                    $($name: {
                        let symbol = find($symbol);
                        if symbol.is_null() {
                            return Err(CudaUnavailable::Incomplete { function: $symbol.to_string_lossy().into_owned() });
                        }
                        // SAFETY: the caller's promise; the signature is that of the driver's
                        // header.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> ResultCode>(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    init: c"cuInit"(c_uint);
    error_name: c"cuGetErrorName"(ResultCode, *mut *const c_char);
    device_count: c"cuDeviceGetCount"(*mut c_int);
    device: c"cuDeviceGet"(*mut c_int, c_int);
    device_name: c"cuDeviceGetName"(*mut c_char, c_int, c_int);
    pci_bus_id: c"cuDeviceGetPCIBusId"(*mut c_char, c_int, c_int);
    retain: c"cuDevicePrimaryCtxRetain"(*mut Handle, c_int);
    release: c"cuDevicePrimaryCtxRelease_v2"(c_int);
    set_current: c"cuCtxSetCurrent"(Handle);
    register: c"cuMemHostRegister_v2"(*mut c_void, usize, c_uint);
    unregister: c"cuMemHostUnregister"(*mut c_void);
    allocate: c"cuMemAlloc_v2"(*mut DeviceAddress, usize);
    free: c"cuMemFree_v2"(DeviceAddress);
    to_device: c"cuMemcpyHtoDAsync_v2"(DeviceAddress, *const c_void, usize, Handle);
    to_host: c"cuMemcpyDtoHAsync_v2"(*mut c_void, DeviceAddress, usize, Handle);
    create_stream: c"cuStreamCreate"(*mut Handle, c_uint);
    synchronize: c"cuStreamSynchronize"(Handle);
    destroy_stream: c"cuStreamDestroy_v2"(Handle);
    create_event: c"cuEventCreate"(*mut Handle, c_uint);
    record: c"cuEventRecord"(Handle, Handle);
    query: c"cuEventQuery"(Handle);
    destroy_event: c"cuEventDestroy_v2"(Handle);
}

/// A GPU according to the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Driver index, as in `cuda:0`.
    pub index: u32,
    /// Model name.
    pub name: String,
    /// PCI address in the driver's notation, as in `0000:3B:00.0`.
    pub pci: String,
}

/// The initialized driver.
pub struct Driver {
    pub functions: Functions,
}

impl Driver {
    /// Returns the driver, loaded once for the lifetime of the process.
    pub fn loaded() -> Result<&'static Self, CudaUnavailable> {
        static DRIVER: OnceLock<Result<Driver, CudaUnavailable>> = OnceLock::new();
        DRIVER.get_or_init(|| Self::load(LIBRARY)).as_ref().map_err(CudaUnavailable::clone)
    }

    /// Loads a library by its file name and initializes the driver.
    pub fn load(library: &str) -> Result<Self, CudaUnavailable> {
        let library = open(library)?;
        // SAFETY: a library that bears the driver's name or, in tests, is written after it; it is
        // never closed.
        let functions = unsafe { Functions::resolve(|symbol| find(library, symbol)) }?;
        let driver = Self { functions };
        // SAFETY: the first call of every user of the driver; it takes no memory of ours.
        let code = unsafe { (driver.functions.init)(0) };
        driver.start("cuInit", code)?;
        Ok(driver)
    }

    /// Lists the GPUs by driver index.
    pub fn gpus(&self) -> Result<Vec<Gpu>, CudaUnavailable> {
        let mut count = 0;
        // SAFETY: the pointer is to a value that lives through the call.
        self.start("cuDeviceGetCount", unsafe { (self.functions.device_count)(&raw mut count) })?;
        if count <= 0 {
            return Err(CudaUnavailable::NoDevice { name: "cuDeviceGetCount returned 0".to_owned() });
        }
        (0..count.min(MAX_GPUS)).map(|index| self.gpu(index)).collect()
    }

    fn gpu(&self, index: c_int) -> Result<Gpu, CudaUnavailable> {
        let mut device = 0;
        // SAFETY: the pointer is to a value that lives through the call.
        self.start("cuDeviceGet", unsafe { (self.functions.device)(&raw mut device, index) })?;
        let mut name = [0 as c_char; NAME_BYTES];
        let mut pci = [0 as c_char; PCI_BYTES];
        let of = &self.functions;
        // SAFETY: the driver writes at most the given number of bytes into a larger array, whose
        // last byte stays 0.
        let code = unsafe { (of.device_name)(name.as_mut_ptr(), NAME_BYTES as c_int - 1, device) };
        self.start("cuDeviceGetName", code)?;
        // SAFETY: as above.
        let code = unsafe { (of.pci_bus_id)(pci.as_mut_ptr(), PCI_BYTES as c_int - 1, device) };
        self.start("cuDeviceGetPCIBusId", code)?;
        Ok(Gpu { index: index.unsigned_abs(), name: text(&name), pci: text(&pci) })
    }

    /// Converts the result of a call during device discovery.
    fn start(&self, call: &str, code: ResultCode) -> Result<(), CudaUnavailable> {
        let open = |file: &str| OpenOptions::new().read(true).write(true).open(file).map(drop);
        match code {
            0 => Ok(()),
            code => Err(CudaUnavailable::of_code(call, code, self.name(code), open)),
        }
    }

    /// Converts the result of the operation `what`.
    pub fn check(&self, what: &str, code: ResultCode) -> Result<(), ProbeError> {
        match code {
            0 => Ok(()),
            code => Err(ProbeError::Refused { call: what.to_owned(), reason: self.name(code) }),
        }
    }

    /// Returns the driver's name of an error, as in `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn name(&self, code: ResultCode) -> String {
        let mut name = ptr::null();
        // SAFETY: the pointer is to a value that lives through the call.
        let found = unsafe { (self.functions.error_name)(code, &raw mut name) };
        if found != 0 || name.is_null() {
            return format!("CUDA error {code}");
        }
        // SAFETY: the driver returned a null-terminated string that lives as long as the library.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

/// Returns the text before the first null byte.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Loads a library (dlopen(3)).
#[cfg(not(target_feature = "crt-static"))]
fn open(library: &str) -> Result<*mut c_void, CudaUnavailable> {
    let missing = |why: String| CudaUnavailable::NoLibrary { why };
    let name = std::ffi::CString::new(library).map_err(|error| missing(error.to_string()))?;
    // SAFETY: the name is null-terminated and lives through the call. The library's initializers
    // are the driver's own.
    let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !opened.is_null() {
        return Ok(opened);
    }
    // SAFETY: dlerror returns null or a string that is valid until the next call on this thread.
    let why = unsafe { libc::dlerror() };
    if why.is_null() {
        return Err(missing(library.to_owned()));
    }
    // SAFETY: as above.
    Err(missing(unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned()))
}

/// dlopen is a stub in a static C library.
#[cfg(target_feature = "crt-static")]
fn open(_library: &str) -> Result<*mut c_void, CudaUnavailable> {
    Err(CudaUnavailable::Static)
}

/// Returns the address of a function, or null.
#[cfg(not(target_feature = "crt-static"))]
fn find(library: *mut c_void, symbol: &CStr) -> *mut c_void {
    // SAFETY: the library is open, and the name is null-terminated and lives through the call.
    unsafe { libc::dlsym(library, symbol.as_ptr()) }
}

#[cfg(target_feature = "crt-static")]
fn find(_library: *mut c_void, _symbol: &CStr) -> *mut c_void {
    ptr::null_mut()
}
