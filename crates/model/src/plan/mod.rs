//! Plans: how many threads and bytes on each way between storage, memory and network. See docs/planning.md.

mod answer;
mod check;
mod divide;
mod evaluate;
mod fewer;
mod inputs;
mod instance;
mod mixed;
mod places;
mod problem;
mod ranges;
mod rebalance;
mod search;
mod simple;
mod simplex;
mod sum;
mod time;

pub use check::check_plan;
pub use evaluate::{evaluate, NotFeasible};
pub use inputs::{plan_problem, NoProblem, PlanRequest, THREAD_BYTES_PER_S};
pub use places::{place_plan, NotHere};
pub use problem::Refused;
pub use rebalance::{rebalance, Handover, Helper, Pool};

use numaio_schema::{Plan, PlanMethod, PlanProblem};
use search::Effort;
use std::time::{Duration, Instant};

/// How to plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// The method; both find the same least value.
    pub method: PlanMethod,
    /// When to stop with the best plan so far and the gap that is proven for it; none to go on until it is proven
    /// best. Only with a limit may the answer depend on the speed of the machine.
    pub time_limit: Option<Duration>,
    /// Threads that search. The answer does not depend on it.
    pub workers: usize,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { method: PlanMethod::Divide, time_limit: None, workers: 1 }
    }
}

/// The best plan of a problem, certified: it can be carried out, and its bound and its value are reckoned anew.
///
/// # Errors
/// [`Refused`] names the constraint of the problem that cannot hold.
pub fn plan(problem: &PlanProblem, options: &PlanOptions) -> Result<Plan, Refused> {
    let instance = problem::instance(problem)?;
    let until = options.time_limit.and_then(|limit| Instant::now().checked_add(limit));
    let effort = Effort { until, workers: options.workers.max(1) };
    let solution = match options.method {
        PlanMethod::Divide => divide::divide(&instance, effort)?,
        PlanMethod::Mixed => mixed::mixed(&instance, effort)?,
    };
    answer::answer(problem, &instance, &fewer::fewer(&instance, solution), options.method)
}
