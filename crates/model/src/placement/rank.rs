//! Ranking of nodes for a device, best first.

use super::RankingSources;
use crate::model_selection::{of_target, select_model};
use crate::views::{counter_views, ViewSubject};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{
    Basis, CounterRecord, DirectionModel, Model, PlacementHint, PlacementRequest, PlacementTarget,
    RankedNode, RejectedNode, TaskPlacement,
};
use std::collections::BTreeMap;

/// Ranks the usable nodes for a device on `target`, with the basis of the ranking.
pub(super) fn nodes(
    topology: &Topology,
    target: NodeId,
    sources: RankingSources,
    request: &PlacementRequest,
    usable: &NodeSet,
) -> (Basis, Vec<RankedNode>) {
    let modelled = rank_by_models(target, sources.models, request.direction, usable);
    let by_factors = || sources.counters.and_then(|record| rank_by_factors(target, record, usable));
    let wants_bandwidth = request.hint != PlacementHint::Latency;
    let known = modelled.clone().or_else(by_factors).filter(|_| wants_bandwidth);
    let (basis, mut nodes) = match (known, modelled) {
        (Some(known), _) => known,
        (_, modelled) => {
            (Basis::Topology, rank_by_topology(topology, target, usable, modelled.map(|(_, nodes)| nodes)))
        }
    };
    sort_nodes(&mut nodes, topology, target);
    if request.hint == PlacementHint::Cpu {
        reverse_for_cpu(&mut nodes);
    }
    (basis, nodes)
}

/// Ranks all nodes equally, without information.
pub(super) fn alike(usable: &NodeSet) -> Vec<RankedNode> {
    usable.iter().map(|node| RankedNode { node, rank: 1, of_best: None }).collect()
}

/// Ranks by the classes of a model: for both directions, unless one is requested, the worse counts.
fn rank_by_models(
    target: NodeId,
    models: &[&Model],
    direction: Option<Direction>,
    usable: &NodeSet,
) -> Option<(Basis, Vec<RankedNode>)> {
    let wanted = match direction {
        Some(direction) => vec![direction],
        None => vec![Direction::Write, Direction::Read],
    };
    let mut found: Vec<(&Model, &DirectionModel)> = Vec::new();
    for direction in wanted {
        let counts = select_model(models.iter().copied(), target, &[direction])?;
        let model = of_target(counts, target).find(|model| model.direction == direction)?;
        found.push((counts, model));
    }
    let measured_at = found.iter().map(|(model, _)| model.record.provenance.measured_at).min()?;
    let nodes = usable.iter().map(|node| {
        let seen: Option<Vec<(u32, f64)>> =
            found.iter().map(|(_, model)| class_in_model(model, node)).collect();
        let worst = |seen: Vec<(u32, f64)>| {
            let rank = seen.iter().map(|(rank, _)| *rank).max();
            (rank.unwrap_or(u32::MAX), seen.into_iter().map(|(_, share)| share).fold(f64::INFINITY, f64::min))
        };
        match seen.map(worst) {
            Some((rank, of_best)) => RankedNode { node, rank, of_best: Some(of_best) },
            // Unmeasured nodes follow all measured ones.
            None => RankedNode { node, rank: u32::MAX, of_best: None },
        }
    });
    Some((Basis::Model { measured_at }, close_gaps(nodes.collect())))
}

/// Ranks by the classes of the scheduling factors of the target's CPUs with each memory node: the
/// device's DMA takes the same path. `None` if the target or all other nodes lack a factor.
fn rank_by_factors(
    target: NodeId,
    record: &CounterRecord,
    usable: &NodeSet,
) -> Option<(Basis, Vec<RankedNode>)> {
    let machine = record.provenance.machine.fingerprint.as_str();
    let subject = ViewSubject { machine, target, level: crate::ClassOptions::default().level };
    let view = counter_views(record, &subject)
        .into_iter()
        .find(|view| view.name == CPU_CENTRIC_FACTORS && view.nodes.len() > 1)?;
    let rank = |node: NodeId| view.classes.iter().position(|class| class.nodes.contains(node));
    rank(target)?;
    let ranked = |node: NodeId| RankedNode {
        node,
        // Nodes without a factor follow all others.
        rank: rank(node).map_or(u32::MAX, |rank| rank as u32 + 1),
        of_best: None,
    };
    let measured_at = record.provenance.measured_at;
    Some((Basis::SchedulingFactor { measured_at }, close_gaps(usable.iter().map(ranked).collect())))
}

/// Name of the view of a node's CPUs with each memory node.
const CPU_CENTRIC_FACTORS: &str = "scheduling-factor-cpu-centric";

/// Returns a node's class and its bandwidth relative to the best node's.
fn class_in_model(model: &DirectionModel, node: NodeId) -> Option<(u32, f64)> {
    let class = level(model, node)?;
    let best = model.nodes.iter().map(|node| node.bytes_copied_per_s).fold(0.0, f64::max);
    let own = model.nodes.iter().find(|one| one.node == node)?.bytes_copied_per_s;
    (best > 0.0).then_some((class, own / best))
}

/// Returns a node's class by bandwidth. The rule `paper` puts the target's package first regardless
/// of its values; tasks are placed by measured values, so the classes are sorted by their means.
fn level(model: &DirectionModel, node: NodeId) -> Option<u32> {
    let own = model.classes.iter().find(|class| class.nodes.contains(node))?;
    let better =
        model.classes.iter().filter(|class| class.mean_bytes_copied_per_s > own.mean_bytes_copied_per_s);
    u32::try_from(better.count()).ok().map(|better| better + 1)
}

/// Ranks without a model, or for latency: the target, its package, then by hop distance.
fn rank_by_topology(
    topology: &Topology,
    target: NodeId,
    usable: &NodeSet,
    modelled: Option<Vec<RankedNode>>,
) -> Vec<RankedNode> {
    let neighbours = topology.neighbours(target);
    let distance = |node| topology.distances.as_ref().and_then(|distances| distances.between(target, node));
    let near = |node: NodeId| match () {
        () if node == target => 0,
        () if neighbours.contains(node) => 1,
        () => distance(node).unwrap_or(u32::MAX).max(2),
    };
    let shares: BTreeMap<NodeId, Option<f64>> =
        modelled.into_iter().flatten().map(|node| (node.node, node.of_best)).collect();
    let of_best = |node| shares.get(&node).copied().flatten();
    close_gaps(
        usable.iter().map(|node| RankedNode { node, rank: near(node), of_best: of_best(node) }).collect(),
    )
}

/// Renumbers ranks to 1, 2, 3 in the same order.
fn close_gaps(mut nodes: Vec<RankedNode>) -> Vec<RankedNode> {
    let mut ranks: Vec<u32> = nodes.iter().map(|node| node.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    for node in &mut nodes {
        node.rank = ranks.binary_search(&node.rank).map_or(u32::MAX, |index| index as u32 + 1);
    }
    nodes
}

/// Sorts by rank, bandwidth, the target itself, distance and ID, best first.
fn sort_nodes(nodes: &mut [RankedNode], topology: &Topology, target: NodeId) {
    let distance = |node| topology.distances.as_ref().and_then(|distances| distances.between(target, node));
    nodes.sort_by(|one, other| {
        let better = other.of_best.unwrap_or(0.0).total_cmp(&one.of_best.unwrap_or(0.0));
        let local = (other.node == target).cmp(&(one.node == target));
        let near = distance(one.node).unwrap_or(u32::MAX).cmp(&distance(other.node).unwrap_or(u32::MAX));
        one.rank.cmp(&other.rank).then(better).then(local).then(near).then(one.node.cmp(&other.node))
    });
}

/// Reverses the order for compute-only tasks: they get the nodes that are worst for the device.
/// Nodes without value in the model stay last, since they may be good for the device; a ranking by
/// topology has no values.
fn reverse_for_cpu(nodes: &mut [RankedNode]) {
    let measured = nodes.iter().filter(|node| node.of_best.is_some()).count();
    let turned = if measured == 0 { nodes } else { &mut nodes[..measured] };
    let last = turned.iter().map(|node| node.rank).max().unwrap_or(0);
    turned.iter_mut().for_each(|node| node.rank = last + 1 - node.rank);
    turned.reverse();
}

/// Ranks nodes for several devices together: by the mean bandwidth relative to each device's best,
/// weighted by the devices' shares, and ascending for compute-only tasks. By the mean rank where a
/// device has no values or latency counts.
pub(super) fn combine_targets(targets: &[PlacementTarget], hint: PlacementHint) -> Vec<RankedNode> {
    let [first, rest @ ..] = targets else { return Vec::new() };
    if rest.iter().all(|target| target.nodes == first.nodes) {
        return first.nodes.clone();
    }
    let of = |target: &PlacementTarget, node: NodeId| {
        target.nodes.iter().find(|ranked| ranked.node == node).cloned()
    };
    let mean = |node: NodeId| -> (f64, Option<f64>) {
        let seen = || targets.iter().filter_map(|target| Some((target.share, of(target, node)?)));
        let rank = seen().map(|(share, ranked)| share * f64::from(ranked.rank)).sum();
        let bandwidth: Option<f64> = seen().map(|(share, ranked)| Some(share * ranked.of_best?)).sum();
        (rank, bandwidth)
    };
    let known = first.nodes.iter().all(|node| mean(node.node).1.is_some());
    let mut nodes: Vec<(f64, RankedNode)> = first
        .nodes
        .iter()
        .map(|ranked| {
            let (rank, of_best) = mean(ranked.node);
            let loss = match (of_best.filter(|_| known), hint) {
                (Some(of_best), PlacementHint::Bandwidth) => 1.0 - of_best,
                (Some(of_best), PlacementHint::Cpu) => of_best,
                _ => rank,
            };
            (loss, RankedNode { node: ranked.node, rank: 0, of_best: of_best.filter(|_| known) })
        })
        .collect();
    nodes.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.node.cmp(&other.1.node)));
    let (mut rank, mut level) = (0, f64::NEG_INFINITY);
    for (loss, node) in &mut nodes {
        if *loss > level + SAME_LEVEL {
            (rank, level) = (rank + 1, *loss);
        }
        node.rank = rank;
    }
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// Mean losses within this difference are equal.
const SAME_LEVEL: f64 = 0.02;

/// Explains why nodes were chosen and others were not.
pub(super) fn explain(
    targets: &[PlacementTarget],
    tasks: &[TaskPlacement],
    usable: &NodeSet,
    request: &PlacementRequest,
) -> (Vec<String>, Vec<RejectedNode>) {
    let used = tasks.iter().fold(NodeSet::new(), |all, task| all.union(&task.cpu_nodes));
    let reasons = targets.iter().map(|target| reason(target, request)).collect();
    let combine_targets = combine_targets(targets, request.hint);
    let rejected = usable.difference(&used);
    let why = |node: NodeId| {
        let ranked = combine_targets.iter().find(|ranked| ranked.node == node);
        match ranked.and_then(|ranked| Some((ranked.rank, ranked.of_best?))) {
            _ if targets.iter().any(|target| unmeasured(target).contains(node)) => {
                "not measured by the model".to_owned()
            }
            _ if request.hint == PlacementHint::Cpu => "left to tasks that use the device".to_owned(),
            Some((1, _)) => "as good as the chosen nodes, but not needed".to_owned(),
            Some((rank, of_best)) => {
                format!("class {rank}: {:.0} % of the best node's bandwidth", of_best * 100.0)
            }
            None => ranked.map_or_else(
                || "unknown".to_owned(),
                |ranked| match ranked.rank {
                    1 => "as good as the chosen nodes, but not needed".to_owned(),
                    rank => format!("farther from the device (step {rank})"),
                },
            ),
        }
    };
    (reasons, rejected.iter().map(|node| RejectedNode { node, why: why(node) }).collect())
}

/// Returns the nodes without value in the model that ranks a target's nodes.
fn unmeasured(target: &PlacementTarget) -> NodeSet {
    let modelled = matches!(target.basis, Basis::Model { .. });
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

fn reason(target: &PlacementTarget, request: &PlacementRequest) -> String {
    let best: NodeSet = target.nodes.iter().filter(|node| node.rank == 1).map(|node| node.node).collect();
    let direction = request.direction.map_or("both directions", Direction::name);
    let device = &target.device;
    match (&target.basis, request.hint) {
        (Basis::Nothing, _) => format!("{device}: its node is unknown"),
        (_, PlacementHint::Cpu) => format!("{device}: nodes {best} matter least to its bandwidth"),
        (Basis::Model { .. }, _) if best.len() == 1 => {
            format!("{device}: node {best} has the highest bandwidth in the model ({direction})")
        }
        (Basis::Model { .. }, _) => {
            format!("{device}: nodes {best} have the highest bandwidth in the model ({direction})")
        }
        (Basis::SchedulingFactor { .. }, _) => format!(
            "{device}: nodes {best} have the best scheduling factor (counters); their bandwidth is unknown \
             (numaio model measures it)"
        ),
        (Basis::Topology, PlacementHint::Latency) => {
            format!("{device}: node {best} has the shortest path to it")
        }
        (Basis::Topology, _) => format!(
            "{device}: by topology alone, node {best} is nearest; without a model this is a guess \
             (numaio model measures it)"
        ),
    }
}
