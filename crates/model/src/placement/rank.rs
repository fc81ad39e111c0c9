//! Ranking of nodes for a device, best first.

use super::latency::{class_of, measured_latency, target_latency};
use super::RankingSources;
use crate::device_bandwidth::{expect_bandwidth, BandwidthEvidence, BandwidthSubject};
use crate::model_selection::select_model;
use crate::views::{counter_views, ViewSubject};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{
    BandwidthDifference, Basis, CounterRecord, DeviceExpectation, Model, PlacementHint, PlacementRequest,
    PlacementTarget, RankedNode, TargetLatency, View,
};
use std::collections::BTreeMap;

/// The nodes as seen from a device.
pub(crate) struct Ranking {
    /// The source of the ranking.
    pub basis: Basis,
    /// The usable nodes, best first.
    pub nodes: Vec<RankedNode>,
    /// The device's bandwidth from each node, by direction.
    pub expected: Vec<DeviceExpectation>,
    /// Measured latency of each node.
    pub latency: Option<TargetLatency>,
}

/// Ranks the usable nodes for a device.
pub(super) fn nodes(
    topology: &Topology,
    subject: BandwidthSubject<'_>,
    sources: RankingSources,
    request: &PlacementRequest,
    usable: &NodeSet,
) -> Ranking {
    let Some(target) = subject.node else {
        return Ranking { basis: Basis::Nothing, nodes: alike(usable), expected: Vec::new(), latency: None };
    };
    let expected = expectations(topology, subject, sources, request.direction);
    let latency = measured_latency(topology, subject, sources.latencies);
    let by_bandwidth = rank_by_bandwidth(target, sources.models, &expected, usable);
    let by_factors = || sources.counters.and_then(|record| rank_by_factors(target, record, usable));
    let wanted = match request.hint {
        PlacementHint::Latency => latency.as_ref().and_then(|view| rank_by_latency(view, usable)),
        PlacementHint::Bandwidth | PlacementHint::Cpu => by_bandwidth.clone().or_else(by_factors),
    };
    let (basis, mut nodes) = wanted.unwrap_or_else(|| {
        let known = by_bandwidth.map(|(_, nodes)| nodes);
        (Basis::Topology, rank_by_topology(topology, target, usable, known))
    });
    sort_nodes(&mut nodes, topology, target, is_equal(&expected), latency.as_ref());
    if request.hint == PlacementHint::Cpu {
        reverse_for_cpu(&mut nodes);
    }
    Ranking { basis, nodes, expected, latency: latency.as_ref().map(target_latency) }
}

/// Returns the bandwidth of a device: in both directions, unless one is requested.
fn expectations(
    topology: &Topology,
    subject: BandwidthSubject<'_>,
    sources: RankingSources,
    direction: Option<Direction>,
) -> Vec<DeviceExpectation> {
    let evidence = BandwidthEvidence { topology, models: sources.models, records: sources.records };
    let wanted = direction.map_or(vec![Direction::Write, Direction::Read], |direction| vec![direction]);
    let of = |direction| expect_bandwidth(evidence, subject, direction, sources.beside);
    wanted.into_iter().map(of).collect()
}

/// Whether no node is better for the device's bandwidth, in any direction that is expected.
pub(super) fn is_equal(expected: &[DeviceExpectation]) -> bool {
    !expected.is_empty() && expected.iter().all(|of| of.difference == BandwidthDifference::None)
}

/// Ranks all nodes equally, without information.
fn alike(usable: &NodeSet) -> Vec<RankedNode> {
    usable.iter().map(|node| RankedNode { node, rank: 1, of_best: None }).collect()
}

/// Ranks by the classes of the device's bandwidth: for both directions the worse counts. `None` if
/// a direction is unknown.
fn rank_by_bandwidth(
    target: NodeId,
    models: &[&Model],
    expected: &[DeviceExpectation],
    usable: &NodeSet,
) -> Option<(Basis, Vec<RankedNode>)> {
    if expected.iter().any(|of| of.nodes.is_empty()) {
        return None;
    }
    let measured: Option<Vec<u64>> = expected.iter().map(DeviceExpectation::measured_at).collect();
    let modelled = |of: &DeviceExpectation| {
        let model = select_model(models.iter().copied(), target, &[of.direction]);
        model.map(|model| model.record.provenance.measured_at)
    };
    let basis = match measured.and_then(|times| times.into_iter().min()) {
        Some(measured_at) => Basis::Device { measured_at },
        None => Basis::Model { measured_at: expected.iter().filter_map(modelled).min()? },
    };
    let nodes = usable.iter().map(|node| {
        let classes: Option<Vec<u32>> = expected.iter().map(|of| Some(of.of(node)?.class)).collect();
        let shares = expected.iter().filter_map(|of| of.of_best(node));
        match classes.and_then(|classes| classes.into_iter().max()) {
            Some(rank) => RankedNode { node, rank, of_best: shares.min_by(f64::total_cmp) },
            // Unmeasured nodes follow all measured ones.
            None => RankedNode { node, rank: u32::MAX, of_best: None },
        }
    });
    Some((basis, close_gaps(nodes.collect())))
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
    class_of(&view, target)?;
    let measured_at = record.provenance.measured_at;
    Some((Basis::SchedulingFactor { measured_at }, rank_by_view(&view, usable)))
}

/// Ranks by the classes of a measured latency. `None` if fewer than two usable nodes have a value.
fn rank_by_latency(view: &View, usable: &NodeSet) -> Option<(Basis, Vec<RankedNode>)> {
    let known = usable.iter().filter(|node| class_of(view, *node).is_some()).count();
    (known > 1).then(|| (Basis::Latency { measured_at: view.measured_at }, rank_by_view(view, usable)))
}

/// Ranks by the classes of a view; nodes without a value follow all others.
fn rank_by_view(view: &View, usable: &NodeSet) -> Vec<RankedNode> {
    let ranked = |node| RankedNode { node, rank: class_of(view, node).unwrap_or(u32::MAX), of_best: None };
    close_gaps(usable.iter().map(ranked).collect())
}

/// Name of the view of a node's CPUs with each memory node.
const CPU_CENTRIC_FACTORS: &str = "scheduling-factor-cpu-centric";

/// Ranks without a model, or for latency: the target, its package, then by hop distance.
fn rank_by_topology(
    topology: &Topology,
    target: NodeId,
    usable: &NodeSet,
    modelled: Option<Vec<RankedNode>>,
) -> Vec<RankedNode> {
    let neighbors = topology.neighbors(target);
    let distance = |node| topology.distances.as_ref().and_then(|distances| distances.between(target, node));
    let near = |node: NodeId| match () {
        () if node == target => 0,
        () if neighbors.contains(node) => 1,
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

/// Sorts by rank, bandwidth, the target itself, distance and ID, best first. Where the bandwidth
/// `is_equal`, measured latency takes its place.
fn sort_nodes(
    nodes: &mut [RankedNode],
    topology: &Topology,
    target: NodeId,
    is_equal: bool,
    latency: Option<&View>,
) {
    let share = |node: &RankedNode| match is_equal {
        true => -f64::from(latency.and_then(|view| class_of(view, node.node)).unwrap_or(0)),
        false => node.of_best.unwrap_or(0.0),
    };
    let distance = |node| topology.distances.as_ref().and_then(|distances| distances.between(target, node));
    nodes.sort_by(|one, other| {
        let better = share(other).total_cmp(&share(one));
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
