//! Requests to a broker.

use crate::host_order::HostOrder;
use std::time::Duration;

/// A request's number, which the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// Index of a resource of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub usize);

/// A device in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Bandwidth in bytes/s; `None` if it is unknown, and then it limits nothing.
    pub bandwidth: Option<u64>,
    /// Threads that serve it, at least 1.
    pub threads: u32,
    /// Maximum number of tasks that use it at once, at least 1. If there are more tasks than
    /// threads, each has one thread.
    pub tasks: u32,
}

/// A transfer's request for some resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its user.
    pub user: Box<str>,
    /// Maximum number of the user's tasks that have threads.
    pub user_limit: usize,
    /// Tasks of a higher priority start first, and may suspend those of a lower one.
    pub priority: i8,
    /// The resources that it needs at once.
    pub uses: Vec<ResourceId>,
    /// Its own limit in bytes/s.
    pub rate_limit: Option<u64>,
    /// Bytes to transfer, if known.
    pub bytes: Option<u64>,
    /// Whether it must agree on a rate with the broker of another host, and which reserves first.
    pub order: HostOrder,
}

/// Limits of a broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Maximum number of a user's tasks in the queue.
    pub waiting_per_user: usize,
    /// Maximum number of tasks in the queue.
    pub waiting: usize,
    /// Waiting time that counts as much as one step of priority.
    pub aging: Duration,
    /// Waiting time after which a task's resources are kept free for it.
    pub preemption_wait: Duration,
    /// How long a task transfers before another one may suspend it; `None` if none may.
    pub time_slice: Option<Duration>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            waiting_per_user: 1_024,
            waiting: 16_384,
            aging: Duration::from_secs(60),
            preemption_wait: Duration::from_secs(300),
            time_slice: Some(Duration::from_secs(30)),
        }
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The number is in use.
    Duplicate,
    /// A resource does not exist.
    UnknownResource,
    /// The queue is full.
    QueueFull,
    /// The user has too many tasks in the queue.
    UserQueueFull,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Duplicate => "the number of the request is in use",
            Self::UnknownResource => "the request names a device that does not exist",
            Self::QueueFull => "the queue is full",
            Self::UserQueueFull => "the user has too many requests in the queue",
        })
    }
}

impl std::error::Error for Refusal {}
