//! Simulation of a plan and its baselines. The simulator is independent of the planner.

use numaio_schema::{Plan, PlannedPool};
use numaio_sim::execute::{execute, Pace, Stuck, ThreadPool, Transfer};

/// A pool starts no chunk while it is ahead of the others by more than this share of its bytes.
const AHEAD: f64 = 0.01;
/// Minimum of chunks per thread, so that the last chunk does not affect the result.
const CHUNKS_PER_THREAD: f64 = 20.0;
/// Bounds of the number of chunks of all data.
const CHUNKS: (f64, f64) = (2_000.0, 20_000.0);

/// Stores the simulated time of a plan and of each feasible baseline.
///
/// # Errors
/// [`Stuck`]: a plan whose simulation does not end.
pub fn simulate(plan: &mut Plan) -> Result<(), Stuck> {
    plan.predicted.simulated_s = Some(seconds(plan)?);
    let template = plan.clone();
    for rejected in &mut plan.rejected {
        if let Some(predicted) = &mut rejected.predicted {
            let (storage_paths, network_paths) =
                (rejected.storage_paths.clone(), rejected.network_paths.clone());
            predicted.simulated_s =
                Some(seconds(&Plan { storage_paths, network_paths, ..template.clone() })?);
        }
    }
    Ok(())
}

/// Returns the simulated seconds of a plan: the better of pools in step and pools at full speed.
fn seconds(plan: &Plan) -> Result<f64, Stuck> {
    let in_step = execute(&transfer(plan, Pace::InStep { ahead: AHEAD }))?.seconds;
    Ok(in_step.min(execute(&transfer(plan, Pace::Free))?.seconds))
}

/// Builds the simulator's input from the plan's threads and bytes and the problem's bandwidths,
/// without predictions.
fn transfer(plan: &Plan, pace: Pace) -> Transfer {
    let pools = plan.pools();
    let thread_pools = |pools: &[PlannedPool]| -> Vec<ThreadPool> {
        let pool = |pool: &PlannedPool| ThreadPool {
            // Node ids may have wide gaps, and the simulator only compares them.
            node: plan.problem.nodes.iter().position(|node| node.node == pool.path.memory_node).unwrap_or(0),
            threads: pool.threads,
            thread_bytes_per_s: pool.thread_bytes_per_s,
            max_bytes_per_s: pool.max_bytes_per_s,
            bytes: pool.bytes as f64,
        };
        pools.iter().map(pool).collect()
    };
    let (fills, drains) = (thread_pools(&pools.fills), thread_pools(&pools.drains));
    let shared = pools.shared.into_iter().map(|shared| (shared.bytes_per_s, shared.pools)).collect();
    let bytes_per_thread = fills.iter().chain(&drains).map(|pool| pool.bytes / f64::from(pool.threads));
    let total: f64 = fills.iter().map(|pool| pool.bytes).sum();
    let chunk = bytes_per_thread.fold(f64::INFINITY, f64::min) / CHUNKS_PER_THREAD;
    let chunk_bytes = chunk.clamp(total / CHUNKS.1, total / CHUNKS.0);
    Transfer { fills, drains, shared, chunk_bytes, buffers_per_thread: 2, pace }
}
