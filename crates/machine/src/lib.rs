//! Model of a NUMA machine.
//!
//! Contains ids and sets, the [`Topology`](topology::Topology) with its parsers over a
//! [`Sysfs`](sysfs::Sysfs), the workloads, the traits through which numaio accesses a machine
//! ([`sysfs::Sysfs`], [`probe::Probe`], [`control::Control`], [`locate::Locate`]), and the
//! [`tape`], a recording of a machine.
//!
//! The crate makes no system calls and has no `unsafe` code: a machine is the text of its files and
//! the results of workloads.

pub mod calendar;
pub mod checkup;
pub mod conditions;
pub mod conformance;
pub mod control;
pub mod counters;
pub mod devices;
pub mod discover;
mod finding;
pub mod findings;
pub mod guests;
pub mod hot_pages;
pub mod ids;
pub mod interleave;
pub mod inventory;
#[cfg(feature = "json-schema")]
mod json_schema;
pub mod locate;
pub mod near;
pub mod netlink;
pub mod network;
pub mod prefetch;
pub mod printable;
pub mod probe;
pub mod process;
pub mod programs;
pub mod set;
pub mod sockets;
pub mod steering;
pub mod storage;
pub mod surroundings;
pub mod sysfs;
pub mod tape;
pub mod topology;
pub mod tree;
pub mod units;
pub mod workload;
pub mod writeback;
