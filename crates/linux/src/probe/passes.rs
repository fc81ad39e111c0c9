//! Threads that go over their buffers again and again, and what they did in stretches of time.

use super::team::{self, EarlyExit, ThreadTeam};
use super::{repetitions, window};
use crate::memory::{self, Buffer, PageLocations};
use crate::Root;
use numaio_machine::probe::{ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Pages, Sampling};

/// Slices of a window, at most: each thread keeps some points of time for each.
pub const MAX_SLICES: u32 = 4096;

/// Repetitions, at most: each thread keeps two points of time for each.
const MAX_REPETITIONS: u32 = 10_000;

/// What one thread does: passes over its buffers, in parts, between which time can be taken.
pub trait BufferPass: Send {
    /// Makes the buffers be there, by the thread that uses them.
    fn prepare(&mut self) -> Result<(), ProbeError>;
    /// All its buffers.
    fn buffers(&self) -> Vec<&Buffer>;
    /// Bytes of a pass, counted in one of the buffers.
    fn bytes(&self) -> usize;
    /// Bytes that a part should have at most.
    fn max_part_bytes(&self) -> usize;
    /// Does the part of a pass that begins at a byte.
    fn part(&mut self, at: usize, bytes: usize);
}

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub struct PassTask<'a> {
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
pub struct Interval {
    /// Bytes of their passes.
    pub bytes: u64,
    /// Its length in nanoseconds.
    pub ns: u64,
}

/// What a run gave.
pub struct PassOutcome {
    /// In order of time, without the warm-up.
    pub intervals: Vec<Interval>,
    /// Time between the first and the last thread's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// Where the pages were.
    pub residency: Residency,
}

/// What a thread brings back.
enum MemberLog {
    /// Of [`Sampling::Window`].
    Window(window::WindowLog),
    /// Of [`Sampling::Repetitions`].
    Repetitions(repetitions::RepetitionLog),
}

/// A member's log, and where its buffers lay before and after.
type MemberResult = (MemberLog, Vec<PageLocations>);

impl PassTask<'_> {
    /// Refuses what would give no sample, or fill our own memory.
    pub fn check_limits(&self) -> Result<(), ProbeError> {
        if self.cpus.is_empty() {
            return super::refused(self.name, "no CPU to run on");
        }
        match self.sampling {
            Sampling::Window { milliseconds, slices } => check_window(milliseconds, slices),
            Sampling::Repetitions { count } if count == 0 || count > MAX_REPETITIONS => {
                super::refused("repetitions", format!("{count}; from 1 to {MAX_REPETITIONS} can be had"))
            }
            Sampling::Repetitions { .. } => Ok(()),
        }
    }

    /// Runs one thread on each CPU, each with work of its own.
    pub fn run<W: BufferPass>(&self, root: &Root, works: &mut [W]) -> Result<PassOutcome, ProbeError> {
        let members = self.cpus.iter().zip(works.iter_mut()).collect();
        let results = team::run_pinned(self.name, members, |team, work| member(team, self.sampling, work))?;
        let buffers: Vec<&Buffer> = works.iter().flat_map(|work| work.buffers()).collect();
        let huge_bytes = memory::huge_bytes(root, self.pages, &buffers);
        let residency = memory::merge(results.iter().flat_map(|(_, seen)| seen.iter().copied()), huge_bytes);
        let bytes = works.iter().map(|work| work.bytes() as u64).sum();
        let (intervals, start_skew_ns) = self.intervals(results.into_iter().map(|(log, _)| log), bytes);
        Ok(PassOutcome { intervals, start_skew_ns, residency })
    }

    /// Stretches of all threads together, and the skew of their starts. `bytes` are those of one pass of all.
    fn intervals(&self, logs: impl Iterator<Item = MemberLog>, bytes: u64) -> (Vec<Interval>, u64) {
        match self.sampling {
            Sampling::Window { milliseconds, slices } => {
                let logs: Vec<window::WindowLog> = logs.filter_map(MemberLog::window).collect();
                window::intervals(&logs, window::SlicePlan::new(milliseconds, slices))
            }
            Sampling::Repetitions { .. } => {
                let logs: Vec<repetitions::RepetitionLog> = logs.filter_map(MemberLog::repetitions).collect();
                repetitions::intervals(&logs, bytes)
            }
        }
    }
}

/// Refuses a window that gives no sample, or fills our own memory.
pub fn check_window(milliseconds: u32, slices: u32) -> Result<(), ProbeError> {
    if milliseconds == 0 {
        return super::refused("window", "it has no length");
    }
    if slices == 0 || slices > MAX_SLICES {
        return super::refused("window", format!("{slices} slices; from 1 to {MAX_SLICES} can be had"));
    }
    Ok(())
}

/// What each thread does.
fn member(
    team: &ThreadTeam,
    sampling: Sampling,
    work: &mut impl BufferPass,
) -> Result<MemberResult, EarlyExit> {
    work.prepare()?;
    let look = |work: &dyn BufferPass| {
        work.buffers().into_iter().map(memory::locate_pages).collect::<Vec<PageLocations>>()
    };
    let mut seen = look(work);
    team.wait_until_prepared()?;
    let log = match sampling {
        Sampling::Window { milliseconds, slices } => {
            MemberLog::Window(window::run(team, work, window::SlicePlan::new(milliseconds, slices))?)
        }
        Sampling::Repetitions { count } => MemberLog::Repetitions(repetitions::run(team, work, count)?),
    };
    seen.extend(look(work));
    Ok((log, seen))
}

impl MemberLog {
    fn window(self) -> Option<window::WindowLog> {
        match self {
            Self::Window(log) => Some(log),
            Self::Repetitions(_) => None,
        }
    }

    fn repetitions(self) -> Option<repetitions::RepetitionLog> {
        match self {
            Self::Repetitions(log) => Some(log),
            Self::Window(_) => None,
        }
    }
}
