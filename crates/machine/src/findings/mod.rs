//! Findings: suspicious conditions of a machine, reported in addition to the values that could be
//! read.

mod irqs;
mod layout;
mod links;
mod nodes;
mod relevance;
mod resources;
mod settings;

pub use crate::finding::{Finding, Severity};
pub(crate) use links::loss as link_loss;
pub(crate) use relevance::matters;

use crate::conditions::Conditions;
use crate::devices::Device;
use crate::sysfs::Sysfs;
use crate::topology::Topology;

/// Returns the findings about nodes, CPUs and the part of them that this process may use.
///
/// [`crate::topology::read`] reports contradictions of the kernel's files.
pub fn find_in_resources(root: &dyn Sysfs, topology: &Topology) -> Vec<Finding> {
    let mut found = resources::incomplete_nodes(root, topology);
    found.extend(resources::confined(topology));
    found
}

/// Returns the findings about devices and settings.
///
/// [`find_in_resources`] returns those about the nodes themselves, and [`find_locality_conflicts`]
/// those that need a file of each device.
pub fn find(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Vec<Finding> {
    let mut found = layout::find(root, topology);
    // A hypervisor emulates the ports above a device and hides its slot.
    if !conditions.virtual_machine {
        found.extend(links::degraded(root, &topology.devices));
        found.extend(links::shared(&topology.devices));
    }
    found.extend(nodes::unknown(topology));
    found.extend(nodes::incomplete(topology));
    found.extend(nodes::one_package(topology));
    found.extend(irqs::foreign(root, topology));
    found.extend(irqs::crowded(root, topology));
    found.extend(settings::balancing(topology, conditions));
    found.extend(settings::throttled(topology, conditions));
    found.extend(settings::low_memory(topology));
    found
}

/// Returns the findings about those of some devices whose node contradicts their local CPUs.
pub fn find_locality_conflicts(root: &dyn Sysfs, topology: &Topology, devices: &[Device]) -> Vec<Finding> {
    nodes::conflicting(root, topology, devices)
}
