//! Programs that measure: how they are called, and what they say.

pub mod iperf3;
pub mod perftest;

use numaio_machine::probe::{Probe, ProbeError, ProbeExt, ToolEnd, ToolOutcome, ToolSaid};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{ToolProcess, ToolWorkload};

/// How long a program may take to tell its version, in milliseconds.
const VERSION_LIMIT_MS: u32 = 10_000;
/// Longest version that is kept, in characters.
const LONGEST_VERSION: usize = 80;

/// What one run of a tool measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Bytes a second, above 0.
    pub bytes_per_s: f64,
    /// CPU time a byte at this end, in nanoseconds, if the tool tells.
    pub cpu_ns_per_byte: Option<f64>,
    /// The same at the other end.
    pub cpu_ns_per_byte_there: Option<f64>,
}

/// Reads what a tool said that ran through `Probe`; several processes count together.
///
/// # Errors
/// [`ProbeError::Refused`] with the tool's own words if it failed; why it cannot be understood otherwise.
pub fn read(tool: &ToolWorkload, outcome: &ToolOutcome) -> Result<Measured, ProbeError> {
    let refused = |why: String| ProbeError::Refused { what: tool.program.clone(), why };
    let mut all: Option<Measured> = None;
    for (index, said) in outcome.processes.iter().enumerate() {
        let parsed = match tool.program.as_str() {
            iperf3::PROGRAM => iperf3::parse(&said.stdout),
            _ => perftest::parse(&said.stdout),
        };
        let measured = match (said.ended, parsed) {
            (ToolEnd::Status(0), parsed) => parsed.map_err(refused)?,
            (ToolEnd::TimeLimit, _) => return Err(refused("it did not end in its time".to_owned())),
            // What it says in its own form goes before its last words.
            (_, Err(why)) if tool.program == iperf3::PROGRAM && said.stderr.is_empty() => {
                return Err(refused(why))
            }
            (ended, _) => return Err(refused(last_words(ended, said, outcome.there.get(index)))),
        };
        all = Some(all.map_or(measured, |all| all.with(measured)));
    }
    all.ok_or_else(|| refused("it was not started".to_owned()))
}

impl Measured {
    /// Of two processes at once. CPU time a byte is weighed by bytes.
    fn with(self, other: Self) -> Self {
        let bytes_per_s = self.bytes_per_s + other.bytes_per_s;
        let mean = |one: Option<f64>, two: Option<f64>| {
            let (one, two) = one.zip(two)?;
            Some((one * self.bytes_per_s + two * other.bytes_per_s) / bytes_per_s)
        };
        Self {
            bytes_per_s,
            cpu_ns_per_byte: mean(self.cpu_ns_per_byte, other.cpu_ns_per_byte),
            cpu_ns_per_byte_there: mean(self.cpu_ns_per_byte_there, other.cpu_ns_per_byte_there),
        }
    }
}

/// Why a tool failed, as it said itself, at either end.
fn last_words(ended: ToolEnd, here: &ToolSaid, there: Option<&ToolSaid>) -> String {
    let last = |text: &str| {
        let mut lines = text.lines().rev().map(str::trim);
        // Rules of dashes and stars are no words.
        lines.find(|line| line.chars().any(char::is_alphanumeric)).map(str::to_owned)
    };
    let how = match ended {
        ToolEnd::Status(status) => format!("it ended with status {status}"),
        ToolEnd::Signal(signal) => format!("it was ended by signal {signal}"),
        ToolEnd::TimeLimit => "it did not end in its time".to_owned(),
    };
    let mut why = last(&here.stderr)
        .or_else(|| last(&here.stdout))
        .map_or(how.clone(), |words| format!("{how}: {words}"));
    if let Some(words) = there.and_then(|there| last(&there.stderr)) {
        why.push_str(&format!("; at the other end: {words}"));
    }
    why
}

/// The version that a program tells of itself, in its own words.
///
/// # Errors
/// [`ProbeError::Unsupported`] with its name if there is no such program; what the machine says otherwise.
pub fn version(probe: &dyn Probe, program: &str) -> Result<String, ProbeError> {
    let process = ToolProcess { args: vec!["--version".to_owned()], cpus: CpuSet::new(), memory: None };
    let tool = ToolWorkload {
        program: program.to_owned(),
        processes: vec![process],
        time_limit_ms: VERSION_LIMIT_MS,
        peer: None,
    };
    let outcome = probe.tool(&tool)?;
    let said = outcome.processes.first().map(|said| said.stdout.as_str()).unwrap_or_default();
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown");
    Ok(line.trim_start_matches("Version:").trim().chars().take(LONGEST_VERSION).collect())
}

/// The Debian package that brings a program.
pub fn package(program: &str) -> Option<&'static str> {
    match program {
        iperf3::PROGRAM => Some("iperf3"),
        _ if perftest::PROGRAMS.contains(&program) => Some("perftest"),
        _ => None,
    }
}
