//! From how many devices at once on the nodes differ.

use super::expectation::{expect_bandwidth, BandwidthEvidence, BandwidthSubject};
use super::limits::device_limit;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
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
    let (slowest, of_best) = all.slowest()?;
    Some(FirstDifference {
        devices: devices.iter().map(|device| device.name()).collect(),
        count,
        slowest,
        loss: 1.0 - of_best,
    })
}
