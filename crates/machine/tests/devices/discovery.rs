//! Discovery of devices in synthetic trees.

use crate::support::server::{server, two_sockets, Server};
use crate::support::{machine, named, table, Here};
use numaio_machine::devices::{self, Device, DeviceKind, LocalitySource, NameClass, Sriov};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::tree::{Entry, Tree};
use numaio_machine::{conditions::Conditions, findings};
use proptest::prelude::*;

fn read(server: &Server) -> Vec<Device> {
    devices::read(&server.tree, &two_sockets().cpus_by_node())
}

#[test]
fn finds_each_device_once() {
    let devices = read(&server());
    let seen: Vec<(String, DeviceKind, String)> = devices
        .iter()
        .map(|device| (device.pci.expect("on PCI").to_string(), device.kind, device.names.join(" ")))
        .collect();
    let seen: Vec<(&str, DeviceKind, &str)> =
        seen.iter().map(|(pci, kind, names)| (pci.as_str(), *kind, names.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("0000:00:01.0", DeviceKind::Dma, "dma0chan0"),
            ("0000:00:0e.0", DeviceKind::StorageController, ""),
            ("0000:00:17.0", DeviceKind::StorageController, "sda sdb"),
            ("0000:3a:00.0", DeviceKind::Bridge, ""),
            ("0000:3b:00.0", DeviceKind::Network, "eth2 eth10 mlx5_0"),
            ("0000:3b:00.2", DeviceKind::Network, ""),
            ("0000:3b:00.3", DeviceKind::Network, ""),
            ("0000:80:01.0", DeviceKind::Bridge, ""),
            ("0000:81:00.0", DeviceKind::Bridge, ""),
            ("0000:82:00.0", DeviceKind::Bridge, ""),
            ("0000:82:01.0", DeviceKind::Bridge, ""),
            ("0000:83:00.0", DeviceKind::Gpu, "cuda:0"),
            ("0000:84:00.0", DeviceKind::Gpu, "cuda:1 card1 renderD128"),
            ("10000:00:02.0", DeviceKind::Bridge, ""),
            ("10000:01:00.0", DeviceKind::Nvme, "nvme0n1 nvme3 nvme0c3n1"),
        ]
    );
}

#[test]
fn reads_all_attributes_of_a_nic() {
    let devices = read(&server());
    let nic = named(&devices, "eth2");
    assert_eq!((nic.driver.as_deref(), nic.port_bits_per_s), (Some("mlx5_core"), Some(100_000_000_000)));
    assert_eq!((nic.ids, nic.class), (Some((0x8086, 0x1234)), Some(0x020000)));
    assert_eq!(nic.power.as_deref(), Some("D0"));
    let link = nic.link.expect("a link");
    assert_eq!((link.gt_per_s, link.lanes, link.max_gt_per_s, link.max_lanes), (16.0, 16, 16.0, 16));
    assert_eq!(nic.upstream, ["0000:3a:00.0".parse().expect("an address")]);
    let irqs: Vec<(u32, &str, String)> = nic
        .irqs
        .iter()
        .map(|irq| {
            (
                irq.number,
                irq.name.as_str(),
                irq.effective.as_ref().map(ToString::to_string).unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(irqs, [(40, "mlx5_async", "4".into()), (41, "mlx5_comp0", "5".into())]);
}

#[test]
fn virtual_functions_refer_to_their_physical_function() {
    let devices = read(&server());
    let nic = named(&devices, "0000:3b:00.0");
    let functions = ["0000:3b:00.2", "0000:3b:00.3"].map(|text| text.parse().expect("an address")).to_vec();
    assert_eq!(nic.sriov, Some(Sriov::Physical { total: 8, functions }));
    let of = nic.pci.expect("on PCI");
    for address in ["0000:3b:00.2", "0000:3b:00.3"] {
        let function = named(&devices, address);
        assert_eq!(
            (&function.sriov, function.link),
            (&Some(Sriov::Virtual { physical_function: of }), nic.link)
        );
    }
}

#[test]
fn finds_nodes_by_bridges_and_local_cpus() {
    let mut server = server();
    server
        .function("pci0000:c0/0000:c0:01.0", "0x020000", &[("numa_node", "-1"), ("local_cpulist", "4-5")])
        .function("pci0000:c0/0000:c0:02.0", "0x020000", &[("numa_node", "-1"), ("local_cpulist", "0-7")])
        .function("pci0000:c0/0000:c0:03.0", "0x020000", &[("numa_node", "-1"), ("local_cpus", "000000f0")])
        .function("pci0000:c0/0000:c0:04.0", "0x020000", &[("numa_node", "-1"), ("local_cpulist", "3-4")])
        .function("pci0000:c0/0000:c0:05.0", "0x020000", &[("numa_node", "7")])
        .function("pci0000:c0/0000:c0:06.0", "0x020000", &[("numa_node", "1"), ("local_cpulist", "0-3")])
        .function("pci0000:d0/0000:d0:00.0", "0x020000", &[("numa_node", "-1")]);
    server.tree.file("/sys/devices/pci0000:d0/numa_node", "0\n");
    let devices = read(&server);
    let expected = [
        ("0000:c0:01.0", Some(1), LocalitySource::LocalCpus, ""),
        ("0000:c0:02.0", None, LocalitySource::Unknown, ""),
        ("0000:c0:03.0", Some(1), LocalitySource::LocalCpus, ""),
        ("0000:c0:04.0", Some(0), LocalitySource::LocalCpus, "0-1"),
        ("0000:c0:05.0", None, LocalitySource::AbsentNode, ""),
        ("0000:c0:06.0", Some(1), LocalitySource::NumaNode, ""),
        ("0000:d0:00.0", Some(0), LocalitySource::ParentBridge, ""),
        ("0000:3b:00.0", Some(1), LocalitySource::ParentBridge, ""),
        ("10000:01:00.0", Some(0), LocalitySource::ParentBridge, ""),
    ];
    for (address, node, source, nodes) in expected {
        let locality = &named(&devices, address).locality;
        let seen = (locality.node, locality.source, locality.nodes.to_string());
        assert_eq!(seen, (node.map(NodeId), source, nodes.to_owned()), "{address}");
    }
    let one = devices::read(&server.tree, &machine(&[(0, "0-7", 0)]).cpus_by_node());
    for address in ["0000:c0:02.0", "0000:c0:05.0"] {
        assert_eq!(named(&one, address).locality.source, LocalitySource::OnlyNode, "{address}");
    }
}

#[test]
fn finds_devices_outside_of_pci() {
    let mut server = Server::default();
    let nic = "platform/HISI00C2:00";
    server
        .class("net", &format!("{nic}/net/enahisic2i0"), &[("speed", "10000")])
        .class("block", "ndbus0/region1/namespace1.0/block/pmem1", &[])
        .class("block", "css0/0.0.0012/0.0.1234/block/dasda", &[])
        .class("block", "css0/0.0.0012/0.0.1234/block/dasda/dasda1", &[])
        .class("block", "platform/host5/session1/target5:0:0/5:0:0:0/block/sdx", &[]);
    for (path, device) in [
        (format!("{nic}/net/enahisic2i0"), "../.."),
        ("ndbus0/region1/namespace1.0/block/pmem1".into(), "../.."),
        ("css0/0.0.0012/0.0.1234/block/dasda".into(), "../.."),
        ("platform/host5/session1/target5:0:0/5:0:0:0/block/sdx".into(), "../.."),
    ] {
        server.tree.link(&format!("/sys/devices/{path}/device"), device);
    }
    server.tree.file("/sys/devices/platform/HISI00C2:00/numa_node", "1\n");
    server.tree.file("/sys/devices/ndbus0/region1/numa_node", "0\n");
    let devices = read(&server);
    assert!(devices.iter().all(|device| device.pci.is_none()), "{}", table(&devices));
    let nic = named(&devices, "enahisic2i0");
    assert_eq!((nic.kind, nic.locality.node), (DeviceKind::Network, Some(NodeId(1))));
    let pmem = named(&devices, "pmem1");
    assert_eq!((pmem.kind, pmem.locality.source), (DeviceKind::Block, LocalitySource::ParentBridge));
    assert_eq!(named(&devices, "dasda").names, ["dasda"]);
    assert_eq!(devices.len(), 3, "a networked disk has no node: {}", table(&devices));
}

#[test]
fn kind_depends_on_names_below_virtio_and_infiniband() {
    let mut server = Server::default();
    let (disk, scsi, hca, bare) = (
        "pci0000:00/0000:00:04.0",
        "pci0000:00/0000:00:05.0",
        "pci0000:00/0000:00:06.0",
        "pci0000:00/0000:00:07.0",
    );
    server
        .function(disk, "0x010000", &[])
        .class("block", &format!("{disk}/virtio1/block/vda"), &[])
        .function(scsi, "0x010000", &[])
        .class("block", &format!("{scsi}/virtio2/host2/target2:0:0/2:0:0:0/block/sda"), &[])
        .function(hca, "0x020700", &[])
        .class("infiniband", &format!("{hca}/infiniband/mlx5_0"), &[])
        .function(bare, "0x020000", &[])
        .class("infiniband", &format!("{bare}/infiniband/efa_0"), &[]);
    for (port, state, rate) in
        [("1", "4: ACTIVE", "200 Gb/sec (4X HDR)"), ("2", "1: DOWN", "400 Gb/sec (4X NDR)")]
    {
        server
            .tree
            .file(&format!("/sys/devices/{hca}/infiniband/mlx5_0/ports/{port}/state"), format!("{state}\n"));
        server
            .tree
            .file(&format!("/sys/devices/{hca}/infiniband/mlx5_0/ports/{port}/rate"), format!("{rate}\n"));
    }
    let devices = read(&server);
    let kinds = ["vda", "sda", "mlx5_0", "efa_0"].map(|name| named(&devices, name).kind);
    assert_eq!(kinds, [DeviceKind::Block, DeviceKind::StorageController, DeviceKind::Rdma, DeviceKind::Rdma]);
    assert_eq!(named(&devices, "mlx5_0").port_bits_per_s, Some(200_000_000_000));
    let class = |name: &str| named(&devices, name).name_classes.get(name).copied();
    let (block, infiniband) = (Some(NameClass::Block), Some(NameClass::Infiniband));
    assert_eq!(["vda", "sda", "mlx5_0", "efa_0"].map(class), [block, block, infiniband, infiniband]);
}

#[test]
fn reads_class_directories_of_old_kernels() {
    let mut server = Server::default();
    server.function("pci0000:00/0000:00:04.0", "0x020000", &[]).function(
        "pci0000:00/0000:00:05.0",
        "0x010000",
        &[],
    );
    server.tree.file("/sys/class/net/eth0/speed", "1000\n");
    server.tree.link("/sys/class/net/eth0/device", "../../../devices/pci0000:00/0000:00:04.0");
    server
        .tree
        .link("/sys/block/sda/device", "../../devices/pci0000:00/0000:00:05.0/host0/target0:0:0/0:0:0:0");
    server.tree.dir("/sys/devices/pci0000:00/0000:00:05.0/host0/target0:0:0/0:0:0:0");
    let devices = read(&server);
    assert_eq!(named(&devices, "eth0").port_bits_per_s, Some(1_000_000_000));
    assert_eq!(named(&devices, "sda").kind, DeviceKind::StorageController);
}

#[test]
fn reads_this_machine() {
    let devices = devices::read(&Here, &machine(&[(0, "0", 0)]).cpus_by_node());
    for device in &devices {
        assert!(Here.exists(&device.path), "{}", device.path);
        assert!(device.pci.is_none_or(|pci| device.path.ends_with(&pci.to_string())), "{}", device.path);
    }
    let interfaces = Here.names("/sys/class/net");
    for name in
        devices.iter().filter(|device| device.kind == DeviceKind::Network).flat_map(|device| &device.names)
    {
        assert!(interfaces.contains(name) || Here.exists(&format!("/sys/class/infiniband/{name}")), "{name}");
    }
}

/// Arbitrary and nearly valid content of a file.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[0-9,x. :/-]{0,20}".prop_map(String::into_bytes),
        Just(b"-1".to_vec()),
        Just(b"0xffffffff".to_vec()),
        Just(b"18446744073709551615".to_vec()),
        Just(b"1e308 GT/s PCIe".to_vec()),
        Just(b"0-65536".to_vec()),
        Just(b"0x060400".to_vec()),
        Just(b"CPU0 CPU1\n 1: 2 3  x  y\n\xff: \n 7".to_vec()),
    ]
}

/// The server with garbage in every file, and some links to paths of others.
fn spoilt() -> impl Strategy<Value = Tree> {
    let tree = server().tree;
    let count = tree.entries().count();
    let contents = proptest::collection::vec(proptest::option::weighted(0.8, garbage()), count);
    let bends = proptest::collection::vec((0..count, 0..count), 0..6);
    (contents, bends).prop_map(move |(contents, bends)| {
        let mut spoilt = tree.clone();
        let entries: Vec<(String, Entry)> =
            tree.entries().map(|(path, entry)| (path.to_owned(), entry.clone())).collect();
        for ((path, entry), content) in entries.iter().zip(contents) {
            if let (Entry::File(_), Some(content)) = (entry, content) {
                spoilt.file(path, content);
            }
        }
        for (from, to) in bends {
            if matches!(entries[from].1, Entry::Link(_)) {
                spoilt.link(&entries[from].0, &entries[to].0);
            }
        }
        spoilt
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_in_every_file_never_panics(tree in spoilt()) {
        let mut machine = two_sockets();
        machine.devices = devices::read(&tree, &machine.cpus_by_node());
        let mut addresses: Vec<_> = machine.devices.iter().filter_map(|device| device.pci).collect();
        let count = addresses.len();
        addresses.dedup();
        prop_assert_eq!(addresses.len(), count, "each function once");
        for finding in findings::find(&Tree::new(), &machine, &Conditions::default()) {
            prop_assert!(!finding.subject.is_empty() && !finding.evidence.is_empty(), "{:?}", finding);
        }
    }
}

#[test]
fn fingerprint_ignores_usb_devices_and_drivers() {
    let print = |server: &Server| discover(&server.tree).identity.fingerprint;
    let usb = "pci0000:00/0000:00:14.0/0000:05:00.0";
    let mut server = server();
    server.function("pci0000:00/0000:00:14.0", "0x060400", &[]).function(usb, "0x0c0330", &[]);
    let before = print(&server);
    server.class("block", &format!("{usb}/usb1/1-2/1-2:1.0/host6/target6:0:0/6:0:0:0/block/sdc"), &[]);
    assert!(discover(&server.tree).devices.iter().any(|device| device.has_name("0000:05:00.0")));
    assert_eq!(print(&server), before, "a USB stick");
    for entry in ["/sys/class/dma/dma0chan0", "/sys/devices/pci0000:00/0000:00:01.0/driver"] {
        server.tree.remove(entry);
    }
    server.tree.remove("/sys/devices/pci0000:00/0000:00:01.0/dma");
    assert!(!discover(&server.tree).devices.iter().any(|device| device.has_name("0000:00:01.0")));
    assert_eq!(print(&server), before, "an unloaded driver");
    // A bridge above another device counts.
    server.function("pci0000:00/0000:00:14.0/0000:05:00.1", "0x010802", &[]);
    assert_ne!(print(&server), before, "a drive");
}
