//! Network campaigns, which vary the placement at one end or at both in turn.
//!
//! Bo (2016) measured networks with CPUs and buffers local or remote to the interface, by message
//! size, and separated sender and receiver: these are [`Placements::Pairs`] locally and
//! [`RemoteEnd::places`] at the peer.

use crate::engine::remote::{operation_at, split_operation};
use crate::engine::{Engine, RemoteEnd};
use crate::io::{self, IoOptions, IoSelection, Matrix, Placements};
use crate::options::CampaignError;
use crate::setting::{Event, Setting};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{IoCell, IoDevice, IoRecord, IoRemoteEnd, NetworkSettings};

/// End whose placement is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// This machine.
    Local,
    /// The peer.
    Remote,
    /// Both: every placement of this machine with every one of the peer.
    Both,
}

/// A side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Sender.
    Sender,
    /// Receiver.
    Receiver,
}

impl Side {
    /// Returns the end that this side is on; for device writes, this machine sends.
    pub fn end(self, direction: Direction) -> End {
        match (self, direction) {
            (Self::Sender, Direction::Write) | (Self::Receiver, Direction::Read) => End::Local,
            (Self::Sender, Direction::Read) | (Self::Receiver, Direction::Write) => End::Remote,
        }
    }
}

/// Options of a network campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct NetOptions {
    /// Ends to vary, with directions.
    pub varied: Vec<(End, Direction)>,
    /// Whether to measure both directions at once, too, while an end is varied.
    pub duplex: bool,
    /// Placements of the local end while it is varied.
    pub places: Placements,
    /// Local node while the peer is varied.
    pub home: NodeId,
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Placement that the peer chooses by default.
    pub own_place: IoRemoteEnd,
    /// Settings of the network, for the record.
    pub network: NetworkSettings,
    /// Other options. Fields above override what is measured; at most one operation is allowed.
    pub io: IoOptions,
}

/// Returns the local node for streams while the peer is varied: the device's, else the first usable
/// one.
pub fn home(topology: &Topology, device: Option<NodeId>) -> Option<NodeId> {
    let whole = io::local_nodes(topology);
    device.filter(|node| whole.contains(*node)).or_else(|| whole.first())
}

/// Measures every cell. Cells that cannot be measured record the reason. `devices` are the local
/// device and the peer's.
///
/// # Errors
/// As for [`io::run`], if no cell has a result.
pub fn run(
    setting: &Setting,
    engine: &dyn Engine,
    far: &RemoteEnd,
    devices: (IoDevice, Option<IoDevice>),
    options: &NetOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<IoRecord, CampaignError> {
    let ends: Vec<(End, IoOptions)> = [End::Local, End::Remote, End::Both]
        .into_iter()
        .filter_map(|end| Some((end, of_end(end, far, options)?)))
        .collect();
    let share = ends.len().max(1) as f64;
    let mut whole: Result<IoRecord, CampaignError> = Err(CampaignError::NoTarget);
    for (_, mut io) in ends {
        io.rule.time_limit_s /= share;
        io.most_bytes = io.most_bytes.map(|most| most / share as u64);
        whole = match (whole, io::run(setting, engine, devices.0.clone(), &io, report)) {
            (Ok(first), Ok(second)) => Ok(joined(first, second)),
            // Earlier measurements are kept.
            (Ok(first), Err(why)) => Ok(broken(first, &why)),
            (Err(CampaignError::NoTarget), found) => found,
            (Err(why), found) => found.map(|record| broken(record, &why)),
        };
    }
    let mut record = whole?;
    record.method.rounds.time_limit_s = options.io.rule.time_limit_s;
    record.method.network = Some(options.network.clone());
    record.remote = devices.1;
    record.cells.iter_mut().for_each(|cell| set_remote_placement(cell, far, &options.own_place));
    Ok(record)
}

/// Returns the options for varying one end; none if it is not varied.
fn of_end(end: End, far: &RemoteEnd, options: &NetOptions) -> Option<IoOptions> {
    let directions = options.varied.iter().filter(|(varied, _)| *varied == end);
    let directions: Vec<Direction> = directions.map(|(_, direction)| *direction).collect();
    if directions.is_empty() {
        return None;
    }
    let operation = options.io.operations.first().cloned().flatten();
    let at = |place| Some(operation_at(operation.as_deref(), place));
    let remote_operations = || (0..far.places.len()).map(at).collect();
    let (places, operations) = match end {
        End::Local => (options.places.clone(), vec![operation.clone()]),
        End::Remote => (Placements::Local(NodeSet::one(options.home)), remote_operations()),
        End::Both => (options.places.clone(), remote_operations()),
    };
    let (duplex, streams) = (options.duplex, options.streams.clone());
    let matrix = Matrix { places, directions, duplex, streams, ..Matrix::default() };
    Some(IoOptions { what: IoSelection::Matrix(matrix), operations, ..options.io.clone() })
}

/// Merges the records of both ends.
fn joined(mut first: IoRecord, second: IoRecord) -> IoRecord {
    first.cells.extend(second.cells);
    let provenance = &mut first.provenance;
    provenance.complete &= second.provenance.complete;
    provenance.conditions.1 = second.provenance.conditions.1;
    provenance.warnings.extend(second.provenance.warnings);
    provenance.warnings.dedup();
    for note in second.method.notes {
        if !first.method.notes.contains(&note) {
            first.method.notes.push(note);
        }
    }
    let rounds = &mut first.method.rounds;
    rounds.elapsed_s += second.method.rounds.elapsed_s;
    rounds.rounds = rounds.rounds.max(second.method.rounds.rounds);
    first
}

fn broken(mut record: IoRecord, why: &CampaignError) -> IoRecord {
    record.provenance.complete = false;
    record.method.notes.push(format!("while varying the remote placement: {why}"));
    record
}

/// Moves the peer's placement from the operation of a cell to its own field.
fn set_remote_placement(cell: &mut IoCell, far: &RemoteEnd, own: &IoRemoteEnd) {
    let (operation, place) = split_operation(cell.operation.as_deref());
    let placed = place.and_then(|place| far.places.get(place)).map(|place| IoRemoteEnd {
        cpu_nodes: NodeSet::one(place.cpu_node),
        memory: Some(place.memory),
        cpu_ns_per_byte: None,
    });
    let cpu_ns_per_byte = cell.remote.as_ref().and_then(|there| there.cpu_ns_per_byte);
    cell.remote = Some(IoRemoteEnd { cpu_ns_per_byte, ..placed.unwrap_or_else(|| own.clone()) });
    cell.operation = operation.map(str::to_owned);
}
