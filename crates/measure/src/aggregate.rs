//! Several devices: each alone, and all at the same time.
//!
//! The bandwidth of one device does not determine what several have together: they may share the
//! memory of a node, a link between nodes, or a host bridge.

use crate::engine::Several;
use crate::io::{self, checked_pairs, local_nodes, IoOptions, IoSelection, MixPart, Placements};
use crate::options::CampaignError;
use crate::setting::{Event, Setting};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{AggregateRecord, IoDevice, IoRecord, AGGREGATE_SCHEMA};

/// Options of a campaign of several devices.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateOptions {
    /// Nodes of CPUs and buffers, the same for all devices.
    pub places: Placements,
    /// Whether to measure each device from its own node, too, if all nodes are known and usable.
    pub own_nodes: bool,
    /// Directions, one at a time.
    pub directions: Vec<Direction>,
    /// Numbers of streams of each device.
    pub streams: Vec<u32>,
    /// Other options; `what` is replaced.
    pub io: IoOptions,
}

impl AggregateOptions {
    /// Creates options, with the devices' own nodes unless `places` names nodes.
    pub fn new(places: Placements, directions: Vec<Direction>, streams: Vec<u32>, io: IoOptions) -> Self {
        let own_nodes = places == Placements::Local(NodeSet::new());
        Self { places, own_nodes, directions, streams, io }
    }
}

/// Measures every placement: each device alone, and all at the same time. Cells that cannot be
/// measured record the reason.
///
/// # Errors
/// As for [`io::run`], if no cell has a result.
pub fn run(
    setting: &Setting,
    engine: &Several,
    devices: Vec<IoDevice>,
    options: &AggregateOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<AggregateRecord, CampaignError> {
    let what = IoSelection::Mixes(mixes(setting.topology, &devices, options)?);
    let first = devices.first().cloned().ok_or(CampaignError::NoTarget)?;
    let IoRecord { provenance, method, cells, .. } =
        io::run(setting, engine, first, &IoOptions { what, ..options.io.clone() }, report)?;
    Ok(AggregateRecord { schema: AGGREGATE_SCHEMA.to_owned(), provenance, devices, method, cells })
}

/// Returns the streams of each cell: those of each device alone, each once, and of all devices.
fn mixes(
    topology: &Topology,
    devices: &[IoDevice],
    options: &AggregateOptions,
) -> Result<Vec<Vec<MixPart>>, CampaignError> {
    let pairs = checked_pairs(topology, &options.places)?;
    let same = pairs.into_iter().map(|pair| vec![pair; devices.len()]);
    let places: Vec<Vec<(NodeId, NodeId)>> =
        own_nodes(topology, devices, options).into_iter().chain(same).collect();
    let mut mixes: Vec<Vec<MixPart>> = Vec::new();
    for direction in &options.directions {
        for streams in &options.streams {
            for places in &places {
                let part = |(device, (cpu_node, memory)): (usize, &(NodeId, NodeId))| MixPart {
                    cpu_node: *cpu_node,
                    memory: *memory,
                    streams: *streams,
                    direction: *direction,
                    device,
                };
                let all: Vec<MixPart> = places.iter().enumerate().map(part).collect();
                for mix in all.iter().map(|part| vec![*part]).chain([all.clone()]) {
                    if !mixes.contains(&mix) {
                        mixes.push(mix);
                    }
                }
            }
        }
    }
    Ok(mixes)
}

/// Returns the node of each device, if it is requested, usable, and not the same for all.
fn own_nodes(
    topology: &Topology,
    devices: &[IoDevice],
    options: &AggregateOptions,
) -> Option<Vec<(NodeId, NodeId)>> {
    let usable = local_nodes(topology);
    let node = |device: &IoDevice| device.node.filter(|node| usable.contains(*node)).map(|node| (node, node));
    let nodes: Option<Vec<(NodeId, NodeId)>> = devices.iter().map(node).collect();
    nodes.filter(|nodes| options.own_nodes && nodes.windows(2).any(|pair| pair[0] != pair[1]))
}
