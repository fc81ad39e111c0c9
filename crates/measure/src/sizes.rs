//! How large buffers are, and how large they can be.

use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_schema::Warning;

/// Assumed where the kernel tells no cache, as in some virtual machines.
const CACHE_IF_UNKNOWN: u64 = 32 << 20;
/// What buffers are a multiple of: one huge page.
pub const BUFFER_STEP: u64 = 2 << 20;
/// Share of a node's free memory that buffers may take; the rest is left for page tables and others.
const USABLE_SHARE: f64 = 0.9;

/// The last-level caches that serve some CPUs together.
pub struct Caches {
    pub bytes: u64,
    /// Whether the kernel told none.
    pub assumed: bool,
}

impl Caches {
    pub fn of(topology: &Topology, cpus: &CpuSet) -> Self {
        let known = topology.last_level_cache_bytes(cpus).filter(|bytes| *bytes > 0);
        Self { bytes: known.unwrap_or(CACHE_IF_UNKNOWN), assumed: known.is_none() }
    }
}

/// That the caches of a node's CPUs had to be assumed.
pub fn caches_assumed(node: NodeId) -> Warning {
    let what = format!("the caches of node {node} are unknown; 32 MiB are assumed");
    Warning { rule: "caches-assumed".into(), what }
}

/// One thread's part of so many bytes.
pub fn per_thread_bytes(bytes: u64, threads: usize) -> u64 {
    let each = bytes.div_ceil(threads.max(1) as u64);
    each.checked_next_multiple_of(BUFFER_STEP).unwrap_or(u64::MAX)
}

/// Bytes that buffers may take on a node.
pub fn usable_bytes(topology: &Topology, node: NodeId) -> u64 {
    let free = topology.node(node).and_then(|node| node.memory);
    let free = free.map_or(0, |memory| memory.free_bytes.saturating_add(memory.reclaimable_bytes));
    let confinement = &topology.confinement;
    // Documents of old tell only the limit.
    let left = confinement.memory_left_bytes.or(confinement.memory_limit_bytes).unwrap_or(u64::MAX);
    (free.min(left) as f64 * USABLE_SHARE) as u64
}

/// Why buffers of so many bytes do not fit on a node, if they do not.
pub fn memory_shortage(topology: &Topology, node: NodeId, needed_bytes: u64) -> Option<ProbeError> {
    let free_bytes = usable_bytes(topology, node);
    (needed_bytes > free_bytes).then_some(ProbeError::NoMemory { node, needed_bytes, free_bytes })
}
