//! PCI functions at their position in the tree (`Documentation/ABI/testing/sysfs-bus-pci`).

use super::classes;
use super::directory::{room, Dir};
use super::irqs::Line;
use crate::spec::{DeviceSpec, Spec};
use numaio_machine::devices::{DeviceKind, PciAddress, Sriov};
use numaio_machine::set::CpuSet;
use numaio_machine::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn render(spec: &Spec, irqs: &BTreeMap<PciAddress, Vec<Line>>, tree: &mut Tree) {
    let places = places(spec);
    let below = buses_below(spec);
    let online = spec.online_cpus();
    for device in &spec.devices {
        let place = &places[&device.pci];
        let irqs = irqs.get(&device.pci).map_or(&[][..], Vec::as_slice);
        let near = device.node.and_then(|node| spec.node(node)).map(|node| node.cpus.intersection(&online));
        render_function(device, place, irqs, tree);
        if let Some((first, last)) = below.get(&device.pci) {
            Dir::new(tree, place).value("secondary_bus_number", first).value("subordinate_bus_number", last);
        }
        // Without a node every online CPU counts as local.
        let local = near.unwrap_or_else(|| online.clone());
        Dir::new(tree, place).set("local_cpus", "local_cpulist", &local, room(&spec.present_cpus()));
        render_sriov(device, &places, tree);
        if device.driver.is_some() {
            classes::render(device, place, tree);
        }
    }
    render_buses(spec, &online, tree);
}

/// The directory of each function: below its bridge, or below the root of its bus.
fn places(spec: &Spec) -> BTreeMap<PciAddress, String> {
    let mut places: BTreeMap<PciAddress, String> = BTreeMap::new();
    for device in &spec.devices {
        let above = device.under.and_then(|under| places.get(&under).cloned());
        let above = above.unwrap_or_else(|| root(device.pci));
        places.insert(device.pci, format!("{above}/{}", device.pci));
    }
    places
}

/// The first bus below each bridge, which is the one right below it, and the last.
fn buses_below(spec: &Spec) -> BTreeMap<PciAddress, (u8, u8)> {
    let above: BTreeMap<PciAddress, PciAddress> =
        spec.devices.iter().filter_map(|device| Some((device.pci, device.under?))).collect();
    let mut below: BTreeMap<PciAddress, (u8, u8)> = BTreeMap::new();
    for device in &spec.devices {
        let bus = device.pci.bus;
        let mut up = device.under;
        while let Some(bridge) = up {
            let (first, last) = below.entry(bridge).or_insert((bus, bus));
            (*first, *last) = (bus.min(*first), bus.max(*last));
            up = above.get(&bridge).copied();
        }
    }
    below
}

fn root(pci: PciAddress) -> String {
    format!("/sys/devices/pci{:04x}:{:02x}", pci.domain, pci.bus)
}

fn render_function(device: &DeviceSpec, place: &str, irqs: &[Line], tree: &mut Tree) {
    let (vendor, id) = device.ids;
    let class = class_code(device.kind);
    let pci = device.pci;
    let mut dir = Dir::new(tree, place);
    dir.value("vendor", format!("0x{vendor:04x}"))
        .value("device", format!("0x{id:04x}"))
        .value("subsystem_vendor", format!("0x{vendor:04x}"))
        .value("subsystem_device", "0x0001")
        .value("class", format!("0x{class:06x}"))
        .value("revision", "0x01")
        .value("irq", irqs.first().map_or(0, |line| line.number))
        .value("numa_node", device.node.map_or(-1, |node| i64::from(node.0)))
        .value("enable", u32::from(device.driver.is_some()))
        .value("power_state", device.power_state.as_deref().unwrap_or("D0"))
        .value("power/control", "on")
        .value("power/runtime_status", if device.power_state.is_some() { "suspended" } else { "active" })
        .link("subsystem", "/sys/bus/pci");
    for line in irqs {
        dir.value(&format!("msi_irqs/{}", line.number), "msix");
    }
    if let Some(link) = device.link {
        dir.value("current_link_speed", speed(link.gt_per_s))
            .value("current_link_width", link.lanes)
            .value("max_link_speed", speed(link.max_gt_per_s))
            .value("max_link_width", link.max_lanes);
    }
    let mut uevent = format!(
        "PCI_CLASS={class:X}\nPCI_ID={vendor:04X}:{id:04X}\nPCI_SUBSYS_ID={vendor:04X}:0001\nPCI_SLOT_NAME={pci}\n"
    );
    if let Some(driver) = &device.driver {
        let home = format!("/sys/bus/pci/drivers/{driver}");
        dir.link("driver", &home);
        Dir::new(dir.tree, home).link(&pci.to_string(), place);
        uevent = format!("DRIVER={driver}\n{uevent}");
    }
    tree.file(&format!("{place}/uevent"), uevent)
        .file(&format!("{place}/resource"), bars(device.kind))
        .file(&format!("{place}/config"), config(device));
    Dir::new(tree, "/sys/bus/pci/devices").link(&pci.to_string(), place);
}

/// Formats a link speed like the kernel's `pci_speed_string`.
fn speed(gt_per_s: f64) -> String {
    match gt_per_s > 0.0 {
        true => format!("{gt_per_s:.1} GT/s PCIe"),
        false => "Unknown".to_owned(),
    }
}

/// The class code of the PCI Code and ID Assignment Specification.
fn class_code(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Network => 0x02_0000,
        DeviceKind::Rdma => 0x02_0700,
        DeviceKind::Nvme => 0x01_0802,
        DeviceKind::Block => 0x01_0000,
        DeviceKind::StorageController => 0x01_0601,
        DeviceKind::Gpu => 0x03_0200,
        DeviceKind::Accelerator => 0x12_0000,
        DeviceKind::Dma => 0x08_8000,
        DeviceKind::Bridge => 0x06_0400,
    }
}

/// Returns the base address registers of a usual device of a kind: `resource`, with a ROM.
fn bars(kind: DeviceKind) -> String {
    // A 64-bit register takes two lines (`include/linux/ioport.h` has the flags).
    let (last, flags) = match kind {
        DeviceKind::Bridge => (0, 0),
        DeviceKind::Network | DeviceKind::Rdma | DeviceKind::Gpu => (0x1ff_ffff, 0x0014_220c),
        _ => (0x3fff, 0x0014_0204),
    };
    let start: u64 = if flags == 0 { 0 } else { 0x0038_0000_0000_0000 };
    let line = |start: u64, end: u64, flags: u64| format!("{start:#018x} {end:#018x} {flags:#018x}\n");
    line(start, start + last, flags) + &line(0, 0, 0).repeat(6)
}

/// Returns the configuration space up to its class code. A driver enables memory and bus mastering.
fn config(device: &DeviceSpec) -> Vec<u8> {
    let (vendor, id) = device.ids;
    let command: u16 = if device.driver.is_some() { 0x0006 } else { 0 };
    let class = class_code(device.kind) << 8 | 1;
    let mut config: Vec<u8> = [vendor, id, command, 0x0010].into_iter().flat_map(u16::to_le_bytes).collect();
    config.extend(class.to_le_bytes());
    config.resize(64, 0);
    config
}

fn render_sriov(device: &DeviceSpec, places: &BTreeMap<PciAddress, String>, tree: &mut Tree) {
    let mut dir = Dir::new(tree, &places[&device.pci]);
    match &device.sriov {
        Some(Sriov::Physical { total, functions }) => {
            dir.value("sriov_totalvfs", total).value("sriov_numvfs", functions.len());
            let known = functions.iter().filter_map(|function| places.get(function));
            for (index, place) in known.enumerate() {
                dir.link(&format!("virtfn{index}"), place);
            }
        }
        Some(Sriov::Virtual { physical_function: of }) => {
            if let Some(place) = places.get(of) {
                dir.link("physfn", place);
            }
        }
        None => {}
    }
}

/// Renders the root buses; a bus without a node is local to all CPUs.
fn render_buses(spec: &Spec, online: &CpuSet, tree: &mut Tree) {
    let roots: BTreeSet<(u32, u8)> = spec
        .devices
        .iter()
        .filter(|device| device.under.is_none())
        .map(|device| (device.pci.domain, device.pci.bus))
        .collect();
    for (domain, bus) in roots {
        let on_bus = |device: &&DeviceSpec| (device.pci.domain, device.pci.bus) == (domain, bus);
        let node = spec.devices.iter().filter(on_bus).find_map(|device| device.node);
        let cpus = node.and_then(|node| spec.node(node)).map(|node| node.cpus.intersection(online));
        let path = format!("/sys/devices/pci{domain:04x}:{bus:02x}/pci_bus/{domain:04x}:{bus:02x}");
        let cpus = cpus.unwrap_or_else(|| online.clone());
        Dir::new(tree, path).set("cpuaffinity", "cpulistaffinity", &cpus, room(&spec.present_cpus()));
    }
}
