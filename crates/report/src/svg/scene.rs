//! Content of the drawing: cards of nodes and devices, grouped by package.

use super::card::{Card, Mark};
use crate::phrases;
use numaio_machine::devices::{Device, DeviceKind, LocalitySource, Sriov};
use numaio_machine::ids::PackageId;
use numaio_machine::topology::{Node, Topology};
use numaio_machine::units::{format_size, BandwidthUnit};

/// Minimum number of equal devices for a shared card.
const GROUP: usize = 5;

/// Maximum number of devices in a card's tooltip.
const MOST_DESCRIBED: usize = 8;

/// A node with its devices, or devices without a node.
pub(super) struct Column {
    pub(super) node: Option<Card>,
    pub(super) devices: Vec<Card>,
}

/// A package, and the nodes without CPUs beside it.
pub(super) struct Block {
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    /// Nodes near the package but not part of it.
    pub(super) beside: Vec<Column>,
}

/// Returns all blocks: packages in the order of their first node, nodes without a package, devices
/// without a node.
pub(super) fn blocks(topology: &Topology) -> Vec<Block> {
    let mut blocks: Vec<(&[PackageId], Block)> = Vec::new();
    let (with_cpus, memory_only): (Vec<&Node>, Vec<&Node>) =
        topology.nodes.iter().partition(|node| !node.cpus.is_empty());
    for node in with_cpus {
        let column = column(topology, node);
        match blocks.iter_mut().find(|(packages, _)| *packages == node.packages) {
            Some((_, block)) => block.columns.push(column),
            None => {
                let title = title(&node.packages);
                blocks.push((&node.packages, Block { title, columns: vec![column], beside: Vec::new() }));
            }
        }
    }
    let mut ambiguous = Block {
        title: "Nodes without a single nearest package".to_owned(),
        columns: Vec::new(),
        beside: Vec::new(),
    };
    for node in memory_only {
        let near = |packages: &&[PackageId]| packages.iter().any(|package| node.packages.contains(package));
        let mut nearest = blocks.iter_mut().filter(|(packages, _)| near(packages));
        match (nearest.next(), nearest.next()) {
            (Some((_, block)), None) => block.beside.push(column(topology, node)),
            _ => ambiguous.columns.push(column(topology, node)),
        }
    }
    let mut blocks: Vec<Block> = blocks.into_iter().map(|(_, block)| block).collect();
    blocks.extend(Some(ambiguous).filter(|ambiguous| !ambiguous.columns.is_empty()));
    blocks.extend(unattached_devices(topology));
    blocks
}

fn title(packages: &[PackageId]) -> String {
    let names: Vec<String> = packages.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [] => "Package unknown".to_owned(),
        [one] => format!("Package {one}"),
        many => format!("Packages {}", many.join(", ")),
    }
}

/// Returns the block of devices whose node is unknown or not listed.
fn unattached_devices(topology: &Topology) -> Option<Block> {
    let moving = topology.devices.iter().filter(|device| device.moves_data());
    let listed = |device: &Device| device.locality.node.is_some_and(|node| topology.node(node).is_some());
    let devices: Vec<&Device> = moving.filter(|device| !listed(device)).collect();
    if devices.is_empty() {
        return None;
    }
    let column = Column { node: None, devices: device_cards(topology, &devices) };
    Some(Block { title: "Devices on an unknown node".to_owned(), columns: vec![column], beside: Vec::new() })
}

fn column(topology: &Topology, node: &Node) -> Column {
    let devices: Vec<&Device> = topology.devices_on(node.id).collect();
    Column { node: Some(node_card(topology, node)), devices: device_cards(topology, &devices) }
}

fn node_card(topology: &Topology, node: &Node) -> Card {
    let name = format!("Node {}", node.id);
    let line = |text: String| (text, String::new());
    let mut lines = Vec::new();
    if !node.cpus.is_empty() {
        lines.push(line(format!("CPUs {}", node.cpus)));
        let cores = phrases::cores_of(topology, &node.cpus);
        let threads = phrases::count(node.cpus.len(), "thread");
        let counts =
            if cores > 0 { format!("{}, {threads}", phrases::count(cores, "core")) } else { threads };
        lines.push(line(phrases::joined([counts, phrases::last_cache(topology, &node.cpus)], ", ")));
    }
    if let Some(memory) = node.memory {
        let (total, free) = (format_size(memory.total_bytes), format_size(memory.free_bytes));
        lines.push(line(format!("{total} of memory, {free} free")));
    }
    if node.cpus.is_empty() && node.packages.len() > 1 {
        lines.push(line(format!("equally near to {}", title(&node.packages).to_lowercase())));
    }
    let mut notes = phrases::node_notes(node);
    let aside = if notes.is_empty() { String::new() } else { notes.remove(0) };
    lines.extend(notes.into_iter().map(line));
    let details = phrases::joined(lines.iter().map(|(text, _)| text), "; ");
    let subject = format!("node {}", node.id);
    Card {
        class: match (node.cpus.is_empty(), node.memory_allowed || !node.has_memory()) {
            (false, true) => "card node",
            (false, false) => "card node excluded",
            (true, true) => "card memory",
            (true, false) => "card memory excluded",
        },
        tooltip: phrases::joined([format!("{name}: {details}"), aside.clone()], "; "),
        mark: Mark::for_findings(topology.findings.iter().filter(|finding| finding.subject == subject)),
        name,
        aside,
        lines,
        ..Card::default()
    }
}

fn device_cards(topology: &Topology, devices: &[&Device]) -> Vec<Card> {
    let key = |device: &Device| {
        let of = match &device.sriov {
            Some(Sriov::Virtual { physical_function: of }) => Some(*of),
            _ => None,
        };
        (device.kind, device.link.as_ref().map(phrases::link_width), device.locality.clone(), of)
    };
    let groups = phrases::group_devices(devices, GROUP, key);
    groups.iter().map(|group| device_card(topology, group)).collect()
}

fn device_card(topology: &Topology, group: &[&Device]) -> Card {
    let mark = topology
        .findings
        .iter()
        .filter(|finding| group.iter().any(|device| phrases::concerns_device(finding, device)));
    let mut card = Card {
        class: "card",
        tooltip: describe_all(group),
        mark: Mark::for_findings(mark),
        ..Card::default()
    };
    let Some(first) = group.first() else { return card };
    let bytes_per_s = first.link.as_ref().and_then(phrases::link_bytes_per_s);
    let bandwidth = bytes_per_s.map(|speed| phrases::bandwidth(speed, BandwidthUnit::GigabytesPerS));
    let bandwidth = bandwidth.unwrap_or_default();
    card.strip = strip(first.kind);
    match group {
        [device] => {
            card.name = phrases::device_name(device);
            card.aside = device.kind.name().to_owned();
            let pci = device.pci.map(|pci| pci.to_string()).filter(|pci| *pci != device.name());
            card.lines.push((pci.unwrap_or_default(), bandwidth));
            card.lines.extend(link_line(device, String::new()));
        }
        group => {
            card.name = phrases::group_name(group);
            let last = group.last().map(|device| phrases::device_name(device)).unwrap_or_default();
            let each = if bandwidth.is_empty() { bandwidth } else { format!("{bandwidth} each") };
            card.lines.push((format!("{} … {last}", phrases::device_name(first)), String::new()));
            card.lines.extend(link_line(first, each));
        }
    }
    let locality = match first.locality.node {
        Some(node) if topology.node(node).is_none() => format!("node {node}, which is not online"),
        None if first.locality.source == LocalitySource::Unknown => String::new(),
        _ => phrases::locality_source(first).to_owned(),
    };
    card.lines.push((locality, String::new()));
    card.lines.push((phrases::sriov(first), String::new()));
    card.lines.retain(|(left, right)| !left.is_empty() || !right.is_empty());
    card
}

fn link_line(device: &Device, bandwidth: String) -> Option<(String, String)> {
    device.link.as_ref().map(|link| (phrases::link_width(link), bandwidth))
}

/// Describes the first devices of a group in full.
fn describe_all(group: &[&Device]) -> String {
    let more = match group.len().saturating_sub(MOST_DESCRIBED) {
        0 => String::new(),
        more => format!("and {more} more"),
    };
    let described = group.iter().take(MOST_DESCRIBED).map(|device| describe(device));
    phrases::joined(described.chain(std::iter::once(more)), "; ")
}

/// Lists names, address, model, driver and link of a device.
fn describe(device: &Device) -> String {
    let names = phrases::joined(device.names.iter().map(|name| phrases::short(name)), ", ");
    let name = if names.is_empty() { phrases::device_name(device) } else { names };
    let link = device.link.as_ref().map(|link| phrases::link(link, BandwidthUnit::GigabytesPerS));
    let driver = device.driver.as_deref().map(phrases::short).unwrap_or_default();
    let pci = device.pci.map(|pci| pci.to_string()).unwrap_or_default();
    phrases::joined([name, pci, phrases::short(&device.model), driver, link.unwrap_or_default()], ", ")
}

fn strip(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Network | DeviceKind::Rdma => "network",
        DeviceKind::Nvme | DeviceKind::Block | DeviceKind::StorageController => "storage",
        DeviceKind::Gpu | DeviceKind::Accelerator => "compute",
        DeviceKind::Dma | DeviceKind::Bridge => "other",
    }
}
