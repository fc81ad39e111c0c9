//! Properties of every plan: more resources never harm, and results are reproducible.

use crate::support::{machine, printed, small, table, with_limit, UNIT};
use numaio_machine::ids::NodeId;
use numaio_model::{evaluate, plan, PlanOptions};
use numaio_schema::{Objective, Plan, PlanProblem, Stage, Transfer};
use proptest::prelude::*;
use std::time::Duration;

fn best(problem: &PlanProblem) -> Plan {
    let plan = plan(problem, &PlanOptions::default()).unwrap_or_else(|error| panic!("{error}: {problem:?}"));
    assert!(plan.proof.optimal && plan.proof.gap < 1e-5, "{:?}", plan.proof);
    plan
}

fn of(problem: &PlanProblem, objective: Objective) -> PlanProblem {
    PlanProblem { objective, ..problem.clone() }
}

#[test]
fn plan_does_not_depend_on_the_number_of_workers() {
    for seed in 0..6 {
        for problem in [printed(3, 5, seed), machine(4, 8, seed), of(&printed(5, 6, seed), Objective::Sum)] {
            let with =
                |workers| plan(&problem, &PlanOptions { workers, ..PlanOptions::default() }).expect("a plan");
            assert_eq!(with(1), with(1));
            assert_eq!(with(1), with(3));
        }
    }
}

#[test]
fn time_limit_returns_a_plan_with_its_proven_gap() {
    let problem = printed(8, 8, 3);
    for time_limit in [Duration::ZERO, Duration::from_millis(300)] {
        let options = PlanOptions { time_limit: Some(time_limit), ..PlanOptions::default() };
        let plan = plan(&problem, &options).expect("a plan");
        assert!(plan.proof.bound_s > 0.0 && plan.proof.bound_s <= plan.proof.value_s, "{:?}", plan.proof);
        let again =
            evaluate(&problem, &plan.storage_paths, &plan.network_paths).expect("it can be carried out");
        assert_eq!(again, plan.predicted);
    }
}

/// The example of docs/internals/planning.md: the sum keeps the two sources apart, the time shares
/// the fast node.
#[test]
fn objectives_yield_different_plans() {
    let reads = [vec![(1.0, 8.0), (0.5, 4.0)], vec![(1.0, 8.0), (0.5, 4.0)]];
    let sends = [vec![(2.0, 16.0), (0.5, 4.0)], vec![(0.0, 0.0), (0.0, 0.0)]];
    let problem = table(&[6, 6], &[100.0, 100.0], &[f64::INFINITY, 0.0], &reads, &sends);
    let (time, sum) = (best(&problem), best(&of(&problem, Objective::Sum)));
    assert!(time.predicted.time_s < sum.predicted.time_s * 0.99, "{:?} {:?}", time.predicted, sum.predicted);
    assert!(sum.predicted.sum_s < time.predicted.sum_s * 0.99, "{:?} {:?}", time.predicted, sum.predicted);
}

#[test]
fn receiving_uses_the_same_paths_backwards() {
    let send = machine(4, 6, 7);
    let receive = PlanProblem { direction: Transfer::Receive, ..send.clone() };
    let (send, receive) = (best(&send), best(&receive));
    assert_eq!((send.storage_paths, send.network_paths), (receive.storage_paths, receive.network_paths));
}

#[test]
fn devices_of_one_node_share_its_paths_and_keep_their_own_bounds() {
    let reads = [vec![(2.0, 20.0)]];
    let mut problem = table(&[8], &[30.0], &[f64::INFINITY], &reads, &reads);
    assert_eq!(best(&problem).predicted.time_s, 30.0 / 8.0);
    let mut second = problem.storage[0].clone();
    second.device = "nvme1n1".to_owned();
    second.bytes_per_s = Some(2.0 * UNIT);
    problem.storage.push(second);
    let plan = best(&problem);
    assert_eq!(plan.predicted.time_s, 15.0);
    let device = Stage::Storage("nvme1n1".to_owned());
    assert!(plan.bottleneck().any(|slow| slow.stage == device), "{:?}", plan.predicted.stages);
    assert_eq!(plan.storage_paths[0].bytes, 60_000_000_000);
}

/// A NIC of 3 GB/s: two threads that read 2 GB/s each and one that sends 4 GB/s suffice, of eight.
#[test]
fn removes_threads_that_are_not_needed() {
    let problem = table(&[8], &[30.0], &[3.0], &[vec![(2.0, 20.0)]], &[vec![(4.0, 20.0)]]);
    let plan = best(&problem);
    assert_eq!((plan.storage_paths[0].threads, plan.network_paths[0].threads), (2, 1));
    assert!((plan.predicted.time_s - 10.0).abs() < 1e-6, "{:?}", plan.predicted);
}

/// Four equal nodes, and a disk that two of them can serve.
#[test]
fn removes_memory_nodes_that_are_not_needed() {
    let row = vec![vec![(1.0, 4.0); 4]];
    let mut problem = table(&[8; 4], &[60.0, 0.0, 0.0, 0.0], &[f64::INFINITY, 0.0, 0.0, 0.0], &row, &row);
    problem.storage[0].bytes_per_s = Some(6.0 * UNIT);
    let plan = best(&problem);
    assert!((plan.predicted.time_s - 10.0).abs() < 1e-6, "{:?}", plan.predicted);
    assert_eq!(plan.storage_paths.len(), 2, "{:?}", plan.storage_paths);
}

#[test]
fn baseline_plans_are_reported_with_their_times() {
    let plan = best(&printed(2, 8, 5));
    assert_eq!(plan.rejected.len(), 2);
    for rejected in &plan.rejected {
        let predicted = rejected.predicted.as_ref().expect("it can be carried out");
        assert!(predicted.time_s >= plan.predicted.time_s * (1.0 - 1e-6), "{rejected:?}");
    }
    let crowded = best(&printed(3, 3, 5));
    assert!(crowded.rejected[1].predicted.is_none() && crowded.rejected[1].reason.contains("3 threads"));
}

fn problems() -> impl Strategy<Value = PlanProblem> {
    (1usize..5, 2u32..6, any::<u64>(), 0..4).prop_map(|(nodes, threads, seed, kind)| match kind {
        0 => machine(nodes, threads, seed),
        1 => with_limit(machine(nodes, threads, seed)),
        2 => small(nodes.min(3), threads.min(4), seed),
        _ => printed(nodes.min(3), threads, seed),
    })
}

fn value(problem: &PlanProblem) -> Option<f64> {
    let plan = plan(problem, &PlanOptions::default()).ok()?;
    assert!(plan.proof.optimal);
    Some(plan.proof.value_s)
}

/// Maps a missing plan to infinity.
fn endless(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::INFINITY)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn more_never_harms(problem in problems(), sum: bool, place: prop::sample::Index, factor in 1.0f64..3.0) {
        let problem = if sum { of(&problem, Objective::Sum) } else { problem };
        let before = endless(value(&problem));
        let mut more = problem.clone();
        let node = place.index(more.nodes.len());
        more.nodes[node].threads = more.nodes[node].threads.map(|threads| threads + 1);
        prop_assert!(endless(value(&more)) <= before * (1.0 + 1e-6), "a thread more on node {node}");
        let mut more = problem.clone();
        let ways = more.storage_paths.len() + more.network_paths.len();
        let way = place.index(ways);
        let way = more.storage_paths.iter_mut().chain(&mut more.network_paths).nth(way).expect("within");
        way.thread_bytes_per_s *= factor;
        way.max_bytes_per_s *= factor;
        prop_assert!(endless(value(&more)) <= before * (1.0 + 1e-6), "a faster way");
        let mut more = problem.clone();
        for limit in &mut more.limits {
            limit.bytes_per_s *= factor;
        }
        for nic in &mut more.nics {
            nic.bytes_per_s = nic.bytes_per_s.map(|rate| rate * factor);
        }
        prop_assert!(endless(value(&more)) <= before * (1.0 + 1e-6), "wider links and NICs");
    }

    #[test]
    fn data_scales_time(problem in problems(), sum: bool, times in 2u64..50) {
        let problem = if sum { of(&problem, Objective::Sum) } else { problem };
        let mut larger = problem.clone();
        for storage in &mut larger.storage {
            storage.bytes *= times;
        }
        if let (Some(one), Some(many)) = (value(&problem), value(&larger)) {
            prop_assert!((many / one / times as f64 - 1.0).abs() < 1e-5, "{one} {many} {times}");
        } else {
            prop_assert_eq!(value(&problem), value(&larger));
        }
    }

    /// Node IDs do not matter.
    #[test]
    fn renamed_nodes_give_the_same_value(problem in problems(), sum: bool) {
        let problem = if sum { of(&problem, Objective::Sum) } else { problem };
        let last = problem.nodes.len() as u32 - 1;
        let swap = |node: &mut NodeId| *node = NodeId(last - node.0);
        let mut other = problem.clone();
        other.nodes.iter_mut().for_each(|node| swap(&mut node.node));
        other.storage.iter_mut().for_each(|storage| swap(&mut storage.node));
        other.nics.iter_mut().for_each(|nic| swap(&mut nic.node));
        for way in other.storage_paths.iter_mut().chain(&mut other.network_paths) {
            swap(&mut way.device_node);
            swap(&mut way.memory_node);
        }
        for limit in &mut other.limits {
            for way in limit.storage_paths.iter_mut().chain(&mut limit.network_paths) {
                swap(&mut way.device_node);
                swap(&mut way.memory_node);
            }
        }
        let (one, two) = (endless(value(&problem)), endless(value(&other)));
        prop_assert!(one == two || (one / two - 1.0).abs() < 1e-5, "{one} {two}");
    }

    /// On a machine with equal nodes no choice of nodes is better: n nodes with equal data take the
    /// time of one node.
    #[test]
    fn a_symmetric_machine_costs_what_one_node_costs(nodes in 2usize..4, threads in 2u32..8, local in 1.0f64..3.0, far in 0.1f64..1.0) {
        let rows = |nodes: usize| -> Vec<Vec<(f64, f64)>> {
            let rate = |here: bool| if here { (local, local * 16.0) } else { (local * far, local * far * 16.0) };
            (0..nodes).map(|device| (0..nodes).map(|memory| rate(device == memory)).collect()).collect()
        };
        let of = |nodes: usize| table(&vec![threads; nodes], &vec![50.0; nodes], &vec![f64::INFINITY; nodes], &rows(nodes), &rows(nodes));
        let (one, all) = (best(&of(1)), best(&of(nodes)));
        // Even thread counts leave no gain from other nodes; the remainders of odd ones can be
        // combined.
        prop_assert!(all.proof.value_s <= one.proof.value_s * (1.0 + 1e-6));
        if threads % 2 == 0 {
            prop_assert!((all.proof.value_s / one.proof.value_s - 1.0).abs() < 1e-6);
        }
    }
}
