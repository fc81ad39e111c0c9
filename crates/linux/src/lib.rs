//! Linux backend: measures and changes this machine by system calls.
//!
//! [`Kernel`] reads sysfs below a [`Root`], runs workloads on pinned threads over bound [`memory`],
//! resolves handles and changes settings. Its workloads are [`copy`], [`stream`] and latency loops,
//! [`io`] streams and copies to GPUs ([`cuda`]). [`launch`] starts programs with a binding,
//! [`process`] and [`child_group`] signal and await them, [`supervisor`] outlives a child that
//! cannot exit, [`ssh_command`] starts numaio on other hosts, [`user_files`] writes files
//! atomically, and [`interrupt`] handles signals.
//!
//! `numaio-mover-linux` transfers files with [`affinity`], [`interrupt`], [`memory`], [`process`],
//! [`random`] and the parts of [`io`] that know disks and rings.

pub mod affinity;
pub mod child_group;
mod clock;
mod control;
pub mod copy;
mod counted;
mod counters;
pub mod cuda;
mod ethtool;
mod group_guard;
mod guest_control;
pub mod guest_monitor;
mod hot_pages;
pub mod interrupt;
pub mod io;
pub mod journal;
mod kernel;
pub mod launch;
mod loads;
pub mod local_time;
mod locate;
pub mod memory;
mod mmio;
mod probe;
pub mod process;
mod program;
pub mod random;
mod refusal;
mod relocation;
mod root;
pub mod socket_diag;
pub mod ssh_command;
pub mod stream;
pub mod supervisor;
pub mod terminal;
#[cfg(test)]
mod test_support;
mod tool;
pub mod user_files;
pub mod wait;

pub use hot_pages::IdlePages;
pub use kernel::Kernel;
pub use locate::rtnetlink;
pub use root::Root;
