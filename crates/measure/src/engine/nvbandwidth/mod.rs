//! nvbandwidth (<https://github.com/NVIDIA/nvbandwidth>), NVIDIA's benchmark, bound to a node.
//!
//! It measures every GPU in turn and reports the median of its samples. For both directions at
//! once, it measures one while the other causes load, and then vice versa.

mod output;
#[cfg(test)]
mod tests;

use super::{failed, tool_outcome, version_of, CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, Probe, ProbeError, ProbeExt, Residency, ToolExit, ToolOutput};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Direction, StreamGroup, ToolProcess, ToolWorkload, Workload};
use numaio_schema::IoEngine;
pub use output::ListedGpu;
use output::Run;

/// Program name.
const PROGRAM: &str = "nvbandwidth";
/// Granularity of its buffers.
const MIB: u64 = 1 << 20;
/// Time limit in milliseconds. Initialization of eight GPUs alone takes ten seconds or more.
const TIME_LIMIT_MS: u32 = 180_000;

/// A GPU, measured by nvbandwidth.
///
/// It uses one stream with a fixed number of copies in flight. A byte limit stops only the
/// campaign, not a single visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nvbandwidth {
    /// Index of the driver.
    pub device: u32,
}

impl Engine for Nvbandwidth {
    fn engine(&self) -> IoEngine {
        IoEngine::Nvbandwidth
    }

    fn version(&self, probe: &dyn Probe) -> Result<String, ProbeError> {
        let output = version_of(probe, PROGRAM, "--help")?;
        // If it cannot be loaded, as without a driver, this is the message of the loader.
        match output.split_once("Version: ") {
            Some((_, version)) => Ok(format!("{PROGRAM} {version}")),
            None => Err(failed(PROGRAM, output)),
        }
    }

    fn remedy(&self) -> Option<&'static str> {
        Some(
            "not packaged by distributions: build it from https://github.com/NVIDIA/nvbandwidth (needs the CUDA \
             toolkit) and put it on PATH",
        )
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        let tests = tests_of(request.groups)?;
        if !request.block_bytes.is_multiple_of(MIB) {
            return Err(failed(
                PROGRAM,
                format!("block size must be a multiple of 1 MiB, got {} bytes", request.block_bytes),
            ));
        }
        let group = &request.groups[0];
        let process = ToolProcess {
            args: args(request.block_bytes / MIB, request.slices, &tests),
            cpus: group.cpus.clone(),
            memory: Some(group.memory),
        };
        Ok(tool(process))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        let outcome = tool_outcome(outcome)?;
        let output = outcome.processes.first().ok_or(ProbeError::OtherOutcome)?;
        let runs = run(output)?.bytes_per_s(self.device).map_err(|why| failed(PROGRAM, why.to_string()))?;
        // An upper bound, since nvbandwidth does not report the bytes moved and does other work as
        // well.
        let fastest = runs.iter().copied().fold(0.0, f64::max);
        let bytes_of_all = (fastest * outcome.elapsed_ns as f64 / 1e9) as u64;
        Ok(VisitFigures {
            notes: notes(runs.len()),
            groups: runs.into_iter().map(|bytes_per_s| vec![bytes_per_s]).collect(),
            bytes_of_all,
            elapsed_ns: outcome.elapsed_ns,
            // Pages of other programs are not checked.
            residency: Residency { pages_checked: Some(0), ..Residency::default() },
            ..VisitFigures::default()
        })
    }
}

/// Returns the GPUs found by nvbandwidth, by driver index, with a small transfer to each.
///
/// # Errors
/// [`ProbeError::Unsupported`] if it is missing; an error if it fails.
pub fn gpus(probe: &dyn Probe) -> Result<Vec<ListedGpu>, ProbeError> {
    let args = args(1, 1, &["host_to_device_memcpy_ce"]);
    let process = ToolProcess { args, cpus: CpuSet::new(), memory: None };
    let Workload::Tool(tool) = tool(process) else { return Err(ProbeError::OtherOutcome) };
    let outcome = probe.tool(&tool)?;
    let output = outcome.processes.first().ok_or(ProbeError::OtherOutcome)?;
    Ok(run(output)?.gpus())
}

fn tool(process: ToolProcess) -> Workload {
    Workload::Tool(ToolWorkload {
        program: PROGRAM.to_owned(),
        processes: vec![process],
        time_limit_ms: TIME_LIMIT_MS,
        peer: None,
    })
}

/// Returns its arguments. By default it would bind itself to the CPUs next to each GPU.
fn args(mib: u64, samples: u32, tests: &[&str]) -> Vec<String> {
    let (mib, samples) = (mib.to_string(), samples.to_string());
    let options = [
        "--json",
        "--disableAffinity",
        "--skipVerification",
        "--bufferSize",
        &mib,
        "--testSamples",
        &samples,
    ];
    options.iter().chain(&["--testcase"]).chain(tests).map(|text| (*text).to_owned()).collect()
}

/// Returns the tests for the groups: one stream of one direction, or one of each with the same
/// placement.
fn tests_of(groups: &[StreamGroup]) -> Result<Vec<&'static str>, ProbeError> {
    if groups.iter().any(|group| group.streams != 1) {
        return Err(failed(PROGRAM, "only one stream is supported".to_owned()));
    }
    match groups {
        [one] => Ok(vec![match one.direction {
            Direction::Write => "host_to_device_memcpy_ce",
            Direction::Read => "device_to_host_memcpy_ce",
        }]),
        [one, other] if (&one.cpus, one.memory) == (&other.cpus, other.memory) => {
            match (one.direction, other.direction) {
                (Direction::Write, Direction::Read) => Ok(vec![
                    "host_to_device_bidirectional_memcpy_ce",
                    "device_to_host_bidirectional_memcpy_ce",
                ]),
                _ => Err(failed(PROGRAM, "only a write combined with a read is supported".to_owned())),
            }
        }
        _ => Err(failed(PROGRAM, "mixed placements are not supported".to_owned())),
    }
}

fn notes(groups: usize) -> Vec<String> {
    let every = "nvbandwidth reports a median without samples; page residency is not checked".to_owned();
    let both = "nvbandwidth measures both directions one after the other, each under load of the other one";
    let both = (groups > 1).then(|| both.to_owned());
    [every].into_iter().chain(both).collect()
}

/// Parses the output of one process.
fn run(output: &ToolOutput) -> Result<Run, ProbeError> {
    let complaint = || {
        let line = output.stderr.lines().map(str::trim).find(|line| !line.is_empty());
        // With --json, release 0.8 does not print driver errors.
        line.unwrap_or("no error message (try without --json)").to_owned()
    };
    let run = match output.exit {
        ToolExit::Signal(signal) => return Err(failed(PROGRAM, format!("terminated by signal {signal}"))),
        ToolExit::TimeLimit => return Err(failed(PROGRAM, "time limit exceeded".to_owned())),
        ToolExit::Status(_) => output::parse(&output.stdout),
    };
    match (run, output.exit) {
        (Ok(run), ToolExit::Status(0)) => Ok(run),
        (Err(why), ToolExit::Status(0)) => Err(failed(PROGRAM, why.to_string())),
        (Err(why), _) if why.is_reported() => Err(failed(PROGRAM, why.to_string())),
        _ => Err(failed(PROGRAM, complaint())),
    }
}
