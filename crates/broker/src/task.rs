//! The state of a task.

use crate::host_order::HostOrder;
use crate::request::Request;
use std::time::Duration;

/// Shortest time over which a rate is measured.
const MEASURED_TIME: Duration = Duration::from_secs(1);
/// Part of its grant that a task uses if nothing else limits it.
const FULL_USE: f64 = 0.9;
/// The grant of a task that uses less, relative to its use: it can grow.
const HEADROOM: f64 = 1.5;
/// Least grant of a task that could use more, in bytes/s, so that one that was idle can grow.
const LEAST_DEMAND: f64 = 1_048_576.0;

/// States of a task, as in the dissertation (6.2): `waiting → active → transferring`, and
/// `suspended` in between if tasks of a higher priority need its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// In the queue.
    Waiting,
    /// Has threads, and agrees on a rate with the other host.
    Active,
    /// Was transferring, gave back its threads, and is in the queue again.
    Suspended,
    /// Has threads and a rate.
    Transferring,
}

impl TaskState {
    /// Returns whether it has threads.
    pub fn has_threads(self) -> bool {
        matches!(self, Self::Active | Self::Transferring)
    }
}

/// The rates that a task may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Rate in bytes/s; `None` if nothing limits it.
    pub rate: Option<u64>,
    /// Threads of each resource, in the order of the request.
    pub threads: Vec<u32>,
}

/// When the measurement of a rate began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement {
    since: Duration,
    /// Bytes that were transferred by then.
    before: u64,
    /// The granted rate by then; `None` if nothing limited it.
    granted: Option<u64>,
}

/// A task.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub request: Request,
    pub state: TaskState,
    /// Number of arrival, which decides among equals.
    pub arrival: u64,
    /// When it entered the queue, or got its threads.
    pub since: Duration,
    /// Number of times that the first host gave it threads.
    pub turn: u64,
    /// The other host's offer in this turn in bytes/s, infinite if it limits nothing; `None`
    /// before its first offer.
    pub peer_offer: Option<f64>,
    /// The last offer to the other host in this turn, infinite if nothing limits it.
    pub offer: Option<f64>,
    /// The last grant that was reported.
    pub grant: Option<Grant>,
    /// Bytes that were transferred.
    pub done: u64,
    /// The measurement of its rate.
    pub measurement: Option<Measurement>,
    /// The rate that it probably can use in bytes/s; infinite if it uses its whole grant.
    pub demand: f64,
}

impl Task {
    /// Returns the least of its own limit, that of the other host, and what it can use.
    pub fn limit(&self) -> f64 {
        self.own_limit().min(self.peer_offer.unwrap_or(f64::INFINITY)).min(self.demand)
    }

    /// Records how many bytes were transferred by now, and returns whether its demand changed.
    ///
    /// Something that no broker knows may limit a transfer: the other host's devices, the network,
    /// small files. What it leaves unused belongs to others.
    pub fn measure(&mut self, now: Duration, done: u64) -> bool {
        self.done = done;
        let granted = self.grant.as_ref().and_then(|grant| grant.rate);
        let next = Measurement { since: now, before: done, granted };
        let last = *self.measurement.get_or_insert(next);
        let passed = now.saturating_sub(last.since);
        if passed < MEASURED_TIME {
            return false;
        }
        self.measurement = Some(next);
        let rate = done.saturating_sub(last.before) as f64 / passed.as_secs_f64();
        // The grant may have changed meanwhile.
        let granted = [granted, last.granted].into_iter().flatten().min();
        let is_full = granted.is_none_or(|granted| rate >= FULL_USE * granted as f64);
        let demand = if is_full { f64::INFINITY } else { (HEADROOM * rate).max(LEAST_DEMAND) };
        std::mem::replace(&mut self.demand, demand) != demand
    }

    /// Forgets what was measured, because the grant has ended.
    pub fn forget_demand(&mut self) {
        (self.measurement, self.demand) = (None, f64::INFINITY);
    }

    /// Returns its own limit.
    pub fn own_limit(&self) -> f64 {
        self.request.rate_limit.map_or(f64::INFINITY, |limit| limit as f64)
    }

    /// Returns whether it is in the queue.
    pub fn is_queued(&self) -> bool {
        !self.state.has_threads()
    }

    /// Returns whether the other host must give it threads first.
    pub fn awaits_peer(&self) -> bool {
        self.request.order == HostOrder::Second && self.peer_offer.is_none()
    }

    /// Returns the remaining time at its present rate.
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.request.bytes?.saturating_sub(self.done);
        let rate = self.grant.as_ref()?.rate.filter(|rate| *rate > 0)?;
        Some(Duration::from_secs_f64(left as f64 / rate as f64))
    }
}
