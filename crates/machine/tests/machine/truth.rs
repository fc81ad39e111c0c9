//! Machines whose files contradict each other or describe too little; each names the public report
//! that it rebuilds.

use numaio_machine::discover::discover;
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::{CoreKind, Topology};
use numaio_machine::tree::Tree;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// A machine with the given CPUs per node, a package per node, and distances of 10 and 20.
fn machine(nodes: u32, cores: u32) -> Tree {
    let mut tree = Tree::new();
    let last = nodes * cores - 1;
    tree.file(&format!("{CPUS}/online"), format!("0-{last}\n"))
        .file(&format!("{CPUS}/present"), format!("0-{last}\n"))
        .file(
            &format!("{NODES}/online"),
            if nodes > 1 { format!("0-{}\n", nodes - 1) } else { "0\n".into() },
        );
    for node in 0..nodes {
        let directory = format!("{NODES}/node{node}");
        let distances: Vec<&str> = (0..nodes).map(|to| if to == node { "10" } else { "20" }).collect();
        tree.file(&format!("{directory}/cpulist"), format!("{}-{}\n", node * cores, (node + 1) * cores - 1))
            .file(&format!("{directory}/distance"), distances.join(" "))
            .file(&format!("{directory}/meminfo"), format!("Node {node} MemTotal: 1048576 kB\n"));
        (node * cores..(node + 1) * cores).for_each(|id| cpu(&mut tree, id, node));
    }
    tree
}

fn cpu(tree: &mut Tree, id: u32, package: u32) {
    let directory = format!("{CPUS}/cpu{id}/topology");
    tree.file(&format!("{directory}/physical_package_id"), format!("{package}\n"))
        .file(&format!("{directory}/core_id"), format!("{id}\n"))
        .file(&format!("{directory}/thread_siblings_list"), format!("{id}\n"));
}

fn guest(tree: &mut Tree) {
    tree.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: x\nflags\t\t: fpu hypervisor\n");
}

fn found(machine: &Topology, rule: &str) -> Vec<Finding> {
    machine.findings.iter().filter(|finding| finding.rule == rule).cloned().collect()
}

fn one(tree: &Tree, rule: &str) -> Finding {
    let machine = discover(tree);
    let mut all = found(&machine, rule);
    assert_eq!(all.len(), 1, "{rule}: {:?}", machine.findings);
    all.remove(0)
}

fn none(tree: &Tree, rule: &str) {
    assert_eq!(found(&discover(tree), rule), [], "{rule}");
}

/// lxc/lxcfs#731, #401, #301: `online` shows a virtual CPU 0.
#[test]
fn kernel_affinity_beats_a_virtual_list_of_online_cpus() {
    let mut tree = machine(2, 16);
    tree.file("/proc/self/status", "Cpus_allowed_list:\t24\nMems_allowed_list:\t0-1\n");
    none(&tree, "online-cpus-conflict");
    tree.file(&format!("{CPUS}/online"), "0\n");
    let machine = discover(&tree);
    assert_eq!(machine.confinement.cpus.to_string(), "24");
    assert_eq!(machine.usable_cpus(NodeId(1)).to_string(), "24");
    assert_eq!(machine.nodes[0].cpus.to_string(), "0-15", "nodes keep their CPUs");
    let finding = one(&tree, "online-cpus-conflict");
    assert!(finding.message.contains("is 0, but"), "{finding:?}");
    assert_eq!(finding.severity, Severity::Warning);
    tree.file("/proc/self/mountinfo", "9 8 0:50 /proc/stat /proc/stat rw - fuse.lxcfs lxcfs rw\n");
    assert_eq!(one(&tree, "online-cpus-conflict").severity, Severity::Note, "usual in a container");
}

/// Newer lxcfs also hides the directories of other CPUs.
#[test]
fn kernel_affinity_beats_hidden_directories() {
    let mut tree = machine(2, 16);
    for id in (0..32).filter(|id| *id != 24) {
        tree.remove(&format!("{CPUS}/cpu{id}"));
    }
    tree.file(&format!("{CPUS}/online"), "0\n").file("/proc/self/status", "Cpus_allowed_list:\t24\n");
    let machine = discover(&tree);
    assert_eq!(machine.confinement.cpus.to_string(), "24");
    assert_eq!(machine.nodes[1].cpus.to_string(), "24");
}

/// The default affinity contains CPUs that are offline or not plugged in.
#[test]
fn affinity_to_offline_cpus_is_no_conflict() {
    let mut tree = machine(2, 4);
    tree.file(&format!("{CPUS}/online"), "0-6\n").file("/proc/self/status", "Cpus_allowed_list:\t0-127\n");
    tree.remove(&format!("{CPUS}/cpu7/topology"));
    tree.file(&format!("{CPUS}/cpu7/online"), "0\n");
    none(&tree, "online-cpus-conflict");
    assert_eq!(discover(&tree).confinement.cpus.to_string(), "0-6");
    // Recordings of some tools keep the topology of offline CPUs.
    tree.file(&format!("{CPUS}/cpu7/topology/core_id"), "7\n");
    none(&tree, "online-cpus-conflict");
}

#[test]
fn memory_of_nodes_is_compared_with_that_of_the_machine() {
    let mut tree = machine(2, 2);
    tree.file("/proc/meminfo", "MemTotal: 2080000 kB\n");
    none(&tree, "memory-conflict");
    tree.file("/proc/meminfo", "MemTotal: 4194304 kB\n");
    assert_eq!(one(&tree, "memory-conflict").severity, Severity::Warning);
    let mut plugged = tree.clone();
    guest(&mut plugged);
    assert_eq!(one(&plugged, "memory-conflict").severity, Severity::Note);
    // lxcfs shows the memory limit.
    tree.file("/proc/meminfo", "MemTotal: 262144 kB\n")
        .file("/proc/self/mountinfo", "9 8 0:50 / /dev/lxd rw - tmpfs tmpfs rw\n");
    assert_eq!(one(&tree, "memory-conflict").severity, Severity::Note);
}

#[test]
fn package_ids_are_compared_with_siblings() {
    let mut tree = machine(2, 2);
    for id in 0..4 {
        let list = if id < 2 { "0-1\n" } else { "2-3\n" };
        tree.file(&format!("{CPUS}/cpu{id}/topology/core_siblings_list"), list);
    }
    none(&tree, "package-conflict");
    // Two packages with one id, and a package with two ids.
    let mut same = tree.clone();
    (2..4).for_each(|id| cpu(&mut same, id, 0));
    assert_eq!(one(&same, "package-conflict").subject, "package 0");
    cpu(&mut tree, 1, 7);
    one(&tree, "package-conflict");
}

/// num_cpus#130, lxcfs#602: `limits.cpu` of containers.
#[test]
fn cpu_quota_of_the_group_is_a_limit() {
    let mut tree = machine(2, 8);
    tree.file("/proc/self/cgroup", "0::/\n")
        .file("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup2 ro\n")
        .file("/sys/fs/cgroup/cpu.max", "200000 100000\n")
        .file("/sys/fs/cgroup/cpu.stat", "nr_periods 1000\nnr_throttled 900\nthrottled_usec 12345678\n");
    let machine = discover(&tree);
    let quota = machine.confinement.cpu_quota.as_ref().expect("a quota");
    assert_eq!((quota.cpus(), quota.file.as_str()), (2.0, "/sys/fs/cgroup/cpu.max"));
    assert_eq!(machine.confinement.sources, ["CPU quota of 2 CPUs (/sys/fs/cgroup/cpu.max)"]);
    assert!(one(&tree, "confined").message.contains("CPU time of 2 CPUs"));
    assert!(one(&tree, "cpu-throttled").message.contains("90 %"));
    tree.file("/sys/fs/cgroup/cpu.max", "1600000 100000\n");
    assert_eq!(found(&discover(&tree), "confined"), [], "all CPUs");
}

/// Node interleaving in the firmware, and `numa=off`.
#[test]
fn packages_without_nodes_are_reported() {
    let mut tree = machine(1, 4);
    none(&tree, "node-interleaving");
    (2..4).for_each(|id| cpu(&mut tree, id, 1));
    assert!(one(&tree, "node-interleaving").remedy.contains("firmware"));
    guest(&mut tree);
    assert!(one(&tree, "node-interleaving").remedy.contains("libvirt"));
    tree.file("/proc/cmdline", "root=/dev/sda numa=off quiet\n");
    assert_eq!(one(&tree, "node-interleaving").remedy, "Boot without numa=off.");
    none(&machine(2, 2), "node-interleaving");
}

#[test]
fn nodes_that_cut_across_packages_are_reported() {
    let mut tree = machine(2, 4);
    [1, 4].into_iter().for_each(|id| cpu(&mut tree, id, 1 - id / 4));
    assert_eq!(one(&tree, "node-spans-packages").subject, "nodes 0-1");
    // A node of two complete packages, as behind a shared front-side bus.
    let mut sound = machine(2, 4);
    [2, 3, 6, 7].into_iter().for_each(|id| cpu(&mut sound, id, 2 + id / 4));
    none(&sound, "node-spans-packages");
}

/// SAP/arp142-hana#385: Azure M-series and VMware give eight nodes at distance 20 each.
#[test]
fn equal_distances_of_many_nodes_are_reported() {
    let mut tree = machine(8, 2);
    assert!(!one(&tree, "distances-uniform").remedy.contains("libvirt"));
    guest(&mut tree);
    assert!(one(&tree, "distances-uniform").remedy.contains("libvirt"));
    none(&machine(2, 2), "distances-uniform");
    tree.file(&format!("{NODES}/node3/distance"), "20 20 20 10 11 20 20 20\n");
    none(&tree, "distances-uniform");
}

#[test]
fn implausible_distances_are_reported() {
    let mut tree = machine(2, 2);
    none(&tree, "distances-implausible");
    for row in ["10 10", "20 10", "0 20", "255 20"] {
        tree.file(&format!("{NODES}/node0/distance"), row);
        assert_eq!(one(&tree, "distances-implausible").subject, "node 0", "{row}");
    }
}

/// kubernetes#135581, xpu-perf#129: GB200 has 32 placeholders for partitions of its GPUs.
#[test]
fn empty_nodes_are_one_note_without_a_remedy() {
    let mut tree = machine(2, 4);
    tree.file(&format!("{NODES}/online"), "0-33\n");
    for node in 2..34 {
        tree.file(&format!("{NODES}/node{node}/cpulist"), "\n")
            .file(&format!("{NODES}/node{node}/meminfo"), format!("Node {node} MemTotal: 0 kB\n"));
    }
    let finding = one(&tree, "node-empty");
    assert_eq!((finding.subject.as_str(), finding.severity), ("nodes 2-33", Severity::Note));
    assert!(finding.remedy.starts_with("None"));
    none(&tree, "node-without-memory");
    // A node with CPUs needs memory; how it gets some depends on who provides the machine.
    tree.file(&format!("{NODES}/node1/meminfo"), "Node 1 MemTotal: 0 kB\n");
    assert!(one(&tree, "node-without-memory").remedy.contains("memory modules"));
    guest(&mut tree);
    assert!(one(&tree, "node-without-memory").remedy.contains("guest"));
}

/// Mode 2 is memory tiering: turning it off loses promotion of hot pages from CXL memory.
#[test]
fn memory_tiering_is_not_balancing() {
    let mut tree = machine(2, 2);
    for (mode, rule, other) in [
        ("1\n", "numa-balancing", "memory-tiering"),
        ("2\n", "memory-tiering", "numa-balancing"),
        ("3\n", "numa-balancing", "memory-tiering"),
    ] {
        tree.file("/proc/sys/kernel/numa_balancing", mode);
        one(&tree, rule);
        none(&tree, other);
    }
    assert!(one(&tree, "numa-balancing").remedy.contains("numa_balancing=2"), "tiering stays on");
}

/// hwloc's CPU kinds; util-linux#4595, #1207: DGX Spark, big.LITTLE.
#[test]
fn core_kinds_come_from_capacity_or_pmus() {
    let kinds = |tree: &Tree| -> Vec<Option<CoreKind>> {
        discover(tree).cpus.iter().map(|cpu| cpu.core_kind).collect()
    };
    let mut tree = machine(1, 4);
    assert_eq!(kinds(&tree), [None; 4]);
    for (id, capacity) in ["718", "1024", "1017", "718"].iter().enumerate() {
        tree.file(&format!("{CPUS}/cpu{id}/cpu_capacity"), *capacity);
    }
    let kind = |rank, capacity| Some(CoreKind { rank, capacity });
    let (fast, slow) = (kind(0, Some(1024)), kind(1, Some(718)));
    assert_eq!(kinds(&tree), [slow, fast, fast, slow]);
    let mut tree = machine(1, 4);
    tree.file("/sys/devices/cpu_core/cpus", "0-1\n");
    assert_eq!(kinds(&tree), [None; 4], "one kind");
    tree.file("/sys/devices/cpu_atom/cpus", "2-3\n");
    assert_eq!(kinds(&tree), [kind(0, None), kind(0, None), kind(1, None), kind(1, None)]);
}

#[test]
fn separate_last_level_caches_of_a_node_are_reported() {
    let mut tree = machine(1, 4);
    let mut share = |id: u32, list: &str, size: &str| {
        let cache = format!("{CPUS}/cpu{id}/cache/index3");
        for (name, text) in [("level", "3"), ("type", "Unified"), ("size", size), ("shared_cpu_list", list)] {
            tree.file(&format!("{cache}/{name}"), text);
        }
    };
    (0..4).for_each(|id| share(id, "0-3", "32768K"));
    let whole = tree.clone();
    none(&whole, "cache-domains");
    let mut share = |id: u32, list: &str, size: &str| {
        tree.file(&format!("{CPUS}/cpu{id}/cache/index3/shared_cpu_list"), list)
            .file(&format!("{CPUS}/cpu{id}/cache/index3/size"), size);
    };
    (0..2).for_each(|id| share(id, "0-1", "98304K"));
    (2..4).for_each(|id| share(id, "2-3", "32768K"));
    let finding = one(&tree, "cache-domains");
    assert!(finding.message.contains("2 separate L3 caches"), "{finding:?}");
    assert!(finding.message.contains("96 MiB, belongs to CPUs 0-1"), "{finding:?}");
}

/// A firmware that reports a node for a device whose local CPUs are on another one.
#[test]
fn conflicting_locality_of_a_device_is_reported() {
    let mut tree = machine(2, 2);
    let device = "/sys/devices/pci0000:16/0000:16:01.0";
    tree.file(&format!("{device}/class"), "0x020000\n")
        .file(&format!("{device}/vendor"), "0x15b3\n")
        .file(&format!("{device}/device"), "0x101b\n")
        .file(&format!("{device}/numa_node"), "1\n")
        .file(&format!("{device}/local_cpulist"), "2-3\n")
        .link("/sys/bus/pci/devices/0000:16:01.0", "../../../devices/pci0000:16/0000:16:01.0");
    none(&tree, "device-locality-conflict");
    tree.file(&format!("{device}/local_cpulist"), "0-1\n");
    assert!(one(&tree, "device-locality-conflict").message.contains("CPUs 0-1"));
}

/// HMAT comes first, then memory tiers, then DAX; the source is named.
#[test]
fn memory_kinds_name_their_source() {
    let mut tree = machine(1, 4);
    tree.file(&format!("{NODES}/online"), "0-3\n");
    for node in 1..4 {
        tree.file(&format!("{NODES}/node{node}/cpulist"), "\n")
            .file(&format!("{NODES}/node{node}/meminfo"), format!("Node {node} MemTotal: 1048576 kB\n"));
    }
    let kinds = |tree: &Tree| -> Vec<Option<(String, String)>> {
        let machine = discover(tree);
        machine
            .nodes
            .iter()
            .map(|node| node.memory_kind.clone().zip(node.memory_kind_source.clone()))
            .collect()
    };
    let kind = |kind: &str, source: &str| Some((kind.to_owned(), source.to_owned()));
    assert_eq!(kinds(&tree), [None, None, None, None]);
    let dax = "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0";
    tree.file(&format!("{dax}/target_node"), "3\n").link("/sys/bus/dax/devices/dax0.0", dax);
    tree.file("/sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0\n")
        .file("/sys/devices/virtual/memory_tiering/memory_tier2/nodelist", "2\n");
    assert_eq!(kinds(&tree)[1..], [None, kind("HBM", "memory_tier2"), kind("CXL", "dax0.0")]);
    for (node, megabytes) in [(0, "200000"), (1, "800000"), (3, "60000")] {
        let initiators = format!("{NODES}/node{node}/access1/initiators");
        tree.file(&format!("{initiators}/read_bandwidth"), megabytes)
            .link(&format!("{initiators}/node0"), "../../../node0");
    }
    let all = [
        kind("DRAM", "HMAT access class 0"),
        kind("HBM", "HMAT access class 1"),
        kind("HBM", "memory_tier2"),
        kind("CXL", "dax0.0"),
    ];
    assert_eq!(kinds(&tree), all);
}
