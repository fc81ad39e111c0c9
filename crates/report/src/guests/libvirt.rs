//! Domains of libvirt (libvirt.org, "Domain XML format"): complete, or an existing one with its
//! placement replaced.

use super::configuration_parts::{comment_lines, distance, guest_topology, vcpu_list};
use super::edit::{comment, escape, Edits};
use super::expander_buses::{cell_of, expander_buses};
use numaio_machine::guests::{domain_children, parse_domain, DomainError};
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_schema::{GuestPlacement, GuestPlan, GuestRequest, PlannedFunction};
use roxmltree::Node;
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
    text += &format!("  {}\n", vcpu(guest));
    if request.io_threads > 0 {
        let _ = writeln!(text, "  <iothreads>{}</iothreads>", request.io_threads);
    }
    text += &format!("  <cputune>\n{}  </cputune>\n", pins(request, guest));
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
        text += &cells(guest, topology);
    }
    text += "  </cpu>\n  <devices>\n";
    text += &devices(guest, true, Some(0));
    text += "  </devices>\n</domain>\n";
    text
}

/// Formats an existing domain with the placement of a guest. Everything else stays as it is.
///
/// # Errors
/// [`DomainError`]: the text is not a domain.
pub fn guest_domain_from(
    plan: &GuestPlan,
    index: usize,
    topology: &Topology,
    domain: &str,
) -> Result<String, DomainError> {
    let document = parse_domain(domain)?;
    let root = document.root_element();
    let (Some(request), Some(guest)) = (plan.requests.get(index), plan.guests.get(index)) else {
        return Ok(domain.to_owned());
    };
    let mut edits = Edits::new(domain);
    let has_expanders = has_expanders(root);
    let can_expand = has_expandable_machine(root) && !has_expanders;
    let mut more = Vec::new();
    if guest.cells.len() > 1 && has_expanders {
        more.push("the domain keeps its pcie-expander-bus controllers: check their guest nodes");
    } else if guest.cells.len() > 1 && !can_expand {
        more.push(
            "a pcie-expander-bus needs a q35 or virt machine: the guest does not see the node of its devices",
        );
    }
    let lines = comment_lines(plan, &more);
    edits.insert_before(root, &lines.iter().map(|line| comment(line)).collect::<String>());
    edit_cpus(&mut edits, root, request, guest);
    edit_memory(&mut edits, root, request, guest);
    if guest.cells.len() > 1 {
        edit_cells(&mut edits, root, guest, topology);
    }
    let content = devices(guest, can_expand, first_free_controller(root));
    append_to(&mut edits, root, "devices", &content);
    Ok(edits.apply())
}

/// Returns whether the machine type has PCI Express and expander buses.
fn has_expandable_machine(root: Node) -> bool {
    let os = domain_children(root, "os").next();
    let kind = os.and_then(|os| domain_children(os, "type").next());
    let machine = kind.and_then(|kind| kind.attribute("machine")).unwrap_or_default();
    machine.contains("q35") || machine.starts_with("virt")
}

/// Returns whether the domain has expander buses already.
fn has_expanders(root: Node) -> bool {
    let devices = domain_children(root, "devices");
    let mut controllers = devices.flat_map(|devices| domain_children(devices, "controller"));
    controllers.any(|controller| controller.attribute("model") == Some("pcie-expander-bus"))
}

/// Returns the first number that no PCI controller has; `None` if the domain has no controllers or
/// addresses yet.
fn first_free_controller(root: Node) -> Option<usize> {
    let devices = domain_children(root, "devices").next()?;
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let is_pci = |node: &Node| node.attribute("type") == Some("pci");
    let elements = devices.descendants().filter(|node| node.is_element() && is_pci(node));
    let used = elements.filter_map(|node| match node.tag_name().name() {
        "controller" => node.attribute("index").and_then(number),
        // Addresses of the host are within <source>.
        "address" if node.parent().is_some_and(|parent| parent.tag_name().name() != "source") => {
            node.attribute("bus").and_then(number)
        }
        _ => None,
    });
    used.max().map(|highest| highest.saturating_add(1))
}

fn vcpu(guest: &GuestPlacement) -> String {
    format!("<vcpu placement='static'>{}</vcpu>", guest.vcpus().len())
}

fn pins(request: &GuestRequest, guest: &GuestPlacement) -> String {
    let mut text = String::new();
    for pinned in guest.vcpus() {
        let _ = writeln!(text, "    <vcpupin vcpu='{}' cpuset='{}'/>", pinned.vcpu, pinned.cpus);
    }
    let _ = writeln!(text, "    <emulatorpin cpuset='{}'/>", guest.service_cpus);
    for thread in 1..=request.io_threads {
        let _ = writeln!(text, "    <iothreadpin iothread='{thread}' cpuset='{}'/>", guest.service_cpus);
    }
    text
}

fn memory_nodes(guest: &GuestPlacement) -> String {
    let nodes: NodeSet = guest.cells.iter().map(|cell| cell.node).collect();
    let mut text = format!("    <memory mode='strict' nodeset='{nodes}'/>\n");
    for (index, cell) in guest.cells.iter().enumerate().filter(|_| guest.cells.len() > 1) {
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

fn huge_pages(request: &GuestRequest) -> String {
    let size = request.huge_page_bytes.unwrap_or_default().div_ceil(1024);
    format!("    <hugepages>\n      <page size='{size}' unit='KiB'/>\n    </hugepages>\n")
}

fn cells(guest: &GuestPlacement, topology: &Topology) -> String {
    let mut text = "    <numa>\n".to_owned();
    for (index, cell) in guest.cells.iter().enumerate() {
        let memory = cell.memory_bytes.div_ceil(1024);
        let _ = writeln!(
            text,
            "      <cell id='{index}' cpus='{}' memory='{memory}' unit='KiB'>\n        <distances>",
            vcpu_list(cell)
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
fn devices(guest: &GuestPlacement, can_expand: bool, first: Option<usize>) -> String {
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

fn edit_cpus(edits: &mut Edits, root: Node, request: &GuestRequest, guest: &GuestPlacement) {
    match domain_children(root, "vcpu").next() {
        Some(node) => edits.replace(node, &vcpu(guest)),
        None => edits.append(root, "domain", &format!("  {}\n", vcpu(guest))),
    }
    // Without an <iothreads> of the domain there is nothing to pin.
    remove_children(edits, root, "cputune", &["vcpupin", "emulatorpin", "iothreadpin"]);
    append_to(edits, root, "cputune", &pins(request, guest));
}

fn edit_memory(edits: &mut Edits, root: Node, request: &GuestRequest, guest: &GuestPlacement) {
    let memory = format!("<memory unit='KiB'>{}</memory>", guest.memory_bytes().div_ceil(1024));
    if let Some(node) = domain_children(root, "memory").next() {
        edits.replace(node, &memory);
    }
    // It may not exceed the memory.
    domain_children(root, "currentMemory").for_each(|node| edits.remove(node));
    remove_children(edits, root, "numatune", &["memory", "memnode"]);
    append_to(edits, root, "numatune", &memory_nodes(guest));
    if request.huge_page_bytes.is_some() {
        remove_children(edits, root, "memoryBacking", &["hugepages"]);
        append_to(edits, root, "memoryBacking", &huge_pages(request));
    }
}

fn edit_cells(edits: &mut Edits, root: Node, guest: &GuestPlacement, topology: &Topology) {
    let (sockets, cores, threads) = guest_topology(guest, topology);
    let shape = format!("    <topology sockets='{sockets}' dies='1' cores='{cores}' threads='{threads}'/>\n");
    remove_children(edits, root, "cpu", &["numa", "topology"]);
    append_to(edits, root, "cpu", &(shape + &cells(guest, topology)));
}

fn remove_children(edits: &mut Edits, root: Node, parent: &str, names: &[&str]) {
    for parent in domain_children(root, parent) {
        let is_named = |node: &Node| node.is_element() && names.contains(&node.tag_name().name());
        parent.children().filter(is_named).for_each(|node| edits.remove(node));
    }
}

/// Appends to a child of the domain, which is created if it is missing.
fn append_to(edits: &mut Edits, root: Node, name: &str, content: &str) {
    if content.is_empty() {
        return;
    }
    let existing = domain_children(root, name).next();
    match existing {
        Some(node) => edits.append(node, name, content),
        None => edits.append(root, "domain", &format!("  <{name}>\n{content}  </{name}>\n")),
    }
}
