//! What was measured, as hwloc's memory attributes.

use super::MeasurementSet;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::{LatencyRecord, Model, StreamCell, StreamRecord, StreamScope};
use std::collections::BTreeMap;

/// `HWLOC_MEMATTR_FLAG_HIGHER_FIRST | HWLOC_MEMATTR_FLAG_NEED_INITIATOR`
const MORE_IS_BETTER: u32 = 1 | 4;
/// `HWLOC_MEMATTR_FLAG_LOWER_FIRST | HWLOC_MEMATTR_FLAG_NEED_INITIATOR`
const LESS_IS_BETTER: u32 = 2 | 4;

/// Operations of STREAM in the order in which they are taken for *the* bandwidth.
const PREFERRED: [StreamOp; 4] = [StreamOp::Triad, StreamOp::Add, StreamOp::Copy, StreamOp::Scale];

/// A memory attribute and its values.
pub struct MemoryAttribute {
    pub name: String,
    pub flags: u32,
    /// Whether hwloc knows it without being told.
    pub standard: bool,
    /// By initiator (the node of the CPUs) and target (the node of the memory), in MiB/s or ns.
    pub values: BTreeMap<(NodeId, NodeId), u64>,
}

/// All attributes that have a value.
pub fn collect(measured: MeasurementSet) -> Vec<MemoryAttribute> {
    let stream = measured.stream.into_iter().flat_map(of_stream);
    let latency = measured.latency.map(of_latency);
    let copies = measured.model.into_iter().flat_map(of_copies);
    stream.chain(latency).chain(copies).filter(|attribute| !attribute.values.is_empty()).collect()
}

/// hwloc's `Bandwidth` by the preferred operation measured, and each operation by its own name.
fn of_stream(record: &StreamRecord) -> Vec<MemoryAttribute> {
    // A core alone does not get a node's bandwidth.
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
    let own = measured.iter().map(|op| own(format!("numaio-stream-{op}"), values(*op)));
    standard.into_iter().chain(own).collect()
}

fn of_latency(record: &LatencyRecord) -> MemoryAttribute {
    let value = |cell: &numaio_schema::LatencyCell| {
        Some(((cell.cpu_node, cell.memory_node), cell.ns_per_load.median()?.round() as u64))
    };
    let values = record.cells.iter().filter_map(value).collect();
    MemoryAttribute { name: "Latency".to_owned(), flags: LESS_IS_BETTER, standard: true, values }
}

/// What a device on the initiator's node writes from, and reads to, the target's memory.
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
        own("numaio-device-write".to_owned(), values(Direction::Write)),
        own("numaio-device-read".to_owned(), values(Direction::Read)),
    ]
}

fn own(name: String, values: BTreeMap<(NodeId, NodeId), u64>) -> MemoryAttribute {
    MemoryAttribute { name, flags: MORE_IS_BETTER, standard: false, values }
}

/// hwloc's unit of bandwidth.
fn mib_per_s(bytes_per_s: f64) -> u64 {
    (bytes_per_s / f64::from(1 << 20)).round() as u64
}
