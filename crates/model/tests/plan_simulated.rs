//! Plans carried out by the simulator, which knows nothing of planning, chunk by chunk.

mod plan_support;

use numaio_machine::ids::NodeId;
use numaio_model::{plan, PlanOptions};
use numaio_schema::{Plan, PlanProblem, PlannedWay, Transfer as Direction, WayId, WayRates};
use numaio_sim::execute::{execute, Pace, ThreadPool, Transfer};
use plan_support::{machine, printed, small};
use std::time::Duration;

/// What the simulator is told of a plan: threads, bytes and the bandwidths of the problem, not what is predicted.
fn transfer(plan: &Plan) -> Transfer {
    let problem = &plan.problem;
    let pools = |ways: &[PlannedWay], rates: &[WayRates]| -> Vec<ThreadPool> {
        let pool = |way: &PlannedWay| {
            let rates = rates.iter().find(|rates| rates.id() == way.id()).expect("a way of the problem");
            ThreadPool {
                node: way.memory_node.0 as usize,
                threads: way.threads,
                thread_bytes_per_s: rates.thread_bytes_per_s,
                most_bytes_per_s: rates.most_bytes_per_s,
                bytes: way.bytes as f64,
            }
        };
        ways.iter().map(pool).collect()
    };
    let storage = pools(&plan.storage_ways, &problem.storage_ways);
    let network = pools(&plan.network_ways, &problem.network_ways);
    let receive = problem.direction == Direction::Receive;
    let first_storage = if receive { network.len() } else { 0 };
    let first_network = if receive { 0 } else { storage.len() };
    let numbers = |ways: &[PlannedWay], first: usize, of: &dyn Fn(WayId) -> bool| -> Vec<usize> {
        (0..ways.len()).filter(|number| of(ways[*number].id())).map(|number| first + number).collect()
    };
    let mut shared = Vec::new();
    for node in problem.nodes.iter().map(|node| node.node) {
        let of_node = |way: WayId| way.device_node == node;
        let nics = problem
            .nics
            .iter()
            .filter(|nic| nic.node == node)
            .map(|nic| nic.bytes_per_s.unwrap_or(f64::INFINITY));
        shared.push((nics.sum(), numbers(&plan.network_ways, first_network, &of_node)));
        shared.push((storage_rate(problem, node), numbers(&plan.storage_ways, first_storage, &of_node)));
    }
    for limit in &problem.limits {
        let mut ways = numbers(&plan.storage_ways, first_storage, &|way| limit.storage_ways.contains(&way));
        ways.extend(numbers(&plan.network_ways, first_network, &|way| limit.network_ways.contains(&way)));
        shared.push((limit.bytes_per_s, ways));
    }
    let (fills, drains) = if receive { (network, storage) } else { (storage, network) };
    let least = fills.iter().chain(&drains).map(|pool| pool.bytes / f64::from(pool.threads));
    let all: f64 = fills.iter().map(|pool| pool.bytes).sum();
    // Every thread has many chunks, so that the last one does not matter.
    let chunk_bytes = (least.fold(f64::INFINITY, f64::min) / 20.0).clamp(all / 20_000.0, all / 2_000.0);
    Transfer { fills, drains, shared, chunk_bytes, buffers_per_thread: 2, pace: Pace::InStep { ahead: 0.01 } }
}

/// All devices of a node are read in step with their data, so the one with most to do holds them all.
fn storage_rate(problem: &PlanProblem, node: NodeId) -> f64 {
    let own = || problem.storage.iter().filter(|storage| storage.node == node && storage.bytes > 0);
    let bytes: f64 = own().map(|storage| storage.bytes as f64).sum();
    let longest = own().map(|storage| storage.bytes as f64 / storage.bytes_per_s.unwrap_or(f64::INFINITY));
    bytes / longest.fold(0.0, f64::max)
}

fn ratio(problem: &PlanProblem) -> f64 {
    let options = PlanOptions { time_limit: Some(Duration::from_secs(2)), ..PlanOptions::default() };
    let plan = plan(problem, &options).expect("a plan");
    execute(&transfer(&plan)).expect("an end").seconds / plan.predicted.time_s
}

#[test]
fn plans_take_what_is_predicted() {
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
