//! Guests and a host as numbers: capacities of nodes and devices, and the choices of each guest.

use numaio_machine::ids::NodeId;

/// Maximum number of choices of a guest; on more than 16 nodes a guest that needs several has more.
const MAX_CHOICES: usize = 256;

/// Guests and the host that they are packed on.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// What the nodes have.
    pub capacity: NodeCapacity,
    /// The devices.
    pub devices: Vec<DeviceCapacity>,
    /// The guests, largest first.
    pub guests: Vec<GuestShape>,
    /// Sizes of huge pages by kind; `None` for ordinary pages.
    pub kinds: Vec<Option<u64>>,
    /// Whether choices of a guest were left out, so that no search is complete.
    pub is_truncated: bool,
}

/// What guests may have of the nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeCapacity {
    /// CPUs of each node.
    pub cpus: Vec<u32>,
    /// Bytes of each node, for each kind of pages.
    pub memory: Vec<Vec<u64>>,
}

impl NodeCapacity {
    /// Takes what a part needs; returns whether the node has it.
    pub fn take(&mut self, part: &Part) -> bool {
        let (cpus, memory) = (self.cpus[part.node], self.memory[part.kind][part.node]);
        let left = cpus.checked_sub(part.vcpus).zip(memory.checked_sub(part.memory));
        if let Some((cpus, memory)) = left {
            self.cpus[part.node] = cpus;
            self.memory[part.kind][part.node] = memory;
        }
        left.is_some()
    }

    /// Returns what a part has taken.
    pub fn give_back(&mut self, part: &Part) {
        self.cpus[part.node] += part.vcpus;
        self.memory[part.kind][part.node] += part.memory;
    }

    /// Takes what all parts need; returns whether the nodes have it, and takes nothing if not.
    pub fn take_all(&mut self, parts: &[Part]) -> bool {
        let taken = parts.iter().take_while(|part| self.take(part)).count();
        if taken < parts.len() {
            parts[..taken].iter().for_each(|part| self.give_back(part));
        }
        taken == parts.len()
    }
}

/// Capacity of a device.
#[derive(Debug, Clone)]
pub(super) struct DeviceCapacity {
    /// Bytes per second; infinite if unknown.
    pub bytes_per_s: f64,
    /// Bytes per second from each node.
    pub paths: Vec<f64>,
    /// Rank of each node.
    pub ranks: Vec<f64>,
}

impl DeviceCapacity {
    /// Returns the time of the device for a byte of a guest with these parts: bytes from a node
    /// take the longer, the lower its bandwidth (Li et al., Equation 1). 0 if its bandwidth is
    /// unknown.
    pub fn seconds_per_byte(&self, parts: &[Part]) -> f64 {
        parts.iter().map(|part| part.fraction / self.paths[part.node]).sum()
    }
}

/// A guest as numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GuestShape {
    /// Index of its request.
    pub request: usize,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Index of its kind of pages.
    pub kind: usize,
    /// Its guest nodes, which stay undivided; empty if it may be divided.
    pub cells: Vec<CellShape>,
    /// Devices by index, with the wanted bytes per second; `None` if neither is known.
    pub demands: Vec<(usize, Option<f64>)>,
    /// Its choices, best first.
    pub choices: Vec<Choice>,
    /// Whether the guest before it differs in nothing but the name.
    pub is_like_previous: bool,
}

/// A guest node as numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CellShape {
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Index of its kind of pages.
    pub kind: usize,
}

/// Nodes that can hold a guest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    /// Its parts.
    pub parts: Vec<Part>,
    /// Sum of the ranks of its nodes, weighted by its parts.
    pub rank: f64,
    /// The share of its demands that it gets alone on the host.
    pub alone: f64,
}

/// A part of a guest on a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    /// Index of the node.
    pub node: usize,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Index of its kind of pages.
    pub kind: usize,
    /// Share of the guest's I/O.
    pub fraction: f64,
}

impl Choice {
    /// Returns the indices of its nodes, in order.
    pub fn nodes(&self) -> Vec<usize> {
        let mut nodes: Vec<usize> = self.parts.iter().map(|part| part.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

impl Instance {
    /// Fills in the choices of all guests: subsets of `more` nodes beyond the fewest that can hold
    /// the guest on an empty host. Returns the index of the first guest that no nodes
    /// can hold.
    pub fn choose(&mut self, more: usize) -> Result<(), usize> {
        for index in 0..self.guests.len() {
            let (choices, is_truncated) = self.choices(&self.guests[index], more);
            if choices.is_empty() {
                return Err(index);
            }
            self.is_truncated |= is_truncated;
            self.guests[index].choices = choices;
        }
        let size = |guest: &GuestShape| (guest.vcpus, guest.memory);
        self.guests.sort_by(|a, b| size(b).cmp(&size(a)).then(a.request.cmp(&b.request)));
        for index in 1..self.guests.len() {
            let (one, other) = (&self.guests[index - 1], &self.guests[index]);
            let is_like = (one.vcpus, one.memory, one.kind) == (other.vcpus, other.memory, other.kind)
                && one.cells == other.cells
                && one.demands == other.demands;
            self.guests[index].is_like_previous = is_like;
        }
        Ok(())
    }

    /// Returns the choices of a guest, best first, and whether some were left out.
    fn choices(&self, guest: &GuestShape, more: usize) -> (Vec<Choice>, bool) {
        let parts = if guest.cells.is_empty() { guest.vcpus as usize } else { guest.cells.len() };
        let most = self.nodes.len().min(parts);
        let of_size = |count: usize| -> Vec<Choice> {
            let subsets = subsets(self.nodes.len(), count).into_iter();
            subsets.filter_map(|nodes| self.choice(guest, &nodes)).collect()
        };
        let Some(fewest) = (1..=most).find(|count| !of_size(*count).is_empty()) else {
            return (Vec::new(), false);
        };
        let mut choices: Vec<Choice> = (fewest..=most.min(fewest + more)).flat_map(of_size).collect();
        choices.sort_by(|a, b| {
            let size = |choice: &Choice| choice.nodes().len();
            size(a).cmp(&size(b)).then(b.alone.total_cmp(&a.alone)).then(a.rank.total_cmp(&b.rank))
        });
        let is_truncated = choices.len() > MAX_CHOICES;
        choices.truncate(MAX_CHOICES);
        (choices, is_truncated)
    }

    /// Returns the choice of some nodes, if the guest fits there on an empty host.
    fn choice(&self, guest: &GuestShape, nodes: &[usize]) -> Option<Choice> {
        let mut capacity = self.capacity.clone();
        let parts = match guest.cells.is_empty() {
            true => Some(divided(guest, nodes)).filter(|parts| capacity.take_all(parts)),
            false => {
                let mut search = CellSearch { guest, nodes, capacity, parts: Vec::new(), examined: 0 };
                search.assign().then_some(search.parts)
            }
        };
        parts.map(|parts| self.weighed(guest, parts))
    }

    /// Completes a choice by its rank and what it gets alone.
    pub fn weighed(&self, guest: &GuestShape, parts: Vec<Part>) -> Choice {
        let rank = |device: usize| -> f64 {
            parts.iter().map(|part| part.fraction * self.devices[device].ranks[part.node]).sum()
        };
        let ranks = guest.demands.iter().map(|(device, _)| rank(*device)).sum();
        let alone = guest.demands.iter().filter_map(|(device, wanted)| {
            Some(1.0 / ((*wanted)? * self.devices[*device].seconds_per_byte(&parts)))
        });
        let alone = alone.fold(1.0, f64::min);
        Choice { rank: ranks, alone, parts }
    }
}

/// Divides a guest among nodes: virtual CPUs evenly, memory by virtual CPUs.
fn divided(guest: &GuestShape, nodes: &[usize]) -> Vec<Part> {
    let count = nodes.len().max(1) as u32;
    let mut memory_left = guest.memory;
    let mut parts = Vec::with_capacity(nodes.len());
    for (index, node) in (0u32..).zip(nodes) {
        let vcpus = guest.vcpus / count + u32::from(index < guest.vcpus % count);
        let memory = match index + 1 == count {
            true => memory_left,
            false => part_of(guest.memory, vcpus, guest.vcpus).min(memory_left),
        };
        memory_left -= memory;
        parts.push(Part { node: *node, vcpus, memory, kind: guest.kind, fraction: guest.fraction(vcpus) });
    }
    parts
}

impl GuestShape {
    /// Returns the share of the guest's I/O of a part with these virtual CPUs.
    fn fraction(&self, vcpus: u32) -> f64 {
        f64::from(vcpus) / f64::from(self.vcpus.max(1))
    }
}

/// Assignment of guest nodes to nodes of the host.
struct CellSearch<'a> {
    guest: &'a GuestShape,
    nodes: &'a [usize],
    capacity: NodeCapacity,
    parts: Vec<Part>,
    examined: u32,
}

impl CellSearch<'_> {
    /// Finds the first assignment that uses all nodes. Stops after some thousand attempts.
    fn assign(&mut self) -> bool {
        const MOST: u32 = 5000;
        let Some(cell) = self.guest.cells.get(self.parts.len()) else {
            return self.nodes.iter().all(|node| self.parts.iter().any(|part| part.node == *node));
        };
        // Guest nodes in order on nodes in order, if that is possible.
        let first = self.parts.len() * self.nodes.len() / self.guest.cells.len();
        for at in (0..self.nodes.len()).map(|at| (first + at) % self.nodes.len()) {
            let CellShape { vcpus, memory, kind } = *cell;
            let fraction = self.guest.fraction(vcpus);
            let part = Part { node: self.nodes[at], vcpus, memory, kind, fraction };
            self.examined += 1;
            if self.examined > MOST || !self.capacity.take(&part) {
                continue;
            }
            self.parts.push(part);
            if self.assign() {
                return true;
            }
            self.parts.pop();
            self.capacity.give_back(&part);
        }
        false
    }
}

/// Alignment of a part's memory: 1 GiB pages would waste small guests, and 2 MiB suits all others.
const ALIGNMENT: u64 = 2 << 20;

fn part_of(memory: u64, vcpus: u32, all: u32) -> u64 {
    let exact = u128::from(memory) * u128::from(vcpus) / u128::from(all.max(1));
    let part = u64::try_from(exact).unwrap_or(memory);
    part.next_multiple_of(ALIGNMENT)
}

/// Returns the subsets of `0..all` with `count` members, in lexicographic order; at most a few
/// thousand.
fn subsets(all: usize, count: usize) -> Vec<Vec<usize>> {
    const MOST: usize = 5000;
    let mut found = Vec::new();
    let mut current: Vec<usize> = (0..count).collect();
    if count == 0 || count > all {
        return found;
    }
    loop {
        found.push(current.clone());
        let movable = (0..count).rev().find(|at| current[*at] < all - count + at);
        let Some(at) = movable.filter(|_| found.len() < MOST) else { return found };
        current[at] += 1;
        for next in at + 1..count {
            current[next] = current[next - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_subsets_in_order() {
        assert_eq!(subsets(4, 2), [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!((subsets(3, 3).len(), subsets(3, 4).len(), subsets(3, 0).len()), (1, 0, 0));
        assert_eq!(subsets(64, 8).len(), 5000);
    }

    #[test]
    fn memory_parts_are_aligned_and_sum_up() {
        assert_eq!(part_of(1 << 30, 1, 3) % ALIGNMENT, 0);
        assert_eq!(part_of(u64::MAX / 2, 1, 1).checked_rem(ALIGNMENT), Some(0));
    }
}
