//! Running another program, and its version.

use numaio_machine::probe::{Outcome, Probe, ProbeError, ProbeExt, ToolOutcome};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{ToolProcess, ToolWorkload};

/// Time limit for printing a version, in milliseconds; sufficient for slow disks and emulated
/// machines.
const VERSION_LIMIT_MS: u32 = 20_000;

/// Returns the version of a program: the first non-empty line of its output.
///
/// # Errors
/// [`ProbeError::Unsupported`] with the program's name if it is missing; an error if it prints
/// nothing.
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
    let line = line.ok_or_else(|| failed(program, "no version in its output".to_owned()))?;
    Ok(line.chars().take(100).collect())
}

/// Returns the outcome of a program's processes.
///
/// # Errors
/// [`ProbeError::OtherOutcome`] for another kind of outcome.
pub fn tool_outcome(outcome: &Outcome) -> Result<&ToolOutcome, ProbeError> {
    match outcome {
        Outcome::Tool(outcome) => Ok(outcome),
        _ => Err(ProbeError::OtherOutcome),
    }
}

/// Returns the error of a program that did not measure.
pub fn failed(program: &str, why: String) -> ProbeError {
    ProbeError::Refused { call: program.to_owned(), reason: why }
}
