//! What each thread of a team does again and again, and how it is timed.

use super::team::{Leave, Team};
use super::{repetitions, window};
use crate::affinity;
use crate::memory::{look, Buffer, Seen};
use numaio_machine::ids::CpuId;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::Sampling;
use std::thread;

/// Slices of a window, at most: each thread keeps some points of time for each.
const MOST_SLICES: u32 = 4096;

/// Repetitions, at most: each thread keeps two points of time for each.
const MOST_REPETITIONS: u32 = 10_000;

/// Stack of a thread. It needs little; a signal with AVX-512 state on it needs 4 KiB more.
pub const STACK_BYTES: usize = 128 << 10;

/// A thread's work: one pass over its buffers, in parts.
pub trait Work: Send {
    /// Makes the buffers be there, by the thread that works on them.
    fn prepare(&mut self) -> Result<(), ProbeError>;
    /// The buffers.
    fn buffers(&self) -> Vec<&Buffer>;
    /// Bytes of a pass.
    fn bytes(&self) -> usize;
    /// Bytes that one part should have at most.
    fn longest_call(&self) -> usize;
    /// Does a part of a pass; what reaches beyond the pass is left out.
    fn run_part(&mut self, at: usize, bytes: usize);
}

/// Bytes of the passes of all threads together in one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub bytes: u64,
    pub ns: u64,
}

/// What a team brings back.
pub struct Ran {
    /// In order of time, without the warm-up.
    pub samples: Vec<Sample>,
    /// Time between the first and the last thread's start.
    pub start_skew_ns: u64,
    /// Where the buffers lay before and after.
    pub seen: Vec<Seen>,
}

/// What a thread brings back.
enum Log {
    /// Of [`Sampling::Window`].
    Window(window::Log),
    /// Of [`Sampling::Repetitions`].
    Repetitions(repetitions::Log),
}

/// A member's log, and where its buffers lay.
type Brought = (Log, Vec<Seen>);

/// Refuses what would give no sample, or fill our own memory.
pub fn within_limits(cpus: &CpuSet, sampling: Sampling) -> Result<(), ProbeError> {
    let refused = |what: &str, why: String| Err(ProbeError::Refused { what: what.to_owned(), why });
    if cpus.is_empty() {
        return refused("run", "no CPU to run on".to_owned());
    }
    match sampling {
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

/// Runs a team, one thread for each CPU and work; gives what it measured, or why one of them failed.
pub fn run(cpus: &CpuSet, sampling: Sampling, works: &mut [impl Work]) -> Result<Ran, ProbeError> {
    let bytes = works.iter().map(Work::bytes).max().unwrap_or(0) as u64;
    let team = &Team::new(works.len());
    let results: Vec<Result<Brought, Leave>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (cpu, work) in cpus.iter().zip(works) {
            let member = move || member(team, sampling, cpu, work);
            let builder = thread::Builder::new().name(format!("numaio-{cpu}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, member) {
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
    let (logs, seen): (Vec<Log>, Vec<Vec<Seen>>) = all_or_first_failure(results)?.into_iter().unzip();
    let (samples, start_skew_ns) = samples(sampling, bytes, logs);
    Ok(Ran { samples, start_skew_ns, seen: seen.into_iter().flatten().collect() })
}

/// What all threads brought; of failures the first that is no mere consequence of another.
pub fn all_or_first_failure<T>(results: Vec<Result<T, Leave>>) -> Result<Vec<T>, ProbeError> {
    let failure = results.iter().find_map(|result| match result {
        Err(Leave::Failed(error)) => Some(error.clone()),
        _ => None,
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let all: Result<Vec<T>, Leave> = results.into_iter().collect();
    all.map_err(|_| ProbeError::Refused {
        what: "run".to_owned(),
        why: "a thread ended before its time".to_owned(),
    })
}

/// What each thread does.
fn member(team: &Team, sampling: Sampling, cpu: CpuId, work: &mut impl Work) -> Result<Brought, Leave> {
    // Whatever ends this thread early, a panic too, the others do not wait for it.
    let presence = team.presence();
    affinity::pin(cpu)?;
    work.prepare()?;
    let mut seen: Vec<Seen> = work.buffers().into_iter().map(look).collect();
    team.meet()?;
    let log = match sampling {
        Sampling::Window { milliseconds, slices } => {
            Log::Window(window::run(team, work, window::Plan::new(milliseconds, slices))?)
        }
        Sampling::Repetitions { count } => Log::Repetitions(repetitions::run(team, work, count)?),
    };
    seen.extend(work.buffers().into_iter().map(look));
    presence.done();
    Ok((log, seen))
}

/// Samples of all threads together, and the skew of their starts.
fn samples(sampling: Sampling, bytes: u64, logs: Vec<Log>) -> (Vec<Sample>, u64) {
    match sampling {
        Sampling::Window { milliseconds, slices } => {
            let logs: Vec<window::Log> = logs.into_iter().filter_map(Log::window).collect();
            window::samples(&logs, window::Plan::new(milliseconds, slices))
        }
        Sampling::Repetitions { .. } => {
            let logs: Vec<repetitions::Log> = logs.into_iter().filter_map(Log::repetitions).collect();
            repetitions::samples(&logs, bytes)
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
