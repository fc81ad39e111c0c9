//! The nodes between which the placement of a guest matters most.

use crate::placement::rank_nodes;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_schema::{Basis, Model};

/// The best and the worst node for a device.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtremeNodes {
    /// The best node.
    pub local: NodeId,
    /// The worst node.
    pub remote: NodeId,
    /// What they are chosen by.
    pub basis: Basis,
}

/// Returns the best and the worst node for a device on a node, among those with usable cores and
/// memory: by the classes of a model, else by hop distance. `None` if there is only one.
pub fn extreme_nodes(topology: &Topology, device: NodeId, models: &[&Model]) -> Option<ExtremeNodes> {
    let (basis, ranked) = rank_nodes(topology, Some(device), models);
    let mut nodes = ranked.iter().map(|ranked| ranked.node);
    let local = nodes.next()?;
    nodes.next_back().map(|remote| ExtremeNodes { local, remote, basis })
}
