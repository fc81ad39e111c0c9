//! Plans that were kept, sent or changed by hand, held against their own problem.

use super::evaluate::{evaluate, find, rate, InfeasiblePlan};
use super::plan_document::value;
use super::validation::instance;
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
pub fn check_plan(plan: &Plan) -> Result<(), InfeasiblePlan> {
    let problem = &plan.problem;
    instance(problem).map_err(|refused| InfeasiblePlan(refused.to_string()))?;
    let predicted = evaluate(problem, &plan.storage_ways, &plan.network_ways)?;
    check_rates(&problem.storage_ways, &plan.storage_ways)?;
    check_rates(&problem.network_ways, &plan.network_ways)?;
    check_prediction(&plan.predicted, &predicted)?;
    check_proof(&plan.proof, value(problem.objective, &predicted))
}

fn same(stated: f64, computed: f64) -> bool {
    (stated - computed).abs() <= SAME * computed.abs()
}

fn require_equal(what: &str, stated: f64, computed: f64) -> Result<(), InfeasiblePlan> {
    match same(stated, computed) {
        true => Ok(()),
        false => Err(InfeasiblePlan(format!("it says that {what} is {stated}, and it is {computed}"))),
    }
}

fn check_rates(known: &[WayRates], used: &[PlannedWay]) -> Result<(), InfeasiblePlan> {
    for path in used {
        let computed = find(known, path.id()).map_or(f64::NAN, |rates| rate(rates, path.threads));
        let what = format!(
            "the bandwidth of the way between device node {} and memory node {}",
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
    // Each of them once; stages that take the same time may have changed places by rounding.
    let stated_time = |it: &StageTime| {
        stated.stages.iter().any(|stage| stage.stage == it.stage && same(stage.busy_s, it.busy_s))
    };
    let missing = computed.stages.iter().find(|stage| !stated_time(stage));
    match missing {
        Some(StageTime { stage, busy_s }) => {
            Err(InfeasiblePlan(format!("it does not tell that {stage:?} is busy for {busy_s} s")))
        }
        None if stated.stages.len() != computed.stages.len() => {
            Err(InfeasiblePlan("it tells of more stages than are used".to_owned()))
        }
        None => Ok(()),
    }
}

fn check_proof(proof: &Proof, value_s: f64) -> Result<(), InfeasiblePlan> {
    require_equal("the objective's value", proof.value_s, value_s)?;
    if !(proof.bound_s > 0.0 && proof.bound_s <= value_s * (1.0 + SAME)) {
        return Err(InfeasiblePlan(format!("its bound of {} s is no bound of {value_s} s", proof.bound_s)));
    }
    let gap = (proof.value_s / proof.bound_s - 1.0).max(0.0);
    match (proof.gap - gap).abs() <= ROUNDING * (1.0 + gap) {
        true => Ok(()),
        false => Err(InfeasiblePlan(format!("it says that its gap is {}, and it is {gap}", proof.gap))),
    }
}
