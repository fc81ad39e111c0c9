//! Groups of worker threads with their CPUs and buffers.

use crate::event::cpus_text;
use numaio_linux::Root;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_mover::port::BlockSize;
use numaio_mover_linux::port::net::MAX_STREAMS;
use numaio_mover_linux::port::{can_pin, Pool, WorkerGroup};
use std::sync::Arc;

/// Block buffers for each thread of a side: one in use, and some in flight. More would cost time,
/// because the kernel clears their pages.
const BUFFERS_PER_THREAD: usize = 6;
/// Maximum number of block buffers of a side (64 MiB with the default block size).
pub const MAX_BUFFERS: usize = 64;
/// Bytes of buffers above which a side has only those that its threads and connections need.
pub const MOST_BYTES: usize = 256 << 20;

/// Replaces the buffers of a group by as many of another block size, but at most `most` bytes.
///
/// The group keeps a buffer for each thread and connection, and two in flight. Buffers that cannot
/// be bound to the node are anywhere.
pub fn with_blocks(
    group: WorkerGroup,
    (block, most): (BlockSize, usize),
    streams: u16,
    notes: &mut Vec<String>,
) -> WorkerGroup {
    let needed = group.threads + 2 + usize::from(streams).min(MAX_STREAMS);
    let count = group.pool.count().min((most / block.bytes()).max(needed));
    let bound = group.pool.node().and_then(|node| bound_pool(node, (count, block), notes));
    WorkerGroup { pool: bound.unwrap_or_else(|| Pool::of_blocks(count, block)), ..group }
}

/// Creates buffers on a node, or notes why that failed.
fn bound_pool(node: NodeId, size: (usize, BlockSize), notes: &mut Vec<String>) -> Option<Arc<Pool>> {
    match Pool::on(&Root::live().ok()?, None, node, size) {
        Ok(pool) => Some(pool),
        Err(error) => {
            notes.push(format!("buffers are anywhere, not on node {node}: {error}"));
            None
        }
    }
}

/// The storage device of a group, if a side has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDevice {
    /// Its index among the devices of the side.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Maximum number of threads that the group grows to.
    pub max_threads: usize,
}

/// Placement of a group of threads and their buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlacement {
    pub threads: usize,
    /// Memory node of the buffers; any node if `None`.
    pub node: Option<NodeId>,
    /// CPUs of the threads; any CPU if `None`.
    pub cpus: Option<CpuSet>,
    /// The only storage device that it reads; the side's only one if `None`.
    pub device: Option<GroupDevice>,
}

impl GroupPlacement {
    /// Creates the group with its part of the buffers for `threads`, and one more for each
    /// connection.
    ///
    /// Bindings that the kernel rejects are dropped and noted.
    pub fn create(&self, threads: usize, streams: u16, notes: &mut Vec<String>) -> WorkerGroup {
        let all = (BUFFERS_PER_THREAD * threads).min(MAX_BUFFERS);
        let part = (all * self.threads / threads.max(1)).max(self.threads + 2);
        let count = part + usize::from(streams).min(MAX_STREAMS);
        let cpus = self.cpus.clone().filter(|cpus| {
            let refused = can_pin(cpus).err();
            notes.extend(
                refused
                    .iter()
                    .map(|error| format!("threads run on any CPU, not on {}: {error}", cpus_text(cpus))),
            );
            refused.is_none()
        });
        let bound = self.node.and_then(|node| bound_pool(node, (count, BlockSize::default()), notes));
        let pool = bound.unwrap_or_else(|| Pool::new(count));
        let group = WorkerGroup::new(self.threads, cpus, pool);
        match &self.device {
            Some(device) => group.on_device(device.index, device.name.clone(), device.max_threads),
            None => group,
        }
    }
}
