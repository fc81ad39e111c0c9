//! The operation queue of a port, and its distribution over worker groups.
//!
//! Writes belong to the group on the node of their buffer. If the groups serve several storage
//! devices, operations that read files belong to the groups of their device, and wait in a queue of
//! its own. Other operations may run in any group. An idle thread may take another group's
//! operations if that shortens the transfer, as decided by [`WorkSharing`] from the observed rates,
//! unless the device already has as many as it serves at once.

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
    keeps_order: bool,
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

/// Groups that run a task unless another one helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskOwner {
    /// All groups.
    Any,
    /// The group of this index.
    Group(usize),
    /// All groups of a storage device, whose first group has this index.
    Device(usize),
}

impl TaskOwner {
    /// Returns the group in whose queue the task waits; none if any group may run it.
    fn home(self) -> Option<usize> {
        match self {
            Self::Any => None,
            Self::Group(home) | Self::Device(home) => Some(home),
        }
    }
}

/// Resources that a task holds while it runs; returned by [`WorkQueue::complete`].
#[derive(Debug)]
pub(super) struct Claim {
    owner: TaskOwner,
    /// File that no other task may use at the same time.
    exclusive: Option<FilePath>,
}

#[derive(Debug)]
struct Queue {
    /// Tasks for any group, with their numbers.
    shared: VecDeque<(u64, Task)>,
    /// Number of the next task.
    next: u64,
    /// Files in exclusive use.
    locked: Vec<FilePath>,
    closed: bool,
    worker_groups: Vec<GroupState>,
    /// First group of the storage device of each root.
    roots: Vec<usize>,
    share: WorkSharing,
}

/// A worker group and its observed performance.
#[derive(Debug)]
struct GroupState {
    node: Option<NodeId>,
    /// First group of its storage device.
    first: usize,
    threads: usize,
    /// Maximum number of its own tasks that run at once, if other groups help.
    max_running: usize,
    /// Its own tasks that wait, with their numbers.
    waiting: VecDeque<(u64, Task)>,
    /// Number of its own tasks that run.
    running: usize,
    /// Threads waiting for a task.
    idle: usize,
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
    /// Creates the queue of some worker groups, given the storage device of each root.
    pub fn new(worker_groups: &[WorkerGroup], root_devices: Vec<usize>, share: WorkSharing) -> Self {
        let first = |device| worker_groups.iter().position(|group| group.device == device).unwrap_or(0);
        let state = |group: &WorkerGroup| GroupState {
            node: group.pool.node(),
            first: first(group.device),
            threads: group.threads.max(1),
            max_running: group.max_threads,
            waiting: VecDeque::new(),
            running: 0,
            idle: 0,
            times: vec![TaskTimes::default(); worker_groups.len()],
        };
        let queue = Queue {
            shared: VecDeque::new(),
            next: 0,
            locked: Vec::new(),
            closed: false,
            roots: root_devices.into_iter().map(first).collect(),
            worker_groups: worker_groups.iter().map(state).collect(),
            share,
        };
        Self {
            queue: Mutex::new(queue),
            ready: Condvar::new(),
            waiting_for_buffer: AtomicUsize::new(0),
            was_short: AtomicBool::new(false),
            keeps_order: false,
        }
    }

    /// Runs operations that are exclusive in the same file in the order in which they are added:
    /// they wait in one queue, whatever group their buffers belong to.
    pub fn keeping_order(self, keeps_order: bool) -> Self {
        Self { keeps_order, ..self }
    }

    /// Adds an operation, with the root that it reads; two operations that are `exclusive` in the
    /// same file never run at the same time.
    pub fn add(
        &self,
        ticket: Ticket,
        operation: Operation<Slab>,
        (root, exclusive): (Option<u32>, Option<FilePath>),
    ) {
        let mut queue = self.queue();
        let owner = match self.keeps_order && exclusive.is_some() {
            true => TaskOwner::Any,
            false => queue.owner(&operation, root),
        };
        queue.push(Task { ticket, operation, claim: Claim { owner, exclusive } });
        drop(queue);
        // The woken thread may belong to another group and leave the task to its owner.
        match owner {
            TaskOwner::Any => self.ready.notify_one(),
            TaskOwner::Group(_) | TaskOwner::Device(_) => self.ready.notify_all(),
        }
    }

    /// Returns whether more write operations are queued than there are threads.
    pub fn is_behind(&self) -> bool {
        let queue = self.queue();
        let is_data = |task: &&Task| matches!(task.operation, Operation::Write { data: Some(_), .. });
        queue.all().filter(is_data).count() > queue.threads()
    }

    /// Returns whether at least as many operations that a group may run are queued as there are
    /// threads for them.
    pub fn has_backlog(&self, group: usize) -> bool {
        let queue = self.queue();
        let runnable = queue.visible(group).filter(|(_, task)| queue.is_free(task)).count();
        runnable >= queue.same_device(group).map(|group| group.threads).sum()
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
            queue.add_idle(group, 1);
            let is_empty = queue.all().next().is_none();
            queue = match is_empty {
                true => self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner),
                false => {
                    let woken = self.ready.wait_timeout(queue, RECHECK_INTERVAL);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            queue.add_idle(group, -1);
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
        let idle = queue.same_device(group).map(|group| group.idle).sum();
        let is_more = queue.visible(group).count() > idle;
        is_more
            .then(|| queue.take_own(group, |task| task.is_block() || idle == 0 && !task.is_write()))
            .flatten()
    }

    /// Releases the claim of a finished task and records the time that it took.
    pub fn complete(&self, group: usize, claim: Claim, time: Duration) {
        if claim.owner == TaskOwner::Any && claim.exclusive.is_none() {
            return;
        }
        let mut queue = self.queue();
        if let Some(file) = claim.exclusive {
            queue.locked.retain(|locked| *locked != file);
        }
        let Some(owner) = claim.owner.home() else { return };
        if let Some(home) = queue.worker_groups.get_mut(owner) {
            home.running = home.running.saturating_sub(1);
        }
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
        queue.shared.clear();
        queue.worker_groups.iter_mut().for_each(|group| group.waiting.clear());
        drop(queue);
        self.ready.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Returns the groups of an operation: those of the device that it reads, or the group on the
    /// node of its buffer.
    fn owner(&self, operation: &Operation<Slab>, root: Option<u32>) -> TaskOwner {
        if self.worker_groups.len() < 2 {
            return TaskOwner::Any;
        }
        if let Operation::Write { data: Some(slab), .. } = operation {
            let on_node = |node| self.worker_groups.iter().position(|group| group.node == Some(node));
            return slab.node().and_then(on_node).map_or(TaskOwner::Any, TaskOwner::Group);
        }
        let has_devices = self.worker_groups.iter().any(|group| group.first != 0);
        match root.filter(|_| has_devices) {
            Some(root) => TaskOwner::Device(self.roots.get(root as usize).copied().unwrap_or_default()),
            None => TaskOwner::Any,
        }
    }

    fn push(&mut self, task: Task) {
        let number = self.next;
        self.next += 1;
        let home = task.claim.owner.home().and_then(|home| self.worker_groups.get_mut(home));
        home.map_or(&mut self.shared, |home| &mut home.waiting).push_back((number, task));
    }

    fn threads(&self) -> usize {
        self.worker_groups.iter().map(|group| group.threads).sum()
    }

    /// Returns all groups of the device of a group.
    fn same_device(&self, group: usize) -> impl Iterator<Item = &GroupState> {
        let first = self.worker_groups.get(group).map(|group| group.first);
        self.worker_groups.iter().filter(move |other| Some(other.first) == first)
    }

    fn add_idle(&mut self, group: usize, change: isize) {
        if let Some(group) = self.worker_groups.get_mut(group) {
            group.idle = group.idle.saturating_add_signed(change);
        }
    }

    /// Returns all queued tasks.
    fn all(&self) -> impl Iterator<Item = &Task> {
        let own = self.worker_groups.iter().flat_map(|group| &group.waiting);
        self.shared.iter().chain(own).map(|(_, task)| task)
    }

    /// Returns the groups in whose queues tasks of a group wait: itself, and the first of its
    /// device.
    fn homes(&self, group: usize) -> impl Iterator<Item = usize> {
        let first = self.worker_groups.get(group).map(|state| state.first);
        [Some(group), first.filter(|first| *first != group)].into_iter().flatten()
    }

    /// Returns the queued tasks that a group may run without helping another one.
    fn visible(&self, group: usize) -> impl Iterator<Item = &(u64, Task)> {
        let homes = self.homes(group).filter_map(|home| self.worker_groups.get(home));
        let own = homes.flat_map(|home| &home.waiting);
        self.shared.iter().chain(own).filter(move |(_, task)| match task.claim.owner {
            TaskOwner::Any | TaskOwner::Device(_) => true,
            TaskOwner::Group(owner) => owner == group,
        })
    }

    /// Returns whether the file that the task needs exclusively is unused.
    fn is_free(&self, task: &Task) -> bool {
        task.claim.exclusive.as_ref().is_none_or(|file| !self.locked.contains(file))
    }

    /// Returns the oldest suitable task among the first [`SEARCH_DEPTH`] of each queue, else a task
    /// of a group that may be helped.
    fn take(&mut self, group: usize) -> Option<Task> {
        self.take_own(group, |_| true).or_else(|| {
            let from = (self.share)(&self.loads(group), group)?;
            let helped = self.worker_groups.get(from).filter(|home| home.running < home.max_running)?;
            let (number, _) = helped.waiting.iter().find(|(_, task)| self.is_free(task))?;
            self.remove(Some(from), *number)
        })
    }

    fn take_own(&mut self, group: usize, suits: impl Fn(&Task) -> bool) -> Option<Task> {
        let is_suitable = |(_, task): &&(u64, Task)| suits(task) && self.is_free(task);
        let oldest = |queue: &VecDeque<(u64, Task)>, may_run: &dyn Fn(&Task) -> bool| {
            let mut first = queue.iter().take(SEARCH_DEPTH);
            first.find(|task| may_run(&task.1) && is_suitable(task)).map(|(number, _)| *number)
        };
        let shared = oldest(&self.shared, &|_| true).map(|number| (number, None));
        let may_run = |task: &Task| !matches!(task.claim.owner, TaskOwner::Group(owner) if owner != group);
        let own = self
            .homes(group)
            .filter_map(|home| Some((oldest(&self.worker_groups.get(home)?.waiting, &may_run)?, Some(home))));
        let (number, home) = own.chain(shared).min_by_key(|(number, _)| *number)?;
        self.remove(home, number)
    }

    /// Removes a task from the queue of a group, or from that of all groups.
    fn remove(&mut self, home: Option<usize>, number: u64) -> Option<Task> {
        let mut group = home.and_then(|home| self.worker_groups.get_mut(home));
        let queue = group.as_mut().map_or(&mut self.shared, |group| &mut group.waiting);
        // Queues are sorted by number.
        let index = queue.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let (_, task) = queue.remove(index)?;
        if let Some(group) = group {
            group.running += 1;
        }
        self.locked.extend(task.claim.exclusive.clone());
        Some(task)
    }

    fn loads(&self, idle: usize) -> Vec<GroupLoad> {
        let load = |(index, group): (usize, &GroupState)| GroupLoad {
            waiting: group.waiting.len() as u64,
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
        let group = |node| WorkerGroup::new(2, None, placed(3, Some(NodeId(node))));
        vec![group(0), group(1)]
    }

    fn write(pool: &Arc<Pool>) -> Operation<Slab> {
        Operation::Write { puts: Vec::new(), data: pool.take(), hash: |_| Default::default(), packed: None }
    }

    fn of(owner: usize) -> Claim {
        Claim { owner: TaskOwner::Group(owner), exclusive: None }
    }

    fn tickets(work: &WorkQueue, group: usize, count: usize) -> Vec<Ticket> {
        (0..count).filter_map(|_| work.queue().take(group)).map(|task| task.ticket).collect()
    }

    #[test]
    fn worker_prefers_own_and_unowned_tasks() {
        let worker_groups = worker_groups();
        let work = WorkQueue::new(&worker_groups, Vec::new(), |_, idle| Some(1 - idle));
        [0, 1, 0]
            .iter()
            .enumerate()
            .for_each(|(ticket, at)| work.add(ticket as u64, write(&worker_groups[*at].pool), (None, None)));
        work.add(3, Operation::Sync { root: 0 }, (None, None));
        assert_eq!(tickets(&work, 1, 4), [1, 3, 0, 2]);
    }

    #[test]
    fn other_groups_tasks_are_taken_only_if_sharing_allows() {
        let worker_groups = worker_groups();
        let work = WorkQueue::new(&worker_groups, Vec::new(), |_, _| None);
        work.add(0, write(&worker_groups[0].pool), (None, None));
        assert!(tickets(&work, 1, 1).is_empty());
        assert_eq!(tickets(&work, 0, 1), [0]);
    }

    #[test]
    fn sharing_decision_receives_observed_rates() {
        let worker_groups = worker_groups();
        let work = WorkQueue::new(&worker_groups, Vec::new(), |loads, idle| {
            let rates = loads.iter().map(|load| (load.waiting, load.per_second, load.helped_per_second));
            let known = [(1, Some(4.0), Some(0.5)), (0, Some(20.0), Some(10.0))];
            (idle == 1 && rates.eq(known)).then_some(0)
        });
        work.add(0, write(&worker_groups[0].pool), (None, None));
        work.complete(0, of(0), SECOND / 2);
        work.complete(1, of(0), 2 * SECOND);
        work.complete(1, of(1), SECOND / 10);
        assert_eq!(tickets(&work, 1, 1), [0]);
        // A device that becomes slow is noticed.
        (0..1000).for_each(|_| work.complete(0, of(0), 10 * SECOND));
        let load = work.queue().loads(0)[0];
        assert!(load.per_second.is_some_and(|rate| (0.199..0.21).contains(&rate)), "{load:?}");
    }

    /// The buffers of both tasks belong to different groups.
    #[test]
    fn exclusive_tasks_keep_their_order() {
        let worker_groups = worker_groups();
        for keeps_order in [false, true] {
            let work = WorkQueue::new(&worker_groups, Vec::new(), |_, _| None).keeping_order(keeps_order);
            for (ticket, group) in worker_groups.iter().enumerate() {
                work.add(ticket as u64, write(&group.pool), (None, Some(FilePath::new(0, *b"file"))));
            }
            let first = work.next(1).expect("a task");
            assert_eq!(first.ticket, if keeps_order { 0 } else { 1 });
            work.complete(1, first.claim, SECOND);
        }
    }

    #[test]
    fn exclusive_tasks_of_one_file_run_one_at_a_time() {
        let group = WorkerGroup::new(2, None, placed(9, None));
        let work = WorkQueue::new(std::slice::from_ref(&group), Vec::new(), |_, _| None);
        let files = ["a", "a", "b", "", "a"]
            .map(|name| (!name.is_empty()).then(|| FilePath::new(0, name.as_bytes())));
        for (ticket, file) in files.into_iter().enumerate() {
            work.add(ticket as u64, write(&group.pool), (None, file));
        }
        assert!(work.has_backlog(0));
        let first = work.queue().take(0).expect("a task");
        assert_eq!((first.ticket, tickets(&work, 0, 5)), (0, vec![2, 3]));
        assert!(!work.has_backlog(0), "both waiting tasks need the same file");
        work.complete(0, first.claim, SECOND);
        assert_eq!(tickets(&work, 0, 5), [1]);
    }

    #[test]
    fn queue_is_behind_when_writes_exceed_threads() {
        let group = WorkerGroup::new(2, None, placed(9, None));
        let work = WorkQueue::new(std::slice::from_ref(&group), Vec::new(), |_, _| None);
        (0..3).for_each(|ticket| work.add(ticket, Operation::Sync { root: 0 }, (None, None)));
        let mut is_behind = [false; 4];
        for behind in &mut is_behind {
            *behind = work.is_behind();
            work.add(3, write(&group.pool), (None, None));
        }
        assert_eq!(is_behind, [false, false, false, true]);
        tickets(&work, 0, 5);
        assert!(!work.is_behind(), "only two writes are queued");
    }

    #[test]
    fn busy_worker_takes_only_tasks_that_idle_workers_leave() {
        let group = WorkerGroup::new(2, None, placed(9, None));
        let work = WorkQueue::new(std::slice::from_ref(&group), Vec::new(), |_, _| None);
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
        work.add(1, write(&group.pool), (None, None));
        work.add(0, Operation::Sync { root: 0 }, (None, None));
        work.queue().worker_groups[0].idle = 1;
        assert!(work.next_while_busy(0).is_none(), "not a block");
        work.add(2, block(put()), (None, None));
        work.add(3, block(put()), (None, None));
        work.queue().worker_groups[0].idle = 4;
        assert!(work.next_while_busy(0).is_none(), "idle workers take four");
        work.queue().worker_groups[0].idle = 2;
        assert_eq!(work.next_while_busy(0).map(|task| task.ticket), Some(2));
        work.queue().worker_groups[0].idle = 0;
        assert_eq!(work.next_while_busy(0).map(|task| task.ticket), Some(0), "no idle worker is left");
        assert_eq!(tickets(&work, 0, 3), [1, 3]);
    }

    /// Creates the queue of two devices: the first serves roots 0 and 2 with one thread at most.
    fn devices(share: WorkSharing) -> WorkQueue {
        let group = |device, name: &str, most| {
            WorkerGroup::new(1, None, Pool::new(2)).on_device(device, name.to_owned(), most)
        };
        WorkQueue::new(&[group(0, "sda", 1), group(1, "sdb", 4)], vec![0, 1, 0], share)
    }

    #[test]
    fn each_device_has_its_own_queue() {
        let work = devices(|_, _| None);
        // More than a search of one queue for all devices would pass over.
        (0..200).for_each(|ticket| work.add(ticket, Operation::Sync { root: 0 }, (Some(2), None)));
        work.add(200, Operation::Sync { root: 1 }, (Some(1), None));
        work.add(201, Operation::Sync { root: 0 }, (None, None));
        assert!(work.has_backlog(0));
        assert_eq!(tickets(&work, 1, 5), [200, 201]);
        assert!(!work.has_backlog(1) && work.has_backlog(0));
        assert_eq!(tickets(&work, 0, 300), (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn other_devices_threads_help_up_to_the_limit_of_the_device() {
        let work = devices(|_, idle| Some(1 - idle));
        for ticket in 0..6 {
            work.add(ticket, Operation::Sync { root: 0 }, (Some(0), None));
        }
        let first = work.queue().take(0).expect("a task");
        assert!(tickets(&work, 1, 1).is_empty(), "a rotational disk serves one reader");
        work.complete(0, first.claim, SECOND);
        assert_eq!(tickets(&work, 1, 9), [1]);
        for ticket in 6..12 {
            work.add(ticket, Operation::Sync { root: 0 }, (Some(1), None));
        }
        assert_eq!(tickets(&work, 0, 1), [2], "own tasks come first");
        assert_eq!(tickets(&work, 1, 2), [6, 7]);
    }

    #[test]
    fn single_group_owns_all_tasks() {
        let group = WorkerGroup::new(1, None, placed(2, Some(NodeId(0))));
        let other = placed(1, Some(NodeId(5)));
        let work = WorkQueue::new(std::slice::from_ref(&group), Vec::new(), |_, _| None);
        work.add(0, write(&other), (None, None));
        work.add(1, write(&group.pool), (None, None));
        assert_eq!(tickets(&work, 0, 2), [0, 1]);
    }
}
