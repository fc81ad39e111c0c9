//! Predicted rates of groups that share devices and CPUs, max-min fairly.

use super::inputs::{BalanceDevice, BalanceGroup, BalanceProblem};
use numaio_machine::ids::NodeId;
use std::collections::BTreeMap;

/// Share of a device's time below which its programs limit themselves.
pub const BUSY: f64 = 0.7;

/// Share of its fair rate below which a group limits itself.
const LIMITED: f64 = 0.85;

/// Bounds of the factor between observed and predicted rate.
const FACTORS: (f64, f64) = (0.25, 4.0);

/// Rounding of exhausted capacities.
const EPSILON: f64 = 1e-9;

/// Position of each group: shares of its memory by node, which sum to 1.
pub type Position = BTreeMap<NodeId, f64>;

/// Returns the position of a group with everything on one node.
pub fn at_node(node: NodeId) -> Position {
    Position::from([(node, 1.0)])
}

/// Rates that a problem's groups could have at other positions.
#[derive(Debug)]
pub struct RatePredictor<'a> {
    problem: &'a BalanceProblem,
    /// Devices with rates in the scale of the observed ones.
    devices: Vec<BalanceDevice>,
    /// Most bytes per second that each group wants.
    demand: Vec<f64>,
    /// Observed over predicted rate of each group.
    factor: Vec<f64>,
}

impl<'a> RatePredictor<'a> {
    /// Fits demands and factors to the observed rates at the present positions.
    pub fn new(problem: &'a BalanceProblem) -> Self {
        let groups = &problem.groups;
        let demand = groups.iter().map(|group| match is_limited_by_device(problem, group) {
            true => f64::INFINITY,
            false => group.bytes_per_s,
        });
        let mut fitted = Self {
            problem,
            devices: scaled_devices(problem),
            demand: demand.collect(),
            factor: vec![1.0; groups.len()],
        };
        let present: Vec<Position> = groups.iter().map(|group| group.position.clone()).collect();
        // A group far below its fair share does not want more. Removing it raises the shares of the
        // others, so two passes are needed.
        for _ in 0..2 {
            let fair = fitted.rates(&present);
            for ((demand, group), fair) in fitted.demand.iter_mut().zip(groups).zip(fair) {
                if group.bytes_per_s < LIMITED * fair {
                    *demand = group.bytes_per_s;
                }
            }
        }
        let fair = fitted.rates(&present);
        fitted.factor = groups
            .iter()
            .zip(fair)
            .map(|(group, fair)| match fair > 0.0 {
                true => (group.bytes_per_s / fair).clamp(FACTORS.0, FACTORS.1),
                false => 1.0,
            })
            .collect();
        fitted
    }

    /// Returns whether a group would use more than it has now.
    pub fn is_elastic(&self, group: usize) -> bool {
        self.demand.get(group).is_some_and(|demand| demand.is_infinite())
    }

    /// Predicts the rate of each group, in bytes per second.
    pub fn predict(&self, positions: &[Position]) -> Vec<f64> {
        self.rates(positions).into_iter().zip(&self.factor).map(|(rate, factor)| rate * factor).collect()
    }

    /// Returns how much slower a group's devices are with buffers on a node than at its position,
    /// as a share; 0 if they are not slower.
    pub fn disadvantage(&self, group: usize, position: &Position, to: NodeId) -> f64 {
        let Some(group) = self.problem.groups.get(group) else { return 0.0 };
        let seconds = |position: &Position| -> f64 {
            let of = |(index, share): (&usize, &f64)| {
                self.devices.get(*index).map_or(0.0, |device| share * seconds_per_byte(device, position))
            };
            group.devices.iter().map(of).sum()
        };
        (1.0 - seconds(position) / seconds(&at_node(to)).max(f64::MIN_POSITIVE)).max(0.0)
    }

    /// Computes max-min fair rates by progressive filling.
    fn rates(&self, positions: &[Position]) -> Vec<f64> {
        let (capacities, uses) = self.capacities(positions);
        let mut left = capacities;
        let mut rates = vec![0.0; positions.len()];
        let mut growing: Vec<usize> =
            (0..positions.len()).filter(|group| self.demand[*group] > 0.0).collect();
        while !growing.is_empty() {
            let step = self.largest_step(&growing, &rates, &left, &uses);
            if !step.is_finite() {
                // No capacity limits the groups that are left: they keep what they have now.
                for group in growing {
                    rates[group] = self.problem.groups[group].bytes_per_s.max(rates[group]);
                }
                break;
            }
            for group in &growing {
                rates[*group] += step;
                for (capacity, cost) in &uses[*group] {
                    left[*capacity] = (left[*capacity] - step * cost).max(0.0);
                }
            }
            let is_done = |group: &usize| {
                rates[*group] >= self.demand[*group] * (1.0 - EPSILON)
                    || uses[*group]
                        .iter()
                        .any(|(capacity, cost)| left[*capacity] <= cost * rates[*group] * EPSILON)
            };
            let before = growing.len();
            growing.retain(|group| !is_done(group));
            if growing.len() == before {
                break;
            }
        }
        rates
    }

    /// Returns the largest equal growth of the growing groups.
    fn largest_step(
        &self,
        growing: &[usize],
        rates: &[f64],
        left: &[f64],
        uses: &[Vec<(usize, f64)>],
    ) -> f64 {
        let mut cost = vec![0.0; left.len()];
        for group in growing {
            for (capacity, each) in &uses[*group] {
                cost[*capacity] += each;
            }
        }
        let by_capacity =
            left.iter().zip(&cost).filter(|(_, cost)| **cost > 0.0).map(|(left, cost)| left / cost);
        let by_demand = growing.iter().map(|group| self.demand[*group] - rates[*group]);
        by_capacity.chain(by_demand).fold(f64::INFINITY, f64::min).max(0.0)
    }

    /// Returns the capacities, and what one byte per second of each group uses of them.
    ///
    /// A device with a known cap has one capacity for itself and one for each node's path. Without
    /// one it shares its time (Li et al., ICPP 2013, Equation 1). Each node has its CPUs.
    fn capacities(&self, positions: &[Position]) -> (Vec<f64>, Vec<Vec<(usize, f64)>>) {
        let mut capacities = Vec::new();
        let mut uses: Vec<Vec<(usize, f64)>> = vec![Vec::new(); positions.len()];
        for (index, device) in self.devices.iter().enumerate() {
            let users = || {
                let share = move |group: &BalanceGroup| group.devices.get(&index).copied().unwrap_or(0.0);
                self.problem.groups.iter().map(share).enumerate().filter(|(_, share)| *share > 0.0)
            };
            match device.cap_bytes_per_s {
                Some(cap) => {
                    let first = capacities.len();
                    capacities.push(cap);
                    let nodes: Vec<NodeId> = device.by_node.keys().copied().collect();
                    capacities.extend(device.by_node.values());
                    for (group, share) in users() {
                        uses[group].push((first, share));
                        for (offset, node) in nodes.iter().enumerate() {
                            let on = positions[group].get(node).copied().unwrap_or(0.0);
                            uses[group].extend((on > 0.0).then_some((first + 1 + offset, share * on)));
                        }
                    }
                }
                None => {
                    let time = capacities.len();
                    capacities.push(1.0);
                    for (group, share) in users() {
                        uses[group].push((time, share * seconds_per_byte(device, &positions[group])));
                    }
                }
            }
        }
        self.add_cpus(positions, &mut capacities, &mut uses);
        (capacities, uses)
    }

    fn add_cpus(&self, positions: &[Position], capacities: &mut Vec<f64>, uses: &mut [Vec<(usize, f64)>]) {
        for node in &self.problem.nodes {
            let capacity = capacities.len();
            capacities.push((f64::from(node.cpus) - node.other_cpus).max(f64::from(node.cpus) * 0.02));
            for (index, group) in self.problem.groups.iter().enumerate() {
                let on = positions[index].get(&node.node).copied().unwrap_or(0.0);
                if on > 0.0 && group.cpus > 0.0 && group.bytes_per_s > 0.0 {
                    uses[index].push((capacity, on * group.cpus / group.bytes_per_s));
                }
            }
        }
    }
}

/// Returns the devices; copies give only proportions, so their rates are scaled such that the
/// observed rates use all of the device's time.
fn scaled_devices(problem: &BalanceProblem) -> Vec<BalanceDevice> {
    let scaled = |(index, device): (usize, &BalanceDevice)| {
        let mut device = device.clone();
        let used = used_time(problem, index, &device);
        if !device.is_measured && used > 0.0 && used.is_finite() {
            device.by_node.values_mut().for_each(|rate| *rate *= used);
        }
        device
    };
    problem.devices.iter().enumerate().map(scaled).collect()
}

/// Returns the time that a device needs for the observed rates of one second.
fn used_time(problem: &BalanceProblem, index: usize, device: &BalanceDevice) -> f64 {
    let used = problem.groups.iter().map(|group| {
        let share = group.devices.get(&index).copied().unwrap_or(0.0);
        group.bytes_per_s * share * seconds_per_byte(device, &group.position)
    });
    used.sum()
}

/// Returns the time that a device spends for one byte of buffers at a position.
fn seconds_per_byte(device: &BalanceDevice, position: &Position) -> f64 {
    position.iter().map(|(node, share)| share / device.rate(*node)).sum()
}

/// Returns whether one of a group's devices has no time left.
fn is_limited_by_device(problem: &BalanceProblem, group: &BalanceGroup) -> bool {
    group.devices.keys().any(|index| device_busy(problem, *index) >= BUSY)
}

/// Returns the share of time in which a device is busy: the kernel's, else by measured rates, else
/// 1: copies do not state how fast a device is.
pub fn device_busy(problem: &BalanceProblem, index: usize) -> f64 {
    let Some(device) = problem.devices.get(index) else { return 0.0 };
    if let Some(busy) = device.busy {
        return busy;
    }
    if !device.is_measured {
        return 1.0;
    }
    used_time(problem, index, device)
}
