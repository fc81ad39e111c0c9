//! Buffer sizes and their limits.

use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_schema::Warning;

/// Cache size assumed if unknown, as in some virtual machines.
const CACHE_IF_UNKNOWN: u64 = 32 << 20;
/// Granularity of buffer sizes: one huge page.
pub const BUFFER_STEP: u64 = 2 << 20;
/// Share of a node's free memory available to buffers; the rest is left for page tables and others.
const USABLE_SHARE: f64 = 0.9;

/// Total last-level cache of some CPUs.
pub struct Caches {
    pub bytes: u64,
    /// Whether the size is unknown and assumed.
    pub assumed: bool,
}

impl Caches {
    /// Returns the last-level caches of some CPUs.
    pub fn of(topology: &Topology, cpus: &CpuSet) -> Self {
        let known = topology.last_level_cache_bytes(cpus).filter(|bytes| *bytes > 0);
        Self { bytes: known.unwrap_or(CACHE_IF_UNKNOWN), assumed: known.is_none() }
    }
}

/// Returns the warning that a node's cache size is assumed.
pub fn caches_assumed(node: NodeId) -> Warning {
    let what = format!("the caches of node {node} are unknown; 32 MiB are assumed");
    Warning { rule: "caches-assumed".into(), message: what }
}

/// Divides a buffer size among threads.
pub fn per_thread_bytes(bytes: u64, threads: usize) -> u64 {
    let each = bytes.div_ceil(threads.max(1) as u64);
    each.checked_next_multiple_of(BUFFER_STEP).unwrap_or(u64::MAX)
}

/// Returns the bytes that buffers may use on a node.
pub fn usable_bytes(topology: &Topology, node: NodeId) -> u64 {
    let free = topology.node(node).and_then(|node| node.memory);
    let free = free.map_or(0, |memory| memory.free_bytes.saturating_add(memory.reclaimable_bytes));
    let confinement = &topology.confinement;
    // Older documents contain only the limit.
    let left = confinement.memory_left_bytes.or(confinement.memory_limit_bytes).unwrap_or(u64::MAX);
    (free.min(left) as f64 * USABLE_SHARE) as u64
}

/// Returns the error if buffers do not fit on a node.
pub fn memory_shortage(topology: &Topology, node: NodeId, needed_bytes: u64) -> Option<ProbeError> {
    let free_bytes = usable_bytes(topology, node);
    (needed_bytes > free_bytes).then_some(ProbeError::NoMemory { node, needed_bytes, free_bytes })
}
