//! Command lines of QEMU (qemu(1)).

use super::configuration_parts::{comment_lines, distance, guest_topology, hashed, vcpu_list};
use super::expander_buses::{cell_of, expander_buses};
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_schema::{GuestPlacement, GuestPlan, GuestRequest};

/// Formats a command for each guest, to which disks and other devices are to be added.
pub fn guest_qemu(plan: &GuestPlan, topology: &Topology) -> String {
    let notes = [
        "QEMU cannot pin its threads: it starts on the CPUs of its nodes; numaio vm apply pins each vCPU to a core",
        "add disks, and a network unless it has a virtual function",
    ];
    let mut text = hashed(&comment_lines(plan, &notes));
    for (request, guest) in plan.requests.iter().zip(&plan.guests) {
        text.push('\n');
        text += &command(plan, request, guest, topology);
    }
    text
}

fn command(plan: &GuestPlan, request: &GuestRequest, guest: &GuestPlacement, topology: &Topology) -> String {
    let arm = plan.machine.architecture == "aarch64";
    let (program, machine) =
        if arm { ("qemu-system-aarch64", "virt") } else { ("qemu-system-x86_64", "q35") };
    let cpus = guest.vcpus().iter().fold(guest.service_cpus.clone(), |all, pinned| all.union(&pinned.cpus));
    let nodes: NodeSet = guest.cells.iter().map(|cell| cell.node).collect();
    let (sockets, cores, threads) = guest_topology(guest, topology);
    let mut words = vec![
        format!("taskset -c {cpus} numactl --membind={nodes} {program}"),
        format!("-name {}", quoted(&format!("guest={},debug-threads=on", commas(&request.name)))),
        match guest.cells.len() {
            1 => format!("-machine {machine},accel=kvm,memory-backend=ram0"),
            _ => format!("-machine {machine},accel=kvm"),
        },
        "-cpu host".to_owned(),
        format!("-smp {},sockets={sockets},cores={cores},threads={threads}", guest.vcpus().len()),
        format!("-m {}k", guest.memory_bytes().div_ceil(1024)),
    ];
    words.extend(memory(request, guest));
    if guest.cells.len() > 1 {
        words.extend(nodes_of(guest, topology));
    }
    words.extend((0..request.io_threads).map(|index| format!("-object iothread,id=iothread{}", index + 1)));
    words.extend(buses(guest));
    words.join(" \\\n  ") + "\n"
}

/// Memory of each part, bound to its node and allocated at the start.
fn memory(request: &GuestRequest, guest: &GuestPlacement) -> Vec<String> {
    let pages = match request.huge_page_bytes {
        Some(bytes) => format!("memory-backend-memfd,hugetlb=on,hugetlbsize={bytes}"),
        None => "memory-backend-ram".to_owned(),
    };
    let cell = |(index, cell): (usize, &numaio_schema::PlacedCell)| {
        format!(
            "-object {pages},id=ram{index},size={}k,host-nodes={},policy=bind,prealloc=on",
            cell.memory_bytes.div_ceil(1024),
            cell.node
        )
    };
    guest.cells.iter().enumerate().map(cell).collect()
}

fn nodes_of(guest: &GuestPlacement, topology: &Topology) -> Vec<String> {
    let mut words = Vec::new();
    for (index, cell) in guest.cells.iter().enumerate() {
        // A list of numbers consists of several values of the option.
        let cpus: String = vcpu_list(cell).split(',').map(|range| format!(",cpus={range}")).collect();
        words.push(format!("-numa node,nodeid={index}{cpus},memdev=ram{index}"));
    }
    for from in 0..guest.cells.len() {
        for to in 0..guest.cells.len() {
            let value = distance(topology, guest, from, to);
            words.push(format!("-numa dist,src={from},dst={to},val={value}"));
        }
    }
    words
}

fn buses(guest: &GuestPlacement) -> Vec<String> {
    let mut words = Vec::new();
    let buses = expander_buses(guest);
    for bus in &buses {
        let (cell, number) = (bus.cell, bus.bus);
        // Without a bus, QEMU would put it on the expander before it.
        words.push(format!("-device pxb-pcie,id=pxb{cell},bus=pcie.0,bus_nr={number},numa_node={cell}"));
        words.push(format!("-device pcie-root-port,id=port{cell},bus=pxb{cell},chassis={}", cell + 1));
    }
    if let Some(function) = &guest.function {
        let port = buses.iter().find(|bus| Some(bus.cell) == cell_of(guest, function.node));
        let bus = port.map_or("pcie.0".to_owned(), |bus| format!("port{}", bus.cell));
        words.push(format!("-device vfio-pci,host={},bus={bus}", function.address));
    }
    words
}

/// Doubles commas, which separate options.
fn commas(name: &str) -> String {
    name.replace(',', ",,")
}

/// Quotes a word of a shell command unless it is plain.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:=,/@%".contains(c);
    let word: String = word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
