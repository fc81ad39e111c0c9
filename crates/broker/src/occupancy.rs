//! How many tasks with threads users and resources have.

use crate::broker::Broker;
use crate::request::ResourceId;
use std::collections::HashMap;

/// Counts of tasks with threads.
pub(crate) struct Occupancy {
    by_user: HashMap<Box<str>, usize>,
    by_resource: Vec<u32>,
}

impl Occupancy {
    /// Counts the tasks of a broker.
    pub fn of(broker: &Broker) -> Self {
        let mut counts = Self { by_user: HashMap::new(), by_resource: vec![0; broker.resources.len()] };
        for task in broker.tasks.values().filter(|task| !task.is_queued()) {
            *counts.by_user.entry(task.request.user.clone()).or_default() += 1;
            task.request.uses.iter().for_each(|resource| counts.by_resource[resource.0] += 1);
        }
        counts
    }

    /// Returns the number of a user's tasks.
    pub fn of_user(&self, user: &str) -> usize {
        self.by_user.get(user).copied().unwrap_or_default()
    }

    /// Returns the number of tasks that a resource can still have.
    pub fn free_places(&self, broker: &Broker, resource: ResourceId) -> u32 {
        broker.resources[resource.0].tasks.saturating_sub(self.by_resource[resource.0])
    }
}
