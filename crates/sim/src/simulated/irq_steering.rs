//! Changes of interrupt and packet steering, with the kernel's checks
//! (`Documentation/core-api/irq/irq-affinity.rst`, `Documentation/networking/scaling.rst`).

use crate::render;
use numaio_machine::control::{Change, ControlError};
use numaio_machine::set::CpuSet;
use numaio_machine::steering;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::tree::Tree;

/// Applies a change to the tree, and returns the change that reverts it.
pub(super) fn apply(change: &Change, online: &CpuSet, tree: &mut Tree) -> Result<Change, ControlError> {
    let refused = |why: &str| ControlError::Refused { what: change.to_string(), why: why.to_owned() };
    let (path, text) = steering::setting_file(change).ok_or_else(|| refused("No such file or directory"))?;
    let now = tree.text(&path).map_err(|_| refused("No such file or directory"))?;
    let before = steering::parse_setting(change, &now).ok_or_else(|| refused("Invalid argument"))?;
    match change {
        Change::IrqAffinity { irq, .. } if is_managed(tree, *irq) => {
            return Err(ControlError::Unmovable { irq: *irq });
        }
        Change::IrqAffinity { irq, cpus } => {
            let goes_to = cpus.intersection(online).first().ok_or_else(|| refused("Invalid argument"))?;
            render::move_irq(*irq, cpus, goes_to, tree);
        }
        Change::RpsFlows { flows: number, .. } | Change::SockFlowEntries { entries: number }
            if !(*number == 0 || number.is_power_of_two()) =>
        {
            return Err(refused("the kernel takes powers of two"));
        }
        _ => drop(tree.file(&path, format!("{text}\n"))),
    }
    Ok(before)
}

fn is_managed(tree: &Tree, irq: u32) -> bool {
    let name = tree.optional(&render::actions(irq));
    name.is_some_and(|name| steering::is_managed_by_driver(&name))
}
