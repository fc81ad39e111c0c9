//! Threads that make passes over their buffers, and their throughput per interval.

use super::buffer_pass::{BufferPass, Interval};
use super::repetitions;
use super::team::{self, EarlyExit, ThreadTeam};
use super::window::{self, check_window};
use crate::counters::{CountWindow, OpenCounters};
use crate::memory::{self, Buffer, PageLocations};
use crate::refusal::refused;
use crate::Root;
use numaio_machine::probe::{ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Pages, Sampling};

/// Maximum number of repetitions: each thread stores two points in time per repetition.
const MAX_REPETITIONS: u32 = 10_000;

/// Parameters of a run.
#[derive(Clone, Copy)]
pub struct PassTask<'a> {
    /// Name of the workload, as in `copy`.
    pub name: &'a str,
    /// CPUs, one per thread.
    pub cpus: &'a CpuSet,
    /// Page kind of the buffers.
    pub pages: Pages,
    /// Sampling and duration.
    pub sampling: Sampling,
    /// Counters of events of the threads.
    pub counters: Option<&'a OpenCounters>,
}

/// Result of a run.
pub struct PassOutcome {
    /// Intervals in order of time, without the warm-up.
    pub intervals: Vec<Interval>,
    /// Time between the first and the last thread's start, in nanoseconds.
    pub start_skew_ns: u64,
    /// Page locations.
    pub residency: Residency,
}

/// Timing log of a thread.
enum MemberLog {
    /// Log of [`Sampling::Window`].
    Window(window::WindowLog),
    /// Log of [`Sampling::Repetitions`].
    Repetitions(repetitions::RepetitionLog),
}

/// A thread's log, and its page locations before and after the run.
type MemberResult = (MemberLog, Vec<PageLocations>);

impl PassTask<'_> {
    /// Rejects workloads that yield no sample or exceed the limits.
    pub fn check_limits(&self) -> Result<(), ProbeError> {
        if self.cpus.is_empty() {
            return refused(self.name, "no CPU to run on");
        }
        match self.sampling {
            Sampling::Window { milliseconds, slices } => check_window(milliseconds, slices),
            Sampling::Repetitions { count } if count == 0 || count > MAX_REPETITIONS => {
                refused("repetitions", format!("{count}, expected 1 to {MAX_REPETITIONS}"))
            }
            Sampling::Repetitions { .. } => Ok(()),
        }
    }

    /// Runs one thread per CPU, each with one of the passes.
    pub fn run<W: BufferPass>(&self, root: &Root, works: &mut [W]) -> Result<PassOutcome, ProbeError> {
        let members = self.cpus.iter().zip(works.iter_mut()).collect();
        let counting = CountWindow::new(self.counters, self.cpus.len());
        let results =
            team::run_pinned(self.name, members, |team, work| member(team, self.sampling, &counting, work))?;
        let buffers: Vec<&Buffer> = works.iter().flat_map(|work| work.buffers()).collect();
        let huge_bytes = memory::huge_bytes(root, self.pages, &buffers);
        let residency = memory::merge(results.iter().flat_map(|(_, seen)| seen.iter().copied()), huge_bytes);
        let bytes = works.iter().map(|work| work.bytes() as u64).sum();
        let (intervals, start_skew_ns) = self.intervals(results.into_iter().map(|(log, _)| log), bytes);
        Ok(PassOutcome { intervals, start_skew_ns, residency })
    }

    /// Returns the intervals of all threads, and the skew of their starts. `bytes` is the sum of
    /// one pass of each.
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

/// Runs one thread.
fn member(
    team: &ThreadTeam,
    sampling: Sampling,
    counting: &CountWindow,
    work: &mut impl BufferPass,
) -> Result<MemberResult, EarlyExit> {
    work.prepare()?;
    let look = |work: &dyn BufferPass| {
        work.buffers().into_iter().map(memory::locate_pages).collect::<Vec<PageLocations>>()
    };
    let mut seen = look(work);
    team.wait_until_prepared()?;
    counting.start();
    let log = match sampling {
        Sampling::Window { milliseconds, slices } => {
            MemberLog::Window(window::run(team, work, window::SlicePlan::new(milliseconds, slices))?)
        }
        Sampling::Repetitions { count } => MemberLog::Repetitions(repetitions::run(team, work, count)?),
    };
    counting.end();
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
