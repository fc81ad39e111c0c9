//! STREAM workload: threads that run an operation of STREAM.

use super::buffer_pass::{BufferPass, Interval};
use super::passes::PassTask;
use crate::clock::nanoseconds;
use crate::counters::OpenCounters;
use crate::memory::{self, Buffer, BufferRequest, FreeMemory};
use crate::refusal::refused;
use crate::stream::Streamer;
use crate::Root;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, StreamOutcome, StreamSample};
use numaio_machine::workload::StreamWorkload;
use std::time::Instant;

/// Offset in lines of the second array read; the first has none. Even, so that both are an odd
/// number of lines from the written array, and small, so that both stay far from the last stores.
const SECOND_READ_AT: usize = 10;

/// Buffers and loop of a STREAM thread. Bytes that are no complete double are left out.
pub(super) struct Streaming {
    streamer: Streamer,
    /// The written array; the only one of an operation that only reads or writes.
    written: Buffer,
    /// The other arrays.
    read: Vec<Buffer>,
}

/// Runs a STREAM workload. `limit_bytes` are the bytes that the control group still allows;
/// `counters` count the events of the threads.
pub fn stream(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &StreamWorkload,
    counters: Option<&OpenCounters>,
) -> Result<StreamOutcome, ProbeError> {
    let began = Instant::now();
    let what = format!("{} loop", workload.stream_loop);
    let streamer =
        Streamer::new(workload.stream_loop, workload.op).ok_or(ProbeError::Unsupported { feature: what })?;
    let StreamWorkload { placement, pages, sampling, .. } = workload;
    let task =
        PassTask { name: "stream", cpus: &placement.cpus, pages: *pages, sampling: *sampling, counters };
    task.check_limits()?;
    if workload.bytes_per_array < size_of::<f64>() as u64 {
        return refused("stream", format!("{} bytes hold no double", workload.bytes_per_array));
    }
    let mut passes = build_passes(&FreeMemory::new(root, limit_bytes), streamer, workload)?;
    let ran = task.run(root, &mut passes)?;
    drop(passes);
    let arrays = u64::from(workload.op.arrays());
    let sample = |stretch: Interval| StreamSample { bytes: stretch.bytes * arrays, ns: stretch.ns };
    Ok(StreamOutcome {
        samples: ran.intervals.into_iter().map(sample).collect(),
        elapsed_ns: nanoseconds(began),
        start_skew_ns: ran.start_skew_ns,
        residency: ran.residency,
    })
}

fn build_passes(
    free_memory: &FreeMemory,
    streamer: Streamer,
    workload: &StreamWorkload,
) -> Result<Vec<Streaming>, ProbeError> {
    let arrays = workload.op.arrays() as usize;
    let threads = workload.placement.cpus.len();
    let wanted: Vec<BufferRequest> =
        requests(workload.memory, workload.bytes_per_array, arrays, threads).collect();
    Ok(passes(streamer, arrays, memory::map_buffers(free_memory, workload.pages, &wanted)?))
}

/// Returns the arrays of each thread, the written one first.
pub(super) fn requests(
    node: NodeId,
    bytes: u64,
    arrays: usize,
    threads: usize,
) -> impl Iterator<Item = BufferRequest> {
    let offsets =
        move |thread| [memory::write_offset_lines(thread), 0, SECOND_READ_AT].into_iter().take(arrays);
    let array = move |offset_lines| BufferRequest { node, bytes, offset_lines };
    (0..threads).flat_map(offsets).map(array)
}

/// Returns the work of each thread, with its arrays in the order of [`requests`].
pub(super) fn passes(streamer: Streamer, arrays: usize, buffers: Vec<Buffer>) -> Vec<Streaming> {
    let mut buffers = buffers.into_iter();
    let mut passes = Vec::new();
    while let Some(written) = buffers.next() {
        passes.push(Streaming { streamer, written, read: buffers.by_ref().take(arrays - 1).collect() });
    }
    passes
}

impl BufferPass for Streaming {
    fn prepare(&mut self) -> Result<(), ProbeError> {
        self.read.iter_mut().try_for_each(Buffer::fill)?;
        self.written.touch()
    }

    fn buffers(&self) -> Vec<&Buffer> {
        std::iter::once(&self.written).chain(&self.read).collect()
    }

    fn bytes(&self) -> usize {
        let shortest = self.buffers().into_iter().map(Buffer::bytes).min().unwrap_or(0);
        shortest / size_of::<f64>() * size_of::<f64>()
    }

    fn max_part_bytes(&self) -> usize {
        self.streamer.max_call_len() * size_of::<f64>()
    }

    fn part(&mut self, at: usize, bytes: usize) {
        let count = bytes.min(self.bytes().saturating_sub(at)) / size_of::<f64>();
        let (first, last) = (self.read.first(), self.read.last());
        let (first, last) = (first.unwrap_or(&self.written), last.unwrap_or(&self.written));
        // SAFETY: the doubles are inside their mappings, which are distinct, whole lines from the
        // start of a page, and ours by `&mut self`.
        unsafe {
            let of = |buffer: &Buffer| buffer.start().add(at).cast::<f64>();
            self.streamer.run_raw(of(&self.written), of(first), of(last), count);
        }
    }
}
