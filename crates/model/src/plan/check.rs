//! Verification of stored, received or edited plans against their own problem.

use super::evaluate::{evaluate, find, rate, InfeasiblePlan};
use super::plan_document::value;
use super::validation::instance;
use numaio_schema::{PathRates, Plan, PlannedPath, Prediction, Proof, StageTime};

/// Relative error of writing and parsing a number.
const SAME: f64 = 1e-9;
/// Absolute error of small differences of numbers near 1.
const ROUNDING: f64 = 1e-12;

/// Verifies a plan: its problem is valid, its paths are feasible, and its predictions are correct.
/// The optimality is not verified; the proof is checked for consistency.
///
/// # Errors
/// The first violation.
pub fn check_plan(plan: &Plan) -> Result<(), InfeasiblePlan> {
    let problem = &plan.problem;
    instance(problem).map_err(|refused| InfeasiblePlan(refused.to_string()))?;
    let predicted = evaluate(problem, &plan.storage_paths, &plan.network_paths)?;
    check_rates(&problem.storage_paths, &plan.storage_paths)?;
    check_rates(&problem.network_paths, &plan.network_paths)?;
    check_prediction(&plan.predicted, &predicted)?;
    check_proof(&plan.proof, value(problem.objective, &predicted))
}

fn same(stated: f64, computed: f64) -> bool {
    (stated - computed).abs() <= SAME * computed.abs()
}

fn require_equal(what: &str, stated: f64, computed: f64) -> Result<(), InfeasiblePlan> {
    match same(stated, computed) {
        true => Ok(()),
        false => Err(InfeasiblePlan(format!("{what} is stated as {stated}, computed as {computed}"))),
    }
}

fn check_rates(known: &[PathRates], used: &[PlannedPath]) -> Result<(), InfeasiblePlan> {
    for path in used {
        let computed = find(known, path.id()).map_or(f64::NAN, |rates| rate(rates, path.threads));
        let what = format!(
            "the bandwidth of the path between device node {} and memory node {}",
            path.device_node, path.memory_node
        );
        require_equal(&what, path.bytes_per_s, computed)?;
    }
    Ok(())
}

fn check_prediction(stated: &Prediction, computed: &Prediction) -> Result<(), InfeasiblePlan> {
    require_equal("the time in seconds", stated.time_s, computed.time_s)?;
    require_equal("the printed sum in seconds", stated.sum_s, computed.sum_s)?;
    require_equal("the bandwidth in bytes per second", stated.bytes_per_s, computed.bytes_per_s)?;
    // Stages with equal times may be in a different order because of rounding.
    let stated_time = |it: &StageTime| {
        stated.stages.iter().any(|stage| stage.stage == it.stage && same(stage.busy_s, it.busy_s))
    };
    let missing = computed.stages.iter().find(|stage| !stated_time(stage));
    match missing {
        Some(StageTime { stage, busy_s }) => {
            Err(InfeasiblePlan(format!("missing stage {stage:?} with a busy time of {busy_s} s")))
        }
        None if stated.stages.len() != computed.stages.len() => {
            Err(InfeasiblePlan("more stages are stated than used".to_owned()))
        }
        None => Ok(()),
    }
}

fn check_proof(proof: &Proof, value_s: f64) -> Result<(), InfeasiblePlan> {
    require_equal("the objective's value", proof.value_s, value_s)?;
    if !(proof.bound_s > 0.0 && proof.bound_s <= value_s * (1.0 + SAME)) {
        return Err(InfeasiblePlan(format!(
            "invalid bound of {} s for a value of {value_s} s",
            proof.bound_s
        )));
    }
    let gap = (proof.value_s / proof.bound_s - 1.0).max(0.0);
    match (proof.gap - gap).abs() <= ROUNDING * (1.0 + gap) {
        true => Ok(()),
        false => Err(InfeasiblePlan(format!("the gap is stated as {}, computed as {gap}", proof.gap))),
    }
}
