//! Running streams of copies, all at once, and cutting their time.

use super::driver::Driver;
use super::lane::Lane;
use super::objects::Context;
use crate::interrupt::interrupted;
use crate::memory::{self, Buffer, Room, Seen, Wanted};
use crate::probe::curve::{Curve, Point};
use crate::probe::team::{self, Leave, Team};
use crate::probe::window::{self, Plan};
use crate::probe::work::{within_window, Stretch};
use crate::probe::{nanoseconds, refused};
use crate::Root;
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, IoSample, ProbeError};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{IoWorkload, Pages, Sampling, StreamGroup};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Most streams at once; each is a thread.
const MOST_STREAMS: u32 = 1024;
/// Most copies in flight of one stream.
const MOST_DEPTH: u32 = 1024;
/// Pages of the buffers.
const PAGES: Pages = Pages::Transparent;
/// How long a stream watches its next copy busily: longer than a small copy takes.
const WATCH: Duration = Duration::from_micros(100);
/// How long it then sleeps between two looks; another copy is in flight meanwhile.
const NAP: Duration = Duration::from_micros(50);

/// Moves data between memory and a GPU. `limit_bytes` is what the control group allows.
///
/// # Errors
/// [`ProbeError`]. An error of the driver that comes after the start ends the run early, and is told by its outcome.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    io: &IoWorkload,
    device: u32,
) -> Result<IoOutcome, ProbeError> {
    run_by(super::driver()?, &Room::new(root, limit_bytes), root, io, device)
}

/// As [`run`], by a driver.
pub fn run_by(
    driver: &Driver,
    room: &Room,
    root: &Root,
    io: &IoWorkload,
    device: u32,
) -> Result<IoOutcome, ProbeError> {
    let began = Instant::now();
    let run =
        Run { io, plan: plan(io)?, context: Context::of(driver, device)?, submitted: AtomicU64::new(0) };
    let mut buffers = buffers(room, io)?;
    let members = members(io, &mut buffers);
    let brought = team::together("gpu", members, |team, member| run.stream(team, member))?;
    let cut = Cut::new(&brought, run.plan);
    let cpu_ns = brought.iter().find_map(|brought| brought.log.cpu_ns).unwrap_or(0);
    let mut rest = (brought.as_slice(), buffers.as_slice());
    let mut groups = Vec::new();
    for group in &io.groups {
        let (of_group, buffers) = split(&mut rest, group.streams as usize);
        groups.push(outcome(root, io, &cut, of_group, buffers));
    }
    Ok(IoOutcome {
        groups,
        elapsed_ns: nanoseconds(began),
        start_skew_ns: cut.skew_ns,
        cpu_ns,
        there: None,
        notes: Vec::new(),
        cut: brought.into_iter().find_map(|brought| brought.log.broken),
    })
}

/// Refuses what would give no sample, or fill our own memory.
fn plan(io: &IoWorkload) -> Result<Plan, ProbeError> {
    let Sampling::Window { milliseconds, slices } = io.sampling else {
        return refused("GPU", "its streams are sampled in a window");
    };
    within_window(milliseconds, slices)?;
    let streams = io.streams();
    if streams == 0 || streams > MOST_STREAMS || io.groups.iter().any(|group| group.cpus.is_empty()) {
        return refused(
            "GPU",
            format!("{streams} streams; from 1 to {MOST_STREAMS} can be had, each with CPUs"),
        );
    }
    if io.depth == 0 || io.depth > MOST_DEPTH || io.block_bytes == 0 || io.block_bytes > isize::MAX as u64 {
        let asked = format!("{} blocks of {} bytes in flight", io.depth, io.block_bytes);
        return refused("GPU", format!("{asked}; from 1 to {MOST_DEPTH} can be had"));
    }
    let least = io.block_bytes.saturating_mul(streams.into());
    if io.most_bytes.is_some_and(|most| most < least) {
        return refused(
            "GPU",
            format!("a block for each stream is {least} bytes, which is more than may be moved"),
        );
    }
    Ok(Plan::new(milliseconds, slices))
}

/// A buffer for each stream, in the groups' order.
fn buffers(room: &Room, io: &IoWorkload) -> Result<Vec<Buffer>, ProbeError> {
    let bytes = io.block_bytes.saturating_mul(io.depth.into());
    let of = |group: &StreamGroup| {
        let wanted = Wanted { node: group.memory, bytes, offset_lines: 0 };
        std::iter::repeat_n(wanted, group.streams as usize)
    };
    memory::buffers(room, PAGES, &io.groups.iter().flat_map(of).collect::<Vec<Wanted>>())
}

/// One stream.
struct Member<'a> {
    group: &'a StreamGroup,
    buffer: &'a mut Buffer,
    /// The first one notes the CPU time.
    first: bool,
}

fn members<'a>(io: &'a IoWorkload, buffers: &'a mut [Buffer]) -> Vec<(&'a CpuSet, Member<'a>)> {
    let groups = io.groups.iter().flat_map(|group| std::iter::repeat_n(group, group.streams as usize));
    let members = groups.zip(buffers).enumerate();
    members
        .map(|(index, (group, buffer))| (&group.cpus, Member { group, buffer, first: index == 0 }))
        .collect()
}

/// What the streams share.
struct Run<'a> {
    io: &'a IoWorkload,
    plan: Plan,
    context: Context<'a>,
    /// Bytes put into streams by all of them.
    submitted: AtomicU64,
}

/// What a stream saw.
struct Log {
    start_ns: u64,
    /// When its last copy was done.
    end_ns: u64,
    curve: Curve,
    /// CPU time of this process in the slices, of the first stream.
    cpu_ns: Option<u64>,
    /// The error that ended it.
    broken: Option<String>,
}

/// A stream's log, and where its buffer lay before and after.
struct Brought {
    log: Log,
    seen: [Seen; 2],
}

impl Run<'_> {
    /// What each thread does.
    fn stream(&self, team: &Team, member: Member) -> Result<Brought, Leave> {
        let Member { group, buffer, first } = member;
        self.context.enter()?;
        buffer.fill()?;
        let before = memory::look(buffer);
        // SAFETY: the buffer is this thread's by `&mut`, and outlives the lane.
        let lane = unsafe { Lane::new(&self.context, buffer, self.io.depth as usize, group.direction) }?;
        team.meet()?;
        let log = self.log(team, &lane, first)?;
        drop(lane);
        Ok(Brought { log, seen: [before, memory::look(buffer)] })
    }

    /// Copies until the time is over.
    fn log(&self, team: &Team, lane: &Lane, first: bool) -> Result<Log, Leave> {
        let mut curve = self.plan.curve();
        let mut clock = first.then(|| Clock::new(self.plan));
        team.line_up()?;
        let start_ns = team.now();
        team.note_start(start_ns);
        let mut last = Point { ns: start_ns, done: 0 };
        curve.add(last);
        let copied = self.copies(team, lane, |point| {
            last = point;
            curve.add(point);
            clock.iter_mut().for_each(|clock| clock.look(team, point.ns));
        });
        let broken = match copied {
            Ok(()) => None,
            Err(ProbeError::Interrupted) => return Err(Leave::Failed(ProbeError::Interrupted)),
            Err(error) => {
                // What was measured until now counts, so the others end by themselves and not as failed.
                team.stop();
                Some(error.to_string())
            }
        };
        curve.end(last);
        Ok(Log { start_ns, end_ns: last.ns, curve, cpu_ns: clock.map(|clock| clock.passed()), broken })
    }

    /// Keeps copies in flight, and tells of each that is done.
    fn copies(&self, team: &Team, lane: &Lane, mut told: impl FnMut(Point)) -> Result<(), ProbeError> {
        let mut flying = VecDeque::with_capacity(lane.depth());
        let mut free: VecDeque<usize> = (0..lane.depth()).collect();
        let mut done = 0;
        loop {
            while let Some(slot) = free.pop_front().filter(|_| self.may_submit()) {
                lane.submit(slot)?;
                flying.push_back(slot);
            }
            let Some(slot) = flying.pop_front() else { return Ok(()) };
            if !self.wait(team, lane, slot)? {
                return Ok(());
            }
            done += self.io.block_bytes;
            let point = Point { ns: team.now(), done };
            told(point);
            let end = |latest: u64| latest.saturating_add(self.plan.total_ns());
            if team.latest_start().is_some_and(|latest| point.ns >= end(latest)) {
                return Ok(());
            }
            free.push_back(slot);
        }
    }

    /// Whether another block may be moved; counts it.
    fn may_submit(&self) -> bool {
        let before = self.submitted.fetch_add(self.io.block_bytes, Ordering::Relaxed);
        self.io.most_bytes.is_none_or(|most| before.saturating_add(self.io.block_bytes) <= most)
    }

    /// Waits for a copy; false if the others have ended meanwhile.
    fn wait(&self, team: &Team, lane: &Lane, slot: usize) -> Result<bool, ProbeError> {
        let began = Instant::now();
        while !lane.done(slot)? {
            if interrupted() {
                return Err(ProbeError::Interrupted);
            }
            if !matches!(team.goes_on(), Ok(true)) {
                return Ok(false);
            }
            // With one copy in flight, the device would wait for us to wake up.
            match lane.depth() > 1 && began.elapsed() > WATCH {
                true => thread::sleep(NAP),
                false => std::hint::spin_loop(),
            }
        }
        Ok(true)
    }
}

/// The CPU time of this process after the warm-up.
struct Clock {
    plan: Plan,
    from_ns: u64,
    warm: bool,
}

impl Clock {
    fn new(plan: Plan) -> Self {
        Self { plan, from_ns: cpu_ns(), warm: false }
    }

    fn look(&mut self, team: &Team, ns: u64) {
        let over = team.latest_start().is_some_and(|latest| ns >= latest.saturating_add(self.plan.slice_ns));
        if over && !self.warm {
            (self.from_ns, self.warm) = (cpu_ns(), true);
        }
    }

    fn passed(&self) -> u64 {
        cpu_ns().saturating_sub(self.from_ns)
    }
}

/// CPU time of this process until now, in nanoseconds (clock_gettime(2)).
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value that lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Where the time in which all streams ran is cut.
struct Cut {
    moments: Vec<u64>,
    skew_ns: u64,
}

impl Cut {
    /// After the warm-up, slices that all streams lived to see. Where bytes were limited and not one slice is whole,
    /// all of the time is one.
    fn new(brought: &[Brought], plan: Plan) -> Self {
        let logs = || brought.iter().map(|brought| &brought.log);
        let first = logs().map(|log| log.start_ns).min().unwrap_or(0);
        let last = logs().map(|log| log.start_ns).max().unwrap_or(0);
        let end = logs().map(|log| log.end_ns).min().unwrap_or(0);
        let whole = (1..=u64::from(plan.slices) + 1).map(|slice| last + slice * plan.slice_ns);
        let mut moments: Vec<u64> = whole.take_while(|ns| *ns <= end).collect();
        if moments.len() < 2 && end > last && logs().all(|log| log.broken.is_none()) {
            moments = vec![last, end];
        }
        Self { moments, skew_ns: last - first }
    }
}

/// Takes the first ones off both.
fn split<'a>(rest: &mut (&'a [Brought], &'a [Buffer]), count: usize) -> (&'a [Brought], &'a [Buffer]) {
    let (brought, more_brought) = rest.0.split_at(count.min(rest.0.len()));
    let (buffers, more_buffers) = rest.1.split_at(count.min(rest.1.len()));
    *rest = (more_brought, more_buffers);
    (brought, buffers)
}

fn outcome(
    root: &Root,
    io: &IoWorkload,
    cut: &Cut,
    brought: &[Brought],
    buffers: &[Buffer],
) -> IoGroupOutcome {
    let curves: Vec<&Curve> = brought.iter().map(|brought| &brought.log.curve).collect();
    let stretches = window::cut(&curves, &cut.moments);
    let bytes: u64 = stretches.iter().map(|stretch| stretch.bytes).sum();
    let sample = |stretch: Stretch| IoSample { bytes: stretch.bytes, ns: stretch.ns };
    let huge_bytes = memory::huge_bytes(root, PAGES, &buffers.iter().collect::<Vec<&Buffer>>());
    IoGroupOutcome {
        samples: stretches.into_iter().map(sample).collect(),
        requests: bytes / io.block_bytes,
        residency: memory::merge(brought.iter().flat_map(|brought| brought.seen), huge_bytes),
    }
}
