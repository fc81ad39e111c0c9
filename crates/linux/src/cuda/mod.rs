//! GPUs, by the CUDA driver library, loaded on first use (CUDA Driver API, version 11 or newer).
//!
//! The transfers are those of SHOC's BusSpeedDownload and BusSpeedReadback: pinned host memory,
//! bound to a node, to and from device memory by the copy engines. The tests use a fake driver
//! (tests/support/fake_cuda.c); this code has not run on a real GPU.

mod copies;
mod driver;
mod objects;
mod run;
#[cfg(test)]
mod tests;
mod unavailable;

pub(crate) use run::run;
pub use unavailable::CudaUnavailable;

use driver::Driver;
use std::sync::OnceLock;

/// File name of the library in every NVIDIA driver.
const LIBRARY: &str = "libcuda.so.1";

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

/// Returns the GPUs that this process may use, by driver index.
///
/// # Errors
/// [`CudaUnavailable`] distinguishes a missing library, missing devices and missing permissions.
pub fn gpus() -> Result<Vec<Gpu>, CudaUnavailable> {
    driver()?.gpus()
}

/// Returns the driver, loaded once for the lifetime of the process.
fn driver() -> Result<&'static Driver, CudaUnavailable> {
    static DRIVER: OnceLock<Result<Driver, CudaUnavailable>> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::load(LIBRARY)).as_ref().map_err(CudaUnavailable::clone)
}
