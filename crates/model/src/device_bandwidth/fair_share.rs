//! Shares of several devices in common links and paths.

use crate::max_min::{fill, Wanted};
use numaio_machine::devices::Device;
use numaio_machine::topology::Topology;

/// Lowers the limits of devices that share the link of a bridge to their fair shares of it.
pub(super) fn below_bridges(topology: &Topology, devices: &[&Device], mut limits: Vec<f64>) -> Vec<f64> {
    for bridge in &topology.devices {
        let (Some(pci), Some(link)) = (bridge.pci, bridge.link) else { continue };
        let below: Vec<usize> =
            (0..devices.len()).filter(|at| devices[*at].upstream.contains(&pci)).collect();
        if below.len() > 1 {
            let demands: Vec<f64> = below.iter().map(|at| limits[*at]).collect();
            let shares = fair_shares(link.max_data_bytes_per_s(), &demands);
            below.into_iter().zip(shares).for_each(|(at, share)| limits[at] = share);
        }
    }
    limits
}

/// Divides a capacity among demands max-min fairly: none gets more than it demands, and what small
/// ones leave goes to the others evenly.
pub(super) fn fair_shares(capacity: f64, demands: &[f64]) -> Vec<f64> {
    let wanted: Vec<Wanted> =
        demands.iter().map(|most| Wanted { most: *most, weight: 1.0, cost: 1.0 }).collect();
    fill(capacity, &wanted)
}
