//! The problem of a machine: what is known of its ways, and what has to be assumed.

use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{
    IoRecord, Model, Objective, PlanNic, PlanNode, PlanProblem, PlanStorage, RateOrigin, Transfer, WayRates,
    PLAN_PROBLEM_SCHEMA,
};
use std::collections::BTreeSet;

/// Bytes per second that one thread moves where nothing else is known: what a core copies with cold caches, from
/// memory of its own node, on machines of the last ten years.
pub const THREAD_BYTES_PER_S: f64 = 2e9;

/// What is to be moved, with what.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRequest {
    /// Which way.
    pub direction: Transfer,
    /// What is to be least.
    pub objective: Objective,
    /// Threads of both kinds on each node; none for as many as it has cores that this process may use.
    pub threads_per_node: Option<u32>,
    /// Nodes on which no thread may run.
    pub no_threads_on: Vec<NodeId>,
    /// Cores kept free on nodes.
    pub reserved: Vec<(NodeId, u32)>,
    /// Storage, with the bytes on it or for it.
    pub storage: Vec<PlanStorage>,
    /// NICs.
    pub nics: Vec<PlanNic>,
    /// Bytes per second of one thread where it was not measured; none to assume [`THREAD_BYTES_PER_S`].
    pub thread_bytes_per_s: Option<f64>,
}

/// A device of which no bandwidth is known at all: nothing was measured or modelled, and it tells no speed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bandwidth of {0} is not known: it tells no speed, and nothing was measured or modelled")]
pub struct UnknownBandwidth(pub String);

/// Puts what is known of a machine into a problem; every figure that is not known is assumed, and said.
///
/// # Errors
/// [`UnknownBandwidth`]: there is nothing to begin with.
pub fn plan_problem(
    topology: &Topology,
    request: PlanRequest,
    models: &[&Model],
    measured: &[&IoRecord],
) -> Result<PlanProblem, UnknownBandwidth> {
    let nodes: Vec<NodeId> = topology
        .nodes
        .iter()
        .filter(|node| node.memory.is_some() && node.memory_allowed && !topology.cores(node.id).is_empty())
        .map(|node| node.id)
        .collect();
    let (from_storage, to_network) = match request.direction {
        Transfer::Send => (Direction::Read, Direction::Write),
        Transfer::Receive => (Direction::Write, Direction::Read),
    };
    let mut known =
        Known { models, measured, thread: request.thread_bytes_per_s, assumptions: BTreeSet::new() };
    let storage = request.storage.iter().map(|it| (it.device.as_str(), it.node, it.bytes_per_s)).collect();
    let nics = request.nics.iter().map(|it| (it.device.as_str(), it.node, it.bytes_per_s)).collect();
    let storage_ways = known.ways(&nodes, storage, from_storage)?;
    let network_ways = known.ways(&nodes, nics, to_network)?;
    let plan_node = |node: &NodeId| PlanNode {
        node: *node,
        threads: Some(request.threads_per_node.unwrap_or(topology.cores(*node).len() as u32)),
        reserved: request.reserved.iter().filter(|(one, _)| one == node).map(|(_, cores)| *cores).sum(),
    };
    Ok(PlanProblem {
        schema: PLAN_PROBLEM_SCHEMA.to_owned(),
        direction: request.direction,
        objective: request.objective,
        threads_per_node: request.threads_per_node.unwrap_or(1),
        no_threads_on: request.no_threads_on,
        assumptions: known.assumptions.into_iter().collect(),
        machine: Some(topology.identity.clone()),
        nodes: nodes.iter().map(plan_node).collect(),
        storage: request.storage,
        nics: request.nics,
        storage_ways,
        network_ways,
        limits: Vec::new(),
    })
}

/// What is known of bandwidths.
struct Known<'a> {
    models: &'a [&'a Model],
    measured: &'a [&'a IoRecord],
    thread: Option<f64>,
    assumptions: BTreeSet<String>,
}

impl Known<'_> {
    /// Ways between the devices, together those of a node, and the memory of every node.
    fn ways(
        &mut self,
        nodes: &[NodeId],
        devices: Vec<(&str, NodeId, Option<f64>)>,
        direction: Direction,
    ) -> Result<Vec<WayRates>, UnknownBandwidth> {
        let homes: BTreeSet<NodeId> = devices.iter().map(|(_, node, _)| *node).collect();
        let mut ways = Vec::new();
        for device_node in homes {
            let here: Vec<(&str, Option<f64>)> = devices
                .iter()
                .filter(|(_, node, _)| *node == device_node)
                .map(|(name, _, most)| (*name, *most))
                .collect();
            for memory_node in nodes {
                ways.push(self.way(device_node, *memory_node, &here, direction)?);
            }
        }
        Ok(ways)
    }

    fn way(
        &mut self,
        device_node: NodeId,
        memory_node: NodeId,
        devices: &[(&str, Option<f64>)],
        direction: Direction,
    ) -> Result<WayRates, UnknownBandwidth> {
        let way = |thread: f64, most: f64, origin| WayRates {
            device_node,
            memory_node,
            thread_bytes_per_s: thread.min(most),
            most_bytes_per_s: most,
            origin,
        };
        let measured: Option<Vec<(f64, f64)>> =
            devices.iter().map(|(name, _)| self.measured(name, memory_node, direction)).collect();
        if let Some(rates) = measured.filter(|rates| !rates.is_empty()) {
            let most = rates.iter().map(|(_, most)| most).sum();
            let thread = rates.iter().map(|(thread, _)| *thread).fold(f64::INFINITY, f64::min);
            return Ok(way(thread, most, RateOrigin::Measured));
        }
        let thread = self.thread_rate();
        let capacity: Option<f64> = devices.iter().map(|(_, most)| *most).sum();
        match (self.modelled(device_node, memory_node, direction), capacity) {
            (Some(copied), capacity) => {
                Ok(way(thread, copied.min(capacity.unwrap_or(f64::INFINITY)), RateOrigin::Modelled))
            }
            (None, Some(capacity)) => {
                self.assumptions.insert(format!(
                    "every node reaches the devices of node {device_node} at their full bandwidth ({}): no model of it is saved (numaio model)",
                    direction.name()
                ));
                Ok(way(thread, capacity, RateOrigin::Assumed))
            }
            (None, None) => {
                let unknown = devices.iter().find(|(_, most)| most.is_none());
                Err(UnknownBandwidth(unknown.map_or_else(String::new, |(name, _)| (*name).to_owned())))
            }
        }
    }

    fn thread_rate(&mut self) -> f64 {
        self.thread.unwrap_or_else(|| {
            self.assumptions.insert(format!(
                "one thread moves {:.1} GB/s wherever its device was not measured (--thread-bandwidth says otherwise, numaio bench measures it)",
                THREAD_BYTES_PER_S / 1e9
            ));
            THREAD_BYTES_PER_S
        })
    }

    /// One stream's bandwidth and the best of any number of streams, with buffers and CPUs on a node.
    fn measured(&self, device: &str, node: NodeId, direction: Direction) -> Option<(f64, f64)> {
        let records = self.measured.iter().filter(|record| record.device.name == device);
        let cells = records
            .flat_map(|record| &record.cells)
            .filter(|cell| cell.placement() == Some((node, node, direction)));
        let figures: Vec<(u32, f64)> =
            cells.filter_map(|cell| Some((cell.streams(), cell.bytes_per_s.median()?))).collect();
        let best = |figures: &mut dyn Iterator<Item = f64>| figures.max_by(f64::total_cmp);
        let one = best(&mut figures.iter().filter(|(streams, _)| *streams == 1).map(|(_, rate)| *rate))?;
        let most = best(&mut figures.iter().map(|(_, rate)| *rate))?;
        Some((one, most))
    }

    /// What the copy model says between devices on a node and the memory of another.
    fn modelled(&self, target: NodeId, node: NodeId, direction: Direction) -> Option<f64> {
        let of = |model: &Model| {
            let target = model.targets.iter().find(|model| model.target == target)?;
            let model = target.directions.iter().find(|model| model.direction == direction)?;
            model.nodes.iter().find(|seen| seen.node == node).map(|seen| seen.bytes_copied_per_s)
        };
        self.models.iter().find_map(|model| of(model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::tests::{cell, record};
    use crate::placement::tests::machine;
    use crate::{fit, plan, PlanOptions, Rule};

    fn request() -> PlanRequest {
        PlanRequest {
            direction: Transfer::Send,
            objective: Objective::Time,
            threads_per_node: None,
            no_threads_on: Vec::new(),
            reserved: vec![(NodeId(1), 2)],
            storage: vec![PlanStorage {
                device: "nvme0n1".into(),
                node: NodeId(0),
                bytes: 1 << 40,
                bytes_per_s: Some(7e9),
            }],
            nics: vec![PlanNic { device: "eth0".into(), node: NodeId(1), bytes_per_s: Some(12e9) }],
            thread_bytes_per_s: None,
        }
    }

    #[test]
    fn what_is_not_known_is_assumed_aloud_and_can_be_planned() {
        let problem = plan_problem(&machine(2, 4), request(), &[], &[]).expect("a problem");
        assert_eq!((problem.storage_ways.len(), problem.network_ways.len()), (2, 2));
        assert!(problem.storage_ways.iter().all(|way| way.origin == RateOrigin::Assumed));
        assert_eq!(problem.assumptions.len(), 3, "{:?}", problem.assumptions);
        assert_eq!((problem.nodes[1].threads, problem.nodes[1].reserved), (Some(4), 2));
        let plan = plan(&problem, &PlanOptions::default()).expect("a plan");
        assert!(
            plan.proof.optimal && (plan.predicted.bytes_per_s / 7e9 - 1.0).abs() < 0.2,
            "{:?}",
            plan.predicted
        );
    }

    #[test]
    fn a_model_tells_directions_apart() {
        let topology = machine(2, 4);
        let cells = vec![
            cell(0, 0, 0, Some(9e9)),
            cell(1, 0, 0, Some(5e9)), // device write from node 1
            cell(0, 1, 0, Some(6e9)), // device read into node 1
        ];
        let model = fit(record(cells), &topology, Rule::default());
        let problem = plan_problem(&topology, request(), &[&model], &[]).expect("a problem");
        let most: Vec<f64> = problem.storage_ways.iter().map(|way| way.most_bytes_per_s).collect();
        assert_eq!(most, [7e9, 6e9], "reading from storage is a device read, and the device bounds it");
        assert_eq!(problem.network_ways[0].origin, RateOrigin::Assumed, "no model of the NIC's node");
        let back = PlanRequest { direction: Transfer::Receive, ..request() };
        let back = plan_problem(&topology, back, &[&model], &[]).expect("a problem");
        assert_eq!(back.storage_ways[1].most_bytes_per_s, 5e9);
        let mut mute = request();
        mute.nics[0].bytes_per_s = None;
        let unknown = plan_problem(&topology, mute, &[], &[]);
        assert_eq!(unknown, Err(UnknownBandwidth("eth0".into())));
    }
}
