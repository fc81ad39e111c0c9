//! hwloc XML of machines.

#![allow(clippy::unwrap_used)]

use numaio_machine::devices::NameClass;
use numaio_machine::discover::discover;
use numaio_machine::tree::Tree;
use numaio_report::{hwloc_xml, MeasurementSet};
use std::collections::BTreeMap;

/// Returns the OS devices of an XML document by name, with their `hwloc_obj_osdev_type_t`.
fn os_devices(xml: &str) -> BTreeMap<String, String> {
    let document = roxmltree::Document::parse_with_options(
        xml,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    );
    let document = document.unwrap();
    let of_type = document.descendants().filter(|element| element.attribute("type") == Some("OSDev"));
    let text = |name: &str| name.to_owned();
    of_type
        .map(|it| (text(it.attribute("name").unwrap()), text(it.attribute("osdev_type").unwrap())))
        .collect()
}

/// A node with an Ethernet and RDMA adapter and an NVMe drive, with misleading names as `ip link
/// set` and `rdma dev set` can create them.
fn misnamed() -> Tree {
    let mut tree = Tree::new();
    tree.file("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n")
        .file("/sys/devices/system/cpu/online", "0\n")
        .file("/sys/devices/system/node/online", "0\n")
        .file("/sys/devices/system/node/node0/cpulist", "0\n");
    for (address, class, vendor, device, names) in [
        ("0000:3b:00.0", "0x020000", "0x15b3", "0x1017", &["net/mlx5_0", "infiniband/storage"][..]),
        ("0000:3c:00.0", "0x010802", "0x144d", "0xa808", &["nvme/nvme0", "block/nvme0n1"][..]),
    ] {
        let path = format!("/sys/devices/pci0000:3a/{address}");
        tree.file(&format!("{path}/class"), format!("{class}\n"))
            .file(&format!("{path}/vendor"), format!("{vendor}\n"))
            .file(&format!("{path}/device"), format!("{device}\n"))
            .file(&format!("{path}/numa_node"), "0\n")
            .link(&format!("/sys/bus/pci/devices/{address}"), &path);
        for name in names {
            tree.dir(&format!("{path}/{name}"))
                .link(&format!("/sys/class/{name}"), &format!("{path}/{name}"));
        }
    }
    tree
}

#[test]
fn os_device_type_comes_from_the_class_of_the_name() {
    let machine = discover(&misnamed());
    let expected = [("mlx5_0", "2"), ("nvme0n1", "0"), ("storage", "3")];
    let expected: BTreeMap<String, String> = expected.map(|(name, kind)| (name.into(), kind.into())).into();
    assert_eq!(os_devices(&hwloc_xml(&machine, MeasurementSet::default())), expected);
    assert_eq!(machine.devices[0].name_classes["storage"], NameClass::Infiniband);
}

#[test]
fn os_device_type_defaults_to_the_kind_of_device() {
    let mut machine = discover(&misnamed());
    machine.devices.iter_mut().for_each(|device| device.name_classes.clear());
    let expected = [("mlx5_0", "2"), ("nvme0", "0"), ("nvme0n1", "0"), ("storage", "2")];
    let expected: BTreeMap<String, String> = expected.map(|(name, kind)| (name.into(), kind.into())).into();
    assert_eq!(os_devices(&hwloc_xml(&machine, MeasurementSet::default())), expected);
}
