//! Devices that transfer at the same time, and what each gets of the paths that they share.

use super::expectation::{expect_bandwidth, BandwidthEvidence, BandwidthSubject};
use super::limits::device_limit;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{BandwidthDifference, DeviceExpectation};

/// From how many devices of a node on the nodes differ.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstDifference {
    /// The devices of the node, the fastest first.
    pub devices: Vec<String>,
    /// The number of devices at once from which on a node is slower.
    pub count: usize,
    /// The node that is slowest if all transfer at once.
    pub slowest: NodeId,
    /// Its loss then, as a share of the best node's bandwidth.
    pub loss: f64,
}

/// Returns the other devices on a device's node that carry data.
pub fn devices_beside<'a>(topology: &'a Topology, device: &Device) -> Vec<&'a Device> {
    let Some(node) = device.locality.node else { return Vec::new() };
    topology.devices_on(node).filter(|other| other.carries_data() && other.path != device.path).collect()
}

/// Returns from how many of a node's devices on the nodes differ in a direction; `None` if they
/// do not differ, or it is unknown.
pub fn first_difference(
    evidence: BandwidthEvidence<'_>,
    devices: &[&Device],
    direction: Direction,
) -> Option<FirstDifference> {
    let limit = |device| device_limit(evidence.topology, device, evidence.records, direction).bytes_per_s();
    let mut known: Vec<(f64, &Device)> =
        devices.iter().filter_map(|device| Some((limit(device)?, *device))).collect();
    known.sort_by(|one, other| other.0.total_cmp(&one.0));
    let devices: Vec<&Device> = known.into_iter().map(|(_, device)| device).collect();
    let of_first = |count: usize| -> Option<DeviceExpectation> {
        let (device, beside) = devices.get(..count)?.split_first()?;
        Some(expect_bandwidth(evidence, BandwidthSubject::of(device, &device.name()), direction, beside))
    };
    let differs =
        |count: &usize| of_first(*count).is_some_and(|found| found.difference == BandwidthDifference::Some);
    let count = (1..=devices.len()).find(differs)?;
    let all = of_first(devices.len())?;
    let slowest = all.nodes.iter().min_by(|one, other| one.bytes_per_s.total_cmp(&other.bytes_per_s))?.node;
    Some(FirstDifference {
        devices: devices.iter().map(|device| device.name()).collect(),
        count,
        slowest,
        loss: 1.0 - all.of_best(slowest)?,
    })
}

/// Lowers the limits of devices that share the link of a bridge to their fair shares of it.
pub(super) fn below_bridges(topology: &Topology, devices: &[&Device], mut limits: Vec<f64>) -> Vec<f64> {
    for bridge in &topology.devices {
        let (Some(pci), Some(link)) = (bridge.pci, bridge.link) else { continue };
        let below: Vec<usize> =
            (0..devices.len()).filter(|at| devices[*at].upstream.contains(&pci)).collect();
        if below.len() > 1 {
            let demands: Vec<f64> = below.iter().map(|at| limits[*at]).collect();
            let shares = fair_shares(link.max_data_bytes_per_s(), &demands);
            below.into_iter().zip(shares).for_each(|(at, share)| limits[at] = share);
        }
    }
    limits
}

/// Divides a capacity among demands max-min fairly: none gets more than it demands, and what small
/// ones leave goes to the others evenly.
pub(super) fn fair_shares(capacity: f64, demands: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by(|one, other| demands[*one].total_cmp(&demands[*other]));
    let (mut left, mut shares) = (capacity, vec![0.0; demands.len()]);
    for (served, index) in order.into_iter().enumerate() {
        shares[index] = demands[index].min(left / (demands.len() - served) as f64);
        left -= shares[index];
    }
    shares
}
