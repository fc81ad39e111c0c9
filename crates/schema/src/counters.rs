//! Events of a workload, counted for pairs of CPU node and memory node.

use crate::{Provenance, Reading, Rounds};
use numaio_machine::counters::{Count, Counter, MissingCounter};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{CopyLoop, Placement, StreamLoop, StreamOp};
use serde::{Deserialize, Serialize};

/// Counted events of a workload, by pair of nodes and number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CounterRecord {
    /// [`COUNTERS_SCHEMA`](crate::COUNTERS_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The method.
    pub method: CounterMethod,
    /// The measurements.
    pub cells: Vec<CounterCell>,
    /// Counters without a value in any cell, with the source that was tried and the reason.
    pub missing: Vec<MissingCounter>,
    /// NUMA scheduling factors of the pairs.
    pub factors: SchedulingFactors,
}

/// The method of a counted measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CounterMethod {
    /// The workload.
    #[serde(flatten)]
    pub subject: CountedSubject,
    /// Bytes of each thread's buffers, by CPU node and number of threads; empty for programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes_per_thread: Vec<(NodeId, u32, u64)>,
    /// Stopping criteria and progress.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// The counted workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "subject", rename_all = "kebab-case")]
pub enum CountedSubject {
    /// A STREAM operation, by threads of the CPU node on arrays of the memory node.
    Stream {
        /// The operation.
        op: StreamOp,
        /// The loop.
        stream_loop: StreamLoop,
    },
    /// A copy from the memory node to the CPU node, by threads of the CPU node.
    Copy {
        /// The loop.
        copy_loop: CopyLoop,
    },
    /// A program.
    Program {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// A running process.
    Process {
        /// Process id.
        pid: u32,
        /// Name of the process.
        name: String,
    },
}

/// Events of one pair of nodes and number of threads; of one process without nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CounterCell {
    /// The node of the threads; `None` for a program or process without a binding.
    pub cpu_node: Option<NodeId>,
    /// The node of the memory; `None` for a program or process without a binding.
    pub memory_node: Option<NodeId>,
    /// Number of CPUs of the threads; 0 without a binding.
    pub threads: u32,
    /// The CPUs; empty without a binding.
    #[serde(flatten)]
    pub placement: Placement,
    /// Whether hardware prefetchers were on; `None` if they were left as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetchers: Option<bool>,
    /// Bytes per second of STREAM and copies, seconds of a program; `None` for a process.
    pub figure: Option<Reading>,
    /// Execution time relative to the local pair of the CPU node with the same number of threads
    /// (Tan Li's dissertation, Stony Brook 2015, Eq. 3.1); `None` if that was not measured.
    pub normalized_time: Option<f64>,
    /// Number of runs.
    pub runs: u32,
    /// Time in which events of threads were counted, in all runs together, in seconds.
    pub counted_s: f64,
    /// Time of all runs, in seconds. Counts of nodes and of the machine cover all of it.
    pub elapsed_s: f64,
    /// Whether the counted process ended before its time was over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended_early: bool,
    /// The counts of all runs together.
    pub counts: Vec<CounterValue>,
}

/// The count of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CounterValue {
    /// The raw count.
    #[serde(flatten)]
    pub count: Count,
    /// The count scaled to the complete time; `None` if the event was never counted.
    pub value: Option<f64>,
    /// Share of the time in which the event was counted. Below 0.5 the value is doubtful.
    pub share: f64,
}

/// NUMA scheduling factors (Eq. 3.2), or the reason why there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SchedulingFactors {
    /// The basis; `None` without factors.
    pub basis: Option<FactorBasis>,
    /// The factors of pairs, for their largest number of threads.
    pub pairs: Vec<SchedulingFactor>,
    /// Why there are no factors, or which pairs lack one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// From what scheduling factors are computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FactorBasis {
    /// The counter of coherence traffic.
    pub traffic: Counter,
    /// Whether traffic is per run of a program; else per KB that STREAM or a copy moved.
    pub per_run: bool,
    /// Time of the latency measurement, in seconds since 1970.
    pub latency_measured_at: u64,
    /// Where the width of the link comes from.
    pub width: WidthSource,
}

/// Where the width of the link between two nodes comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum WidthSource {
    /// The bandwidth of the counted workload itself.
    Counted,
    /// A saved STREAM measurement.
    Stream {
        /// Its time, in seconds since 1970.
        measured_at: u64,
    },
}

/// The NUMA scheduling factor of a pair: traffic × latency / width; lower is better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SchedulingFactor {
    /// The node of the threads.
    pub cpu_node: NodeId,
    /// The node of the memory.
    pub memory_node: NodeId,
    /// Number of threads.
    pub threads: u32,
    /// The factor.
    pub factor: f64,
    /// The factor with the limits of the 95 % interval of the width.
    pub interval: (f64, f64),
    /// Number of measurements of the width.
    pub n: u32,
    /// Coherence traffic: events per KB, or millions of events per run.
    pub traffic: f64,
    /// Idle latency in nanoseconds.
    pub latency_ns: f64,
    /// Width of the link in bytes per second.
    pub width_bytes_per_s: f64,
}

impl CounterCell {
    /// Returns the scaled count of a counter, over all nodes; `None` if none was counted.
    pub fn value(&self, counter: Counter) -> Option<f64> {
        let mut values = self.counts.iter().filter(|value| value.count.counter == counter).peekable();
        values.peek()?;
        values.map(|value| value.value).sum()
    }

    /// Returns whether a counter was counted for less than half of the time.
    pub fn is_doubtful(&self, counter: Counter) -> bool {
        let of = |value: &&CounterValue| value.count.counter == counter;
        self.counts.iter().filter(of).any(|value| value.share < numaio_machine::counters::DOUBTFUL_SHARE)
    }
}

impl From<Count> for CounterValue {
    fn from(count: Count) -> Self {
        Self { value: count.value(), share: count.share(), count }
    }
}
