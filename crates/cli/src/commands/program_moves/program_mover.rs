//! Moves of programs with their receipts, and the state that results.

use super::group_inputs::{cpuset_of, members_of, permitted_cpus, Knowledge, OriginalAffinity, ProgramGroup};
use super::hot_memory::{describe_hot_memory, HotGroup};
use super::observer::{Observation, SeenProgram};
use crate::failure::Failure;
use crate::options::Common;
use crate::receipts::{self, StoredReceipt};
use numaio_linux::user_files::remove_file;
use numaio_linux::Kernel;
use numaio_machine::control::{Change, Control, PageRun};
use numaio_machine::ids::NodeId;
use numaio_machine::process;
use numaio_machine::programs::{
    read_details, read_movable_ranges, read_thread, LoadSample, ProgramDetails, ProgramMemory, ThreadSample,
};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_place::{relocation_changes, RelocatedProcess, RelocationReport};
use numaio_schema::{AppliedChange, BalanceMove, Receipt};
use std::collections::BTreeMap;
use std::time::Instant;

/// Prefix of the IDs of receipts.
pub const RECEIPT: &str = "balance";

/// Passes over the threads of a program: threads that it creates during the first one inherit the
/// affinity of their parents, which may not be set yet.
const PASSES: usize = 3;

/// Moves programs of this machine.
pub struct ProgramMover<'a> {
    /// Options of the command.
    pub common: &'a Common,
    /// This machine.
    pub kernel: &'a Kernel,
    /// Knowledge of this machine.
    pub knowledge: &'a Knowledge<'a>,
    /// Affinity of moved programs before their first move.
    pub originals: OriginalAffinity,
}

/// A program that is about to be moved.
struct PreparedProcess {
    pid: u32,
    start_time: u64,
    cpus: CpuSet,
    details: ProgramDetails,
    runs: Vec<PageRun>,
}

impl ProgramMover<'_> {
    /// Moves the programs of a group to a node; of their memory only the hot part, if it is known.
    ///
    /// # Errors
    /// Nothing was moved: permission is missing, or the receipt cannot be saved.
    pub fn move_group(
        &mut self,
        observation: &Observation,
        group: &ProgramGroup,
        to: NodeId,
        hot: Option<Result<&HotGroup, &str>>,
    ) -> Result<BalanceMove, Failure> {
        let _lock = receipts::lock(self.common);
        let started = Instant::now();
        let members = members_of(observation, group);
        let known = hot.and_then(Result::ok);
        let prepared: Vec<PreparedProcess> = members
            .iter()
            .filter_map(|seen| self.prepare(seen, to, known).transpose())
            .collect::<Result<_, _>>()?;
        let changes = changes(&prepared, to);
        if changes.is_empty() {
            return Err(Failure::new(format!("the programs of {} have ended, or are in place", group.id)));
        }
        let wanted_bytes = prepared.iter().map(|process| bytes_elsewhere(process, to)).sum();
        let receipt =
            receipts::planned_receipt(self.kernel, &self.knowledge.topology.identity.fingerprint, changes);
        let (id, receipt, mut report) = receipts::relocate_numbered(self.kernel, receipt, RECEIPT)
            .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
        self.bind_new_threads(&prepared, to, &id, receipt, &mut report)?;
        for process in &prepared {
            self.remember(process);
        }
        let kept_bytes = kept(members.iter().filter_map(|seen| seen.program.sample.memory.as_ref()));
        Ok(BalanceMove {
            group: group.id.clone(),
            receipt: id,
            to,
            threads: report.threads,
            threads_in_place: self.threads_in_place(&prepared),
            wanted_bytes,
            hot: hot.map(describe_hot_memory),
            moved_bytes: report.moved_bytes,
            left_bytes: report.left,
            kept_bytes,
            ended: report.ended,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Reads a program again, because threads and pages change between a decision and its move;
    /// `None` if it ended.
    fn prepare(
        &self,
        seen: &SeenProgram,
        to: NodeId,
        hot: Option<&HotGroup>,
    ) -> Result<Option<PreparedProcess>, Failure> {
        let (pid, start_time) = (seen.program.sample.pid, seen.program.sample.start_time);
        let Some(uses) = &seen.uses else { return Ok(None) };
        if process::start_time(self.kernel, pid) != Some(start_time) {
            return Ok(None);
        }
        let Ok(details) = read_details(self.kernel, pid) else { return Ok(None) };
        let original = self.originals.get(&(pid, start_time));
        let cpuset = cpuset_of(self.knowledge.topology, uses);
        let permitted = permitted_cpus(self.knowledge, &details, &cpuset, original);
        let usable = self.knowledge.topology.usable_cpus(to);
        if !has_online_cpus(self.kernel, self.knowledge.topology, to) {
            return Err(Failure::new(format!("node {to} has no online CPUs any more"))
                .hint("numaio topology lists CPUs and nodes"));
        }
        let cpus = usable.intersection(&permitted);
        if cpus.is_empty() {
            let why = format!("process {pid} may use no CPU of node {to} any more");
            return Err(Failure::new(why).hint("its cpuset or affinity was changed"));
        }
        let locked = details.status.locked_bytes > 0;
        let ranges = read_movable_ranges(self.kernel, pid, locked, self.knowledge.override_policies);
        let ranges = match hot {
            Some(hot) => ranges.map(|ranges| hot.restrict(pid, &ranges)),
            None => ranges,
        };
        let runs = match ranges {
            Some(ranges) => self
                .kernel
                .page_runs(pid, &ranges)
                .map_err(|error| Failure::new(error).hint(PERMISSION_HINT))?,
            None => Vec::new(),
        };
        Ok(Some(PreparedProcess { pid, start_time, cpus, details, runs }))
    }

    /// Binds threads that were created meanwhile, and adds them to the receipt.
    fn bind_new_threads(
        &self,
        prepared: &[PreparedProcess],
        to: NodeId,
        id: &str,
        mut receipt: Receipt,
        report: &mut RelocationReport,
    ) -> Result<(), Failure> {
        for _ in 1..PASSES {
            let mut changes = Vec::new();
            for process in prepared {
                let Ok(details) = read_details(self.kernel, process.pid) else { continue };
                let new = details.threads.into_iter().filter(|thread| {
                    thread.allowed.as_ref().is_some_and(|allowed| !allowed.is_subset(&process.cpus))
                });
                let threads: Vec<_> = new.collect();
                let (pid, start_time) = (process.pid, process.start_time);
                let relocated = RelocatedProcess { pid, start_time, threads: &threads, runs: &[] };
                changes.extend(relocation_changes(&relocated, &process.cpus, to));
            }
            if changes.is_empty() {
                return Ok(());
            }
            report.threads += u32::try_from(changes.len()).unwrap_or(u32::MAX);
            receipt = receipts::extend_numbered(self.kernel, receipt, id, changes)
                .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
        }
        Ok(())
    }

    fn threads_in_place(&self, prepared: &[PreparedProcess]) -> u32 {
        let count = prepared.iter().map(|process| {
            let threads = read_details(self.kernel, process.pid).map(|details| details.threads);
            let is_bound = |thread: &ThreadSample| {
                thread.allowed.as_ref().is_some_and(|allowed| allowed.is_subset(&process.cpus))
            };
            threads.map_or(0, |threads| threads.iter().filter(|thread| is_bound(thread)).count())
        });
        u32::try_from(count.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// Remembers the affinity of a program before its first move.
    fn remember(&mut self, process: &PreparedProcess) {
        let key = (process.pid, process.start_time);
        let allowed = process.details.threads.iter().filter_map(|thread| thread.allowed.as_ref());
        let all = allowed.fold(CpuSet::new(), |all, cpus| all.union(cpus));
        self.originals.entry(key).or_insert(all);
    }
}

fn changes(prepared: &[PreparedProcess], to: NodeId) -> Vec<AppliedChange> {
    let of_process = |process: &PreparedProcess| {
        let relocated = RelocatedProcess {
            pid: process.pid,
            start_time: process.start_time,
            threads: &process.details.threads,
            runs: &process.runs,
        };
        // The CPUs are those that the program may use: threads moved before are widened.
        relocation_changes(&relocated, &process.cpus, to)
    };
    let mut changes: Vec<AppliedChange> = prepared.iter().flat_map(of_process).collect();
    // Threads of all programs first, so that new memory is allocated on the node.
    changes.sort_by_key(|applied| matches!(applied.change, Change::ProcessPages(_)));
    changes
}

/// Hint if permission is missing.
const PERMISSION_HINT: &str = "run as root, or with CAP_SYS_NICE and CAP_SYS_PTRACE";

/// Returns whether a node has online CPUs now; the topology may be older.
fn has_online_cpus(kernel: &Kernel, topology: &Topology, node: NodeId) -> bool {
    let load = LoadSample::read(kernel, std::iter::once(node));
    load.since(&load, topology).iter().any(|load| load.node == node && load.cpus > 0)
}

fn bytes_elsewhere(process: &PreparedProcess, to: NodeId) -> u64 {
    process.runs.iter().filter(|run| run.node != to).map(|run| run.bytes).sum()
}

/// Returns the memory that is never moved, by kind.
fn kept<'m>(memories: impl Iterator<Item = &'m ProgramMemory>) -> BTreeMap<String, u64> {
    let mut kept = BTreeMap::new();
    for memory in memories {
        let kinds = [
            ("bound", &memory.bound),
            ("shared", &memory.shared),
            ("huge", &memory.huge),
            ("file", &memory.file_backed),
        ];
        for (kind, on) in kinds {
            let bytes: u64 = on.values().sum();
            if bytes > 0 {
                *kept.entry(kind.to_owned()).or_default() += bytes;
            }
        }
    }
    kept
}

/// Returns the affinity before the first move of running programs that numaio has moved.
pub fn original_affinities(kernel: &Kernel, stored: &[StoredReceipt]) -> OriginalAffinity {
    let mut originals = OriginalAffinity::new();
    for applied in
        stored.iter().filter(|stored| is_of_move(stored)).flat_map(|stored| &stored.receipt.applied)
    {
        let Change::ThreadAffinity { pid, tid, start_time, cpus } = &applied.inverse else { continue };
        if tid == pid && is_thread(kernel, (*pid, *tid), *start_time) {
            originals.entry((*pid, *start_time)).or_insert_with(|| cpus.clone());
        }
    }
    originals
}

/// Removes receipts of moves whose programs have all ended.
pub fn remove_ended(kernel: &Kernel, stored: &[StoredReceipt]) {
    for stored in stored.iter().filter(|stored| is_of_move(stored)) {
        let is_running = stored.receipt.applied.iter().any(|applied| match &applied.inverse {
            Change::ThreadAffinity { pid, tid, start_time, .. } => {
                is_thread(kernel, (*pid, *tid), *start_time)
            }
            Change::ProcessPages(wanted) => {
                process::start_time(kernel, wanted.pid) == Some(wanted.start_time)
            }
            _ => true,
        });
        if !is_running {
            let _ = remove_file(&stored.path);
        }
    }
}

fn is_of_move(stored: &StoredReceipt) -> bool {
    stored.id.starts_with(RECEIPT) && stored.id.contains('-')
}

fn is_thread(kernel: &Kernel, (pid, tid): (u32, u32), start_time: u64) -> bool {
    read_thread(kernel, pid, tid).is_some_and(|thread| thread.start_time == start_time)
}
