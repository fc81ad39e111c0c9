//! The reasons of a placement, as text.

use super::rank::{combine_targets, is_equal};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::workload::Direction;
use numaio_schema::{
    BandwidthDifference, Basis, DeviceExpectation, PlacementHint, PlacementRequest, PlacementTarget,
    RejectedNode, TaskPlacement, UnknownDifference,
};

/// Explains why nodes were chosen and others were not.
pub(super) fn explain(
    targets: &[PlacementTarget],
    tasks: &[TaskPlacement],
    usable: &NodeSet,
    request: &PlacementRequest,
) -> (Vec<String>, Vec<RejectedNode>) {
    let used = tasks.iter().fold(NodeSet::new(), |all, task| all.union(&task.cpu_nodes));
    let reasons = targets.iter().flat_map(|target| reasons(target, request)).collect();
    let combined = combine_targets(targets, request.hint);
    let rejected = usable.difference(&used);
    let by_latency = targets.iter().any(|target| matches!(target.basis, Basis::Latency { .. }));
    let has_limits = targets.iter().flat_map(|target| &target.expected).all(has_limit);
    let of_what = if has_limits { "node's bandwidth" } else { "node's path" };
    let why = |node: NodeId| {
        let ranked = combined.iter().find(|ranked| ranked.node == node);
        match ranked.and_then(|ranked| Some((ranked.rank, ranked.of_best?))) {
            _ if targets.iter().any(|target| unmeasured(target).contains(node)) => {
                "not measured by the model".to_owned()
            }
            _ if request.hint == PlacementHint::Cpu => "left to tasks that use the device".to_owned(),
            Some((1, _)) => "as good as the chosen nodes, but not needed".to_owned(),
            Some((rank, of_best)) => {
                format!("class {rank}: {:.0} % of the best {of_what}", of_best * 100.0)
            }
            None => ranked.map_or_else(
                || "unknown".to_owned(),
                |ranked| match ranked.rank {
                    1 => "as good as the chosen nodes, but not needed".to_owned(),
                    rank if by_latency => format!("class {rank} of latency"),
                    rank => format!("farther from the device (step {rank})"),
                },
            ),
        }
    };
    (reasons, rejected.iter().map(|node| RejectedNode { node, reason: why(node) }).collect())
}

/// Returns the nodes without value in the model that ranks a target's nodes.
fn unmeasured(target: &PlacementTarget) -> NodeSet {
    let modelled = matches!(target.basis, Basis::Model { .. } | Basis::Device { .. });
    let without = target.nodes.iter().filter(|node| modelled && node.of_best.is_none());
    without.map(|node| node.node).collect()
}

/// Returns notes about models that lack nodes, as interrupted ones do.
pub(super) fn incomplete(targets: &[PlacementTarget]) -> Vec<String> {
    let of = |target: &PlacementTarget| {
        let (node, unmeasured) = (target.node?, unmeasured(target));
        (!unmeasured.is_empty()).then(|| {
            format!(
                "{}: the model of its node is incomplete: it has no value for {}, ranked last; numaio model --node {node} \
                 measures all",
                target.device,
                format_nodes(&unmeasured)
            )
        })
    };
    targets.iter().filter_map(of).collect()
}

/// Returns the reason for the best nodes, then what is expected of the device by direction.
fn reasons(target: &PlacementTarget, request: &PlacementRequest) -> Vec<String> {
    let device = &target.device;
    let clauses = target.expected.iter().filter(|of| is_worth_a_line(of));
    let clauses = clauses.map(|of| format!("{device}: {}", of.clause()));
    let mut lines: Vec<String> = std::iter::once(reason(target, request)).chain(clauses).collect();
    lines.dedup();
    lines
}

/// Whether the values of an expectation are of its device, not only of its paths.
fn has_limit(of: &DeviceExpectation) -> bool {
    !matches!(of.difference, BandwidthDifference::Unknown { reason: UnknownDifference::LimitUnknown })
}

/// Whether an expectation adds to the reason for the best nodes: not without a model.
fn is_worth_a_line(of: &DeviceExpectation) -> bool {
    !matches!(of.difference, BandwidthDifference::Unknown { reason: UnknownDifference::PathsNotMeasured })
}

fn reason(target: &PlacementTarget, request: &PlacementRequest) -> String {
    let best: NodeSet = target.nodes.iter().filter(|node| node.rank == 1).map(|node| node.node).collect();
    let direction = request.direction.map_or("both directions", Direction::name);
    let device = &target.device;
    let have = if best.len() == 1 { "has" } else { "have" };
    let nodes = format_nodes(&best);
    match (&target.basis, request.hint) {
        (Basis::Nothing, _) => format!("{device}: its node is unknown"),
        (Basis::Model { .. } | Basis::Device { .. }, _) if is_equal(&target.expected) => {
            let remains = target.latency.as_ref().map_or_else(
                || "latency and interrupts favor near nodes".to_owned(),
                |latency| latency.clause().unwrap_or_else(|| "interrupts favor near nodes".to_owned()),
            );
            format!("{device}: every node gives it the same bandwidth ({direction}); {remains}")
        }
        (_, PlacementHint::Cpu) => format!("{device}: {nodes} matter least to its bandwidth"),
        (Basis::Device { .. }, _) => {
            format!("{device}: {nodes} {have} the highest bandwidth measured with it ({direction})")
        }
        (Basis::Model { .. }, _) => {
            format!("{device}: {nodes} {have} the highest bandwidth in the model ({direction})")
        }
        (Basis::SchedulingFactor { .. }, _) => format!(
            "{device}: nodes {best} have the best scheduling factor (counters); their bandwidth is unknown \
             (numaio model measures it)"
        ),
        (Basis::Latency { .. }, _) => {
            let source = target.latency.as_ref().map_or("", |latency| latency.source.as_str());
            format!("{device}: {nodes} {have} the lowest measured latency ({source})")
        }
        (Basis::Topology, PlacementHint::Latency) => format!(
            "{device}: node {best} is nearest by hop distance; latency was not measured (numaio latency, \
             or numaio bench mmio --device {device})"
        ),
        (Basis::Topology, _) => format!(
            "{device}: by topology alone, node {best} is nearest; without a model this is a guess \
             (numaio model measures it)"
        ),
    }
}
