//! Execution of plans, chunk by chunk, by the simulator, which shares no code with planning.

use crate::support::{machine, printed, recorded, small};
use numaio_model::{plan, PlanOptions};
use numaio_schema::{Plan, PlanProblem, PlannedPool, Transfer as Direction};
use numaio_sim::execute::{execute, Pace, ThreadPool, Transfer};
use std::time::Duration;

/// Converts a plan for the simulator: threads, bytes and the bandwidths of the problem, without the
/// prediction.
fn transfer(plan: &Plan) -> Transfer {
    let pools = plan.pools();
    let pools_of = |pools: &[PlannedPool]| -> Vec<ThreadPool> {
        let pool = |pool: &PlannedPool| ThreadPool {
            node: pool.path.memory_node.0 as usize,
            threads: pool.threads,
            thread_bytes_per_s: pool.thread_bytes_per_s,
            max_bytes_per_s: pool.max_bytes_per_s,
            bytes: pool.bytes as f64,
        };
        pools.iter().map(pool).collect()
    };
    let (fills, drains) = (pools_of(&pools.fills), pools_of(&pools.drains));
    let shared = pools.shared.into_iter().map(|shared| (shared.bytes_per_s, shared.pools)).collect();
    let least = fills.iter().chain(&drains).map(|pool| pool.bytes / f64::from(pool.threads));
    let all: f64 = fills.iter().map(|pool| pool.bytes).sum();
    // Every thread has many chunks, so that the last one is negligible.
    let chunk_bytes = (least.fold(f64::INFINITY, f64::min) / 20.0).clamp(all / 20_000.0, all / 2_000.0);
    Transfer { fills, drains, shared, chunk_bytes, buffers_per_thread: 2, pace: Pace::InStep { ahead: 0.01 } }
}

fn ratio(problem: &PlanProblem) -> f64 {
    let options = PlanOptions { time_limit: Some(Duration::from_secs(2)), ..PlanOptions::default() };
    let plan = plan(problem, &options).expect("a plan");
    execute(&transfer(&plan)).expect("an end").seconds / plan.predicted.time_s
}

#[test]
fn simulated_time_matches_the_prediction() {
    let mut far = Vec::new();
    for seed in 0..8 {
        let problems = [machine(4, 8, seed), machine(8, 8, seed), printed(3, 6, seed), small(3, 4, seed)];
        for (kind, mut problem) in problems.into_iter().enumerate() {
            for direction in [Direction::Send, Direction::Receive] {
                problem.direction = direction;
                let ratio = ratio(&problem);
                if !(0.999..1.05).contains(&ratio) {
                    far.push((kind, seed, direction, ratio));
                }
            }
        }
    }
    assert!(far.is_empty(), "{far:?}");
}

/// Returns the simulated time with the given kind of sharing.
fn simulated(plan: &Plan, pace: Pace) -> f64 {
    execute(&Transfer { pace, ..transfer(plan) }).expect("an end").seconds
}

#[test]
fn plans_are_at_least_as_good_as_baselines() {
    for (name, problem) in recorded() {
        let plan = plan(&problem, &PlanOptions::default()).expect("a plan");
        let in_step = Pace::InStep { ahead: 0.01 };
        let own = simulated(&plan, in_step);
        for rejected in &plan.rejected {
            let (storage_paths, network_paths) =
                (rejected.storage_paths.clone(), rejected.network_paths.clone());
            let simple = Plan { storage_paths, network_paths, ..plan.clone() };
            let taken = simulated(&simple, in_step).min(simulated(&simple, Pace::Free));
            assert!(own < taken, "{name}: {own} s, {:?} {taken} s", rejected.rule);
        }
    }
}
