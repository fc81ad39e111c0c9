//! Topologies for tests.

use numaio_machine::devices::{Device, DeviceKind, Irq, Locality, LocalitySource, PcieLink, Sriov};
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::ids::{CpuId, NodeId, PackageId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::*;

pub const GIB: u64 = 1 << 30;

pub fn set(text: &str) -> NodeSet {
    NodeSet::parse_list(text).unwrap()
}

pub fn cpus(text: &str) -> CpuSet {
    CpuSet::parse_list(text).unwrap()
}

pub fn node(id: u32, cpu_list: &str, packages: &[u32], gib: u64) -> Node {
    let memory = Memory { total_bytes: gib * GIB, free_bytes: gib * GIB * 3 / 4, reclaimable_bytes: GIB };
    Node {
        id: NodeId(id),
        cpus: cpus(cpu_list),
        memory: (gib > 0).then_some(memory),
        huge_pages: Vec::new(),
        packages: packages.iter().map(|package| PackageId(*package)).collect(),
        access: Vec::new(),
        memory_side_caches: Vec::new(),
        memory_allowed: true,
        memory_kind: None,
        memory_kind_source: None,
        memory_unknown: false,
    }
}

/// Builds a machine with these nodes: one hardware thread per core, an L3 of `cache` bytes for each
/// node with CPUs.
pub fn machine(product: &str, host: &str, cpu_model: &str, nodes: Vec<Node>, cache: u64) -> Topology {
    let mut all = Vec::new();
    let mut caches = Vec::new();
    for node in nodes.iter().filter(|node| !node.cpus.is_empty()) {
        for id in node.cpus.iter() {
            all.push(Cpu {
                id,
                online: true,
                node: Some(node.id),
                package: node.packages.first().copied(),
                die: Some(0),
                core: Some(id.0),
                siblings: CpuSet::one(id),
                allowed: true,
                isolated: false,
                core_kind: None,
            });
        }
        let cpus = node.cpus.clone();
        caches.push(Cache {
            level: 3,
            kind: "Unified".into(),
            bytes: cache,
            line_bytes: 64,
            ways: Some(16),
            cpus,
        });
    }
    all.sort_by_key(|cpu| cpu.id);
    let confinement = Confinement {
        cpus: all.iter().map(|cpu| cpu.id).collect(),
        nodes: nodes.iter().filter(|node| node.memory.is_some()).map(|node| node.id).collect(),
        ..Confinement::default()
    };
    Topology {
        identity: Identity {
            hostname: host.into(),
            product: product.into(),
            cpu_model: cpu_model.into(),
            architecture: "x86_64".into(),
            kernel: "6.12.48".into(),
            fingerprint: "0123456789abcdef".into(),
        },
        nodes,
        cpus: all,
        caches,
        confinement,
        ..Topology::default()
    }
}

pub fn device(kind: DeviceKind, name: &str, pci: &str, on: Option<u32>) -> Device {
    Device {
        kind,
        names: if name.is_empty() { Vec::new() } else { vec![name.into()] },
        name_classes: Default::default(),
        pci: pci.parse().ok(),
        path: format!("/sys/devices/pci0000:00/{pci}"),
        ids: None,
        class: None,
        model: String::new(),
        driver: None,
        locality: Locality {
            node: on.map(NodeId),
            nodes: NodeSet::new(),
            source: if on.is_some() { LocalitySource::NumaNode } else { LocalitySource::Unknown },
        },
        link: None,
        upstream: Vec::new(),
        power: None,
        irqs: Vec::new(),
        sriov: None,
        port_bits_per_s: None,
    }
}

pub fn link(gt_per_s: f64, lanes: u32, max_gt_per_s: f64, max_lanes: u32) -> Option<PcieLink> {
    Some(PcieLink { gt_per_s, lanes, max_gt_per_s, max_lanes })
}

pub fn irqs(count: u32) -> Vec<Irq> {
    let irq = |number| Irq { number, name: "queue".into(), affinity: cpus("0-31"), effective: None };
    (100..100 + count).map(irq).collect()
}

fn distances(ids: &[u32], distance: impl Fn(usize, usize) -> u32) -> Option<Distances> {
    let row = |from| (0..ids.len()).map(|to| distance(from, to)).collect();
    Some(Distances {
        nodes: ids.iter().map(|id| NodeId(*id)).collect(),
        rows: (0..ids.len()).map(row).collect(),
    })
}

fn finding(severity: Severity, rule: &str, subject: &str, words: [&str; 3]) -> Finding {
    let [what, evidence, remedy] = words.map(str::to_owned);
    Finding { severity, rule: rule.into(), subject: subject.into(), message: what, evidence, remedy }
}

/// The machine of Li et al. (ICPP 2013): 4 packages of 2 nodes, the devices on node 7.
pub fn dl585() -> Topology {
    let nodes = (0..8).map(|id| node(id, &format!("{}-{}", id * 4, id * 4 + 3), &[id / 2], 4)).collect();
    let mut it = machine("HP ProLiant DL585 G7", "dl585", "AMD Opteron(tm) Processor 6136", nodes, 5 << 20);
    it.distances = distances(&[0, 1, 2, 3, 4, 5, 6, 7], |from, to| match (from, to) {
        (from, to) if from == to => 10,
        (from, to) if from / 2 == to / 2 => 16,
        (from, to) if (from + to) % 2 == 0 => 16,
        _ => 22,
    });
    it.devices = vec![
        Device {
            driver: Some("mlx4_core".into()),
            names: vec!["eth2".into(), "mlx4_0".into()],
            model: "Mellanox ConnectX-3 EN".into(),
            link: link(8.0, 8, 8.0, 8),
            irqs: irqs(16),
            port_bits_per_s: Some(40_000_000_000),
            ..device(DeviceKind::Network, "", "0000:21:00.0", Some(7))
        },
        Device {
            driver: Some("nvme".into()),
            model: "PM1733 & friends".into(),
            link: link(8.0, 8, 16.0, 16),
            irqs: irqs(33),
            ..device(DeviceKind::Nvme, "nvme0n1", "0000:22:00.0", Some(7))
        },
        Device {
            locality: Locality {
                node: Some(NodeId(0)),
                nodes: set(""),
                source: LocalitySource::ParentBridge,
            },
            driver: Some("ahci".into()),
            ..device(DeviceKind::StorageController, "", "0000:00:11.0", Some(0))
        },
        device(DeviceKind::Bridge, "", "0000:20:01.0", Some(7)),
        Device { driver: Some("bnx2".into()), ..device(DeviceKind::Network, "eth0", "0000:04:00.0", None) },
    ];
    it.findings = vec![
        finding(Severity::Problem, "pcie-link-degraded", "0000:22:00.0", [
            "its link runs with half of its lanes and half of its speed, which limits it to 7.9 of 31.5 GB/s",
            "current_link_width 8, max_link_width 16; current_link_speed 8.0 GT/s, max_link_speed 16.0 GT/s",
            "Move the card to a slot with 16 lanes, or reseat it; check the link capability of the slot's bridge.",
        ]),
        finding(Severity::Warning, "numa-node-unknown", "eth0", [
            "the kernel does not report its node",
            "numa_node is -1",
            "Request firmware with proximity information (_PXM) from the vendor.",
        ]),
        finding(Severity::Note, "little-memory", "node 3", ["it has less memory than others", "", ""]),
    ];
    it
}

/// Two equal packages with two hardware threads per core, and huge pages.
pub fn uniform() -> Topology {
    let nodes = vec![node(0, "0-15,32-47", &[0], 128), node(1, "16-31,48-63", &[1], 128)];
    let mut it = machine("Dell Inc. PowerEdge R750", "u2", "Intel(R) Xeon(R) Gold 6326", nodes, 24 << 20);
    for cpu in &mut it.cpus {
        let core = cpu.id.0 % 32;
        cpu.core = Some(core);
        cpu.siblings = [CpuId(core), CpuId(core + 32)].into_iter().collect();
    }
    it.nodes[0].huge_pages = vec![HugePages { page_bytes: GIB, total: 16, free: 12 }];
    it.distances = distances(&[0, 1], |from, to| if from == to { 10 } else { 20 });
    let nvme = |index: u32, on| Device {
        link: link(16.0, 4, 16.0, 4),
        driver: Some("nvme".into()),
        ..device(
            DeviceKind::Nvme,
            &format!("nvme{index}n1"),
            &format!("0000:{:02x}:00.0", 0x50 + index),
            Some(on),
        )
    };
    let functions: Vec<_> = (1..7).map(|f| format!("0000:31:00.{f}").parse().unwrap()).collect();
    it.devices = (0..4).map(|index| nvme(index, 0)).chain((4..6).map(|index| nvme(index, 1))).collect();
    it.devices.push(Device {
        link: link(32.0, 16, 32.0, 16),
        driver: Some("mlx5_core".into()),
        sriov: Some(Sriov::Physical { total: 64, functions: functions.clone() }),
        irqs: irqs(64),
        port_bits_per_s: Some(200_000_000_000),
        ..device(DeviceKind::Network, "enp49s0f0", "0000:31:00.0", Some(0))
    });
    let of = "0000:31:00.0".parse().unwrap();
    for (index, function) in functions.iter().enumerate() {
        let name = format!("enp49s0f0v{index}");
        it.devices.push(Device {
            driver: Some("mlx5_core".into()),
            sriov: Some(Sriov::Virtual { physical_function: of }),
            ..device(DeviceKind::Network, &name, &function.to_string(), Some(0))
        });
    }
    it.devices.push(Device {
        link: link(2.5, 16, 32.0, 16),
        driver: Some("nvidia".into()),
        model: "NVIDIA H100 PCIe".into(),
        power: Some("D3cold".into()),
        ..device(DeviceKind::Gpu, "cuda:0", "0000:b1:00.0", Some(1))
    });
    it
}

/// A virtual machine with one node and a restricted process.
pub fn vm() -> Topology {
    let mut it =
        machine("QEMU Standard PC", "vm", "AMD EPYC Processor", vec![node(0, "0-3", &[0], 8)], 16 << 20);
    it.confinement = Confinement {
        cpus: cpus("0-1"),
        nodes: set("0"),
        excluded_cpus: cpus("2-3"),
        excluded_nodes: set(""),
        cgroup: Some("/system.slice/docker-1.scope".into()),
        memory_limit_bytes: Some(2 * GIB),
        memory_left_bytes: None,
        cpu_quota: None,
        sources: vec![
            "cgroup v2 /system.slice/docker-1.scope (cpuset.cpus.effective)".into(),
            "affinity mask".into(),
        ],
    };
    it.offline_nodes = set("1-3");
    let offline = Cpu { online: false, allowed: false, node: None, ..it.cpus[0].clone() };
    it.cpus.push(Cpu { id: CpuId(4), ..offline });
    it.devices = vec![Device {
        driver: Some("virtio-pci".into()),
        locality: Locality { node: Some(NodeId(0)), nodes: set(""), source: LocalitySource::OnlyNode },
        ..device(DeviceKind::Block, "vda", "0000:00:04.0", Some(0))
    }];
    it
}

/// Two packages with high-bandwidth memory, and CXL memory near the second.
pub fn cxl() -> Topology {
    let mut nodes = vec![node(0, "0-47", &[0], 256), node(1, "48-95", &[1], 256)];
    nodes.push(Node { memory_kind: Some("HBM".into()), ..node(2, "", &[0], 64) });
    nodes.push(Node { memory_kind: Some("CXL".into()), memory_allowed: false, ..node(5, "", &[1], 512) });
    nodes.push(node(6, "", &[], 0));
    for (index, (from, read, latency)) in
        [("0", 2.6e11, 90), ("1", 2.6e11, 90), ("0", 1.0e12, 110), ("1", 5.6e10, 250)].into_iter().enumerate()
    {
        let access = |class| Access {
            class,
            initiators: set(from),
            read_bytes_per_s: Some(read),
            write_bytes_per_s: Some(read / 2.0),
            read_latency_ns: Some(latency),
            write_latency_ns: None,
        };
        nodes[index].access = vec![access(0), access(1)];
    }
    nodes[3].memory_side_caches = vec![MemorySideCache { level: 1, bytes: 32 * GIB }];
    let mut it = machine("Supermicro SYS-621", "cxl", "Intel(R) Xeon(R) Max 9468", nodes, 105 << 20);
    it.distances = distances(&[0, 1, 2, 5, 6], |from, to| match (from, to) {
        (from, to) if from == to => 10,
        (0, 2) | (2, 0) => 13,
        (1, 3) | (3, 1) => 24,
        (_, 3) | (3, _) => 40,
        _ => 21,
    });
    it.confinement.excluded_nodes = set("5");
    it.confinement.nodes = set("0-2");
    it.confinement.sources = vec!["cgroup v2 /user.slice (cpuset.mems.effective)".into()];
    it.devices = vec![Device {
        locality: Locality { node: Some(NodeId(0)), nodes: set("0,2"), source: LocalitySource::LocalCpus },
        link: link(0.0, 0, 64.0, 16),
        ..device(DeviceKind::Accelerator, "dsa0", "10000:6a:01.0", Some(0))
    }];
    it
}

/// 64 nodes, ids with gaps, in 16 packages, with hundreds of devices.
pub fn large() -> Topology {
    let ids: Vec<u32> = (0..64).map(|index| index + 2 * (index / 4)).collect();
    let nodes: Vec<Node> = ids
        .iter()
        .enumerate()
        .map(|(index, id)| {
            let first = index as u32 * 14;
            node(
                *id,
                &format!("{first}-{},{}-{}", first + 13, first + 896, first + 909),
                &[index as u32 / 4],
                512,
            )
        })
        .collect();
    let mut it = machine("HPE Superdome Flex", "flex", "Intel(R) Xeon(R) Platinum 8490H", nodes, 112 << 20);
    it.distances = distances(&ids, |from, to| match (from, to) {
        (from, to) if from == to => 10,
        (from, to) if from / 4 == to / 4 => 12,
        (from, to) if from / 16 == to / 16 => 21,
        _ => 32,
    });
    for (index, id) in ids.iter().enumerate().filter(|(index, _)| index % 4 == 0) {
        for disk in 0..12 {
            let number = index as u32 / 4 * 12 + disk;
            let pci = format!("{:04x}:{:02x}:00.0", index / 4, 0x10 + disk);
            let link = if number == 17 { link(8.0, 2, 32.0, 4) } else { link(32.0, 4, 32.0, 4) };
            let nvme = device(DeviceKind::Nvme, &format!("nvme{number}n1"), &pci, Some(*id));
            it.devices.push(Device { link, driver: Some("nvme".into()), irqs: irqs(57), ..nvme });
        }
        let pci = format!("{:04x}:80:00.0", index / 4);
        let nic = device(DeviceKind::Network, &format!("ens{}np0", index / 4), &pci, Some(*id));
        it.devices.push(Device { link: link(32.0, 16, 32.0, 16), driver: Some("mlx5_core".into()), ..nic });
    }
    let of = "0000:80:00.0".parse().unwrap();
    for number in 8..28 {
        let pci = format!("0000:80:{:02x}.{}", number / 8, number % 8);
        let function = device(DeviceKind::Network, "", &pci, Some(0));
        it.devices.push(Device { sriov: Some(Sriov::Virtual { physical_function: of }), ..function });
    }
    it.devices.push(device(DeviceKind::Dma, "dma0chan0", "0000:00:01.0", None));
    it.offline_nodes = set("100-127");
    it.findings = vec![finding(
        Severity::Problem,
        "pcie-link-degraded",
        "nvme17n1",
        [
            "its link is narrower and slower than it could be",
            "current_link_width 2, max_link_width 4",
            "Reseat it.",
        ],
    )];
    it
}

/// A machine with malicious names.
pub fn hostile() -> Topology {
    let mut nodes = vec![node(0, "0-1", &[0], 1)];
    nodes[0].memory_kind = Some("<b>\x1b[31mHBM".into());
    let mut it = machine(
        "Evil & <script>alert(1)</script>\x1b]0;owned\x07",
        "h\u{202e}tsoh",
        "網路 CPU\r\n",
        nodes,
        1 << 20,
    );
    it.devices = vec![
        Device {
            model: "\u{9b}2J </text><script>".into(),
            driver: Some("a\tb\u{0}c\"'".into()),
            ..device(DeviceKind::Network, "網路卡<&>\x1b[2J", "0000:01:00.0", Some(0))
        },
        Device {
            model: "y".repeat(5000),
            ..device(DeviceKind::Nvme, &"very-long-name-".repeat(20), "0000:02:00.0", Some(9))
        },
        Device { path: "/sys/\u{ffff}\u{b}".into(), ..device(DeviceKind::Block, "", "", None) },
    ];
    it.findings =
        vec![finding(Severity::Problem, "x\x1b", "node 0", ["<\x07&>", "\x1b[A\nline", "--></title>"])];
    it.confinement.cgroup = Some("/a\x1b[0m".into());
    it.confinement.sources = vec!["\x1bc".into()];
    it.confinement.memory_limit_bytes = Some(1);
    it
}

/// A node with many different devices and two packages; further nodes without a single package.
pub fn crowded() -> Topology {
    let nodes = vec![
        node(0, "0,2,4,6,8,10,12,14,16,18,20,22", &[0, 1], 64),
        node(3, "1", &[0], 0),
        node(4, "3", &[], 1),
    ];
    let far = [node(7, "", &[0, 1], 16), node(8, "", &[], 16)];
    let nodes = nodes.into_iter().chain(far).collect();
    let mut it = machine("", "crowded", "", nodes, 1 << 20);
    for index in 0..45 {
        let on = [Some(0), Some(0), Some(3), None][index as usize % 4];
        let name = format!("ens{index}f0np{}", "0".repeat(index as usize % 5));
        let nic = device(DeviceKind::Network, &name, &format!("0000:{index:02x}:00.0"), on);
        let link = link(2.5 * f64::from(index % 9), 1 + index, 64.0, 16);
        it.devices.push(Device { link, ..nic });
    }
    let subjects = it.devices.iter().map(|device| device.name()).chain(["machine".into(), "node 0".into()]);
    it.findings = subjects
        .map(|subject| finding(Severity::Warning, "rule", &subject, [&"words ".repeat(30), "", ""]))
        .collect();
    it
}
