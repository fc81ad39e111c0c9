//! nvbandwidth (<https://github.com/NVIDIA/nvbandwidth>), NVIDIA's own measurement, bound to a node.
//!
//! It measures every GPU, one after the other, and gives the median of its samples. Of both directions at once it
//! measures one while the other disturbs, and then the other way round.

mod output;
#[cfg(test)]
mod tests;

use super::{failed, tool_outcome, version_of, CellRequest, Engine, VisitFigures};
use numaio_machine::devices::PciAddress;
use numaio_machine::probe::{Outcome, Probe, ProbeError, ProbeExt, Residency, ToolEnd, ToolSaid};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Direction, StreamGroup, ToolProcess, ToolWorkload, Workload};
use numaio_schema::IoEngine;
use output::Run;

/// Its name on PATH.
const PROGRAM: &str = "nvbandwidth";
/// Its buffers are multiples of this.
const MIB: u64 = 1 << 20;
/// Time that it may take, in milliseconds. It starts every GPU first, eight of them in ten seconds or more.
const TIME_LIMIT_MS: u32 = 180_000;

/// A GPU, measured by nvbandwidth.
///
/// It has one stream, and chooses how many copies are in flight. A limit of bytes ends no visit of it, only the campaign
/// after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nvbandwidth {
    /// The driver's index.
    pub device: u32,
}

/// A GPU, as nvbandwidth lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGpu {
    /// The driver's index.
    pub index: u32,
    /// What it is called.
    pub name: String,
    /// PCI address; releases before 0.5 do not tell it.
    pub pci: Option<PciAddress>,
}

impl Engine for Nvbandwidth {
    fn engine(&self) -> IoEngine {
        IoEngine::Nvbandwidth
    }

    fn version(&self, probe: &dyn Probe) -> Result<String, ProbeError> {
        let output = version_of(probe, PROGRAM, "--help")?;
        // Where it cannot be loaded, as without a driver, the loader speaks in its place.
        match output.split_once("Version: ") {
            Some((_, version)) => Ok(format!("{PROGRAM} {version}")),
            None => Err(failed(PROGRAM, output)),
        }
    }

    fn remedy(&self) -> Option<&'static str> {
        Some(
            "no distribution has a package of it: build it from https://github.com/NVIDIA/nvbandwidth (needs the CUDA \
             toolkit) and put it on PATH",
        )
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        let tests = tests_of(request.groups)?;
        if !request.block_bytes.is_multiple_of(MIB) {
            return Err(failed(
                PROGRAM,
                format!("it copies whole MiB, and {} bytes are none", request.block_bytes),
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
        // It does not tell how many bytes it moved: never more than this, as it takes time for other things too.
        let fastest = runs.iter().copied().fold(0.0, f64::max);
        let bytes_of_all = (fastest * outcome.elapsed_ns as f64 / 1e9) as u64;
        Ok(VisitFigures {
            notes: notes(runs.len()),
            groups: runs.into_iter().map(|bytes_per_s| vec![bytes_per_s]).collect(),
            bytes_of_all,
            elapsed_ns: outcome.elapsed_ns,
            // No page of another program is looked at.
            residency: Residency { pages_checked: Some(0), ..Residency::default() },
            ..VisitFigures::default()
        })
    }
}

/// The GPUs that nvbandwidth finds, by the driver's index; it moves a few MiB to each.
///
/// # Errors
/// [`ProbeError::Unsupported`] if it is missing, and if it fails.
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

/// Its options. By itself it would move to the CPUs next to each GPU.
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

/// What it can do: one stream of one direction, or one of each in the same place.
fn tests_of(groups: &[StreamGroup]) -> Result<Vec<&'static str>, ProbeError> {
    if groups.iter().any(|group| group.streams != 1) {
        return Err(failed(PROGRAM, "it has one stream".to_owned()));
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
                _ => Err(failed(PROGRAM, "its directions at once are a write and a read".to_owned())),
            }
        }
        _ => Err(failed(PROGRAM, "it measures no mix of places".to_owned())),
    }
}

fn notes(groups: usize) -> Vec<String> {
    let every = "nvbandwidth tells a median and no samples; where its pages lay is not looked at".to_owned();
    let both =
        "of both directions at once nvbandwidth measures one after the other, each while the other disturbs";
    let both = (groups > 1).then(|| both.to_owned());
    [every].into_iter().chain(both).collect()
}

/// What one process said.
fn run(output: &ToolSaid) -> Result<Run, ProbeError> {
    let complaint = || {
        let line = output.stderr.lines().map(str::trim).find(|line| !line.is_empty());
        // Release 0.8 keeps errors of the driver to itself with --json.
        line.unwrap_or("it does not say why; without --json it may").to_owned()
    };
    let run = match output.ended {
        ToolEnd::Signal(signal) => return Err(failed(PROGRAM, format!("it was ended by signal {signal}"))),
        ToolEnd::TimeLimit => return Err(failed(PROGRAM, "it did not end in time".to_owned())),
        ToolEnd::Status(_) => output::parse(&output.stdout),
    };
    match (run, output.ended) {
        (Ok(run), ToolEnd::Status(0)) => Ok(run),
        (Err(why), ToolEnd::Status(0)) => Err(failed(PROGRAM, why.to_string())),
        (Err(why), _) if why.is_reported() => Err(failed(PROGRAM, why.to_string())),
        _ => Err(failed(PROGRAM, complaint())),
    }
}
