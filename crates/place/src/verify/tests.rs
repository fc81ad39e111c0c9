use super::*;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::tree::Tree;
use numaio_machine::workload::{MemoryBinding, MemoryPolicy};
use numaio_schema::{
    Basis, MachineSource, PlacementRequest, PlacementTarget, TaskPlacement, PLACEMENT_SCHEMA,
};

/// One task on CPUs 4-7 of node 1, near eth0.
fn plan() -> PlacementPlan {
    let cpus: CpuSet = (4..8).map(CpuId).collect();
    let nodes = NodeSet::one(NodeId(1));
    PlacementPlan {
        schema: PLACEMENT_SCHEMA.to_owned(),
        numaio: "0".to_owned(),
        created_at: 0,
        machine: Default::default(),
        source: MachineSource::Simulated,
        request: PlacementRequest::default(),
        targets: vec![PlacementTarget {
            expected: Vec::new(),
            latency: None,
            handle: "eth0".into(),
            chain: Vec::new(),
            device: "eth0".into(),
            node: Some(NodeId(1)),
            irq_cpus: CpuSet::new(),
            share: 1.0,
            basis: Basis::Topology,
            nodes: Vec::new(),
        }],
        tasks: vec![TaskPlacement {
            target: Some(0),
            cpus,
            cpu_nodes: nodes.clone(),
            memory: MemoryBinding { policy: MemoryPolicy::Preferred, nodes },
        }],
        reasons: Vec::new(),
        rejected: Vec::new(),
        compromises: Vec::new(),
    }
}

/// Process 9, whose parent is `parent`, with one thread.
fn process(tree: &mut Tree, pid: u32, parent: u32, cpu: u32, ticks: u64, allowed: &str, maps: &str) {
    let zeros = "0 ".repeat(23);
    let stat = format!("{pid} (worker) R {parent} 0 0 0 0 0 0 0 0 0 {ticks} 0 {zeros}{cpu} 0 0");
    for folder in [format!("/proc/{pid}"), format!("/proc/{pid}/task/{pid}")] {
        tree.file(&format!("{folder}/stat"), stat.clone());
        tree.file(&format!("{folder}/status"), format!("Name:\tworker\nCpus_allowed_list:\t{allowed}\n"));
    }
    tree.file(&format!("/proc/{pid}/numa_maps"), maps);
}

fn counters(tree: &mut Tree, name: &str, bytes: u64) {
    for counter in ["rx_bytes", "tx_bytes"] {
        tree.file(&format!("/sys/class/net/{name}/statistics/{counter}"), (bytes / 2).to_string());
    }
}

#[test]
fn counts_time_pages_and_bytes_in_place_and_elsewhere() {
    let plan = plan();
    let mut tree = Tree::new();
    let devices: Vec<Device> = ["eth0", "eth1"].iter().map(|name| nic(name)).collect();
    counters(&mut tree, "eth0", 1000);
    counters(&mut tree, "eth1", 50);
    process(&mut tree, 100, 1, 4, 10, "4-7", "0 anon=2 N1=2 kernelpagesize_kB=4");
    process(&mut tree, 101, 100, 0, 0, "0-7", "0 anon=1 N0=1 kernelpagesize_kB=4");
    process(&mut tree, 55, 1, 0, 999, "0-7", "0 anon=99 N0=99 kernelpagesize_kB=4");
    let mut watch = PlacementWatch::new(&tree, &plan, &devices);
    watch.sample(&tree, &[Some(100)], true);
    // 30 ticks in place, 20 of the child elsewhere; less memory than before.
    process(&mut tree, 100, 1, 5, 40, "4-7", "0 anon=1 N1=1 kernelpagesize_kB=4");
    process(&mut tree, 101, 100, 2, 20, "0-7", "0 anon=1 N0=1 kernelpagesize_kB=4");
    counters(&mut tree, "eth0", 10_000);
    counters(&mut tree, "eth1", 1_050);
    watch.sample(&tree, &[Some(100)], true);
    let result = watch.finish(&tree, Duration::from_secs(2));
    let task = &result.tasks[0];
    assert_eq!((task.ticks, task.ticks_in_place, task.threads, task.threads_unbound), (60, 40, 2, 1));
    assert_eq!((task.bytes_in_place, task.bytes_on[&NodeId(0)]), (Some(8192), 4096));
    assert_eq!(result.pages_in_place(), Some(2.0 / 3.0));
    assert_eq!(result.io_in_place(), Some(0.9));
    let devices: Vec<(&str, u64)> = result.devices.iter().map(|it| (it.device.as_str(), it.bytes)).collect();
    assert_eq!(devices, [("eth0", 9000), ("eth1", 1000)]);
}

#[test]
fn unobserved_shares_are_none() {
    let plan = plan();
    let mut watch = PlacementWatch::new(&Tree::new(), &plan, &[]);
    watch.sample(&Tree::new(), &[Some(100)], true);
    watch.sample(&Tree::new(), &[None], true);
    let result = watch.finish(&Tree::new(), Duration::ZERO);
    assert_eq!((result.pages_in_place(), result.time_in_place(), result.io_in_place()), (None, None, None));
    assert_eq!(result.samples, 2);
}

fn nic(name: &str) -> Device {
    Device {
        kind: DeviceKind::Network,
        names: vec![name.to_owned()],
        name_classes: Default::default(),
        pci: None,
        path: String::new(),
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: Default::default(),
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: None,
    }
}
