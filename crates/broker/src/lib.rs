//! The capacity of a machine's devices, lent to transfers: RAMSYS's middle layer (Tan Li's
//! dissertation, 6.1 to 6.2) as a state machine without I/O.
//!
//! A [`Broker`] knows [`Resource`]s: a device in one direction, with its bandwidth and its threads.
//! A transfer is a [`Request`] for some of them. It waits in a queue until each of its resources
//! has a free thread, and then gets a [`Grant`]: a rate, and threads. Rates are max-min fair. The
//! brokers of two hosts agree on a rate by exchanging offers, and the smaller one counts.
//!
//! Nothing here opens a socket, reads a clock or starts a thread: a daemon calls the broker with
//! the time, and passes on its events.

mod admission;
mod broker;
mod estimate;
mod fair_share;
mod host_order;
mod occupancy;
mod request;
mod reserved_threads;
mod task;
mod view;

pub use broker::{Broker, Event};
pub use fair_share::{fair_rates, Flow};
pub use host_order::HostOrder;
pub use request::{Policy, Refusal, Request, Resource, ResourceId, TaskId};
pub use reserved_threads::reserved_threads;
pub use task::{Grant, TaskState};
pub use view::{TaskView, WaitReason};
