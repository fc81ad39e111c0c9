//! Configuration of a worker group.

use super::pool::Pool;
use numaio_machine::set::CpuSet;
use std::sync::Arc;

/// Worker threads on the same CPUs, for the same storage device.
#[derive(Debug, Clone)]
pub struct WorkerGroup {
    /// Number of threads, at least one.
    pub threads: usize,
    /// Maximum number of threads that the group grows to, and of concurrent operations of its
    /// device if it is the only group of the device.
    pub max_threads: usize,
    /// CPUs of the threads; unpinned if none.
    pub cpus: Option<CpuSet>,
    /// Buffers for data that the threads read; closed with the port.
    pub pool: Arc<Pool>,
    /// Index of the storage device that the group reads.
    pub device: usize,
    /// Name of the device, part of the names of the threads; `None` if all groups serve the same
    /// device.
    pub name: Option<String>,
}

impl WorkerGroup {
    /// Creates a group for the only storage device, without a limit of its own.
    pub fn new(threads: usize, cpus: Option<CpuSet>, pool: Arc<Pool>) -> Self {
        Self { threads, max_threads: usize::MAX, cpus, pool, device: 0, name: None }
    }

    /// Limits the group to a device, by its index and name, and to a maximum number of threads.
    pub fn on_device(self, device: usize, name: String, max_threads: usize) -> Self {
        Self { device, name: Some(name), max_threads, ..self }
    }
}
