//! Copy workload: threads that copy from one node to another.

use super::buffer_pass::{BufferPass, Interval};
use super::passes::PassTask;
use crate::clock::nanoseconds;
use crate::copy::{c_library, Copier};
use crate::counters::OpenCounters;
use crate::memory::{self, Buffer, BufferRequest, FreeMemory};
use crate::refusal::refused;
use crate::Root;
use numaio_machine::probe::{CopyOutcome, CopySample, ProbeError};
use numaio_machine::workload::{CopyLoop, CopyWorkload};
use std::time::Instant;

/// Buffers and loop of a copying thread.
struct Copying {
    copier: Copier,
    source: Buffer,
    sink: Buffer,
}

/// Runs a copy workload. `limit_bytes` are the bytes that the control group still allows;
/// `counters` count the events of the threads.
pub fn copy(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &CopyWorkload,
    counters: Option<&OpenCounters>,
) -> Result<CopyOutcome, ProbeError> {
    let began = Instant::now();
    let what = format!("{} loop", workload.copy_loop);
    let copier = Copier::new(workload.copy_loop).ok_or(ProbeError::Unsupported { feature: what })?;
    let CopyWorkload { placement, pages, sampling, .. } = workload;
    let task = PassTask { name: "copy", cpus: &placement.cpus, pages: *pages, sampling: *sampling, counters };
    task.check_limits()?;
    if workload.bytes_per_thread == 0 {
        return refused("copy", "no bytes to copy");
    }
    let mut passes = build_passes(&FreeMemory::new(root, limit_bytes), copier, workload)?;
    let ran = task.run(root, &mut passes)?;
    drop(passes);
    let sample = |stretch: Interval| CopySample { bytes_copied: stretch.bytes, ns: stretch.ns };
    Ok(CopyOutcome {
        samples: ran.intervals.into_iter().map(sample).collect(),
        elapsed_ns: nanoseconds(began),
        start_skew_ns: ran.start_skew_ns,
        residency: ran.residency,
        c_library: (workload.copy_loop == CopyLoop::Memcpy).then(c_library),
    })
}

fn build_passes(
    free_memory: &FreeMemory,
    copier: Copier,
    workload: &CopyWorkload,
) -> Result<Vec<Copying>, ProbeError> {
    let bytes = workload.bytes_per_thread;
    let pair = |thread| {
        let source = BufferRequest { node: workload.flow.source, bytes, offset_lines: 0 };
        [
            source,
            BufferRequest {
                node: workload.flow.sink,
                bytes,
                offset_lines: memory::write_offset_lines(thread),
            },
        ]
    };
    let wanted: Vec<BufferRequest> = (0..workload.placement.cpus.len()).flat_map(pair).collect();
    let mut buffers = memory::map_buffers(free_memory, workload.pages, &wanted)?.into_iter();
    let mut passes = Vec::new();
    while let (Some(source), Some(sink)) = (buffers.next(), buffers.next()) {
        passes.push(Copying { copier, source, sink });
    }
    Ok(passes)
}

impl BufferPass for Copying {
    fn prepare(&mut self) -> Result<(), ProbeError> {
        self.source.fill()?;
        self.sink.touch()
    }

    fn buffers(&self) -> Vec<&Buffer> {
        vec![&self.source, &self.sink]
    }

    fn bytes(&self) -> usize {
        self.source.bytes().min(self.sink.bytes())
    }

    fn max_part_bytes(&self) -> usize {
        self.copier.max_call_len()
    }

    fn part(&mut self, at: usize, bytes: usize) {
        let bytes = bytes.min(self.bytes().saturating_sub(at));
        if bytes == 0 {
            return;
        }
        // SAFETY: both ranges are inside their mappings, which are distinct and ours by `&mut
        // self`.
        unsafe { self.copier.copy_raw(self.source.start().add(at), self.sink.start().add(at), bytes) }
    }
}
