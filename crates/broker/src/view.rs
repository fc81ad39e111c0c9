//! A task as users see it.

use crate::broker::Broker;
use crate::occupancy::Occupancy;
use crate::request::{ResourceId, TaskId};
use crate::task::{Grant, Task, TaskState};
use std::collections::BTreeSet;
use std::time::Duration;

/// Why a task waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// All threads of a resource are in use.
    Threads(ResourceId),
    /// Another task has waited longer, and the threads of a resource are kept free for it.
    KeptFree(ResourceId),
    /// The user has as many tasks as allowed.
    UserLimit,
    /// The other host has no threads for it, or has not offered a rate yet.
    Peer,
}

/// A task as users see it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    /// Its number.
    pub id: TaskId,
    /// Its state.
    pub state: TaskState,
    /// The rate that it may use; `None` before it transfers.
    pub grant: Option<Grant>,
    /// Position in the queue, from 1.
    pub position: Option<usize>,
    /// Why it does not transfer.
    pub reason: Option<WaitReason>,
    /// Time until it probably starts, if the sizes of those before it are known.
    pub starts_in: Option<Duration>,
}

impl Broker {
    /// Returns all tasks by number.
    pub fn tasks(&self, now: Duration) -> Vec<TaskView> {
        let occupancy = Occupancy::of(self);
        let queue = self.queue(now, &occupancy);
        self.tasks.iter().map(|(id, task)| self.view(*id, task, &queue, &occupancy)).collect()
    }

    /// Returns a task; `None` if there is none with this number.
    pub fn task(&self, now: Duration, id: TaskId) -> Option<TaskView> {
        let task = self.tasks.get(&id)?;
        let occupancy = Occupancy::of(self);
        Some(self.view(id, task, &self.queue(now, &occupancy), &occupancy))
    }

    fn view(&self, id: TaskId, task: &Task, queue: &[TaskId], occupancy: &Occupancy) -> TaskView {
        let position = queue.iter().position(|other| *other == id);
        let reason = match task.state {
            TaskState::Transferring => None,
            TaskState::Active => Some(WaitReason::Peer),
            TaskState::Waiting | TaskState::Suspended => {
                // All that can start have started: a task without another obstacle waits for
                // threads that are kept free.
                let kept_free = || task.request.uses.first().copied().map(WaitReason::KeptFree);
                self.obstacle(task, occupancy, &BTreeSet::new()).or_else(kept_free)
            }
        };
        TaskView {
            id,
            state: task.state,
            grant: task.grant.clone(),
            position: position.map(|index| index + 1),
            reason,
            starts_in: position.and_then(|index| self.starts_in(&queue[..index], id, occupancy)),
        }
    }
}
