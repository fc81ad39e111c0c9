//! Which tasks of the queue get threads.

use crate::broker::Broker;
use crate::occupancy::Occupancy;
use crate::request::{ResourceId, TaskId};
use crate::task::{Task, TaskState};
use crate::view::WaitReason;
use std::collections::BTreeSet;
use std::time::Duration;

impl Broker {
    /// Returns the queue, first task first: by priority, which grows with the time in the queue;
    /// among equals by the user who has fewer tasks with threads; then by arrival.
    pub(crate) fn queue(&self, now: Duration, occupancy: &Occupancy) -> Vec<TaskId> {
        let key = |(id, task): (&TaskId, &Task)| {
            let waited = now.saturating_sub(task.since).as_nanos() / self.policy.aging.as_nanos().max(1);
            let priority = i128::from(task.request.priority) + waited as i128;
            ((-priority, occupancy.of_user(&task.request.user), task.arrival), *id)
        };
        let mut queue: Vec<_> = self.tasks.iter().filter(|(_, task)| task.is_queued()).map(key).collect();
        queue.sort_unstable();
        queue.into_iter().map(|(_, id)| id).collect()
    }

    /// Gives threads to all tasks of the queue that can have some.
    pub(crate) fn admit(&mut self, now: Duration) {
        // The order depends on how many tasks each user has, so that it is computed again.
        while let Some(id) = self.next_admission(now) {
            self.start(id, now);
        }
    }

    /// Returns the first task that can start, after suspending others for it if necessary.
    fn next_admission(&mut self, now: Duration) -> Option<TaskId> {
        let occupancy = Occupancy::of(self);
        let mut kept_free = BTreeSet::new();
        for id in self.queue(now, &occupancy) {
            let task = &self.tasks[&id];
            let is_overdue = now.saturating_sub(task.since) >= self.policy.preemption_wait;
            match self.obstacle(task, &occupancy, &kept_free) {
                None => return Some(id),
                Some(WaitReason::Threads(_)) => {
                    if let Some(victims) = self.victims(task, &occupancy, is_overdue, now) {
                        victims.into_iter().for_each(|victim| self.give_back(victim, now));
                        return Some(id);
                    }
                    if is_overdue {
                        kept_free.extend(task.request.uses.iter().copied());
                    }
                }
                Some(_) => {}
            }
        }
        None
    }

    /// Returns why a task cannot start now.
    pub(crate) fn obstacle(
        &self,
        task: &Task,
        occupancy: &Occupancy,
        kept_free: &BTreeSet<ResourceId>,
    ) -> Option<WaitReason> {
        if task.awaits_peer() {
            return Some(WaitReason::Peer);
        }
        if occupancy.of_user(&task.request.user) >= task.request.user_limit {
            return Some(WaitReason::UserLimit);
        }
        let uses = || task.request.uses.iter().copied();
        if let Some(resource) = uses().find(|resource| kept_free.contains(resource)) {
            return Some(WaitReason::KeptFree(resource));
        }
        uses().find(|resource| occupancy.free_places(self, *resource) == 0).map(WaitReason::Threads)
    }

    /// Returns transfers that have had their turn and whose threads would let a task start; `None`
    /// if there are not enough of them. They have a lower priority, or for an overdue task the same
    /// one and another user.
    fn victims(
        &self,
        task: &Task,
        occupancy: &Occupancy,
        is_overdue: bool,
        now: Duration,
    ) -> Option<Vec<TaskId>> {
        let yields = |other: &Task| {
            let (theirs, ours) = (other.request.priority, task.request.priority);
            theirs < ours || is_overdue && theirs == ours && other.request.user != task.request.user
        };
        let turn = self.policy.time_slice?;
        let mut victims: Vec<TaskId> = Vec::new();
        for resource in &task.request.uses {
            let frees = |id: &TaskId| self.tasks[id].request.uses.contains(resource);
            if occupancy.free_places(self, *resource) > 0 || victims.iter().any(frees) {
                continue;
            }
            let may_suspend = |(_, other): &(&TaskId, &Task)| {
                other.state == TaskState::Transferring
                    && yields(other)
                    && other.request.uses.contains(resource)
                    && now.saturating_sub(other.since) >= turn
            };
            let lowest = self.tasks.iter().filter(may_suspend);
            victims
                .push(*lowest.min_by_key(|(_, other)| (other.request.priority, u64::MAX - other.arrival))?.0);
        }
        Some(victims)
    }
}
