//! Descriptions of typical machines, with plausible round bandwidths that were not measured.

use crate::spec::{
    CacheSpec, DeviceSpec, IoRates, IoSpec, LinkSpec, NodeSpec, PathSpec, Sharing, SharingRule, Spec,
};
use numaio_machine::devices::{DeviceKind, PciAddress, PcieLink, Sriov};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::topology::{Access, HugePages, MemorySideCache};
use numaio_machine::workload::CopyLoop;

/// Names of the shapes that [`named`] knows.
pub const NAMES: [&str; 7] = ["one", "uniform", "dl585", "epyc", "sparse", "arm", "large"];

const GIB: u64 = 1 << 30;
/// Latency of local memory; that of remote memory grows with the distance.
const LOCAL_LATENCY_NS: f64 = 90.0;

/// A shape by name, for tools.
pub fn named(name: &str) -> Option<Spec> {
    match name {
        "one" => Some(uniform(1, 4)),
        "uniform" => Some(uniform(4, 8)),
        "dl585" => Some(dl585()),
        "epyc" => Some(epyc()),
        "sparse" => Some(sparse()),
        "arm" => Some(arm()),
        "large" => Some(large()),
        _ => None,
    }
}

/// Figures of the path between CPUs and a memory, in bytes per second.
#[derive(Debug, Clone, Copy)]
pub struct PathFigures {
    /// Loads of all CPUs of a node together.
    pub load: f64,
    /// Stores of all CPUs of a node together.
    pub store: f64,
    /// Copies of one core.
    pub core: f64,
}

/// Nodes alike, each a package of its own with `cpus` CPUs and 16 GiB, and every node equally far
/// from every other. Local memory copies at 40 GB/s (loads 40, stores 40, the controller 100 of
/// both together); from remote memory loads come at 24, to remote memory stores go at 16 GB/s; a
/// core copies 10, remotely 6.
pub fn uniform(nodes: u32, cpus: u32) -> Spec {
    let mut spec = Spec { name: format!("uniform-{nodes}x{cpus}"), ..Spec::default() };
    spec.nodes = (0..nodes).map(|id| node(id, id * cpus..(id + 1) * cpus)).collect();
    spec.caches = caches(Sharing::Node);
    spec.distances = distances(&spec, |from, to| if from == to { 10 } else { 20 });
    wire(&mut spec, 100e9, |cpus, memory| match cpus == memory {
        true => PathFigures { load: 40e9, store: 40e9, core: 10e9 },
        false => PathFigures { load: 24e9, store: 16e9, core: 6e9 },
    });
    spec
}

/// Eight nodes of four CPUs, two nodes to a package, as the DL585 G7 of Li et al. (ICPP 2013) has
/// them, with a 40-Gbit/s NIC and two NVMe drives on node 7. As in the paper, the two directions
/// rank the nodes differently, and distance predicts neither; only the drives' figures are the
/// paper's (Tables IV and V, SSDs, by class). The NIC needs several streams for its full rate.
pub fn dl585() -> Spec {
    // By node from the view of node 7; other nodes have the same figures, rotated.
    const LOAD: [f64; 8] = [5.6, 5.6, 3.3, 3.3, 5.6, 5.6, 6.9, 7.0];
    const STORE: [f64; 8] = [4.2, 4.2, 5.0, 5.0, 2.9, 4.2, 6.9, 7.0];
    let mut spec = Spec {
        name: "dl585".into(),
        vendor: "HP".into(),
        product: "ProLiant DL585 G7".into(),
        ..Spec::default()
    };
    spec.cpu_model = "AMD Opteron(tm) Processor 6136".into();
    spec.loops = vec![CopyLoop::Memcpy];
    spec.nodes = (0..8)
        .map(|id| NodeSpec { package: id / 2, die: id % 2, ..node(id, id * 4..(id + 1) * 4) })
        .collect();
    spec.caches = caches(Sharing::Node);
    spec.distances = distances(&spec, |from, to| match from ^ to {
        0 => 10,
        1 => 16,
        other if other % 2 == 0 => 16,
        _ => 22,
    });
    wire(&mut spec, 30e9, |cpus, memory| {
        let metadata = (cpus.0 ^ memory.0 ^ 7) as usize;
        PathFigures { load: LOAD[metadata] * 1e9, store: STORE[metadata] * 1e9, core: 2.5e9 }
    });
    let port = |bus| DeviceSpec {
        node: Some(NodeId(7)),
        irqs: 1,
        ..device(DeviceKind::Bridge, pci(0, bus, 1, 0), 8.0, 8)
    };
    let under = |bus| Some(pci(0, bus, 1, 0));
    let nic = device(DeviceKind::Network, pci(0, 0x21, 0, 0), 8.0, 8);
    let drive = IoSpec {
        write: rates(&[28.5, 28.5, 18.0, 18.0, 28.5, 28.5, 28.8, 28.8], 28.8, None),
        read: rates(&[30.1, 30.1, 33.1, 33.1, 18.5, 30.1, 34.7, 34.7], 34.7, None),
    };
    let network = IoSpec {
        write: rates(&[21.0, 21.0, 16.0, 16.0, 21.0, 21.0, 24.0, 24.0], 30.0, Some(9.0)),
        read: rates(&[19.0, 19.0, 22.0, 22.0, 14.0, 19.0, 23.0, 23.0], 30.0, Some(9.0)),
    };
    spec.devices = vec![
        port(0x20),
        DeviceSpec {
            node: Some(NodeId(7)),
            under: under(0x20),
            names: vec!["eth0".into()],
            irqs: 4,
            port_bits_per_s: Some(40_000_000_000),
            io: Some(network),
            ..nic
        },
    ];
    for index in 0..2u8 {
        let disk = device(DeviceKind::Nvme, pci(0, 0x31 + 0x10 * index, 0, 0), 8.0, 4);
        let (bus, names) = (0x30 + 0x10 * index, vec![format!("nvme{index}n1")]);
        let disk = DeviceSpec {
            node: Some(NodeId(7)),
            under: under(bus),
            names,
            model: "Simulated drive".into(),
            irqs: 4,
            io: Some(drive.clone()),
            ..disk
        };
        spec.devices.extend([port(bus), disk]);
    }
    spec
}

/// Two sockets of 16 CPUs, with devices that are slower than every path: on node 0 four NICs of 100
/// Gbit/s, which together exceed the path between the sockets, on node 1 a drive. Local memory
/// copies at 140 GB/s, the path carries 38.
pub fn epyc() -> Spec {
    let mut spec = uniform(2, 16);
    spec.name = "epyc".into();
    spec.distances = distances(&spec, |from, to| if from == to { 10 } else { 32 });
    wire(&mut spec, 400e9, |cpus, memory| match cpus == memory {
        true => PathFigures { load: 140e9, store: 140e9, core: 12e9 },
        false => PathFigures { load: 38e9, store: 38e9, core: 6e9 },
    });
    let nic = |index: u8| DeviceSpec {
        node: Some(NodeId(0)),
        names: vec![format!("eth{index}")],
        irqs: 4,
        port_bits_per_s: Some(100_000_000_000),
        ..device(DeviceKind::Network, pci(0, 0x21 + 0x10 * index, 0, 0), 16.0, 16)
    };
    let drive = DeviceSpec {
        node: Some(NodeId(1)),
        names: vec!["nvme0n1".into()],
        model: "Simulated drive".into(),
        irqs: 4,
        ..device(DeviceKind::Nvme, pci(0, 0x81, 0, 0), 16.0, 4)
    };
    spec.devices = (0..4).map(nic).chain([drive]).collect();
    spec
}

/// A machine with all oddities that parsers must handle: node ids 0, 2 and 5, a CXL node 9 without
/// CPUs, two threads a core, a core offline, nodes that are possible only, reserved huge pages,
/// HMAT figures, a memory-side cache, a device without a node, a link that runs below its best, a
/// switch, virtual functions, a port that is down.
pub fn sparse() -> Spec {
    let mut spec = Spec { name: "sparse".into(), ..Spec::default() };
    for (index, id) in [0, 2, 5].into_iter().enumerate() {
        let first = index as u32 * 4;
        let mut one = node(id, (first..first + 4).chain(first + 12..first + 16));
        one.threads_per_core = 2;
        one.package = index as u32;
        one.huge_pages = vec![
            HugePages { page_bytes: 2 << 20, total: 512, free: 256 },
            HugePages { page_bytes: GIB, total: 1, free: 1 },
        ];
        one.access = vec![access(0, id, 90e9, 95), access(1, id, 90e9, 95)];
        spec.nodes.push(one);
    }
    spec.nodes[0].memory_side_caches = vec![MemorySideCache { level: 1, bytes: GIB }];
    let cxl = NodeSpec {
        memory_kind: "CXL".into(),
        access: vec![access(0, 5, 20e9, 250), access(1, 5, 20e9, 250)],
        ..node(9, [])
    };
    spec.nodes.push(cxl);
    spec.offline_cpus = [CpuId(11), CpuId(23)].into_iter().collect();
    spec.offline_nodes = [1, 3, 12].into_iter().map(NodeId).collect();
    spec.caches = caches(Sharing::Package);
    spec.distances = distances(&spec, |from, to| match (from, to) {
        (from, to) if from == to => 10,
        (9, 5) | (5, 9) => 14,
        (9, _) | (_, 9) => 24,
        _ => 21,
    });
    wire(&mut spec, 90e9, |cpus, memory| match (cpus.0, memory.0) {
        (cpus, memory) if cpus == memory => PathFigures { load: 45e9, store: 40e9, core: 11e9 },
        (_, 9) => PathFigures { load: 18e9, store: 9e9, core: 3e9 },
        _ => PathFigures { load: 30e9, store: 20e9, core: 7e9 },
    });
    spec.devices = sparse_devices();
    spec
}

fn sparse_devices() -> Vec<DeviceSpec> {
    let mut devices = devices_below_a_switch();
    devices.extend(devices_without_a_node());
    devices.extend(devices_of_the_first_node());
    devices
}

/// On node 2: a root port, a switch, and a NIC with a virtual function; its link runs at a quarter
/// of its best.
fn devices_below_a_switch() -> Vec<DeviceSpec> {
    let port = pci(0, 0x3a, 0, 0);
    let (up, down) = (pci(0, 0x3b, 0, 0), pci(0, 0x3c, 4, 0));
    let two = Some(NodeId(2));
    let bridge = |address, under| DeviceSpec {
        under,
        node: two,
        irqs: 1,
        ..device(DeviceKind::Bridge, address, 16.0, 16)
    };
    let (physical, function) = (pci(0, 0x3d, 0, 0), pci(0, 0x3d, 0, 1));
    let mut nic = DeviceSpec {
        under: Some(down),
        node: two,
        names: vec!["ens1f0".into()],
        irqs: 4,
        port_bits_per_s: Some(100_000_000_000),
        ..device(DeviceKind::Network, physical, 16.0, 16)
    };
    nic.sriov = Some(Sriov::Physical { total: 8, functions: vec![function] });
    if let Some(link) = &mut nic.link {
        (link.gt_per_s, link.lanes) = (8.0, 8);
    }
    let virtual_function = DeviceSpec {
        under: Some(down),
        node: two,
        names: vec!["ens1f0v0".into()],
        irqs: 1,
        sriov: Some(Sriov::Virtual { physical_function: physical }),
        ..device(DeviceKind::Network, function, 0.0, 0)
    };
    vec![bridge(port, None), bridge(up, Some(port)), bridge(down, Some(up)), nic, virtual_function]
}

/// Firmware that forgot the node: -1, under a root port that has it, and one where nothing has it.
fn devices_without_a_node() -> [DeviceSpec; 3] {
    let disk = DeviceSpec {
        under: Some(pci(0, 0x80, 1, 0)),
        names: vec!["nvme0n1".into()],
        model: "Simulated drive".into(),
        irqs: 3,
        ..device(DeviceKind::Nvme, pci(0, 0x81, 0, 0), 16.0, 4)
    };
    let disk_port =
        DeviceSpec { node: Some(NodeId(5)), ..device(DeviceKind::Bridge, pci(0, 0x80, 1, 0), 16.0, 4) };
    let lost = DeviceSpec {
        names: vec!["card0".into()],
        power_state: Some("D3hot".into()),
        ..device(DeviceKind::Gpu, pci(0x10000, 1, 0, 0), 16.0, 16)
    };
    [disk_port, disk, lost]
}

/// A RDMA device with its port down, a disk behind SATA, and a DMA engine that no driver is bound
/// to.
fn devices_of_the_first_node() -> [DeviceSpec; 3] {
    let rdma = DeviceSpec {
        node: Some(NodeId(0)),
        names: vec!["mlx5_0".into(), "ib0".into()],
        irqs: 2,
        ..device(DeviceKind::Rdma, pci(0, 0x17, 0, 0), 16.0, 16)
    };
    let sata = DeviceSpec {
        node: Some(NodeId(0)),
        names: vec!["sda".into()],
        model: "Simulated disk".into(),
        irqs: 1,
        link: None,
        ..device(DeviceKind::StorageController, pci(0, 0, 0x17, 0), 0.0, 0)
    };
    let unbound = DeviceSpec {
        node: Some(NodeId(0)),
        driver: None,
        ..device(DeviceKind::Dma, pci(0, 0, 4, 0), 16.0, 16)
    };
    [rdma, sata, unbound]
}

/// Two sockets of aarch64 with a drive on each.
pub fn arm() -> Spec {
    let mut spec = uniform(2, 16);
    spec.name = "arm".into();
    spec.architecture = "aarch64".into();
    spec.loops = vec![CopyLoop::Memcpy, CopyLoop::Stnp];
    for index in 0..2u8 {
        let address = pci(u32::from(index), 1, 0, 0);
        let disk = device(DeviceKind::Nvme, address, 16.0, 4);
        let (node, names) = (Some(NodeId(u32::from(index))), vec![format!("nvme{index}n1")]);
        spec.devices.push(DeviceSpec { node, names, irqs: 4, model: "Simulated drive".into(), ..disk });
    }
    spec
}

/// 64 nodes, 1,024 CPUs, 2,000 PCI functions: under each of 40 root ports on its own domain and
/// bus, a switch of two levels and 47 functions, among them a NIC with virtual functions and
/// drives.
pub fn large() -> Spec {
    let mut spec = uniform(64, 16);
    spec.name = "large".into();
    for (index, node) in spec.nodes.iter_mut().enumerate() {
        (node.package, node.die) = (index as u32 / 4, index as u32 % 4);
    }
    spec.distances = distances(&spec, |from, to| match (from == to, from / 4 == to / 4) {
        (true, _) => 10,
        (_, true) => 12,
        _ => 32,
    });
    for unit in 0..40u32 {
        large_unit(unit, &mut spec.devices);
    }
    spec
}

/// 50 functions: a root port, a switch's upstream and downstream port, a NIC, 38 of its virtual
/// functions that no driver is bound to, and 8 drives.
fn large_unit(unit: u32, devices: &mut Vec<DeviceSpec>) {
    let node = Some(NodeId(unit % 64));
    let bridges = [pci(unit, 0, 1, 0), pci(unit, 1, 0, 0), pci(unit, 2, 0, 0)];
    for (index, address) in bridges.into_iter().enumerate() {
        let under = index.checked_sub(1).map(|above| bridges[above]);
        devices.push(DeviceSpec { node, under, irqs: 1, ..device(DeviceKind::Bridge, address, 32.0, 16) });
    }
    let under = Some(bridges[2]);
    let physical = pci(unit, 3, 0, 0);
    let functions: Vec<PciAddress> = (1..39u8).map(|one| pci(unit, 3, one / 8, one % 8)).collect();
    let nic = device(DeviceKind::Network, physical, 32.0, 16);
    let sriov = Some(Sriov::Physical { total: 64, functions: functions.clone() });
    let names = vec![format!("eth{unit}")];
    devices.push(DeviceSpec {
        node,
        under,
        names,
        sriov,
        irqs: 2,
        port_bits_per_s: Some(400_000_000_000),
        ..nic
    });
    for function in functions {
        let sriov = Some(Sriov::Virtual { physical_function: physical });
        devices.push(DeviceSpec {
            node,
            under,
            sriov,
            driver: None,
            ..device(DeviceKind::Network, function, 0.0, 0)
        });
    }
    for index in (0..8u8).rev() {
        let disk = device(DeviceKind::Nvme, pci(unit, 4 + index, 0, 0), 32.0, 4);
        let names = vec![format!("nvme{}n1", unit * 8 + u32::from(index))];
        devices.push(DeviceSpec { node, under, names, irqs: 1, model: "Simulated drive".into(), ..disk });
    }
}

/// A node with 16 GiB, of which 15 are free, its own package.
fn node(id: u32, cpus: impl IntoIterator<Item = u32>) -> NodeSpec {
    NodeSpec {
        id: NodeId(id),
        cpus: cpus.into_iter().map(CpuId).collect(),
        package: id,
        memory_bytes: 16 * GIB,
        free_bytes: 15 * GIB,
        ..NodeSpec::default()
    }
}

fn access(class: u32, initiator: u32, bytes_per_s: f64, latency_ns: u64) -> Access {
    Access {
        class,
        initiators: [NodeId(initiator)].into_iter().collect(),
        read_bytes_per_s: Some(bytes_per_s),
        write_bytes_per_s: Some(bytes_per_s),
        read_latency_ns: Some(latency_ns),
        write_latency_ns: Some(latency_ns),
    }
}

/// 32 KiB and 1 MiB of each core, and 32 MiB of last level.
fn caches(last: Sharing) -> Vec<CacheSpec> {
    let cache = |level, kind: &str, kib: u64, ways, shared_by| CacheSpec {
        level,
        kind: kind.to_owned(),
        bytes: kib << 10,
        line_bytes: 64,
        ways,
        shared_by,
    };
    vec![
        cache(1, "Data", 32, 8, Sharing::Core),
        cache(1, "Instruction", 32, 8, Sharing::Core),
        cache(2, "Unified", 1024, 16, Sharing::Core),
        cache(3, "Unified", 32 << 10, 16, last),
    ]
}

fn distances(spec: &Spec, distance: impl Fn(u32, u32) -> u32) -> Vec<Vec<u32>> {
    let ids: Vec<u32> = spec.nodes.iter().map(|node| node.id.0).collect();
    ids.iter().map(|from| ids.iter().map(|to| distance(*from, *to)).collect()).collect()
}

/// Replaces all paths and links: a controller for each memory, shared by all that load from it and
/// store to it, and `figures` between two nodes.
pub fn wire(spec: &mut Spec, controller_bytes_per_s: f64, figures: impl Fn(NodeId, NodeId) -> PathFigures) {
    let controller = |node: NodeId| format!("memory {node}");
    spec.links = spec
        .memory_nodes()
        .map(|node| LinkSpec { name: controller(node.id), bytes_per_s: controller_bytes_per_s })
        .collect();
    let mut paths = Vec::new();
    for cpus in spec.cpu_nodes() {
        for memory in spec.memory_nodes() {
            let figures = figures(cpus.id, memory.id);
            paths.push(PathSpec {
                cpus: cpus.id,
                memory: memory.id,
                load_bytes_per_s: figures.load,
                store_bytes_per_s: figures.store,
                core_bytes_per_s: figures.core,
                latency_ns: LOCAL_LATENCY_NS * hops(spec, cpus.id, memory.id),
                load_links: vec![controller(memory.id)],
                store_links: vec![controller(memory.id)],
            });
        }
    }
    spec.paths = paths;
}

/// SLIT distance of a memory over the local one; 1 if firmware reports none.
fn hops(spec: &Spec, cpus: NodeId, memory: NodeId) -> f64 {
    let index = |id: NodeId| spec.nodes.iter().position(|node| node.id == id);
    let row = index(cpus).and_then(|row| spec.distances.get(row));
    let distance = index(memory).zip(row).and_then(|(column, row)| row.get(column));
    distance.map_or(1.0, |distance| f64::from(*distance) / 10.0)
}

/// A PCI address.
pub fn pci(domain: u32, bus: u8, device: u8, function: u8) -> PciAddress {
    PciAddress { domain, bus, device, function }
}

/// A function with a usual driver, on no node and without a name; without a link if it has no
/// lanes.
pub fn device(kind: DeviceKind, pci: PciAddress, gt_per_s: f64, lanes: u32) -> DeviceSpec {
    let (driver, ids) = match kind {
        DeviceKind::Network | DeviceKind::Rdma => ("mlx5_core", (0x15b3, 0x1021)),
        DeviceKind::Nvme => ("nvme", (0x144d, 0xa80a)),
        DeviceKind::Block => ("virtio-pci", (0x1af4, 0x1001)),
        DeviceKind::StorageController => ("ahci", (0x8086, 0xa352)),
        DeviceKind::Gpu => ("amdgpu", (0x1002, 0x740f)),
        DeviceKind::Accelerator => ("habanalabs", (0x1da3, 0x1020)),
        DeviceKind::Dma => ("ioatdma", (0x8086, 0x2021)),
        DeviceKind::Bridge => ("pcieport", (0x8086, 0x352a)),
    };
    let link = PcieLink { gt_per_s, lanes, max_gt_per_s: gt_per_s, max_lanes: lanes };
    DeviceSpec {
        kind,
        pci,
        under: None,
        node: None,
        names: Vec::new(),
        model: String::new(),
        driver: Some(driver.to_owned()),
        ids,
        link: (lanes > 0).then_some(link),
        irqs: 0,
        irq_affinity: None,
        port_bits_per_s: None,
        power_state: None,
        sriov: None,
        io: None,
    }
}

/// Rates of a direction in Gbit/s: by node, and of all together.
fn rates(nodes: &[f64], cap: f64, stream: Option<f64>) -> IoRates {
    let bytes = |gbit: f64| gbit * 1e9 / 8.0;
    let nodes = nodes.iter().map(|gbit| bytes(*gbit)).collect();
    IoRates {
        nodes,
        cap: bytes(cap),
        stream: stream.map(bytes),
        sharing: SharingRule::Bytes,
        stalls: None,
        copied: false,
    }
}
