//! Symptoms that cost I/O bandwidth on a machine, with their evidence, effect and fix.
//!
//! [`check`] extends the findings of [`crate::findings`] by checks of settings, memory, queues and
//! control groups. It does not compute costs, which requires measurements.

mod confinement;
mod findings;
mod guests;
mod iommu;
mod memory;
mod multipath;
mod processors;
mod programs;
mod resctrl;
mod settings;
mod shell;
mod stacks;
mod steering;
mod symptom;

pub use guests::guest_symptoms;
pub use programs::{remote_programs, Program};
pub use stacks::{split_stack, stacks};
pub use symptom::{Effect, Fix, Symptom};

use crate::conditions::Conditions;
use crate::sysfs::Sysfs;
use crate::topology::Topology;

/// Checks a machine for symptoms; unreadable files produce none.
pub fn check(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Vec<Symptom> {
    let mut found = findings::symptoms(root, topology, conditions);
    found.extend(settings::symptoms(root, topology, conditions));
    found.extend(processors::symptoms(root, conditions));
    found.extend(memory::symptoms(root, topology));
    found.extend(steering::symptoms(root, topology));
    found.extend(iommu::symptoms(root, topology));
    found.extend(confinement::symptoms(topology));
    found.extend(multipath::symptoms(root, topology));
    found.extend(resctrl::symptoms(root));
    if topology.surroundings.container.is_some() {
        found.iter_mut().for_each(on_the_host);
    }
    found
}

/// Adds to a remedy with commands that they are for the host, since a container may not change the
/// kernel.
fn on_the_host(symptom: &mut Symptom) {
    if !symptom.fix.commands.is_empty() {
        symptom.finding.remedy = format!("On the container's host: {}", symptom.finding.remedy);
    }
}
