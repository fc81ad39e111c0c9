//! Plans: threads and bytes on each path between storage, memory and network. See
//! docs/internals/planning.md.

mod baseline;
mod branch_and_bound;
mod check;
mod evaluate;
mod fewer_nodes;
mod instance;
#[cfg(test)]
mod oracle;
mod plan_document;
mod plan_placement;
mod plan_problem;
mod ranges;
mod rebalance;
mod search;
mod simplex;
mod sum_relaxation;
mod time_relaxation;
mod validation;

pub use check::check_plan;
pub use evaluate::{evaluate, InfeasiblePlan};
pub use plan_placement::{place_plan, PlanPlacementError};
pub use plan_problem::{plan_problem, PlanProblemError, PlanRequest, THREAD_BYTES_PER_S};
pub use rebalance::{rebalance, Handover, Helper, Pool};
pub use validation::PlanError;

use instance::Instance;
use numaio_schema::{Plan, PlanProblem};
use plan_document::Solution;
use search::Effort;
use std::time::{Duration, Instant};

/// Options of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// Time limit, after which the best plan so far is returned with its proven gap; `None` to
    /// continue until it is proven optimal. Only with a limit may the result depend on the
    /// machine's speed.
    pub time_limit: Option<Duration>,
    /// Number of search threads; does not affect the result.
    pub workers: usize,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { time_limit: None, workers: 1 }
    }
}

/// Returns the best plan of a problem, certified: feasibility, bound and value are recomputed.
///
/// # Errors
/// [`PlanError`] names the constraint that cannot be satisfied.
pub fn plan(problem: &PlanProblem, options: &PlanOptions) -> Result<Plan, PlanError> {
    let instance = validation::instance(problem)?;
    let until = options.time_limit.and_then(|limit| Instant::now().checked_add(limit));
    let effort = Effort { until, workers: options.workers.max(1) };
    certified(problem, &instance, branch_and_bound::divide(&instance, effort)?)
}

/// Returns the plan of a solution, without nodes and threads that it does not need.
fn certified(problem: &PlanProblem, instance: &Instance, solution: Solution) -> Result<Plan, PlanError> {
    plan_document::answer(problem, instance, &fewer_nodes::fewer(instance, solution))
}
