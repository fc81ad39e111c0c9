//! Streams at work: each lane makes requests from its own buffer, all lanes are cut into the same slices.

use super::slices::{SliceBounds, WorkerLog};
use super::splitmix::SplitMix64;
use crate::affinity::Mask;
use crate::interrupt::interrupted;
use crate::memory::{self, Buffer, BufferRequest, FreeMemory, PageLocations};
use crate::probe::curve::ProgressPoint;
use crate::probe::team::{self, EarlyExit, ThreadTeam};
use crate::probe::window::SlicePlan;
use crate::probe::{nanoseconds, refused};
use crate::Root;
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, ProbeError};
use numaio_machine::workload::{Direction, IoWorkload, Pages, Sampling, StreamGroup};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lanes of all streams, at most: each is a thread.
const MAX_WORKERS: u64 = 4096;
/// Slices of a window, at most: each lane keeps some points of time for each.
const MAX_SLICES: u32 = 4096;

/// A thread with its buffer: a stream, or a part of one.
#[derive(Debug, Clone)]
pub struct StreamWorker {
    /// Index of its group.
    pub group: usize,
    /// Index of its stream among those of all groups.
    pub stream: usize,
    /// Device write or device read.
    pub direction: Direction,
    /// CPUs it may run on.
    mask: Mask,
    /// Its buffer.
    wanted: BufferRequest,
}

/// Requests of one lane, to and from its buffer. Dropping it waits until nothing is in flight any more: only then the
/// buffer may go.
pub trait RequestQueue {
    /// Makes as many requests as may be in flight, waits until one or more are done, and gives their bytes; 0 after a
    /// signal.
    ///
    /// # Errors
    /// What went wrong, with the request that it happened to.
    fn submit_and_reap(&mut self) -> Result<u64, String>;
}

/// Requests that are done as soon as they are made.
pub struct NullQueue {
    /// Bytes of all that may be in flight.
    pub bytes: u64,
}

impl RequestQueue for NullQueue {
    fn submit_and_reap(&mut self) -> Result<u64, String> {
        Ok(std::hint::black_box(self.bytes))
    }
}

/// Lanes of a workload: `parts` for each stream, that share its requests in flight.
pub fn workers(workload: &IoWorkload, parts: u32) -> Vec<StreamWorker> {
    let depth = (workload.depth / parts.max(1)).max(1);
    let bytes = workload.block_bytes.saturating_mul(depth.into());
    let mut workers = Vec::new();
    let mut stream = 0;
    for (index, StreamGroup { cpus, memory, streams, direction }) in workload.groups.iter().enumerate() {
        for _ in 0..*streams {
            for _ in 0..parts.max(1) {
                workers.push(StreamWorker {
                    group: index,
                    stream,
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

/// Refuses what would give no sample, or fill our own memory.
pub fn check_limits(workload: &IoWorkload, parts: u32) -> Result<(), ProbeError> {
    let workers = u64::from(workload.streams()).saturating_mul(parts.into());
    if workers == 0 || workload.block_bytes == 0 || workload.depth == 0 {
        return refused("I/O", "it has no streams, no blocks or no requests in flight");
    }
    if workers > MAX_WORKERS {
        return refused("I/O", format!("it needs {workers} threads; {MAX_WORKERS} can be had"));
    }
    if workload.groups.iter().any(|group| group.cpus.is_empty()) {
        return refused("I/O", "streams without CPUs to run on");
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
            refused("window", format!("it has no length, or not 1 to {MAX_SLICES} slices"))
        }
        Sampling::Repetitions { .. } => refused("repetitions", "I/O is sampled by a window"),
    }
}

/// What all lanes of a run share.
struct RunState {
    plan: SlicePlan,
    most_bytes: u64,
    done: AtomicU64,
    /// Whether lanes are to end before the window does.
    early: AtomicBool,
    /// What went wrong first.
    cut: Mutex<Option<String>>,
    notes: Mutex<Vec<String>>,
    /// CPU time of this process when the first lane began, when the warm-up was over, and at the end.
    cpu_ns: [AtomicU64; 3],
}

/// What a lane brings back.
struct WorkerResult {
    log: WorkerLog,
    seen: [PageLocations; 2],
}

/// Runs lanes; `queue` makes the requests of one, on its own thread, and a note if it does otherwise than asked.
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
    Ok(IoOutcome { groups, elapsed_ns: nanoseconds(began), start_skew_ns, cpu_ns, there: None, notes, cut })
}

impl RunState {
    fn new(workload: &IoWorkload) -> Result<Self, ProbeError> {
        Ok(Self {
            plan: plan(workload)?,
            most_bytes: workload.most_bytes.unwrap_or(u64::MAX),
            done: AtomicU64::new(0),
            early: AtomicBool::new(false),
            cut: Mutex::new(None),
            notes: Mutex::new(Vec::new()),
            cpu_ns: [const { AtomicU64::new(0) }; 3],
        })
    }

    /// Makes requests until the last lane to start has run for the plan's time, or all are to end early.
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

    /// Counts what requests did; an error and the limit of bytes end all lanes.
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

    /// The first lane looks for all.
    fn note_cpu(&self, index: usize, when: usize) {
        if index == 0 {
            self.cpu_ns[when].store(cpu_ns(), Ordering::Relaxed);
        }
    }

    /// CPU time while samples were taken.
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
        what: "bind a stream to its CPUs".to_owned(),
        why: error.to_string(),
    })
}

/// Takes the buffer's pages, by the thread that uses it, and fills it with bytes that no device can compress.
fn fill(buffer: &mut Buffer, seed: u64) -> Result<(), ProbeError> {
    buffer.touch()?;
    SplitMix64::new(seed).fill(buffer.content());
    Ok(())
}

/// CPU time of this process until now, user and system, in nanoseconds (getrusage(2)); kernel threads that io_uring
/// starts for it are among it.
fn cpu_ns() -> u64 {
    // SAFETY: rusage is a plain C struct for which all bytes zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives through the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
