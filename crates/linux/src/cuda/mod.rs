//! GPUs, by way of the CUDA driver library, which is loaded when it is first needed (CUDA Driver API, version 11 or
//! newer). What it moves are SHOC's BusSpeedDownload and BusSpeedReadback: pinned host memory, bound to a node, to and
//! from the memory of the device by its copy engines.
//!
//! It is tested against a driver without a GPU (tests/support/fake_cuda.c); no real GPU has been at hand.

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

/// Name under which every NVIDIA driver installs its library.
const LIBRARY: &str = "libcuda.so.1";

/// A GPU, as the driver tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The driver's index, as in `cuda:0`.
    pub index: u32,
    /// What it is called.
    pub name: String,
    /// PCI address as the driver writes it, as in `0000:3B:00.0`.
    pub pci: String,
}

/// The GPUs of this machine that this process may use, by the driver's index.
///
/// # Errors
/// [`CudaUnavailable`], if there is none: it tells no library, no device and no permission apart.
pub fn gpus() -> Result<Vec<Gpu>, CudaUnavailable> {
    driver()?.gpus()
}

/// The driver, loaded once; it stays until the process ends.
fn driver() -> Result<&'static Driver, CudaUnavailable> {
    static DRIVER: OnceLock<Result<Driver, CudaUnavailable>> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::load(LIBRARY)).as_ref().map_err(CudaUnavailable::clone)
}
