//! Weights for interleaving pages by bandwidth.

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::StreamOp;
use numaio_schema::{InterleaveWeights, NodeWeight, StreamRecord, StreamScope, INTERLEAVE_SCHEMA};
use std::collections::BTreeMap;

/// Maximum weight of the kernel.
const GREATEST: u32 = 255;
/// Accepted relative error of a node's share: larger weights make longer runs of pages on one node.
const TOLERANCE: f64 = 0.05;
/// Operations in order of preference.
const PREFERRED: [StreamOp; 4] = [StreamOp::Triad, StreamOp::Add, StreamOp::Copy, StreamOp::Scale];

/// Returns the interleave weights for a record's bandwidths: the smallest ones that give every node
/// its share of pages within 5 %, or the most accurate ones up to 255.
///
/// The bandwidths are those seen from the CPUs of `from`, or else from the CPUs that reach each
/// memory fastest, like the kernel's defaults from HMAT. Returns `None` if no node's threads were
/// measured, or no memory from there. Nodes of `left_out`, such as memory of GPUs, get no weight.
pub fn interleave_weights(
    record: &StreamRecord,
    from: Option<NodeId>,
    left_out: &NodeSet,
) -> Option<InterleaveWeights> {
    if record.method.scope == StreamScope::Core {
        return None;
    }
    let (op, bandwidths) = PREFERRED
        .into_iter()
        .map(|op| (op, bandwidths(record, op, from, left_out)))
        .find(|(_, found)| !found.is_empty())?;
    let weights = smallest(&bandwidths.values().copied().collect::<Vec<f64>>());
    let errors = errors(&bandwidths.values().copied().collect::<Vec<f64>>(), &weights);
    let nodes = bandwidths
        .into_iter()
        .zip(weights)
        .zip(errors)
        .map(|(((node, bytes_per_s), weight), error)| NodeWeight { node, bytes_per_s, weight, error });
    Some(InterleaveWeights {
        schema: INTERLEAVE_SCHEMA.to_owned(),
        machine: record.provenance.machine.fingerprint.clone(),
        op,
        from,
        nodes: nodes.collect(),
    })
}

fn bandwidths(
    record: &StreamRecord,
    op: StreamOp,
    from: Option<NodeId>,
    left_out: &NodeSet,
) -> BTreeMap<NodeId, f64> {
    let mut best: BTreeMap<NodeId, f64> = BTreeMap::new();
    let seen = record.cells.iter().filter(|cell| {
        cell.op == op && from.is_none_or(|node| node == cell.cpu_node) && !left_out.contains(cell.memory_node)
    });
    for (node, value) in seen.filter_map(|cell| Some((cell.memory_node, cell.bytes_per_s.median()?))) {
        let best = best.entry(node).or_insert(value);
        *best = best.max(value);
    }
    best
}

/// Returns the smallest weights within the tolerance, or else those with the least error.
fn smallest(bandwidths: &[f64]) -> Vec<u32> {
    let greatest = bandwidths.iter().copied().fold(0.0, f64::max);
    let scaled = |scale: u32| -> Vec<u32> {
        let weight = |value: &f64| ((value / greatest * f64::from(scale)).round() as u32).max(1);
        bandwidths.iter().map(weight).collect()
    };
    let worst =
        |weights: &Vec<u32>| errors(bandwidths, weights).into_iter().map(f64::abs).fold(0.0, f64::max);
    let all = || (1..=GREATEST).map(scaled);
    let good = all().find(|weights| worst(weights) <= TOLERANCE);
    good.or_else(|| all().min_by(|a, b| worst(a).total_cmp(&worst(b)))).unwrap_or_default()
}

/// Returns the relative error of each node's share of pages.
fn errors(bandwidths: &[f64], weights: &[u32]) -> Vec<f64> {
    let (all, pages) = (bandwidths.iter().sum::<f64>(), weights.iter().sum::<u32>());
    let share =
        |(bandwidth, weight): (&f64, &u32)| f64::from(*weight) / f64::from(pages) / (bandwidth / all) - 1.0;
    bandwidths.iter().zip(weights).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn returns_the_smallest_sufficient_weights() {
        assert_eq!(smallest(&[40e9, 40e9]), [1, 1]);
        assert_eq!(smallest(&[200e9, 50e9]), [4, 1]);
        assert_eq!(smallest(&[200e9, 201e9, 49e9]), [4, 4, 1]);
        assert_eq!(smallest(&[300e9, 200e9]), [3, 2]);
        assert_eq!(smallest(&[7e9]), [1]);
        assert_eq!(smallest(&[1e12, 1e9]), [255, 1], "limited by 255");
    }

    proptest! {
        #[test]
        fn shares_are_right_wherever_weights_reach(bandwidths in prop::collection::vec(10.0f64..200.0, 1..12)) {
            let weights = smallest(&bandwidths);
            prop_assert!(weights.iter().all(|weight| (1..=GREATEST).contains(weight)));
            let worst = errors(&bandwidths, &weights).into_iter().map(f64::abs).fold(0.0, f64::max);
            prop_assert!(worst <= TOLERANCE, "{worst} with {weights:?}");
        }
    }
}
