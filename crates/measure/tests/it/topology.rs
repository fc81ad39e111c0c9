//! Topology shared by the tests.

use numaio_machine::ids::{CpuId, NodeId, PackageId};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::{Cache, Cpu, Distances, Memory, Node, Topology};

/// Returns four nodes of two CPUs each, two per package.
pub fn topology() -> Topology {
    let node = |id: u32| Node {
        id: NodeId(id),
        cpus: CpuSet::from_iter([CpuId(2 * id), CpuId(2 * id + 1)]),
        memory: Some(Memory { total_bytes: 8 << 30, free_bytes: 4 << 30, reclaimable_bytes: 0 }),
        huge_pages: Vec::new(),
        packages: vec![PackageId(id / 2)],
        access: Vec::new(),
        memory_side_caches: Vec::new(),
        memory_allowed: true,
        memory_kind: None,
        memory_kind_source: None,
        memory_unknown: false,
    };
    let cpu = |id: u32| Cpu {
        id: CpuId(id),
        online: true,
        node: Some(NodeId(id / 2)),
        package: Some(PackageId(id / 4)),
        die: None,
        core: Some(id),
        siblings: CpuSet::one(CpuId(id)),
        allowed: true,
        isolated: false,
        core_kind: None,
    };
    let cache = |id: u32| Cache {
        level: 3,
        kind: "Unified".into(),
        bytes: 8 << 20,
        line_bytes: 64,
        ways: Some(16),
        cpus: CpuSet::from_iter([CpuId(2 * id), CpuId(2 * id + 1)]),
    };
    let distance = |a: u32, b: u32| if a == b { 10 } else { 20 };
    Topology {
        nodes: (0..4).map(node).collect(),
        cpus: (0..8).map(cpu).collect(),
        caches: (0..4).map(cache).collect(),
        distances: Some(Distances {
            nodes: (0..4).map(NodeId).collect(),
            rows: (0..4).map(|a| (0..4).map(|b| distance(a, b)).collect()).collect(),
        }),
        cpu_features: vec!["avx2".into()],
        ..Topology::default()
    }
}
