//! The devices, by the node they hang on.

use crate::phrases;
use crate::style::TextPage;
use crate::table::{Align, Cell, Table};
use numaio_machine::devices::{Device, LocalitySource, Sriov};
use numaio_machine::topology::Topology;
use numaio_machine::units::BandwidthUnit;

/// With more devices than this, those alike are put in one row.
const MANY: usize = 40;
/// From how many on devices alike are put in one row.
const GROUP: usize = 4;
/// Of devices alike, names are all written out up to this many.
const MOST_NAMES: usize = 16;

/// One table for each node that has devices, and one for devices of which the node is not known.
pub(super) fn write(page: &mut TextPage, topology: &Topology) {
    let moving: Vec<&Device> = topology.devices.iter().filter(|device| device.moves_data()).collect();
    if moving.is_empty() {
        page.heading("No devices that move data were found.");
        return;
    }
    page.heading("Devices");
    let mut table = Table::new([
        ("DEVICE", Align::Left),
        ("KIND", Align::Left),
        ("PCI", Align::Left),
        ("DRIVER", Align::Left),
        ("LINK NOW, OF BEST", Align::Left),
        ("IRQS", Align::Right),
    ])
    .inset(2)
    .shrink_first("KIND");
    let many = moving.len() > MANY;
    let unit = page.style().unit;
    for node in topology.nodes.iter().map(|node| node.id).chain(unlisted(topology)) {
        let here: Vec<&Device> = topology.devices_on(node).collect();
        write_group(&mut table, &format!("On node {node}:"), &here, many, unit);
    }
    let unknown: Vec<&Device> = moving.into_iter().filter(|device| device.locality.node.is_none()).collect();
    write_group(&mut table, "On an unknown node:", &unknown, many, unit);
    page.table(0, &table.without_empty_columns());
}

/// Nodes that devices name, though the machine does not list them.
fn unlisted(topology: &Topology) -> Vec<numaio_machine::ids::NodeId> {
    let nodes = topology.device_nodes();
    nodes.iter().filter(|node| topology.node(*node).is_none()).collect()
}

fn write_group(table: &mut Table, title: &str, devices: &[&Device], many: bool, unit: BandwidthUnit) {
    if devices.is_empty() {
        return;
    }
    table.span(0, title);
    let is_virtual = |device: &Device| matches!(device.sriov, Some(Sriov::Virtual { .. }));
    let key = |device: &Device| {
        // A device that is to stand alone has itself in its key.
        let alone = !many && !is_virtual(device);
        (
            device.kind,
            device.driver.clone(),
            link(device, unit),
            notes(device, false),
            alone.then(|| device.path.clone()),
        )
    };
    for group in phrases::group_devices(devices, GROUP, key) {
        match group.as_slice() {
            [] => {}
            [device] => write_device(table, device, unit),
            group => write_alike(table, group, unit),
        }
    }
}

fn write_device(table: &mut Table, device: &Device, unit: BandwidthUnit) {
    table.row(
        [
            phrases::device_name(device),
            device.kind.name().to_owned(),
            device.pci.map(|pci| pci.to_string()).unwrap_or_default(),
            phrases::short(device.driver.as_deref().unwrap_or_default()),
            link(device, unit),
            number(device.irqs.len()),
        ]
        .map(Cell::from),
    );
    let notes = notes(device, true);
    if !notes.is_empty() {
        table.span(4, &notes);
    }
}

fn write_alike(table: &mut Table, group: &[&Device], unit: BandwidthUnit) {
    let Some(first) = group.first() else { return };
    let irqs: usize = group.iter().map(|device| device.irqs.len()).sum();
    table.row(
        [
            format!("{} alike", group.len()),
            first.kind.name().to_owned(),
            first.pci.map(|pci| format!("{pci} …")).unwrap_or_default(),
            phrases::short(first.driver.as_deref().unwrap_or_default()),
            link(first, unit),
            number(irqs),
        ]
        .map(Cell::from),
    );
    let names: Vec<String> = group.iter().map(|device| phrases::device_name(device)).collect();
    let names = match names.as_slice() {
        [first, .., last] if names.len() > MOST_NAMES => format!("{first} … {last}"),
        names => names.join(", "),
    };
    table.span(4, &phrases::joined([names, notes(first, false)], "; "));
}

/// A number that says something.
fn number(number: usize) -> String {
    match number {
        0 => String::new(),
        number => number.to_string(),
    }
}

fn link(device: &Device, unit: BandwidthUnit) -> String {
    device.link.as_ref().map(|link| phrases::link(link, unit)).unwrap_or_default()
}

/// What has no column. Other names of the device are left out where `named` is false.
fn notes(device: &Device, named: bool) -> String {
    let also = match phrases::other_names(device) {
        others if named && !others.is_empty() => format!("also {others}"),
        _ => String::new(),
    };
    let port = match device.port_bits_per_s {
        Some(bits) => format!("port {} Gbit/s", bits as f64 / 1e9),
        None => String::new(),
    };
    let near = match &device.locality.nodes {
        nodes if nodes.len() > 1 => format!("as near to each of nodes {nodes}"),
        _ => String::new(),
    };
    let power = match device.power.as_deref() {
        Some(power) if sleeps(power) => format!("power {}", phrases::short(power)),
        _ => String::new(),
    };
    // With one node or none, the line above the devices says where they hang.
    let source = match device.locality.source {
        LocalitySource::Unknown => "",
        _ => phrases::locality_source(device),
    };
    phrases::joined(
        [&also, &phrases::short(&device.model), &port, source, &near, &phrases::sriov(device), &power],
        "; ",
    )
}

/// Whether a device is in a state of power in which it must wake before it moves data.
fn sleeps(power: &str) -> bool {
    ["D1", "D2", "D3", "suspend"].iter().any(|state| power.contains(state))
}
