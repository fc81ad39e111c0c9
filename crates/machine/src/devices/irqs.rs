//! Interrupts of devices (`Documentation/core-api/irq/irq-affinity.rst`,
//! `Documentation/ABI/testing/sysfs-bus-pci`, `msi_irqs`; /proc/interrupts from
//! `kernel/irq/proc.c`).

use super::device::Irq;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::HashMap;

/// Maximum number of interrupts to read per device; MSI-X has 2,048 vectors.
const MAX_IRQS: usize = 2048;

/// Reads the names of interrupt handlers in /proc/interrupts by number, without unused interrupts.
pub fn interrupt_names(root: &dyn Sysfs) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    // A line has a count for each CPU, so that the file of a large machine has many megabytes.
    let done =
        root.lines("/proc/interrupts", &mut |line| names.extend(parse_line(&String::from_utf8_lossy(line))));
    done.map(|()| names).unwrap_or_default()
}

/// Parses a line such as `36:  0  94843  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`.
///
/// The fields are the number, a count for each CPU, chip, hardware number, trigger, and after two
/// blanks the handlers' names. The line is parsed from the right, because it can contain a thousand
/// counts.
fn parse_line(line: &str) -> Option<(u32, String)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim_start().parse().ok()?;
    let (_, name) = rest.trim_end().rsplit_once("  ")?;
    let name = name.trim_start();
    // Without a handler, the line ends with the hardware number and trigger, or with a count.
    let end = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_trigger = end.is_empty() || (end.len() < name.len() && TRIGGERS.contains(&end));
    (!is_trigger).then(|| (number, name.to_owned()))
}

/// Returns the text after the hardware number: separated by a hyphen if the flow handler has a
/// name, by blanks on aarch64.
const TRIGGERS: [&str; 5] = ["-edge", "-level", "-fasteoi", " Edge", " Level"];

/// Reads the interrupts of the PCI function at `path`, by ascending number.
pub(super) fn read(root: &dyn Sysfs, path: &str, bound: bool, names: &HashMap<u32, String>) -> Vec<Irq> {
    let mut numbers: Vec<u32> =
        root.names(&format!("{path}/msi_irqs")).iter().filter_map(|name| name.parse().ok()).collect();
    // Without a driver the legacy interrupt is unused, or used by another device that shares it.
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
    fn parses_handler_names_on_x86_and_aarch64() {
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
        let mut names: Vec<(u32, String)> = text.lines().filter_map(parse_line).collect();
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
    fn parses_no_names_from_other_text() {
        for text in ["", "CPU0", "CPU0\n1:", "CPU0\n1: 5", "CPU0\n1:  7  5", "x: 1  y  z", ":::\n::"] {
            assert_eq!(text.lines().find_map(parse_line), None, "{text:?}");
        }
    }
}
