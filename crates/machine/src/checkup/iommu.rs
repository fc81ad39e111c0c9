//! Costs of IOMMU translation (`Documentation/ABI/testing/sysfs-kernel-iommu_groups`).

use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::findings::matters;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;

pub(super) fn symptoms(root: &dyn Sysfs, topology: &Topology) -> Vec<Symptom> {
    let devices = topology.devices.iter().enumerate().filter(|(_, device)| matters(device));
    devices.filter_map(|(index, _)| symptom(root, topology, index)).collect()
}

fn symptom(root: &dyn Sysfs, topology: &Topology, index: usize) -> Option<Symptom> {
    let device = topology.devices.get(index)?;
    let group = root.resolve(&format!("/sys/bus/pci/devices/{}/iommu_group", device.pci?)).ok()?;
    let file = format!("{group}/type");
    let kind = root.optional(&file)?;
    let lazy =
        "Invalidate mappings in batches (iommu.strict=0 on the kernel command line for all devices), or \
                bypass the IOMMU if no virtual machine uses devices (iommu.passthrough=1).";
    let (severity, rule, what, remedy, fix) = match kind.as_str() {
        "DMA" => (
            Severity::Warning,
            "iommu-strict",
            "The IOMMU invalidates each mapping at the end of its transfer, which delays small requests.",
            lazy,
            Fix {
                commands: vec![format!("echo DMA-FQ > {file}")],
                // The kernel does not allow the reverse change while a driver is bound.
                undo: Vec::new(),
            },
        ),
        "DMA-FQ" => (
            Severity::Note,
            "iommu-translates",
            "The IOMMU translates every transfer.",
            "Bypass it if no virtual machine uses devices: iommu.passthrough=1 on the kernel command line.",
            Fix::none(),
        ),
        _ => return None,
    };
    Some(Symptom {
        finding: Finding::new(
            severity,
            rule,
            device.distinct_name(&topology.devices),
            what,
            format!("{file}: {kind}"),
            remedy,
        ),
        device: Some(index),
        target: device.locality.node,
        effect: Effect::Unquantified(
            "measure the device before and after with numaio bench; copies do not show it".to_owned(),
        ),
        fix,
    })
}
