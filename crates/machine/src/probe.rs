//! To try a machine: run a workload, get back what was seen.

use crate::ids::NodeId;
use crate::set::CpuSet;
use crate::workload::{CopyWorkload, IoWorkload, LatencyWorkload, StreamWorkload, ToolWorkload, Workload};
use serde::{Deserialize, Serialize};

/// A machine on which workloads can be run.
pub trait Probe {
    /// Runs one workload to its end.
    ///
    /// # Errors
    /// [`ProbeError`]; what was not measured is never made up.
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError>;
}

/// Workloads of one kind, with outcomes of that kind.
pub trait ProbeExt: Probe {
    /// Runs a copy.
    ///
    /// # Errors
    /// As [`Probe::run`], and if a tape gives an outcome of another kind.
    fn copy(&self, copy: &CopyWorkload) -> Result<CopyOutcome, ProbeError> {
        match self.run(&Workload::Copy(copy.clone()))? {
            Outcome::Copy(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Runs STREAM.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`].
    fn stream(&self, stream: &StreamWorkload) -> Result<StreamOutcome, ProbeError> {
        match self.run(&Workload::Stream(stream.clone()))? {
            Outcome::Stream(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Follows pointers.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`].
    fn latency(&self, latency: &LatencyWorkload) -> Result<LatencyOutcome, ProbeError> {
        match self.run(&Workload::Latency(latency.clone()))? {
            Outcome::Latency(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Moves data between memory and a device.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`].
    fn io(&self, io: &IoWorkload) -> Result<IoOutcome, ProbeError> {
        match self.run(&Workload::Io(io.clone()))? {
            Outcome::Io(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Runs another program.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`]; [`ProbeError::Unsupported`] with the program's name if there is none.
    fn tool(&self, tool: &ToolWorkload) -> Result<ToolOutcome, ProbeError> {
        match self.run(&Workload::Tool(tool.clone()))? {
            Outcome::Tool(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }
}

impl<T: Probe + ?Sized> ProbeExt for T {}

/// What a workload gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Outcome {
    /// Of [`Workload::Copy`].
    Copy(CopyOutcome),
    /// Of [`Workload::Stream`].
    Stream(StreamOutcome),
    /// Of [`Workload::Latency`].
    Latency(LatencyOutcome),
    /// Of [`Workload::Io`].
    Io(IoOutcome),
    /// Of [`Workload::Tool`].
    Tool(ToolOutcome),
}

/// What copying threads gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyOutcome {
    /// Samples in order of time; the warm-up is not among them.
    pub samples: Vec<CopySample>,
    /// Time of the whole run, buffers and checks included, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last thread's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// Where the pages were.
    pub residency: Residency,
    /// The C library whose `memcpy` copied, with its version where it tells: `glibc 2.36`, `musl`. None of other
    /// loops, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_library: Option<String>,
}

/// What all threads together copied in one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopySample {
    /// Bytes copied, each byte once.
    pub bytes_copied: u64,
    /// Length of the stretch in nanoseconds.
    pub ns: u64,
}

impl CopySample {
    /// Bandwidth in bytes copied per second.
    pub fn bytes_copied_per_s(self) -> f64 {
        self.bytes_copied as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// What threads that run STREAM gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamOutcome {
    /// Samples in order of time; the warm-up is not among them.
    pub samples: Vec<StreamSample>,
    /// Time of the whole run, arrays and checks included, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last thread's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// Where the pages were.
    pub residency: Residency,
}

/// What all threads together read and wrote in one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSample {
    /// Bytes as STREAM counts them: read and written, without what write-allocate adds.
    pub bytes: u64,
    /// Length of the stretch in nanoseconds.
    pub ns: u64,
}

impl StreamSample {
    /// Bandwidth in bytes per second, as STREAM counts.
    pub fn bytes_per_s(self) -> f64 {
        self.bytes as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// What a chain of loads gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyOutcome {
    /// Samples in order of time; the warm-up is not among them.
    pub samples: Vec<LatencySample>,
    /// Time of the whole run, buffers and checks included, in nanoseconds.
    pub elapsed_ns: u64,
    /// Where the pages of the chain were.
    pub residency: Residency,
    /// What the threads that loaded the memory did; none of idle latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadOutcome>,
}

/// Loads of a chain in one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySample {
    /// Loads, each waiting for the one before.
    pub loads: u64,
    /// Length of the stretch in nanoseconds.
    pub ns: u64,
}

impl LatencySample {
    /// Nanoseconds a load.
    pub fn ns_per_load(self) -> f64 {
        self.ns as f64 / self.loads.max(1) as f64
    }
}

/// What loading threads did while the chain was followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Bytes that all of them read while samples were taken.
    pub bytes_read: u64,
    /// That time in nanoseconds.
    pub ns: u64,
    /// Where the pages of their buffers were.
    pub residency: Residency,
}

impl LoadOutcome {
    /// Bandwidth in bytes read per second.
    pub fn bytes_read_per_s(&self) -> f64 {
        self.bytes_read as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// What streams of I/O gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoOutcome {
    /// One for each group of the workload, in its order; their samples are of the same stretches of time.
    pub groups: Vec<IoGroupOutcome>,
    /// Time of the whole run, buffers and checks included, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last stream's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// CPU time of our process while samples were taken, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// What the other end of a network path tells of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<PeerOutcome>,
    /// What was done otherwise than asked, and why, as in `no O_DIRECT on tmpfs: through the page cache`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What ended the run early, if something did; samples are those taken before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// The other end of streams through a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerOutcome {
    /// CPUs on which its threads could run.
    pub cpus: CpuSet,
    /// Node of their buffers.
    pub memory: NodeId,
    /// CPU time of its process while samples were taken, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// Where the pages of its buffers were.
    pub residency: Residency,
}

/// What one group of streams gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoGroupOutcome {
    /// Samples in order of time; the warm-up is not among them.
    pub samples: Vec<IoSample>,
    /// Requests that were completed in the samples.
    pub requests: u64,
    /// Where the pages of its buffers were.
    pub residency: Residency,
}

/// What a group of streams moved in one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoSample {
    /// Bytes moved between memory and the device.
    pub bytes: u64,
    /// Length of the stretch in nanoseconds.
    pub ns: u64,
}

impl IoSample {
    /// Bandwidth in bytes per second.
    pub fn bytes_per_s(self) -> f64 {
        self.bytes as f64 * 1e9 / self.ns.max(1) as f64
    }
}

impl IoOutcome {
    /// Bandwidth of all groups together in bytes per second, one value for each stretch of time.
    pub fn bytes_per_s(&self) -> Vec<f64> {
        let stretches = self.groups.iter().map(|group| group.samples.len()).min().unwrap_or(0);
        let of = |stretch: usize| self.groups.iter().map(move |group| group.samples[stretch].bytes_per_s());
        (0..stretches).map(|stretch| of(stretch).sum()).collect()
    }
}

/// What another program said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// One for each process, in their order.
    pub processes: Vec<ToolOutput>,
    /// From the first one's start to the last one's end, in nanoseconds.
    pub elapsed_ns: u64,
    /// What the processes at the other end said, in the same order; empty without a [`ToolPeer`].
    ///
    /// [`ToolPeer`]: crate::workload::ToolPeer
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub there: Vec<ToolOutput>,
}

/// What one process of a tool said, as it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// How it ended.
    pub ended: ToolExit,
    /// Its standard output; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// CPU time of it and its children, user and system, in nanoseconds.
    pub cpu_ns: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ended", content = "with", rename_all = "kebab-case")]
pub enum ToolExit {
    /// With an exit status.
    Status(i32),
    /// By a signal.
    Signal(i32),
    /// It was ended at the time limit.
    TimeLimit,
}

/// Where the pages of the buffers were, by move_pages(2), before and after the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// Pages looked at, before and after together. None if the kernel refused to tell.
    pub pages_checked: Option<u64>,
    /// Of those, pages on another node than asked for.
    pub pages_misplaced: u64,
    /// One node on which a misplaced page was found.
    pub found_on: Option<NodeId>,
    /// Bytes of the buffers that lie on huge pages.
    pub huge_bytes: u64,
}

/// Why a workload gave no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "kebab-case")]
pub enum ProbeError {
    /// The kernel or a sandbox refused.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked, as in `mbind to node 1`.
        what: String,
        /// The kernel's words.
        why: String,
    },
    /// The node's memory cannot hold the buffers.
    #[error("node {node} has {free_bytes} bytes free, and the buffers need {needed_bytes}")]
    NoMemory {
        /// The node.
        node: NodeId,
        /// Bytes the buffers need on it.
        needed_bytes: u64,
        /// Bytes it has free.
        free_bytes: u64,
    },
    /// This machine cannot run that loop.
    #[error("this machine has no {what}")]
    Unsupported {
        /// What it lacks.
        what: String,
    },
    /// The recorded machine never ran this workload, or not as often.
    #[error("not on the tape: {what}")]
    NotOnTape {
        /// What was asked for.
        what: String,
    },
    /// The recorded machine gives an outcome of another kind of workload.
    #[error("the tape gives the outcome of another kind of workload")]
    OtherOutcome,
    /// Stopped from outside.
    #[error("interrupted")]
    Interrupted,
}
