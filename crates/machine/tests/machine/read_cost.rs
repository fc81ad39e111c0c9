//! Number of file reads for a machine with 64 nodes and 1,024 CPUs.

use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::topology::Cache;
use numaio_machine::tree::Tree;
use numaio_machine::{conditions, topology};
use std::cell::Cell;

const NODES: usize = 64;
const CPUS: usize = 1024;

/// A tree that counts accesses.
struct Counted(Tree, Cell<usize>);

impl Sysfs for Counted {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.1.set(self.1.get() + 1);
        self.0.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.1.set(self.1.get() + 1);
        self.0.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.1.set(self.1.get() + 1);
        self.0.resolve(path)
    }
}

/// Formats a list of CPUs below 1,024 as the kernel's mask.
fn mask(list: &str) -> String {
    let set = CpuSet::parse_list(list).expect("a list");
    let word = |base: u32| {
        (0..32).filter(|bit| set.contains(CpuId(base + bit))).fold(0u32, |word, bit| word | 1 << bit)
    };
    let words: Vec<String> = (0..32).rev().map(|index| format!("{:08x}", word(index * 32))).collect();
    words.join(",")
}

/// CPU n and CPU n + 512 are threads of one core; eight cores a node, eight nodes a package; an L3
/// for each node.
fn large() -> Tree {
    let mut tree = Tree::new();
    let cores = CPUS / 2;
    let node_cpus =
        |node: usize| format!("{}-{},{}-{}", node * 8, node * 8 + 7, cores + node * 8, cores + node * 8 + 7);
    for node in 0..NODES {
        let directory = format!("/sys/devices/system/node/node{node}");
        let distances: Vec<&str> = (0..NODES).map(|other| if other == node { "10" } else { "20" }).collect();
        tree.file(&format!("{directory}/cpulist"), node_cpus(node))
            .file(&format!("{directory}/distance"), distances.join(" "))
            .file(&format!("{directory}/meminfo"), format!("Node {node} MemTotal: 67108864 kB\n"))
            .file(&format!("{directory}/hugepages/hugepages-2048kB/nr_hugepages"), "0")
            .file(&format!("{directory}/hugepages/hugepages-2048kB/free_hugepages"), "0");
    }
    for cpu in 0..CPUS {
        let (core, directory) = (cpu % cores, format!("/sys/devices/system/cpu/cpu{cpu}"));
        let siblings = format!("{core},{}", core + cores);
        tree.file(&format!("{directory}/topology/physical_package_id"), (core / 64).to_string())
            .file(&format!("{directory}/topology/core_id"), (core % 64).to_string())
            .file(&format!("{directory}/topology/die_id"), "0")
            .file(&format!("{directory}/topology/thread_siblings_list"), siblings.clone());
        for (index, level, kind, size) in [
            (0, "1", "Data", "48K"),
            (1, "1", "Instruction", "32K"),
            (2, "2", "Unified", "2048K"),
            (3, "3", "Unified", "32M"),
        ] {
            let shared = if index == 3 { node_cpus(core / 8) } else { siblings.clone() };
            let cache = format!("{directory}/cache/index{index}");
            for (name, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("coherency_line_size", "64"),
                ("ways_of_associativity", "16"),
                ("shared_cpu_list", &shared),
                ("shared_cpu_map", &mask(&shared)),
            ] {
                tree.file(&format!("{cache}/{name}"), text);
            }
        }
    }
    let processors = (0..CPUS).map(|cpu| format!("processor\t: {cpu}\nmodel\t: 106\n\n"));
    tree.file("/proc/cpuinfo", processors.collect::<String>());
    tree.file("/sys/devices/system/cpu/online", "0-1023").file("/sys/devices/system/node/online", "0-63");
    tree
}

#[test]
fn reads_few_files_of_a_large_machine() {
    let counted = Counted(large(), Cell::new(0));
    let machine = topology::read(&counted);
    assert_eq!((machine.nodes.len(), machine.cpus.len()), (NODES, CPUS));
    assert_eq!(machine.caches.len(), 3 * CPUS / 2 + NODES);
    assert_eq!(machine.neighbors(NodeId(9)).to_string(), "8,10-15");
    // The files of CPUs and caches are more than 30,000; at 5 us each, reading all would take 150
    // ms.
    let asked = counted.1.get();
    assert!(asked < 4_600, "{asked} questions for a topology");
    counted.1.set(0);
    conditions::read(&counted);
    assert!(counted.1.get() < 50, "{} questions for conditions without cpufreq", counted.1.get());
}

#[test]
fn reads_caches_of_different_core_kinds() {
    let other = "/sys/devices/system/cpu/cpu7/cache";
    let level_1 = |tree: Tree| {
        let caches = topology::read(&tree).caches;
        let of_cpu_7 = |cache: &&Cache| cache.level == 1 && cache.cpus.contains(CpuId(7));
        caches.iter().filter(of_cpu_7).map(|cache| cache.bytes >> 10).collect::<Vec<_>>()
    };
    let with_level_1 = |size: &str| {
        let mut tree = large();
        tree.file(&format!("{other}/index0/size"), size);
        tree
    };
    // Only the size of its first level distinguishes this core, which no known hardware does.
    assert_eq!(level_1(with_level_1("64K")), [48, 32]);
    let mut tree = with_level_1("64K");
    tree.file(&format!("{other}/index2/size"), "4096K");
    assert_eq!(level_1(tree), [64, 32], "another second level");
    let mut tree = with_level_1("64K");
    tree.file(&format!("{other}/index2/shared_cpu_map"), mask("6-7"));
    assert_eq!(level_1(tree), [64, 32], "a second level shared by cores");
    let mut tree = with_level_1("64K");
    tree.file(&format!("{other}/index4/size"), "64M");
    assert_eq!(level_1(tree), [64, 32], "an additional cache");
    let mut tree = with_level_1("64K");
    tree.file("/sys/devices/cpu_core/cpus", "0-6");
    assert_eq!(level_1(tree), [64, 32], "an Intel hybrid");
    let mut tree = with_level_1("64K");
    tree.file("/proc/cpuinfo", "processor: 0\nCPU part: 0xd05\nprocessor: 7\nCPU part: 0xd0b\n");
    assert_eq!(level_1(tree), [64, 32], "two part numbers of Arm");
}
