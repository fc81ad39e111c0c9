//! How fast a device is with buffers on each node, by measured I/O or by copies.

use crate::{capacities, CapacityInputs};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{Capacities, IoRecord, Model, NodeCapacity, SharingModel};
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

/// Returns the rates of a device on a node, for traffic of which `read_share` is device reads.
///
/// Measured I/O (`records` of the device, newest first) precedes copies (`models` of the machine).
/// A direction with at least 1 % of the traffic must be known.
pub fn device_rates(
    node: NodeId,
    read_share: f64,
    models: &[&Model],
    records: &[&IoRecord],
    memory_only: &NodeSet,
) -> DeviceRates {
    let shares = [(Direction::Read, read_share), (Direction::Write, 1.0 - read_share)];
    let shares: Vec<(Direction, f64)> = shares.into_iter().filter(|(_, share)| *share >= 0.01).collect();
    let model = models.iter().find(|model| model.targets.iter().any(|target| target.target == node)).copied();
    let inputs = |direction| CapacityInputs {
        records,
        model,
        link_bytes_per_s: None,
        direction,
        operation: None,
        memory_only,
    };
    let measured = |direction| capacities(&inputs(direction), &[]).ok().map(|fit| fit.capacities);
    let of_io = |direction| measured(direction).map(|found| rates_of_nodes(&found)).unwrap_or_default();
    let of_copies = |direction| copied_rates(node, direction, models);
    if let Some(by_node) = combine(&shares, of_io) {
        // The cap of a mix of directions is not measured.
        let only = (shares.len() == 1).then(|| shares.first()).flatten();
        let cap_bytes_per_s = only.and_then(|(direction, _)| cap(&measured(*direction)?));
        return DeviceRates { by_node, is_measured: true, cap_bytes_per_s };
    }
    let by_node = combine(&shares, of_copies).unwrap_or_default();
    DeviceRates { by_node, is_measured: false, cap_bytes_per_s: None }
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

/// Returns the highest measured rate of each node.
fn rates_of_nodes(found: &Capacities) -> BTreeMap<NodeId, f64> {
    let of_node = |node: &NodeCapacity| {
        let rates = node.streams.iter().map(|streams| streams.estimate.bytes_per_s);
        (node.node, rates.fold(0.0, f64::max))
    };
    found.nodes.iter().map(of_node).collect()
}

/// Returns the cap of the device, if mixes were measured and most probably nodes share only a cap.
///
/// A wrong model costs an ineffective move, after which the program stays longer.
fn cap(found: &Capacities) -> Option<f64> {
    let probable = found.sharing.first()?;
    let is_capped = probable.model == SharingModel::Bytes;
    let cap = probable.parameters.iter().find(|parameter| parameter.name == "cap")?;
    (is_capped && found.fitted_mixes > 0).then_some(cap.value)
}

/// Returns the mean rate of each node's class, so that noise within a class moves nothing.
fn copied_rates(node: NodeId, direction: Direction, models: &[&Model]) -> BTreeMap<NodeId, f64> {
    let targets = models.iter().flat_map(|model| &model.targets).filter(|target| target.target == node);
    let mut directions = targets.flat_map(|target| &target.directions);
    let Some(found) = directions.find(|found| found.direction == direction) else { return BTreeMap::new() };
    let classes = found.classes.iter();
    classes.flat_map(|class| class.nodes.iter().map(|node| (node, class.mean_bytes_copied_per_s))).collect()
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

    #[test]
    fn unmeasured_device_has_no_rates() {
        assert_eq!(device_rates(NodeId(0), 1.0, &[], &[], &NodeSet::new()), DeviceRates::default());
    }
}
