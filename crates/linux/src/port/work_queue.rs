//! The queue of a port, and which of its crews does what.
//!
//! What needs no data is anybody's. What writes data is the crew's beside whose buffers it lies. Who has nothing of its own
//! to do may take another's, if that makes the whole end sooner; whether it does is asked of who set the port up,
//! with what was observed.

use super::{Slab, WorkerGroup};
use numaio_machine::ids::NodeId;
use numaio_machine::port::{FilePath, Operation, Ticket};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many operations a worker looks at to find one near it: more than a port has buffers as a rule.
const SEARCH_DEPTH: usize = 64;
/// How often a worker that leaves work to others looks again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A crew, as it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupLoad {
    /// Operations that wait and are its own.
    pub waiting: u64,
    /// Operations of its own that it does in a second; none if it has not ended one.
    pub per_second: Option<f64>,
    /// Operations of its own that one thread of the idle crew would do in a second; none if it never tried.
    pub helped_per_second: Option<f64>,
}

/// Decides whose work a thread of the crew of this index takes, which has none of its own: of another one, or of nobody.
pub type WorkSharing = fn(loads: &[GroupLoad], idle: usize) -> Option<usize>;

/// What waits for a thread.
#[derive(Debug)]
pub(super) struct WorkQueue {
    queue: Mutex<Queue>,
    ready: Condvar,
    /// Threads that wait for a buffer.
    waiting_for_buffer: AtomicUsize,
    /// Whether some did since that was asked last.
    was_short: AtomicBool,
}

/// Something to do.
#[derive(Debug)]
pub(super) struct Task {
    pub ticket: Ticket,
    pub operation: Operation<Slab>,
    pub claim: Claim,
}

impl Task {
    /// Whether it moves a part of one file.
    fn is_block(&self) -> bool {
        match &self.operation {
            Operation::Read { pieces, .. } => pieces.len() == 1,
            Operation::Write { puts, data: Some(_), .. } => puts.len() == 1,
            _ => false,
        }
    }

    /// Whether it writes data.
    fn is_write(&self) -> bool {
        matches!(self.operation, Operation::Write { data: Some(_), .. })
    }
}

/// What a task claims while it runs; to be given back when it is done.
#[derive(Debug)]
pub(super) struct Claim {
    /// The crew whose work it is; none if it is anybody's.
    owner: Option<usize>,
    /// The file in which nobody else is to be.
    exclusive: Option<FilePath>,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Task>,
    /// Files that somebody is alone in.
    locked: Vec<FilePath>,
    /// Threads that wait for something to do.
    idle: usize,
    closed: bool,
    worker_groups: Vec<GroupState>,
    share: WorkSharing,
}

/// A crew and what was seen of it.
#[derive(Debug)]
struct GroupState {
    node: Option<NodeId>,
    threads: usize,
    /// What a thread of it took for the work of each crew.
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

    /// Adds an operation, during which none other that is `exclusive` in the same file runs.
    pub fn add(&self, ticket: Ticket, operation: Operation<Slab>, exclusive: Option<FilePath>) {
        let mut queue = self.queue();
        let owner = queue.owner(&operation);
        queue.waiting.push_back(Task { ticket, operation, claim: Claim { owner, exclusive } });
        drop(queue);
        // Who wakes may leave it to the crew that it belongs to.
        match owner {
            Some(_) => self.ready.notify_all(),
            None => self.ready.notify_one(),
        }
    }

    /// Whether more data waits to be written than there are threads for it.
    pub fn is_behind(&self) -> bool {
        let queue = self.queue();
        let is_data = |task: &&Task| matches!(task.operation, Operation::Write { data: Some(_), .. });
        queue.waiting.iter().filter(is_data).count() > queue.threads()
    }

    /// Whether as much waits that could be done now as there are threads.
    pub fn has_backlog(&self) -> bool {
        let queue = self.queue();
        queue.waiting.iter().filter(|task| queue.is_free(task)).count() >= queue.threads()
    }

    /// What a thread does that finds no buffer free.
    pub fn wait_for_buffer<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting_for_buffer.fetch_add(1, Ordering::SeqCst);
        let waited = wait();
        self.was_short.store(true, Ordering::SeqCst);
        self.waiting_for_buffer.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    /// Whether a thread waits for a buffer, or did since this was asked last.
    pub fn was_short_of_buffers(&self) -> bool {
        self.was_short.swap(false, Ordering::SeqCst) || self.waiting_for_buffer.load(Ordering::SeqCst) > 0
    }

    /// A crew has so many threads now.
    pub fn set_threads(&self, group: usize, threads: usize) {
        if let Some(state) = self.queue().worker_groups.get_mut(group) {
            state.threads = threads;
        }
    }

    /// What a worker of a crew does next; waits until there is something, and is none at the end.
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

    /// What a worker of a crew takes beside the blocks that it has on their way; none if idle workers will take all there is. While
    /// there are idle ones it is a block; else it is the oldest that writes no data, since blocks may come without an end, and a journal is
    /// not to wait for that.
    pub fn next_while_busy(&self, group: usize) -> Option<Task> {
        let mut queue = self.queue();
        let idle = queue.idle;
        let is_more = queue.waiting.len() > idle;
        is_more
            .then(|| queue.take_own(group, |task| task.is_block() || idle == 0 && !task.is_write()))
            .flatten()
    }

    /// Notes what a thread of a crew took for something.
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
            // The newer half counts, so that a device that turns slow is seen.
            if times.operations >= 64 {
                *times = TaskTimes { operations: times.operations / 2, time: times.time / 2 };
            }
            *times = TaskTimes { operations: times.operations + 1, time: times.time + time };
        }
    }

    /// What waits is forgotten, and workers end.
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
    /// The crew beside whose buffers the data lies.
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

    /// Whether nobody is in the file that it is to be alone in.
    fn is_free(&self, task: &Task) -> bool {
        task.claim.exclusive.as_ref().is_none_or(|file| !self.locked.contains(file))
    }

    /// The oldest that is the crew's own or anybody's, if it is among the first; else what it may take of others.
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
    use numaio_machine::port::{Begin, Put};
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    fn worker_groups() -> Vec<WorkerGroup> {
        let group = |node| WorkerGroup { threads: 2, cpus: None, pool: Pool::placed(3, Some(NodeId(node))) };
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
    fn a_worker_takes_what_is_its_own_or_anybodys_first() {
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
    fn work_of_others_is_taken_only_where_it_is_said() {
        let worker_groups = worker_groups();
        let work = WorkQueue::new(&worker_groups, |_, _| None);
        work.add(0, write(&worker_groups[0].pool), None);
        assert!(tickets(&work, 1, 1).is_empty());
        assert_eq!(tickets(&work, 0, 1), [0]);
    }

    #[test]
    fn what_is_observed_is_told() {
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
        // A device that turns slow is seen.
        (0..1000).for_each(|_| work.complete(0, of(0), 10 * SECOND));
        let load = work.queue().loads(0)[0];
        assert!(load.per_second.is_some_and(|rate| (0.199..0.21).contains(&rate)), "{load:?}");
    }

    #[test]
    fn one_worker_at_a_time_is_alone_in_a_file() {
        let group = WorkerGroup { threads: 2, cpus: None, pool: Pool::placed(9, None) };
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        let files = ["a", "a", "b", "", "a"]
            .map(|name| (!name.is_empty()).then(|| FilePath::new(0, name.as_bytes())));
        for (ticket, file) in files.into_iter().enumerate() {
            work.add(ticket as u64, write(&group.pool), file);
        }
        assert!(work.has_backlog());
        let first = work.queue().take(0).expect("a task");
        assert_eq!((first.ticket, tickets(&work, 0, 5)), (0, vec![2, 3]));
        assert!(!work.has_backlog(), "two wait, for one file");
        work.complete(0, first.claim, SECOND);
        assert_eq!(tickets(&work, 0, 5), [1]);
    }

    #[test]
    fn who_has_more_to_write_than_threads_is_behind() {
        let group = WorkerGroup { threads: 2, cpus: None, pool: Pool::placed(9, None) };
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        (0..3).for_each(|ticket| work.add(ticket, Operation::Sync { root: 0 }, None));
        let mut is_behind = [false; 4];
        for behind in &mut is_behind {
            *behind = work.is_behind();
            work.add(3, write(&group.pool), None);
        }
        assert_eq!(is_behind, [false, false, false, true]);
        tickets(&work, 0, 5);
        assert!(!work.is_behind(), "two are left");
    }

    #[test]
    fn who_waits_for_blocks_takes_more_of_them_if_nobody_idle_does() {
        let group = WorkerGroup { threads: 2, cpus: None, pool: Pool::placed(9, None) };
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        let block = |put: Put| match write(&group.pool) {
            Operation::Write { data, hash, packed, .. } => {
                Operation::Write { puts: vec![put], data, hash, packed }
            }
            other => other,
        };
        let put = || Put {
            at: FilePath::new(0, &b"a"[..]),
            begin: Begin::Further,
            held: Vec::new(),
            check: Vec::new(),
            parts: Vec::new(),
            sparse: false,
            settle: None,
        };
        assert!(work.next_while_busy(0).is_none(), "there is nothing");
        work.add(1, write(&group.pool), None);
        work.add(0, Operation::Sync { root: 0 }, None);
        work.queue().idle = 1;
        assert!(work.next_while_busy(0).is_none(), "no block");
        work.add(2, block(put()), None);
        work.add(3, block(put()), None);
        work.queue().idle = 4;
        assert!(work.next_while_busy(0).is_none(), "idle workers take four");
        work.queue().idle = 2;
        assert_eq!(work.next_while_busy(0).map(|task| task.ticket), Some(2));
        work.queue().idle = 0;
        assert_eq!(work.next_while_busy(0).map(|task| task.ticket), Some(0), "nobody else would");
        assert_eq!(tickets(&work, 0, 3), [1, 3]);
    }

    #[test]
    fn one_crew_has_all() {
        let group = WorkerGroup { threads: 1, cpus: None, pool: Pool::placed(2, Some(NodeId(0))) };
        let other = Pool::placed(1, Some(NodeId(5)));
        let work = WorkQueue::new(std::slice::from_ref(&group), |_, _| None);
        work.add(0, write(&other), None);
        work.add(1, write(&group.pool), None);
        assert_eq!(tickets(&work, 0, 2), [0, 1]);
    }
}
