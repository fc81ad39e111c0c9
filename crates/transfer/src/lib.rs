//! Transfers of files within and between hosts: the copy product without its command line.
//!
//! A [`Transfer`](transfer::Transfer) is what the user requests. `run` chooses where it runs:
//! within this host (`local`), with one side on another host ([`remote`], which starts or connects
//! to a [`peer`]), or between two other hosts. A [`request`] describes it to both sides, and sets
//! up their directories, threads and buffers ([`placement`]). [`daemon`] serves clients without
//! ssh. [`bench_connections`] opens and authenticates the connections of `numaio bench net`.
//!
//! It prints nothing: errors are [`TransferError`] and [`DaemonError`](daemon::DaemonError), a
//! transfer reports events and notices to an [`Observer`](reporter::Observer), and lines of other
//! processes go to a sink of the caller. What needs a model of the machine is asked of a
//! [`Placer`](placement::Placer).

pub mod bench_connections;
mod block_bytes;
pub mod capacity;
pub mod changed_item;
pub mod choice;
pub mod daemon;
pub mod daemon_address;
mod deletion_pass;
pub mod endpoint;
pub mod entry_options;
mod error;
pub mod event;
pub mod file_list;
pub mod filters;
pub mod jobs;
pub mod json_lines;
pub mod keep_alive;
pub mod keys;
pub mod line;
mod local;
mod local_host;
pub mod network_options;
pub mod options;
pub mod paths;
pub mod peer;
pub mod placement;
pub mod remote;
pub mod reporter;
pub mod request;
pub mod restricted;
mod run;
mod shard_text;
pub mod ssh;
#[cfg(test)]
mod testing;
pub mod transfer;
pub mod transfer_records;

pub use error::TransferError;
