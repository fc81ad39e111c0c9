//! Running workloads on this machine.

mod curve;
mod repetitions;
mod team;
mod window;

use crate::copy::Copier;
use crate::memory::{self, Buffer, Room, Seen};
use crate::{affinity, Root};
use numaio_machine::ids::CpuId;
use numaio_machine::probe::{CopyOutcome, CopySample, ProbeError};
use numaio_machine::workload::{CopyWorkload, Sampling};
use std::thread;
use std::time::Instant;
use team::{Leave, Team};

/// Slices of a window, at most: each thread keeps some points of time for each.
const MOST_SLICES: u32 = 4096;

/// Repetitions, at most: each thread keeps two points of time for each.
const MOST_REPETITIONS: u32 = 10_000;

/// Stack of a thread that copies. It needs little; a signal with AVX-512 state on it needs 4 KiB more.
const STACK_BYTES: usize = 128 << 10;

/// What a thread brings back.
enum Log {
    /// Of [`Sampling::Window`].
    Window(window::Log),
    /// Of [`Sampling::Repetitions`].
    Repetitions(repetitions::Log),
}

/// A member's log, and where its source and sink lay before and after.
type Brought = (Log, [Seen; 4]);

/// Runs a copy workload. `limit_bytes` is what the control group allows.
pub fn copy(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &CopyWorkload,
) -> Result<CopyOutcome, ProbeError> {
    let began = Instant::now();
    let what = format!("{} loop", workload.copy_loop);
    let copier = Copier::new(workload.copy_loop).ok_or(ProbeError::Unsupported { what })?;
    within_limits(workload)?;
    let mut buffers = memory::pairs(&Room::new(root, limit_bytes), workload)?;
    let brought = run_team(copier, workload, &mut buffers)?;
    let huge_bytes = memory::huge_bytes(root, workload.pages, &buffers);
    let residency = memory::merge(brought.iter().flat_map(|(_, seen)| *seen), huge_bytes);
    drop(buffers);
    let (samples, start_skew_ns) = samples(workload, brought.into_iter().map(|(log, _)| log).collect());
    Ok(CopyOutcome { samples, elapsed_ns: nanoseconds(began), start_skew_ns, residency })
}

/// Refuses what would give no sample, or fill our own memory.
fn within_limits(workload: &CopyWorkload) -> Result<(), ProbeError> {
    let refused = |what: &str, why: String| Err(ProbeError::Refused { what: what.to_owned(), why });
    if workload.placement.cpus.is_empty() {
        return refused("copy", "no CPU to run on".to_owned());
    }
    if workload.bytes_per_thread == 0 {
        return refused("copy", "no bytes to copy".to_owned());
    }
    match workload.sampling {
        Sampling::Window { milliseconds: 0, .. } => refused("window", "it has no length".to_owned()),
        Sampling::Window { slices, .. } if slices == 0 || slices > MOST_SLICES => {
            refused("window", format!("{slices} slices; from 1 to {MOST_SLICES} can be had"))
        }
        Sampling::Repetitions { count } if count == 0 || count > MOST_REPETITIONS => {
            refused("repetitions", format!("{count}; from 1 to {MOST_REPETITIONS} can be had"))
        }
        _ => Ok(()),
    }
}

/// One thread for each CPU and pair of buffers; all their logs, or why one of them failed.
fn run_team(
    copier: Copier,
    workload: &CopyWorkload,
    buffers: &mut [(Buffer, Buffer)],
) -> Result<Vec<Brought>, ProbeError> {
    let team = &Team::new(buffers.len());
    let results: Vec<Result<Brought, Leave>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (cpu, pair) in workload.placement.cpus.iter().zip(buffers) {
            let work = move || member(team, copier, workload.sampling, cpu, pair);
            let builder = thread::Builder::new().name(format!("copy-{cpu}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, work) {
                Ok(thread) => threads.push(Ok(thread)),
                Err(error) => {
                    team.abandon();
                    let what = format!("start a thread for CPU {cpu}");
                    threads.push(Err(Leave::Failed(ProbeError::Refused { what, why: error.to_string() })));
                    break;
                }
            }
        }
        let joined = threads.into_iter().map(|thread| thread?.join().unwrap_or(Err(Leave::Abandoned)));
        joined.collect()
    });
    let failure = results.iter().find_map(|result| match result {
        Err(Leave::Failed(error)) => Some(error.clone()),
        _ => None,
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let all: Result<Vec<Brought>, Leave> = results.into_iter().collect();
    all.map_err(|_| ProbeError::Refused {
        what: "copy".to_owned(),
        why: "a thread ended before its time".to_owned(),
    })
}

/// What each thread does.
fn member(
    team: &Team,
    copier: Copier,
    sampling: Sampling,
    cpu: CpuId,
    pair: &mut (Buffer, Buffer),
) -> Result<Brought, Leave> {
    // Whatever ends this thread early, a panic too, the others do not wait for it.
    let presence = team.presence();
    affinity::pin(cpu)?;
    let (source, sink) = pair;
    source.fill()?;
    sink.touch()?;
    let before = [memory::look(source), memory::look(sink)];
    team.meet()?;
    let log = match sampling {
        Sampling::Window { milliseconds, slices } => {
            let slice_ns = slice_ns(milliseconds, slices);
            Log::Window(window::copy(team, copier, source, sink, window::Plan { slice_ns, slices })?)
        }
        Sampling::Repetitions { count } => {
            Log::Repetitions(repetitions::copy(team, copier, source, sink, count)?)
        }
    };
    let after = [memory::look(source), memory::look(sink)];
    presence.done();
    Ok((log, [before[0], before[1], after[0], after[1]]))
}

/// Samples of all threads together, and the skew of their starts.
fn samples(workload: &CopyWorkload, logs: Vec<Log>) -> (Vec<CopySample>, u64) {
    match workload.sampling {
        Sampling::Window { milliseconds, slices } => {
            let logs: Vec<window::Log> = logs.into_iter().filter_map(Log::window).collect();
            window::samples(&logs, window::Plan { slice_ns: slice_ns(milliseconds, slices), slices })
        }
        Sampling::Repetitions { .. } => {
            let logs: Vec<repetitions::Log> = logs.into_iter().filter_map(Log::repetitions).collect();
            repetitions::samples(&logs, workload.bytes_per_thread)
        }
    }
}

impl Log {
    fn window(self) -> Option<window::Log> {
        match self {
            Self::Window(log) => Some(log),
            Self::Repetitions(_) => None,
        }
    }

    fn repetitions(self) -> Option<repetitions::Log> {
        match self {
            Self::Repetitions(log) => Some(log),
            Self::Window(_) => None,
        }
    }
}

fn slice_ns(milliseconds: u32, slices: u32) -> u64 {
    (u64::from(milliseconds) * 1_000_000 / u64::from(slices)).max(1)
}

/// Nanoseconds since a moment.
fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
