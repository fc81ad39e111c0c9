//! A plan and the simple ones beside it, carried out by the simulator, which knows nothing of planning.

use numaio_schema::{Plan, PlannedPool};
use numaio_sim::execute::{execute, Pace, Stuck, ThreadPool, Transfer};

/// A pool begins no chunk while it is ahead of the others by more than this share of its bytes.
const AHEAD: f64 = 0.01;
/// Chunks of each thread at the least, so that the last one does not matter.
const CHUNKS_OF_A_THREAD: f64 = 20.0;
/// Bounds on the number of chunks of all data.
const CHUNKS: (f64, f64) = (2_000.0, 20_000.0);

/// Tells of a plan, and of each simple one that can be carried out, what it takes in the simulator.
///
/// # Errors
/// [`Stuck`]: a plan that does not come to an end.
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

/// Seconds of the whole, pools in step or each as fast as it can, whichever suits the plan better.
fn seconds(plan: &Plan) -> Result<f64, Stuck> {
    let in_step = execute(&transfer(plan, Pace::InStep { ahead: AHEAD }))?.seconds;
    Ok(in_step.min(execute(&transfer(plan, Pace::Free))?.seconds))
}

/// What the simulator is told: threads, bytes and the bandwidths of the problem, not what is predicted.
fn transfer(plan: &Plan, pace: Pace) -> Transfer {
    let pools = plan.pools();
    let thread_pools = |pools: &[PlannedPool]| -> Vec<ThreadPool> {
        let pool = |pool: &PlannedPool| ThreadPool {
            // Ids of nodes may have gaps as wide as they like; only which are the same matters.
            node: plan.problem.nodes.iter().position(|node| node.node == pool.path.memory_node).unwrap_or(0),
            threads: pool.threads,
            thread_bytes_per_s: pool.thread_bytes_per_s,
            most_bytes_per_s: pool.most_bytes_per_s,
            bytes: pool.bytes as f64,
        };
        pools.iter().map(pool).collect()
    };
    let (fills, drains) = (thread_pools(&pools.fills), thread_pools(&pools.drains));
    let shared = pools.shared.into_iter().map(|shared| (shared.bytes_per_s, shared.pools)).collect();
    let of_a_thread = fills.iter().chain(&drains).map(|pool| pool.bytes / f64::from(pool.threads));
    let all: f64 = fills.iter().map(|pool| pool.bytes).sum();
    let chunk = of_a_thread.fold(f64::INFINITY, f64::min) / CHUNKS_OF_A_THREAD;
    let chunk_bytes = chunk.clamp(all / CHUNKS.1, all / CHUNKS.0);
    Transfer { fills, drains, shared, chunk_bytes, buffers_per_thread: 2, pace }
}
