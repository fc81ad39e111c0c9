//! Baseline plans, as made by hand, to compare the best plan with.

use super::instance::{Assignment, Instance};
use numaio_schema::SimpleRule;

/// Reason why a baseline plan is infeasible.
pub(crate) type Infeasible = String;

/// Returns the best plan that a rule allows.
pub(crate) fn simple(instance: &Instance, rule: SimpleRule) -> Result<Assignment, Infeasible> {
    match rule {
        SimpleRule::AllLocal => all_local(instance),
        SimpleRule::EvenSpread => even_spread(instance),
    }
}

/// Data passes through the memory of its own node to a local NIC, or else to the NIC that its
/// threads reach fastest. Threads are split optimally between storage and network.
fn all_local(instance: &Instance) -> Result<Assignment, Infeasible> {
    let mut threads = vec![0; instance.paths.len()];
    let mut amounts = vec![0.0; instance.paths.len()];
    for (source, (node, amount)) in instance.sources.iter().enumerate() {
        let local = |path: &usize| {
            instance.paths[*path].end == source && instance.paths[*path].id.memory_node == *node
        };
        let read = (0..instance.reads).find(local);
        let read =
            read.ok_or_else(|| format!("data on node {node} cannot go through the memory of node {node}"))?;
        let via = instance.paths[read].via;
        let all = instance.vias[via].1;
        let reach = |send: &usize| {
            let path = &instance.paths[*send];
            (path.id.device_node == *node, path.rate(all - 1))
        };
        let send = instance.sends_at(via).max_by(|a, b| {
            let (a, b) = (reach(a), reach(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let send = send.ok_or_else(|| format!("no NIC is reached from node {node}"))?;
        let (reads, sends) = (&instance.paths[read], &instance.paths[send]);
        let slower = |split: &u32| reads.rate(*split).min(sends.rate(all - split));
        let split = (1..all).rev().max_by(|a, b| slower(a).total_cmp(&slower(b))).unwrap_or(1);
        threads[read] = split.min(reads.most_threads);
        threads[send] = (all - split).min(sends.most_threads);
        amounts[read] = *amount;
        amounts[send] = *amount;
    }
    Ok(Assignment { threads, amounts })
}

/// The data of each source is spread evenly over all reachable nodes, from each of those evenly to
/// all reachable NICs, and the threads of a node evenly over its paths.
fn even_spread(instance: &Instance) -> Result<Assignment, Infeasible> {
    let mut threads = vec![0; instance.paths.len()];
    for (via, (node, all)) in instance.vias.iter().enumerate() {
        let paths: Vec<usize> = instance.reads_at(via).chain(instance.sends_at(via)).collect();
        if (*all as usize) < paths.len() {
            return Err(format!("node {node} has {} paths to serve but only {all} threads", paths.len()));
        }
        for (place, path) in paths.iter().enumerate() {
            let even = all / paths.len() as u32 + u32::from(place < *all as usize % paths.len());
            threads[*path] = even.min(instance.paths[*path].most_threads);
        }
    }
    let even = vec![1.0; instance.paths.len()];
    instance.assignment(threads, &even).ok_or_else(|| "some data has no path".to_owned())
}
