//! Pairs of CPU node and memory node.

use crate::options::CampaignError;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;

/// Usable CPU nodes and memory nodes, and the pairs of them to measure.
pub struct Pairs {
    pub cpu_nodes: NodeSet,
    pub memory_nodes: NodeSet,
    /// Limits pairs to those with one of these nodes; all pairs if empty.
    around: NodeSet,
}

impl Pairs {
    /// Selects pairs.
    ///
    /// # Errors
    /// [`CampaignError`] if a node of `around` is missing, or has neither usable CPUs nor memory.
    pub fn new(topology: &Topology, around: &NodeSet) -> Result<Self, CampaignError> {
        let nodes = || topology.nodes.iter();
        let pairs = Self {
            cpu_nodes: nodes()
                .map(|node| node.id)
                .filter(|node| !topology.usable_cpus(*node).is_empty())
                .collect(),
            memory_nodes: nodes()
                .filter(|node| node.has_memory() && node.memory_allowed)
                .map(|node| node.id)
                .collect(),
            around: around.clone(),
        };
        for node in around.iter() {
            if topology.node(node).is_none() {
                return Err(CampaignError::UnknownNode {
                    node,
                    nodes: nodes().map(|node| node.id).collect(),
                });
            }
            if !pairs.cpu_nodes.contains(node) && !pairs.memory_nodes.contains(node) {
                return Err(CampaignError::NoMemory { node });
            }
        }
        Ok(pairs)
    }

    /// Returns whether a pair is to be measured.
    pub fn wants(&self, cpu_node: NodeId, memory_node: NodeId) -> bool {
        self.around.is_empty() || self.around.contains(cpu_node) || self.around.contains(memory_node)
    }
}

/// Returns the SLIT distance of a pair; none if unknown.
pub fn distance(topology: &Topology, cpu_node: NodeId, memory_node: NodeId) -> Option<u32> {
    topology.distances.as_ref()?.between(cpu_node, memory_node)
}
