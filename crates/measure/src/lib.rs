//! Which workloads to try on a machine, in which order, how often, and when to stop.
//!
//! [`campaign::run`] measures the cells of Algorithm 1 of Li et al. (ICPP 2013): threads on a target node
//! copy from or to every node with memory.

pub mod campaign;
mod cells;
mod options;
mod order;
mod rounds;
mod setting;
mod trial;
mod warnings;

pub use options::{CampaignError, Options, Threads};
pub use rounds::Rule;
pub use setting::{Event, Setting};
