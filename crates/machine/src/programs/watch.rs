//! Repeated samples of many programs at a bounded cost.

use super::rates::{rates, ProgramRates};
use super::sample::{read_details, read_io, read_memory, read_stat, ProgramSample};
use crate::ids::{CpuId, NodeId};
use crate::sysfs::Sysfs;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often expensive files are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchOptions {
    /// Storage rate from which a program is active, in bytes per second.
    pub active_bytes_per_s: f64,
    /// CPUs in use from which a program is active; threads are read of active programs only.
    pub active_cpus: f64,
    /// Time between reads of an active program's memory by node.
    pub memory_every: Duration,
    /// Rounds between reads of the I/O counters of a program that used no CPU time.
    pub idle_rounds: u64,
    /// Rounds after which a kernel thread's id is checked again, because ids are reused.
    pub kernel_rounds: u64,
    /// Whether every program is treated as active: for a few named ones.
    pub all_active: bool,
    /// Whether the memory of active programs is read.
    pub reads_memory: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            active_bytes_per_s: 1e6,
            active_cpus: 0.05,
            memory_every: Duration::from_secs(10),
            idle_rounds: 4,
            kernel_rounds: 32,
            all_active: false,
            reads_memory: true,
        }
    }
}

/// A program with its newest sample and its rates since the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedProgram {
    /// The newest sample. Its memory may be older than its counters.
    pub sample: ProgramSample,
    /// Rates; `None` in the first round of a program.
    pub rates: Option<ProgramRates>,
    /// Whether threads and memory were read, because the program is active.
    pub is_active: bool,
}

/// The state of knowledge of a process.
#[derive(Debug)]
struct TrackedProgram {
    sample: ProgramSample,
    /// Time of the sample's counters.
    at: Duration,
    /// Time of the sample's I/O counters, and the counters.
    io: Option<(Duration, super::IoCounters)>,
    memory_at: Option<Duration>,
    rates: Option<ProgramRates>,
    round: u64,
}

/// Samples of programs, each compared with the one before.
///
/// A round reads one file per process, and a second one if the process used CPU time. Threads and
/// pages are read of active programs only, and pages rarely.
#[derive(Debug, Default)]
pub struct ProgramWatch {
    options: WatchOptions,
    round: u64,
    programs: BTreeMap<u32, TrackedProgram>,
    /// Ids of kernel threads, with the round in which they were checked.
    kernel_threads: BTreeMap<u32, u64>,
    /// Programs that are active by what the watch does not count.
    active: BTreeSet<u32>,
}

impl ProgramWatch {
    /// Creates a watch without samples.
    pub fn new(options: WatchOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Samples processes, and forgets all others; `at` is the time since any fixed moment.
    ///
    /// Kernel threads and ended processes are omitted.
    pub fn observe(
        &mut self,
        root: &dyn Sysfs,
        pids: &[u32],
        at: Duration,
        node_of: &dyn Fn(CpuId) -> Option<NodeId>,
    ) -> Vec<ObservedProgram> {
        self.round += 1;
        let found = pids.iter().filter_map(|pid| self.observe_one(root, *pid, at, node_of)).collect();
        let round = self.round;
        self.programs.retain(|_, tracked| tracked.round == round);
        let oldest = round.saturating_sub(self.options.kernel_rounds);
        self.kernel_threads.retain(|_, checked| *checked > oldest);
        found
    }

    /// Sets the programs that are active regardless of their CPU time and storage: their sockets
    /// move data.
    pub fn set_active(&mut self, pids: BTreeSet<u32>) {
        self.active = pids;
    }

    /// Discards the memory of a program, so that the next round reads it again.
    pub fn expire_memory(&mut self, pid: u32) {
        if let Some(tracked) = self.programs.get_mut(&pid) {
            tracked.memory_at = None;
        }
    }

    fn observe_one(
        &mut self,
        root: &dyn Sysfs,
        pid: u32,
        at: Duration,
        node_of: &dyn Fn(CpuId) -> Option<NodeId>,
    ) -> Option<ObservedProgram> {
        if self.kernel_threads.contains_key(&pid) {
            return None;
        }
        let mut sample = read_stat(root, pid).ok()?;
        if sample.is_kernel_thread {
            self.kernel_threads.insert(pid, self.round);
            return None;
        }
        let same = |tracked: &TrackedProgram| tracked.sample.start_time == sample.start_time;
        let before = self.programs.remove(&pid).filter(same);
        let read_at = self.read_io_counters(root, &mut sample, before.as_ref(), at);
        let (rates, is_active) = self.examine(root, &mut sample, before.as_ref(), at, read_at, node_of);
        let memory_at = self.refresh_memory(root, &mut sample, before.as_ref(), at, is_active);
        let io = sample.io.map(|io| (read_at, io));
        let observed = ObservedProgram { sample: sample.clone(), rates: rates.clone(), is_active };
        let round = self.round;
        self.programs.insert(pid, TrackedProgram { sample, at, io, memory_at, rates, round });
        Some(observed)
    }

    /// Reads I/O counters if due, else repeats the earlier ones; returns the time of their read.
    fn read_io_counters(
        &self,
        root: &dyn Sysfs,
        sample: &mut ProgramSample,
        before: Option<&TrackedProgram>,
        at: Duration,
    ) -> Duration {
        let is_idle = before.is_some_and(|before| before.sample.ticks == sample.ticks);
        let is_due = (self.round + u64::from(sample.pid)).is_multiple_of(self.options.idle_rounds.max(1));
        match before.and_then(|before| before.io).filter(|_| is_idle && !is_due && !self.options.all_active) {
            Some((read_at, io)) => {
                sample.io = Some(io);
                read_at
            }
            None => {
                sample.io = read_io(root, sample.pid);
                at
            }
        }
    }

    /// Computes rates, and reads the threads of an active program.
    fn examine(
        &self,
        root: &dyn Sysfs,
        sample: &mut ProgramSample,
        before: Option<&TrackedProgram>,
        at: Duration,
        read_at: Duration,
        node_of: &dyn Fn(CpuId) -> Option<NodeId>,
    ) -> (Option<ProgramRates>, bool) {
        let coarse =
            before.and_then(|before| rates(&before.sample, sample, at.saturating_sub(before.at), node_of));
        let is_active = self.options.all_active
            || self.active.contains(&sample.pid)
            || coarse.as_ref().is_some_and(|rates| self.is_active(rates));
        if is_active {
            sample.details = read_details(root, sample.pid).ok();
        }
        let Some(before) = before else { return (None, is_active) };
        let mut found = rates(&before.sample, sample, at.saturating_sub(before.at), node_of);
        if let Some(found) = &mut found {
            found.io = match before.io {
                // The counters are older than this round: their last rates still hold.
                Some((earlier, _)) if earlier == read_at => before.rates.as_ref().and_then(|rates| rates.io),
                Some((earlier, io)) => {
                    let previous = ProgramSample { io: Some(io), ..before.sample.clone() };
                    rates(&previous, sample, read_at.saturating_sub(earlier), node_of)
                        .and_then(|rates| rates.io)
                }
                None => None,
            };
        }
        (found, is_active)
    }

    fn is_active(&self, rates: &ProgramRates) -> bool {
        rates.cpus >= self.options.active_cpus
            || rates.io.is_some_and(|io| io.storage() >= self.options.active_bytes_per_s)
    }

    /// Reads the memory of an active program if due, else repeats the earlier one; returns the time
    /// of its read.
    fn refresh_memory(
        &self,
        root: &dyn Sysfs,
        sample: &mut ProgramSample,
        before: Option<&TrackedProgram>,
        at: Duration,
        is_active: bool,
    ) -> Option<Duration> {
        if !self.options.reads_memory {
            return None;
        }
        let known = before.and_then(|before| Some((before.memory_at?, before.sample.memory.clone())));
        match known {
            Some((read_at, memory))
                if !is_active || at.saturating_sub(read_at) < self.options.memory_every =>
            {
                sample.memory = memory;
                Some(read_at)
            }
            _ if is_active => {
                sample.memory = read_memory(root, sample.pid);
                Some(at)
            }
            _ => None,
        }
    }
}
