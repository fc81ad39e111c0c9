//! Copies between two nodes.

use super::nanoseconds;
use super::work::{self, Work};
use crate::copy::Copier;
use crate::memory::{self, Buffer, Room, Wanted};
use crate::Root;
use numaio_machine::probe::{CopyOutcome, CopySample, ProbeError};
use numaio_machine::workload::CopyWorkload;
use std::time::Instant;

/// A thread that copies its source to its sink.
struct Copying {
    copier: Copier,
    source: Buffer,
    sink: Buffer,
}

/// Runs a copy workload. `limit_bytes` is what the control group allows.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &CopyWorkload,
) -> Result<CopyOutcome, ProbeError> {
    let began = Instant::now();
    let what = format!("{} loop", workload.copy_loop);
    let copier = Copier::new(workload.copy_loop).ok_or(ProbeError::Unsupported { what })?;
    let cpus = &workload.placement.cpus;
    work::within_limits(cpus, workload.sampling)?;
    let bytes = workload.bytes_per_thread;
    if bytes == 0 {
        return Err(ProbeError::Refused { what: "copy".to_owned(), why: "no bytes to copy".to_owned() });
    }
    let buffers = &[(workload.flow.source, bytes), (workload.flow.sink, bytes)];
    let wanted = Wanted { threads: cpus.len(), buffers, pages: workload.pages };
    let sets = memory::sets(&Room::new(root, limit_bytes), wanted)?;
    let pairs = sets.into_iter().filter_map(|set| <[Buffer; 2]>::try_from(set).ok());
    let mut works: Vec<Copying> = pairs.map(|[source, sink]| Copying { copier, source, sink }).collect();
    let ran = work::run(cpus, workload.sampling, &mut works)?;
    let buffers: Vec<&Buffer> = works.iter().flat_map(Work::buffers).collect();
    let huge_bytes = memory::huge_bytes(root, workload.pages, &buffers);
    let residency = memory::merge(ran.seen, huge_bytes);
    drop(works);
    let samples =
        ran.samples.iter().map(|sample| CopySample { bytes_copied: sample.bytes, ns: sample.ns }).collect();
    Ok(CopyOutcome { samples, elapsed_ns: nanoseconds(began), start_skew_ns: ran.start_skew_ns, residency })
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
        self.source.bytes()
    }

    fn longest_call(&self) -> usize {
        self.copier.longest_call()
    }

    fn run_part(&mut self, at: usize, bytes: usize) {
        self.source.copy_part(self.copier, &mut self.sink, at, bytes);
    }
}
