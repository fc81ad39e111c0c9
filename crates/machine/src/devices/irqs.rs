//! Interrupts of devices (`Documentation/core-api/irq/irq-affinity.rst`,
//! `Documentation/ABI/testing/sysfs-bus-pci`, `msi_irqs`; /proc/interrupts as `kernel/irq/proc.c` writes it).

use super::Irq;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::HashMap;

/// Most interrupts that are read of one device; MSI-X has 2,048 vectors.
const MOST_IRQS: usize = 2048;

/// Names of interrupts by number, from the text of /proc/interrupts. Those without a handler have no name.
pub(super) fn parse_interrupts(text: &str) -> HashMap<u32, String> {
    let mut lines = text.lines();
    let cpus =
        lines.next().unwrap_or_default().split_whitespace().filter(|word| word.starts_with("CPU")).count();
    lines.filter_map(|line| parse_line(line, cpus)).collect()
}

/// `36:  0  94843  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`: number, a count for each CPU, then chip,
/// hardware number, trigger, and after two blanks the names of the handlers.
fn parse_line(line: &str, cpus: usize) -> Option<(u32, String)> {
    let (number, mut rest) = line.trim_start().split_once(':')?;
    let number = number.parse().ok()?;
    for _ in 0..cpus {
        let (count, after) = rest.trim_start().split_once(' ')?;
        count.parse::<u64>().ok()?;
        rest = after;
    }
    let (chip, name) = rest.trim().rsplit_once("  ")?;
    let trigger = ["-edge", "-level", "-fasteoi", "Edge", "Level"];
    let is_trigger = trigger.iter().any(|end| name.ends_with(end)) && !chip.contains("  ");
    (!is_trigger).then(|| (number, name.trim().to_owned()))
}

/// The interrupts of the PCI function at `path`, by ascending number.
pub(super) fn read(root: &dyn Sysfs, path: &str, bound: bool, names: &HashMap<u32, String>) -> Vec<Irq> {
    let mut numbers: Vec<u32> =
        root.names(&format!("{path}/msi_irqs")).iter().filter_map(|name| name.parse().ok()).collect();
    // Without a driver the legacy line is nobody's, or that of another device which shares it.
    if numbers.is_empty() && bound {
        let legacy = root.value::<u32>(&format!("{path}/irq")).ok().filter(|number| *number > 0);
        numbers.extend(legacy);
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers.truncate(MOST_IRQS);
    numbers.into_iter().map(|number| one(root, number, names)).collect()
}

fn one(root: &dyn Sysfs, number: u32, names: &HashMap<u32, String>) -> Irq {
    let list = |file: &str| CpuSet::parse_list(&root.optional(&format!("/proc/irq/{number}/{file}"))?).ok();
    let mask = || CpuSet::parse_mask(&root.optional(&format!("/proc/irq/{number}/smp_affinity"))?).ok();
    Irq {
        number,
        name: names.get(&number).cloned().unwrap_or_default(),
        affinity: list("smp_affinity_list").or_else(mask).unwrap_or_default(),
        effective: list("effective_affinity_list").filter(|cpus| !cpus.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_after_the_trigger_on_both_architectures() {
        let text = "           CPU0       CPU1       \n \
            24:          1          0  IO-APIC   5-edge      ACPI:Ged\n \
            36:          0      94843 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n \
            37:          0          7  PCI-MSI 524289-edge      mlx5_comp0@pci:0000:3b:00.0\n \
            38:          0          7   ITS-MSI 524288 Edge      nvme0q0, nvme0q1\n \
            39:          0          7     GICv3  27 Level     arch_timer\n \
            40:          0          1 PCI-MSIX-0000:00:02.0   2-edge\n\
            NMI:          0          0   Non-maskable interrupts\n\
            ERR:          0\n";
        let mut names: Vec<(u32, String)> = parse_interrupts(text).into_iter().collect();
        names.sort();
        let expected = [
            (24, "ACPI:Ged"),
            (36, "virtio1-req.0"),
            (37, "mlx5_comp0@pci:0000:3b:00.0"),
            (38, "nvme0q0, nvme0q1"),
            (39, "arch_timer"),
        ];
        assert_eq!(names, expected.map(|(number, name)| (number, name.to_owned())));
    }

    #[test]
    fn what_is_no_table_of_interrupts_has_no_names() {
        for text in ["", "CPU0", "CPU0\n1:", "CPU0\n1: 5", "CPU0\n1: x  y  z", ":::\n::"] {
            assert!(parse_interrupts(text).is_empty(), "{text:?}");
        }
    }
}
