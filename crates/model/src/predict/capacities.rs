//! Fitting of capacities to measured I/O.

use super::error::PredictError;
use super::family::{DeviceScale, Family, FittedMix};
use super::mix_inputs::{alone, estimate, inputs, known, merged, NORMAL_95};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{
    Capacities, Class, DirectionModel, Estimate, IoCell, IoRecord, Model, NodeCapacity, NodeStreams, Reading,
    StreamsCapacity,
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
    /// Nodes with memory and without CPUs: streams of other nodes use their buffers.
    pub memory_only: &'a NodeSet,
}

/// Measured streams with local buffers, at the engine's best block size.
struct Cells<'a> {
    operation: Option<&'a str>,
    block_bytes: u64,
    /// Bandwidth by node and number of streams, for streams of one node.
    single: BTreeMap<(NodeId, u32), Estimate>,
    /// Mixes, newest first.
    mixes: Vec<MeasuredMix>,
}

/// A mix with its bandwidth.
struct MeasuredMix {
    streams: Vec<NodeStreams>,
    gave: Estimate,
    /// Bandwidth of each node in bytes per second; empty if unknown.
    of_nodes: Vec<f64>,
}

/// A device's capacities, with the sharing models fitted to its measured mixes.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFit {
    /// The capacities, as documents contain them.
    pub capacities: Capacities,
    pub(super) family: Family,
}

/// Fits the bandwidth of each node alone, and how nodes share the device.
///
/// An unmeasured node has the values of its class's representative, with an interval widened by the
/// spread of measured nodes of one class. `but` is a mix to exclude: the mix to predict.
/// # Errors
/// [`PredictError::NothingMeasured`].
pub fn capacities(basis: &CapacityInputs, but: &[NodeStreams]) -> Result<DeviceFit, PredictError> {
    let nothing = || PredictError::NothingMeasured { direction: basis.direction };
    let cells = cells(basis, &merged(but)).ok_or_else(nothing)?;
    let newest = basis.records.first().ok_or_else(nothing)?;
    let mut capacities = Capacities {
        device: newest.device.name.clone(),
        node: newest.device.node,
        engine: newest.method.engine,
        direction: basis.direction,
        operation: cells.operation.map(str::to_owned),
        block_bytes: cells.block_bytes,
        nodes: nodes(basis, &cells),
        link_bytes_per_s: basis.link_bytes_per_s,
        fitted_mixes: 0,
        sharing: Vec::new(),
    };
    let mixes: Vec<FittedMix> = cells.mixes.iter().filter_map(|mix| fitted_mix(&capacities, mix)).collect();
    let family = Family::fit(&scale(&capacities), &mixes);
    capacities.fitted_mixes = mixes.len() as u32;
    capacities.sharing = family.fits.clone();
    Ok(DeviceFit { capacities, family })
}

fn fitted_mix(capacities: &Capacities, mix: &MeasuredMix) -> Option<FittedMix> {
    let nodes = known(capacities, &mix.streams).ok()?;
    let alone = alone(&nodes, &mix.streams);
    let inputs = inputs(capacities, &nodes, &mix.streams);
    let own: f64 = alone.iter().map(|alone| alone.bytes_per_s).sum();
    // The nodes' errors are independent, and count by their share.
    let of_alone = alone.iter().map(|alone| half_width(*alone) * alone.bytes_per_s / own);
    let squares = of_alone.chain([half_width(mix.gave)]).map(|half| (half / NORMAL_95).powi(2)).sum::<f64>();
    Some(FittedMix {
        inputs,
        log_total: mix.gave.bytes_per_s.ln(),
        deviation: squares.sqrt(),
        of_nodes: mix.of_nodes.clone(),
    })
}

/// Half the width of an interval, relative to its value.
fn half_width(estimate: Estimate) -> f64 {
    (estimate.high - estimate.low) / 2.0 / estimate.bytes_per_s
}

/// Streams per node of a crowded mix, for the ranges of parameters.
const CROWDED_STREAMS: f64 = 4.0;

fn scale(capacities: &Capacities) -> DeviceScale {
    let most =
        |node: &NodeCapacity| node.streams.iter().map(|known| known.estimate.bytes_per_s).fold(0.0, f64::max);
    DeviceScale {
        nodes: capacities.nodes.iter().map(|node| node.node).collect(),
        local: capacities.node,
        best: capacities.nodes.iter().map(most).fold(0.0, f64::max),
        sum: capacities.nodes.iter().map(most).sum(),
        streams: CROWDED_STREAMS * capacities.nodes.len() as f64,
    }
}

fn cells<'a>(basis: &CapacityInputs<'a>, but: &[NodeStreams]) -> Option<Cells<'a>> {
    let local = || {
        let cells = basis.records.iter().flat_map(|record| &record.cells);
        cells.filter(|cell| is_local(cell, basis.direction, basis.memory_only))
    };
    let remote = common_remote(local());
    let all = || local().filter(|cell| remote_end(cell) == remote);
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
            mix if mix == but || found.mixes.iter().any(|known| known.streams == mix) => {}
            mix => found.mixes.push(MeasuredMix {
                streams: mix.to_vec(),
                gave: estimate,
                of_nodes: of_nodes(cell, mix),
            }),
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
    let mut cells = records.iter().flat_map(|record| &record.cells);
    cells.find(|cell| is_of(cell, capacities) && streams_of(cell) == wanted).map(|cell| &cell.bytes_per_s)
}

/// Returns the measured mixes of several nodes that the capacities may be fitted to.
pub fn measured_mixes(records: &[&IoRecord], capacities: &Capacities) -> Vec<Vec<NodeStreams>> {
    let cells = records.iter().flat_map(|record| &record.cells);
    let fits = |cell: &&IoCell| is_of(cell, capacities) && cell.bytes_per_s.median().is_some();
    cells.filter(fits).map(streams_of).filter(|mix| mix.len() > 1).collect()
}

/// Returns the cells of a record with streams of one node only, by number of streams.
pub(super) fn streams_alone<'a>(
    record: &'a IoRecord,
    capacities: &'a Capacities,
    node: NodeId,
) -> impl Iterator<Item = (u32, &'a IoCell)> {
    let cells = record.cells.iter().filter(|cell| is_of(cell, capacities));
    cells.filter_map(move |cell| match streams_of(cell).as_slice() {
        [only] if only.node == node => Some((only.streams, cell)),
        _ => None,
    })
}

/// Whether a cell has the direction, operation and block size of capacities, and local buffers.
fn is_of(cell: &IoCell, capacities: &Capacities) -> bool {
    is_local(cell, capacities.direction, &NodeSet::new())
        && cell.operation == capacities.operation
        && cell.block_bytes == capacities.block_bytes
}

/// Whether all buffers of a cell are local to its CPUs or on nodes without CPUs, and all streams
/// have one direction.
fn is_local(cell: &IoCell, direction: Direction, memory_only: &NodeSet) -> bool {
    let mut groups = cell.groups.iter().zip(&cell.cpu_nodes);
    let local = groups.all(|(group, node)| group.memory == *node || memory_only.contains(group.memory));
    local && cell.groups.iter().all(|group| group.direction == direction)
}

fn streams_of(cell: &IoCell) -> Vec<NodeStreams> {
    let groups = cell.groups.iter().map(|group| NodeStreams { node: group.memory, streams: group.streams });
    merged(&groups.collect::<Vec<_>>())
}

/// Nodes of the CPUs and the node of the buffers at the remote end of a network path.
type RemoteEnd<'a> = (&'a NodeSet, Option<NodeId>);

/// Returns the nodes of CPUs and buffers at the remote end of a network path.
fn remote_end(cell: &IoCell) -> Option<RemoteEnd<'_>> {
    cell.remote.as_ref().map(|remote| (&remote.cpu_nodes, remote.memory))
}

/// Returns the remote end with which most nodes were measured, so that cells differ in their own
/// node only. Ties favor the first one, which is that of the newest record.
fn common_remote<'a>(cells: impl Iterator<Item = &'a IoCell>) -> Option<RemoteEnd<'a>> {
    let mut nodes: Vec<(Option<RemoteEnd>, NodeSet)> = Vec::new();
    for cell in cells.filter(|cell| cell.bytes_per_s.median().is_some()) {
        let end = remote_end(cell);
        let own = cell.groups.iter().map(|group| group.memory);
        match nodes.iter_mut().find(|(other, _)| *other == end) {
            Some((_, known)) => known.extend(own),
            None => nodes.push((end, own.collect())),
        }
    }
    let most = nodes.iter().map(|(_, nodes)| nodes.len()).max()?;
    nodes.into_iter().find(|(_, nodes)| nodes.len() == most).and_then(|(end, _)| end)
}

/// Returns the bandwidth of each node of a mix; empty if it is unknown.
fn of_nodes(cell: &IoCell, mix: &[NodeStreams]) -> Vec<f64> {
    let of_node = |flow: &NodeStreams| {
        let groups =
            cell.groups.iter().zip(&cell.group_bytes_per_s).filter(|(group, _)| group.memory == flow.node);
        groups.map(|(_, summary)| summary.as_ref().map(|summary| summary.median)).sum::<Option<f64>>()
    };
    let known = mix.iter().map(of_node).map(|rate| rate.filter(|rate| *rate > 0.0));
    known.collect::<Option<Vec<f64>>>().unwrap_or_default()
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
    let spread = ClassSpread::measured(cells, |node| group_of(basis, class_of(node), node));
    let capacity = |node: NodeId| {
        let by = stands(node)?;
        let class = class_of(node);
        let factor = if by == node { 1.0 } else { spread.factor(class) };
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

/// Returns the first node of a node's class, by the model or by a record.
fn group_of(basis: &CapacityInputs, class: Option<&Class>, node: NodeId) -> Option<NodeId> {
    let mut records = basis.records.iter().flat_map(|record| &record.method.represented);
    let by_record = || {
        records
            .find(|found| found.direction == basis.direction && found.nodes.contains(&node))
            .map(|found| found.node)
    };
    class.and_then(|class| class.nodes.first()).or_else(by_record)
}

/// How much nodes of one class differ in measured I/O.
struct ClassSpread {
    /// Standard deviation of the logarithms.
    deviation: f64,
}

/// Assumed relative standard deviation of the I/O of nodes of one class. The copy model compares
/// copies, not I/O: on the paper's machine (Li et al., ICPP 2013) nodes of one class differ by up
/// to 10 %, and emulated devices by up to 30 %.
const ASSUMED_SPREAD: f64 = 0.1;
/// Number of measured nodes that the assumed spread counts as.
const ASSUMED_FREEDOM: f64 = 2.0;

impl ClassSpread {
    /// Combines the assumed spread with that of measured nodes of one class.
    fn measured(cells: &Cells, group_of: impl Fn(NodeId) -> Option<NodeId>) -> Self {
        let mut values: BTreeMap<(NodeId, u32), Vec<f64>> = BTreeMap::new();
        for ((node, streams), estimate) in &cells.single {
            if let Some(group) = group_of(*node) {
                values.entry((group, *streams)).or_default().push(estimate.bytes_per_s.ln());
            }
        }
        let (mut squares, mut freedom) = (0.0, 0.0);
        for values in values.values().filter(|values| values.len() > 1) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            freedom += values.len() as f64 - 1.0;
        }
        let counts = ASSUMED_FREEDOM * ASSUMED_SPREAD.powi(2);
        Self { deviation: ((squares + counts) / (freedom + ASSUMED_FREEDOM)).sqrt() }
    }

    /// Returns the factor by which the interval of an unmeasured node extends in both directions.
    /// The difference of two nodes has twice the variance of one.
    fn factor(&self, class: Option<&Class>) -> f64 {
        let copies = class.map_or(0.0, |class| {
            (class.max_bytes_copied_per_s / class.min_bytes_copied_per_s).ln() / NORMAL_95
        });
        (NORMAL_95 * (2.0 * self.deviation.powi(2) + copies.powi(2)).sqrt()).exp()
    }
}

fn direction_model<'a>(basis: &CapacityInputs<'a>, target: NodeId) -> Option<&'a DirectionModel> {
    let of_target = basis.model?.targets.iter().find(|model| model.target == target)?;
    of_target.directions.iter().find(|model| model.direction == basis.direction)
}

/// Returns the measured node that represents another according to a record.
fn represented(basis: &CapacityInputs, node: NodeId, measured: &NodeSet) -> Option<NodeId> {
    let all = basis.records.iter().flat_map(|record| &record.method.represented);
    let mut fitting = all.filter(|found| found.direction == basis.direction && measured.contains(found.node));
    fitting.find(|found| found.nodes.contains(&node)).map(|found| found.node)
}
