//! Planning problem of a machine, from measurements and assumptions.

use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{
    IoEngine, IoRecord, Model, Objective, PathRates, PlanNic, PlanNode, PlanProblem, PlanStorage, RateOrigin,
    Transfer, PLAN_PROBLEM_SCHEMA,
};
use std::collections::BTreeSet;

/// Assumed bandwidth of one thread without measurements: that of copying with cold caches from
/// local memory on one core, on machines of the last ten years.
pub const THREAD_BYTES_PER_S: f64 = 2e9;

/// Request for a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRequest {
    /// Direction of the transfer.
    pub direction: Transfer,
    /// Objective to minimize.
    pub objective: Objective,
    /// Total threads per node, or `None` for the number of usable cores.
    pub threads_per_node: Option<u32>,
    /// Nodes on which no thread may run.
    pub no_threads_on: Vec<NodeId>,
    /// Cores kept free on nodes.
    pub reserved: Vec<(NodeId, u32)>,
    /// Storage devices, with the bytes to read or write.
    pub storage: Vec<PlanStorage>,
    /// NICs.
    pub nics: Vec<PlanNic>,
    /// Bandwidth of one thread if not measured, or `None` for [`THREAD_BYTES_PER_S`].
    pub thread_bytes_per_s: Option<f64>,
}

/// Error of deriving a problem from a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanProblemError {
    /// The bandwidth of a device is unknown.
    #[error("unknown bandwidth of '{0}': it reports no speed, and was neither measured nor modeled")]
    UnknownBandwidth(String),
    /// A requirement names a missing node.
    #[error("{what} node {node}, which does not exist on this machine")]
    NoNode {
        /// The requirement, ending with `on`.
        what: &'static str,
        /// The node.
        node: NodeId,
    },
}

/// Derives a problem from the data about a machine; assumptions are recorded for unknown values.
///
/// # Errors
/// [`PlanProblemError`]: a device's bandwidth is unknown, or a named node does not exist.
pub fn plan_problem(
    topology: &Topology,
    request: PlanRequest,
    models: &[&Model],
    measured: &[&IoRecord],
) -> Result<PlanProblem, PlanProblemError> {
    check_nodes(topology, &request)?;
    // Threads run where their buffers are.
    let usable = topology.nodes.iter().filter(|node| node.has_memory() && node.memory_allowed);
    let vias: Vec<NodeId> =
        usable.map(|node| node.id).filter(|node| !topology.cores(*node).is_empty()).collect();
    let (from_storage, to_network) = match request.direction {
        Transfer::Send => (Direction::Read, Direction::Write),
        Transfer::Receive => (Direction::Write, Direction::Read),
    };
    let mut known =
        Known { models, measured, thread: request.thread_bytes_per_s, assumptions: BTreeSet::new() };
    let storage = request.storage.iter().map(|it| (it.device.as_str(), it.node, it.bytes_per_s)).collect();
    let nics = request.nics.iter().map(|it| (it.device.as_str(), it.node, it.bytes_per_s)).collect();
    let storage_paths = known.paths(&vias, storage, from_storage)?;
    let network_paths = known.paths(&vias, nics, to_network)?;
    if vias.len() > 1 {
        known.assumptions.insert(LINKS.to_owned());
    }
    Ok(PlanProblem {
        schema: PLAN_PROBLEM_SCHEMA.to_owned(),
        direction: request.direction,
        objective: request.objective,
        threads_per_node: request.threads_per_node.unwrap_or(1),
        no_threads_on: request.no_threads_on.iter().copied().filter(|node| vias.contains(node)).collect(),
        assumptions: known.assumptions.into_iter().collect(),
        machine: Some(topology.identity.clone()),
        nodes: plan_nodes(topology, &request, &vias),
        storage: request.storage,
        nics: request.nics,
        storage_paths,
        network_paths,
        limits: Vec::new(),
    })
}

/// Assumption that no measurement can replace.
const LINKS: &str = "paths between different nodes are independent: shared links are unknown (limits in a problem file define them)";

fn check_nodes(topology: &Topology, request: &PlanRequest) -> Result<(), PlanProblemError> {
    let pins = request.no_threads_on.iter().map(|node| ("no threads may run on", *node));
    let reserved = request.reserved.iter().map(|(node, _)| ("cores are reserved on", *node));
    match pins.chain(reserved).find(|(_, node)| topology.node(*node).is_none()) {
        Some((what, node)) => Err(PlanProblemError::NoNode { what, node }),
        None => Ok(()),
    }
}

/// Returns the nodes that may run threads, and the nodes of devices.
fn plan_nodes(topology: &Topology, request: &PlanRequest, vias: &[NodeId]) -> Vec<PlanNode> {
    let devices = request.storage.iter().map(|it| it.node).chain(request.nics.iter().map(|it| it.node));
    let nodes: BTreeSet<NodeId> = devices.chain(vias.iter().copied()).collect();
    let reserved = |node: NodeId| -> u32 {
        let own = request.reserved.iter().filter(|(one, _)| *one == node);
        own.map(|(_, cores)| *cores).fold(0, u32::saturating_add)
    };
    let plan_node = |node: NodeId| {
        let able = vias.contains(&node);
        let cores = || topology.cores(node).len() as u32;
        let threads = if able { request.threads_per_node.unwrap_or_else(cores) } else { 0 };
        // A pinned node has no thread count, which would contradict the pin.
        let pinned = request.no_threads_on.contains(&node) && able;
        PlanNode {
            node,
            threads: (!pinned).then_some(threads),
            reserved: if able { reserved(node) } else { 0 },
        }
    };
    nodes.into_iter().map(plan_node).collect()
}

/// Known bandwidths.
struct Known<'a> {
    models: &'a [&'a Model],
    measured: &'a [&'a IoRecord],
    thread: Option<f64>,
    assumptions: BTreeSet<String>,
}

impl Known<'_> {
    /// Returns the paths between the devices, combined per node, and the memory of every node.
    fn paths(
        &mut self,
        nodes: &[NodeId],
        devices: Vec<(&str, NodeId, Option<f64>)>,
        direction: Direction,
    ) -> Result<Vec<PathRates>, PlanProblemError> {
        let homes: BTreeSet<NodeId> = devices.iter().map(|(_, node, _)| *node).collect();
        let mut paths = Vec::new();
        for device_node in homes {
            let here: Vec<(&str, Option<f64>)> = devices
                .iter()
                .filter(|(_, node, _)| *node == device_node)
                .map(|(name, _, most)| (*name, *most))
                .collect();
            for memory_node in nodes {
                paths.push(self.path(device_node, *memory_node, &here, direction)?);
            }
        }
        Ok(paths)
    }

    fn path(
        &mut self,
        device_node: NodeId,
        memory_node: NodeId,
        devices: &[(&str, Option<f64>)],
        direction: Direction,
    ) -> Result<PathRates, PlanProblemError> {
        let path = |thread: f64, most: f64, origin| PathRates {
            device_node,
            memory_node,
            thread_bytes_per_s: thread.min(most),
            max_bytes_per_s: most,
            origin,
        };
        let measured: Option<Vec<(f64, f64)>> =
            devices.iter().map(|(name, _)| self.measured(name, memory_node, direction)).collect();
        if let Some(rates) = measured.filter(|rates| !rates.is_empty()) {
            let most = rates.iter().map(|(_, most)| most).sum();
            let thread = rates.iter().map(|(thread, _)| *thread).fold(f64::INFINITY, f64::min);
            return Ok(path(thread, most, RateOrigin::Measured));
        }
        let capacity: Option<f64> = devices.iter().map(|(_, most)| *most).sum();
        match (self.modelled(device_node, memory_node, direction), capacity) {
            (Some((copied, threads)), capacity) => {
                let thread = self.modeled_thread_rate(copied, threads);
                Ok(path(thread, copied.min(capacity.unwrap_or(f64::INFINITY)), RateOrigin::Modeled))
            }
            (None, Some(capacity)) => {
                self.assumptions.insert(format!(
                    "every node reaches the devices of node {device_node} at their full bandwidth ({}): no model of the node is saved (numaio model)",
                    direction.name()
                ));
                Ok(path(self.thread_rate(), capacity, RateOrigin::Assumed))
            }
            (None, None) => {
                let unknown = devices.iter().find(|(_, most)| most.is_none());
                Err(PlanProblemError::UnknownBandwidth(
                    unknown.map_or_else(String::new, |(name, _)| (*name).to_owned()),
                ))
            }
        }
    }

    fn thread_rate(&mut self) -> f64 {
        self.thread.unwrap_or_else(|| {
            self.assumptions.insert(format!(
                "one thread moves {:.1} GB/s wherever its device was not measured (set --thread-bandwidth, or measure it with numaio bench)",
                THREAD_BYTES_PER_S / 1e9
            ));
            THREAD_BYTES_PER_S
        })
    }

    /// Returns the thread rate by the copy model: at least a thread's part of the copy, but no more
    /// than is assumed without a model.
    fn modeled_thread_rate(&mut self, copied: f64, threads: usize) -> f64 {
        self.thread.unwrap_or_else(|| {
            self.assumptions.insert(format!(
                "where the copy model replaces a measurement of a device, one thread moves its part of the model's copy, at most {:.1} GB/s (set --thread-bandwidth, or measure it with numaio bench)",
                THREAD_BYTES_PER_S / 1e9
            ));
            (copied / threads.max(1) as f64).min(THREAD_BYTES_PER_S)
        })
    }

    /// Returns the bandwidth of one stream and the best of any number of streams, with buffers and
    /// CPUs on a node, or on the measured node that represents it.
    fn measured(&self, device: &str, node: NodeId, direction: Direction) -> Option<(f64, f64)> {
        let records = self.measured.iter();
        let records = records.filter(|it| it.device.name == device && it.method.engine != IoEngine::Null);
        let mut figures: Vec<(u32, f64)> = Vec::new();
        for record in records {
            let stands = record.method.represented.iter();
            let stands = stands.filter(|it| it.direction == direction && it.nodes.contains(&node));
            let nodes: Vec<NodeId> = std::iter::once(node).chain(stands.map(|it| it.node)).collect();
            let of = |node: &NodeId| -> Vec<(u32, f64)> {
                let place = Some((*node, *node, direction));
                let cells = record.cells.iter().filter(|cell| cell.placement() == place);
                cells.filter_map(|cell| Some((cell.streams(), cell.bytes_per_s.median()?))).collect()
            };
            figures.extend(nodes.iter().map(of).find(|figures| !figures.is_empty()).unwrap_or_default());
        }
        let best = |figures: &mut dyn Iterator<Item = f64>| figures.max_by(f64::total_cmp);
        let one = best(&mut figures.iter().filter(|(streams, _)| *streams == 1).map(|(_, rate)| *rate))?;
        let most = best(&mut figures.iter().map(|(_, rate)| *rate))?;
        Some((one, most))
    }

    /// Returns the copy model's bandwidth between devices on a node and the memory of another, and
    /// the number of its threads.
    fn modelled(&self, target: NodeId, node: NodeId, direction: Direction) -> Option<(f64, usize)> {
        let of = |model: &Model| {
            let directions = &model.targets.iter().find(|model| model.target == target)?.directions;
            let seen = &directions.iter().find(|model| model.direction == direction)?.nodes;
            let copied = seen.iter().find(|seen| seen.node == node)?.bytes_copied_per_s;
            let cell = model.record.cells.iter().find(|cell| cell.target == target)?;
            Some((copied, cell.placement.cpus.len()))
        };
        self.models.iter().find_map(|model| of(model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::tests::{cell, record};
    use crate::placement::tests::machine;
    use crate::{fit, plan, ClassOptions, PlanOptions};
    use numaio_machine::set::CpuSet;
    use numaio_schema::ClassRepresentative;

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
    fn unknown_values_become_assumptions_and_can_be_planned() {
        let problem = plan_problem(&machine(2, 4), request(), &[], &[]).expect("a problem");
        assert_eq!((problem.storage_paths.len(), problem.network_paths.len()), (2, 2));
        assert!(problem.storage_paths.iter().all(|path| path.origin == RateOrigin::Assumed));
        assert_eq!(problem.assumptions.len(), 4, "{:?}", problem.assumptions);
        assert_eq!((problem.nodes[1].threads, problem.nodes[1].reserved), (Some(4), 2));
        let plan = plan(&problem, &PlanOptions::default()).expect("a plan");
        assert!(
            plan.proof.optimal && (plan.predicted.bytes_per_s / 7e9 - 1.0).abs() < 0.2,
            "{:?}",
            plan.predicted
        );
    }

    #[test]
    fn model_distinguishes_directions() {
        let topology = machine(2, 4);
        let cells = vec![
            cell(0, 0, 0, Some(9e9)),
            cell(1, 0, 0, Some(5e9)), // device write from node 1
            cell(0, 1, 0, Some(6e9)), // device read into node 1
        ];
        let model = fit(record(cells), &topology, ClassOptions::default());
        let problem = plan_problem(&topology, request(), &[&model], &[]).expect("a problem");
        let most: Vec<f64> = problem.storage_paths.iter().map(|path| path.max_bytes_per_s).collect();
        assert_eq!(most, [7e9, 6e9], "reading from storage is a device read, bounded by the device");
        assert_eq!(problem.network_paths[0].origin, RateOrigin::Assumed, "no model of the NIC's node");
        let back = PlanRequest { direction: Transfer::Receive, ..request() };
        let back = plan_problem(&topology, back, &[&model], &[]).expect("a problem");
        assert_eq!(back.storage_paths[1].max_bytes_per_s, 5e9);
        let mut mute = request();
        mute.nics[0].bytes_per_s = None;
        let unknown = plan_problem(&topology, mute, &[], &[]);
        assert_eq!(unknown, Err(PlanProblemError::UnknownBandwidth("eth0".into())));
    }
    #[test]
    fn pinned_nodes_and_nodes_without_cores_are_part_of_a_problem() {
        let mut topology = machine(3, 4);
        // The NIC's node has memory that is not allowed, so no thread runs there.
        topology.nodes[1].memory_allowed = false;
        let pinned = PlanRequest {
            no_threads_on: vec![NodeId(0), NodeId(1)],
            reserved: vec![(NodeId(2), 1), (NodeId(2), 1)],
            ..request()
        };
        let problem = plan_problem(&topology, pinned, &[], &[]).expect("a problem");
        let threads: Vec<_> = problem.nodes.iter().map(|node| (node.threads, node.reserved)).collect();
        assert_eq!(threads, [(None, 0), (Some(0), 0), (Some(4), 2)]);
        let plan = plan(&problem, &PlanOptions::default()).expect("a plan");
        assert!(
            plan.storage_paths.iter().all(|path| path.memory_node == NodeId(2))
                && plan.threads_on(NodeId(2)) == 2
        );
        for (request, words) in [
            (PlanRequest { no_threads_on: vec![NodeId(9)], ..request() }, "no threads may run on node 9"),
            (PlanRequest { reserved: vec![(NodeId(8), 1)], ..request() }, "reserved on node 8"),
        ] {
            let refused = plan_problem(&machine(2, 4), request, &[], &[]).expect_err("no such node");
            assert!(refused.to_string().contains(words), "{refused}");
        }
    }

    /// Of the copy of two threads, one moves half, at most the assumed rate of a thread.
    #[test]
    fn thread_rate_is_its_part_of_the_models_copy() {
        let topology = machine(1, 4);
        let of = |rate: f64, given: Option<f64>| {
            let mut copied = cell(0, 0, 0, Some(rate));
            copied.placement.cpus = CpuSet::parse_list("0-1").expect("a list");
            let model = fit(record(vec![copied]), &topology, ClassOptions::default());
            let mut request = PlanRequest { thread_bytes_per_s: given, reserved: Vec::new(), ..request() };
            request.nics[0].node = NodeId(0);
            let problem = plan_problem(&topology, request, &[&model], &[]).expect("a problem");
            problem.storage_paths[0].thread_bytes_per_s
        };
        assert_eq!(of(1e9, None), 0.5e9);
        assert_eq!(of(100e9, None), THREAD_BYTES_PER_S);
        assert_eq!(of(100e9, Some(3e9)), 3e9);
    }
    /// Node 0 was measured and represents node 1; node 2 was not measured.
    #[test]
    fn measured_io_takes_precedence() {
        let read = |streams: u32, gbit_per_s: f64| {
            crate::testing::cell(Direction::Read, &[(0, streams)], gbit_per_s)
        };
        let mut io = crate::testing::record(0, vec![read(1, 8.0), read(4, 24.0), read(16, 20.0)]);
        io.method.represented.push(ClassRepresentative {
            direction: Direction::Read,
            node: NodeId(0),
            nodes: vec![NodeId(0), NodeId(1)],
        });
        let mut null = crate::testing::record(0, vec![read(1, 800.0)]);
        null.method.engine = IoEngine::Null;
        let problem = plan_problem(&machine(3, 4), request(), &[], &[&null, &io]).expect("a problem");
        let paths: Vec<_> = problem.storage_paths.iter().map(|path| path.origin).collect();
        assert_eq!(paths, [RateOrigin::Measured, RateOrigin::Measured, RateOrigin::Assumed]);
        for path in &problem.storage_paths[..2] {
            assert!((path.thread_bytes_per_s / 1e9 - 1.0).abs() < 0.01, "{path:?}");
            assert!((path.max_bytes_per_s / 3e9 - 1.0).abs() < 0.01, "{path:?}");
        }
        let back = PlanRequest { direction: Transfer::Receive, ..request() };
        let back = plan_problem(&machine(3, 4), back, &[], &[&io]).expect("a problem");
        assert!(
            back.storage_paths.iter().all(|path| path.origin == RateOrigin::Assumed),
            "writing was not measured"
        );
    }
}
