//! CPUs of the host for the virtual CPUs and the hypervisors of placed guests.

use super::inputs::GuestPlanInputs;
use super::instance::{Choice, Instance};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Node, Topology};
use numaio_schema::{GuestPlacement, GuestPlanDevice, GuestRequest, PinnedVcpu, PlacedCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Returns the nodes for the memory of guests, each with the nodes whose CPUs use it: itself, and
/// nodes with CPUs alone that have no nearer memory. Of equally near nodes, that with the most
/// memory is used.
pub(super) fn cpu_nodes_by_memory(topology: &Topology) -> BTreeMap<NodeId, NodeSet> {
    let is_usable = |node: &&Node| node.has_memory() && node.memory_allowed && !node.is_gpu_memory();
    let bytes = |node: &Node| node.memory.map_or(0, |memory| memory.total_bytes);
    let mut found: BTreeMap<NodeId, NodeSet> = BTreeMap::new();
    for node in topology.nodes.iter().filter(|node| !topology.cores(node.id).is_empty()) {
        let distance =
            |other: &Node| topology.distances.as_ref().and_then(|it| it.between(node.id, other.id));
        let order = |other: &&Node| (distance(other).unwrap_or(u32::MAX), Reverse(bytes(other)), other.id);
        let nearest = || topology.nodes.iter().filter(is_usable).min_by_key(order);
        if let Some(home) = Some(node).filter(is_usable).or_else(nearest) {
            found.entry(home.id).or_default().insert(node.id);
        }
    }
    found
}

/// Returns the CPUs of each node that virtual CPUs may have, in the order in which they are
/// assigned: those that serve interrupts of the devices last.
pub(super) fn slots(
    inputs: &GuestPlanInputs,
    devices: &[GuestPlanDevice],
    cpu_nodes: &BTreeMap<NodeId, NodeSet>,
) -> BTreeMap<NodeId, Vec<CpuSet>> {
    let topology = inputs.topology;
    let irqs = devices.iter().fold(CpuSet::new(), |all, device| all.union(&device.irq_cpus));
    let mut slots = BTreeMap::new();
    for (node, users) in cpu_nodes {
        let of_node = |node: NodeId| match inputs.hardware_threads {
            true => topology.usable_cpus(node),
            false => topology.cores(node),
        };
        let candidates: CpuSet = users.iter().map(of_node).fold(CpuSet::new(), |all, cpus| all.union(&cpus));
        let siblings = |cpu: CpuId| topology.cpu(cpu).map(|cpu| cpu.siblings.clone()).unwrap_or_default();
        let is_free = |cpu: &CpuId| match inputs.hardware_threads {
            true => !inputs.occupied.contains(*cpu),
            // A core whose other thread runs another guest is not free.
            false => {
                !inputs.occupied.contains(*cpu) && siblings(*cpu).intersection(inputs.occupied).is_empty()
            }
        };
        let mut cpus: Vec<CpuId> = candidates.iter().filter(is_free).collect();
        // Hardware threads of a core follow each other, so that one guest gets both.
        let first_thread = |cpu: CpuId| siblings(cpu).first().unwrap_or(cpu);
        cpus.sort_by_key(|cpu| (irqs.contains(*cpu), first_thread(*cpu), *cpu));
        if !cpus.is_empty() {
            slots.insert(*node, cpus.into_iter().map(CpuSet::one).collect());
        }
    }
    slots
}

/// Assigns CPUs to the guests, in the order of the requests, and then a spare core of its first
/// node to each hypervisor.
pub(super) fn place(
    inputs: &GuestPlanInputs,
    instance: &Instance,
    choices: &[&Choice],
    slots: &BTreeMap<NodeId, Vec<CpuSet>>,
) -> Vec<GuestPlacement> {
    let mut free: BTreeMap<NodeId, std::vec::IntoIter<CpuSet>> =
        slots.iter().map(|(node, slots)| (*node, slots.clone().into_iter())).collect();
    let mut order: Vec<(usize, &Choice)> =
        instance.guests.iter().zip(choices).map(|(guest, choice)| (guest.request, *choice)).collect();
    order.sort_by_key(|(request, _)| *request);
    let mut guests: Vec<GuestPlacement> = Vec::new();
    for (request, choice) in order {
        let ids = vcpu_ids(&inputs.requests[request], choice);
        let mut ids = ids.into_iter();
        let mut cells = Vec::new();
        for part in &choice.parts {
            let node = instance.nodes[part.node];
            let taken = free.get_mut(&node).into_iter().flatten().take(part.vcpus as usize);
            let vcpus = taken.zip(&mut ids).map(|(cpus, vcpu)| PinnedVcpu { vcpu, cpus }).collect();
            cells.push(PlacedCell { node, vcpus, memory_bytes: part.memory });
        }
        guests.push(GuestPlacement {
            name: inputs.requests[request].name.clone(),
            cells,
            service_cpus: CpuSet::new(),
            shares_cpus: false,
            demands: Vec::new(),
            function: None,
        });
    }
    for guest in &mut guests {
        // A guest node may have memory alone.
        let Some(first) = guest.cells.iter().find(|cell| !cell.vcpus.is_empty()) else { continue };
        let spare = free.get_mut(&first.node).and_then(Iterator::next);
        guest.shares_cpus = spare.is_none();
        guest.service_cpus = spare
            .unwrap_or_else(|| first.vcpus.iter().fold(CpuSet::new(), |all, pinned| all.union(&pinned.cpus)));
    }
    guests
}

/// Returns the numbers of a guest's virtual CPUs, in the order of its parts.
fn vcpu_ids(request: &GuestRequest, choice: &Choice) -> Vec<u32> {
    let of_cells: Vec<u32> = request.cells.iter().flat_map(|cell| cell.vcpu_ids.iter().copied()).collect();
    match (of_cells.is_empty(), request.vcpu_ids.is_empty()) {
        (false, _) => of_cells,
        (true, false) => request.vcpu_ids.clone(),
        (true, true) => (0..choice.parts.iter().map(|part| part.vcpus).sum()).collect(),
    }
}
