//! Streams at work: each lane makes requests from its own buffer, all lanes are cut into the same slices.

use super::random::Random;
use super::slices::{Cuts, Log};
use crate::affinity::Mask;
use crate::interrupt::interrupted;
use crate::memory::{self, Buffer, Room, Seen, Wanted};
use crate::probe::curve::Point;
use crate::probe::team::{self, Leave, Team};
use crate::probe::window::Plan;
use crate::probe::{nanoseconds, refused};
use crate::Root;
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, ProbeError};
use numaio_machine::workload::{Direction, IoWorkload, Pages, Sampling, StreamGroup};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lanes of all streams, at most: each is a thread.
const MOST_LANES: u64 = 4096;
/// Slices of a window, at most: each lane keeps some points of time for each.
const MOST_SLICES: u32 = 4096;

/// A thread with its buffer: a stream, or a part of one.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Index of its group.
    pub group: usize,
    /// Index of its stream among those of all groups.
    pub stream: usize,
    /// Device write or device read.
    pub direction: Direction,
    /// CPUs it may run on.
    mask: Mask,
    /// Its buffer.
    wanted: Wanted,
}

/// Requests of one lane, to and from its buffer. Dropping it waits until nothing is in flight any more: only then the
/// buffer may go.
pub trait Queue {
    /// Makes as many requests as may be in flight, waits until one or more are done, and gives their bytes; 0 after a
    /// signal.
    ///
    /// # Errors
    /// What went wrong, with the request that it happened to.
    fn turn(&mut self) -> Result<u64, String>;
}

/// Requests that are done as soon as they are made.
pub struct Nothing {
    /// Bytes of all that may be in flight.
    pub bytes: u64,
}

impl Queue for Nothing {
    fn turn(&mut self) -> Result<u64, String> {
        Ok(std::hint::black_box(self.bytes))
    }
}

/// Lanes of a workload: `parts` for each stream, that share its requests in flight.
pub fn lanes(workload: &IoWorkload, parts: u32) -> Vec<Lane> {
    let depth = (workload.depth / parts.max(1)).max(1);
    let bytes = workload.block_bytes.saturating_mul(depth.into());
    let mut lanes = Vec::new();
    let mut stream = 0;
    for (index, StreamGroup { cpus, memory, streams, direction }) in workload.groups.iter().enumerate() {
        for _ in 0..*streams {
            for _ in 0..parts.max(1) {
                lanes.push(Lane {
                    group: index,
                    stream,
                    direction: *direction,
                    mask: Mask::of(cpus),
                    wanted: Wanted { node: *memory, bytes, offset_lines: 0 },
                });
            }
            stream += 1;
        }
    }
    lanes
}

/// Refuses what would give no sample, or fill our own memory.
pub fn within_limits(workload: &IoWorkload, parts: u32) -> Result<(), ProbeError> {
    let lanes = u64::from(workload.streams()).saturating_mul(parts.into());
    if lanes == 0 || workload.block_bytes == 0 || workload.depth == 0 {
        return refused("I/O", "it has no streams, no blocks or no requests in flight");
    }
    if lanes > MOST_LANES {
        return refused("I/O", format!("it needs {lanes} threads; {MOST_LANES} can be had"));
    }
    if workload.groups.iter().any(|group| group.cpus.is_empty()) {
        return refused("I/O", "streams without CPUs to run on");
    }
    plan(workload).map(|_| ())
}

fn plan(workload: &IoWorkload) -> Result<Plan, ProbeError> {
    match workload.sampling {
        Sampling::Window { milliseconds, slices }
            if milliseconds > 0 && (1..=MOST_SLICES).contains(&slices) =>
        {
            Ok(Plan::new(milliseconds, slices))
        }
        Sampling::Window { .. } => {
            refused("window", format!("it has no length, or not 1 to {MOST_SLICES} slices"))
        }
        Sampling::Repetitions { .. } => refused("repetitions", "I/O is sampled by a window"),
    }
}

/// What all lanes of a run share.
struct Shared {
    plan: Plan,
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
struct Brought {
    log: Log,
    seen: [Seen; 2],
}

/// Runs lanes; `queue` makes the requests of one, on its own thread, and a note if it does otherwise than asked.
pub fn run<Q: Queue>(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    lanes: &[Lane],
    queue: impl Fn(&Lane, &mut Buffer) -> Result<(Q, Option<String>), ProbeError> + Sync,
) -> Result<IoOutcome, ProbeError> {
    let began = Instant::now();
    let wanted: Vec<Wanted> = lanes.iter().map(|lane| lane.wanted).collect();
    let mut buffers = memory::buffers(&Room::new(root, limit_bytes), Pages::Transparent, &wanted)?;
    let shared = Shared::new(workload)?;
    let members = lanes.iter().zip(&mut buffers).enumerate();
    let members = members.map(|(index, (lane, buffer))| (&lane.mask, (index, lane, buffer))).collect();
    let brought = team::together_at(
        "io",
        members,
        |mask| bind(mask),
        |team, (index, lane, buffer)| {
            fill(buffer, index as u64)?;
            let before = memory::look(buffer);
            let (queue, note) = queue(lane, buffer)?;
            shared.note(note);
            let log = shared.member(team, (index, lane), queue)?;
            Ok(Brought { log, seen: [before, memory::look(buffer)] })
        },
    )?;
    let (logs, seen): (Vec<Log>, Vec<[Seen; 2]>) =
        brought.into_iter().map(|Brought { log, seen }| (log, seen)).unzip();
    let cut = shared.cut().take();
    let cuts = Cuts::new(&logs, shared.plan, cut.is_none() && shared.early.load(Ordering::Relaxed));
    let group = |index: usize| {
        let of = |lane: &&usize| lanes[**lane].group == index;
        let indices: Vec<usize> = (0..lanes.len()).collect();
        let own: Vec<&Buffer> = indices.iter().filter(of).map(|lane| &buffers[*lane]).collect();
        let huge_bytes = memory::huge_bytes(root, Pages::Transparent, &own);
        let residency = memory::merge(indices.iter().filter(of).flat_map(|lane| seen[*lane]), huge_bytes);
        let samples = cuts.samples(&logs, index);
        let bytes: u64 = samples.iter().map(|sample| sample.bytes).sum();
        IoGroupOutcome { samples, requests: bytes / workload.block_bytes.max(1), residency }
    };
    let groups = (0..workload.groups.len()).map(group).collect();
    let cpu_ns = shared.cpu_ns(&logs, &cuts);
    let mut notes = std::mem::take(&mut *shared.notes());
    notes.sort();
    let start_skew_ns = cuts.start_skew_ns;
    Ok(IoOutcome { groups, elapsed_ns: nanoseconds(began), start_skew_ns, cpu_ns, there: None, notes, cut })
}

impl Shared {
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
        team: &Team,
        (index, lane): (usize, &Lane),
        mut queue: impl Queue,
    ) -> Result<Log, Leave> {
        let mut curve = self.plan.curve();
        team.meet()?;
        let start_ns = team.now();
        team.note_start(start_ns);
        self.note_cpu(index, 0);
        curve.add(Point { ns: start_ns, done: 0 });
        let (mut done, mut warm) = (0u64, false);
        loop {
            let turn = queue.turn();
            done += turn.as_ref().unwrap_or(&0);
            let point = Point { ns: team.now(), done };
            self.count(turn);
            let since = team.latest_start().map_or(0, |latest| point.ns.saturating_sub(latest));
            if since >= self.plan.total_ns() || self.early.load(Ordering::Relaxed) {
                curve.end(point);
                self.note_cpu(index, 2);
                return Ok(Log { group: lane.group, start_ns, end_ns: point.ns, curve });
            }
            if !warm && since >= self.plan.slice_ns {
                warm = true;
                self.note_cpu(index, 1);
            }
            curve.add(point);
            if interrupted() {
                return Err(Leave::Failed(ProbeError::Interrupted));
            }
            team.goes_on()?;
        }
    }

    /// Counts what requests did; an error and the limit of bytes end all lanes.
    fn count(&self, turn: Result<u64, String>) {
        let over = match turn {
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
    fn cpu_ns(&self, logs: &[Log], cuts: &Cuts) -> u64 {
        let [start, warm, end] = &self.cpu_ns;
        let last_start = logs.iter().map(|log| log.start_ns).max();
        let from_start = cuts.span().map(|(from, _)| from) == last_start;
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
    Random::new(seed).fill(buffer.content());
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
