//! Test data: measured I/O, reads of registers, and sweeps.

use numaio_machine::devices::RegisterChoice;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::workload::{Direction, Placement, StreamGroup};
use numaio_schema::{
    FigureSource, IoCell, IoDevice, IoEngine, IoMethod, IoRecord, IoRemoteEnd, MachineSource, MmioCell,
    MmioMethod, MmioRecord, PingCell, PingMethod, PingRecord, PooledNoise, Provenance, Quantity, Reading,
    ReadingVisit, Rounds, Summary, SweepCell, SweepMethod, SweepRecord, SweepScope, IO_SCHEMA, MMIO_SCHEMA,
    PING_SCHEMA, SWEEP_SCHEMA,
};

/// Returns a reading of visits, summarized like those of a campaign.
pub fn reading(medians: &[f64]) -> Reading {
    let visit = |(round, median): (u32, &f64)| ReadingVisit {
        round,
        median: *median,
        min: median * 0.99,
        max: median * 1.01,
        samples: 10,
        start_skew_ns: 0,
        residency: Default::default(),
        excluded: None,
    };
    let summary = Summary::of(medians, Some(PooledNoise { relative_sd: 0.002, freedom: 20 }));
    Reading { visits: (0..).zip(medians).map(visit).collect(), settled: true, summary, failure: None }
}

/// Returns a reading of five visits within half a percent of `value`.
pub fn about(value: f64) -> Reading {
    reading(&[value, value * 1.002, value * 0.998, value, value])
}

/// Returns a cell of streams with local buffers: (node, number) groups, Gbit/s in total.
pub fn cell(direction: Direction, groups: &[(u32, u32)], gbit_per_s: f64) -> IoCell {
    let group = |(node, streams): &(u32, u32)| StreamGroup {
        cpus: CpuSet::new(),
        memory: NodeId(*node),
        streams: *streams,
        direction,
        device: 0,
    };
    IoCell {
        groups: groups.iter().map(group).collect(),
        cpu_nodes: groups.iter().map(|(node, _)| NodeId(*node)).collect(),
        block_bytes: 128 << 10,
        operation: None,
        bytes_per_s: about(gbit_per_s * 1e9 / 8.0),
        load_bytes_per_s: Vec::new(),
        group_bytes_per_s: Vec::new(),
        cpu_ns_per_byte: None,
        remote: None,
    }
}

/// Returns a record of `nvme0n1` on a node.
pub fn record(node: u32, cells: Vec<IoCell>) -> IoRecord {
    IoRecord {
        schema: IO_SCHEMA.to_owned(),
        provenance: provenance(),
        remote: None,
        device: IoDevice {
            name: "nvme0n1".to_owned(),
            model: String::new(),
            pci: None,
            node: Some(NodeId(node)),
            reached_via: None,
            irqs: Vec::new(),
        },
        method: IoMethod {
            engine: IoEngine::Disk,
            version: "0".to_owned(),
            depth: 16,
            disk: None,
            direct: None,
            area_bytes: None,
            network: None,
            represented: Vec::new(),
            notes: Vec::new(),
            rounds: Rounds { precision: 0.02, time_limit_s: 1.0, elapsed_s: 1.0, seed: 1, rounds: 5 },
        },
        cells,
    }
}

/// Returns a record of `eth0` on a node: local node, remote node, bytes and microseconds of each
/// cell.
pub fn ping(node: u32, cells: &[(u32, u32, u64, f64)]) -> PingRecord {
    let cell = |(local, remote, message_bytes, us): &(u32, u32, u64, f64)| PingCell {
        cpu_node: NodeId(*local),
        memory_node: NodeId(*local),
        remote: IoRemoteEnd {
            cpu_nodes: NodeSet::one(NodeId(*remote)),
            memory: Some(NodeId(*remote)),
            cpu_ns_per_byte: None,
        },
        message_bytes: *message_bytes,
        operation: None,
        striping: None,
        parts: Vec::new(),
        latency_ns: about(us * 1e3),
        p99_ns: None,
        min_ns: None,
    };
    let streams = record(node, Vec::new());
    PingRecord {
        schema: PING_SCHEMA.to_owned(),
        provenance: provenance(),
        device: IoDevice { name: "eth0".to_owned(), ..streams.device },
        remote: None,
        rails: Vec::new(),
        method: PingMethod { engine: IoEngine::Tcp, version: "0".to_owned(), rounds: streams.method.rounds },
        cells: cells.iter().map(cell).collect(),
    }
}

/// Returns a record of reads of `eth0` on a node: node and nanoseconds of each cell.
pub fn mmio(node: u32, cells: &[(u32, f64)]) -> MmioRecord {
    let cell = |(cpu_node, ns): &(u32, f64)| MmioCell {
        cpu_node: NodeId(*cpu_node),
        cpu: CpuId(*cpu_node),
        ns: about(*ns),
        p99_ns: None,
        min_ns: None,
    };
    let streams = record(node, Vec::new());
    MmioRecord {
        schema: MMIO_SCHEMA.to_owned(),
        provenance: provenance(),
        device: IoDevice { name: "eth0".to_owned(), ..streams.device },
        bar: 0,
        offset: 8,
        choice: RegisterChoice::NvmeVersion,
        method: MmioMethod { reads: 1000, rounds: streams.method.rounds },
        cells: cells.iter().map(cell).collect(),
    }
}

fn provenance() -> Provenance {
    Provenance {
        numaio: "0".to_owned(),
        measured_at: 1,
        machine: Default::default(),
        source: MachineSource::Simulated,
        conditions: Default::default(),
        warnings: Vec::new(),
        complete: true,
        load: Vec::new(),
    }
}

/// Returns a sweep with a row of figures for each CPU node; 0 is a missing one. Nodes 0 and 1 are
/// in one package.
pub fn sweep(quantity: Quantity, rows: &[&[f64]]) -> SweepRecord {
    let cell = |(cpu_node, memory_node, value): (u32, u32, f64)| SweepCell {
        cpu_node: NodeId(cpu_node),
        memory_node: NodeId(memory_node),
        placement: Placement { cpus: CpuSet::new() },
        same_package: cpu_node == memory_node || (cpu_node < 2 && memory_node < 2),
        build: 0,
        figure: if value > 0.0 { about(value) } else { reading(&[]) },
        other_builds: Vec::new(),
    };
    let cells = (0..).zip(rows).flat_map(|(cpu_node, row)| {
        (0..).zip(row.iter()).map(move |(memory_node, value)| (cpu_node, memory_node, *value))
    });
    SweepRecord {
        schema: SWEEP_SCHEMA.to_owned(),
        provenance: provenance(),
        method: SweepMethod {
            name: "Prog 2".to_owned(),
            builds: vec![vec!["prog".to_owned()]],
            figure: FigureSource::WallTime,
            quantity,
            unit: "s".to_owned(),
            scope: SweepScope::Pairs,
            run_limit_s: 1.0,
            rounds: Rounds { precision: 0.02, time_limit_s: 1.0, elapsed_s: 1.0, seed: 1, rounds: 5 },
        },
        cells: cells.map(cell).collect(),
        classes: Default::default(),
    }
}
