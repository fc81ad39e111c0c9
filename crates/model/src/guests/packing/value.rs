//! What guests get of devices: max-min shares of their demands over paths and devices.

use super::instance::{Choice, GuestShape, Instance};
use numaio_schema::GuestPlanValue;

/// Relative difference of equal values.
const TOLERANCE: f64 = 1e-9;

/// Shares of all demands, and the value of the placement.
pub(super) struct Shares {
    /// Share of each demand, by guest.
    pub shares: Vec<Vec<f64>>,
    /// The value.
    pub value: GuestPlanValue,
}

/// A demand as a load on capacities.
struct Flow {
    guest: usize,
    demand: usize,
    wanted: f64,
    /// Index of a capacity, and bytes per second on it for a share of 1.
    loads: Vec<(usize, f64)>,
}

/// Returns max-min fair shares: all shares grow alike until a capacity is used up, whose demands
/// then keep their share.
pub(super) fn shares(instance: &Instance, guests: &[GuestShape], choices: &[&Choice]) -> Shares {
    let flows = flows(instance, guests, choices);
    let mut left = capacities(instance);
    let all = left.clone();
    let mut result: Vec<Vec<f64>> = guests.iter().map(|guest| vec![1.0; guest.demands.len()]).collect();
    let mut growing: Vec<&Flow> = flows.iter().collect();
    let mut level = 0.0f64;
    while !growing.is_empty() && level < 1.0 {
        let mut load = vec![0.0; left.len()];
        for (capacity, amount) in growing.iter().flat_map(|flow| &flow.loads) {
            load[*capacity] += amount;
        }
        let limits = left.iter().zip(&load).filter(|(_, load)| **load > 0.0);
        let step = limits.map(|(left, load)| (left / load).max(0.0)).fold(1.0 - level, f64::min);
        level += step;
        for (left, load) in left.iter_mut().zip(&load) {
            *left -= step * load;
        }
        let is_full = |capacity: usize| {
            all[capacity].is_finite() && left[capacity] <= TOLERANCE * all[capacity] && load[capacity] > 0.0
        };
        let (full, open): (Vec<&Flow>, Vec<&Flow>) =
            growing.into_iter().partition(|flow| flow.loads.iter().any(|(capacity, _)| is_full(*capacity)));
        for flow in &full {
            result[flow.guest][flow.demand] = level.min(1.0);
        }
        // Rounding can leave a capacity that limits the step but is not full.
        if full.is_empty() && step <= 0.0 {
            open.iter().for_each(|flow| result[flow.guest][flow.demand] = level);
            break;
        }
        growing = open;
    }
    let value = GuestPlanValue {
        least_share: result.iter().flatten().copied().fold(1.0, f64::min),
        bytes_per_s: flows.iter().map(|flow| flow.wanted * result[flow.guest][flow.demand]).sum(),
        ranks: choices.iter().map(|choice| choice.rank).sum(),
    };
    Shares { shares: result, value }
}

/// Returns the capacities: devices, then the paths of each device by node.
fn capacities(instance: &Instance) -> Vec<f64> {
    let devices = instance.devices.iter().map(|device| device.bytes_per_s);
    devices.chain(instance.devices.iter().flat_map(|device| device.paths.iter().copied())).collect()
}

/// Returns the index of the path from a node to a device.
pub(super) fn path_index(instance: &Instance, device: usize, node: usize) -> usize {
    instance.devices.len() + device * instance.nodes.len() + node
}

fn flows(instance: &Instance, guests: &[GuestShape], choices: &[&Choice]) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (index, (guest, choice)) in guests.iter().zip(choices).enumerate() {
        for (demand, (device, wanted)) in guest.demands.iter().enumerate() {
            let Some(wanted) = *wanted else { continue };
            let parts = choice.parts.iter().filter(|part| part.fraction > 0.0);
            let paths = parts.map(|part| (path_index(instance, *device, part.node), wanted * part.fraction));
            let loads: Vec<(usize, f64)> = [(*device, wanted)].into_iter().chain(paths).collect();
            flows.push(Flow { guest: index, demand, wanted, loads });
        }
    }
    flows
}

/// Returns whether a value is better than another one by more than rounding.
pub(super) fn is_better(one: &GuestPlanValue, other: &GuestPlanValue) -> bool {
    let differs = |a: f64, b: f64| (a - b).abs() > TOLERANCE * a.abs().max(b.abs()).max(1.0);
    if differs(one.least_share, other.least_share) {
        return one.least_share > other.least_share;
    }
    if differs(one.bytes_per_s, other.bytes_per_s) {
        return one.bytes_per_s > other.bytes_per_s;
    }
    differs(one.ranks, other.ranks) && one.ranks < other.ranks
}

/// Returns the better one of two values.
pub(super) fn better(one: GuestPlanValue, other: GuestPlanValue) -> GuestPlanValue {
    if is_better(&other, &one) {
        other
    } else {
        one
    }
}
