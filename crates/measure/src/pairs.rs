//! Pairs of CPU node and memory node, for campaigns over all of them.

use crate::options::CampaignError;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;

/// Nodes with CPUs and nodes with memory that this process may use, and which pairs of them are wanted.
pub struct Pairs {
    pub cpu_nodes: NodeSet,
    pub memory_nodes: NodeSet,
    /// Only pairs with one of these; all pairs if empty.
    around: NodeSet,
}

impl Pairs {
    /// # Errors
    /// If a node of `around` is not there, or has neither CPUs nor memory to be used.
    pub fn new(topology: &Topology, around: &NodeSet) -> Result<Self, CampaignError> {
        let nodes = || topology.nodes.iter();
        let pairs = Self {
            cpu_nodes: nodes()
                .map(|node| node.id)
                .filter(|node| !topology.usable_cpus(*node).is_empty())
                .collect(),
            memory_nodes: nodes()
                .filter(|node| node.memory.is_some() && node.memory_allowed)
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

    pub fn wants(&self, cpu_node: NodeId, memory_node: NodeId) -> bool {
        self.around.is_empty() || self.around.contains(cpu_node) || self.around.contains(memory_node)
    }
}

/// SLIT distance of a pair; none where the kernel tells none.
pub fn distance(topology: &Topology, cpu_node: NodeId, memory_node: NodeId) -> Option<u32> {
    topology.distances.as_ref()?.between(cpu_node, memory_node)
}
