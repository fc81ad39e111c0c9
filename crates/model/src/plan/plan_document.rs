//! Plan documents: whole bytes, predictions, rejected plans and the certificate.

use super::baseline::simple;
use super::evaluate::{evaluate, rate, InfeasiblePlan};
use super::instance::{Assignment, Instance};
use super::validation::PlanError;
use numaio_machine::ids::NodeId;
use numaio_schema::{
    Objective, Plan, PlanProblem, PlannedPath, Prediction, Proof, RejectedPlan, SimpleRule, PLAN_SCHEMA,
};
use std::collections::BTreeMap;

/// Gap that counts as closed.
const CLOSED: f64 = 1e-6;
/// Bytes by which rounding to whole bytes may change a path.
const ROUNDING_BYTES: f64 = 64.0;

/// Result of a method: an assignment, its value and a bound on all others, in units of the
/// instance.
pub(crate) struct Solution {
    pub assignment: Assignment,
    pub value: f64,
    pub bound: f64,
    pub programs: u64,
}

/// Builds the document of a solution and certifies it.
pub(crate) fn answer(
    problem: &PlanProblem,
    instance: &Instance,
    solution: &Solution,
) -> Result<Plan, PlanError> {
    let (storage_paths, network_paths) = whole(problem, instance, &instance.trimmed(&solution.assignment));
    let wrong = |error: InfeasiblePlan| PlanError::Solver(error.to_string());
    let predicted = evaluate(problem, &storage_paths, &network_paths).map_err(wrong)?;
    let value_s = value(problem.objective, &predicted);
    let bound_s = instance.seconds(solution.bound).min(value_s);
    let plan = Plan {
        schema: PLAN_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        problem: problem.clone(),
        storage_paths,
        network_paths,
        proof: Proof {
            value_s,
            bound_s,
            gap: (value_s / bound_s - 1.0).max(0.0),
            optimal: solution.value <= solution.bound * (1.0 + CLOSED),
            linear_programs: solution.programs,
        },
        rejected: Vec::new(),
        predicted,
    };
    let rejected =
        [SimpleRule::AllLocal, SimpleRule::EvenSpread].map(|rule| rejected(&plan, instance, rule)).to_vec();
    let plan = Plan { rejected, ..plan };
    certify(instance, solution, &plan)?;
    Ok(plan)
}

/// Returns the value of an objective.
pub(crate) fn value(objective: Objective, predicted: &Prediction) -> f64 {
    match objective {
        Objective::Time => predicted.time_s,
        Objective::Sum => predicted.sum_s,
    }
}

/// Compares the document with the method's claims; [`evaluate`] has checked the feasibility.
fn certify(instance: &Instance, solution: &Solution, plan: &Plan) -> Result<(), PlanError> {
    let claimed = instance.seconds(solution.value);
    let slowest = plan.storage_paths.iter().chain(&plan.network_paths).map(|path| path.bytes_per_s);
    let slowest = slowest.fold(instance.unit_bytes_per_s, f64::min);
    let paths = (plan.storage_paths.len() * plan.network_paths.len()) as f64;
    let allowed = claimed * CLOSED + ROUNDING_BYTES * paths / slowest;
    if (plan.proof.value_s - claimed).abs() > allowed {
        let value = plan.proof.value_s;
        return Err(PlanError::Solver(format!("the plan takes {value} s but the solver claims {claimed} s")));
    }
    if solution.value < solution.bound * (1.0 - CLOSED) {
        let bound = instance.seconds(solution.bound);
        return Err(PlanError::Solver(format!("the plan takes {claimed} s, below the bound of {bound} s")));
    }
    Ok(())
}

fn rejected(plan: &Plan, instance: &Instance, rule: SimpleRule) -> RejectedPlan {
    let problem = &plan.problem;
    let planned = simple(instance, rule).and_then(|assignment| {
        let (reads, sends) = whole(problem, instance, &assignment);
        let predicted = evaluate(problem, &reads, &sends).map_err(|error| error.to_string())?;
        Ok((reads, sends, predicted))
    });
    let (storage_paths, network_paths, predicted) = match planned {
        Ok(planned) => planned,
        Err(why) => {
            let why = format!("infeasible: {why}");
            return RejectedPlan {
                rule,
                storage_paths: Vec::new(),
                network_paths: Vec::new(),
                predicted: None,
                reason: why,
            };
        }
    };
    let over = value(problem.objective, &predicted) / plan.proof.value_s - 1.0;
    let why = match over {
        over if over > CLOSED => format!("it takes {:.1} % more", over * 100.0),
        over if over < -CLOSED => {
            format!("it takes {:.1} % less: the search stopped too early to find it", -over * 100.0)
        }
        _ if storage_paths == plan.storage_paths && network_paths == plan.network_paths => {
            "identical to the plan".to_owned()
        }
        _ => "equally good: the plan is one of several best ones".to_owned(),
    };
    RejectedPlan { rule, storage_paths, network_paths, predicted: Some(predicted), reason: why }
}

/// Rounds to whole bytes: exactly all data of each node, with balanced input and output per memory
/// node.
fn whole(
    problem: &PlanProblem,
    instance: &Instance,
    assignment: &Assignment,
) -> (Vec<PlannedPath>, Vec<PlannedPath>) {
    let mut bytes = vec![0u64; instance.paths.len()];
    for (source, (node, _)) in instance.sources.iter().enumerate() {
        let all =
            problem.storage.iter().filter(|storage| storage.node == *node).map(|storage| storage.bytes).sum();
        let paths: Vec<usize> =
            (0..instance.reads).filter(|path| instance.paths[*path].end == source).collect();
        divide(all, &paths, &assignment.amounts, &mut bytes);
    }
    for via in 0..instance.vias.len() {
        let all = instance.reads_at(via).map(|path| bytes[path]).sum();
        divide(all, &instance.sends_at(via).collect::<Vec<usize>>(), &assignment.amounts, &mut bytes);
    }
    let rates: BTreeMap<(bool, NodeId, NodeId), _> =
        [(true, &problem.storage_paths), (false, &problem.network_paths)]
            .into_iter()
            .flat_map(|(read, paths)| {
                paths.iter().map(move |path| ((read, path.device_node, path.memory_node), path))
            })
            .collect();
    let planned = |number: usize| {
        let id = instance.paths[number].id;
        let rates = rates.get(&(number < instance.reads, id.device_node, id.memory_node))?;
        let threads = assignment.threads[number];
        (bytes[number] > 0).then(|| PlannedPath {
            device_node: id.device_node,
            memory_node: id.memory_node,
            threads,
            bytes: bytes[number],
            bytes_per_s: rate(rates, threads),
        })
    };
    let reads = (0..instance.reads).filter_map(planned).collect();
    (reads, (instance.reads..instance.paths.len()).filter_map(planned).collect())
}

/// Divides bytes in proportion to amounts, by largest remainders; paths without an amount get none.
fn divide(all: u64, paths: &[usize], amounts: &[f64], bytes: &mut [u64]) {
    let sum: f64 = paths.iter().map(|path| amounts[*path]).sum();
    let mut used: Vec<(f64, usize)> = Vec::new();
    let mut left = all;
    for path in paths.iter().copied().filter(|path| amounts[*path] > 0.0) {
        let exact = all as f64 * (amounts[path] / sum);
        let floor = (exact.floor() as u64).min(left);
        bytes[path] = floor;
        left -= floor;
        used.push((exact - exact.floor(), path));
    }
    used.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let number = used.len().max(1) as u64;
    for (place, (_, path)) in used.iter().enumerate() {
        bytes[*path] += left / number + u64::from((place as u64) < left % number);
    }
}
