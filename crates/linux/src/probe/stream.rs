//! STREAM on one node's memory.

use super::nanoseconds;
use super::work::{self, Work};
use crate::memory::{self, Buffer, Room, Wanted};
use crate::stream::Streamer;
use crate::Root;
use numaio_machine::probe::{ProbeError, StreamOutcome, StreamSample};
use numaio_machine::workload::StreamWorkload;
use std::time::Instant;

/// A thread with its arrays, the one that is written last.
struct Streaming {
    streamer: Streamer,
    inputs: Vec<Buffer>,
    output: Buffer,
}

/// Runs a STREAM workload. `limit_bytes` is what the control group allows.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &StreamWorkload,
) -> Result<StreamOutcome, ProbeError> {
    let began = Instant::now();
    let what = format!("{} loop of STREAM", workload.stream_loop);
    let streamer =
        Streamer::new(workload.op, workload.stream_loop).ok_or(ProbeError::Unsupported { what })?;
    let cpus = &workload.placement.cpus;
    work::within_limits(cpus, workload.sampling)?;
    if workload.bytes_per_array < 8 {
        let why = "an array of less than one double".to_owned();
        return Err(ProbeError::Refused { what: "STREAM".to_owned(), why });
    }
    let arrays = workload.op.arrays();
    let buffers = vec![(workload.memory, workload.bytes_per_array); arrays as usize];
    let wanted = Wanted { threads: cpus.len(), buffers: &buffers, pages: workload.pages };
    let sets = memory::sets(&Room::new(root, limit_bytes), wanted)?;
    let work = |mut set: Vec<Buffer>| Some(Streaming { streamer, output: set.pop()?, inputs: set });
    let mut works: Vec<Streaming> = sets.into_iter().filter_map(work).collect();
    let ran = work::run(cpus, workload.sampling, &mut works)?;
    let buffers: Vec<&Buffer> = works.iter().flat_map(Work::buffers).collect();
    let huge_bytes = memory::huge_bytes(root, workload.pages, &buffers);
    let residency = memory::merge(ran.seen, huge_bytes);
    drop(works);
    // A pass goes once over each array.
    let counted = |bytes: u64| bytes.saturating_mul(u64::from(arrays));
    let samples = ran
        .samples
        .iter()
        .map(|sample| StreamSample { bytes: counted(sample.bytes), ns: sample.ns })
        .collect();
    Ok(StreamOutcome { samples, elapsed_ns: nanoseconds(began), start_skew_ns: ran.start_skew_ns, residency })
}

impl Work for Streaming {
    fn prepare(&mut self) -> Result<(), ProbeError> {
        self.inputs.iter_mut().try_for_each(Buffer::fill)?;
        self.output.touch()
    }

    fn buffers(&self) -> Vec<&Buffer> {
        self.inputs.iter().chain([&self.output]).collect()
    }

    fn bytes(&self) -> usize {
        self.output.bytes() & !7
    }

    fn longest_call(&self) -> usize {
        self.streamer.longest_call()
    }

    fn run_part(&mut self, at: usize, bytes: usize) {
        if let (Some(first), Some(last)) = (self.inputs.first(), self.inputs.last()) {
            self.output.stream_part(self.streamer, [first, last], at, bytes);
        }
    }
}
