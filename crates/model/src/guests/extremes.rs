//! The nodes between which the placement of a guest matters most.

use crate::device_bandwidth::BandwidthSubject;
use crate::placement::{rank_nodes, RankingSources};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_schema::Basis;

/// The best and the worst node for a device.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtremeNodes {
    /// The best node.
    pub local: NodeId,
    /// The worst node.
    pub remote: NodeId,
    /// The criterion of their choice.
    pub basis: Basis,
}

/// Returns the best and the worst node for a device, among those with usable cores and memory: by
/// its classes of bandwidth, else by hop distance. `None` if there is only one.
pub fn extreme_nodes(
    topology: &Topology,
    device: BandwidthSubject<'_>,
    sources: RankingSources<'_>,
) -> Option<ExtremeNodes> {
    let ranking = rank_nodes(topology, device, sources);
    let mut nodes = ranking.nodes.iter().map(|ranked| ranked.node);
    let local = nodes.next()?;
    nodes.next_back().map(|remote| ExtremeNodes { local, remote, basis: ranking.basis })
}
