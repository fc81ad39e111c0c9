//! The shortage of a host on which guests do not fit, as text.

use super::instance::{CellShape, GuestShape, Instance};
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::units::format_size;

/// Describes why no nodes hold a guest, even without the others.
pub(super) fn of_guest(instance: &Instance, guest: &GuestShape) -> String {
    if guest.cells.is_empty() {
        return of_totals(instance, std::slice::from_ref(guest));
    }
    for (number, cell) in guest.cells.iter().enumerate() {
        if !(0..instance.nodes.len()).any(|node| holds(instance, node, cell)) {
            return format!("guest node {number} fits on no node: {}", of_cell(instance, cell));
        }
    }
    format!("its guest nodes do not fit together: {}", of_totals(instance, std::slice::from_ref(guest)))
}

/// Describes why the nodes do not hold all guests together.
pub(super) fn of_all(instance: &Instance) -> String {
    of_totals(instance, &instance.guests)
}

fn holds(instance: &Instance, node: usize, cell: &CellShape) -> bool {
    instance.capacity.cpus[node] >= cell.vcpus && instance.capacity.memory[cell.kind][node] >= cell.memory
}

/// Returns the shortage of a guest node, which stays on one node of the host, on the largest one.
fn of_cell(instance: &Instance, cell: &CellShape) -> String {
    let memory = &instance.capacity.memory[cell.kind];
    let most_cpus = largest(&instance.capacity.cpus);
    let most_memory = largest(memory);
    let (Some(most_cpus), Some(most_memory)) = (most_cpus, most_memory) else {
        return NO_NODE.to_owned();
    };
    let on = |index: usize| NodeSet::one(instance.nodes[index]);
    let cpus = instance.capacity.cpus[most_cpus];
    let short = [
        (cpus < cell.vcpus).then(|| of_cpus(&on(most_cpus), cpus.into(), cell.vcpus.into())),
        (memory[most_memory] < cell.memory).then(|| {
            of_memory(instance.kinds[cell.kind], &on(most_memory), memory[most_memory], cell.memory)
        }),
    ];
    joined(short).unwrap_or_else(|| format!("no node has both; {}", available(instance, &[cell.kind])))
}

/// Returns the index of the first node that has the most.
fn largest<T: Ord>(amounts: &[T]) -> Option<usize> {
    (0..amounts.len()).rev().max_by_key(|index| &amounts[*index])
}

const NO_NODE: &str = "no node has free CPUs and memory that they may use";

/// Returns the shortage of all nodes together; what they have, if only the division is at fault.
fn of_totals(instance: &Instance, guests: &[GuestShape]) -> String {
    if instance.nodes.is_empty() {
        return NO_NODE.to_owned();
    }
    let nodes: NodeSet = instance.nodes.iter().copied().collect();
    let cpus: u64 = instance.capacity.cpus.iter().map(|cpus| u64::from(*cpus)).sum();
    let wanted: u64 = guests.iter().map(|guest| u64::from(guest.vcpus)).sum();
    let of_kind = |kind: usize| {
        let free = instance.capacity.memory[kind].iter().copied().fold(0, u64::saturating_add);
        let wanted = guests.iter().map(|guest| guest.memory_of(kind)).fold(0, u64::saturating_add);
        (free < wanted).then(|| of_memory(instance.kinds[kind], &nodes, free, wanted))
    };
    let kinds: Vec<usize> = (0..instance.kinds.len())
        .filter(|kind| guests.iter().any(|guest| guest.memory_of(*kind) > 0))
        .collect();
    let memory = kinds.iter().map(|kind| of_kind(*kind));
    joined(std::iter::once((cpus < wanted).then(|| of_cpus(&nodes, cpus, wanted))).chain(memory))
        .unwrap_or_else(|| format!("enough in total, but not node by node; {}", available(instance, &kinds)))
}

impl GuestShape {
    /// Returns the bytes of its memory in pages of a kind.
    fn memory_of(&self, kind: usize) -> u64 {
        match self.cells.is_empty() {
            true if self.kind == kind => self.memory,
            true => 0,
            false => {
                let cells = self.cells.iter().filter(|cell| cell.kind == kind);
                cells.map(|cell| cell.memory).fold(0, u64::saturating_add)
            }
        }
    }
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn of_cpus(nodes: &NodeSet, free: u64, wanted: u64) -> String {
    format!("free CPUs on {}: {free} of {wanted}", format_nodes(nodes))
}

/// Formats the shortage of memory: `free huge pages of 1 GiB on node 0: 0 of 4`.
fn of_memory(page: Option<u64>, nodes: &NodeSet, free: u64, wanted: u64) -> String {
    let nodes = format_nodes(nodes);
    match page {
        None => format!("free memory on {nodes}: {} of {}", format_size(free), format_size(wanted)),
        Some(page) => {
            let count = |bytes: u64| bytes / page.max(1);
            let size = format_size(page);
            format!("free huge pages of {size} on {nodes}: {} of {}", count(free), count(wanted))
        }
    }
}

/// Describes what the nodes have: `nodes 0-7: 4 CPUs, 16 GiB each`.
fn available(instance: &Instance, kinds: &[usize]) -> String {
    let of_node = |index: usize| {
        let memory = kinds.iter().map(|kind| {
            let bytes = instance.capacity.memory[*kind][index];
            match instance.kinds[*kind] {
                None => format_size(bytes),
                Some(page) => format!("{} huge pages of {}", bytes / page.max(1), format_size(page)),
            }
        });
        let cpus = format!("{} CPUs", instance.capacity.cpus[index]);
        std::iter::once(cpus).chain(memory).collect::<Vec<String>>().join(", ")
    };
    let mut groups: Vec<(String, NodeSet)> = Vec::new();
    for (index, node) in instance.nodes.iter().enumerate() {
        let text = of_node(index);
        match groups.iter_mut().find(|(other, _)| *other == text) {
            Some((_, nodes)) => _ = nodes.insert(*node),
            None => groups.push((text, NodeSet::one(*node))),
        }
    }
    let group = |(text, nodes): &(String, NodeSet)| {
        let each = if nodes.len() > 1 { " each" } else { "" };
        format!("{}: {text}{each}", format_nodes(nodes))
    };
    groups.iter().map(group).collect::<Vec<String>>().join("; ")
}
