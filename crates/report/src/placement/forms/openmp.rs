//! Formats placements as the environment of an OpenMP program (OpenMP 5.2, 21.1: OMP_PLACES,
//! OMP_PROC_BIND, OMP_NUM_THREADS).

use super::comment;
use super::memory::{PolicySupport, NUMACTL};
use crate::phrases;
use numaio_schema::{PlacementPlan, TaskPlacement};

/// OpenMP places threads only.
const OPENMP: PolicySupport =
    PolicySupport { name: "OpenMP", binds: false, prefers: false, interleaves: false, remedy: NUMACTL };

/// Formats one line for each task: `env VARIABLES`; append a command. Each CPU gets a thread.
pub fn openmp(plan: &PlacementPlan) -> String {
    let (_, notes) = OPENMP.translate_all(plan);
    let bind = if plan.request.spread { "spread" } else { "close" };
    let line = |task: &TaskPlacement| {
        let places = phrases::joined(task.cpus.iter().map(|cpu| format!("{{{cpu}}}")), ",");
        format!("env OMP_NUM_THREADS={} OMP_PLACES='{places}' OMP_PROC_BIND={bind}\n", task.cpus.len())
    };
    comment::hashed(&comment::lines(plan, notes)) + &plan.tasks.iter().map(line).collect::<String>()
}
