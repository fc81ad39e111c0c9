//! Measurement campaigns: which workloads to run on a machine, in which order, how often, and when
//! to stop.
//!
//! [`campaign::run`] measures the cells of Algorithm 1 of Li et al. (ICPP 2013): threads on a
//! target node copy from and to every node with memory. [`stream::run`] and [`latency::run`]
//! measure every pair of CPU node and memory node, [`sweep::run`] a program of the user on every
//! pair, [`io::run`] streams between a device and each node, moved by an [`engine`], and
//! [`aggregate::run`] those of several devices at the same time. [`ping::run`] measures the latency
//! of a network, and [`mmio::run`] reads of a device's register from each node. All use the same
//! stopping [`Rule`].

pub mod aggregate;
pub mod campaign;
mod cells;
pub mod counters;
pub mod engine;
pub mod io;
pub mod latency;
pub mod mmio;
pub mod net;
mod options;
mod pairs;
pub mod ping;
mod rounds;
mod setting;
mod sizes;
pub mod stream;
pub mod sweep;
mod trial;
mod under_load;
mod visit_order;
mod warnings;

pub use aggregate::AggregateOptions;
pub use counters::CounterOptions;
pub use io::IoOptions;
pub use latency::LatencyOptions;
pub use mmio::MmioOptions;
pub use net::NetOptions;
pub use options::{CampaignError, Options, Threads};
pub use ping::{PingEngine, PingOptions};
pub use rounds::Rule;
pub use setting::{Event, Setting};
pub use stream::StreamOptions;
pub use sweep::SweepOptions;
pub use under_load::UnderLoad;
