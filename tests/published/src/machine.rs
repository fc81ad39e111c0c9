//! A machine with the nodes, copies and measured devices of a set.

use numaio_machine::devices::{Device, DeviceKind, Locality, LocalitySource};
use numaio_machine::ids::{CpuId, NodeId, PackageId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Memory, Node, Topology};
use numaio_machine::workload::{CopyLoop, Direction, Flow, Pages, Placement, StreamGroup};
use numaio_model::{fit, ClassOptions};
use numaio_schema::{
    Cell, IoCell, IoDevice, IoEngine, IoMethod, IoRecord, MachineSource, Method, Model, Provenance, Reading,
    Record, Rounds, Summary, IO_SCHEMA, RECORD_SCHEMA,
};

/// Returns a machine of nodes with devices of these names, all on one node.
pub fn topology(nodes: u32, nodes_per_package: u32, names: &[String], device_node: u32) -> Topology {
    let node = |id: u32| Node {
        id: NodeId(id),
        cpus: CpuSet::one(CpuId(id)),
        memory: Some(Memory { total_bytes: 1 << 36, free_bytes: 1 << 36, reclaimable_bytes: 0 }),
        memory_unknown: false,
        huge_pages: Vec::new(),
        packages: vec![PackageId(id / nodes_per_package.max(1))],
        access: Vec::new(),
        memory_side_caches: Vec::new(),
        memory_allowed: true,
        memory_kind: None,
        memory_kind_source: None,
    };
    Topology {
        nodes: (0..nodes).map(node).collect(),
        devices: names.iter().map(|name| device(name, NodeId(device_node))).collect(),
        ..Topology::default()
    }
}

fn device(name: &str, node: NodeId) -> Device {
    Device {
        kind: DeviceKind::Accelerator,
        names: vec![name.to_owned()],
        name_classes: Default::default(),
        pci: None,
        path: name.to_owned(),
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: Locality { node: Some(node), nodes: NodeSet::one(node), source: LocalitySource::NumaNode },
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: None,
    }
}

/// Fits the model of a target from rates of copies in bytes per second, source first.
pub fn model(topology: &Topology, target: u32, rate: impl Fn(u32, u32) -> Option<f64>) -> Model {
    let target = NodeId(target);
    let flows = topology.nodes.iter().flat_map(|node| {
        let write = Flow::of(Direction::Write, target, node.id);
        let read = Flow::of(Direction::Read, target, node.id);
        std::iter::once(write).chain((node.id != target).then_some(read))
    });
    let cells = flows.map(|flow| {
        let rate = rate(flow.source.0, flow.sink.0);
        Cell {
            target,
            flow,
            placement: Placement { cpus: CpuSet::one(CpuId(target.0)) },
            visits: Vec::new(),
            bytes_copied_per_s: rate.and_then(|rate| Summary::of(&[rate], None)),
            settled: rate.is_some(),
            failure: rate.is_none().then(|| "not published".to_owned()),
        }
    });
    let record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        provenance: provenance(),
        method: Method {
            copy_loop: CopyLoop::Memcpy,
            trials: Vec::new(),
            c_library: None,
            bus_bytes_per_byte: 3,
            bytes_per_thread: Vec::new(),
            pages: Pages::Base,
            repetitions: None,
            precision: 0.02,
            time_limit_s: 1.0,
            elapsed_s: 1.0,
            seed: 1,
            rounds: 1,
        },
        cells: cells.collect(),
    };
    fit(record, topology, ClassOptions::default())
}

/// Returns the record of a device on a node that was measured with buffers on another or the same
/// node, in bytes per second.
pub fn io_record(name: &str, device_node: u32, buffers: u32, direction: Direction, rate: f64) -> IoRecord {
    let group = StreamGroup {
        cpus: CpuSet::one(CpuId(buffers)),
        memory: NodeId(buffers),
        streams: 1,
        direction,
        device: 0,
    };
    let bytes_per_s =
        Reading { visits: Vec::new(), settled: true, summary: Summary::of(&[rate], None), failure: None };
    let cell = IoCell {
        groups: vec![group],
        cpu_nodes: vec![NodeId(buffers)],
        block_bytes: 1 << 20,
        operation: None,
        bytes_per_s,
        load_bytes_per_s: Vec::new(),
        group_bytes_per_s: Vec::new(),
        cpu_ns_per_byte: None,
        remote: None,
    };
    IoRecord {
        schema: IO_SCHEMA.to_owned(),
        provenance: provenance(),
        device: IoDevice {
            name: name.to_owned(),
            model: String::new(),
            pci: None,
            node: Some(NodeId(device_node)),
            reached_via: None,
            irqs: Vec::new(),
        },
        method: IoMethod {
            engine: IoEngine::Nvbandwidth,
            version: String::new(),
            depth: 32,
            disk: None,
            direct: None,
            area_bytes: None,
            network: None,
            represented: Vec::new(),
            notes: Vec::new(),
            rounds: Rounds { precision: 0.02, time_limit_s: 1.0, elapsed_s: 1.0, seed: 1, rounds: 1 },
        },
        cells: vec![cell],
        remote: None,
    }
}

fn provenance() -> Provenance {
    Provenance {
        numaio: String::new(),
        measured_at: 0,
        machine: Default::default(),
        source: MachineSource::Simulated,
        conditions: Default::default(),
        warnings: Vec::new(),
        complete: true,
        load: Vec::new(),
    }
}
