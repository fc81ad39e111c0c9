//! This Linux kernel.
//!
//! Here stand the only system calls and the only `unsafe` code of numaio: reading files below a root
//! ([`Root`]), running workloads on pinned threads over bound memory, locating what people name and changing settings
//! ([`Kernel`]), GPUs ([`cuda`]), other programs, confinement of this one ([`confine`]), signals ([`interrupt`]) and the terminal's width ([`terminal`]).

pub mod accounts;
pub mod affinity;
pub mod apart;
pub mod confine;
mod control;
pub mod copy;
pub mod cuda;
pub mod files;
pub mod interrupt;
pub mod io;
mod kernel;
pub mod launch;
mod loads;
mod locate;
mod memory;
pub mod port;
mod probe;
pub mod process;
pub mod random;
mod root;
pub mod stream;
pub mod terminal;
#[cfg(test)]
mod test_support;
mod tool;
pub mod wait;

pub use kernel::Kernel;
pub use locate::rtnetlink;
pub use root::Root;

/// Size of a base page in bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}
