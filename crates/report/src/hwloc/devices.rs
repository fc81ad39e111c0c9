//! Devices as hwloc objects: host bridges, PCI bridges, PCI functions and OS devices.

use super::element::{Element, Indexes};
use super::tree::ObjectTree;
use numaio_machine::devices::{Device, DeviceKind, NameClass, PciAddress};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum depth of bridges, which guards against cyclic input.
const DEEPEST: u32 = 32;

/// The devices below each object: root buses with all their devices, and devices without a bus.
#[derive(Default)]
pub struct DeviceTree<'a> {
    roots: BTreeMap<usize, Vec<(u32, u8)>>,
    others: BTreeMap<usize, Vec<&'a Device>>,
}

impl<'a> DeviceTree<'a> {
    /// Assigns all devices to the objects of the tree.
    pub fn new(topology: &'a Topology, tree: &ObjectTree) -> Self {
        let parent = |node: Option<NodeId>| {
            let cpus = node.and_then(|id| topology.node(id)).map(|node| &node.cpus);
            cpus.map_or(0, |cpus| tree.attachment_point(cpus))
        };
        // A bus is not split: it belongs to the node of its first device with a known node.
        let mut nodes: BTreeMap<(u32, u8), Option<NodeId>> = BTreeMap::new();
        let mut by_object = Self::default();
        for device in &topology.devices {
            match root_bus(device) {
                Some(root) => {
                    let node = nodes.entry(root).or_default();
                    *node = node.or(device.locality.node);
                }
                None => by_object.others.entry(parent(device.locality.node)).or_default().push(device),
            }
        }
        for (root, node) in nodes {
            by_object.roots.entry(parent(node)).or_default().push(root);
        }
        by_object
    }

    /// Returns the elements of the devices below an object.
    pub fn elements(&self, object: usize, indexes: &mut Indexes, topology: &Topology) -> Vec<Element> {
        let roots = self.roots.get(&object).into_iter().flatten();
        let mut elements: Vec<Element> =
            roots.filter_map(|root| host_bridge(indexes, topology, *root)).collect();
        for device in self.others.get(&object).into_iter().flatten() {
            elements.extend(os_devices(indexes, device));
        }
        elements
    }
}

/// Returns domain and bus of the root of a PCI function's path.
fn root_bus(device: &Device) -> Option<(u32, u8)> {
    let top = device.upstream.last().copied().or(device.pci)?;
    Some((top.domain, top.bus))
}

/// Returns a host bridge with all named functions below it, or `None` if there are none.
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

/// Returns a PCI function, or a bridge with its children; `None` for a bridge without children.
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
    // Topologies do not record subsystem and revision.
    let kind = format!("{class:04x} [{vendor:04x}:{id:04x}] [0000:0000] 00");
    let gb_per_s = device.link.map_or(0.0, |link| link.bytes_per_s() / 1e9);
    element
        .with("gp_index", indexes.next())
        .with("pci_busid", pci)
        .with("pci_type", kind)
        .with("pci_link_speed", format!("{gb_per_s:.6}"))
}

/// Returns the usual base class and subclass of a kind of device, for recordings without a class
/// code (PCI Code and ID Assignment).
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

/// Returns an OS device for each name, except the controllers of NVMe namespaces, as hwloc does.
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

/// Returns the `hwloc_obj_osdev_type_t`, from the class of the name or else the kind of device.
///
/// Returns `None` for devices that hwloc does not show.
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
