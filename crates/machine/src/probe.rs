//! Running workloads on a machine, and their outcomes.

use crate::counters::{Count, MissingCounter};
use crate::ids::NodeId;
use crate::set::CpuSet;
use crate::workload::{
    CopyWorkload, CountedWorkload, IoWorkload, LatencyWorkload, LoadedWorkload, MmioWorkload, PingWorkload,
    ProgramWorkload, StreamWorkload, ToolWorkload, Workload,
};
use serde::{Deserialize, Serialize};

/// A machine that can run workloads.
pub trait Probe {
    /// Runs a workload to completion.
    ///
    /// # Errors
    /// [`ProbeError`]; an implementation never invents a result.
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError>;
}

/// Typed workloads of every [`Probe`].
pub trait ProbeExt: Probe {
    /// Runs a copy.
    ///
    /// # Errors
    /// As [`Probe::run`], and if a tape contains an outcome of another kind.
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

    /// Runs a pointer chase.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`].
    fn latency(&self, latency: &LatencyWorkload) -> Result<LatencyOutcome, ProbeError> {
        match self.run(&Workload::Latency(latency.clone()))? {
            Outcome::Latency(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Runs I/O between memory and a device.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`].
    fn io(&self, io: &IoWorkload) -> Result<IoOutcome, ProbeError> {
        match self.run(&Workload::Io(io.clone()))? {
            Outcome::Io(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Exchanges messages with a peer.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`].
    fn ping(&self, ping: &PingWorkload) -> Result<PingOutcome, ProbeError> {
        match self.run(&Workload::Ping(ping.clone()))? {
            Outcome::Ping(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Reads a register of a device.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`].
    fn mmio(&self, mmio: &MmioWorkload) -> Result<MmioOutcome, ProbeError> {
        match self.run(&Workload::Mmio(mmio.clone()))? {
            Outcome::Mmio(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Runs an external program.
    ///
    /// # Errors
    /// As [`ProbeExt::copy`]; [`ProbeError::Unsupported`] with the program's name if it is not
    /// installed.
    fn tool(&self, tool: &ToolWorkload) -> Result<ToolOutcome, ProbeError> {
        match self.run(&Workload::Tool(tool.clone()))? {
            Outcome::Tool(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Runs a program of the user.
    ///
    /// # Errors
    /// As [`ProbeExt::tool`]. A program that fails or exceeds its time limit is an outcome.
    fn program(&self, program: &ProgramWorkload) -> Result<ProgramOutcome, ProbeError> {
        match self.run(&Workload::Program(program.clone()))? {
            Outcome::Program(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Runs a workload and counts its events.
    ///
    /// # Errors
    /// As the counted workload. Counters without a value are an outcome.
    fn counted(&self, counted: &CountedWorkload) -> Result<CountedOutcome, ProbeError> {
        match self.run(&Workload::Counted(counted.clone()))? {
            Outcome::Counted(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }

    /// Runs a workload with load beside it.
    ///
    /// # Errors
    /// As the workload, and [`ProbeError::Refused`] if a load cannot start or ends too early.
    fn loaded(&self, loaded: &LoadedWorkload) -> Result<LoadedOutcome, ProbeError> {
        match self.run(&Workload::Loaded(loaded.clone()))? {
            Outcome::Loaded(outcome) => Ok(outcome),
            _ => Err(ProbeError::OtherOutcome),
        }
    }
}

impl<T: Probe + ?Sized> ProbeExt for T {}

/// The outcome of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Outcome {
    /// Outcome of [`Workload::Copy`].
    Copy(CopyOutcome),
    /// Outcome of [`Workload::Stream`].
    Stream(StreamOutcome),
    /// Outcome of [`Workload::Latency`].
    Latency(LatencyOutcome),
    /// Outcome of [`Workload::Io`].
    Io(IoOutcome),
    /// Outcome of [`Workload::Ping`].
    Ping(PingOutcome),
    /// Outcome of [`Workload::Mmio`].
    Mmio(MmioOutcome),
    /// Outcome of [`Workload::Tool`].
    Tool(ToolOutcome),
    /// Outcome of [`Workload::Program`].
    Program(ProgramOutcome),
    /// Outcome of [`Workload::Counted`].
    Counted(CountedOutcome),
    /// Outcome of [`Workload::Loaded`].
    Loaded(LoadedOutcome),
}

/// Outcome of a counted workload, with raw counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CountedOutcome {
    /// Outcome of the counted workload; `None` for a process that was running before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// Time in which events of threads were counted, in nanoseconds. Buffers are prepared before.
    pub counted_ns: u64,
    /// Total time in nanoseconds. Counts of nodes and of the machine cover all of it.
    pub elapsed_ns: u64,
    /// Whether the counted process ended before its time was over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended_early: bool,
    /// The counts: those of threads, then those of nodes and of the machine.
    pub counts: Vec<Count>,
    /// Requested counters without a count, with reasons.
    pub missing: Vec<MissingCounter>,
}

impl Outcome {
    /// Adds time to the total time of the run.
    pub fn add_elapsed_ns(&mut self, ns: u64) {
        let elapsed_ns = match self {
            Self::Copy(outcome) => &mut outcome.elapsed_ns,
            Self::Stream(outcome) => &mut outcome.elapsed_ns,
            Self::Latency(outcome) => &mut outcome.elapsed_ns,
            Self::Io(outcome) => &mut outcome.elapsed_ns,
            Self::Tool(outcome) => &mut outcome.elapsed_ns,
            Self::Program(outcome) => &mut outcome.elapsed_ns,
            Self::Counted(outcome) => &mut outcome.elapsed_ns,
            Self::Ping(outcome) => &mut outcome.elapsed_ns,
            Self::Mmio(outcome) => &mut outcome.elapsed_ns,
            Self::Loaded(outcome) => return outcome.outcome.add_elapsed_ns(ns),
        };
        *elapsed_ns = elapsed_ns.saturating_add(ns);
    }
}

/// Outcome of a workload with load beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadedOutcome {
    /// Outcome of the workload.
    pub outcome: Box<Outcome>,
    /// Outcome of each load, in order.
    pub loads: Vec<NeighborOutcome>,
    /// Time to start and to stop the loads, in nanoseconds.
    pub overhead_ns: u64,
}

/// Outcome of a load beside a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NeighborOutcome {
    /// Bytes that its threads read and wrote, as counted by STREAM, during the complete run of the
    /// workload, which includes its preparation; `None` for a command.
    pub bytes: Option<u64>,
    /// Duration of that run in nanoseconds.
    pub ns: u64,
    /// Location of the arrays' pages.
    pub residency: Residency,
}

impl NeighborOutcome {
    /// Returns the bandwidth in bytes per second, as counted by STREAM; `None` for a command.
    pub fn bytes_per_s(&self) -> Option<f64> {
        Some(self.bytes? as f64 * 1e9 / self.ns.max(1) as f64)
    }
}

/// Outcome of a copy workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CopyOutcome {
    /// Samples in chronological order, without the warm-up.
    pub samples: Vec<CopySample>,
    /// Total time including buffers and checks, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last thread's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// Location of the buffers' pages.
    pub residency: Residency,
    /// C library of the `memcpy`, with its version if known: `glibc 2.36`, `musl`; `None` for other
    /// loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_library: Option<String>,
}

/// Bytes copied by all threads in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CopySample {
    /// Copied bytes, each counted once.
    pub bytes_copied: u64,
    /// Length of the interval in nanoseconds.
    pub ns: u64,
}

impl CopySample {
    /// Returns the bandwidth in copied bytes per second.
    pub fn bytes_copied_per_s(self) -> f64 {
        self.bytes_copied as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// Outcome of a STREAM workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamOutcome {
    /// Samples in chronological order, without the warm-up.
    pub samples: Vec<StreamSample>,
    /// Total time including arrays and checks, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last thread's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// Location of the arrays' pages.
    pub residency: Residency,
}

/// Bytes read and written by all threads in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamSample {
    /// Bytes as counted by STREAM: read and written, without write-allocate.
    pub bytes: u64,
    /// Length of the interval in nanoseconds.
    pub ns: u64,
}

impl StreamSample {
    /// Returns the bandwidth in bytes per second, as counted by STREAM.
    pub fn bytes_per_s(self) -> f64 {
        self.bytes as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// Outcome of a latency workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LatencyOutcome {
    /// Samples in chronological order, without the warm-up.
    pub samples: Vec<LatencySample>,
    /// Total time including buffers and checks, in nanoseconds.
    pub elapsed_ns: u64,
    /// Location of the chain's pages.
    pub residency: Residency,
    /// Outcome of the concurrent load; `None` for idle latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadOutcome>,
}

/// Loads of a chain in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LatencySample {
    /// Number of loads, each dependent on the previous one.
    pub loads: u64,
    /// Length of the interval in nanoseconds.
    pub ns: u64,
}

impl LatencySample {
    /// Returns the nanoseconds per load.
    pub fn ns_per_load(self) -> f64 {
        self.ns as f64 / self.loads.max(1) as f64
    }
}

/// Outcome of the load that ran concurrently with a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadOutcome {
    /// Bytes read by all threads during the samples.
    pub bytes_read: u64,
    /// Duration of the samples in nanoseconds.
    pub ns: u64,
    /// Location of the buffers' pages.
    pub residency: Residency,
}

impl LoadOutcome {
    /// Returns the bandwidth in read bytes per second.
    pub fn bytes_read_per_s(&self) -> f64 {
        self.bytes_read as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// Outcome of an I/O workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoOutcome {
    /// Outcome of each group, in order; all groups have samples of the same intervals.
    pub groups: Vec<IoGroupOutcome>,
    /// Total time including buffers and checks, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last stream's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// CPU time of this process during the samples, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// Outcome of the peer of a network path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerOutcome>,
    /// Deviations from the request with reasons, as in
    /// `no O_DIRECT on tmpfs: through the page cache`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Reason if the run was interrupted; the samples are those taken before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
}

/// Outcome of the peer of a network path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PeerOutcome {
    /// CPUs of its threads.
    pub cpus: CpuSet,
    /// Node of its buffers.
    pub memory: NodeId,
    /// CPU time of its process during the samples, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// Location of its buffers' pages.
    pub residency: Residency,
}

/// Outcome of a group of streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoGroupOutcome {
    /// Samples in chronological order, without the warm-up.
    pub samples: Vec<IoSample>,
    /// Number of requests completed during the samples.
    pub requests: u64,
    /// Location of its buffers' pages.
    pub residency: Residency,
}

/// Bytes moved by a group of streams in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoSample {
    /// Bytes moved between memory and the device.
    pub bytes: u64,
    /// Length of the interval in nanoseconds.
    pub ns: u64,
}

impl IoSample {
    /// Returns the bandwidth in bytes per second.
    pub fn bytes_per_s(self) -> f64 {
        self.bytes as f64 * 1e9 / self.ns.max(1) as f64
    }
}

impl IoOutcome {
    /// Returns the total bandwidth of all groups in bytes per second, for each interval.
    pub fn bytes_per_s(&self) -> Vec<f64> {
        let stretches = self.groups.iter().map(|group| group.samples.len()).min().unwrap_or(0);
        let of = |stretch: usize| self.groups.iter().map(move |group| group.samples[stretch].bytes_per_s());
        (0..stretches).map(|stretch| of(stretch).sum()).collect()
    }
}

/// Outcome of a ping-pong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PingOutcome {
    /// Median round-trip time of each slice in nanoseconds, in chronological order, without the
    /// warm-up.
    pub medians_ns: Vec<u64>,
    /// Number of round trips in these slices.
    pub round_trips: u64,
    /// Shortest round trip in nanoseconds.
    pub min_ns: u64,
    /// 99th percentile of all round trips in nanoseconds.
    pub p99_ns: u64,
    /// Total time including buffers and checks, in nanoseconds.
    pub elapsed_ns: u64,
    /// Location of the buffer's pages.
    pub residency: Residency,
    /// Outcome of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerOutcome>,
    /// Reason if the run was interrupted; the round trips are those made before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
}

impl PingOutcome {
    /// Summarizes the round-trip times of each slice, in nanoseconds; slices without any are left
    /// out.
    pub fn of_slices(slices: &[Vec<u64>]) -> Self {
        let times = SlicedTimes::new(slices);
        Self {
            medians_ns: times.medians_ns,
            round_trips: times.count,
            min_ns: times.min_ns,
            p99_ns: times.p99_ns,
            elapsed_ns: 0,
            residency: Residency::default(),
            peer: None,
            interrupted: None,
        }
    }
}

/// Summary of the times of slices, in nanoseconds.
struct SlicedTimes {
    medians_ns: Vec<u64>,
    count: u64,
    min_ns: u64,
    p99_ns: u64,
}

impl SlicedTimes {
    fn new(slices: &[Vec<u64>]) -> Self {
        let sorted = |times: &mut Vec<u64>| times.sort_unstable();
        let mut all: Vec<u64> = slices.concat();
        sorted(&mut all);
        let medians = slices.iter().filter(|slice| !slice.is_empty()).map(|slice| {
            let mut slice = slice.clone();
            sorted(&mut slice);
            percentile(&slice, 50)
        });
        Self {
            medians_ns: medians.collect(),
            count: all.len() as u64,
            min_ns: all.first().copied().unwrap_or(0),
            p99_ns: percentile(&all, 99),
        }
    }
}

/// Outcome of reads of a register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MmioOutcome {
    /// Median time of the reads of each slice in nanoseconds, in chronological order, without the
    /// warm-up. All times include a reading of the clock.
    pub medians_ns: Vec<u64>,
    /// Number of reads in these slices.
    pub reads: u64,
    /// Shortest read in nanoseconds.
    pub min_ns: u64,
    /// 99th percentile of all reads in nanoseconds.
    pub p99_ns: u64,
    /// Shortest time of a reading of the clock in nanoseconds, measured without a read.
    pub clock_ns: u64,
    /// Number of reads that returned `0xffffffff`, as reads of a device that does not answer do.
    pub all_ones: u64,
    /// Total time including the mapping and the warm-up, in nanoseconds.
    pub elapsed_ns: u64,
}

impl MmioOutcome {
    /// Summarizes the times of the reads of each slice, and of readings of the clock alone, in
    /// nanoseconds.
    pub fn of_slices(slices: &[Vec<u64>], clock: &[u64]) -> Self {
        let times = SlicedTimes::new(slices);
        let clock_ns = clock.iter().copied().min().unwrap_or(0);
        Self {
            medians_ns: times.medians_ns,
            reads: times.count,
            min_ns: times.min_ns,
            p99_ns: times.p99_ns,
            clock_ns,
            all_ones: 0,
            elapsed_ns: 0,
        }
    }
}

/// Returns a percentile of sorted values by the nearest rank, or 0 without values.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Outcome of an external program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ToolOutcome {
    /// Output of each process, in order.
    pub processes: Vec<ToolOutput>,
    /// Time from the start of the first process to the end of the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Output of the peer processes, in the same order; empty without a [`ToolPeer`].
    ///
    /// [`ToolPeer`]: crate::workload::ToolPeer
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer_processes: Vec<ToolOutput>,
}

/// Outcome of a program of the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramOutcome {
    /// Output and exit status.
    #[serde(flatten)]
    pub output: ToolOutput,
    /// Time from its start to its exit, in nanoseconds.
    pub elapsed_ns: u64,
    /// Location of the anonymous pages of the program and its children while they ran, at the
    /// check that found most pages, in units of 4 KiB; not checked if it exited before the first
    /// check.
    pub residency: Residency,
}

/// Output and exit status of a process of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ToolOutput {
    /// Exit status.
    pub exit: ToolExit,
    /// Standard output; invalid UTF-8 is replaced.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// CPU time of the process and its children, user and system, in nanoseconds.
    pub cpu_ns: u64,
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", content = "value", rename_all = "kebab-case")]
pub enum ToolExit {
    /// Exited with a status.
    Status(i32),
    /// Killed by a signal.
    Signal(i32),
    /// Killed at the time limit.
    TimeLimit,
}

/// Location of the buffers' pages by move_pages(2), before and after the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Residency {
    /// Number of checked pages, before and after together; `None` if not permitted.
    pub pages_checked: Option<u64>,
    /// Number of pages on another node than requested.
    pub pages_misplaced: u64,
    /// A node with misplaced pages.
    pub misplaced_on: Option<NodeId>,
    /// Bytes of the buffers on huge pages.
    pub huge_bytes: u64,
}

/// The reason why a workload has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "error", rename_all = "kebab-case")]
pub enum ProbeError {
    /// The kernel or a sandbox rejected a call.
    #[error("{call}: {reason}")]
    Refused {
        /// The rejected call, as in `mbind to node 1`.
        call: String,
        /// The kernel's error text.
        reason: String,
    },
    /// The node's free memory is smaller than the buffers.
    #[error("node {node} has {free_bytes} bytes free, and the buffers need {needed_bytes}")]
    NoMemory {
        /// The node.
        node: NodeId,
        /// Required size of the buffers in bytes.
        needed_bytes: u64,
        /// Free memory in bytes.
        free_bytes: u64,
    },
    /// The machine does not support the workload.
    #[error("not supported on this machine: {feature}")]
    Unsupported {
        /// The missing feature or program.
        feature: String,
    },
    /// The tape has no (further) run of this workload.
    #[error("not on the tape: {workload}")]
    NotOnTape {
        /// The workload.
        workload: String,
    },
    /// The tape contains an outcome of another kind.
    #[error("the tape is corrupt: the outcome is of another kind of workload")]
    OtherOutcome,
    /// A signal interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_summarized_by_nearest_rank() {
        let times: Vec<u64> = (1..=100).rev().collect();
        let outcome = PingOutcome::of_slices(&[times, vec![5, 1, 3], Vec::new()]);
        assert_eq!((outcome.medians_ns, outcome.round_trips), (vec![50, 3], 103));
        assert_eq!((outcome.min_ns, outcome.p99_ns), (1, 99));
        let one = PingOutcome::of_slices(&[vec![7]]);
        assert_eq!((one.medians_ns, one.min_ns, one.p99_ns), (vec![7], 7, 7));
        let none = PingOutcome::of_slices(&[]);
        assert_eq!((none.round_trips, none.medians_ns.len(), none.p99_ns), (0, 0, 0));
    }
}
