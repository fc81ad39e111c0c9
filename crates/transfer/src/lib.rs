//! Transfers of files within and between hosts, for programs that copy.
//!
//! It starts numaio on other hosts ([`ssh`]), authenticates users and daemons ([`keys`]), and
//! records transfers ([`jobs`]). It prints nothing: errors are [`TransferError`], and lines of
//! other processes go to a sink of the caller.

mod error;
pub mod jobs;
pub mod keys;
pub mod ssh;

pub use error::TransferError;
