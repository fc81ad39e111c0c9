//! What moves data when I/O is measured: each engine makes the workload of a cell, and reads what came of it.
//!
//! Everything else, as which cells there are, in which order and how often, is the same for all engines
//! ([`crate::io`]).

mod builtin;
mod cuda;
mod fio;
pub mod iperf3;
pub mod nvbandwidth;
pub mod perftest;
pub mod remote;
mod tcp;

pub(crate) use builtin::streams;
pub use builtin::{Disk, Null};
pub use cuda::Cuda;
pub use fio::Fio;
pub use iperf3::Iperf3;
pub use nvbandwidth::Nvbandwidth;
pub use perftest::Perftest;
pub use remote::{RemoteEnd, RemotePlacement};
pub use tcp::Tcp;

use numaio_machine::probe::{IoOutcome, Outcome, Probe, ProbeError, ProbeExt, Residency, ToolOutcome};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{DiskPath, Sampling, StreamGroup, ToolProcess, ToolWorkload, Workload};
use numaio_schema::IoEngine;

/// Time in which a program tells its version, in milliseconds; a slow disk and an emulated machine included.
const VERSION_LIMIT_MS: u32 = 20_000;
/// Time beyond its measurement that a program may take to start and to end, in milliseconds.
const OVERHEAD_MS: u32 = 30_000;

/// What moves data.
pub trait Engine {
    /// Which one.
    fn engine(&self) -> IoEngine;

    /// Its version, as it names itself; of our own, numaio's.
    ///
    /// # Errors
    /// [`ProbeError::Unsupported`] if its program is missing.
    fn version(&self, _probe: &dyn Probe) -> Result<String, ProbeError> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    /// How to come by its program, if it needs one, as in `apt-get install fio`.
    fn remedy(&self) -> Option<&'static str> {
        None
    }

    /// Where on a disk, of engines for disks.
    fn disk(&self) -> Option<&DiskPath> {
        None
    }

    /// What to run for a cell.
    ///
    /// # Errors
    /// If this engine cannot do what is asked.
    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError>;

    /// What came of it.
    ///
    /// # Errors
    /// If the program failed or says what cannot be understood, and [`ProbeError::OtherOutcome`].
    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError>;
}

/// What is asked of an engine in one cell.
#[derive(Debug, Clone, Copy)]
pub struct CellRequest<'a> {
    /// The streams, all at once.
    pub groups: &'a [StreamGroup],
    /// Bytes of one request, message or transfer.
    pub block_bytes: u64,
    /// What is asked of the device beyond direction, as `send` of RDMA.
    pub operation: Option<&'a str>,
    /// Requests of a stream in flight.
    pub depth: u32,
    /// Length of a visit, in milliseconds.
    pub window_ms: u32,
    /// Samples in it.
    pub slices: u32,
    /// Bytes after which a visit ends early.
    pub most_bytes: Option<u64>,
}

/// What one visit gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VisitFigures {
    /// Bandwidth of each group in bytes per second, one value for each stretch of time; the stretches of all
    /// groups are the same.
    pub groups: Vec<Vec<f64>>,
    /// Bytes that were moved in those stretches.
    pub bytes: u64,
    /// Bytes that were moved in all, those of a warm-up included.
    pub bytes_of_all: u64,
    /// CPU time in those stretches, user and system, of the processes that moved the data, in nanoseconds; none if
    /// unknown.
    pub cpu_ns: Option<u64>,
    /// The same at the other end of a network path.
    pub cpu_ns_there: Option<u64>,
    /// Time of the whole run in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last stream's start, in nanoseconds; 0 if unknown.
    pub start_skew_ns: u64,
    /// Where the pages of the buffers were; of a program, no page is looked at.
    pub residency: Residency,
    /// What was done otherwise than asked, and why.
    pub notes: Vec<String>,
    /// What ended the visit early, so that it does not count.
    pub ended_early: Option<String>,
}

impl CellRequest<'_> {
    /// The window.
    pub fn sampling(&self) -> Sampling {
        Sampling::Window { milliseconds: self.window_ms, slices: self.slices }
    }

    /// Length of one slice, in milliseconds: also that of a warm-up.
    pub fn slice_ms(&self) -> u32 {
        (self.window_ms / self.slices.max(1)).max(1)
    }

    /// Another program, one process for each group, bound to the group's CPUs and node.
    pub fn tool(&self, program: &str, args: impl Fn(&StreamGroup, usize) -> Vec<String>) -> Workload {
        let process = |(index, group): (usize, &StreamGroup)| ToolProcess {
            args: args(group, index),
            cpus: group.cpus.clone(),
            memory: Some(group.memory),
        };
        Workload::Tool(ToolWorkload {
            program: program.to_owned(),
            processes: self.groups.iter().enumerate().map(process).collect(),
            time_limit_ms: self.window_ms.saturating_add(self.slice_ms()).saturating_add(OVERHEAD_MS),
            peer: None,
        })
    }
}

impl VisitFigures {
    /// Of our own streams.
    ///
    /// # Errors
    /// [`ProbeError::OtherOutcome`] if it is the outcome of something else.
    pub fn of_io(outcome: &Outcome) -> Result<Self, ProbeError> {
        let Outcome::Io(outcome) = outcome else { return Err(ProbeError::OtherOutcome) };
        let samples = || outcome.groups.iter().flat_map(|group| &group.samples);
        let bytes = samples().map(|sample| sample.bytes).fold(0, u64::saturating_add);
        // The warm-up is as long as a slice.
        let slices = outcome.groups.iter().map(|group| group.samples.len() as u64).max().unwrap_or(0);
        let warm_up = bytes / slices.max(1);
        let per_s = |group: &numaio_machine::probe::IoGroupOutcome| {
            group.samples.iter().map(|sample| sample.bytes_per_s()).collect()
        };
        Ok(Self {
            groups: outcome.groups.iter().map(per_s).collect(),
            bytes,
            bytes_of_all: bytes.saturating_add(warm_up),
            cpu_ns: Some(outcome.cpu_ns),
            cpu_ns_there: outcome.there.as_ref().map(|there| there.cpu_ns),
            elapsed_ns: outcome.elapsed_ns,
            start_skew_ns: outcome.start_skew_ns,
            residency: residency(outcome),
            notes: outcome.notes.clone(),
            ended_early: outcome.cut.clone(),
        })
    }

    /// Bandwidth of all groups together in bytes per second, one value for each stretch of time.
    pub fn bytes_per_s(&self) -> Vec<f64> {
        let stretches = self.groups.iter().map(Vec::len).min().unwrap_or(0);
        (0..stretches).map(|stretch| self.groups.iter().map(|group| group[stretch]).sum()).collect()
    }
}

/// Of all groups together, and of the peer.
fn residency(outcome: &IoOutcome) -> Residency {
    let mut all = Residency { pages_checked: Some(0), ..Residency::default() };
    let there = outcome.there.iter().map(|there| &there.residency);
    for group in outcome.groups.iter().map(|group| &group.residency).chain(there) {
        let both = all.pages_checked.zip(group.pages_checked);
        all.pages_checked = both.map(|(one, other)| one.saturating_add(other));
        all.pages_misplaced = all.pages_misplaced.saturating_add(group.pages_misplaced);
        all.huge_bytes = all.huge_bytes.saturating_add(group.huge_bytes);
        all.found_on = all.found_on.or(group.found_on);
    }
    all
}

/// What a program answers when it is asked for its version: the first line that says something.
///
/// # Errors
/// [`ProbeError::Unsupported`] with the program's name if there is none, and if it says nothing.
pub fn version_of(probe: &dyn Probe, program: &str, argument: &str) -> Result<String, ProbeError> {
    let process = ToolProcess { args: vec![argument.to_owned()], cpus: CpuSet::new(), memory: None };
    let outcome = probe.tool(&ToolWorkload {
        program: program.to_owned(),
        processes: vec![process],
        time_limit_ms: VERSION_LIMIT_MS,
        peer: None,
    })?;
    let output =
        outcome.processes.iter().flat_map(|output| output.stdout.lines().chain(output.stderr.lines()));
    let line = output.map(str::trim).find(|line| !line.is_empty());
    let line = line.ok_or_else(|| failed(program, "it does not tell its version".to_owned()))?;
    Ok(line.chars().take(100).collect())
}

/// What processes of a program said.
///
/// # Errors
/// [`ProbeError::OtherOutcome`] if it is the outcome of something else.
pub fn tool_outcome(outcome: &Outcome) -> Result<&ToolOutcome, ProbeError> {
    match outcome {
        Outcome::Tool(outcome) => Ok(outcome),
        _ => Err(ProbeError::OtherOutcome),
    }
}

/// That a program did not measure.
pub fn failed(program: &str, why: String) -> ProbeError {
    ProbeError::Refused { what: program.to_owned(), why }
}
