//! Renders a machine as Linux presents it: /sys and /proc as a tree of files.
//!
//! Follows the kernel's documents (`Documentation/ABI/stable/sysfs-devices-node`,
//! `.../stable/sysfs-devices-system-cpu`, `.../testing/sysfs-devices-system-cpu`,
//! `.../testing/sysfs-bus-pci`, `Documentation/filesystems/proc.rst`), not the parsers that read
//! it.

mod classes;
mod cpus;
mod directory;
mod irqs;
mod memory;
mod nodes;
mod pci;
pub(crate) mod proc;
pub(crate) mod usage;

pub(crate) use irqs::{actions, move_irq};

use crate::spec::Spec;
use numaio_machine::tree::Tree;

/// Returns the files of a machine one hour after its boot.
/// The description must pass [`Spec::check`]; otherwise the files are meaningless.
pub fn render(spec: &Spec) -> Tree {
    debug_assert_eq!(spec.check(), Ok(()));
    let mut tree = Tree::new();
    nodes::render(spec, &mut tree);
    memory::render(spec, &mut tree);
    cpus::render(spec, &mut tree);
    let irqs = irqs::of_devices(spec);
    pci::render(spec, &irqs, &mut tree);
    irqs::render(spec, &irqs, &mut tree);
    proc::render(spec, &mut tree);
    usage::render(spec, &usage::Usage::at_boot(spec), &mut tree);
    tree
}
