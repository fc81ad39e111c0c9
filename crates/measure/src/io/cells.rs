//! Cells of an I/O campaign: stream placements and block sizes.

use super::options::{IoOptions, IoSelection, Matrix, MixPart, Placements};
use crate::engine::{streams, CellRequest, Engine};
use crate::options::CampaignError;
use crate::rounds::Task;
use crate::sizes::memory_shortage;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, IoPath, StreamGroup};
use std::collections::BTreeMap;

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub groups: Vec<StreamGroup>,
    pub cpu_nodes: Vec<NodeId>,
    pub block_bytes: u64,
    pub operation: Option<String>,
}

/// Returns all requested cells.
///
/// # Errors
/// [`CampaignError`] if a node is missing or unusable, or there is no cell.
pub(super) fn cells(topology: &Topology, options: &IoOptions) -> Result<Vec<Cell>, CampaignError> {
    let mixes = match &options.what {
        IoSelection::Matrix(matrix) => parts(topology, matrix)?,
        IoSelection::Mixes(mixes) => mixes.clone(),
    };
    let mut cells = Vec::new();
    for operation in &options.operations {
        for block_bytes in &options.block_bytes {
            for mix in &mixes {
                cells.push(cell(topology, mix, *block_bytes, operation.clone())?);
            }
        }
    }
    match cells.iter().all(|cell| cell.groups.is_empty()) {
        true => Err(CampaignError::NoTarget),
        false => Ok(cells),
    }
}

fn cell(
    topology: &Topology,
    mix: &[MixPart],
    block_bytes: u64,
    operation: Option<String>,
) -> Result<Cell, CampaignError> {
    let group = |part: &MixPart| {
        check(topology, part.cpu_node, part.memory)?;
        Ok(StreamGroup {
            cpus: topology.usable_cpus(part.cpu_node),
            memory: part.memory,
            streams: part.streams,
            direction: part.direction,
            device: part.device,
        })
    };
    Ok(Cell {
        groups: mix.iter().map(group).collect::<Result<_, CampaignError>>()?,
        cpu_nodes: mix.iter().map(|part| part.cpu_node).collect(),
        block_bytes,
        operation,
    })
}

fn check(topology: &Topology, cpu_node: NodeId, memory: NodeId) -> Result<(), CampaignError> {
    let nodes = || topology.nodes.iter().map(|node| node.id).collect();
    if let Some(node) = [cpu_node, memory].into_iter().find(|node| topology.node(*node).is_none()) {
        return Err(CampaignError::UnknownNode { node, nodes: nodes() });
    }
    if topology.usable_cpus(cpu_node).is_empty() {
        return Err(CampaignError::NoCpus { node: cpu_node });
    }
    if !usable_memory(topology).contains(memory) {
        return Err(CampaignError::NoMemory { node: memory });
    }
    Ok(())
}

/// Returns the nodes with usable CPUs.
fn usable_cpus(topology: &Topology) -> NodeSet {
    let nodes = topology.nodes.iter().map(|node| node.id);
    nodes.filter(|node| !topology.usable_cpus(*node).is_empty()).collect()
}

fn usable_memory(topology: &Topology) -> NodeSet {
    let nodes = topology.nodes.iter().filter(|node| node.has_memory() && node.memory_allowed);
    nodes.map(|node| node.id).collect()
}

/// Returns the nodes with usable CPUs and memory: those of [`Placements::Local`].
pub fn local_nodes(topology: &Topology) -> NodeSet {
    usable_cpus(topology).intersection(&usable_memory(topology))
}

fn parts(topology: &Topology, matrix: &Matrix) -> Result<Vec<Vec<MixPart>>, CampaignError> {
    let pairs = pairs(topology, &matrix.places);
    let mut ways: Vec<Vec<Direction>> = matrix.directions.iter().map(|direction| vec![*direction]).collect();
    if matrix.duplex {
        ways.push(vec![Direction::Write, Direction::Read]);
    }
    let mut mixes = Vec::new();
    for way in &ways {
        for (cpu_node, memory) in &pairs {
            let is_represented = way.iter().all(|direction| is_represented(matrix, *direction, *memory));
            if is_represented {
                continue;
            }
            mixes.extend(matrix.streams.iter().map(|streams| {
                let part = |direction: &Direction| MixPart {
                    cpu_node: *cpu_node,
                    memory: *memory,
                    streams: *streams,
                    direction: *direction,
                    device: 0,
                };
                way.iter().map(part).collect::<Vec<MixPart>>()
            }));
        }
    }
    Ok(mixes)
}

/// Returns the pairs of CPU node and buffer node of placements.
///
/// # Errors
/// [`CampaignError`] if a node is missing or unusable.
pub(crate) fn checked_pairs(
    topology: &Topology,
    places: &Placements,
) -> Result<Vec<(NodeId, NodeId)>, CampaignError> {
    let pairs = pairs(topology, places);
    pairs.iter().try_for_each(|(cpu_node, memory)| check(topology, *cpu_node, *memory))?;
    Ok(pairs)
}

fn pairs(topology: &Topology, places: &Placements) -> Vec<(NodeId, NodeId)> {
    let or_all = |set: &NodeSet, all: NodeSet| if set.is_empty() { all } else { set.clone() };
    match places {
        Placements::Local(nodes) => {
            or_all(nodes, local_nodes(topology)).iter().map(|node| (node, node)).collect()
        }
        Placements::Pairs { cpu_nodes, memory_nodes } => {
            let memory_nodes = or_all(memory_nodes, usable_memory(topology));
            let cpu_nodes = or_all(cpu_nodes, usable_cpus(topology));
            let of = |cpu_node| memory_nodes.iter().map(move |memory| (cpu_node, memory));
            cpu_nodes.iter().flat_map(of).collect()
        }
    }
}

/// Returns whether another node represents this one.
fn is_represented(matrix: &Matrix, direction: Direction, node: NodeId) -> bool {
    let local = matches!(matrix.places, Placements::Local(_));
    local
        && matrix.represented.iter().any(|represented| {
            represented.direction == direction
                && represented.node != node
                && represented.nodes.contains(&node)
        })
}

impl Cell {
    /// Creates the task that measures this cell by an engine.
    pub fn task(&self, topology: &Topology, engine: &dyn Engine, options: &IoOptions) -> Task {
        let request = CellRequest {
            groups: &self.groups,
            block_bytes: self.block_bytes,
            operation: self.operation.as_deref(),
            depth: options.depth,
            window_ms: options.window_ms,
            slices: options.slices,
            most_bytes: options.most_bytes,
        };
        let (workload, unable) = match engine.workload(&request) {
            Ok(workload) => (workload, None),
            // A placeholder that never runs.
            Err(error) => (streams(IoPath::Null, &request), Some(error)),
        };
        Task {
            workload,
            group: self.cpu_nodes.first().copied().unwrap_or(NodeId(0)),
            alike: None,
            impossible: unable.or_else(|| self.memory_shortage(topology, options.depth)),
        }
    }

    /// Returns the error if the buffers do not fit.
    fn memory_shortage(&self, topology: &Topology, depth: u32) -> Option<ProbeError> {
        let mut needs: BTreeMap<NodeId, u64> = BTreeMap::new();
        for group in &self.groups {
            let blocks = u64::from(group.streams).saturating_mul(depth.into());
            let need = needs.entry(group.memory).or_default();
            *need = need.saturating_add(blocks.saturating_mul(self.block_bytes));
        }
        needs.into_iter().find_map(|(node, bytes)| memory_shortage(topology, node, bytes))
    }

    /// Returns the kind and place of the measurement, without size and operation.
    fn streams(&self) -> String {
        let group = |(group, cpu_node): (&StreamGroup, &NodeId)| {
            let streams = if group.streams == 1 { "stream" } else { "streams" };
            let on = match group.memory == *cpu_node {
                true => format!("on node {cpu_node}"),
                false => format!("on node {cpu_node} with buffers on {}", group.memory),
            };
            let device = match group.device {
                0 => String::new(),
                device => format!(" of device {}", device + 1),
            };
            format!("{}{device} by {} {streams} {on}", group.direction.name(), group.streams)
        };
        let groups: Vec<String> = self.groups.iter().zip(&self.cpu_nodes).map(group).collect();
        groups.join(" beside ")
    }
}

/// Returns the names of cells for warnings.
pub(super) fn names(cells: &[Cell]) -> Vec<String> {
    let settings: Vec<_> = cells.iter().map(|cell| (cell.operation.as_deref(), cell.block_bytes)).collect();
    let differences = numaio_schema::differing_settings(&settings);
    cells.iter().zip(differences).map(|(cell, differing)| format!("{}{differing}", cell.streams())).collect()
}
