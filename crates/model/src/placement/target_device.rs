//! A device near which tasks are placed.

use super::Ranking;
use crate::device_bandwidth::BandwidthSubject;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_schema::PlacementTarget;

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
    /// Whether the kernel does not promise its share of the handle's I/O.
    pub has_unknown_share: bool,
}

impl TargetDevice {
    /// Returns the device as one whose bandwidth is asked for.
    pub(crate) fn subject<'a>(&'a self, topology: &'a Topology) -> BandwidthSubject<'a> {
        let device = topology.devices.iter().find(|device| device.has_name(&self.device));
        BandwidthSubject::new(&self.device, self.node, device)
    }

    /// Returns the device as a target of a plan, with its share of the tasks and its ranked nodes.
    pub(crate) fn target(&self, share: f64, ranking: Ranking) -> PlacementTarget {
        PlacementTarget {
            handle: self.handle.clone(),
            chain: self.chain.clone(),
            device: self.device.clone(),
            node: self.node,
            irq_cpus: self.irq_cpus.clone(),
            share,
            basis: ranking.basis,
            nodes: ranking.nodes,
            expected: ranking.expected,
            latency: ranking.latency,
        }
    }
}
