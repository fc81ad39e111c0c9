//! When a waiting task probably starts.

use crate::broker::Broker;
use crate::occupancy::Occupancy;
use crate::request::{ResourceId, TaskId};
use std::time::Duration;

impl Broker {
    /// Returns the time until a task of the queue gets threads of all its resources, given those
    /// before it; `None` if the size or rate of a task that must end first is unknown.
    ///
    /// Those before it are assumed to take the threads that are freed first, and not to end before
    /// it starts.
    pub(crate) fn starts_in(&self, before: &[TaskId], id: TaskId, occupancy: &Occupancy) -> Option<Duration> {
        let task = self.tasks.get(&id)?;
        if occupancy.of_user(&task.request.user) >= task.request.user_limit {
            // Which of the user's tasks ends first depends on the user.
            return None;
        }
        let waits = task.request.uses.iter().map(|resource| self.free_in(*resource, before, occupancy));
        waits.collect::<Option<Vec<Duration>>>()?.into_iter().max()
    }

    /// Returns the time until a resource has a thread for one task after those `before`.
    fn free_in(&self, resource: ResourceId, before: &[TaskId], occupancy: &Occupancy) -> Option<Duration> {
        let uses = |id: &&TaskId| self.tasks[id].request.uses.contains(&resource);
        let ahead = before.iter().filter(uses).count();
        let free = occupancy.free_places(self, resource) as usize;
        if ahead < free {
            return Some(Duration::ZERO);
        }
        let running = self.tasks.values().filter(|task| !task.is_queued());
        let running = running.filter(|task| task.request.uses.contains(&resource));
        let mut ends: Vec<Option<Duration>> = running.map(|task| task.remaining()).collect();
        // Unknown ends are last.
        ends.sort_unstable_by_key(|end| end.unwrap_or(Duration::MAX));
        ends.get(ahead - free).copied().flatten()
    }
}
