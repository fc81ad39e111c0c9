//! Symptoms that cost I/O bandwidth on a machine, with their evidence, effect and fix.
//!
//! [`check`] extends the findings of [`crate::findings`] by checks of settings, memory, queues and
//! control groups. It does not compute costs, which requires measurements.

mod confinement;
mod findings;
mod iommu;
mod memory;
mod processors;
mod programs;
mod settings;
mod shell;
mod stacks;
mod steering;
mod symptom;

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
    found
}
