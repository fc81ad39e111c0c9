//! From how many devices at once on the nodes differ, and what all devices of a machine can
//! transfer.

use super::expectation::{expect_bandwidth, BandwidthEvidence, BandwidthSubject};
use super::limits::device_limit;
use numaio_machine::devices::Device;
use numaio_machine::workload::Direction;
use numaio_schema::{BandwidthDifference, DeviceExpectation, DifferenceAtOnce, MachineExpectation};

const DIRECTIONS: [Direction; 2] = [Direction::Write, Direction::Read];

/// Returns what each device of a machine that carries data can transfer with buffers on each node,
/// and which devices of a node exceed a path only together.
pub fn expect_machine(evidence: BandwidthEvidence<'_>) -> MachineExpectation {
    let topology = evidence.topology;
    let of_node =
        |node| -> Vec<&Device> { topology.devices_on(node).filter(|device| device.carries_data()).collect() };
    let mut found = MachineExpectation::default();
    for devices in topology.nodes.iter().map(|node| of_node(node.id)) {
        for device in &devices {
            let name = device.distinct_name(&topology.devices);
            let of =
                |direction| expect_bandwidth(evidence, BandwidthSubject::of(device, &name), direction, &[]);
            found.devices.extend(DIRECTIONS.map(of));
        }
        let together = DIRECTIONS.into_iter().filter_map(|of| first_difference(evidence, &devices, of));
        found.at_once.extend(together.filter(|difference| difference.count > 1));
    }
    found
}

/// Returns from how many of a node's devices on the nodes differ in a direction; `None` if they
/// do not differ, or it is unknown.
pub fn first_difference(
    evidence: BandwidthEvidence<'_>,
    devices: &[&Device],
    direction: Direction,
) -> Option<DifferenceAtOnce> {
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
    Some(DifferenceAtOnce {
        node: all.node?,
        direction,
        devices: devices.iter().map(|device| device.distinct_name(&evidence.topology.devices)).collect(),
        count: count as u32,
        slowest,
        loss: 1.0 - of_best,
    })
}
