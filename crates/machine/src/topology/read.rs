//! Reading a topology.

use super::Topology;
use crate::sysfs::Sysfs;

/// Reads nodes, CPUs, memory, caches, distances and confinement; leaves out devices.
pub fn read(_root: &dyn Sysfs) -> Topology {
    Topology::default()
}

/// 16 hexadecimal digits over what the machine is made of; see [`super::Identity::fingerprint`].
pub fn fingerprint(_topology: &Topology) -> String {
    String::new()
}
