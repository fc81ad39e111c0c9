//! What numaio expects of a device of a set on each node.

use crate::engine::engine_method;
use crate::machine::{io_record, model, topology};
use crate::read::Values;
use crate::set::{MemoryMatrix, PublishedRow, PublishedSet, RowDirection};
use crate::text::{has, words};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use numaio_model::{expect_bandwidth, BandwidthEvidence, BandwidthSubject, TransferMethod};
use numaio_schema::{BandwidthDifference, DeviceExpectation, IoRecord};

/// The name of the measured device.
const DEVICE: &str = "device";

/// Returns what numaio expects of a device of a row, from its rate on its own node and the copies
/// of the set, or why it expects nothing.
///
/// # Errors
/// The reason, as a clause.
pub fn expected(set: &PublishedSet, row: &PublishedRow, device: usize) -> Result<DeviceExpectation, String> {
    let node = set.device_nodes.get(device).copied().flatten();
    let latency_ns = latencies(set);
    let engine = engine_method(set, row, &latency_ns);
    let rates = row.rates.get(device).map_or(&[][..], Vec::as_slice);
    let own = node.and_then(|node| *rates.get(node as usize)?);
    let node = node.filter(|node| (*node as usize) < rates.len());
    // Peers are refused whatever their nodes are.
    let (Some(node), count) = (node.or(row.is_between_devices.then_some(0)), rates.len().max(1)) else {
        return Err("the node of the device is unknown, or was not measured".to_owned());
    };
    let topology = topology(count as u32, nodes_per_package(set, count), &[DEVICE.to_owned()], node);
    let paths = set.memory.paths(row.direction, node as usize);
    let direction = one_direction(row.direction);
    let model = paths.map(|paths| model(&topology, node, paths));
    let models: Vec<_> = model.iter().collect();
    let mut records = other_records(set, row);
    records.extend(own.map(|own| io_record(DEVICE, node, node, direction, own)));
    let records: Vec<&IoRecord> = records.iter().collect();
    let evidence = BandwidthEvidence { topology: &topology, models: &models, records: &records };
    let subject =
        BandwidthSubject { method: engine.method, ..BandwidthSubject::of(&topology.devices[0], DEVICE) };
    let found = expect_bandwidth(evidence, subject, direction, &[]);
    match found.difference {
        BandwidthDifference::Unknown { .. } => Err(reason(set, &found)),
        _ => doubt(row, &found, engine.is_known).map_or(Ok(found), Err),
    }
}

/// Returns why a row cannot be compared with an expectation of one device with buffers on one node.
fn doubt(row: &PublishedRow, found: &DeviceExpectation, is_engine_known: bool) -> Option<String> {
    let by = words(&format!("{} {} {}", row.by, row.engine, row.label));
    if let Some(unit) = &row.other_unit {
        return Some(format!("the unit '{unit}' is not a rate of bytes"));
    }
    if has(&words(&row.by), &["interleaved", "interleave"]) {
        return Some("some values belong to several nodes at once".to_owned());
    }
    if has(&by, &["both sockets", "mirrored"]) {
        return Some("the rate is the sum of devices on several nodes".to_owned());
    }
    let is_claim = found.difference == BandwidthDifference::Some;
    (is_claim && !is_engine_known).then(|| format!("the engine '{}' is not recognized", row.engine))
}

/// Returns numaio's clause, or what the set lacks: a reader cannot measure its paths.
fn reason(set: &PublishedSet, found: &DeviceExpectation) -> String {
    use numaio_schema::UnknownDifference::PathsNotMeasured;
    match (&set.memory, found.difference) {
        (MemoryMatrix::Distances(_), BandwidthDifference::Unknown { reason: PathsNotMeasured }) => {
            "hop distances are not bandwidth: the paths were not measured".to_owned()
        }
        (MemoryMatrix::Other(unit), BandwidthDifference::Unknown { reason: PathsNotMeasured }) => {
            format!("a matrix in '{unit}' is not bandwidth: the paths were not measured")
        }
        (_, BandwidthDifference::Unknown { reason: PathsNotMeasured }) => {
            "the paths were not measured".to_owned()
        }
        _ => {
            let clause = found.clause();
            let direction = format!("{}: ", found.direction.name());
            clause.strip_prefix(&direction).unwrap_or(&clause).to_owned()
        }
    }
}

/// Both directions at once are one flow, of which copies in both directions are the path.
fn one_direction(direction: RowDirection) -> Direction {
    match direction {
        RowDirection::Write => Direction::Write,
        RowDirection::Read | RowDirection::Both => Direction::Read,
    }
}

fn latencies(set: &PublishedSet) -> Vec<(NodeId, f64)> {
    let known = (0..).zip(&set.latency_ns).filter_map(|(node, ns)| Some((NodeId(node), (*ns)?)));
    known.collect()
}

fn nodes_per_package(set: &PublishedSet, nodes: usize) -> u32 {
    (nodes as u32 / set.sockets.unwrap_or(nodes as u32).max(1)).max(1)
}

/// Returns what the devices of the other rows carried: faster devices show that copies did not
/// saturate the paths.
fn other_records(set: &PublishedSet, row: &PublishedRow) -> Vec<IoRecord> {
    let is_one_flow = |other: &&PublishedRow| {
        let method = engine_method(set, other, &[]).method;
        *other != row
            && other.other_unit.is_none()
            && other.direction != RowDirection::Both
            && row.direction != RowDirection::Both
            && !matches!(method, TransferMethod::PeerToPeer | TransferMethod::DmaWithinCaches)
    };
    let rows = set.rows.iter().filter(is_one_flow);
    let rates = rows.flat_map(|row| set.device_nodes.iter().zip(&row.rates).map(move |of| (row, of)));
    let best = |rates: &Values| rates.iter().flatten().copied().max_by(f64::total_cmp);
    rates
        .filter_map(|(row, (node, rates))| {
            let node = (*node)?;
            Some(io_record("other", node, node, one_direction(row.direction), best(rates)?))
        })
        .collect()
}

impl MemoryMatrix {
    /// Returns the bandwidth in which bytes move between nodes, source first; `None` without a
    /// matrix of bandwidth. If both directions are wanted at once, both ways are added.
    ///
    /// A cell of a read benchmark is the flow from the memory of its column to the CPUs of its row.
    pub fn paths(
        &self,
        direction: RowDirection,
        device_node: usize,
    ) -> Option<impl Fn(u32, u32) -> Option<f64> + '_> {
        let Self::Bandwidth { matrix, row_is_source } = self else { return None };
        let cell = move |source: usize, sink: usize| {
            let (row, column) = if *row_is_source { (source, sink) } else { (sink, source) };
            *matrix.get(row)?.get(column)?
        };
        Some(move |source: u32, sink: u32| {
            let (source, sink) = (source as usize, sink as usize);
            let there = cell(source, sink)?;
            match direction == RowDirection::Both {
                true => Some(there + cell(sink, source)?),
                false => Some(there),
            }
        })
        .filter(|_| matrix.get(device_node).is_some())
    }
}
