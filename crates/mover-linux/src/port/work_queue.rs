//! The operation queue of a port, and its distribution over worker groups.
//!
//! Operations without data may run in any group. Writes belong to the group on the node of their
//! buffer. An idle thread may take another group's operations if that shortens the transfer, as
//! decided by [`WorkSharing`] from the observed rates.

use super::pool::Slab;
use super::worker_group::WorkerGroup;
use numaio_machine::ids::NodeId;
use numaio_mover::port::{FilePath, Operation, Ticket};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of queued operations searched for one that suits a worker; usually more than the port has
/// buffers.
const SEARCH_DEPTH: usize = 64;
/// Interval at which a worker that left operations to other groups searches again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Load of a worker group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupLoad {
    /// Queued operations that belong to the group.
    pub waiting: u64,
    /// Own operations that the group finishes per second; none before the first.
    pub per_second: Option<f64>,
    /// Operations of this group that a thread of the idle group finishes per second; none if it
    /// never ran any.
    pub helped_per_second: Option<f64>,
}

/// Chooses the group that a thread of the idle group helps; none to leave the work to its owners.
pub type WorkSharing = fn(loads: &[GroupLoad], idle: usize) -> Option<usize>;

/// Queue of operations that wait for a thread.
#[derive(Debug)]
pub(super) struct WorkQueue {
    queue: Mutex<Queue>,
    ready: Condvar,
    /// Number of threads that wait for a buffer.
    waiting_for_buffer: AtomicUsize,
    /// Whether a thread waited for a buffer since the last query.
    was_short: AtomicBool,
}

/// A queued operation.
#[derive(Debug)]
pub(super) struct Task {
    pub ticket: Ticket,
    pub operation: Operation<Slab>,
    pub claim: Claim,
}

impl Task {
    /// Returns whether the operation moves one part of one file.
    fn is_block(&self) -> bool {
        match &self.operation {
            Operation::Read { pieces, .. } => pieces.len() == 1,
            Operation::Write { puts, data: Some(_), .. } => puts.len() == 1,
            _ => false,
        }
    }

    /// Returns whether the operation writes data.
    fn is_write(&self) -> bool {
        matches!(self.operation, Operation::Write { data: Some(_), .. })
    }
}

/// Resources that a task holds while it runs; returned by [`WorkQueue::complete`].
#[derive(Debug)]
pub(super) struct Claim {
    /// Group that the task belongs to; none if any group may run it.
    owner: Option<usize>,
    /// File that no other task may use at the same time.
    exclusive: Option<FilePath>,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Task>,
    /// Files in exclusive use.
    locked: Vec<FilePath>,
    /// Threads waiting for a task.
    idle: usize,
    closed: bool,
    worker_groups: Vec<GroupState>,
    share: WorkSharing,
}

/// A worker group and its observed performance.
#[derive(Debug)]
struct GroupState {
    node: Option<NodeId>,
    threads: usize,
    /// Time that its threads spent on the tasks of each group.
    times: Vec<TaskTimes>,
}

#[derive(Debug, Clone, Copy, Default)]
struct TaskTimes {
    operations: u32,
    time: Duration,
}

impl TaskTimes {
    fn per_second(self) -> Option<f64> {
        (self.operations > 0).then(|| f64::from(self.operations) / self.time.as_secs_f64().max(1e-9))
    }
}

impl WorkQueue {
    /// Creates the queue of some worker groups.
    pub fn new(worker_groups: &[WorkerGroup], share: WorkSharing) -> Self {
        let state = |group: &WorkerGroup| GroupState {
            node: group.pool.node(),
            threads: group.threads.max(1),
            times: vec![TaskTimes::default(); worker_groups.len()],
        };
        let worker_groups = worker_groups.iter().map(state).collect();
        let queue = Queue {
            waiting: VecDeque::new(),
            locked: Vec::new(),
            idle: 0,
            closed: false,
            worker_groups,
            share,
        };
        Self {
            queue: Mutex::new(queue),
            ready: Condvar::new(),
            waiting_for_buffer: AtomicUsize::new(0),
            was_short: AtomicBool::new(false),
        }
    }

    /// Adds an operation; two operations that are `exclusive` in the same file never run at the
    /// same time.
    pub fn add(&self, ticket: Ticket, operation: Operation<Slab>, exclusive: Option<FilePath>) {
        let mut queue = self.queue();
        let owner = queue.owner(&operation);
        queue.waiting.push_back(Task { ticket, operation, claim: Claim { owner, exclusive } });
        drop(queue);
        // The woken thread may belong to another group and leave the task to its owner.
        match owner {
            Some(_) => self.ready.notify_all(),
            None => self.ready.notify_one(),
        }
    }

    /// Returns whether more write operations are queued than there are threads.
    pub fn is_behind(&self) -> bool {
        let queue = self.queue();
        let is_data = |task: &&Task| matches!(task.operation, Operation::Write { data: Some(_), .. });
        queue.waiting.iter().filter(is_data).count() > queue.threads()
    }

    /// Returns whether at least as many runnable operations are queued as there are threads.
    pub fn has_backlog(&self) -> bool {
        let queue = self.queue();
        queue.waiting.iter().filter(|task| queue.is_free(task)).count() >= queue.threads()
    }

    /// Runs `wait`, which blocks for a buffer, and records that a thread was short of buffers.
    pub fn wait_for_buffer<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting_for_buffer.fetch_add(1, Ordering::SeqCst);
        let waited = wait();
        self.was_short.store(true, Ordering::SeqCst);
        self.waiting_for_buffer.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    /// Returns whether a thread waits for a buffer, or has waited since the last call.
    pub fn was_short_of_buffers(&self) -> bool {
        self.was_short.swap(false, Ordering::SeqCst) || self.waiting_for_buffer.load(Ordering::SeqCst) > 0
    }

    /// Returns whether a thread waits for a buffer.
    pub fn is_waiting_for_buffer(&self) -> bool {
        self.waiting_for_buffer.load(Ordering::SeqCst) > 0
    }

    /// Sets the number of threads of a group.
    pub fn set_threads(&self, group: usize, threads: usize) {
        if let Some(state) = self.queue().worker_groups.get_mut(group) {
            state.threads = threads;
        }
    }

    /// Returns the next task for a worker of a group; blocks until there is one. None once the
    /// queue is closed.
    pub fn next(&self, group: usize) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if let Some(next) = queue.take(group) {
                return Some(next);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = match queue.waiting.is_empty() {
                true => self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner),
                false => {
                    let woken = self.ready.wait_timeout(queue, RECHECK_INTERVAL);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            queue.idle -= 1;
        }
    }

    /// Returns a further task for a worker that has blocks in flight; none if idle workers will
    /// take all queued tasks.
    ///
    /// While other workers are idle, only a block is returned. Otherwise the oldest task that
    /// writes no data comes first: blocks may arrive endlessly, and journal records must not wait
    /// for them.
    pub fn next_while_busy(&self, group: usize) -> Option<Task> {
        let mut queue = self.queue();
        let idle = queue.idle;
        let is_more = queue.waiting.len() > idle;
        is_more
            .then(|| queue.take_own(group, |task| task.is_block() || idle == 0 && !task.is_write()))
            .flatten()
    }

    /// Releases the claim of a finished task and records the time that it took.
    pub fn complete(&self, group: usize, claim: Claim, time: Duration) {
        if claim.owner.is_none() && claim.exclusive.is_none() {
            return;
        }
        let mut queue = self.queue();
        if let Some(file) = claim.exclusive {
            queue.locked.retain(|locked| *locked != file);
        }
        let Some(owner) = claim.owner else { return };
        let times = queue.worker_groups.get_mut(group).and_then(|state| state.times.get_mut(owner));
        if let Some(times) = times {
            // Older samples are halved, so that a device that becomes slow is noticed.
            if times.operations >= 64 {
                *times = TaskTimes { operations: times.operations / 2, time: times.time / 2 };
            }
            *times = TaskTimes { operations: times.operations + 1, time: times.time + time };
        }
    }

    /// Drops queued operations and stops the workers.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.waiting.clear();
        drop(queue);
        self.ready.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Returns the group on the node of the operation's buffer.
    fn owner(&self, operation: &Operation<Slab>) -> Option<usize> {
        let Operation::Write { data: Some(slab), .. } = operation else { return None };
        let node = slab.node()?;
        self.worker_groups
            .iter()
            .position(|group| group.node == Some(node))
            .filter(|_| self.worker_groups.len() > 1)
    }

    fn threads(&self) -> usize {
        self.worker_groups.iter().map(|group| group.threads).sum()
    }

    /// Returns whether the file that the task needs exclusively is unused.
    fn is_free(&self, task: &Task) -> bool {
        task.claim.exclusive.as_ref().is_none_or(|file| !self.locked.contains(file))
    }

    /// Returns the oldest suitable task among the first [`SEARCH_DEPTH`], else a task of a group
    /// that may be helped.
    fn take(&mut self, group: usize) -> Option<Task> {
        self.take_own(group, |_| true).or_else(|| {
            let from = (self.share)(&self.loads(group), group)?;
            self.remove(
                self.waiting.iter().position(|task| task.claim.owner == Some(from) && self.is_free(task))?,
            )
        })
    }

    fn take_own(&mut self, group: usize, suits: impl Fn(&Task) -> bool) -> Option<Task> {
        let is_own = |task: &Task| task.claim.owner.is_none_or(|owner| owner == group);
        let mut first = self.waiting.iter().take(SEARCH_DEPTH);
        let chosen = first.position(|task| is_own(task) && suits(task) && self.is_free(task))?;
        self.remove(chosen)
    }

    fn remove(&mut self, chosen: usize) -> Option<Task> {
        let task = self.waiting.remove(chosen)?;
        self.locked.extend(task.claim.exclusive.clone());
        Some(task)
    }

    fn loads(&self, idle: usize) -> Vec<GroupLoad> {
        let mut waiting = vec![0; self.worker_groups.len()];
        self.waiting.iter().filter_map(|task| task.claim.owner).for_each(|owner| waiting[owner] += 1);
        let load = |(index, group): (usize, &GroupState)| GroupLoad {
            waiting: waiting[index],
            per_second: group.times[index].per_second().map(|rate| rate * group.threads as f64),
            helped_per_second: self.worker_groups[idle].times[index].per_second(),
        };
        self.worker_groups.iter().enumerate().map(load).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::*;
    use numaio_mover::port::{BlockSize, FileWrite, OpenMode};
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    fn placed(count: usize, node: Option<NodeId>) -> Arc<Pool> {
        Pool::placed(count, node, BlockSize::default())
    }

    fn worker_groups() -> Vec<WorkerGroup> {
        let group = |node| WorkerGroup { threads: 2, cpus: None, pool: placed(3, Some(NodeId(node))) };
        vec![group(0), group(1)]
    }

    fn write(pool: &Arc<Pool>) -> Operation<Slab> {
        Operation::Write { puts: Vec::new(), data: pool.take(), hash: |_| Default::default(), packed: None }
    }

    fn of(owner: usize) -> Claim {
        Claim { owner: Some(owner), exclusive: None }
    }

    fn tickets(work: &WorkQueue, group: usize, count: usize) -> Vec<Ticket> {
        (0..count).filter_map(|_| work.queue().take(group)).map(|task| task.ticket).collect()
    }

    #[test]
    fn worker_prefers_own_and_unowned_tasks() {
        let worker_groups = worker_groups();
        let work = WorkQueue::new(&worker_groups, |_, idle| Some(1 - idle));
        [0, 1, 0]
            .iter()
            .enumerate()
            .for_each(|(ticket, at)| work.add(ticket as u64, write(&worker_groups[*at].pool), None));
        work.add(3, Operation::Sync { root: 0 }, None);
        assert_eq!(tickets(&work, 1, 4), [1, 3, 0, 2]);
    }

    #[test]
    fn other_groups_tasks_are_taken_only_if_sharing_allows() {
        let worker_groups = worker_groups();
        let work = WorkQueue::new(&worker_groups, |_, _| None);
        work.add(0, write(&worker_groups[0].pool), None);
        assert!(tickets(&work, 1, 1).is_empty());
        assert_eq!(tickets(&work, 0, 1), [0]);
    }

    #[test]
    fn sharing_decision_receives_observed_rates() {
        let worker_groups = worker_groups();
        let work = WorkQueue::new(&worker_groups, |loads, idle| {
            let rates = loads.iter().map(|load| (load.waiting, load.per_second, load.helped_per_second));
            let known = [(1, Some(4.0), Some(0.5)), (0, Some(20.0), Some(10.0))];
            (idle == 1 && rates.eq(known)).then_some(0)
        });
        work.add(0, write(&worker_groups[0].pool), None);
        work.complete(0, of(0), SECOND / 2);
        work.complete(1, of(0), 2 * SECOND);
        work.complete(1, of(1), SECOND / 10);
        assert_eq!(tickets(&work, 1, 1), [0]);
        // A device that becomes slow is noticed.
        (0..1000).for_each(|_| work.complete(0, of(0), 10 * SECOND));
        let load = work.queue().loads(0)[0];
        assert!(load.per_second.is_some_and(|rate| (0.199..0.21).contains(&rate)), "{load:?}");
    }

    #[test]
    fn exclusive_tasks_of_one_file_run_one_at_a_time() {
        let group = WorkerGroup { threads: 2, cpus: None, pool: placed(9, None) };
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        let files = ["a", "a", "b", "", "a"]
            .map(|name| (!name.is_empty()).then(|| FilePath::new(0, name.as_bytes())));
        for (ticket, file) in files.into_iter().enumerate() {
            work.add(ticket as u64, write(&group.pool), file);
        }
        assert!(work.has_backlog());
        let first = work.queue().take(0).expect("a task");
        assert_eq!((first.ticket, tickets(&work, 0, 5)), (0, vec![2, 3]));
        assert!(!work.has_backlog(), "both waiting tasks need the same file");
        work.complete(0, first.claim, SECOND);
        assert_eq!(tickets(&work, 0, 5), [1]);
    }

    #[test]
    fn queue_is_behind_when_writes_exceed_threads() {
        let group = WorkerGroup { threads: 2, cpus: None, pool: placed(9, None) };
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        (0..3).for_each(|ticket| work.add(ticket, Operation::Sync { root: 0 }, None));
        let mut is_behind = [false; 4];
        for behind in &mut is_behind {
            *behind = work.is_behind();
            work.add(3, write(&group.pool), None);
        }
        assert_eq!(is_behind, [false, false, false, true]);
        tickets(&work, 0, 5);
        assert!(!work.is_behind(), "only two writes are queued");
    }

    #[test]
    fn busy_worker_takes_only_tasks_that_idle_workers_leave() {
        let group = WorkerGroup { threads: 2, cpus: None, pool: placed(9, None) };
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        let block = |put: FileWrite| match write(&group.pool) {
            Operation::Write { data, hash, packed, .. } => {
                Operation::Write { puts: vec![put], data, hash, packed }
            }
            other => other,
        };
        let put = || FileWrite {
            at: FilePath::new(0, &b"a"[..]),
            begin: OpenMode::ContinueInPlace,
            held: Vec::new(),
            check: Vec::new(),
            parts: Vec::new(),
            sparse: false,
            settle: None,
        };
        assert!(work.next_while_busy(0).is_none(), "the queue is empty");
        work.add(1, write(&group.pool), None);
        work.add(0, Operation::Sync { root: 0 }, None);
        work.queue().idle = 1;
        assert!(work.next_while_busy(0).is_none(), "not a block");
        work.add(2, block(put()), None);
        work.add(3, block(put()), None);
        work.queue().idle = 4;
        assert!(work.next_while_busy(0).is_none(), "idle workers take four");
        work.queue().idle = 2;
        assert_eq!(work.next_while_busy(0).map(|task| task.ticket), Some(2));
        work.queue().idle = 0;
        assert_eq!(work.next_while_busy(0).map(|task| task.ticket), Some(0), "no idle worker is left");
        assert_eq!(tickets(&work, 0, 3), [1, 3]);
    }

    #[test]
    fn single_group_owns_all_tasks() {
        let group = WorkerGroup { threads: 1, cpus: None, pool: placed(2, Some(NodeId(0))) };
        let other = placed(1, Some(NodeId(5)));
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        work.add(0, write(&other), None);
        work.add(1, write(&group.pool), None);
        assert_eq!(tickets(&work, 0, 2), [0, 1]);
    }
}
