//! Parts that several configurations share: comments, the guest's cores, distances, lists.

use crate::phrases;
use crate::style::clean_paragraph;
use numaio_machine::topology::Topology;
use numaio_schema::{GuestPlacement, GuestPlan};

/// Returns the comment lines of a configuration: its purpose, and the notes of the plan.
pub(super) fn comment_lines(plan: &GuestPlan, more: &[&str]) -> Vec<String> {
    let devices = phrases::joined(plan.devices.iter().map(|device| phrases::short(&device.device)), ", ");
    let near = if devices.is_empty() { String::new() } else { format!(" near {devices}") };
    let machine = phrases::machine_name(&plan.machine);
    let fingerprint = phrases::short(&plan.machine.fingerprint);
    let mut lines = vec![format!(
        "Placement{near} on {machine} (fingerprint {fingerprint}); valid only for this machine"
    )];
    lines.extend(plan.notes.iter().map(|note| format!("Note: {note}")));
    lines.extend(more.iter().map(|note| format!("Note: {note}")));
    lines.iter().map(|line| clean_paragraph(line)).collect()
}

/// Formats comment lines that start with `#`.
pub(super) fn hashed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("# {line}\n")).collect()
}

/// Threads of the guest's cores: 2 if its virtual CPUs are pairs of hardware threads of the host.
fn threads_per_core(guest: &GuestPlacement, topology: &Topology) -> u32 {
    let vcpus = guest.vcpus();
    let is_pair = |pair: &[&numaio_schema::PinnedVcpu]| match pair {
        [one, other] => one.cpus.first().zip(other.cpus.first()).is_some_and(|(one, other)| {
            topology.cpu(one).is_some_and(|cpu| one != other && cpu.siblings.contains(other))
        }),
        _ => false,
    };
    let are_even = guest.cells.iter().all(|cell| cell.vcpus.len().is_multiple_of(2));
    if !vcpus.is_empty() && are_even && vcpus.chunks(2).all(is_pair) {
        2
    } else {
        1
    }
}

/// Sockets, cores and threads of a guest: a socket for each of its parts if they are equal.
pub(super) fn guest_topology(guest: &GuestPlacement, topology: &Topology) -> (usize, usize, u32) {
    let threads = threads_per_core(guest, topology);
    let all = guest.vcpus().len() / threads as usize;
    let sizes: Vec<usize> = guest.cells.iter().map(|cell| cell.vcpus.len()).collect();
    let are_equal = sizes.windows(2).all(|pair| pair[0] == pair[1]);
    match are_equal && !sizes.is_empty() {
        true => (sizes.len(), all / sizes.len(), threads),
        false => (1, all, threads),
    }
}

/// Distances between the parts of a guest: those of their nodes, or 10 and 20 if unknown.
pub(super) fn distance(topology: &Topology, guest: &GuestPlacement, from: usize, to: usize) -> u32 {
    let nodes = (guest.cells[from].node, guest.cells[to].node);
    let known = topology.distances.as_ref().and_then(|distances| distances.between(nodes.0, nodes.1));
    // QEMU requires 10 on the diagonal and more elsewhere.
    match from == to {
        true => 10,
        false => known.unwrap_or(20).clamp(11, 254),
    }
}

/// Lists the numbers of virtual CPUs of a part.
pub(super) fn vcpu_list(cell: &numaio_schema::PlacedCell) -> String {
    let numbers = cell.vcpus.iter().map(|pinned| numaio_machine::ids::CpuId(pinned.vcpu));
    numbers.collect::<numaio_machine::set::CpuSet>().to_string()
}
