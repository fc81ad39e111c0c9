//! Worker threads of I/O streams: each issues requests from its own buffer.

use super::slices::{SliceBounds, WorkerLog};
use super::splitmix::SplitMix64;
use crate::affinity::Mask;
use crate::clock::{cpu_ns, nanoseconds};
use crate::interrupt::interrupted;
use crate::memory::{self, Buffer, BufferRequest, FreeMemory, PageLocations};
use crate::probe::curve::ProgressPoint;
use crate::probe::team::{self, EarlyExit, ThreadTeam};
use crate::probe::window::SlicePlan;
use crate::refusal::refused;
use crate::Root;
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, ProbeError};
use numaio_machine::workload::{Direction, IoWorkload, Pages, Sampling, StreamGroup};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Maximum number of worker threads of a run.
const MAX_WORKERS: u64 = 4096;
/// Maximum number of slices: each worker stores a few points in time per slice.
const MAX_SLICES: u32 = 4096;

/// A worker thread with its buffer; it runs one stream or a part of one.
#[derive(Debug, Clone)]
pub struct StreamWorker {
    /// Index of the stream group.
    pub group: usize,
    /// Index of the stream among all groups.
    pub stream: usize,
    /// Index of the device.
    pub device: usize,
    /// Device write or device read.
    pub direction: Direction,
    /// CPUs on which the worker may run.
    mask: Mask,
    /// The requested buffer.
    wanted: BufferRequest,
}

/// Request queue of one worker. Dropping it waits for all requests in flight, so that the buffer
/// may be freed afterwards.
pub trait RequestQueue {
    /// Submits requests up to the queue depth, waits for at least one completion and returns the
    /// completed bytes; 0 after a signal.
    ///
    /// # Errors
    /// A message that names the failed request.
    fn submit_and_reap(&mut self) -> Result<u64, String>;
}

/// Returns the workers of a workload: `parts` per stream, which share its queue depth.
pub fn workers(workload: &IoWorkload, parts: u32) -> Vec<StreamWorker> {
    let depth = (workload.depth / parts.max(1)).max(1);
    let bytes = workload.block_bytes.saturating_mul(depth.into());
    let mut workers = Vec::new();
    let mut stream = 0;
    for (index, StreamGroup { cpus, memory, streams, direction, device }) in
        workload.groups.iter().enumerate()
    {
        for _ in 0..*streams {
            for _ in 0..parts.max(1) {
                workers.push(StreamWorker {
                    group: index,
                    stream,
                    device: *device,
                    direction: *direction,
                    mask: Mask::of(cpus),
                    wanted: BufferRequest { node: *memory, bytes, offset_lines: 0 },
                });
            }
            stream += 1;
        }
    }
    workers
}

/// Rejects workloads that yield no sample or exceed the limits.
pub fn check_limits(workload: &IoWorkload, parts: u32) -> Result<(), ProbeError> {
    let workers = u64::from(workload.streams()).saturating_mul(parts.into());
    if workers == 0 || workload.block_bytes == 0 || workload.depth == 0 {
        return refused("I/O", "it has no streams, a block size of 0 or a depth of 0");
    }
    if workers > MAX_WORKERS {
        return refused("I/O", format!("{workers} threads needed, at most {MAX_WORKERS} allowed"));
    }
    if workload.groups.iter().any(|group| group.cpus.is_empty()) {
        return refused("I/O", "a stream group has no CPUs");
    }
    plan(workload).map(|_| ())
}

fn plan(workload: &IoWorkload) -> Result<SlicePlan, ProbeError> {
    match workload.sampling {
        Sampling::Window { milliseconds, slices }
            if milliseconds > 0 && (1..=MAX_SLICES).contains(&slices) =>
        {
            Ok(SlicePlan::new(milliseconds, slices))
        }
        Sampling::Window { .. } => {
            refused("window", format!("expected a length above 0 and 1 to {MAX_SLICES} slices"))
        }
        Sampling::Repetitions { .. } => refused("repetitions", "I/O is sampled in a time window"),
    }
}

/// Shared state of all workers of a run.
struct RunState {
    plan: SlicePlan,
    most_bytes: u64,
    done: AtomicU64,
    /// Whether workers stop before the window ends.
    early: AtomicBool,
    /// First error.
    cut: Mutex<Option<String>>,
    notes: Mutex<Vec<String>>,
    /// Process CPU time at the first worker's start, after the warm-up and at the end.
    cpu_ns: [AtomicU64; 3],
}

/// Result of a worker: its progress, and page locations before and after the run.
struct WorkerResult {
    log: WorkerLog,
    seen: [PageLocations; 2],
}

/// Runs workers. `queue` creates the request queue of a worker on its own thread, and a note if the
/// queue deviates from the request.
pub fn run<Q: RequestQueue>(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    workers: &[StreamWorker],
    queue: impl Fn(&StreamWorker, &mut Buffer) -> Result<(Q, Option<String>), ProbeError> + Sync,
) -> Result<IoOutcome, ProbeError> {
    let began = Instant::now();
    let wanted: Vec<BufferRequest> = workers.iter().map(|worker| worker.wanted).collect();
    let mut buffers = memory::map_buffers(&FreeMemory::new(root, limit_bytes), Pages::Transparent, &wanted)?;
    let shared = RunState::new(workload)?;
    let members = workers.iter().zip(&mut buffers).enumerate();
    let members = members.map(|(index, (worker, buffer))| (&worker.mask, (index, worker, buffer))).collect();
    let results = team::run_bound(
        "io",
        members,
        |mask| bind(mask),
        |team, (index, worker, buffer)| {
            fill(buffer, index as u64)?;
            let before = memory::locate_pages(buffer);
            let (queue, note) = queue(worker, buffer)?;
            shared.note(note);
            let log = shared.member(team, (index, worker), queue)?;
            Ok(WorkerResult { log, seen: [before, memory::locate_pages(buffer)] })
        },
    )?;
    let (logs, seen): (Vec<WorkerLog>, Vec<[PageLocations; 2]>) =
        results.into_iter().map(|WorkerResult { log, seen }| (log, seen)).unzip();
    let cut = shared.cut().take();
    let bounds = SliceBounds::new(&logs, shared.plan, cut.is_none() && shared.early.load(Ordering::Relaxed));
    let group = |index: usize| {
        let own =
            || workers.iter().zip(buffers.iter().zip(&seen)).filter(|(worker, _)| worker.group == index);
        let own_buffers: Vec<&Buffer> = own().map(|(_, (buffer, _))| buffer).collect();
        let huge_bytes = memory::huge_bytes(root, Pages::Transparent, &own_buffers);
        let residency = memory::merge(own().flat_map(|(_, (_, looks))| *looks), huge_bytes);
        let samples = bounds.samples(&logs, index);
        let bytes: u64 = samples.iter().map(|sample| sample.bytes).sum();
        IoGroupOutcome { samples, requests: bytes / workload.block_bytes.max(1), residency }
    };
    let groups = (0..workload.groups.len()).map(group).collect();
    let cpu_ns = shared.cpu_ns(&logs, &bounds);
    let mut notes = std::mem::take(&mut *shared.notes());
    notes.sort();
    let start_skew_ns = bounds.start_skew_ns;
    Ok(IoOutcome {
        groups,
        elapsed_ns: nanoseconds(began),
        start_skew_ns,
        cpu_ns,
        peer: None,
        notes,
        interrupted: cut,
    })
}

impl RunState {
    fn new(workload: &IoWorkload) -> Result<Self, ProbeError> {
        Ok(Self {
            plan: plan(workload)?,
            most_bytes: workload.max_bytes.unwrap_or(u64::MAX),
            done: AtomicU64::new(0),
            early: AtomicBool::new(false),
            cut: Mutex::new(None),
            notes: Mutex::new(Vec::new()),
            cpu_ns: [const { AtomicU64::new(0) }; 3],
        })
    }

    /// Issues requests until the last worker to start has run for the planned time, or until
    /// `early` is set.
    fn member(
        &self,
        team: &ThreadTeam,
        (index, worker): (usize, &StreamWorker),
        mut queue: impl RequestQueue,
    ) -> Result<WorkerLog, EarlyExit> {
        let mut curve = self.plan.curve();
        team.wait_until_prepared()?;
        let start_ns = team.now();
        team.record_start(start_ns);
        self.note_cpu(index, 0);
        curve.add(ProgressPoint { ns: start_ns, done: 0 });
        let (mut done, mut warm) = (0u64, false);
        loop {
            let moved = queue.submit_and_reap();
            done += moved.as_ref().unwrap_or(&0);
            let point = ProgressPoint { ns: team.now(), done };
            self.count(moved);
            let since = team.latest_start().map_or(0, |latest| point.ns.saturating_sub(latest));
            if since >= self.plan.total_ns() || self.early.load(Ordering::Relaxed) {
                curve.end(point);
                self.note_cpu(index, 2);
                return Ok(WorkerLog { group: worker.group, start_ns, end_ns: point.ns, curve });
            }
            if !warm && since >= self.plan.slice_ns {
                warm = true;
                self.note_cpu(index, 1);
            }
            curve.add(point);
            if interrupted() {
                return Err(EarlyExit::Failed(ProbeError::Interrupted));
            }
            team.is_running()?;
        }
    }

    /// Adds completed bytes; an error or the byte limit stops all workers.
    fn count(&self, moved: Result<u64, String>) {
        let over = match moved {
            Ok(bytes) => {
                self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= self.most_bytes
            }
            Err(why) => {
                self.cut().get_or_insert(why);
                true
            }
        };
        if over {
            self.early.store(true, Ordering::Relaxed);
        }
    }

    /// Samples the process CPU time; only the first worker does.
    fn note_cpu(&self, index: usize, when: usize) {
        if index == 0 {
            self.cpu_ns[when].store(cpu_ns(), Ordering::Relaxed);
        }
    }

    /// Returns the CPU time of the sampled interval.
    fn cpu_ns(&self, logs: &[WorkerLog], bounds: &SliceBounds) -> u64 {
        let [start, warm, end] = &self.cpu_ns;
        let last_start = logs.iter().map(|log| log.start_ns).max();
        let from_start = bounds.span().map(|(from, _)| from) == last_start;
        let from = if from_start { start } else { warm };
        end.load(Ordering::Relaxed).saturating_sub(from.load(Ordering::Relaxed))
    }

    fn note(&self, note: Option<String>) {
        let mut notes = self.notes();
        if let Some(note) = note.filter(|note| !notes.contains(note)) {
            notes.push(note);
        }
    }

    fn cut(&self) -> MutexGuard<'_, Option<String>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notes(&self) -> MutexGuard<'_, Vec<String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bind(mask: &Mask) -> Result<(), ProbeError> {
    mask.apply().map_err(|error| ProbeError::Refused {
        call: "bind a stream to its CPUs".to_owned(),
        reason: error.to_string(),
    })
}

/// Faults in the buffer on the calling thread and fills it with incompressible bytes.
fn fill(buffer: &mut Buffer, seed: u64) -> Result<(), ProbeError> {
    buffer.touch()?;
    SplitMix64::new(seed).fill(buffer.content());
    Ok(())
}
