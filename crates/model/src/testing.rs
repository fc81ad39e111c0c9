//! Test data: measured I/O.

use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Direction, StreamGroup};
use numaio_schema::{
    IoCell, IoDevice, IoEngine, IoMethod, IoRecord, MachineSource, PooledNoise, Provenance, Reading,
    ReadingVisit, Rounds, Summary, IO_SCHEMA,
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
        set_aside: None,
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
    };
    IoCell {
        groups: groups.iter().map(group).collect(),
        cpu_nodes: groups.iter().map(|(node, _)| NodeId(*node)).collect(),
        block_bytes: 128 << 10,
        operation: None,
        bytes_per_s: about(gbit_per_s * 1e9 / 8.0),
        of_groups: Vec::new(),
        cpu_ns_per_byte: None,
        remote: None,
    }
}

/// Returns a record of `nvme0n1` on a node.
pub fn record(node: u32, cells: Vec<IoCell>) -> IoRecord {
    IoRecord {
        schema: IO_SCHEMA.to_owned(),
        provenance: Provenance {
            numaio: "0".to_owned(),
            measured_at: 1,
            machine: Default::default(),
            source: MachineSource::Simulated,
            conditions: Default::default(),
            warnings: Vec::new(),
            complete: true,
        },
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
            represented: Vec::new(),
            notes: Vec::new(),
            rounds: Rounds { precision: 0.02, time_limit_s: 1.0, elapsed_s: 1.0, seed: 1, rounds: 5 },
        },
        cells,
    }
}
