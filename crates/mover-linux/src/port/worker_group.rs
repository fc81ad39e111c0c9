//! Configuration of a worker group.

use super::pool::Pool;
use numaio_machine::set::CpuSet;
use std::sync::Arc;

/// Worker threads on the same CPUs.
#[derive(Debug, Clone)]
pub struct WorkerGroup {
    /// Number of threads, at least one.
    pub threads: usize,
    /// CPUs of the threads; unpinned if none.
    pub cpus: Option<CpuSet>,
    /// Buffers for data that the threads read; closed with the port.
    pub pool: Arc<Pool>,
}
