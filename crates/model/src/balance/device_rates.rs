//! How fast a device is with buffers on each node, for a balancer.

use crate::device_bandwidth::{expect_bandwidth, BandwidthEvidence, BandwidthSubject};
use crate::{capacities, select_model, CapacityInputs};
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{DeviceExpectation, IoRecord, SharingModel};
use std::collections::BTreeMap;

/// Rates of a device by node, in bytes per second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceRates {
    /// Rates of both directions, weighted by the traffic; empty without measurements.
    pub by_node: BTreeMap<NodeId, f64>,
    /// Whether they are measured I/O of the device, not copies.
    pub is_measured: bool,
    /// Total rate of all nodes together, from measured mixes; `None` if unknown.
    pub cap_bytes_per_s: Option<f64>,
}

/// Returns the rates of a device, for traffic of which `read_share` is device reads.
///
/// They are measured, or at most its limit and the paths, of which its nodes' ratios count. A
/// direction with at least 1 % of the traffic must be known.
pub fn device_rates(evidence: BandwidthEvidence<'_>, device: &Device, read_share: f64) -> DeviceRates {
    let shares = [(Direction::Read, read_share), (Direction::Write, 1.0 - read_share)];
    let shares: Vec<(Direction, f64)> = shares.into_iter().filter(|(_, share)| *share >= 0.01).collect();
    let name = device.name();
    let of = |(direction, _): &(Direction, f64)| {
        (*direction, expect_bandwidth(evidence, BandwidthSubject::of(device, &name), *direction, &[]))
    };
    let expected: BTreeMap<Direction, DeviceExpectation> = shares.iter().map(of).collect();
    let rates = |direction| expected.get(&direction).map(rates_of_classes).unwrap_or_default();
    let Some(by_node) = combine(&shares, rates) else { return DeviceRates::default() };
    let is_measured = expected.values().all(|of| of.measured_at().is_some());
    // The cap of a mix of directions is not measured.
    let only = shares.first().filter(|_| is_measured && shares.len() == 1);
    let cap_bytes_per_s = only.and_then(|(direction, _)| cap(evidence, device, *direction));
    DeviceRates { by_node, is_measured, cap_bytes_per_s }
}

/// Combines rates of directions: each byte takes its direction's time.
fn combine(
    shares: &[(Direction, f64)],
    rates_of: impl Fn(Direction) -> BTreeMap<NodeId, f64>,
) -> Option<BTreeMap<NodeId, f64>> {
    let rates: Vec<(f64, BTreeMap<NodeId, f64>)> =
        shares.iter().map(|(direction, share)| (*share, rates_of(*direction))).collect();
    let (_, first) = rates.first()?;
    let seconds = |node: &NodeId| -> Option<f64> {
        rates.iter().map(|(share, rates)| Some(share / rates.get(node).filter(|rate| **rate > 0.0)?)).sum()
    };
    let total: f64 = shares.iter().map(|(_, share)| share).sum();
    let combined: BTreeMap<NodeId, f64> =
        first.keys().filter_map(|node| Some((*node, total / seconds(node)?))).collect();
    (!combined.is_empty()).then_some(combined)
}

/// Returns the mean rate of each node's class, so that noise within a class moves nothing.
fn rates_of_classes(of: &DeviceExpectation) -> BTreeMap<NodeId, f64> {
    let mean = |class: &NodeSet| {
        let rates = class.iter().filter_map(|node| Some(of.of(node)?.bytes_per_s));
        rates.sum::<f64>() / class.len() as f64
    };
    let of_class = |class: NodeSet| {
        let mean = mean(&class);
        class.iter().map(|node| (node, mean)).collect::<Vec<_>>()
    };
    of.classes().into_iter().flat_map(of_class).collect()
}

/// Returns the cap of the device, if mixes were measured and most probably nodes share only a cap.
///
/// A wrong model costs an ineffective move, after which the program stays longer.
fn cap(evidence: BandwidthEvidence<'_>, device: &Device, direction: Direction) -> Option<f64> {
    let of_device: Vec<&IoRecord> =
        evidence.records.iter().filter(|record| device.has_name(&record.device.name)).copied().collect();
    let target = device.locality.node?;
    let inputs = CapacityInputs {
        records: &of_device,
        model: select_model(evidence.models.iter().copied(), target, &[direction]),
        link_bytes_per_s: None,
        direction,
        operation: None,
        memory_only: &evidence.topology.memory_only_nodes(),
    };
    let found = capacities(&inputs, &[]).ok()?.capacities;
    let probable = found.sharing.first()?;
    let is_capped = probable.model == SharingModel::Bytes;
    let cap = probable.parameters.iter().find(|parameter| parameter.name == "cap")?;
    (is_capped && found.fitted_mixes > 0).then_some(cap.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_combine_by_time() {
        let shares = [(Direction::Read, 0.5), (Direction::Write, 0.5)];
        let rates = |direction| match direction {
            Direction::Read => BTreeMap::from([(NodeId(0), 1e9), (NodeId(1), 4e9), (NodeId(2), 1e9)]),
            Direction::Write => BTreeMap::from([(NodeId(0), 1e9), (NodeId(1), 4e9 / 3.0)]),
        };
        let combined = combine(&shares, rates).expect("rates");
        assert_eq!(combined.len(), 2, "a node must be known in both directions");
        assert!((combined[&NodeId(0)] - 1e9).abs() < 1.0 && (combined[&NodeId(1)] - 2e9).abs() < 1.0);
        assert_eq!(combine(&shares, |_| BTreeMap::new()), None);
    }
}
