//! I/O engines: each creates the workload of a cell and interprets its outcome.
//!
//! The choice and order of cells and the number of visits are common to all engines
//! ([`crate::io`]).

mod builtin;
mod cuda;
mod fio;
pub mod iperf3;
pub mod nvbandwidth;
pub mod perftest;
pub mod perftest_latency;
pub mod remote;
mod several;
mod tcp;
mod tool;
mod visit;

pub(crate) use builtin::streams;
pub use builtin::{Disk, Null};
pub use cuda::Cuda;
pub use fio::Fio;
pub use iperf3::Iperf3;
pub use nvbandwidth::Nvbandwidth;
pub use perftest::Perftest;
pub use remote::{RemoteEnd, RemotePlacement};
pub use several::Several;
pub use tcp::Tcp;
pub use tool::{failed, tool_outcome, version_of};
pub use visit::{CellRequest, Engine, VisitFigures};
