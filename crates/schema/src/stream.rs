//! STREAM between CPU nodes and memory nodes.

use crate::{ClassRule, DocumentError, Provenance, Reading, Rounds};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Pages, Placement, StreamLoop, StreamOp};
use serde::{Deserialize, Serialize};

/// Version of [`StreamRecord`].
pub const STREAM_SCHEMA: &str = "numaio/stream/1";

/// STREAM measured for pairs of CPU node and memory node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// [`STREAM_SCHEMA`].
    pub schema: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// How it was measured.
    pub method: StreamMethod,
    /// What was measured.
    pub cells: Vec<StreamCell>,
    /// Pairs of nodes of one level, by operation (Braithwaite et al., 2012); empty where cores ran alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<PairClasses>,
}

/// Classes of all pairs of CPU node and memory node for one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairClasses {
    /// The operation.
    pub op: StreamOp,
    /// How pairs were classed.
    pub rule: ClassRule,
    /// Classes, best first.
    pub classes: Vec<PairClass>,
}

/// Pairs of one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairClass {
    /// 1 is best.
    pub rank: u32,
    /// CPU node and memory node.
    pub pairs: Vec<(NodeId, NodeId)>,
    /// Least bandwidth of a pair.
    pub min_bytes_per_s: f64,
    /// Greatest bandwidth of a pair.
    pub max_bytes_per_s: f64,
    /// Mean bandwidth of its pairs.
    pub mean_bytes_per_s: f64,
}

/// How STREAM was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamMethod {
    /// The loop used for each operation that was measured.
    pub loops: Vec<(StreamOp, StreamLoop)>,
    /// The trial in which the loops were chosen; empty if the user chose one.
    pub trials: Vec<StreamTrial>,
    /// Who ran.
    pub scope: StreamScope,
    /// Bytes of each array of a thread, by CPU node.
    pub bytes_per_array: Vec<(NodeId, u64)>,
    /// Pages behind the arrays.
    pub pages: Pages,
    /// When it ended.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// Who runs STREAM in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "kebab-case")]
pub enum StreamScope {
    /// Threads of one CPU node together.
    Node {
        /// Threads asked for on each; none for one on each core.
        threads: Option<u32>,
    },
    /// Every hardware thread of one CPU node together.
    HardwareThreads,
    /// Each core alone.
    Core,
}

/// One loop's trial at one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamTrial {
    /// The operation.
    pub op: StreamOp,
    /// The loop.
    pub stream_loop: StreamLoop,
    /// Median bandwidth as STREAM counts; none if this machine cannot run it.
    pub bytes_per_s: Option<f64>,
}

/// One operation by threads of one node on arrays of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamCell {
    /// The operation.
    pub op: StreamOp,
    /// Node of the threads.
    pub cpu_node: NodeId,
    /// Node of the arrays.
    pub memory_node: NodeId,
    /// The threads; one CPU with [`StreamScope::Core`].
    #[serde(flatten)]
    pub placement: Placement,
    /// Bandwidth as STREAM counts: bytes read and written, without what write-allocate adds.
    pub bytes_per_s: Reading,
}

impl StreamRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, STREAM_SCHEMA)
    }
}
