//! Converts measurements to hwloc memory attributes.

use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::{LatencyRecord, Model, StreamCell, StreamRecord, StreamScope};
use std::collections::BTreeMap;

/// `HWLOC_MEMATTR_FLAG_HIGHER_FIRST | HWLOC_MEMATTR_FLAG_NEED_INITIATOR`
const MORE_IS_BETTER: u32 = 1 | 4;
/// `HWLOC_MEMATTR_FLAG_LOWER_FIRST | HWLOC_MEMATTR_FLAG_NEED_INITIATOR`
const LESS_IS_BETTER: u32 = 2 | 4;

/// STREAM operations in order of preference for hwloc's `Bandwidth`.
const PREFERRED: [StreamOp; 4] = [StreamOp::Triad, StreamOp::Add, StreamOp::Copy, StreamOp::Scale];

/// A memory attribute and its values.
pub struct MemoryAttribute {
    /// The attribute's name.
    pub name: String,
    /// `HWLOC_MEMATTR_FLAG_*` bits.
    pub flags: u32,
    /// Whether hwloc defines the attribute itself.
    pub standard: bool,
    /// Values in MiB/s or ns, by initiator (node of the CPUs) and target (node of the memory).
    pub values: BTreeMap<(NodeId, NodeId), u64>,
}

/// Returns all attributes that have a value.
pub fn collect(measured: MeasurementSet) -> Vec<MemoryAttribute> {
    let stream = measured.stream.into_iter().flat_map(of_stream);
    let latency = measured.latency.map(of_latency);
    let copies = measured.model.into_iter().flat_map(of_copies);
    stream.chain(latency).chain(copies).filter(|attribute| !attribute.values.is_empty()).collect()
}

/// Returns hwloc's `Bandwidth` from the preferred measured operation, and one attribute per
/// operation.
fn of_stream(record: &StreamRecord) -> Vec<MemoryAttribute> {
    // A single core does not reach the node's bandwidth.
    if record.method.scope == StreamScope::Core {
        return Vec::new();
    }
    let values = |op: StreamOp| -> BTreeMap<(NodeId, NodeId), u64> {
        let of_op = record.cells.iter().filter(|cell| cell.op == op);
        let value = |cell: &StreamCell| {
            Some(((cell.cpu_node, cell.memory_node), mib_per_s(cell.bytes_per_s.median()?)))
        };
        of_op.filter_map(value).collect()
    };
    let measured: Vec<StreamOp> = PREFERRED.into_iter().filter(|op| !values(*op).is_empty()).collect();
    let standard = measured.first().map(|op| MemoryAttribute {
        name: "Bandwidth".to_owned(),
        flags: MORE_IS_BETTER,
        standard: true,
        values: values(*op),
    });
    let per_operation = measured.iter().map(|op| custom(format!("numaio-stream-{op}"), values(*op)));
    standard.into_iter().chain(per_operation).collect()
}

fn of_latency(record: &LatencyRecord) -> MemoryAttribute {
    let value = |cell: &numaio_schema::LatencyCell| {
        Some(((cell.cpu_node, cell.memory_node), cell.ns_per_load.median()?.round() as u64))
    };
    let values = record.cells.iter().filter_map(value).collect();
    MemoryAttribute { name: "Latency".to_owned(), flags: LESS_IS_BETTER, standard: true, values }
}

/// Returns the bandwidth of a device on the initiator's node to write from and read to the target's
/// memory.
fn of_copies(model: &Model) -> Vec<MemoryAttribute> {
    let values = |direction: Direction| {
        let cells = model.record.cells.iter().filter_map(move |cell| {
            let node = match direction {
                Direction::Write => cell.flow.source,
                Direction::Read => cell.flow.sink,
            };
            let belongs = Flow::of(direction, cell.target, node) == cell.flow;
            let value = cell.bytes_copied_per_s.as_ref().filter(|_| belongs)?;
            Some(((cell.target, node), mib_per_s(value.median)))
        });
        cells.collect()
    };
    vec![
        custom("numaio-device-write".to_owned(), values(Direction::Write)),
        custom("numaio-device-read".to_owned(), values(Direction::Read)),
    ]
}

fn custom(name: String, values: BTreeMap<(NodeId, NodeId), u64>) -> MemoryAttribute {
    MemoryAttribute { name, flags: MORE_IS_BETTER, standard: false, values }
}

/// Converts to MiB/s, hwloc's unit of bandwidth.
fn mib_per_s(bytes_per_s: f64) -> u64 {
    (bytes_per_s / f64::from(1 << 20)).round() as u64
}

/// The available measurements of a machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct MeasurementSet<'a> {
    /// STREAM record.
    pub stream: Option<&'a StreamRecord>,
    /// Latency record.
    pub latency: Option<&'a LatencyRecord>,
    /// Copy model.
    pub model: Option<&'a Model>,
}
