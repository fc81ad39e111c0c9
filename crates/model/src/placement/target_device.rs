//! A device near which tasks are placed.

use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_schema::{Basis, PlacementTarget, RankedNode};

/// A device near which tasks are placed.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetDevice {
    /// The handle that names the device.
    pub handle: String,
    /// The steps of resolving the handle.
    pub chain: Vec<String>,
    /// The device name.
    pub device: String,
    /// Its node, or `None` if unknown.
    pub node: Option<NodeId>,
    /// CPUs that handle its interrupts.
    pub irq_cpus: CpuSet,
    /// Its bandwidth in bytes per second, if known.
    pub bytes_per_s: Option<f64>,
}

impl TargetDevice {
    /// Returns the device as a target of a plan, with its share of the tasks and its ranked nodes.
    pub(crate) fn target(&self, share: f64, basis: Basis, nodes: Vec<RankedNode>) -> PlacementTarget {
        PlacementTarget {
            handle: self.handle.clone(),
            chain: self.chain.clone(),
            device: self.device.clone(),
            node: self.node,
            irq_cpus: self.irq_cpus.clone(),
            share,
            basis,
            nodes,
        }
    }
}
