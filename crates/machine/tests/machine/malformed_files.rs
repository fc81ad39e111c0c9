//! Malformed files: reading a machine always terminates with a consistent result.

use numaio_machine::sysfs::{ReadError, Sysfs, SysfsExt};
use numaio_machine::topology::{self, Topology};
use numaio_machine::tree::{Entry, Tree};
use numaio_machine::{conditions, conformance};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Creates a machine with content in every file that topology and conditions read.
fn machine() -> Tree {
    let mut tree = Tree::new();
    conformance::fill(|path, content| {
        tree.file(path, content);
    });
    for node in 0..3 {
        let directory = format!("/sys/devices/system/node/node{node}");
        let cpus = ["0-1\n", "2-3\n", "\n"][node];
        tree.file(&format!("{directory}/cpulist"), cpus)
            .file(&format!("{directory}/distance"), "10 20 30\n")
            .file(&format!("{directory}/meminfo"), format!("Node {node} MemTotal: 1024 kB\n"))
            .file(&format!("{directory}/hugepages/hugepages-2048kB/nr_hugepages"), "2\n")
            .file(&format!("{directory}/hugepages/hugepages-2048kB/free_hugepages"), "1\n")
            .file(&format!("{directory}/memory_side_cache/index1/size"), "64\n");
        for figure in ["read_bandwidth", "write_bandwidth", "read_latency", "write_latency"] {
            tree.file(&format!("{directory}/access1/initiators/{figure}"), "100\n");
        }
        tree.link(&format!("{directory}/access1/initiators/node0"), "../../../node0");
    }
    cpus(&mut tree);
    processes(&mut tree);
    kinds(&mut tree);
    tree
}

fn cpus(tree: &mut Tree) {
    for cpu in 0..4 {
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}");
        for (name, text) in [
            ("topology/physical_package_id", "0"),
            ("topology/core_id", "0"),
            ("topology/die_id", "0"),
            ("topology/thread_siblings_list", ["0-1", "2-3"][cpu / 2]),
            ("cpu_capacity", ["1024", "400"][cpu / 2]),
            ("cache/index0/level", "1"),
            ("cache/index0/type", "Data"),
            ("cache/index0/size", "32K"),
            ("cache/index0/coherency_line_size", "64"),
            ("cache/index0/ways_of_associativity", "8"),
            ("cache/index0/shared_cpu_map", ["3", "c"][cpu / 2]),
        ] {
            tree.file(&format!("{directory}/{name}"), text);
        }
        let policy = format!("/sys/devices/system/cpu/cpufreq/policy{cpu}");
        tree.file(&format!("{policy}/scaling_governor"), "performance\n");
        tree.file(&format!("{policy}/scaling_cur_freq"), "2000000\n");
    }
    for (name, text) in
        [("cpu/online", "0-3"), ("cpu/present", "0-3"), ("node/online", "0-2"), ("node/possible", "0-3")]
    {
        tree.file(&format!("/sys/devices/system/{name}"), text);
    }
}

fn processes(tree: &mut Tree) {
    for (path, text) in [
        ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: x\nflags\t: lm\ncpu MHz\t: 2000.0\n"),
        ("/proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1024 kB\n"),
        ("/proc/stat", "cpu 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4\n"),
        ("/proc/version", "Linux version 6.1 (x86_64)\n"),
        ("/proc/sys/kernel/hostname", "host\n"),
        ("/proc/sys/kernel/osrelease", "6.1\n"),
        ("/proc/sys/kernel/arch", "x86_64\n"),
        ("/proc/sys/kernel/numa_balancing", "0\n"),
        ("/proc/self/stat", "1 (a) R 1 1 1 0 -1 0 0 0 0 0 1 2 0\n"),
        ("/proc/self/status", "Cpus_allowed_list:\t0-2\nMems_allowed_list:\t0\n"),
        ("/proc/self/cgroup", "0::/a\n"),
        ("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/2/comm", "kthreadd\n"),
        ("/sys/fs/cgroup/a/cpuset.cpus.effective", "0-2\n"),
        ("/sys/fs/cgroup/a/cpuset.mems.effective", "0-1\n"),
        ("/sys/fs/cgroup/a/memory.max", "1048576\n"),
        ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
        ("/sys/fs/cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_usec 70\n"),
        ("/sys/fs/cgroup/a/cpuset.cpus.partition", "isolated\n"),
        ("/sys/fs/cgroup/cpuset.cpus.isolated", "3\n"),
        // One CPU of each package is compared with its siblings.
        ("/sys/devices/system/cpu/cpu0/topology/core_siblings", "f\n"),
        ("/sys/devices/system/cpu/isolated", "2\n"),
        ("/sys/devices/system/cpu/nohz_full", "2-3\n"),
        ("/sys/class/dmi/id/sys_vendor", "maker\n"),
        ("/sys/class/dmi/id/product_name", "model\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] never\n"),
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
    ] {
        tree.file(path, text);
    }
}

fn kinds(tree: &mut Tree) {
    for (path, text) in [
        ("/proc/driver/nvidia/gpus/0000:01:00.0/numa_status", "Node: 2\n"),
        ("/sys/bus/pci/devices/0000:01:00.0/numa_node", "0\n"),
        ("/sys/bus/dax/devices/dax0.0/target_node", "2\n"),
        ("/sys/bus/cxl/devices/region0/resource", "0x100000000\n"),
        ("/sys/devices/system/memory/block_size_bytes", "8000000\n"),
        ("/sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-1\n"),
        ("/sys/devices/system/edac/mc/mc0/dimm0/dimm_mem_type", "Registered-DDR4\n"),
    ] {
        tree.file(path, text);
    }
}

/// A tree that records which files are read.
struct Watched<'a>(&'a Tree, RefCell<BTreeSet<String>>);

impl Sysfs for Watched<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let content = self.0.read(path)?;
        self.1.borrow_mut().insert(self.0.resolve(path)?);
        Ok(content)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.0.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.0.resolve(path)
    }
}

/// Returns the paths of the files read from [`machine`].
fn files_read() -> Vec<String> {
    let tree = machine();
    let watched = Watched(&tree, RefCell::default());
    topology::read(&watched);
    conditions::read(&watched);
    watched.1.into_inner().into_iter().collect()
}

fn check(tree: &Tree) {
    let machine = topology::read(tree);
    assert!(!machine.nodes.is_empty());
    let mut seen = BTreeSet::new();
    assert!(machine.nodes.iter().all(|node| node.cpus.iter().all(|cpu| seen.insert(cpu))));
    assert!(machine.nodes.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert!(machine.cpus.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert!(machine.cpus.iter().all(|cpu| cpu.siblings.contains(cpu.id)));
    assert!(seen.iter().all(|cpu| machine.cpu(*cpu).is_some_and(|cpu| cpu.online)));
    if let Some(distances) = &machine.distances {
        assert!(distances.rows.len() == machine.nodes.len());
        assert!(distances.rows.iter().all(|row| row.len() == machine.nodes.len()));
    }
    assert_eq!(topology::fingerprint(&machine).len(), 16);
    let stored = serde_json::to_string(&(&machine, conditions::read(tree))).expect("serialized results");
    let (again, _): (Topology, conditions::Conditions) = serde_json::from_str(&stored).expect("results");
    assert_eq!(again, machine);
}

#[test]
fn fixture_covers_every_file() {
    let tree = machine();
    check(&tree);
    let read: BTreeSet<String> = files_read().into_iter().collect();
    // /proc/meminfo counts where nodes have none; the rest belongs to other parts or is shared by
    // threads.
    let unread: Vec<&str> = tree
        .entries()
        .filter(|(path, entry)| matches!(entry, Entry::File(_)) && !read.contains(*path))
        .map(|(path, _)| path)
        .filter(|path| !path.contains("/cpu1/") && !path.contains("/cpu3/") && !path.contains("pci0000:00"))
        .filter(|path| !path.contains("cpu2/cache/index0") && *path != "/proc/meminfo")
        .collect();
    assert_eq!(unread, [""; 0], "every file of the fixture is read, so that garbage in it is tested");
}

#[test]
fn reads_a_machine_with_a_missing_file() {
    for path in files_read() {
        let mut tree = machine();
        tree.remove(&path);
        check(&tree);
    }
}

/// Arbitrary content, and nearly valid content.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..120),
        "[0-9a-f,:/. \n\\[\\]()K-]{0,60}".prop_map(String::into_bytes),
        "(Node [0-9]{1,2} )?[A-Za-z_()]{1,12}:[ \t]*[0-9]{1,25}( kB)?\n?".prop_map(String::into_bytes),
        "(0-)?[0-9]{1,6}(,[0-9]{1,12})?".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn garbage_in_some_files_never_panics(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), content()), 1..4)
    ) {
        thread_local!(static FILES: Vec<String> = files_read());
        let mut tree = machine();
        for (index, content) in changes {
            let path = FILES.with(|files| files[index.index(files.len())].clone());
            tree.file(&path, content);
        }
        check(&tree);
    }

    #[test]
    fn garbage_in_every_file_never_panics(seed in proptest::collection::vec(content(), 1..40)) {
        let mut tree = machine();
        for (path, content) in files_read().iter().zip(seed.iter().cycle()) {
            tree.file(path, content.clone());
        }
        check(&tree);
        prop_assert!(tree.exists("/proc/cpuinfo"));
    }
}
