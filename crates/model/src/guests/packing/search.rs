//! Branch and bound over the choices of all guests.
//!
//! The bound of a partial placement ignores the capacities of nodes for the other guests, and gives
//! each of them its best path; devices are shared by all guests from the start.

use super::instance::{Choice, GuestShape, Instance, NodeCapacity};
use super::value::{better, is_better, shares, sum};
use numaio_schema::GuestPlanValue;

/// Maximum number of partial placements to examine. A number, not a time, so that the result does
/// not depend on the machine.
pub(super) const MAX_EXAMINED: u64 = 300_000;

/// The result of a search.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Index of the choice of each guest, and its value; `None` if the guests do not fit.
    pub best: Option<(Vec<usize>, GuestPlanValue)>,
    /// An upper bound of all placements.
    pub bound: Option<GuestPlanValue>,
    /// Whether the search was stopped.
    pub is_stopped: bool,
    /// Partial placements examined.
    pub examined: u64,
}

struct Search<'a> {
    instance: &'a Instance,
    bounds: Bounds,
    capacity: NodeCapacity,
    chosen: Vec<usize>,
    limit: u64,
    found: Found,
}

/// Values of the guests that are not placed yet.
struct Bounds {
    /// Least time of its device for each demand of each guest, per second for a share of 1.
    least_loads: Vec<Vec<f64>>,
    /// Share that each guest gets alone on its best choice.
    best_alone: Vec<f64>,
    /// Least of these shares among the guests from an index on.
    alone: Vec<f64>,
    /// Least rank sum of the guests from an index on.
    ranks: Vec<f64>,
}

/// Searches the best placement, starting from a known one; stops after `limit` partial placements.
pub(super) fn search(instance: &Instance, known: Option<(Vec<usize>, GuestPlanValue)>, limit: u64) -> Found {
    let bound = known.as_ref().map(|(_, value)| *value);
    let mut search = Search {
        instance,
        bounds: Bounds::new(instance),
        capacity: instance.capacity.clone(),
        chosen: Vec::new(),
        limit,
        found: Found { best: known, bound, is_stopped: false, examined: 0 },
    };
    search.place_next();
    let mut found = search.found;
    if let Some((_, value)) = &found.best {
        found.bound = Some(found.bound.map_or(*value, |bound| better(bound, *value)));
    }
    found
}

impl Bounds {
    fn new(instance: &Instance) -> Self {
        let count = instance.guests.len();
        let (mut alone, mut ranks) = (vec![1.0f64; count + 1], vec![0.0; count + 1]);
        let best = |guest: &GuestShape| guest.choices.iter().map(|choice| choice.alone).fold(0.0, f64::max);
        let best_alone: Vec<f64> = instance.guests.iter().map(best).collect();
        for (index, guest) in instance.guests.iter().enumerate().rev() {
            let least = guest.choices.iter().map(|choice| choice.rank).fold(f64::INFINITY, f64::min);
            alone[index] = alone[index + 1].min(best_alone[index]);
            ranks[index] = ranks[index + 1] + least;
        }
        let least_loads = instance.guests.iter().map(|guest| {
            let load = |(device, wanted): &(usize, Option<f64>)| {
                let device = &instance.devices[*device];
                let seconds = guest.choices.iter().map(|choice| device.seconds_per_byte(&choice.parts));
                wanted.unwrap_or(0.0) * seconds.fold(f64::MAX, f64::min)
            };
            guest.demands.iter().map(load).collect()
        });
        let least_loads = least_loads.collect();
        Self { least_loads, best_alone, alone, ranks }
    }
}

impl Search<'_> {
    /// Places the next guest on each of its choices, and then the rest.
    fn place_next(&mut self) {
        let index = self.chosen.len();
        let instance = self.instance;
        let Some(guest) = instance.guests.get(index) else { return self.complete() };
        // Guests that differ only in their names are not exchanged.
        let first = match (guest.is_like_previous, self.chosen.last()) {
            (true, Some(previous)) => *previous,
            _ => 0,
        };
        for (number, choice) in guest.choices.iter().enumerate().skip(first) {
            if !self.capacity.take_all(&choice.parts) {
                continue;
            }
            self.chosen.push(number);
            let bound = self.bound();
            let is_promising = self.found.best.as_ref().is_none_or(|(_, value)| is_better(&bound, value));
            if is_promising && self.found.examined >= self.limit {
                self.found.is_stopped = true;
                self.found.bound = Some(self.found.bound.map_or(bound, |known| better(known, bound)));
            } else if is_promising {
                self.found.examined += 1;
                self.place_next();
            }
            choice.parts.iter().for_each(|part| self.capacity.give_back(part));
            self.chosen.pop();
        }
    }

    fn complete(&mut self) {
        let choices = self.choices();
        let value = shares(self.instance, &self.instance.guests, &choices).value;
        if self.found.best.as_ref().is_none_or(|(_, best)| is_better(&value, best)) {
            self.found.best = Some((self.chosen.clone(), value));
        }
    }

    fn choices(&self) -> Vec<&Choice> {
        self.instance.guests.iter().zip(&self.chosen).map(|(guest, number)| &guest.choices[*number]).collect()
    }

    /// Returns an upper bound of all placements with the chosen part.
    fn bound(&self) -> GuestPlanValue {
        let (instance, choices) = (self.instance, self.choices());
        let placed = choices.len();
        let mut loads = vec![0.0; instance.devices.len()];
        let mut most = vec![0.0; instance.devices.len()];
        for (index, guest) in instance.guests.iter().enumerate() {
            let choice = choices.get(index);
            let alone = choice.map_or(self.bounds.best_alone[index], |choice| choice.alone);
            for ((device, wanted), least) in guest.demands.iter().zip(&self.bounds.least_loads[index]) {
                let Some(wanted) = wanted else { continue };
                most[*device] += wanted * alone.min(1.0);
                loads[*device] += choice.map_or(*least, |choice| {
                    wanted * instance.devices[*device].seconds_per_byte(&choice.parts)
                });
            }
        }
        let of_loads = loads.iter().map(|load| 1.0 / load).fold(f64::INFINITY, f64::min);
        let alone = choices.iter().map(|choice| choice.alone).fold(self.bounds.alone[placed], f64::min);
        let of_devices = most.iter().zip(&instance.devices);
        GuestPlanValue {
            min_share: of_loads.min(alone).min(1.0),
            bytes_per_s: sum(of_devices.map(|(most, device)| most.min(device.bytes_per_s))),
            ranks: choices.iter().map(|choice| choice.rank).sum::<f64>() + self.bounds.ranks[placed],
        }
    }
}
