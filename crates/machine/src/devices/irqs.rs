//! Interrupts of devices (`Documentation/core-api/irq/irq-affinity.rst`,
//! `Documentation/ABI/testing/sysfs-bus-pci`, `msi_irqs`; /proc/interrupts as `kernel/irq/proc.c` writes it).

use super::Irq;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::HashMap;

/// Most interrupts that are read of one device; MSI-X has 2,048 vectors.
const MAX_IRQS: usize = 2048;

/// Names of the handlers of interrupts, by number, as /proc/interrupts tells them; those without a handler have none.
pub fn interrupt_names(root: &dyn Sysfs) -> HashMap<u32, String> {
    root.optional("/proc/interrupts").map(|text| parse_interrupts(&text)).unwrap_or_default()
}

/// Names of interrupts by number, from the text of /proc/interrupts. Those without a handler have no name.
fn parse_interrupts(text: &str) -> HashMap<u32, String> {
    text.lines().filter_map(parse_line).collect()
}

/// `36:  0  94843  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`: number, a count for each CPU, then chip,
/// hardware number, trigger, and after two blanks the names of the handlers. Read from the right, as there may be
/// a thousand counts.
fn parse_line(line: &str) -> Option<(u32, String)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim_start().parse().ok()?;
    let (_, name) = rest.trim_end().rsplit_once("  ")?;
    let name = name.trim_start();
    // Without a handler, the line ends with the hardware number and the trigger, or with a count.
    let end = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_trigger = end.is_empty() || (end.len() < name.len() && TRIGGERS.contains(&end));
    (!is_trigger).then(|| (number, name.to_owned()))
}

/// What stands after the hardware number: with a hyphen where the handler of the flow has a name, by itself on
/// aarch64.
const TRIGGERS: [&str; 5] = ["-edge", "-level", "-fasteoi", " Edge", " Level"];

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
    numbers.truncate(MAX_IRQS);
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
            41:          0          1   GICv3  27 Level\n\
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
        for text in ["", "CPU0", "CPU0\n1:", "CPU0\n1: 5", "CPU0\n1:  7  5", "x: 1  y  z", ":::\n::"] {
            assert!(parse_interrupts(text).is_empty(), "{text:?}");
        }
    }
}
