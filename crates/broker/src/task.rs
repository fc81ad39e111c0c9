//! The state of a task.

use crate::host_order::HostOrder;
use crate::request::Request;
use std::time::Duration;

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

/// What a task may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Rate in bytes/s; `None` if nothing limits it.
    pub rate: Option<u64>,
    /// Threads of each resource, in the order of the request.
    pub threads: Vec<u32>,
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
    /// What the other host offers in this turn in bytes/s, infinite if it limits nothing; `None`
    /// before its first offer.
    pub peer_offer: Option<f64>,
    /// The last offer to the other host in this turn, infinite if nothing limits it.
    pub offer: Option<f64>,
    /// The last grant that was reported.
    pub grant: Option<Grant>,
    /// Bytes that were transferred.
    pub done: u64,
}

impl Task {
    /// Returns its own limit and that of the other host.
    pub fn limit(&self) -> f64 {
        self.own_limit().min(self.peer_offer.unwrap_or(f64::INFINITY))
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
