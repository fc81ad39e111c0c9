//! A second method of planning, the oracle of the tests: both must find the same optimum.

mod mixed_integer;
mod ordered_sets;
#[path = "../../../tests/plan/support.rs"]
mod support;

use super::search::Effort;
use super::{certified, check_plan, plan, validation, PlanError, PlanOptions};
use numaio_schema::{Objective, Plan, PlanProblem};
use support::{awkward, machine, small, with_limit};

fn of(problem: &PlanProblem, objective: Objective) -> PlanProblem {
    PlanProblem { objective, ..problem.clone() }
}

/// Returns the plan of the oracle.
fn oracle(problem: &PlanProblem) -> Result<Plan, PlanError> {
    let instance = validation::instance(problem)?;
    let solution = mixed_integer::mixed(&instance, Effort { until: None, workers: 1 })?;
    certified(problem, &instance, solution)
}

/// Asserts that both methods agree; returns whether there was a plan.
fn agree(problem: &PlanProblem) -> bool {
    match (plan(problem, &PlanOptions::default()), oracle(problem)) {
        (Ok(divide), Ok(mixed)) => {
            let ratio = divide.proof.value_s / mixed.proof.value_s;
            assert!((ratio - 1.0).abs() < 1e-5, "{:?} and {:?}: {problem:?}", divide.proof, mixed.proof);
            check_plan(&divide).and(check_plan(&mixed)).expect("both hold");
            true
        }
        (Err(divide), Err(mixed)) => {
            assert_eq!(divide, mixed);
            false
        }
        (divide, mixed) => panic!("{:?} and {:?}: {problem:?}", divide.err(), mixed.err()),
    }
}

#[test]
fn both_methods_agree_on_a_thousand_problems() {
    for seed in 0..400 {
        agree(&machine(1 + seed as usize % 4, 2 + seed as u32 % 3, seed));
        agree(&with_limit(machine(2 + seed as usize % 2, 2 + seed as u32 % 3, seed + 400)));
    }
    for seed in 0..100 {
        agree(&small(1 + seed as usize % 4, 3, seed));
        let sum =
            if seed % 2 == 0 { small(2, 3, seed + 100) } else { machine(1 + seed as usize % 3, 3, seed) };
        agree(&of(&sum, Objective::Sum));
    }
}

/// Requires a minimum number of plans, so that the test does not only compare errors.
#[test]
fn both_methods_agree_on_awkward_problems() {
    let mut planned = 0;
    for seed in 0..2000 {
        let mut problem = awkward(1 + seed as usize % 3, seed);
        if seed % 5 == 0 {
            problem.objective = Objective::Sum;
        }
        planned += u32::from(agree(&problem));
    }
    assert!((300..1900).contains(&planned), "{planned} of 2000 had a plan");
}
