//! Threads that go over their buffers again and again, and what they did in stretches of time.

use super::team::{self, Leave, Team};
use super::{repetitions, window};
use crate::memory::{self, Buffer, Seen};
use crate::Root;
use numaio_machine::probe::{ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Pages, Sampling};

/// Slices of a window, at most: each thread keeps some points of time for each.
pub const MOST_SLICES: u32 = 4096;

/// Repetitions, at most: each thread keeps two points of time for each.
const MOST_REPETITIONS: u32 = 10_000;

/// What one thread does: passes over its buffers, in parts, between which time can be taken.
pub trait Work: Send {
    /// Makes the buffers be there, by the thread that uses them.
    fn prepare(&mut self) -> Result<(), ProbeError>;
    /// All its buffers.
    fn buffers(&self) -> Vec<&Buffer>;
    /// Bytes of a pass, counted in one of the buffers.
    fn bytes(&self) -> usize;
    /// Bytes that a part should have at most.
    fn longest_part(&self) -> usize;
    /// Does the part of a pass that begins at a byte.
    fn part(&mut self, at: usize, bytes: usize);
}

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// A word for it, as in `copy`.
    pub name: &'a str,
    /// A CPU for each thread.
    pub cpus: &'a CpuSet,
    /// Pages of the buffers.
    pub pages: Pages,
    /// When samples are taken, and when to end.
    pub sampling: Sampling,
}

/// What all threads together did in one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Bytes of their passes.
    pub bytes: u64,
    /// Its length in nanoseconds.
    pub ns: u64,
}

/// What a run gave.
pub struct Ran {
    /// In order of time, without the warm-up.
    pub stretches: Vec<Stretch>,
    /// Time between the first and the last thread's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// Where the pages were.
    pub residency: Residency,
}

/// What a thread brings back.
enum Log {
    /// Of [`Sampling::Window`].
    Window(window::Log),
    /// Of [`Sampling::Repetitions`].
    Repetitions(repetitions::Log),
}

/// A member's log, and where its buffers lay before and after.
type Brought = (Log, Vec<Seen>);

impl Task<'_> {
    /// Refuses what would give no sample, or fill our own memory.
    pub fn within_limits(&self) -> Result<(), ProbeError> {
        if self.cpus.is_empty() {
            return super::refused(self.name, "no CPU to run on");
        }
        match self.sampling {
            Sampling::Window { milliseconds, slices } => within_window(milliseconds, slices),
            Sampling::Repetitions { count } if count == 0 || count > MOST_REPETITIONS => {
                super::refused("repetitions", format!("{count}; from 1 to {MOST_REPETITIONS} can be had"))
            }
            Sampling::Repetitions { .. } => Ok(()),
        }
    }

    /// Runs one thread on each CPU, each with work of its own.
    pub fn run<W: Work>(&self, root: &Root, works: &mut [W]) -> Result<Ran, ProbeError> {
        let members = self.cpus.iter().zip(works.iter_mut()).collect();
        let brought = team::together(self.name, members, |team, work| member(team, self.sampling, work))?;
        let buffers: Vec<&Buffer> = works.iter().flat_map(|work| work.buffers()).collect();
        let huge_bytes = memory::huge_bytes(root, self.pages, &buffers);
        let residency = memory::merge(brought.iter().flat_map(|(_, seen)| seen.iter().copied()), huge_bytes);
        let bytes = works.iter().map(|work| work.bytes() as u64).sum();
        let (stretches, start_skew_ns) = self.stretches(brought.into_iter().map(|(log, _)| log), bytes);
        Ok(Ran { stretches, start_skew_ns, residency })
    }

    /// Stretches of all threads together, and the skew of their starts. `bytes` are those of one pass of all.
    fn stretches(&self, logs: impl Iterator<Item = Log>, bytes: u64) -> (Vec<Stretch>, u64) {
        match self.sampling {
            Sampling::Window { milliseconds, slices } => {
                let logs: Vec<window::Log> = logs.filter_map(Log::window).collect();
                window::stretches(&logs, window::Plan::new(milliseconds, slices))
            }
            Sampling::Repetitions { .. } => {
                let logs: Vec<repetitions::Log> = logs.filter_map(Log::repetitions).collect();
                repetitions::stretches(&logs, bytes)
            }
        }
    }
}

/// Refuses a window that gives no sample, or fills our own memory.
pub fn within_window(milliseconds: u32, slices: u32) -> Result<(), ProbeError> {
    if milliseconds == 0 {
        return super::refused("window", "it has no length");
    }
    if slices == 0 || slices > MOST_SLICES {
        return super::refused("window", format!("{slices} slices; from 1 to {MOST_SLICES} can be had"));
    }
    Ok(())
}

/// What each thread does.
fn member(team: &Team, sampling: Sampling, work: &mut impl Work) -> Result<Brought, Leave> {
    work.prepare()?;
    let look = |work: &dyn Work| work.buffers().into_iter().map(memory::look).collect::<Vec<Seen>>();
    let mut seen = look(work);
    team.meet()?;
    let log = match sampling {
        Sampling::Window { milliseconds, slices } => {
            Log::Window(window::run(team, work, window::Plan::new(milliseconds, slices))?)
        }
        Sampling::Repetitions { count } => Log::Repetitions(repetitions::run(team, work, count)?),
    };
    seen.extend(look(work));
    Ok((log, seen))
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
