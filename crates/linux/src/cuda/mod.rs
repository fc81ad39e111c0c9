//! GPUs, by the CUDA driver library, loaded on first use (CUDA Driver API, version 11 or newer).
//!
//! The transfers are those of SHOC's BusSpeedDownload and BusSpeedReadback: pinned host memory,
//! bound to a node, to and from device memory by the copy engines. Most tests use a fake driver
//! (tests/support/fake_cuda.c); one needs a GPU.

mod copies;
mod driver;
mod objects;
mod run;
#[cfg(test)]
mod tests;
mod unavailable;

pub use driver::Gpu;
pub(crate) use run::run;
pub use unavailable::CudaUnavailable;

use driver::Driver;

/// Returns the GPUs that this process may use, by driver index.
///
/// # Errors
/// [`CudaUnavailable`] distinguishes a missing library, missing devices and missing permissions.
pub fn gpus() -> Result<Vec<Gpu>, CudaUnavailable> {
    Driver::loaded()?.gpus()
}
