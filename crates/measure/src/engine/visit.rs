//! Engines: the workload of a cell, and the figures of a visit.

use numaio_machine::probe::{IoOutcome, Outcome, Probe, ProbeError, Residency};
use numaio_machine::workload::{DiskPath, Sampling, StreamGroup, ToolProcess, ToolWorkload, Workload};
use numaio_schema::IoEngine;

/// Time that a program may need to start and exit, in milliseconds.
const OVERHEAD_MS: u32 = 30_000;

/// An I/O engine.
pub trait Engine {
    /// Returns which engine it is.
    fn engine(&self) -> IoEngine;

    /// Returns the version as reported by the engine's program; numaio's for built-in engines.
    ///
    /// # Errors
    /// [`ProbeError::Unsupported`] if the program is missing.
    fn version(&self, _probe: &dyn Probe) -> Result<String, ProbeError> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    /// Returns how to install the program, such as `apt-get install fio`; none for built-in
    /// engines.
    fn remedy(&self) -> Option<&'static str> {
        None
    }

    /// Returns path and method of disk engines.
    fn disk(&self) -> Option<&DiskPath> {
        None
    }

    /// Creates the workload of a cell.
    ///
    /// # Errors
    /// [`ProbeError`] if the engine does not support the request.
    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError>;

    /// Interprets the outcome of a workload.
    ///
    /// # Errors
    /// [`ProbeError`] if the program failed or its output is invalid, and
    /// [`ProbeError::OtherOutcome`].
    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError>;
}

/// Parameters of a cell.
#[derive(Debug, Clone, Copy)]
pub struct CellRequest<'a> {
    /// Streams, running concurrently.
    pub groups: &'a [StreamGroup],
    /// Bytes of one request, message or transfer.
    pub block_bytes: u64,
    /// Device operation beyond direction, such as `send` of RDMA.
    pub operation: Option<&'a str>,
    /// Requests in flight per stream.
    pub depth: u32,
    /// Length of a visit, in milliseconds.
    pub window_ms: u32,
    /// Samples per visit.
    pub slices: u32,
    /// Bytes after which a visit stops.
    pub most_bytes: Option<u64>,
}

/// Figures of one visit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VisitFigures {
    /// Bandwidth of each group in bytes per second, one value per period; periods are the same for
    /// all groups.
    pub groups: Vec<Vec<f64>>,
    /// Bytes moved in these periods.
    pub bytes: u64,
    /// Bytes moved in total, including the warm-up.
    pub bytes_of_all: u64,
    /// CPU time in these periods, user and system, of the processes that moved the data, in
    /// nanoseconds; none if unknown.
    pub cpu_ns: Option<u64>,
    /// The same at the remote end of a network path.
    pub cpu_ns_there: Option<u64>,
    /// Time of the complete run in nanoseconds.
    pub elapsed_ns: u64,
    /// Time between the first and the last stream's start, in nanoseconds; 0 if unknown.
    pub start_skew_ns: u64,
    /// Residency of the buffers; pages of other programs are not checked.
    pub residency: Residency,
    /// Deviations from the request, with reasons.
    pub notes: Vec<String>,
    /// Reason why the visit stopped early, which invalidates it.
    pub ended_early: Option<String>,
}

impl CellRequest<'_> {
    /// Returns the sampling window.
    pub fn sampling(&self) -> Sampling {
        Sampling::Window { milliseconds: self.window_ms, slices: self.slices }
    }

    /// Returns the length of a slice in milliseconds, also that of the warm-up.
    pub fn slice_ms(&self) -> u32 {
        (self.window_ms / self.slices.max(1)).max(1)
    }

    /// Creates the workload of another program, with one process per group, bound to the group's
    /// CPUs and node.
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
    /// Converts the outcome of built-in streams.
    ///
    /// # Errors
    /// [`ProbeError::OtherOutcome`] for another kind of outcome.
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
            cpu_ns_there: outcome.peer.as_ref().map(|there| there.cpu_ns),
            elapsed_ns: outcome.elapsed_ns,
            start_skew_ns: outcome.start_skew_ns,
            residency: residency(outcome),
            notes: outcome.notes.clone(),
            ended_early: outcome.interrupted.clone(),
        })
    }

    /// Returns the total bandwidth in bytes per second, one value per period.
    pub fn bytes_per_s(&self) -> Vec<f64> {
        let stretches = self.groups.iter().map(Vec::len).min().unwrap_or(0);
        (0..stretches).map(|stretch| self.groups.iter().map(|group| group[stretch]).sum()).collect()
    }
}

/// Sums the residency of all groups and of the peer.
fn residency(outcome: &IoOutcome) -> Residency {
    let mut all = Residency { pages_checked: Some(0), ..Residency::default() };
    let there = outcome.peer.iter().map(|there| &there.residency);
    for group in outcome.groups.iter().map(|group| &group.residency).chain(there) {
        let both = all.pages_checked.zip(group.pages_checked);
        all.pages_checked = both.map(|(one, other)| one.saturating_add(other));
        all.pages_misplaced = all.pages_misplaced.saturating_add(group.pages_misplaced);
        all.huge_bytes = all.huge_bytes.saturating_add(group.huge_bytes);
        all.misplaced_on = all.misplaced_on.or(group.misplaced_on);
    }
    all
}
