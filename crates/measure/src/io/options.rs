//! Options of an I/O campaign.

use crate::rounds::Rule;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::ClassRepresentative;

/// Options of an I/O campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct IoOptions {
    /// Streams to measure.
    pub what: IoSelection,
    /// Bytes of one request, message or transfer; every cell is measured with each.
    pub block_bytes: Vec<u64>,
    /// Device operations beyond direction; every cell is measured with each. A single `None` if
    /// there is no choice.
    pub operations: Vec<Option<String>>,
    /// Requests in flight per stream.
    pub depth: u32,
    /// Length of a visit, in milliseconds.
    pub window_ms: u32,
    /// Samples per visit.
    pub slices: u32,
    /// Byte limit of the campaign; none for no limit.
    pub most_bytes: Option<u64>,
    /// Stopping rule.
    pub rule: Rule,
}

/// Streams to measure.
#[derive(Debug, Clone, PartialEq)]
pub enum IoSelection {
    /// Streams of one placement at a time.
    Matrix(Matrix),
    /// Streams of several placements at once, one mix at a time.
    Mixes(Vec<Vec<MixPart>>),
}

/// Placements, each with every number of streams in every direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Nodes of CPUs and buffers.
    pub places: Placements,
    /// Directions, one at a time.
    pub directions: Vec<Direction>,
    /// Whether to measure both directions at once, too, with the same number of streams each.
    pub duplex: bool,
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Nodes that represent others of their class ([`super::one_per_class`]); empty to measure
    /// every node. Only with [`Placements::Local`].
    pub represented: Vec<ClassRepresentative>,
}

/// Nodes of CPUs and buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placements {
    /// Buffers local to the CPUs, on each of these nodes; on every usable node if empty (Li et al.,
    /// ICPP 2013).
    Local(NodeSet),
    /// Every pair; an empty set means every usable node.
    Pairs {
        /// Nodes of the CPUs.
        cpu_nodes: NodeSet,
        /// Nodes of the buffers.
        memory_nodes: NodeSet,
    },
}

/// Equal streams of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MixPart {
    /// Node of the CPUs.
    pub cpu_node: NodeId,
    /// Node of the buffers.
    pub memory: NodeId,
    /// Number of streams.
    pub streams: u32,
    /// Device write or device read.
    pub direction: Direction,
    /// Index of the device among those of the engine; 0 if there is only one.
    pub device: usize,
}

impl Default for IoOptions {
    fn default() -> Self {
        Self {
            what: IoSelection::Matrix(Matrix::default()),
            block_bytes: vec![128 << 10],
            operations: vec![None],
            depth: 16,
            window_ms: 500,
            slices: 5,
            most_bytes: None,
            rule: Rule::default(),
        }
    }
}

impl Default for Matrix {
    fn default() -> Self {
        Self {
            places: Placements::Local(NodeSet::new()),
            directions: vec![Direction::Write, Direction::Read],
            duplex: false,
            streams: vec![1],
            represented: Vec::new(),
        }
    }
}
