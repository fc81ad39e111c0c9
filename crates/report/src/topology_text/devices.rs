//! Formats the devices of each node.

use crate::phrases;
use crate::style::Detail;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::devices::{Device, LocalitySource};
use numaio_machine::topology::Topology;
use numaio_machine::units::BandwidthUnit;

/// With more devices, equal devices share a row.
const MANY: usize = 40;
/// Minimum number of equal devices for a shared row.
const GROUP: usize = 4;
/// Maximum number of names listed for equal devices.
const MOST_NAMES: usize = 16;

/// Writes the devices of each node, then those whose node is unknown.
pub(super) fn write(page: &mut TextPage, topology: &Topology, detail: Detail) {
    let moving: Vec<&Device> = topology.devices.iter().filter(|device| device.moves_data()).collect();
    if moving.is_empty() {
        page.heading("No devices that move data found.");
        return;
    }
    page.heading("Devices");
    let mut table = Table::new([
        ("DEVICE", Align::Left),
        ("KIND", Align::Left),
        ("PCI", Align::Left),
        ("DRIVER", Align::Left),
        ("LINK (OF MAXIMUM)", Align::Left),
        ("IRQS", Align::Right),
    ])
    .inset(2)
    .shrink_first("KIND");
    let shared_row = match detail {
        Detail::Complete if moving.len() <= MANY => None,
        Detail::Complete => Some(GROUP),
        Detail::Screen | Detail::Brief => Some(2),
    };
    let unit = page.style().unit;
    for node in topology.nodes.iter().map(|node| node.id).chain(unlisted(topology)) {
        let here: Vec<&Device> = topology.devices_on(node).collect();
        write_group(&mut table, &format!("On node {node}:"), &here, shared_row, unit);
    }
    let unknown: Vec<&Device> = moving.into_iter().filter(|device| device.locality.node.is_none()).collect();
    write_group(&mut table, "On an unknown node:", &unknown, shared_row, unit);
    page.table(0, &table.without_empty_columns());
}

/// Returns nodes that devices refer to but the machine does not list.
fn unlisted(topology: &Topology) -> Vec<numaio_machine::ids::NodeId> {
    let nodes = topology.device_nodes();
    nodes.iter().filter(|node| topology.node(*node).is_none()).collect()
}

/// Writes devices; equal ones in a row from `shared_row` devices, `None` only for virtual
/// functions.
fn write_group(
    table: &mut Table,
    title: &str,
    devices: &[&Device],
    shared_row: Option<usize>,
    unit: BandwidthUnit,
) {
    if devices.is_empty() {
        return;
    }
    table.span(0, title);
    let key = |device: &Device| {
        // The path makes the key of a device with its own row unique.
        let separate = shared_row.is_none() && !device.is_virtual_function();
        (
            device.kind,
            device.driver.clone(),
            link(device, unit),
            notes(device, false),
            separate.then(|| device.path.clone()),
        )
    };
    for group in phrases::group_devices(devices, shared_row.unwrap_or(GROUP), key) {
        match group.as_slice() {
            [] => {}
            [device] => write_device(table, device, unit),
            group => write_equal_devices(table, group, unit),
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

fn write_equal_devices(table: &mut Table, group: &[&Device], unit: BandwidthUnit) {
    let Some(first) = group.first() else { return };
    let irqs: usize = group.iter().map(|device| device.irqs.len()).sum();
    table.row(
        [
            format!("{} devices", group.len()),
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

/// Formats a number; empty for 0.
fn number(number: usize) -> String {
    match number {
        0 => String::new(),
        number => number.to_string(),
    }
}

fn link(device: &Device, unit: BandwidthUnit) -> String {
    device.link.as_ref().map(|link| phrases::link(link, unit)).unwrap_or_default()
}

/// Returns details without a column; other names of the device only if `named`.
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
        nodes if nodes.len() > 1 => format!("equally near to nodes {nodes}"),
        _ => String::new(),
    };
    let power = match device.power.as_deref() {
        Some(power) if is_suspended(power) => format!("power {}", phrases::short(power)),
        _ => String::new(),
    };
    // With at most one node, the heading above the devices states the node.
    let source = match device.locality.source {
        LocalitySource::Unknown => "",
        _ => phrases::locality_source(device),
    };
    phrases::joined(
        [&also, &phrases::short(&device.model), &port, source, &near, &phrases::sriov(device), &power],
        "; ",
    )
}

/// Returns whether a device must wake up before it can move data.
fn is_suspended(power: &str) -> bool {
    ["D1", "D2", "D3", "suspend"].iter().any(|state| power.contains(state))
}
