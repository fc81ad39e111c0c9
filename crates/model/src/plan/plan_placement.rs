//! Placement of a program by the plan of a transfer: as many cores per memory node as threads.

use crate::placement::{task_of, usable_nodes, FreeCore, FreeCores, Ranking};
use crate::{PlacementChoice, TargetDevice};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_schema::{Basis, PlacementRequest, PlacementTarget, Plan, PlannedPath, RejectedNode};
use std::collections::BTreeSet;

/// Error of placing a plan on a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanPlacementError {
    /// A node of the plan does not exist or is not usable.
    #[error("the plan runs threads on node {0}, which has no cores and memory that this process may use")]
    NoNode(NodeId),
    /// The plan runs no thread.
    #[error("the plan runs no thread")]
    NoThread,
}

/// Places one program on the cores of a plan: on each memory node as many as the plan has threads
/// there, interrupt-handling cores of its devices last, with memory preferred on the same nodes.
/// `near` are the plan's devices on this machine.
///
/// # Errors
/// [`PlanPlacementError`].
pub fn place_plan(
    topology: &Topology,
    plan: &Plan,
    near: &[TargetDevice],
) -> Result<PlacementChoice, PlanPlacementError> {
    let usable = usable_nodes(topology);
    let paths = plan.storage_paths.iter().chain(&plan.network_paths);
    let memories: BTreeSet<NodeId> = paths.map(|path| path.memory_node).collect();
    // The plan has decided which nodes are best for its devices.
    let share = 1.0 / near.len() as f64;
    let targets: Vec<PlacementTarget> = near.iter().map(|one| one.target(share, unranked())).collect();
    let cores = FreeCores::new(topology, &usable, &targets, &PlacementRequest::default());
    let mut chosen = PlacementChoice {
        targets,
        tasks: Vec::new(),
        reasons: Vec::new(),
        rejected: Vec::new(),
        compromises: Vec::new(),
    };
    let mut taken = Vec::new();
    for node in &memories {
        if !usable.contains(*node) {
            return Err(PlanPlacementError::NoNode(*node));
        }
        taken.extend(of_node(&cores, plan, *node, &mut chosen));
    }
    if taken.is_empty() {
        return Err(PlanPlacementError::NoThread);
    }
    chosen.tasks.push(task_of(None, &taken));
    chosen.rejected = usable
        .iter()
        .filter(|node| !memories.contains(node))
        .map(|node| RejectedNode { node, reason: "the plan runs no thread there".to_owned() })
        .collect();
    Ok(chosen)
}

/// Chooses the cores of one memory node, and adds compromises and reasons.
fn of_node(cores: &FreeCores, plan: &Plan, node: NodeId, chosen: &mut PlacementChoice) -> Vec<FreeCore> {
    let threads = plan.threads_on(node) as usize;
    let mut own = cores.of_nodes(&NodeSet::one(node));
    own.sort_by_key(|core| core.serves_irqs);
    if own.len() < threads {
        chosen.compromises.push(format!(
            "the plan runs {threads} threads on node {node} but this process may use only {} of its cores: threads share them",
            own.len()
        ));
    }
    own.truncate(threads);
    let served = own.iter().filter(|core| core.serves_irqs).count();
    if served > 0 {
        chosen
            .compromises
            .push(format!("{served} of the cores of node {node} serve interrupts of the devices too"));
    }
    let of = |paths: &[PlannedPath]| -> u32 {
        paths.iter().filter(|path| path.memory_node == node).map(|path| path.threads).sum()
    };
    let (storage, network) = (of(&plan.storage_paths), of(&plan.network_paths));
    chosen.reasons.push(format!(
        "node {node}: {} of its cores, as the plan runs {threads} threads there, {storage} for storage and {network} for the network",
        own.len()
    ));
    own
}

/// A plan of a transfer ranks no nodes.
fn unranked() -> Ranking {
    Ranking { basis: Basis::Nothing, nodes: Vec::new(), expected: Vec::new(), latency: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::machine;
    use crate::{plan, PlanOptions};
    use numaio_machine::set::CpuSet;
    use numaio_schema::{
        Objective, PathRates, PlanNic, PlanNode, PlanProblem, PlanStorage, Transfer, PLAN_PROBLEM_SCHEMA,
    };

    /// Data on node 0, two paths into two memories, a NIC on node 0: both memories are needed.
    fn planned(threads: u32) -> Plan {
        let path = |memory: u32, rate: f64| PathRates {
            device_node: NodeId(0),
            memory_node: NodeId(memory),
            thread_bytes_per_s: rate,
            max_bytes_per_s: rate * 8.0,
            origin: numaio_schema::RateOrigin::Given,
        };
        let problem = PlanProblem {
            schema: PLAN_PROBLEM_SCHEMA.to_owned(),
            direction: Transfer::Send,
            objective: Objective::Time,
            threads_per_node: threads,
            no_threads_on: Vec::new(),
            assumptions: Vec::new(),
            machine: None,
            nodes: (0..2).map(|node| PlanNode { node: NodeId(node), threads: None, reserved: 0 }).collect(),
            storage: vec![PlanStorage {
                device: "d".into(),
                node: NodeId(0),
                bytes: 1 << 40,
                bytes_per_s: None,
            }],
            nics: vec![PlanNic { device: "n".into(), node: NodeId(0), bytes_per_s: None }],
            storage_paths: vec![path(0, 1e9), path(1, 1e9)],
            network_paths: vec![path(0, 1e9), path(1, 1e9)],
            limits: Vec::new(),
        };
        plan(&problem, &PlanOptions::default()).expect("a plan")
    }

    fn near(irqs: &str) -> TargetDevice {
        TargetDevice {
            handle: "n".into(),
            chain: Vec::new(),
            device: "n".into(),
            node: Some(NodeId(0)),
            irq_cpus: CpuSet::parse_list(irqs).expect("a list"),
            bytes_per_s: None,
            has_unknown_share: false,
        }
    }

    fn chosen(plan: &Plan, irqs: &str) -> PlacementChoice {
        place_plan(&machine(3, 4), plan, &[near(irqs)]).expect("a place")
    }

    #[test]
    fn each_memory_node_contributes_one_core_per_thread() {
        let plan = planned(2);
        assert_eq!((plan.threads_on(NodeId(0)), plan.threads_on(NodeId(1))), (2, 2));
        let chosen = chosen(&plan, "");
        // Cores 0 to 3 of node 0; siblings differ by 12 CPUs.
        assert_eq!(chosen.tasks[0].cpus, CpuSet::parse_list("0-1,4-5,12-13,16-17").expect("a list"));
        assert_eq!(chosen.tasks[0].memory.nodes, [NodeId(0), NodeId(1)].into_iter().collect());
        assert_eq!(chosen.rejected.len(), 1, "{:?}", chosen.rejected);
        assert!(chosen.compromises.is_empty() && chosen.reasons.len() == 2, "{chosen:?}");
    }

    #[test]
    fn interrupt_cores_come_last_and_missing_cores_are_reported() {
        let chosen_quiet = chosen(&planned(2), "0-1");
        assert_eq!(chosen_quiet.tasks[0].cpus, CpuSet::parse_list("2-3,4-5,14-17").expect("a list"));
        let crowded = chosen(&planned(8), "0");
        assert_eq!(crowded.tasks[0].cpus, CpuSet::parse_list("0-7,12-19").expect("a list"));
        let compromises = crowded.compromises.join("\n");
        assert!(
            compromises.contains("8 threads on node 0 but this process may use only 4")
                && compromises.contains("serve interrupts"),
            "{compromises}"
        );
    }

    #[test]
    fn plan_with_missing_nodes_has_no_placement() {
        let none = place_plan(&machine(1, 4), &planned(2), &[]);
        assert_eq!(none, Err(PlanPlacementError::NoNode(NodeId(1))));
        let mut idle = planned(2);
        idle.storage_paths.clear();
        idle.network_paths.clear();
        assert_eq!(place_plan(&machine(1, 4), &idle, &[]), Err(PlanPlacementError::NoThread));
    }
}
