//! Devices as hwloc shows them: host bridges, PCI bridges, functions, and what the kernel calls them.

use super::element::Element;
use super::tree::{Indexes, ObjectTree};
use numaio_machine::devices::{Device, DeviceKind, NameClass, PciAddress};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// Bridges that may lie above each other, as a limit against trees that go in circles.
const DEEPEST: u32 = 32;

/// Where devices hang: by object, root buses with all that is on them, and devices that are on none.
#[derive(Default)]
pub struct DeviceTree<'a> {
    roots: BTreeMap<usize, Vec<(u32, u8)>>,
    others: BTreeMap<usize, Vec<&'a Device>>,
}

impl<'a> DeviceTree<'a> {
    pub fn new(topology: &'a Topology, tree: &ObjectTree) -> Self {
        let place = |node: Option<NodeId>| {
            let cpus = node.and_then(|id| topology.node(id)).map(|node| &node.cpus);
            cpus.map_or(0, |cpus| tree.attachment_point(cpus))
        };
        // Whole buses hang together: a root bus lies where the first device on it that says so does.
        let mut nodes: BTreeMap<(u32, u8), Option<NodeId>> = BTreeMap::new();
        let mut places = Self::default();
        for device in &topology.devices {
            match root_bus(device) {
                Some(root) => {
                    let node = nodes.entry(root).or_default();
                    *node = node.or(device.locality.node);
                }
                None => places.others.entry(place(device.locality.node)).or_default().push(device),
            }
        }
        for (root, node) in nodes {
            places.roots.entry(place(node)).or_default().push(root);
        }
        places
    }

    /// What hangs on an object.
    pub fn at(&self, place: usize, indexes: &mut Indexes, topology: &Topology) -> Vec<Element> {
        let roots = self.roots.get(&place).into_iter().flatten();
        let mut elements: Vec<Element> =
            roots.filter_map(|root| host_bridge(indexes, topology, *root)).collect();
        for device in self.others.get(&place).into_iter().flatten() {
            elements.extend(os_devices(indexes, device));
        }
        elements
    }
}

/// Domain and bus that a PCI function's path begins at.
fn root_bus(device: &Device) -> Option<(u32, u8)> {
    let top = device.upstream.last().copied().or(device.pci)?;
    Some((top.domain, top.bus))
}

/// A host bridge with everything on its bus that has a name, or leads to something that has.
fn host_bridge(indexes: &mut Indexes, topology: &Topology, root: (u32, u8)) -> Option<Element> {
    let on_bus: BTreeSet<PciAddress> = topology
        .devices
        .iter()
        .filter(|device| device.upstream.is_empty() && root_bus(device) == Some(root))
        .filter_map(|device| device.pci)
        .collect();
    let below = |device: &&Device| root_bus(device) == Some(root);
    let last = topology.devices.iter().filter(below).filter_map(|device| device.pci).map(|pci| pci.bus).max();
    let (domain, bus) = root;
    let mut bridge = Element::new("object")
        .with("type", "Bridge")
        .with("gp_index", indexes.next())
        .with("bridge_type", "0-1")
        .with("depth", 0)
        .with("bridge_pci", format!("{domain:04x}:[{bus:02x}-{:02x}]", last.unwrap_or(bus)));
    let functions: Vec<Element> =
        on_bus.into_iter().filter_map(|pci| function(indexes, topology, pci, 1)).collect();
    let some = !functions.is_empty();
    functions.into_iter().for_each(|function| bridge.add(function));
    some.then_some(bridge)
}

/// A PCI function; a bridge with what is below it, and none if there is nothing.
fn function(indexes: &mut Indexes, topology: &Topology, pci: PciAddress, depth: u32) -> Option<Element> {
    let at = || topology.devices.iter().filter(|device| device.pci == Some(pci));
    let first = at().next()?;
    if at().all(|device| device.moves_data()) {
        let mut element = pci_attributes(Element::new("object").with("type", "PCIDev"), indexes, first);
        for device in at() {
            for os_device in os_devices(indexes, device) {
                element.add(os_device);
            }
        }
        return Some(element);
    }
    let under = |device: &&Device| device.upstream.first() == Some(&pci);
    let below: BTreeSet<PciAddress> =
        topology.devices.iter().filter(under).filter_map(|device| device.pci).collect();
    let buses = topology.devices.iter().filter(|device| device.upstream.contains(&pci));
    let buses: BTreeSet<u8> = buses.filter_map(|device| device.pci).map(|pci| pci.bus).collect();
    let (first_bus, last_bus) = (buses.first()?, buses.last()?);
    let element = Element::new("object")
        .with("type", "Bridge")
        .with("bridge_type", "1-1")
        .with("depth", depth)
        .with("bridge_pci", format!("{:04x}:[{first_bus:02x}-{last_bus:02x}]", pci.domain));
    let mut element = pci_attributes(element, indexes, first);
    if depth < DEEPEST {
        for pci in below {
            element.add_all(function(indexes, topology, pci, depth + 1));
        }
    }
    Some(element)
}

fn pci_attributes(element: Element, indexes: &mut Indexes, device: &Device) -> Element {
    let pci = device.pci.map(|pci| pci.to_string()).unwrap_or_default();
    let class = device.class.map_or_else(|| usual_class(device.kind), |class| class >> 8 & 0xffff);
    let (vendor, id) = device.ids.unwrap_or_default();
    // Subsystem and revision are not kept.
    let kind = format!("{class:04x} [{vendor:04x}:{id:04x}] [0000:0000] 00");
    let gb_per_s = device.link.map_or(0.0, |link| link.bytes_per_s() / 1e9);
    element
        .with("gp_index", indexes.next())
        .with("pci_busid", pci)
        .with("pci_type", kind)
        .with("pci_link_speed", format!("{gb_per_s:.6}"))
}

/// Base class and subclass where the recorded machine does not tell (PCI Code and ID Assignment).
fn usual_class(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Network => 0x0200,
        DeviceKind::Nvme => 0x0108,
        DeviceKind::Block | DeviceKind::StorageController => 0x0180,
        DeviceKind::Gpu => 0x0300,
        DeviceKind::Accelerator => 0x1200,
        DeviceKind::Rdma => 0x0207,
        DeviceKind::Dma => 0x0801,
        DeviceKind::Bridge => 0x0604,
    }
}

/// An object for each name. hwloc has none for the controller of NVMe namespaces.
fn os_devices(indexes: &mut Indexes, device: &Device) -> Vec<Element> {
    let named = device.names.iter().filter_map(|name| {
        let mut element = Element::new("object")
            .with("type", "OSDev")
            .with("gp_index", indexes.next())
            .with("name", name)
            .with("osdev_type", os_device_type(device.kind, device.name_classes.get(name).copied())?);
        if !device.model.is_empty() {
            element.add(Element::new("info").with("name", "Model").with("value", &device.model));
        }
        Some(element)
    });
    named.collect()
}

/// `hwloc_obj_osdev_type_t`: by what the name stands for, or where that is not known by the kind of its device;
/// none of what hwloc has no object for.
fn os_device_type(kind: DeviceKind, class: Option<NameClass>) -> Option<u32> {
    const BLOCK: u32 = 0;
    const GPU: u32 = 1;
    const NETWORK: u32 = 2;
    const OPEN_FABRICS: u32 = 3;
    const DMA: u32 = 4;
    const COPROCESSOR: u32 = 5;
    match (class, kind) {
        (Some(NameClass::Nvme), _) | (None, DeviceKind::Bridge) => None,
        (Some(NameClass::Net), _) | (None, DeviceKind::Network) => Some(NETWORK),
        (Some(NameClass::Infiniband), _) | (None, DeviceKind::Rdma) => Some(OPEN_FABRICS),
        (Some(NameClass::Drm), _) | (None, DeviceKind::Gpu) => Some(GPU),
        (Some(NameClass::Accelerator), _) | (None, DeviceKind::Accelerator) => Some(COPROCESSOR),
        (Some(NameClass::Dma), _) | (None, DeviceKind::Dma) => Some(DMA),
        (Some(NameClass::Block), _) => Some(BLOCK),
        (None, DeviceKind::Nvme | DeviceKind::Block | DeviceKind::StorageController) => Some(BLOCK),
    }
}
