//! Threads that copy from one node to another.

use super::work::{Task, Work};
use crate::copy::{c_library, Copier};
use crate::memory::{self, Buffer, Room, Wanted};
use crate::Root;
use numaio_machine::probe::{CopyOutcome, CopySample, ProbeError};
use numaio_machine::workload::{CopyLoop, CopyWorkload};
use std::time::Instant;

/// A thread that copies.
struct Copying {
    copier: Copier,
    source: Buffer,
    sink: Buffer,
}

/// Runs a copy workload. `limit_bytes` is what the control group still allows.
pub fn copy(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &CopyWorkload,
) -> Result<CopyOutcome, ProbeError> {
    let began = Instant::now();
    let what = format!("{} loop", workload.copy_loop);
    let copier = Copier::new(workload.copy_loop).ok_or(ProbeError::Unsupported { what })?;
    let CopyWorkload { placement, pages, sampling, .. } = workload;
    let task = Task { name: "copy", cpus: &placement.cpus, pages: *pages, sampling: *sampling };
    task.within_limits()?;
    if workload.bytes_per_thread == 0 {
        return super::refused("copy", "no bytes to copy");
    }
    let mut works = works(&Room::new(root, limit_bytes), copier, workload)?;
    let ran = task.run(root, &mut works)?;
    drop(works);
    let sample = |stretch: super::work::Stretch| CopySample { bytes_copied: stretch.bytes, ns: stretch.ns };
    Ok(CopyOutcome {
        samples: ran.stretches.into_iter().map(sample).collect(),
        elapsed_ns: super::nanoseconds(began),
        start_skew_ns: ran.start_skew_ns,
        residency: ran.residency,
        c_library: (workload.copy_loop == CopyLoop::Memcpy).then(c_library),
    })
}

fn works(room: &Room, copier: Copier, workload: &CopyWorkload) -> Result<Vec<Copying>, ProbeError> {
    let bytes = workload.bytes_per_thread;
    let pair = |thread| {
        let source = Wanted { node: workload.flow.source, bytes, offset_lines: 0 };
        [source, Wanted { node: workload.flow.sink, bytes, offset_lines: memory::written_at(thread) }]
    };
    let wanted: Vec<Wanted> = (0..workload.placement.cpus.len()).flat_map(pair).collect();
    let mut buffers = memory::buffers(room, workload.pages, &wanted)?.into_iter();
    let mut works = Vec::new();
    while let (Some(source), Some(sink)) = (buffers.next(), buffers.next()) {
        works.push(Copying { copier, source, sink });
    }
    Ok(works)
}

impl Work for Copying {
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

    fn longest_part(&self) -> usize {
        self.copier.longest_call()
    }

    fn part(&mut self, at: usize, bytes: usize) {
        let bytes = bytes.min(self.bytes().saturating_sub(at));
        if bytes == 0 {
            return;
        }
        // SAFETY: both ranges lie in their buffers' mappings, which are distinct and ours alone by `&mut self`.
        unsafe { self.copier.copy_raw(self.source.start().add(at), self.sink.start().add(at), bytes) }
    }
}
