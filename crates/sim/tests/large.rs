//! A machine of 64 nodes, 1,024 CPUs and 2,000 PCI functions, and the odd one, as they are
//! rendered.

use numaio_machine::devices::{DeviceKind, PciAddress};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::{ReadErrorKind, Sysfs, SysfsExt, MAX_FILE_BYTES};
use numaio_machine::tree::{Entry, Tree};
use numaio_sim::{render, shapes, Spec};
use std::collections::BTreeSet;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";
const PCI: &str = "/sys/bus/pci/devices";

fn cpus(tree: &Tree, path: &str) -> CpuSet {
    CpuSet::parse_list(&tree.text(path).expect(path)).expect(path)
}

fn mask(tree: &Tree, path: &str) -> CpuSet {
    CpuSet::parse_mask(&tree.text(path).expect(path)).expect(path)
}

fn numbered(tree: &Tree, dir: &str, stem: &str) -> usize {
    let number = |name: &String| name.strip_prefix(stem).is_some_and(|rest| rest.parse::<u32>().is_ok());
    tree.names(dir).iter().filter(|name| number(name)).count()
}

#[test]
fn large_machine_is_complete() {
    let spec = shapes::large();
    spec.check().expect("a machine");
    let tree = render(&spec);
    assert_eq!(numbered(&tree, NODES, "node"), 64);
    assert_eq!(numbered(&tree, CPUS, "cpu"), 1024);
    assert_eq!(tree.names(PCI).len(), 2000);
    assert_eq!(cpus(&tree, &format!("{CPUS}/online")).len(), 1024);
    let mut metadata = CpuSet::new();
    for node in tree.names("/sys/bus/node/devices") {
        let own = cpus(&tree, &format!("{NODES}/{node}/cpulist"));
        assert_eq!(own, mask(&tree, &format!("{NODES}/{node}/cpumap")));
        assert!(own.intersection(&metadata).is_empty());
        metadata.extend(own.iter());
        let distance = tree.text(&format!("{NODES}/{node}/distance")).expect("distances");
        assert_eq!(distance.split(' ').count(), 64);
    }
    assert_eq!(metadata.len(), 1024);
    let interrupts = tree.read("/proc/interrupts").expect("a file");
    assert!(interrupts.len() < MAX_FILE_BYTES / 4, "{} bytes of interrupts", interrupts.len());
    check_tree(&spec, &tree);
}

#[test]
fn all_shapes_are_consistent() {
    for name in shapes::NAMES.into_iter().filter(|name| *name != "large") {
        let spec = shapes::named(name).expect(name);
        spec.check().expect(name);
        check_tree(&spec, &render(&spec));
        assert_eq!(Spec::from_json(&spec.to_json()).expect(name), spec, "the description round-trips");
    }
}

/// Checks invariants of any machine's files.
fn check_tree(spec: &Spec, tree: &Tree) {
    for (path, entry) in tree.entries() {
        if let Entry::Link(_) = entry {
            tree.resolve(path).expect(path);
        }
    }
    check_cpus(tree);
    for device in &spec.devices {
        check_function(tree, device.pci);
    }
    check_interrupts(tree);
}

/// Siblings agree with each other, and CPUs with nodes.
fn check_cpus(tree: &Tree) {
    for cpu in cpus(tree, &format!("{CPUS}/online")).iter() {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        let threads = cpus(tree, &format!("{topology}/core_cpus_list"));
        assert_eq!(threads, mask(tree, &format!("{topology}/core_cpus")));
        assert!(threads.contains(cpu));
        let first = threads.first().expect("itself");
        assert_eq!(threads, cpus(tree, &format!("{CPUS}/cpu{first}/topology/thread_siblings_list")));
        let package = cpus(tree, &format!("{topology}/package_cpus_list"));
        assert!(threads.is_subset(&package));
        let nodes = tree.names(&format!("{CPUS}/cpu{cpu}"));
        let node = nodes.iter().find(|name| name.starts_with("node")).expect("a node");
        assert!(cpus(tree, &format!("{CPUS}/cpu{cpu}/{node}/cpulist")).contains(cpu));
        assert_eq!(
            tree.resolve(&format!("{NODES}/{node}/cpu{cpu}")).expect("a link"),
            format!("{CPUS}/cpu{cpu}")
        );
        let caches = tree.names(&format!("{CPUS}/cpu{cpu}/cache"));
        for index in &caches {
            let shared = cpus(tree, &format!("{CPUS}/cpu{cpu}/cache/{index}/shared_cpu_list"));
            assert!(shared.contains(cpu) && threads.is_subset(&shared));
        }
        assert!(!caches.is_empty());
    }
}

/// A function lies below its bridges, each a function of its own, under the root of its first
/// bridge's bus.
fn check_function(tree: &Tree, pci: PciAddress) {
    let link = format!("{PCI}/{pci}");
    let place = tree.resolve(&link).expect("a link");
    let parts: Vec<&str> = place.strip_prefix("/sys/devices/").expect("below devices").split('/').collect();
    let above: Vec<PciAddress> = parts[1..].iter().map(|part| part.parse().expect("an address")).collect();
    assert_eq!(parts[0], format!("pci{:04x}:{:02x}", above[0].domain, above[0].bus));
    for bridge in &above[..above.len() - 1] {
        let class = tree.text(&format!("{PCI}/{bridge}/class")).expect("a class");
        assert_eq!(class, "0x060400");
        let below = |name: &str| tree.value::<u8>(&format!("{PCI}/{bridge}/{name}")).expect(name);
        assert!((below("secondary_bus_number")..=below("subordinate_bus_number")).contains(&pci.bus));
    }
    let local = cpus(tree, &format!("{link}/local_cpulist"));
    assert_eq!(local, mask(tree, &format!("{link}/local_cpus")));
    match tree.value::<i64>(&format!("{link}/numa_node")).expect("a node") {
        -1 => assert_eq!(local, cpus(tree, &format!("{CPUS}/online"))),
        node => assert_eq!(local, cpus(tree, &format!("{NODES}/node{node}/cpulist"))),
    }
    if let Ok(driver) = tree.resolve(&format!("{link}/driver")) {
        assert_eq!(tree.resolve(&format!("{driver}/{pci}")).expect("bound both ways"), place);
    }
}

/// Every interrupt of a device is in the table once, and has a directory.
fn check_interrupts(tree: &Tree) {
    let table = tree.text("/proc/interrupts").expect("a table");
    let columns = table.lines().next().expect("a head").split_whitespace().count();
    assert_eq!(columns, cpus(tree, &format!("{CPUS}/online")).len());
    let mut numbers = BTreeSet::new();
    for line in table.lines().skip(1) {
        let (number, rest) = line.split_once(':').expect("a number");
        let Ok(number) = number.trim().parse::<u32>() else { continue };
        assert!(numbers.insert(number));
        let counts = rest.split_whitespace().take_while(|word| word.parse::<u64>().is_ok()).count();
        assert_eq!(counts, columns, "{line:.60}");
        let effective = cpus(tree, &format!("/proc/irq/{number}/effective_affinity_list"));
        assert!(effective.is_subset(&cpus(tree, &format!("/proc/irq/{number}/smp_affinity_list"))));
    }
    let of_devices = tree.names(PCI);
    let of_devices = of_devices.iter().flat_map(|pci| tree.names(&format!("{PCI}/{pci}/msi_irqs")));
    let of_devices: Vec<u32> = of_devices.map(|number| number.parse().expect("a number")).collect();
    assert_eq!(of_devices.len(), numbers.len());
    assert!(of_devices.iter().all(|number| numbers.contains(number)));
}

#[test]
fn sparse_machine_has_its_oddities() {
    let spec = shapes::sparse();
    let tree = render(&spec);
    let text = |path: &str| tree.text(path).expect(path);
    assert_eq!(text(&format!("{NODES}/online")), "0,2,5,9");
    assert_eq!(text(&format!("{NODES}/possible")), "0-3,5,9,12");
    assert_eq!(text(&format!("{NODES}/has_cpu")), "0,2,5");
    assert_eq!(text(&format!("{NODES}/node9/cpulist")), "");
    assert_eq!(text(&format!("{NODES}/node5/distance")), "21 21 10 14");
    assert_eq!(text(&format!("{CPUS}/offline")), "11,23");
    assert_eq!(text(&format!("{CPUS}/cpu11/online")), "0");
    assert!(!tree.exists(&format!("{CPUS}/cpu11/topology")) && !tree.exists(&format!("{CPUS}/cpu0/online")));
    assert_eq!(text(&format!("{CPUS}/cpu0/topology/core_cpus_list")), "0,12");
    assert_eq!(text(&format!("{NODES}/node2/hugepages/hugepages-2048kB/free_hugepages")), "256");
    assert_eq!(text(&format!("{NODES}/node9/access0/initiators/read_bandwidth")), "20000");
    assert_eq!(
        tree.resolve(&format!("{NODES}/node5/access0/targets/node9")).expect("a link"),
        format!("{NODES}/node9")
    );
    let dax = tree.resolve("/sys/bus/dax/devices/dax0.0").expect("a device");
    assert!(dax.contains("ACPI0017") && text(&format!("{dax}/target_node")) == "9");
    assert_eq!(text("/sys/class/net/ens1f0/device/current_link_speed"), "8.0 GT/s PCIe");
    assert_eq!(text("/sys/class/net/ens1f0/device/max_link_width"), "16");
    assert!(text("/sys/class/net/ens1f0/device/virtfn0/uevent").ends_with("PCI_SLOT_NAME=0000:3d:00.1"));
    assert_eq!(
        tree.resolve("/sys/class/net/ens1f0v0/device/physfn").ok(),
        tree.resolve("/sys/class/net/ens1f0/device").ok()
    );
    let down = tree.read("/sys/class/net/ens1f0v0/speed").expect_err("a port that is down");
    assert!(matches!(down.why, ReadErrorKind::Failed(_)));
    assert_eq!(text("/sys/class/nvme/nvme0/nvme0n1/../../../numa_node"), "-1");
    assert_eq!(text("/sys/block/nvme0n1/device/transport"), "pcie");
    assert!(tree.resolve("/sys/class/drm/card0").expect("a GPU").starts_with("/sys/devices/pci10000:01/"));
    assert_eq!(text("/sys/class/infiniband/mlx5_0/ports/1/state"), "1: DOWN");
    assert_eq!(text("/proc/self/cgroup"), "0::/user.slice");
    assert_eq!(text("/proc/4242/status").lines().last(), Some("Mems_allowed_list:\t0,2,5,9"));
}

/// An invalid description fails with the position of the error.
#[test]
fn rejects_invalid_descriptions() {
    type Breaks = fn(&mut Spec);
    let breaks: [(&str, Breaks); 18] = [
        ("node 0", |spec| spec.nodes[0].huge_pages[0].total = u64::MAX),
        ("node 5", |spec| spec.nodes[2].access[0].read_bytes_per_s = Some(f64::INFINITY)),
        ("node 2", |spec| spec.nodes[1].memory_bytes = u64::MAX),
        ("device 0000:3d:00.0", |spec| spec.devices[3].irqs = 1 << 30),
        ("nodes", |spec| spec.nodes.clear()),
        ("nodes", |spec| spec.nodes.reverse()),
        ("node 2", |spec| spec.nodes[1].cpus.extend(shapes::sparse().nodes[0].cpus.iter())),
        ("node 0", |spec| spec.nodes[0].free_bytes = u64::MAX),
        ("node 0", |spec| spec.nodes[0].threads_per_core = 3),
        ("node 9", |spec| spec.offline_nodes = NodeSet::one(NodeId(9))),
        ("offline_cpus", |spec| spec.offline_cpus = spec.present_cpus()),
        ("distances", |spec| spec.distances[1].clear()),
        ("paths", |spec| drop(spec.paths.pop())),
        ("path from CPUs of 0 to memory of 0", |spec| spec.paths[0].load_bytes_per_s = f64::NAN),
        ("path from CPUs of 0 to memory of 0", |spec| spec.paths[0].load_links = vec!["none".into()]),
        ("device 0000:3b:00.0", |spec| drop(spec.devices.remove(0))),
        ("device 0000:3d:00.0", |spec| spec.devices[3].names = vec!["../x".into()]),
        ("confinement.cpus", |spec| spec.confinement.cpus = Some(CpuSet::new())),
    ];
    for (at, change) in breaks {
        let mut spec = shapes::sparse();
        change(&mut spec);
        assert_eq!(spec.check().expect_err(at).at, at);
    }
    for text in ["", "{}x", r#"{"nodez":[]}"#, r#"{"schema":"numaio/spec/9"}"#, "{}"] {
        assert!(Spec::from_json(text).is_err(), "{text}");
    }
    assert!(shapes::sparse().devices.iter().any(|device| device.kind == DeviceKind::Bridge));
}
