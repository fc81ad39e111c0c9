//! Targets of a copy campaign: flows, threads and buffers.

use crate::options::{CampaignError, Options, Threads};
use crate::sizes::{per_thread_bytes, usable_bytes, Caches};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Direction, Flow, Pages, Placement, Sampling};

/// Total buffer size as a multiple of the last-level caches used, so that memory is measured
/// (STREAM's rule).
const CACHES_FILLED: u64 = 4;
/// A measurable target.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub node: NodeId,
    pub placement: Placement,
    pub bytes_per_thread: u64,
    /// Whether the cache size had to be assumed.
    pub cache_assumed: bool,
    /// Whether the buffers are smaller than four times the last-level cache.
    pub possibly_cached: bool,
}

impl Target {
    /// Chooses threads and buffer sizes for a target.
    pub fn new(topology: &Topology, node: NodeId, options: &Options) -> Result<Self, CampaignError> {
        let nodes = || topology.nodes.iter().map(|node| node.id).collect();
        let Some(found) = topology.node(node) else {
            return Err(CampaignError::UnknownNode { node, nodes: nodes() });
        };
        if !found.has_memory() || !found.memory_allowed {
            return Err(CampaignError::NoMemory { node });
        }
        let cpus = choose_cpus(topology, node, options.threads)?;
        let caches = Caches::of(topology, &cpus);
        let filled = per_thread_bytes(caches.bytes.saturating_mul(CACHES_FILLED), cpus.len());
        let bytes_per_thread = options.buffer_bytes.unwrap_or(filled);
        let target = Self {
            node,
            bytes_per_thread,
            possibly_cached: bytes_per_thread < filled,
            placement: Placement { cpus },
            cache_assumed: caches.assumed,
        };
        // Reserved huge pages count neither as free memory nor towards a control group's limit.
        if options.pages != Pages::Huge {
            target.check_memory(topology)?;
        }
        Ok(target)
    }

    /// Checks the memory for the local cell, whose source and sink are both on the target.
    fn check_memory(&self, topology: &Topology) -> Result<(), CampaignError> {
        let needed_bytes = self.bytes_of_all().saturating_mul(2);
        let free_bytes = usable_bytes(topology, self.node);
        if needed_bytes > free_bytes {
            return Err(CampaignError::TooLittleMemory { node: self.node, needed_bytes, free_bytes });
        }
        Ok(())
    }

    /// Returns the total bytes of all threads' sources.
    pub fn bytes_of_all(&self) -> u64 {
        self.bytes_per_thread.saturating_mul(self.placement.cpus.len() as u64)
    }

    /// Returns the workload of a flow.
    pub fn workload(
        &self,
        flow: Flow,
        copy_loop: CopyLoop,
        pages: Pages,
        sampling: Sampling,
    ) -> CopyWorkload {
        CopyWorkload {
            flow,
            placement: self.placement.clone(),
            copy_loop,
            bytes_per_thread: self.bytes_per_thread,
            pages,
            sampling,
        }
    }

    /// Returns the flows of Algorithm 1: every node with memory in each direction, the local one
    /// once.
    pub fn flows(&self, memory_nodes: &NodeSet, directions: &[Direction]) -> Vec<Flow> {
        let flows = directions
            .iter()
            .flat_map(|direction| memory_nodes.iter().map(move |node| Flow::of(*direction, self.node, node)));
        let mut flows: Vec<Flow> = flows.collect();
        flows.sort();
        flows.dedup();
        flows
    }
}

/// Chooses the CPUs of a node that run threads.
pub fn choose_cpus(topology: &Topology, node: NodeId, threads: Threads) -> Result<CpuSet, CampaignError> {
    let (cores, all) = (topology.cores(node), topology.usable_cpus(node));
    if all.is_empty() {
        return Err(CampaignError::NoCpus { node });
    }
    match threads {
        Threads::Cores => Ok(cores),
        Threads::HardwareThreads => Ok(all),
        Threads::Count(threads) if threads == 0 || threads as usize > all.len() => {
            Err(CampaignError::TooManyThreads { node, threads, cpus: all.len() as u32 })
        }
        Threads::Count(threads) => {
            let others = all.difference(&cores);
            Ok(cores.iter().chain(others.iter()).take(threads as usize).collect())
        }
    }
}
