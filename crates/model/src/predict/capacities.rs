//! Fitting of capacities to measured I/O.

use super::curve;
use super::error::PredictError;
use super::mix::{estimate, mean_of_streams, merged};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{
    CapSource, Capacities, Class, DirectionModel, Estimate, IoCell, IoRecord, Model, NodeCapacity,
    NodeStreams, Reading, Sharing, StreamsCapacity,
};
use std::collections::BTreeMap;

/// Inputs of the fit.
#[derive(Debug, Clone, Copy)]
pub struct CapacityInputs<'a> {
    /// Records of one device by one engine, newest first; the newest of repeated measurements
    /// counts.
    pub records: &'a [&'a IoRecord],
    /// Model of the machine, which contains the classes of nodes.
    pub model: Option<&'a Model>,
    /// Bandwidth of the device's PCI Express link per direction, in bytes per second.
    pub link_bytes_per_s: Option<f64>,
    /// Device write or device read.
    pub direction: Direction,
    /// Operation of the device, or `None` for the first measured one.
    pub operation: Option<&'a str>,
}

/// Measured streams with local buffers, at the engine's best block size.
struct Cells<'a> {
    operation: Option<&'a str>,
    block_bytes: u64,
    /// Bandwidth by node and number of streams, for streams of one node.
    single: BTreeMap<(NodeId, u32), Estimate>,
    /// Bandwidth of mixes, newest first.
    mixes: Vec<(Vec<NodeStreams>, Estimate)>,
}

/// Fits the bandwidth of each node alone, the device's cap, and how nodes share the device.
///
/// An unmeasured node has the values of its class's representative, with an interval widened by the
/// spread of the class in the copy model. The cap is the bandwidth of the most crowded mix, if that
/// is less than the sum of its nodes alone, and at least the highest bandwidth measured. `but` is a
/// mix to exclude: the mix to predict.
/// # Errors
/// [`PredictError::NothingMeasured`].
pub fn capacities(basis: &CapacityInputs, but: &[NodeStreams]) -> Result<Capacities, PredictError> {
    let nothing = || PredictError::NothingMeasured { direction: basis.direction };
    let cells = cells(basis, &merged(but)).ok_or_else(nothing)?;
    let newest = basis.records.first().ok_or_else(nothing)?;
    let greatest = cells.single.values().copied().reduce(greater).ok_or_else(nothing)?;
    let mut capacities = Capacities {
        device: newest.device.name.clone(),
        node: newest.device.node,
        engine: newest.method.engine,
        direction: basis.direction,
        operation: cells.operation.map(str::to_owned),
        block_bytes: cells.block_bytes,
        nodes: nodes(basis, &cells),
        cap: greatest,
        cap_source: CapSource::Assumed,
        link_bytes_per_s: basis.link_bytes_per_s,
        sharing: Sharing::MaxMin,
    };
    fit_sharing(&mut capacities, &cells.mixes);
    Ok(capacities)
}

fn plus(a: Estimate, b: Estimate) -> Estimate {
    Estimate { bytes_per_s: a.bytes_per_s + b.bytes_per_s, low: a.low + b.low, high: a.high + b.high }
}

fn greater(a: Estimate, b: Estimate) -> Estimate {
    if b.bytes_per_s > a.bytes_per_s {
        b
    } else {
        a
    }
}

fn cells<'a>(basis: &CapacityInputs<'a>, but: &[NodeStreams]) -> Option<Cells<'a>> {
    let all = || {
        let cells = basis.records.iter().flat_map(|record| &record.cells);
        cells.filter(|cell| is_local(cell, basis.direction))
    };
    let single = || all().filter(|cell| cell.groups.len() == 1);
    let first = single().next()?;
    let operation = basis.operation.or(first.operation.as_deref());
    let of_operation = |cell: &&IoCell| cell.operation.as_deref() == operation;
    let block_bytes = best_block(single().filter(of_operation))?;
    let wanted = |cell: &&IoCell| of_operation(cell) && cell.block_bytes == block_bytes;
    let mut found = Cells { operation, block_bytes, single: BTreeMap::new(), mixes: Vec::new() };
    for cell in all().filter(wanted) {
        let Some(estimate) = estimate(&cell.bytes_per_s) else { continue };
        match streams_of(cell).as_slice() {
            [one] => drop(found.single.entry((one.node, one.streams)).or_insert(estimate)),
            [] => {}
            mix if mix == but || found.mixes.iter().any(|(known, _)| known == mix) => {}
            mix => found.mixes.push((mix.to_vec(), estimate)),
        }
    }
    (!found.single.is_empty()).then_some(found)
}

/// Returns the measured bandwidth of a mix, from the newest record.
pub fn find_measured_mix<'a>(
    records: &[&'a IoRecord],
    capacities: &Capacities,
    mix: &[NodeStreams],
) -> Option<&'a Reading> {
    let wanted = merged(mix);
    let is_it = |cell: &&IoCell| {
        is_local(cell, capacities.direction)
            && cell.operation == capacities.operation
            && cell.block_bytes == capacities.block_bytes
            && streams_of(cell) == wanted
    };
    records.iter().flat_map(|record| &record.cells).find(is_it).map(|cell| &cell.bytes_per_s)
}

/// Whether all buffers of a cell are local to its CPUs, and all streams have one direction.
fn is_local(cell: &IoCell, direction: Direction) -> bool {
    let local = cell.groups.iter().zip(&cell.cpu_nodes).all(|(group, node)| group.memory == *node);
    local && cell.groups.iter().all(|group| group.direction == direction)
}

fn streams_of(cell: &IoCell) -> Vec<NodeStreams> {
    let groups = cell.groups.iter().map(|group| NodeStreams { node: group.memory, streams: group.streams });
    merged(&groups.collect::<Vec<_>>())
}

/// Returns the block size with which most nodes were measured; ties favor the highest bandwidth.
fn best_block<'a>(cells: impl Iterator<Item = &'a IoCell>) -> Option<u64> {
    let mut sizes: BTreeMap<u64, (NodeSet, f64)> = BTreeMap::new();
    for cell in cells {
        let Some(median) = cell.bytes_per_s.median() else { continue };
        let (nodes, most) = sizes.entry(cell.block_bytes).or_default();
        nodes.extend(cell.groups.iter().map(|group| group.memory));
        *most = most.max(median);
    }
    let better = |a: &(NodeSet, f64), b: &(NodeSet, f64)| a.0.len().cmp(&b.0.len()).then(a.1.total_cmp(&b.1));
    sizes.into_iter().max_by(|(_, a), (_, b)| better(a, b)).map(|(size, _)| size)
}

/// Returns the measured nodes, and those that a measured node represents.
fn nodes(basis: &CapacityInputs, cells: &Cells) -> Vec<NodeCapacity> {
    let measured: NodeSet = cells.single.keys().map(|(node, _)| *node).collect();
    let model = basis.records.first().and_then(|record| direction_model(basis, record.device.node?));
    let classes: &[Class] = model.map_or(&[], |model| &model.classes);
    let class_of = |node: NodeId| classes.iter().find(|class| class.nodes.contains(node));
    let stands = |node: NodeId| {
        let by_class = class_of(node).and_then(|class| class.nodes.intersection(&measured).first());
        if measured.contains(node) {
            Some(node)
        } else {
            represented(basis, node, &measured).or(by_class)
        }
    };
    let wanted = basis.records.iter().flat_map(|record| &record.method.represented);
    let wanted = wanted.flat_map(|represented| represented.nodes.iter().copied());
    let all: NodeSet =
        measured.iter().chain(classes.iter().flat_map(|class| class.nodes.iter())).chain(wanted).collect();
    let capacity = |node: NodeId| {
        let by = stands(node)?;
        let class = class_of(node);
        let factor = match class {
            Some(class) if by != node => class.max_bytes_copied_per_s / class.min_bytes_copied_per_s,
            _ => 1.0,
        };
        let of_node = cells.single.iter().filter(|((other, _), _)| *other == by);
        let streams = of_node.map(|((_, streams), estimate)| StreamsCapacity {
            streams: *streams,
            estimate: Estimate { low: estimate.low / factor, high: estimate.high * factor, ..*estimate },
        });
        Some(NodeCapacity {
            node,
            measured: by,
            class: class.map(|class| class.rank),
            streams: streams.collect(),
        })
    };
    all.iter().filter_map(capacity).collect()
}

fn direction_model<'a>(basis: &CapacityInputs<'a>, target: NodeId) -> Option<&'a DirectionModel> {
    let of_target = basis.model?.targets.iter().find(|model| model.target == target)?;
    of_target.directions.iter().find(|model| model.direction == basis.direction)
}

/// Returns the measured node that represents another according to a record.
fn represented(basis: &CapacityInputs, node: NodeId, measured: &NodeSet) -> Option<NodeId> {
    let all = basis.records.iter().flat_map(|record| &record.method.represented);
    let mut fitting = all.filter(|found| found.direction == basis.direction && measured.contains(found.by));
    fitting.find(|found| found.nodes.contains(&node)).map(|found| found.by)
}

/// Share by which a mix must be below its best node alone before a cap is ruled out as the cause.
/// Two values at the same cap occasionally differ by a little more than their intervals.
const CLEARLY: f64 = 0.03;

/// Derives the cap and the kind of sharing from mixes. The most crowded mix decides: the lowest
/// share of the sum of its nodes alone.
fn fit_sharing(capacities: &mut Capacities, mixes: &[(Vec<NodeStreams>, Estimate)]) {
    let seen = mixes.iter().map(|(_, gave)| *gave).fold(capacities.cap, greater);
    let together = capacities.nodes.iter().map(most).fold(Estimate::exactly(0.0), plus);
    let known = mixes.iter().filter_map(|(mix, gave)| Some((mix, *gave, alone(capacities, mix)?)));
    let crowded =
        |(_, gave, alone): &(&Vec<NodeStreams>, Estimate, Estimate)| alone.bytes_per_s / gave.bytes_per_s;
    let Some((mix, gave, alone)) = known.max_by(|a, b| crowded(a).total_cmp(&crowded(b))) else {
        capacities.cap = Estimate { high: together.high.max(seen.high), ..seen };
        return;
    };
    if gave.high >= alone.low {
        capacities.cap_source = CapSource::AtLeast;
        capacities.cap = Estimate { low: seen.low, ..greater(together, seen) };
        return;
    }
    (capacities.cap_source, capacities.cap) = (CapSource::Mix, seen);
    let of_time = mean_of_streams(capacities, mix).filter(|(_, best)| gave.high < best.low * (1.0 - CLEARLY));
    if let Some((mean, _)) = of_time {
        let interval = (gave.low / mean.high, gave.high / mean.low);
        capacities.sharing = Sharing::Time { factor: gave.bytes_per_s / mean.bytes_per_s, interval };
    }
}

/// Returns the highest bandwidth of a node alone, with any number of streams.
fn most(node: &NodeCapacity) -> Estimate {
    node.streams.iter().map(|known| known.estimate).fold(Estimate::exactly(0.0), greater)
}

/// Returns the sum of the bandwidths of a mix's nodes alone, or `None` if one is unknown.
fn alone(capacities: &Capacities, mix: &[NodeStreams]) -> Option<Estimate> {
    let of = |flow: &NodeStreams| {
        let node = capacities.nodes.iter().find(|node| node.node == flow.node)?;
        Some(curve::at(node, flow.streams))
    };
    mix.iter().map(of).try_fold(Estimate::exactly(0.0), |sum, alone| Some(plus(sum, alone?)))
}

/// Returns the most informative mix to measure: every node of `among`, each with enough streams to
/// saturate it. A cap that these do not reach limits no mix. Empty for a single node.
pub fn saturating_mix(capacities: &Capacities, among: &NodeSet) -> Vec<NodeStreams> {
    let nodes = capacities.nodes.iter().filter(|node| among.contains(node.node));
    let mix: Vec<NodeStreams> =
        nodes.map(|node| NodeStreams { node: node.node, streams: curve::busy(node) }).collect();
    if mix.len() > 1 {
        mix
    } else {
        Vec::new()
    }
}
