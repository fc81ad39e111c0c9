//! A machine's nodes, CPUs, memory, caches and distances, and the part that this process may use.

mod caches;
pub(crate) mod cgroup;
mod confinement;
mod conflicts;
mod core_kinds;
pub(crate) mod cpuinfo;
mod cpus;
mod distances;
mod files;
mod fingerprint;
mod hmat;
mod identity;
mod isolation;
pub(crate) mod kernel_options;
mod kinds;
mod memory;
mod nodes;
pub(crate) mod offline_memory;
mod parts;
mod quota;
mod read;

pub use confinement::memory_left_bytes;
pub(crate) use files::{CPUS, NODES};
pub use fingerprint::fingerprint;
pub use identity::hostname;
pub(crate) use nodes::linked_cpus;
pub use parts::{
    Access, Cache, Confinement, CoreKind, Cpu, CpuQuota, Distances, HugePages, Identity, Memory,
    MemorySideCache, Node, Topology,
};
pub use quota::{cpu_throttling, CpuThrottling};
pub(crate) use read::{listed_cpus, read_with};
pub use read::{outline, read};
