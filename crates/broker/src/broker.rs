//! The broker: requests, events and rates.

use crate::fair_share::{fair_rates, Flow};
use crate::host_order::HostOrder;
use crate::request::{Policy, Refusal, Request, Resource, ResourceId, TaskId};
use crate::reserved_threads::reserved_threads;
use crate::task::{Grant, Task, TaskState};
use std::collections::BTreeMap;
use std::time::Duration;

/// Part of a rate below which a change is not reported.
const REPORTED_CHANGE: f64 = 0.001;

/// The messages to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It has threads, and must agree on a rate: pass the offer to the other host. Repeated when
    /// the offer changes.
    Offer {
        /// The task.
        id: TaskId,
        /// Number of the turn that the first host began.
        turn: u64,
        /// Rate in bytes/s; `None` if nothing limits it.
        rate: Option<u64>,
    },
    /// It may transfer with this grant. Repeated when the grant changes.
    Granted(TaskId, Grant),
    /// It must stop transferring, and is in the queue again. Pass it to the other host, which also
    /// gives back its threads.
    Suspended {
        /// The task.
        id: TaskId,
        /// Number of the turn that ended.
        turn: u64,
    },
}

/// The resources of a host, and the tasks that use them or wait for them.
///
/// Invariants: a resource has at most as many tasks with threads as threads; the rates of its tasks
/// do not exceed its bandwidth; a task gets threads of all its resources at once or of none, so
/// that tasks of one host cannot wait for each other; the second host of a transfer has threads for
/// it only while the first one has.
#[derive(Debug)]
pub struct Broker {
    pub(crate) resources: Vec<Resource>,
    pub(crate) policy: Policy,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    arrivals: u64,
    events: Vec<Event>,
}

impl Broker {
    /// A broker without tasks.
    pub fn new(resources: Vec<Resource>, policy: Policy) -> Self {
        Self { resources, policy, tasks: BTreeMap::new(), arrivals: 0, events: Vec::new() }
    }

    /// Enqueues a request.
    ///
    /// # Errors
    /// [`Refusal`]; the request is not part of the broker.
    pub fn submit(&mut self, now: Duration, id: TaskId, mut request: Request) -> Result<(), Refusal> {
        if self.tasks.contains_key(&id) {
            return Err(Refusal::Duplicate);
        }
        if request.uses.iter().any(|resource| resource.0 >= self.resources.len()) {
            return Err(Refusal::UnknownResource);
        }
        request.uses.sort_unstable();
        request.uses.dedup();
        self.arrivals += 1;
        let task = Task {
            request,
            state: TaskState::Waiting,
            arrival: self.arrivals,
            since: now,
            turn: 0,
            peer_offer: None,
            offer: None,
            grant: None,
            done: 0,
            measurement: None,
            demand: f64::INFINITY,
        };
        let user = task.request.user.clone();
        self.tasks.insert(id, task);
        self.update(now);
        let refusal = self.tasks[&id].is_queued().then(|| self.queue_refusal(&user)).flatten();
        if let Some(refusal) = refusal {
            self.tasks.remove(&id);
            return Err(refusal);
        }
        Ok(())
    }

    /// Returns why the last task of a user may not stay in the queue.
    fn queue_refusal(&self, user: &str) -> Option<Refusal> {
        if self.waiting() > self.policy.waiting {
            return Some(Refusal::QueueFull);
        }
        let is_own = |task: &&Task| task.is_queued() && *task.request.user == *user;
        let own = self.tasks.values().filter(is_own).count();
        (own > self.policy.waiting_per_user).then_some(Refusal::UserQueueFull)
    }

    /// Removes a task that ended, failed or was cancelled. Unknown tasks are ignored.
    pub fn end(&mut self, now: Duration, id: TaskId) {
        if self.tasks.remove(&id).is_some() {
            self.update(now);
        }
    }

    /// Records what the other host offers for a task in some turn, in bytes/s; `None` if nothing
    /// limits it. Ignores unknown tasks and earlier turns.
    pub fn peer_offered(&mut self, now: Duration, id: TaskId, turn: u64, offer: Option<u64>) {
        let Some(task) = self.tasks.get(&id) else { return };
        let is_second = task.request.order == HostOrder::Second;
        let is_new_turn = is_second && turn > task.turn;
        if is_new_turn {
            // The suspension that ended the last turn is on its way, or arrived before.
            self.give_back(id, now);
        }
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if is_new_turn {
            task.turn = turn;
        }
        if task.turn != turn || !is_second && task.is_queued() {
            return;
        }
        task.peer_offer = Some(offer.map_or(f64::INFINITY, |offer| offer as f64));
        if task.state == TaskState::Active {
            task.state = TaskState::Transferring;
        }
        self.update(now);
    }

    /// Records that the other host lends nothing: from now on this host alone decides.
    pub fn without_peer(&mut self, now: Duration, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.request.order = HostOrder::Only;
        task.peer_offer = None;
        if task.state == TaskState::Active {
            task.state = TaskState::Transferring;
        }
        self.update(now);
    }

    /// Records that the other host has forgotten a task, because its connection was lost: its turns
    /// begin again.
    pub fn peer_restarted(&mut self, now: Duration, id: TaskId) {
        if self.tasks.get(&id).is_some_and(|task| task.request.order == HostOrder::Second) {
            self.give_back(id, now);
            if let Some(task) = self.tasks.get_mut(&id) {
                task.turn = 0;
            }
            self.update(now);
        }
    }

    /// Records that the other host suspended a task in some turn. Ignores unknown tasks and other
    /// turns.
    pub fn peer_suspended(&mut self, now: Duration, id: TaskId, turn: u64) {
        if self.tasks.get(&id).is_some_and(|task| task.turn == turn) {
            self.give_back(id, now);
            self.update(now);
        }
    }

    /// Records how many bytes a task has transferred by now, for estimates and for its demand: what
    /// a task leaves unused of its rate goes to others.
    pub fn progressed(&mut self, now: Duration, id: TaskId, done: u64) {
        if self.tasks.get_mut(&id).is_some_and(|task| task.measure(now, done)) {
            self.update(now);
        }
    }

    /// Returns the number of tasks in the queue.
    pub fn waiting(&self) -> usize {
        self.tasks.values().filter(|task| task.is_queued()).count()
    }

    /// Returns the events since the last call. Call it after every other call, and at the time that
    /// [`Self::wake`] returns.
    pub fn poll(&mut self, now: Duration) -> Vec<Event> {
        if self.tasks.values().any(Task::is_queued) {
            self.update(now);
        }
        std::mem::take(&mut self.events)
    }

    /// Returns when a waiting task may start without another call: when a transfer of no higher
    /// priority has had its turn, or a task has waited for long.
    pub fn wake(&self, now: Duration) -> Option<Duration> {
        let queued = || self.tasks.values().filter(|task| task.is_queued());
        let highest = queued().map(|task| task.request.priority).max()?;
        let transferring = self.tasks.values().filter(|task| task.state == TaskState::Transferring);
        let may_yield = transferring.filter(|task| task.request.priority <= highest);
        let turns = may_yield.filter_map(|task| Some(task.since + self.policy.time_slice?));
        let overdue = queued().map(|task| task.since + self.policy.preemption_wait);
        turns.chain(overdue).filter(|time| *time > now).min()
    }

    /// Gives threads to a task.
    pub(crate) fn start(&mut self, id: TaskId, now: Duration) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.state = match task.request.order {
            HostOrder::First => TaskState::Active,
            HostOrder::Only | HostOrder::Second => TaskState::Transferring,
        };
        task.turn += u64::from(task.request.order == HostOrder::First);
        task.since = now;
    }

    /// Puts a task back into the queue, and reports it if it had threads.
    pub(crate) fn give_back(&mut self, id: TaskId, now: Duration) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        (task.peer_offer, task.offer) = (None, None);
        if task.state.has_threads() {
            (task.state, task.since, task.grant) = (TaskState::Suspended, now, None);
            task.forget_demand();
            self.events.push(Event::Suspended { id, turn: task.turn });
        }
    }

    /// Admits tasks, and computes all rates again.
    fn update(&mut self, now: Duration) {
        self.admit(now);
        self.share();
        self.make_offers();
    }

    /// Returns a task's weight: users share a resource evenly, whatever number of tasks they have.
    fn weight(&self, task: &Task) -> f64 {
        let is_own = |other: &&Task| {
            other.state == TaskState::Transferring
                && other.request.user == task.request.user
                && other.request.uses.iter().any(|resource| task.request.uses.contains(resource))
        };
        1.0 / self.tasks.values().filter(is_own).count().max(1) as f64
    }

    fn bandwidths(&self) -> Vec<f64> {
        let of = |resource: &Resource| resource.bandwidth.map_or(f64::INFINITY, |bandwidth| bandwidth as f64);
        self.resources.iter().map(of).collect()
    }

    /// Returns the rates of all transfers; that of `unlimited` is computed as if the other host
    /// limited nothing.
    fn rates(&self, unlimited: Option<TaskId>) -> BTreeMap<TaskId, f64> {
        let takes_part =
            |id: &TaskId, task: &Task| task.state == TaskState::Transferring || Some(*id) == unlimited;
        let sharing: Vec<(&TaskId, &Task)> =
            self.tasks.iter().filter(|(id, task)| takes_part(id, task)).collect();
        let flows: Vec<Flow<'_>> = sharing
            .iter()
            .map(|(id, task)| Flow {
                weight: self.weight(task),
                limit: if Some(**id) == unlimited { task.own_limit() } else { task.limit() },
                uses: &task.request.uses,
            })
            .collect();
        let rates = fair_rates(&self.bandwidths(), &flows);
        sharing.into_iter().map(|(id, _)| *id).zip(rates).collect()
    }

    /// Shares the bandwidth among the transfers, and reports changed grants.
    fn share(&mut self) {
        let rates = self.rates(None);
        let threads = self.threads(&rates);
        for (id, rate) in rates {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            let threads: Vec<u32> =
                task.request.uses.iter().map(|resource| threads[&(*resource, id)]).collect();
            let grant = Grant { rate: finite(rate), threads };
            if task.grant.as_ref().is_none_or(|old| is_changed(old, &grant)) {
                task.grant = Some(grant.clone());
                self.events.push(Event::Granted(id, grant));
            }
        }
    }

    /// Returns the threads that each transfer reserves of each resource.
    fn threads(&self, rates: &BTreeMap<TaskId, f64>) -> BTreeMap<(ResourceId, TaskId), u32> {
        let mut reserved = BTreeMap::new();
        for (index, resource) in self.resources.iter().enumerate() {
            let id = ResourceId(index);
            // Tasks that are not transferring yet keep a thread each.
            let with_threads = self.tasks.iter().filter(|(_, task)| !task.is_queued());
            let users: Vec<TaskId> =
                with_threads.filter(|(_, task)| task.request.uses.contains(&id)).map(|(id, _)| *id).collect();
            // Without a known bandwidth, all have equal parts.
            let part = |user: &TaskId| match (rates.get(user), resource.bandwidth) {
                (None, _) => 0.0,
                (Some(rate), Some(bandwidth)) if bandwidth > 0 => rate / bandwidth as f64,
                (Some(_), _) => 1.0 / users.len() as f64,
            };
            let parts: Vec<f64> = users.iter().map(part).collect();
            let counts = reserved_threads(resource.threads, &parts);
            reserved.extend(users.into_iter().map(|user| (id, user)).zip(counts));
        }
        reserved
    }

    /// Reports the offers to other hosts that changed.
    fn make_offers(&mut self) {
        let has_peer = |task: &Task| task.request.order != HostOrder::Only && task.state.has_threads();
        let with_peers: Vec<TaskId> =
            self.tasks.iter().filter(|(_, task)| has_peer(task)).map(|(id, _)| *id).collect();
        for id in with_peers {
            let offer = self.rates(Some(id)).get(&id).copied().unwrap_or_default();
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            if task.offer.is_none_or(|last| !is_close(last, offer)) {
                task.offer = Some(offer);
                self.events.push(Event::Offer { id, turn: task.turn, rate: finite(offer) });
            }
        }
    }
}

/// Returns a rate in bytes/s; `None` if it is infinite.
fn finite(rate: f64) -> Option<u64> {
    rate.is_finite().then_some(rate as u64)
}

fn is_close(one: f64, other: f64) -> bool {
    let is_finite = one.is_finite() && other.is_finite();
    one == other || is_finite && (one - other).abs() <= REPORTED_CHANGE * one.max(other)
}

fn is_changed(old: &Grant, new: &Grant) -> bool {
    let rate = |grant: &Grant| grant.rate.map_or(f64::INFINITY, |rate| rate as f64);
    old.threads != new.threads || !is_close(rate(old), rate(new))
}

#[cfg(test)]
mod tests;
