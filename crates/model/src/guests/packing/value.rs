//! Guests' shares of devices: max-min shares of their demands over the time of devices.

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
    device: usize,
    /// Time of the device per second for a share of 1.
    load: f64,
}

/// Returns max-min fair shares: all shares grow alike until the time of a device is used up, whose
/// demands then keep their share.
pub(super) fn shares(instance: &Instance, guests: &[GuestShape], choices: &[&Choice]) -> Shares {
    let flows = flows(instance, guests, choices);
    let mut left = vec![1.0; instance.devices.len()];
    let mut result: Vec<Vec<f64>> = guests.iter().map(|guest| vec![1.0; guest.demands.len()]).collect();
    let mut growing: Vec<&Flow> = flows.iter().collect();
    let mut level = 0.0f64;
    while !growing.is_empty() && level < 1.0 {
        let mut load = vec![0.0; left.len()];
        growing.iter().for_each(|flow| load[flow.device] += flow.load);
        let limits = left.iter().zip(&load).filter(|(_, load)| **load > 0.0);
        let step = limits.map(|(left, load)| (left / load).max(0.0)).fold(1.0 - level, f64::min);
        level += step;
        for (left, load) in left.iter_mut().zip(&load) {
            *left -= step * load;
        }
        let is_full = |flow: &&Flow| flow.load > 0.0 && left[flow.device] <= TOLERANCE;
        let (full, open): (Vec<&Flow>, Vec<&Flow>) = growing.into_iter().partition(is_full);
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
        min_share: result.iter().flatten().copied().fold(1.0, f64::min),
        bytes_per_s: sum(flows.iter().map(|flow| flow.wanted * result[flow.guest][flow.demand])),
        ranks: sum(choices.iter().map(|choice| choice.rank)),
    };
    Shares { shares: result, value }
}

/// Returns the sum, which is 0 of nothing: that of `Iterator::sum` is -0.
pub(super) fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

fn flows(instance: &Instance, guests: &[GuestShape], choices: &[&Choice]) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (index, (guest, choice)) in guests.iter().zip(choices).enumerate() {
        for (demand, (device, wanted)) in guest.demands.iter().enumerate() {
            let Some(wanted) = *wanted else { continue };
            let load = wanted * instance.devices[*device].seconds_per_byte(&choice.parts);
            flows.push(Flow { guest: index, demand, wanted, device: *device, load });
        }
    }
    flows
}

/// Returns whether a value is better than another one by more than rounding.
pub(super) fn is_better(one: &GuestPlanValue, other: &GuestPlanValue) -> bool {
    let differs = |a: f64, b: f64| (a - b).abs() > TOLERANCE * a.abs().max(b.abs()).max(1.0);
    if differs(one.min_share, other.min_share) {
        return one.min_share > other.min_share;
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
