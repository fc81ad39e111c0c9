//! Loads beside a workload: STREAM threads and commands that run until the workload has ended.

use super::buffer_pass::BufferPass;
use super::stream::{self, Streaming};
use super::team::{self, EarlyExit, ThreadTeam};
use crate::clock::{self, nanoseconds};
use crate::group_guard::GroupGuard;
use crate::interrupt::interrupted;
use crate::memory::{self, Buffer, FreeMemory, PageLocations};
use crate::refusal::refused;
use crate::stream::Streamer;
use crate::tool::RunningTool;
use crate::Root;
use numaio_machine::ids::CpuId;
use numaio_machine::printable::printable;
use numaio_machine::probe::{
    LoadedOutcome, NeighborOutcome, Outcome, ProbeError, Residency, ToolExit, ToolOutput,
};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    LoadedWorkload, NeighborLoad, Pages, StreamLoad, StreamLoop, StreamOp, ToolProcess, Workload,
};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Time after which a started command counts as running.
const COMMAND_START: Duration = Duration::from_millis(200);
/// Interval between checks whether all threads run.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of STREAM threads of all loads.
const MAX_THREADS: u32 = 8192;
/// Maximum characters of a command's error output in a message.
const MAX_REASON_CHARS: usize = 200;

/// Runs `run`, which runs the workload, while the loads run. `limit_bytes` are the bytes that the
/// control group still allows.
///
/// # Errors
/// As the workload; [`ProbeError::Refused`] if a load cannot start or ends before the workload.
pub fn loaded(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &LoadedWorkload,
    run: impl FnOnce(&Workload) -> Result<Outcome, ProbeError>,
) -> Result<LoadedOutcome, ProbeError> {
    let began = Instant::now();
    check_limits(workload)?;
    let mut passes = build_passes(&FreeMemory::new(root, limit_bytes), &workload.loads)?;
    let shared = SharedState::new(passes.len());
    let commands = start_commands(&workload.loads)?;
    let (outcome, ns, bytes, pages) = thread::scope(|scope| {
        let stop = StopGuard(&shared.stop);
        let members = members(&workload.loads, &mut passes);
        let work = |team: &ThreadTeam, thread| load(team, &shared, thread);
        let threads = scope.spawn(move || team::run_pinned("load", members, work));
        if wait_until_running(&shared, &threads)? == LoadState::Failed {
            return Err(join(threads).err().unwrap_or(ProbeError::Interrupted));
        }
        let before = shared.bytes();
        let start = Instant::now();
        let outcome = run(&workload.workload)?;
        let ns = nanoseconds(start);
        let bytes = shared.bytes().into_iter().zip(before).map(|(after, before)| after - before);
        let bytes: Vec<u64> = bytes.collect();
        drop(stop);
        Ok((outcome, ns, bytes, join(threads)?))
    })?;
    drop(still_running(commands)?);
    let measured = Measured { ns, bytes: &bytes, pages: &pages };
    let loads = outcomes(root, &workload.loads, &passes, measured);
    drop(passes);
    Ok(LoadedOutcome {
        outcome: Box::new(outcome),
        loads,
        overhead_ns: nanoseconds(began).saturating_sub(ns),
    })
}

/// Rejects workloads without loads, with loads of loads, and beyond the limits.
fn check_limits(workload: &LoadedWorkload) -> Result<(), ProbeError> {
    if workload.loads.is_empty() || matches!(*workload.workload, Workload::Loaded(_)) {
        return refused("load", "expected loads beside a workload without load");
    }
    let threads = streams(&workload.loads).map(|load| load.threads).fold(0, u32::saturating_add);
    if threads > MAX_THREADS {
        return refused("load", format!("{threads} threads, expected at most {MAX_THREADS}"));
    }
    for load in streams(&workload.loads) {
        if load.threads == 0 || load.placement.cpus.is_empty() {
            return refused("load", "no threads or no CPUs to run on");
        }
        if load.bytes_per_array < size_of::<f64>() as u64 {
            return refused("load", format!("{} bytes hold no double", load.bytes_per_array));
        }
    }
    Ok(())
}

fn streams(loads: &[NeighborLoad]) -> impl Iterator<Item = &StreamLoad> {
    loads.iter().filter_map(|load| match load {
        NeighborLoad::Stream(stream) => Some(stream),
        NeighborLoad::Command { .. } => None,
    })
}

/// Returns the arrays of all threads, load by load. They are mapped at once, so that the check of
/// free memory counts all of them.
fn build_passes(free_memory: &FreeMemory, loads: &[NeighborLoad]) -> Result<Vec<Streaming>, ProbeError> {
    let what = || ProbeError::Unsupported { feature: format!("{} loop", StreamLoop::Ordinary) };
    let streamer = Streamer::new(StreamLoop::Ordinary, StreamOp::Copy).ok_or_else(what)?;
    let arrays = StreamLoad::ARRAYS as usize;
    let wanted: Vec<memory::BufferRequest> = streams(loads)
        .flat_map(|load| stream::requests(load.memory, load.bytes_per_array, arrays, load.threads as usize))
        .collect();
    let buffers = memory::map_buffers(free_memory, Pages::Transparent, &wanted)?;
    Ok(stream::passes(streamer, arrays, buffers))
}

/// Returns the CPU and the work of each thread, load by load.
fn members<'a>(
    loads: &[NeighborLoad],
    passes: &'a mut [Streaming],
) -> Vec<(CpuId, (usize, &'a mut Streaming))> {
    let turns = |load: &StreamLoad| {
        let cpus: Vec<CpuId> = load.placement.cpus.iter().collect();
        (0..load.threads as usize).map(|thread| cpus[thread % cpus.len()]).collect::<Vec<CpuId>>()
    };
    let cpus = streams(loads).flat_map(turns);
    cpus.zip(passes.iter_mut().enumerate()).collect()
}

/// State that the loading threads share with the thread of the workload.
struct SharedState {
    stop: AtomicBool,
    running: AtomicUsize,
    done: Vec<ThreadBytes>,
}

/// Bytes of a thread so far, in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct ThreadBytes(AtomicU64);

impl SharedState {
    fn new(threads: usize) -> Self {
        let done = (0..threads).map(|_| ThreadBytes::default()).collect();
        Self { stop: AtomicBool::new(false), running: AtomicUsize::new(0), done }
    }

    fn bytes(&self) -> Vec<u64> {
        self.done.iter().map(|thread| thread.0.load(Ordering::Relaxed)).collect()
    }
}

/// Stops the loading threads when it is dropped, also by an error or a panic.
struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs a loading thread until the workload has ended; returns its page locations before and after.
fn load(
    team: &ThreadTeam,
    shared: &SharedState,
    (index, pass): (usize, &mut Streaming),
) -> Result<Vec<PageLocations>, EarlyExit> {
    pass.prepare()?;
    let locate = |pass: &Streaming| pass.buffers().into_iter().map(memory::locate_pages).collect::<Vec<_>>();
    let mut pages = locate(pass);
    team.wait_until_prepared()?;
    shared.running.fetch_add(1, Ordering::AcqRel);
    let (all, longest) = (pass.bytes(), pass.max_part_bytes());
    let (mut at, mut done) = (0, 0);
    let mut account = clock::ExcludedThread::start();
    while !shared.stop.load(Ordering::Acquire) && team.is_running()? {
        let bytes = longest.min(all - at);
        pass.part(at, bytes);
        done += bytes as u64 * u64::from(StreamLoad::ARRAYS);
        at = if at + bytes == all { 0 } else { at + bytes };
        shared.done[index].0.store(done, Ordering::Relaxed);
        account.add();
    }
    pages.extend(locate(pass));
    Ok(pages)
}

type Threads<'scope> = ScopedJoinHandle<'scope, Result<Vec<Vec<PageLocations>>, ProbeError>>;

/// State of the loading threads before the workload.
#[derive(PartialEq)]
enum LoadState {
    /// All run.
    Running,
    /// They have ended.
    Failed,
}

/// Waits until every thread runs, or all have ended.
fn wait_until_running(shared: &SharedState, threads: &Threads) -> Result<LoadState, ProbeError> {
    while shared.running.load(Ordering::Acquire) < shared.done.len() {
        if interrupted() {
            return Err(ProbeError::Interrupted);
        }
        if threads.is_finished() {
            return Ok(LoadState::Failed);
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(LoadState::Running)
}

fn join(threads: Threads) -> Result<Vec<Vec<PageLocations>>, ProbeError> {
    let ended = || refused("load", "a thread ended before the workload");
    threads.join().unwrap_or_else(|_| ended())
}

/// A command with the guard that ends it if this process is killed. The guard ends first.
struct RunningCommand<'a> {
    command: &'a str,
    _guard: GroupGuard,
    running: RunningTool,
}

/// Starts all commands, and checks that each still runs after a short time.
fn start_commands(loads: &[NeighborLoad]) -> Result<Vec<RunningCommand<'_>>, ProbeError> {
    let mut started = Vec::new();
    for load in loads {
        let NeighborLoad::Command { command } = load else { continue };
        let args = vec!["-c".to_owned(), command.clone()];
        let running = RunningTool::start("sh", &ToolProcess { args, cpus: CpuSet::new(), memory: None })?;
        let guard = GroupGuard::start(running.id()).map_err(|error| ProbeError::Refused {
            call: format!("start the guard of '{command}'"),
            reason: error.to_string(),
        })?;
        started.push(RunningCommand { command, _guard: guard, running });
    }
    for command in &started {
        command.running.exits_within(COMMAND_START);
    }
    still_running(started)
}

/// Returns the commands, or fails with the reason of one that has ended by itself, which terminates
/// the others.
fn still_running(mut commands: Vec<RunningCommand>) -> Result<Vec<RunningCommand>, ProbeError> {
    let Some(index) = commands.iter_mut().position(|command| command.running.ended().is_some()) else {
        return Ok(commands);
    };
    let ended = commands.swap_remove(index);
    let what = format!("load '{}'", ended.command);
    refused(&what, exit_reason(&ended.running.stop_and_collect()))
}

fn exit_reason(output: &ToolOutput) -> String {
    let how = match output.exit {
        ToolExit::Status(status) => format!("exited with status {status}"),
        ToolExit::Signal(signal) => format!("was killed by signal {signal}"),
        ToolExit::TimeLimit => "was stopped".to_owned(),
    };
    let last = output.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    let last: String = printable(last).chars().take(MAX_REASON_CHARS).collect();
    let colon = if last.is_empty() { "" } else { ": " };
    format!("{how} before the workload ended{colon}{last}")
}

/// Bytes and page locations of all threads, load by load, and the duration.
struct Measured<'a> {
    ns: u64,
    bytes: &'a [u64],
    pages: &'a [Vec<PageLocations>],
}

fn outcomes(
    root: &Root,
    loads: &[NeighborLoad],
    passes: &[Streaming],
    measured: Measured,
) -> Vec<NeighborOutcome> {
    let Measured { ns, bytes, pages } = measured;
    let mut first = 0;
    let outcome = |load: &NeighborLoad| {
        let NeighborLoad::Stream(stream) = load else {
            return NeighborOutcome { bytes: None, ns, residency: Residency::default() };
        };
        let threads = first..first + stream.threads as usize;
        first = threads.end;
        let buffers: Vec<&Buffer> = passes[threads.clone()].iter().flat_map(BufferPass::buffers).collect();
        let huge_bytes = memory::huge_bytes(root, Pages::Transparent, &buffers);
        let residency = memory::merge(pages[threads.clone()].iter().flatten().copied(), huge_bytes);
        NeighborOutcome { bytes: Some(bytes[threads].iter().sum()), ns, residency }
    };
    loads.iter().map(outcome).collect()
}
