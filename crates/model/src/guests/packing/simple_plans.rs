//! Simple plans beside the best one.

use super::instance::{Choice, GuestShape, Instance, Part};
use super::value::shares;
use numaio_schema::{GuestBaseline, GuestBaselineRule, GuestPlanValue};

/// Returns the values of the simple plans.
pub(super) fn baselines(instance: &Instance) -> Vec<GuestBaseline> {
    let value = |rule: GuestBaselineRule| match rule {
        GuestBaselineRule::Unpinned => {
            let choices: Vec<Choice> = instance.guests.iter().map(|guest| spread(instance, guest)).collect();
            let choices: Vec<&Choice> = choices.iter().collect();
            Some(shares(instance, &instance.guests, &choices).value)
        }
        rule => chosen(instance, rule).map(|(_, value)| value),
    };
    GuestBaselineRule::ALL.into_iter().map(|rule| GuestBaseline { rule, value: value(rule) }).collect()
}

/// Returns the best simple plan that consists of choices, as the start of the search.
pub(super) fn known(instance: &Instance) -> Option<(Vec<usize>, GuestPlanValue)> {
    let rules = [GuestBaselineRule::AllLocal, GuestBaselineRule::RoundRobin];
    let plans = rules.into_iter().filter_map(|rule| chosen(instance, rule));
    plans.reduce(|best, next| if super::value::is_better(&next.1, &best.1) { next } else { best })
}

/// Returns the choices of a rule, if the guests fit.
fn chosen(instance: &Instance, rule: GuestBaselineRule) -> Option<(Vec<usize>, GuestPlanValue)> {
    let mut capacity = instance.capacity.clone();
    // Guests are placed in the order of the requests, as an operator would.
    let mut order: Vec<usize> = (0..instance.guests.len()).collect();
    order.sort_by_key(|index| instance.guests[*index].request);
    let mut numbers = vec![0; instance.guests.len()];
    for (turn, index) in order.into_iter().enumerate() {
        let guest = &instance.guests[index];
        let number = match rule {
            GuestBaselineRule::AllLocal => local(instance, guest),
            _ => in_turn(instance, guest, turn),
        }?;
        if !capacity.take_all(&guest.choices[number].parts) {
            return None;
        }
        numbers[index] = number;
    }
    let choices: Vec<&Choice> =
        instance.guests.iter().zip(&numbers).map(|(guest, number)| &guest.choices[*number]).collect();
    Some((numbers, shares(instance, &instance.guests, &choices).value))
}

/// Returns the choice with the lowest ranks for the first device, whether it has room or not.
fn local(instance: &Instance, guest: &GuestShape) -> Option<usize> {
    let first = guest.demands.first().map(|(device, _)| *device);
    let rank = |choice: &Choice| -> f64 {
        let ranks = first.map(|device| &instance.devices[device].ranks);
        choice.parts.iter().map(|part| ranks.map_or(0.0, |ranks| part.fraction * ranks[part.node])).sum()
    };
    let numbers = 0..guest.choices.len();
    numbers.min_by(|a, b| rank(&guest.choices[*a]).total_cmp(&rank(&guest.choices[*b])).then(a.cmp(b)))
}

/// Returns the choice whose nodes follow each other from the node of a turn on.
fn in_turn(instance: &Instance, guest: &GuestShape, turn: usize) -> Option<usize> {
    let count = guest.choices.first()?.nodes().len();
    let nodes = instance.nodes.len();
    let mut wanted: Vec<usize> = (0..count).map(|at| (turn * count + at) % nodes).collect();
    wanted.sort_unstable();
    guest.choices.iter().position(|choice| choice.nodes() == wanted)
}

/// Spreads a guest over all nodes by their CPUs, as the scheduler of an unpinned guest may.
fn spread(instance: &Instance, guest: &GuestShape) -> Choice {
    let all: f64 = instance.capacity.cpus.iter().map(|cpus| f64::from(*cpus)).sum::<f64>().max(1.0);
    let part = |(node, cpus): (usize, &u32)| {
        let fraction = f64::from(*cpus) / all;
        Part { node, vcpus: 0, memory: 0, kind: guest.kind, fraction }
    };
    instance.weighed(guest, instance.capacity.cpus.iter().enumerate().map(part).collect())
}
