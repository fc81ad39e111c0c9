//! Buses of a guest on its nodes, so that it sees the node of each device.

use numaio_machine::ids::NodeId;
use numaio_schema::GuestPlacement;

/// Number of the first bus; those of ordinary controllers count from 0.
const FIRST_BUS: usize = 128;
/// Bus numbers of each expander: itself, its port, and devices plugged later.
const BUSES_EACH: usize = 8;
/// Maximum number of expanders.
const MAX_EXPANDERS: usize = (255 - FIRST_BUS) / BUSES_EACH;

/// A PCI expander bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpanderBus {
    /// Number of the guest's node.
    pub cell: usize,
    /// Number of its bus.
    pub bus: usize,
}

/// Returns an expander bus for each part of a guest with several parts.
pub(super) fn expander_buses(guest: &GuestPlacement) -> Vec<ExpanderBus> {
    match guest.cells.len() {
        0 | 1 => Vec::new(),
        cells => (0..cells.min(MAX_EXPANDERS))
            .map(|cell| ExpanderBus { cell, bus: FIRST_BUS + cell * BUSES_EACH })
            .collect(),
    }
}

/// Returns the part of a guest to which a device on a node of the host belongs: the one on that
/// node.
pub(super) fn cell_of(guest: &GuestPlacement, node: Option<NodeId>) -> Option<usize> {
    let node = node?;
    guest.cells.iter().position(|cell| cell.node == node)
}
