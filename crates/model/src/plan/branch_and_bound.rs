//! Branch and bound, the method of the dissertation: divide thread counts, bound by linear
//! programs.

use super::baseline::simple;
use super::instance::{Assignment, Instance};
use super::plan_document::Solution;
use super::search::{search, Effort, Found, TOLERANCE};
use super::sum_relaxation::SumRelaxation;
use super::time_relaxation::TimeRelaxation;
use super::validation::PlanError;
use numaio_schema::{Objective, SimpleRule};
use std::time::Instant;

/// Solves an instance.
pub(crate) fn divide(instance: &Instance, effort: Effort) -> Result<Solution, PlanError> {
    let found = match instance.objective {
        Objective::Time => time(instance, effort),
        Objective::Sum => {
            let relaxation = SumRelaxation::new(instance);
            let undivided = relaxation.undivided().map(|plan| (instance.value(&plan), plan));
            let known = known(instance).into_iter().chain(undivided).min_by(|a, b| a.0.total_cmp(&b.0));
            search(instance, &relaxation, known, effort)
        }
    };
    solution(found)
}

fn time(instance: &Instance, effort: Effort) -> Found {
    let relaxation = TimeRelaxation::new(instance);
    let first =
        search(instance, &relaxation, known(instance), Effort { until: Some(Instant::now()), ..effort });
    let closed = |value: f64| value <= first.bound * (1.0 + 2.0 * TOLERANCE);
    let Some((value, plan)) = first.best.as_ref().filter(|(value, _)| !closed(*value)) else { return first };
    let (better, dives) = relaxation.dive(*value, effort);
    let (plan, climbs) = relaxation.climb(better.unwrap_or_else(|| plan.clone()), effort);
    let mut found = search(instance, &relaxation, Some((instance.value(&plan), plan)), effort);
    found.programs += first.programs + dives + climbs;
    found
}

/// Returns the better feasible baseline plan, as the initial incumbent.
fn known(instance: &Instance) -> Option<(f64, Assignment)> {
    let plans = [SimpleRule::AllLocal, SimpleRule::EvenSpread].into_iter();
    let plans = plans.filter_map(|rule| simple(instance, rule).ok());
    plans.map(|plan| (instance.value(&plan), plan)).min_by(|a, b| a.0.total_cmp(&b.0))
}

fn solution(found: Found) -> Result<Solution, PlanError> {
    let (value, assignment) = found.best.ok_or(PlanError::NoThreads)?;
    Ok(Solution { assignment, value, bound: found.bound, programs: found.programs })
}
