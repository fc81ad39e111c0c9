//! fio (<https://fio.readthedocs.io>), one process per group of streams.

mod output;
#[cfg(test)]
mod tests;

use super::{failed, tool_outcome, version_of, CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, Probe, ProbeError, Residency, ToolExit, ToolOutput};
use numaio_machine::workload::{
    Direction, DiskMethod, DiskOrder, DiskPath, Sampling, StreamGroup, ToolWorkload, Workload,
};
use numaio_schema::IoEngine;
use output::Run;

/// Program name.
const PROGRAM: &str = "fio";

/// Tolerated skew of processes: one part in this many of their run time.
const MAX_SKEW_PART: u64 = 10;
/// Windows that several processes measure, since they do not start simultaneously.
const WINDOWS_OF_SEVERAL: u32 = 2;

/// A disk, or a file on one, measured by fio.
///
/// A byte limit stops only the campaign, not a single visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fio {
    /// Path and method; another process must be able to open the path.
    pub path: DiskPath,
    /// Whether to register buffers and file with io_uring, which requires lockable memory.
    pub registered: bool,
}

impl Engine for Fio {
    fn engine(&self) -> IoEngine {
        IoEngine::Fio
    }

    fn version(&self, probe: &dyn Probe) -> Result<String, ProbeError> {
        version_of(probe, PROGRAM, "--version")
    }

    fn remedy(&self) -> Option<&'static str> {
        Some("apt-get install fio")
    }

    fn disk(&self) -> Option<&DiskPath> {
        Some(&self.path)
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        let jobs_of =
            |group: &StreamGroup| u64::from(group.streams) * u64::from(self.jobs_of_a_stream(request));
        let jobs: u64 = request.groups.iter().map(jobs_of).sum();
        let each = self.path.bytes / jobs.max(1) / request.block_bytes.max(1) * request.block_bytes;
        if each == 0 {
            let why = format!("{} bytes are less than a block for each of {jobs} jobs", self.path.bytes);
            return Err(failed(PROGRAM, why));
        }
        Ok(request.tool(PROGRAM, |group, index| {
            let before: u64 = request.groups[..index].iter().map(jobs_of).sum();
            self.args(request, group, (before, each))
        }))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        let outcome = tool_outcome(outcome)?;
        let mut figures = VisitFigures {
            elapsed_ns: outcome.elapsed_ns,
            cpu_ns: Some(0),
            // Pages of other programs are not checked.
            residency: Residency { pages_checked: Some(0), ..Residency::default() },
            ..VisitFigures::default()
        };
        let runs = outcome.processes.iter().map(run).collect::<Result<Vec<Run>, ProbeError>>()?;
        for run in &runs {
            figures.groups.push(vec![run.bytes_per_s]);
            figures.bytes = figures.bytes.saturating_add(run.bytes);
            figures.cpu_ns = figures.cpu_ns.map(|ns| ns.saturating_add(run.cpu_ns));
        }
        figures.bytes_of_all = figures.bytes;
        figures.start_skew_ns = end_skew_ms(&runs).saturating_mul(1_000_000);
        figures.ended_early = too_far_apart(&runs);
        Ok(figures)
    }
}

/// Returns the number of windows that each process measures.
fn windows(processes: usize) -> u32 {
    if processes > 1 {
        WINDOWS_OF_SEVERAL
    } else {
        1
    }
}

/// Returns the time between the ends of the first and the last process, which run equally long.
fn end_skew_ms(runs: &[Run]) -> u64 {
    let ends = || runs.iter().map(|run| run.ended_ms);
    ends().max().unwrap_or(0).saturating_sub(ends().min().unwrap_or(0))
}

/// Returns the reason if processes did not run simultaneously, so that their figures cannot be
/// added.
fn too_far_apart(runs: &[Run]) -> Option<String> {
    let (apart, runtime) = (end_skew_ms(runs), runs.iter().map(|run| run.runtime_ms).min()?);
    let too_far = apart.saturating_mul(MAX_SKEW_PART) > runtime;
    too_far.then(|| format!("fio processes measured {runtime} ms each, {apart} ms apart"))
}

/// Parses the output of one process.
fn run(output: &ToolOutput) -> Result<Run, ProbeError> {
    let complaint = || {
        let lines =
            output.stderr.lines().chain(output.stdout.lines().take_while(|line| !line.starts_with('{')));
        lines.map(str::trim).find(|line| !line.is_empty()).unwrap_or("no error message").to_owned()
    };
    let run = output::parse(&output.stdout).map_err(|why| match output.exit {
        ToolExit::Status(0) => failed(PROGRAM, why.to_string()),
        ToolExit::Status(_) if !why.is_of_a_job() => failed(PROGRAM, complaint()),
        ToolExit::Status(_) => failed(PROGRAM, format!("{why}: {}", complaint())),
        ToolExit::Signal(signal) => failed(PROGRAM, format!("terminated by signal {signal}")),
        ToolExit::TimeLimit => failed(PROGRAM, "time limit exceeded".to_owned()),
    })?;
    match output.exit {
        ToolExit::Status(0) => Ok(run),
        ToolExit::Status(_) => Err(failed(PROGRAM, complaint())),
        ToolExit::Signal(signal) => Err(failed(PROGRAM, format!("terminated by signal {signal}"))),
        ToolExit::TimeLimit => Err(failed(PROGRAM, "time limit exceeded".to_owned())),
    }
}

impl Fio {
    /// Reconstructs the engine and window from the arguments of a run; `disk` provides everything
    /// but the path. None if the run is not a measurement.
    pub fn of_run(run: &ToolWorkload, disk: DiskPath) -> Option<(Self, Sampling)> {
        let args = &run.processes.first()?.args;
        let value = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        let ms = |name: &str| value(name)?.strip_suffix("ms")?.parse::<u32>().ok().filter(|ms| *ms > 0);
        let milliseconds = ms("--runtime")? / windows(run.processes.len());
        let slice_ms = ms("--ramp_time")?;
        let path = value("--filename")?.replace("\\:", ":").replace("\\\\", "\\");
        let registered = args.iter().any(|arg| arg == "--fixedbufs");
        let slices = (milliseconds / slice_ms).max(1);
        Some((
            Self { path: DiskPath { path, ..disk }, registered },
            Sampling::Window { milliseconds, slices },
        ))
    }

    /// Returns the jobs per stream: without asynchronous I/O, one for each request in flight.
    fn jobs_of_a_stream(&self, request: &CellRequest) -> u32 {
        if self.path.method == DiskMethod::Threads {
            request.depth
        } else {
            1
        }
    }

    /// Returns the arguments of one process. Each job uses its own part of the area, `each` bytes
    /// long, after the `before` parts of earlier groups.
    fn args(&self, request: &CellRequest, group: &StreamGroup, (before, each): (u64, u64)) -> Vec<String> {
        let DiskPath { path, offset: at, method, direct, order, .. } = &self.path;
        let rw = match (group.direction, order) {
            (Direction::Write, DiskOrder::Sequential) => "write",
            (Direction::Write, DiskOrder::Random) => "randwrite",
            (Direction::Read, DiskOrder::Sequential) => "read",
            (Direction::Read, DiskOrder::Random) => "randread",
        };
        let (engine, depth) = match method {
            DiskMethod::Uring => ("io_uring", request.depth),
            DiskMethod::Aio => ("libaio", request.depth),
            DiskMethod::Threads => ("psync", 1),
        };
        let jobs = group.streams.saturating_mul(self.jobs_of_a_stream(request));
        let mut args = vec![
            "--output-format=json".to_owned(),
            "--name=numaio".to_owned(),
            // fio separates file names by colons.
            format!("--filename={}", path.replace('\\', "\\\\").replace(':', "\\:")),
            "--allow_file_create=0".to_owned(),
            format!("--rw={rw}"),
            format!("--ioengine={engine}"),
            format!("--direct={}", u8::from(*direct)),
            format!("--bs={}", request.block_bytes),
            format!("--iodepth={depth}"),
            format!("--numjobs={jobs}"),
            format!("--offset={}", at + before * each),
            format!("--offset_increment={each}"),
            format!("--size={each}"),
            "--time_based".to_owned(),
            format!("--runtime={}ms", request.window_ms.saturating_mul(windows(request.groups.len()))),
            format!("--ramp_time={}ms", request.slice_ms()),
            "--randrepeat=0".to_owned(),
        ];
        if self.registered && *method == DiskMethod::Uring {
            args.extend(["--fixedbufs".to_owned(), "--registerfiles".to_owned()]);
        }
        args
    }
}
