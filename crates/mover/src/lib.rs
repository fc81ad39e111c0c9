//! The sans-I/O core of file transfer: source, sink, wire format, journal and filters.
//!
//! Nothing here opens a file or socket, reads a clock or starts a thread. A driver performs the
//! I/O; this crate consumes bytes and events and returns bytes and decisions, so that tests can
//! control every step.
//!
//! Data from the peer is untrusted: every type that it can fill checks its invariants on
//! construction, and every length is checked against a limit before anything is stored.
//!
//! [`source::Source`] and [`sink::Sink`] are the two sides of a transfer. [`drive::drive`] connects
//! one of them to a [`Port`](port::Port), which performs the operations. Every port passes the
//! checks of [`conformance`]; [`simulator`] has a file system for tests.

pub mod accounts;
mod acl;
pub mod chunk;
pub mod compression;
pub mod conformance;
pub mod drive;
pub mod entry;
pub mod extent;
pub mod filter;
pub mod hash;
mod hash_queue;
pub mod journal;
pub mod mode_changes;
pub mod name;
mod name_set;
mod own_files;
pub mod port;
pub mod report;
pub mod shard;
pub mod simulator;
pub mod sink;
pub mod source;
mod unpreserved;
pub mod wire;

#[cfg(test)]
mod testing;
