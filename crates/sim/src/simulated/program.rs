//! Programs on the simulated machine: STREAM copies that print their bandwidth.

use super::{refused, Simulated};
use crate::simulated_program::SimulatedProgram;
use numaio_machine::probe::{ProbeError, ProgramOutcome, ToolExit, ToolOutput};
use numaio_machine::workload::{
    Flow, Pages, Placement, ProgramWorkload, Sampling, StreamLoop, StreamOp, StreamWorkload,
};

/// Size of an array of a thread in bytes.
const ARRAY_BYTES: u64 = 16 << 20;
/// Passes over the arrays.
const PASSES: f64 = 10.0;

impl Simulated {
    /// Installs a program, which prints `Copy: X MB/s` as STREAM counts bytes (10^6).
    #[must_use]
    pub fn with_program(mut self, program: SimulatedProgram) -> Self {
        self.programs.push(program);
        self
    }

    /// Returns the bytes per second of a program without noise.
    ///
    /// # Errors
    /// As [`numaio_machine::probe::Probe::run`].
    pub fn program_truth(&self, workload: &ProgramWorkload) -> Result<f64, ProbeError> {
        let (program, stream) = self.admit_program(workload)?;
        Ok(self.stream_truth(&stream)? * program.efficiency)
    }

    pub(super) fn admit_program(
        &self,
        workload: &ProgramWorkload,
    ) -> Result<(&SimulatedProgram, StreamWorkload), ProbeError> {
        let name = workload.program();
        if name.is_empty() {
            return refused("run a program", "no command");
        }
        let Some(program) = self.programs.iter().find(|program| program.name == name) else {
            return Err(ProbeError::Unsupported { feature: name.to_owned() });
        };
        let stream = StreamWorkload {
            op: StreamOp::Copy,
            stream_loop: StreamLoop::Ordinary,
            memory: workload.memory,
            placement: Placement { cpus: workload.placement.cpus.clone() },
            bytes_per_array: ARRAY_BYTES,
            pages: Pages::Base,
            sampling: Sampling::Repetitions { count: 1 },
        };
        self.admit_stream(&stream)?;
        Ok((program, stream))
    }

    pub(super) fn program(&self, workload: &ProgramWorkload) -> Result<ProgramOutcome, ProbeError> {
        let (program, stream) = self.admit_program(workload)?;
        let (_, factor) = self.next_run(Flow { source: workload.memory, sink: workload.memory });
        let per_s = self.stream_truth(&stream)? * program.efficiency * factor;
        let threads = stream.placement.cpus.len() as u64;
        let arrays = threads * u64::from(stream.op.arrays());
        let residency = self.residency(&[(workload.memory, ARRAY_BYTES, arrays)], stream.pages);
        let bytes = ARRAY_BYTES.saturating_mul(arrays) as f64 * PASSES;
        let preparation_ns = self.preparation_ns(threads, ARRAY_BYTES as f64, &residency);
        let needed_ns = preparation_ns.saturating_add((bytes / per_s * 1e9) as u64);
        let limit_ns = u64::from(workload.time_limit_ms) * 1_000_000;
        let elapsed_ns = needed_ns.min(limit_ns);
        self.pass(elapsed_ns, &stream.placement.cpus);
        let is_complete = needed_ns <= limit_ns;
        let output = ToolOutput {
            exit: if is_complete { ToolExit::Status(0) } else { ToolExit::TimeLimit },
            stdout: if is_complete { format!("Copy: {:.3} MB/s\n", per_s / 1e6) } else { String::new() },
            stderr: String::new(),
            cpu_ns: elapsed_ns.saturating_mul(threads),
        };
        Ok(ProgramOutcome { output, elapsed_ns, residency })
    }
}
