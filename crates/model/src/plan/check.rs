//! Plans that were kept, sent or changed by hand, held against their own problem.

use super::answer::value;
use super::evaluate::{evaluate, find, rate, NotFeasible};
use super::problem::instance;
use numaio_schema::{Plan, PlannedWay, Prediction, Proof, StageTime, WayRates};

/// Relative difference that writing a number down and reading it again may make.
const SAME: f64 = 1e-9;
/// The same of a small difference of numbers near 1.
const ROUNDING: f64 = 1e-12;

/// Reckons a plan anew: its problem can be asked, its ways can be carried out, and it takes what it says. That no
/// other plan is better only planning itself can tell; of the proof it is checked that it does not contradict itself.
///
/// # Errors
/// The first thing that does not hold.
pub fn check_plan(plan: &Plan) -> Result<(), NotFeasible> {
    let problem = &plan.problem;
    instance(problem).map_err(|refused| NotFeasible(refused.to_string()))?;
    let predicted = evaluate(problem, &plan.storage_ways, &plan.network_ways)?;
    check_rates(&problem.storage_ways, &plan.storage_ways)?;
    check_rates(&problem.network_ways, &plan.network_ways)?;
    check_prediction(&plan.predicted, &predicted)?;
    check_proof(&plan.proof, value(problem.objective, &predicted))
}

fn same(told: f64, reckoned: f64) -> bool {
    (told - reckoned).abs() <= SAME * reckoned.abs()
}

fn hold(what: &str, told: f64, reckoned: f64) -> Result<(), NotFeasible> {
    match same(told, reckoned) {
        true => Ok(()),
        false => Err(NotFeasible(format!("it says that {what} is {told}, and it is {reckoned}"))),
    }
}

fn check_rates(known: &[WayRates], used: &[PlannedWay]) -> Result<(), NotFeasible> {
    for way in used {
        let reckoned = find(known, way.id()).map_or(f64::NAN, |rates| rate(rates, way.threads));
        let what = format!(
            "the bandwidth of the way between device node {} and memory node {}",
            way.device_node, way.memory_node
        );
        hold(&what, way.bytes_per_s, reckoned)?;
    }
    Ok(())
}

fn check_prediction(told: &Prediction, reckoned: &Prediction) -> Result<(), NotFeasible> {
    hold("the time in seconds", told.time_s, reckoned.time_s)?;
    hold("the printed sum in seconds", told.sum_s, reckoned.sum_s)?;
    hold("the bandwidth in bytes per second", told.bytes_per_s, reckoned.bytes_per_s)?;
    // Each of them once; stages that take the same time may have changed places by rounding.
    let told_of = |it: &StageTime| {
        told.stages.iter().any(|stage| stage.stage == it.stage && same(stage.busy_s, it.busy_s))
    };
    let missing = reckoned.stages.iter().find(|stage| !told_of(stage));
    match missing {
        Some(StageTime { stage, busy_s }) => {
            Err(NotFeasible(format!("it does not tell that {stage:?} is busy for {busy_s} s")))
        }
        None if told.stages.len() != reckoned.stages.len() => {
            Err(NotFeasible("it tells of more stages than are used".to_owned()))
        }
        None => Ok(()),
    }
}

fn check_proof(proof: &Proof, value_s: f64) -> Result<(), NotFeasible> {
    hold("the objective's value", proof.value_s, value_s)?;
    if !(proof.bound_s > 0.0 && proof.bound_s <= value_s * (1.0 + SAME)) {
        return Err(NotFeasible(format!("its bound of {} s is no bound of {value_s} s", proof.bound_s)));
    }
    let gap = (proof.value_s / proof.bound_s - 1.0).max(0.0);
    match (proof.gap - gap).abs() <= ROUNDING * (1.0 + gap) {
        true => Ok(()),
        false => Err(NotFeasible(format!("it says that its gap is {}, and it is {gap}", proof.gap))),
    }
}
