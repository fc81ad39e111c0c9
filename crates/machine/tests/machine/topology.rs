//! Topologies of small synthetic machines, each with one peculiarity.

use numaio_machine::findings::{find_in_resources, Finding, Severity};
use numaio_machine::ids::{CpuId, NodeId, PackageId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{self, fingerprint, HugePages, Topology};
use numaio_machine::tree::Tree;

const NODES: &str = "/sys/devices/system/node";
const CPUS: &str = "/sys/devices/system/cpu";

/// Reads a machine with the findings about its nodes.
fn read(tree: &Tree) -> Topology {
    let mut machine = topology::read(tree);
    let found = find_in_resources(tree, &machine);
    machine.findings.extend(found);
    machine
}

/// Adds a node with CPUs of one package, without hardware threads, and memory in kB.
fn node(tree: &mut Tree, id: u32, package: u32, cpus: &str, kilobytes: u64) {
    let directory = format!("{NODES}/node{id}");
    tree.file(&format!("{directory}/cpulist"), format!("{cpus}\n")).file(
        &format!("{directory}/meminfo"),
        format!("Node {id} MemTotal: {kilobytes} kB\nNode {id} MemFree: {} kB\n", kilobytes / 2),
    );
    for cpu in list(cpus).iter() {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        tree.file(&format!("{topology}/physical_package_id"), format!("{package}\n"))
            .file(&format!("{topology}/core_id"), format!("{cpu}\n"))
            .file(&format!("{topology}/die_id"), "0\n")
            .file(&format!("{topology}/thread_siblings_list"), format!("{cpu}\n"));
    }
}

/// Creates two packages of two nodes with two CPUs each and the node ids 0, 1, 8 and 9.
fn four_nodes() -> Tree {
    let mut tree = Tree::new();
    node(&mut tree, 0, 0, "0-1", 4 << 20);
    node(&mut tree, 1, 0, "2-3", 4 << 20);
    node(&mut tree, 8, 1, "4-5", 4 << 20);
    node(&mut tree, 9, 1, "6-7", 4 << 20);
    for (id, row) in [(0, "10 16 22 22"), (1, "16 10 22 22"), (8, "22 22 10 16"), (9, "22 22 16 10")] {
        tree.file(&format!("{NODES}/node{id}/distance"), row);
    }
    tree.file(&format!("{NODES}/online"), "0-1,8-9\n").file(&format!("{NODES}/possible"), "0-1,8-9\n");
    tree.file(&format!("{CPUS}/online"), "0-7\n").file(&format!("{CPUS}/present"), "0-7\n");
    tree
}

fn list(text: &str) -> CpuSet {
    CpuSet::parse_list(text).expect("a list")
}

fn nodes(text: &str) -> NodeSet {
    NodeSet::parse_list(text).expect("a list")
}

fn rules(machine: &Topology) -> Vec<&str> {
    machine.findings.iter().map(|finding| finding.rule.as_str()).collect()
}

fn found<'a>(machine: &'a Topology, rule: &str) -> &'a Finding {
    machine
        .findings
        .iter()
        .find(|finding| finding.rule == rule)
        .unwrap_or_else(|| panic!("no finding {rule}"))
}

#[test]
fn reads_node_ids_with_gaps() {
    let machine = read(&four_nodes());
    assert_eq!(machine.cpu_nodes(), nodes("0-1,8-9"));
    assert_eq!(machine.node(NodeId(8)).expect("node 8").cpus, list("4-5"));
    assert_eq!(machine.neighbors(NodeId(8)), nodes("9"));
    let distances = machine.distances.as_ref().expect("distances");
    assert_eq!(distances.between(NodeId(0), NodeId(8)), Some(22));
    assert_eq!(distances.between(NodeId(9), NodeId(8)), Some(16));
    assert_eq!(machine.cpu(CpuId(6)).expect("CPU 6").package, Some(PackageId(1)));
    assert_eq!(rules(&machine), [""; 0], "a healthy machine has no findings");
    assert_eq!(machine.confinement.cpus, list("0-7"));
    assert!(machine.nodes.iter().all(|node| node.memory_allowed));
}

#[test]
fn reads_a_node_without_memory() {
    let mut tree = four_nodes();
    tree.file(&format!("{NODES}/node1/meminfo"), "Node 1 MemTotal:       0 kB\n");
    let machine = read(&tree);
    assert_eq!(machine.memory_nodes(), nodes("0,8-9"));
    assert_eq!(machine.cpu_nodes(), nodes("0-1,8-9"));
    assert!(!machine.node(NodeId(1)).expect("node 1").memory_allowed);
    let finding = found(&machine, "node-without-memory");
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Warning, "node 1"));
}

#[test]
fn hmat_assigns_a_memory_only_node_to_a_package() {
    let mut tree = four_nodes();
    node(&mut tree, 10, 0, "", 64 << 20);
    tree.file(&format!("{NODES}/online"), "0-1,8-10\n");
    // Nearest to package 0 by distance, to package 1 by HMAT: HMAT is more precise.
    for (id, row) in
        [(0, "10 16 22 22 11"), (1, "16 10 22 22 11"), (8, "22 22 10 16 30"), (9, "22 22 16 10 30")]
    {
        tree.file(&format!("{NODES}/node{id}/distance"), row);
    }
    tree.file(&format!("{NODES}/node10/distance"), "11 11 30 30 10");
    let by_distance = read(&tree);
    assert_eq!(by_distance.node(NodeId(10)).expect("node 10").packages, [PackageId(0)]);
    let initiators = format!("{NODES}/node10/access1/initiators");
    tree.link(&format!("{initiators}/node9"), "../../../node9")
        .file(&format!("{initiators}/read_bandwidth"), "30000");
    tree.file(&format!("{NODES}/node10/memory_side_cache/index1/size"), "4096");
    let machine = read(&tree);
    let far = machine.node(NodeId(10)).expect("node 10");
    assert_eq!(far.packages, [PackageId(1)]);
    assert_eq!((far.access[0].class, far.access[0].read_bytes_per_s), (1, Some(30e9)));
    assert_eq!(far.memory_side_caches[0].bytes, 4096);
    assert!(far.cpus.is_empty() && machine.neighbors(NodeId(10)).is_empty());
    assert_eq!(found(&machine, "node-without-cpus").subject, "node 10");
}

#[test]
fn lists_but_excludes_offline_cpus_and_nodes() {
    let mut tree = four_nodes();
    tree.file(&format!("{CPUS}/online"), "0-2,4-7\n").file(&format!("{NODES}/possible"), "0-3,8-9\n");
    let machine = read(&tree);
    assert_eq!(machine.offline_nodes, nodes("2-3"));
    let offline = machine.cpu(CpuId(3)).expect("it is present");
    assert!(!offline.online && !offline.allowed && offline.node.is_none());
    assert_eq!(machine.node(NodeId(1)).expect("node 1").cpus, list("2"), "a list can contain offline CPUs");
    // Kernels without the list have a file for each CPU that can be set offline.
    tree.remove(&format!("{CPUS}/online")).file(&format!("{CPUS}/cpu6/online"), "0\n");
    tree.file(&format!("{CPUS}/cpu3/online"), "1\n");
    assert_eq!(read(&tree).confinement.cpus, list("0-5,7"));
}

#[test]
fn reports_cpus_without_node() {
    let mut tree = four_nodes();
    tree.file(&format!("{NODES}/online"), "0-1,8\n");
    for (id, row) in [(0, "10 16 22"), (1, "16 10 22"), (8, "22 22 10")] {
        tree.file(&format!("{NODES}/node{id}/distance"), row);
    }
    let machine = read(&tree);
    assert_eq!(rules(&machine), ["cpus-without-node"]);
    assert!(found(&machine, "cpus-without-node").evidence.contains("6-7"));
    assert_eq!(machine.offline_nodes, nodes("9"));
    assert_eq!(machine.cpu(CpuId(6)).expect("CPU 6").node, None);
}

#[test]
fn counts_overlapping_cpus_for_the_first_node() {
    let mut tree = four_nodes();
    tree.file(&format!("{NODES}/node8/cpulist"), "2-5\n");
    let machine = read(&tree);
    assert_eq!(machine.node(NodeId(1)).expect("node 1").cpus, list("2-3"));
    assert_eq!(machine.node(NodeId(8)).expect("node 8").cpus, list("4-5"));
    let finding = found(&machine, "overlapping-cpus");
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Problem, "node 8"));
}

#[test]
fn omits_broken_distances() {
    let mut tree = four_nodes();
    tree.file(&format!("{NODES}/node9/distance"), "22 22 16\n");
    let machine = read(&tree);
    assert_eq!(machine.distances, None);
    assert_eq!(rules(&machine), ["distances-broken"]);
}

#[test]
fn applies_cgroup_v2_limits() {
    let mut tree = four_nodes();
    tree.file("/proc/self/cgroup", "0::/jobs/7/step\n")
        .file("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-4\nMems_allowed_list:\t0-1\n")
        .file("/sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
        .file("/sys/fs/cgroup/jobs/7/cpuset.cpus.effective", "2-5\n")
        .file("/sys/fs/cgroup/jobs/7/cpuset.mems.effective", "0-1\n")
        .file("/sys/fs/cgroup/jobs/7/step/memory.max", "max\n")
        .file("/sys/fs/cgroup/jobs/memory.max", "3221225472\n")
        .file("/sys/fs/cgroup/jobs/7/memory.max", "4294967296\n");
    let machine = read(&tree);
    let confinement = &machine.confinement;
    assert_eq!((&confinement.cpus, &confinement.excluded_cpus), (&list("2-4"), &list("0-1,5-7")));
    assert_eq!((&confinement.nodes, &confinement.excluded_nodes), (&nodes("0-1"), &nodes("8-9")));
    assert_eq!(confinement.memory_limit_bytes, Some(3 << 30), "the lowest limit of the ancestors");
    assert_eq!(confinement.cgroup.as_deref(), Some("/jobs/7/step"));
    assert_eq!(
        confinement.sources,
        [
            "cgroup v2 /jobs/7/step (cpuset.cpus.effective)",
            "cgroup v2 /jobs/7/step (cpuset.mems.effective)",
            "affinity mask (Cpus_allowed_list)",
            "memory limit of 3 GiB (/sys/fs/cgroup/jobs/memory.max)",
        ]
    );
    assert_eq!(machine.usable_cpus(NodeId(8)), list("4"));
    assert!(!machine.node(NodeId(8)).expect("node 8").memory_allowed);
    assert_eq!(found(&machine, "confined").severity, Severity::Note);
}

#[test]
fn applies_cgroup_v1_limits() {
    let mut tree = four_nodes();
    tree.file("/proc/self/cgroup", "5:cpuset:/job\n4:memory:/job\n0::/\n")
        .file(
            "/proc/mounts",
            "x /dev/cpuset cgroup rw,cpuset,noprefix 0 0\nx /mem cgroup rw,memory 0 0\nx /two cgroup2 rw 0 0\n",
        )
        .file("/dev/cpuset/job/cpus", "0-1,6,99\n")
        .file("/dev/cpuset/job/mems", "8\n")
        .file("/mem/job/memory.limit_in_bytes", "9223372036854771712\n")
        .file("/two/cpuset.cpus.effective", "0\n");
    let machine = read(&tree);
    assert_eq!(machine.confinement.cpus, list("0-1,6"));
    assert_eq!(machine.confinement.nodes, nodes("8"));
    assert_eq!(machine.confinement.memory_limit_bytes, None, "the largest number means no limit");
    assert_eq!(machine.confinement.sources, ["cgroup v1 /job (cpus)", "cgroup v1 /job (mems)"]);
}

/// Memory in use counts, less the page cache; of several groups the one with the least
/// left.
#[test]
fn memory_left_is_limit_minus_use() {
    let mut tree = four_nodes();
    tree.file("/proc/self/cgroup", "0::/pod/7\n")
        .file("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .file("/sys/fs/cgroup/pod/memory.max", "8589934592\n")
        .file("/sys/fs/cgroup/pod/memory.current", "7516192768\n")
        .file("/sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 536870912\nactive_file 536870912\n")
        .file("/sys/fs/cgroup/pod/7/memory.max", "4294967296\n")
        .file("/sys/fs/cgroup/pod/7/memory.current", "1073741824\n");
    let confinement = |tree: &Tree| {
        let found = read(tree).confinement;
        assert_eq!(found.memory_left_bytes, numaio_machine::topology::memory_left_bytes(tree));
        (found.memory_limit_bytes, found.memory_left_bytes)
    };
    assert_eq!(confinement(&tree), (Some(4 << 30), Some(2 << 30)));
    tree.file("/sys/fs/cgroup/pod/memory.current", "99999999999\n");
    assert_eq!(confinement(&tree), (Some(4 << 30), Some(0)));
    tree.file("/proc/self/cgroup", "4:memory:/job\n")
        .file("/proc/self/mountinfo", "30 24 0:26 / /mem rw - cgroup cgroup rw,memory\n")
        .file("/mem/memory.limit_in_bytes", "9223372036854771712\n")
        .file("/mem/job/memory.limit_in_bytes", "4294967296\n");
    assert_eq!(confinement(&tree), (Some(4 << 30), Some(4 << 30)), "the use is unknown");
    tree.file("/mem/job/memory.usage_in_bytes", "3221225472\n").file(
        "/mem/job/memory.stat",
        "inactive_file 7\ntotal_inactive_file 1073741824\ntotal_active_file 0\n",
    );
    assert_eq!(confinement(&tree), (Some(4 << 30), Some(2 << 30)));
    tree.file("/mem/job/memory.limit_in_bytes", "9223372036854771712\n");
    assert_eq!(confinement(&tree), (None, None));
}

#[test]
fn ignores_own_status_for_another_machine() {
    let mut tree = four_nodes();
    tree.file("/proc/self/status", "Cpus_allowed_list:\t64-127\nMems_allowed_list:\t3\n");
    let machine = read(&tree);
    assert_eq!(machine.confinement.cpus, list("0-7"));
    assert_eq!(machine.confinement.nodes, nodes("0-1,8-9"));
    assert_eq!(rules(&machine), [""; 0]);
}

#[test]
fn assumes_node_0_without_numa() {
    let mut tree = Tree::new();
    tree.file(&format!("{CPUS}/online"), "0-3\n")
        .file("/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1024 kB\n")
        .file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n")
        .file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n");
    let machine = read(&tree);
    assert_eq!((machine.nodes.len(), machine.nodes[0].id), (1, NodeId(0)));
    assert_eq!(machine.nodes[0].cpus, list("0-3"));
    assert_eq!(machine.nodes[0].memory.expect("memory").total_bytes, 8 << 30);
    assert_eq!(machine.nodes[0].huge_pages, [HugePages { page_bytes: 2 << 20, total: 8, free: 3 }]);
    assert_eq!(machine.distances, None);
    assert_eq!(rules(&machine), ["no-numa-in-kernel"]);
}

#[test]
fn assumes_node_0_without_sysfs() {
    let mut tree = Tree::new();
    tree.file("/proc/stat", "cpu  1 2 3 4\ncpu0 1 2 3 4\ncpu2 1 2 3 4\nintr 0\n")
        .file("/proc/meminfo", "MemTotal: 4 kB\n");
    let machine = read(&tree);
    assert_eq!(machine.nodes[0].cpus, list("0,2"));
    assert_eq!(rules(&machine), ["no-sysfs"]);
    let block = |id: u32, package: u32, core: u32| {
        format!("processor\t: {id}\nphysical id\t: {package}\ncore id\t: {core}\n\n")
    };
    let mut tree = Tree::new();
    tree.file("/proc/cpuinfo", block(0, 0, 0) + &block(1, 1, 0) + &block(2, 0, 0));
    let machine = read(&tree);
    assert_eq!(machine.nodes[0].cpus, list("0-2"));
    assert_eq!(machine.cpu(CpuId(2)).expect("CPU 2").siblings, list("0,2"));
    assert_eq!(machine.nodes[0].packages, [PackageId(0), PackageId(1)]);
}

#[test]
fn assumes_node_0_without_any_file() {
    let machine = read(&Tree::new());
    assert_eq!((machine.nodes.len(), machine.cpus.len()), (1, 0));
    assert_eq!(rules(&machine), ["no-sysfs", "node-empty"]);
}

#[test]
fn reads_shared_cores_and_caches() {
    let mut tree = four_nodes();
    for (cpu, siblings) in [(0, "0,4"), (4, "0,4"), (1, "1"), (2, "2")] {
        tree.file(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"), siblings);
    }
    for cpu in 0..8 {
        for (index, level, kind, size, shared) in [
            (0, 1, "Data", "32K", if cpu % 4 == 0 { "0,4".to_owned() } else { cpu.to_string() }),
            (1, 1, "Instruction", "32K", if cpu % 4 == 0 { "0,4".to_owned() } else { cpu.to_string() }),
            (3, 3, "Unified", "12288K", "0-7".to_owned()),
        ] {
            let directory = format!("{CPUS}/cpu{cpu}/cache/index{index}");
            tree.file(&format!("{directory}/level"), level.to_string())
                .file(&format!("{directory}/type"), kind)
                .file(&format!("{directory}/size"), size)
                .file(&format!("{directory}/coherency_line_size"), "64")
                .file(&format!("{directory}/ways_of_associativity"), "8")
                .file(&format!("{directory}/shared_cpu_list"), shared);
        }
    }
    let machine = read(&tree);
    let shown: Vec<String> = machine
        .caches
        .iter()
        .map(|cache| format!("L{} {} {}", cache.level, cache.kind, cache.cpus))
        .collect();
    assert_eq!(shown.len(), 7 + 7 + 1, "{shown:?}");
    assert_eq!((shown[0].as_str(), shown[14].as_str()), ("L1 Data 0,4", "L3 Unified 0-7"));
    assert_eq!((machine.caches[14].bytes, machine.caches[14].ways), (12 << 20, Some(8)));
    assert_eq!(machine.cpu(CpuId(4)).expect("CPU 4").siblings, list("0,4"));
    assert_eq!(machine.last_level_cache_bytes(&list("1")), Some(12 << 20));
}

#[test]
fn ignores_siblings_without_the_cpu_itself() {
    let mut tree = four_nodes();
    tree.file(&format!("{CPUS}/cpu2/topology/thread_siblings_list"), "0\n");
    let machine = read(&tree);
    assert_eq!(machine.cpus.len(), 8);
    assert_eq!(machine.cpu(CpuId(2)).expect("CPU 2").siblings, list("2"));
}

#[test]
fn nearest_nodes_use_both_distance_directions() {
    let mut tree = four_nodes();
    node(&mut tree, 10, 0, "", 1 << 20);
    tree.file(&format!("{NODES}/online"), "0-1,8-10\n");
    for (id, row) in
        [(0, "10 16 22 22 20"), (1, "16 10 22 22 20"), (8, "22 22 10 16 20"), (9, "22 22 16 10 19")]
    {
        tree.file(&format!("{NODES}/node{id}/distance"), row);
    }
    tree.file(&format!("{NODES}/node10/distance"), "20 17 30 30 10");
    assert_eq!(read(&tree).node(NodeId(10)).expect("node 10").packages, [PackageId(0)]);
    tree.file(&format!("{NODES}/node10/distance"), "30 30 17 30 10");
    assert_eq!(read(&tree).node(NodeId(10)).expect("node 10").packages, [PackageId(1)]);
    tree.remove(&format!("{NODES}/node10/distance"));
    assert_eq!(read(&tree).node(NodeId(10)).expect("node 10").packages, [], "the nearest node is unknown");
}

#[test]
fn makes_core_numbers_unique_per_package() {
    let mut tree = four_nodes();
    // As on processors with two dies that both number their cores from 0.
    for (cpu, core) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        tree.file(&format!("{CPUS}/cpu{cpu}/topology/core_id"), core.to_string());
    }
    let machine = read(&tree);
    let cores: Vec<Option<u32>> = machine.cpus.iter().map(|cpu| cpu.core).collect();
    assert_eq!(cores, [0, 1, 2, 3, 4, 5, 6, 7].map(Some));
}

#[test]
fn reads_memory_kinds() {
    let mut tree = four_nodes();
    for id in 10..=13 {
        node(&mut tree, id, 0, "", 16 << 20);
    }
    tree.file(&format!("{NODES}/online"), "0-1,8-13\n");
    let dax = |tree: &mut Tree, name: &str, path: &str, target: u32| {
        tree.file(&format!("{path}/target_node"), format!("{target}\n"));
        tree.link(&format!("/sys/bus/dax/devices/{name}"), path);
    };
    let cxl = "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0";
    dax(&mut tree, "dax0.0", cxl, 10);
    dax(&mut tree, "dax1.0", "/sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region1/dax1.0/dax1.0", 11);
    dax(&mut tree, "dax2.0", "/sys/devices/platform/hmem.2/dax2.0", 12);
    tree.file("/proc/driver/nvidia/gpus/0004:04:00.0/numa_status", "Node:      13\nStatus:    online\n")
        .file("/sys/bus/pci/devices/0004:04:00.0/numa_node", "8\n");
    let kind =
        |machine: &Topology, id: u32| machine.node(NodeId(id)).and_then(|node| node.memory_kind.clone());
    let machine = read(&tree);
    assert_eq!(kind(&machine, 10).as_deref(), Some("CXL"));
    assert_eq!(kind(&machine, 11).as_deref(), Some("PMEM"));
    assert_eq!(kind(&machine, 13).as_deref(), Some("GPU"));
    assert_eq!(machine.node(NodeId(13)).expect("node 13").packages, [PackageId(1)]);
    assert_eq!(kind(&machine, 12), None, "specific-purpose memory alone is ambiguous");
    assert_eq!(kind(&machine, 0), None);
    let tiers = "/sys/devices/virtual/memory_tiering";
    tree.file(&format!("{tiers}/memory_tier4/nodelist"), "0-1,8-9")
        .file(&format!("{tiers}/memory_tier2/nodelist"), "12");
    tree.file("/sys/devices/system/edac/mc/mc0/dimm0/dimm_mem_type", "Registered-DDR5\n");
    let machine = read(&tree);
    assert_eq!(kind(&machine, 12).as_deref(), Some("HBM"));
    assert_eq!(kind(&machine, 0).as_deref(), Some("DRAM"));
    tree.file("/sys/devices/system/edac/mc/mc1/dimm0/dimm_mem_type", "Non-volatile-RAM\n");
    assert_eq!(kind(&read(&tree), 0), None);
}

#[test]
fn finds_firmware_onlined_cxl_memory() {
    let mut tree = four_nodes();
    node(&mut tree, 10, 0, "", 16 << 20);
    tree.file(&format!("{NODES}/online"), "0-1,8-10\n")
        .file("/sys/bus/cxl/devices/region0/resource", "0x2080000000\n")
        .file("/sys/devices/system/memory/block_size_bytes", "8000000\n")
        .link(&format!("{NODES}/node10/memory1040"), "../../memory/memory1040");
    tree.dir("/sys/devices/system/memory/memory1040");
    assert_eq!(
        read(&tree).node(NodeId(10)).and_then(|node| node.memory_kind.clone()).as_deref(),
        Some("CXL")
    );
}

/// Adds memory blocks of 2 GiB to a node, `offline` of them after `online` others.
fn memory_blocks(tree: &mut Tree, id: u32, online: u32, offline: u32) {
    tree.file("/sys/devices/system/memory/block_size_bytes", "80000000\n");
    for block in 0..online + offline {
        let name = format!("memory{}", 100 + block);
        tree.link(&format!("{NODES}/node{id}/{name}"), &format!("../../memory/{name}"));
        let state = if block < online { "online\n" } else { "offline\n" };
        tree.file(&format!("/sys/devices/system/memory/{name}/state"), state);
    }
}

#[test]
fn reports_offline_memory_with_its_command() {
    let offline = |tree: &Tree| {
        let machine = read(tree);
        let found = machine.findings.iter().find(|finding| finding.rule == "memory-offline").cloned();
        let lacks_memory =
            |finding: &Finding| ["node-empty", "node-without-memory"].contains(&finding.rule.as_str());
        (found, machine.findings.iter().any(lacks_memory))
    };
    // A node whose memory is offline is not a placeholder.
    let mut tree = four_nodes();
    tree.file(&format!("{NODES}/online"), "0-1,8-10\n");
    node(&mut tree, 10, 0, "", 0);
    assert!(offline(&tree).1, "without blocks it is a placeholder");
    memory_blocks(&mut tree, 10, 0, 16);
    let (found, is_placeholder) = offline(&tree);
    let found = found.expect("a finding");
    assert!(!is_placeholder);
    assert_eq!((found.subject.as_str(), found.severity), ("node 10", Severity::Note));
    assert!(found.message.starts_with("32 GiB"), "{}", found.message);
    assert!(found.remedy.contains("chmem --enable --blocks 100-115"), "{}", found.remedy);
    // Half a node, and blocks that are not adjacent.
    let mut tree = four_nodes();
    memory_blocks(&mut tree, 1, 2, 2);
    let found = offline(&tree).0.expect("a finding");
    assert!(found.remedy.contains("--blocks 102-103"), "{}", found.remedy);
    tree.file("/sys/devices/system/memory/memory100/state", "offline\n");
    let found = offline(&tree).0.expect("a finding");
    assert!(found.remedy.contains("node1/memory*/state; do echo online"), "{}", found.remedy);
    // A node with CPUs and only offline memory.
    let mut tree = four_nodes();
    tree.file(&format!("{NODES}/node1/meminfo"), "Node 1 MemTotal: 0 kB\n");
    memory_blocks(&mut tree, 1, 0, 2);
    let (found, lacks_memory) = offline(&tree);
    assert_eq!((found.map(|found| found.severity), lacks_memory), (Some(Severity::Warning), false));
    // All blocks are online.
    let mut tree = four_nodes();
    memory_blocks(&mut tree, 1, 4, 0);
    assert_eq!(offline(&tree).0, None);
}

#[test]
fn fingerprint_ignores_the_current_state() {
    let mut tree = four_nodes();
    let print = |tree: &Tree| fingerprint(&read(tree));
    let before = print(&tree);
    assert_eq!(
        before, "3c92baf87f353105",
        "stored plans contain it: a different algorithm would invalidate them"
    );
    tree.file("/proc/sys/kernel/hostname", "other\n").file("/proc/self/status", "Cpus_allowed_list: 0\n");
    let kernel_took_a_little = "Node 0 MemTotal: 4190000 kB\nNode 0 MemFree: 77 kB\n";
    let got_more = "Node 0 MemTotal: 8388608 kB\n";
    for memory in [got_more, kernel_took_a_little] {
        tree.file(&format!("{NODES}/node0/meminfo"), memory);
        assert_eq!(print(&tree), before, "the memory of virtual machines changes while they run");
    }
    for (path, text) in [
        ("node0/meminfo", "Node 0 MemTotal: 0 kB\n"),
        ("node0/cpulist", "0\n"),
        ("node0/distance", "10 17 22 22"),
    ] {
        let mut other = tree.clone();
        other.file(&format!("{NODES}/{path}"), text);
        assert_ne!(print(&other), before, "{path}");
    }
}

/// Kernels of s390, SPARC and old POWER report -1 as the package of every CPU.
#[test]
fn numbers_packages_that_only_their_siblings_show() {
    let mut tree = four_nodes();
    for cpu in 0..8 {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        tree.file(&format!("{topology}/physical_package_id"), "-1")
            .file(&format!("{topology}/core_siblings_list"), if cpu % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" });
    }
    let machine = read(&tree);
    let package = |cpu| machine.cpu(CpuId(cpu)).expect("the CPU").package;
    for cpu in 0..8 {
        assert_eq!(package(cpu), Some(PackageId(u32::from(cpu % 4 > 1))), "CPU {cpu}");
    }
    assert!(!rules(&machine).contains(&"package-conflict"));
    // Without lists, masks show them, and without both nothing does.
    for cpu in 0..8 {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        tree.remove(&format!("{topology}/core_siblings_list"));
        tree.file(&format!("{topology}/core_siblings"), if cpu < 4 { "0f" } else { "f0" });
    }
    let machine = read(&tree);
    assert_eq!(machine.cpu(CpuId(5)).expect("CPU 5").package, Some(PackageId(1)));
    for cpu in 0..8 {
        tree.remove(&format!("{CPUS}/cpu{cpu}/topology/core_siblings"));
    }
    assert!(read(&tree).cpus.iter().all(|cpu| cpu.package.is_none()));
}

#[test]
fn reads_the_cpus_of_a_node_by_links() {
    let mut tree = four_nodes();
    let listed = read(&tree);
    for node in &listed.nodes {
        let directory = format!("{NODES}/node{}", node.id);
        tree.remove(&format!("{directory}/cpulist"));
        for cpu in node.cpus.iter() {
            tree.link(&format!("{directory}/cpu{cpu}"), &format!("{CPUS}/cpu{cpu}"));
        }
    }
    assert_eq!(read(&tree).cpus_by_node(), listed.cpus_by_node());
}

#[test]
fn distinguishes_unknown_memory_from_none() {
    let mut tree = four_nodes();
    for node in [0, 1, 8, 9] {
        tree.remove(&format!("{NODES}/node{node}/meminfo"));
    }
    tree.file(&format!("{NODES}/node1/meminfo"), "Node 1 MemTotal: 0 kB\n");
    for node in [8, 9] {
        tree.file(&format!("{NODES}/node{node}/cpulist"), "\n");
    }
    tree.file(&format!("{CPUS}/online"), "0-3\n");
    let machine = read(&tree);
    let unknown: Vec<bool> = machine.nodes.iter().map(|node| node.memory_unknown).collect();
    assert_eq!(unknown, [true, false, true, true]);
    assert_eq!(machine.memory_nodes().to_string(), "0,8-9");
    assert_eq!(rules(&machine), ["node-memory-unknown", "node-without-memory", "node-without-cpus"]);
}

#[test]
fn equal_caches_of_one_cpu_are_distinguished_by_id() {
    let mut tree = four_nodes();
    for index in 0..2 {
        for (file, text) in [("level", "3"), ("type", "Unified"), ("size", "33M"), ("shared_cpu_list", "0")] {
            tree.file(&format!("{CPUS}/cpu0/cache/index{index}/{file}"), text);
        }
    }
    assert_eq!(read(&tree).caches.len(), 1, "nothing distinguishes them");
    for index in 0..2 {
        tree.file(&format!("{CPUS}/cpu0/cache/index{index}/id"), index.to_string());
    }
    assert_eq!(read(&tree).caches.len(), 2);
}

/// A kernel that emulates nodes lists all CPUs in each.
#[test]
fn emulated_nodes_are_no_problem_of_the_firmware() {
    let mut tree = four_nodes();
    for node in [1, 8, 9] {
        tree.file(&format!("{NODES}/node{node}/cpulist"), "0-7\n");
    }
    assert!(rules(&read(&tree)).contains(&"overlapping-cpus"));
    tree.file("/proc/cmdline", "quiet numa=fake=4\n");
    let found = numaio_machine::discover::discover(&tree).findings;
    assert!(found.iter().any(|it| it.rule == "nodes-emulated" && it.evidence.contains("numa=fake=4")));
    assert!(found.iter().all(|it| it.severity == Severity::Note), "{found:#?}");
    tree.file(&format!("{NODES}/node9/cpulist"), "\n");
    assert!(!rules(&read(&tree)).contains(&"node-without-cpus"), "they share the CPUs of another node");
}

/// A container takes no part in the exclusion of isolated CPUs.
#[test]
fn isolated_cpus_are_apart_from_those_that_a_container_excludes() {
    let mut tree = four_nodes();
    tree.file(&format!("{CPUS}/isolated"), "2-3\n")
        .file("/proc/self/status", "Cpus_allowed_list:\t0-1,6-7\n");
    let message = found(&read(&tree), "confined").message.clone();
    assert_eq!(message, "This process may not use CPUs 4-5 and may not use isolated CPUs 2-3.");
}

/// An option of the kernel's command line is the cause, not the firmware or a missing module.
#[test]
fn findings_name_the_option_that_left_out_nodes_memory_or_cpus() {
    let mut hidden = Tree::new();
    node(&mut hidden, 0, 0, "0-1", 4 << 20);
    hidden
        .file(&format!("{CPUS}/online"), "0-1")
        .file(&format!("{CPUS}/cpu1/topology/physical_package_id"), "1");
    let mut without_memory = four_nodes();
    node(&mut without_memory, 9, 1, "6-7", 0);
    let mut without_cpus = four_nodes();
    node(&mut without_cpus, 9, 1, "", 4 << 20);
    without_cpus.file(&format!("{CPUS}/online"), "0-5").file(&format!("{CPUS}/present"), "0-5");
    let cases: [(&Tree, &str, &[&str]); 3] = [
        (&hidden, "node-interleaving", &["numa=off", "numa=noacpi", "acpi=off"]),
        (&without_memory, "node-without-memory", &["mem=8G"]),
        (&without_cpus, "node-without-cpus", &["maxcpus=6", "nr_cpus=6", "possible_cpus=6", "nosmp"]),
    ];
    for (tree, rule, options) in cases {
        let remedy = |options: &str| {
            let mut tree = tree.clone();
            tree.file("/proc/cmdline", format!("ro {options} mem=nopentium\n"));
            let found = numaio_machine::discover::discover(&tree).findings;
            found.into_iter().find(|it| it.rule == rule).expect(rule).remedy
        };
        assert!(!remedy("quiet").contains("Boot without"), "{rule}");
        for option in options {
            assert!(remedy(option).contains(&format!("Boot without {option}")), "{rule}: {}", remedy(option));
        }
    }
}

#[test]
fn offline_cpus_of_a_node_are_reported_with_the_command_for_them() {
    let mut tree = four_nodes();
    tree.file(&format!("{CPUS}/online"), "0-5").file(&format!("{NODES}/node9/cpulist"), "\n");
    assert!(found(&read(&tree), "node-without-cpus").remedy.starts_with("None"));
    for cpu in [6, 7] {
        tree.dir(&format!("{NODES}/node9/cpu{cpu}"));
    }
    assert!(found(&read(&tree), "node-without-cpus").remedy.ends_with("chcpu --enable 6-7"));
}

/// Most hypervisors give each virtual CPU a socket.
#[test]
fn sockets_of_a_guest_hide_no_node() {
    let mut tree = Tree::new();
    for cpu in 0..4 {
        tree.file(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id"), cpu.to_string())
            .file(&format!("{CPUS}/cpu{cpu}/topology/core_id"), "0");
    }
    tree.file(&format!("{CPUS}/online"), "0-3").file(&format!("{NODES}/node0/cpulist"), "0-3");
    tree.file(&format!("{NODES}/node0/meminfo"), "Node 0 MemTotal: 1000 kB\nNode 0 MemFree: 900 kB\n");
    let severity = |tree: &Tree| {
        let found = numaio_machine::discover::discover(tree).findings;
        let found = found.into_iter().find(|it| it.rule == "node-interleaving");
        found.map(|it| (it.severity, it.remedy.contains("firmware")))
    };
    assert_eq!(severity(&tree), Some((Severity::Warning, true)));
    tree.file("/sys/class/dmi/id/sys_vendor", "QEMU\n");
    assert_eq!(severity(&tree), Some((Severity::Note, false)));
}
