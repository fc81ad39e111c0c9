//! New domains of libvirt (libvirt.org, "Domain XML format"), and parts of domains.

use super::configuration_parts::{comment_lines, distance, guest_topology, vcpu_list};
use super::edit::{comment, escape};
use super::expander_buses::{cell_of, expander_buses};
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_schema::{GuestPlacement, GuestPlan, GuestRequest, PlacedCell, PlannedFunction};
use std::fmt::Write;

/// Ports outside the expander buses: libvirt puts devices without an address on the first free
/// port, and a device of no node must not take that of a node.
const ORDINARY_PORTS: usize = 6;

/// Formats a complete domain of a guest, to which disks and other devices are to be added.
pub fn guest_domain(plan: &GuestPlan, index: usize, topology: &Topology) -> String {
    let (Some(request), Some(guest)) = (plan.requests.get(index), plan.guests.get(index)) else {
        return String::new();
    };
    let machine = if plan.machine.architecture == "aarch64" { "virt" } else { "q35" };
    let lines = comment_lines(plan, &["add disks, and a network unless it has a virtual function"]);
    let mut text: String = lines.iter().map(|line| comment(line)).collect();
    text += "<domain type='kvm'>\n";
    let _ = writeln!(text, "  <name>{}</name>", escape(&request.name));
    let _ = writeln!(text, "  <memory unit='KiB'>{}</memory>", guest.memory_bytes().div_ceil(1024));
    text += &backing(request);
    let _ = writeln!(text, "  <vcpu placement='static'>{}</vcpu>", guest.vcpus().len());
    if request.io_threads > 0 {
        let _ = writeln!(text, "  <iothreads>{}</iothreads>", request.io_threads);
    }
    text += &format!("  <cputune>\n{}  </cputune>\n", pins(1..=request.io_threads, guest));
    text += &format!("  <numatune>\n{}  </numatune>\n", memory_nodes(guest));
    let _ = writeln!(
        text,
        "  <os>\n    <type arch='{}' machine='{machine}'>hvm</type>\n  </os>",
        escape(&plan.machine.architecture)
    );
    text += "  <cpu mode='host-passthrough'>\n";
    let (sockets, cores, threads) = guest_topology(guest, topology);
    let _ =
        writeln!(text, "    <topology sockets='{sockets}' dies='1' cores='{cores}' threads='{threads}'/>");
    if guest.cells.len() > 1 {
        text += &cells(guest, topology, vcpu_list);
    }
    text += "  </cpu>\n  <devices>\n";
    text += &devices(guest, true, Some(0));
    text += "  </devices>\n</domain>\n";
    text
}

/// Formats the pins of a guest with these I/O threads.
pub(super) fn pins(io_threads: impl IntoIterator<Item = u32>, guest: &GuestPlacement) -> String {
    let mut text = String::new();
    for pinned in guest.vcpus() {
        let _ = writeln!(text, "    <vcpupin vcpu='{}' cpuset='{}'/>", pinned.vcpu, pinned.cpus);
    }
    let _ = writeln!(text, "    <emulatorpin cpuset='{}'/>", guest.service_cpus);
    for thread in io_threads {
        let _ = writeln!(text, "    <iothreadpin iothread='{thread}' cpuset='{}'/>", guest.service_cpus);
    }
    text
}

pub(super) fn memory_nodes(guest: &GuestPlacement) -> String {
    let nodes: NodeSet = guest.cells.iter().map(|cell| cell.node).collect();
    let mut text = format!("    <memory mode='strict' nodeset='{nodes}'/>\n");
    for (index, cell) in guest.cells.iter().enumerate().filter(|_| nodes.len() > 1) {
        let _ = writeln!(text, "    <memnode cellid='{index}' mode='strict' nodeset='{}'/>", cell.node);
    }
    text
}

fn backing(request: &GuestRequest) -> String {
    match request.huge_page_bytes {
        Some(_) => format!("  <memoryBacking>\n{}  </memoryBacking>\n", huge_pages(request)),
        None => String::new(),
    }
}

pub(super) fn huge_pages(request: &GuestRequest) -> String {
    let size = request.huge_page_bytes.unwrap_or_default().div_ceil(1024);
    format!("    <hugepages>\n      <page size='{size}' unit='KiB'/>\n    </hugepages>\n")
}

/// Formats the guest nodes of a placement. `vcpus` lists the virtual CPUs of a part.
pub(super) fn cells(
    guest: &GuestPlacement,
    topology: &Topology,
    vcpus: impl Fn(&PlacedCell) -> String,
) -> String {
    let mut text = "    <numa>\n".to_owned();
    for (index, cell) in guest.cells.iter().enumerate() {
        let memory = cell.memory_bytes.div_ceil(1024);
        let _ = writeln!(
            text,
            "      <cell id='{index}' cpus='{}' memory='{memory}' unit='KiB'>\n        <distances>",
            vcpus(cell)
        );
        for other in 0..guest.cells.len() {
            let value = distance(topology, guest, index, other);
            let _ = writeln!(text, "          <sibling id='{other}' value='{value}'/>");
        }
        text += "        </distances>\n      </cell>\n";
    }
    text + "    </numa>\n"
}

/// Formats the buses of a guest's nodes and its virtual function. `first` is the first free number
/// of a controller; libvirt numbers them itself without it.
pub(super) fn devices(guest: &GuestPlacement, can_expand: bool, first: Option<usize>) -> String {
    let mut text = String::new();
    let mut ports: Vec<(usize, usize)> = Vec::new();
    let buses = if can_expand { expander_buses(guest) } else { Vec::new() };
    let mut next = first.unwrap_or(0);
    if !buses.is_empty() && next == 0 {
        text += "    <controller type='pci' index='0' model='pcie-root'/>\n";
        for index in 1..=ORDINARY_PORTS {
            let _ = writeln!(text, "    <controller type='pci' index='{index}' model='pcie-root-port'/>");
        }
        next = 1 + ORDINARY_PORTS;
    }
    for bus in buses {
        let (expander, port) = (next, next + 1);
        next += 2;
        ports.push((bus.cell, port));
        let _ = writeln!(
            text,
            "    <controller type='pci' index='{expander}' model='pcie-expander-bus'>\n      <model \
             name='pxb-pcie'/>\n      <target busNr='{}'>\n        <node>{}</node>\n      </target>\n    \
             </controller>\n    <controller type='pci' index='{port}' model='pcie-root-port'>\n      <address \
             type='pci' domain='0x0000' bus='0x{expander:02x}' slot='0x00' function='0x0'/>\n    </controller>",
            bus.bus, bus.cell
        );
    }
    if let Some(function) = &guest.function {
        let port = ports.iter().find(|(cell, _)| Some(*cell) == cell_of(guest, function.node));
        let port = port.map(|(_, port)| *port);
        text += &host_device(function, port);
    }
    text
}

fn host_device(function: &PlannedFunction, port: Option<usize>) -> String {
    let address = &function.address;
    // libvirt requires the type of an interface's source, and rejects it of another device.
    let kind = if function.network { " type='pci'" } else { "" };
    let source = format!(
        "      <source>\n        <address{kind} domain='0x{:04x}' bus='0x{:02x}' slot='0x{:02x}' \
         function='0x{:x}'/>\n      </source>\n",
        address.domain, address.bus, address.device, address.function
    );
    let at = port.map(|port| {
        format!("      <address type='pci' domain='0x0000' bus='0x{port:02x}' slot='0x00' function='0x0'/>\n")
    });
    let at = at.unwrap_or_default();
    // An interface, unlike a plain device, lets libvirt set the MAC address and VLAN.
    match function.network {
        true => format!("    <interface type='hostdev' managed='yes'>\n{source}{at}    </interface>\n"),
        false => {
            format!("    <hostdev mode='subsystem' type='pci' managed='yes'>\n{source}{at}    </hostdev>\n")
        }
    }
}
