//! Linux backend: the only crate of numaio with system calls and `unsafe` code.
//!
//! It reads files below a root ([`Root`]), runs workloads on pinned threads over bound memory,
//! resolves handles and changes settings ([`Kernel`]), copies to GPUs ([`cuda`]), starts programs
//! ([`launch`]), writes files atomically ([`user_files`]) and handles signals ([`interrupt`]).

pub mod affinity;
pub mod child_group;
mod control;
pub mod copy;
pub mod cuda;
pub mod interrupt;
pub mod io;
mod kernel;
pub mod launch;
mod loads;
mod locate;
pub mod memory;
mod probe;
pub mod process;
pub mod random;
mod root;
pub mod stream;
pub mod terminal;
#[cfg(test)]
mod test_support;
mod tool;
pub mod user_files;
pub mod wait;

pub use kernel::Kernel;
pub use locate::rtnetlink;
pub use root::Root;

/// Returns the size of a base page in bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}
