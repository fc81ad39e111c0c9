//! File transfer without I/O: what a transfer names, says, cuts, remembers and leaves out.
//!
//! Nothing here opens a file or a socket, reads a clock or starts a thread. A driver reads and writes; this
//! crate takes bytes and gives back bytes and decisions, so that it can be tested to the last bit.
//!
//! What comes from the other side is not trusted: every type that it can fill checks its invariants when it
//! is made, and every length has a limit that is checked before anything is stored.
//!
//! [`source::Source`] and [`sink::Sink`] are the two sides of a transfer. [`drive::drive`] joins one of them to a
//! [`Port`](numaio_machine::port::Port).

pub mod accounts;
mod acl;
pub mod chunk;
pub mod drive;
pub mod entry;
pub mod extent;
pub mod filter;
pub mod hash;
pub mod journal;
pub mod name;
mod name_set;
mod own_files;
pub mod compression;
pub mod report;
pub mod sink;
pub mod source;
mod hash_queue;
pub mod wire;

#[cfg(test)]
mod testing;
