//! Reduction of the memory nodes of a plan without increasing its time, to leave nodes to others.

use super::instance::{Assignment, Instance, Limit};
use super::plan_document::Solution;
use super::ranges::Ranges;
use super::search::{search, Effort, TOLERANCE};
use super::time_relaxation::TimeRelaxation;
use numaio_schema::Objective;
use std::time::Instant;

/// Relative difference of equal times.
const SAME: f64 = 1e-9;

/// Removes memory nodes that a plan's time does not need, trying each once, in ascending order of
/// their maximum throughput. Does nothing for the printed sum.
pub(crate) fn fewer(instance: &Instance, solution: Solution) -> Solution {
    if instance.objective == Objective::Sum {
        return solution;
    }
    let enough = solution.value * (1.0 + SAME);
    let all = Ranges::all(instance);
    let through = |via: &usize| all.through(*via, instance);
    let mut solution = solution;
    let mut order: Vec<usize> =
        (0..instance.vias.len()).filter(|via| uses(instance, &solution.assignment, *via)).collect();
    order.sort_by(|a, b| through(a).total_cmp(&through(b)).then(b.cmp(a)));
    let mut kept = order.clone();
    for via in order {
        let rest: Vec<usize> = kept.iter().copied().filter(|other| *other != via).collect();
        if !uses(instance, &solution.assignment, via) {
            kept = rest;
        } else if let Some((value, assignment, programs)) = within(instance, &rest, enough) {
            solution.programs += programs;
            solution.value = value.max(solution.bound);
            solution.assignment = assignment;
            kept = rest;
        }
    }
    solution
}

fn uses(instance: &Instance, assignment: &Assignment, via: usize) -> bool {
    instance.reads_at(via).any(|path| assignment.amounts[path] > 0.0)
}

/// Returns a plan through some vias that takes at most `enough`, if the first relaxation finds one.
fn within(instance: &Instance, vias: &[usize], enough: f64) -> Option<(f64, Assignment, u64)> {
    let numbers: Vec<usize> =
        (0..instance.paths.len()).filter(|path| vias.contains(&instance.paths[*path].via)).collect();
    let part = part(instance, &numbers);
    // Only better plans matter, so the incumbent needs no assignment.
    let known = (enough * (1.0 + 2.0 * TOLERANCE), Assignment { threads: Vec::new(), amounts: Vec::new() });
    let effort = Effort { until: Some(Instant::now()), workers: 1 };
    let found = search(&part, &TimeRelaxation::new(&part), Some(known), effort);
    let (_, plan) = found.best.filter(|(value, _)| *value <= enough)?;
    let mut whole =
        Assignment { threads: vec![0; instance.paths.len()], amounts: vec![0.0; instance.paths.len()] };
    for (place, number) in numbers.iter().enumerate() {
        whole.threads[*number] = plan.threads[place];
        whole.amounts[*number] = plan.amounts[place];
    }
    Some((instance.value(&whole), whole, found.programs))
}

/// Restricts an instance to some paths; the numbers of vias and ends stay.
fn part(instance: &Instance, numbers: &[usize]) -> Instance {
    let place = |number: &usize| numbers.iter().position(|kept| kept == number);
    let limit =
        |limit: &Limit| Limit { rate: limit.rate, paths: limit.paths.iter().filter_map(place).collect() };
    Instance {
        paths: numbers.iter().map(|number| instance.paths[*number].clone()).collect(),
        reads: numbers.iter().filter(|number| **number < instance.reads).count(),
        limits: instance.limits.iter().map(limit).collect(),
        ..instance.clone()
    }
}
