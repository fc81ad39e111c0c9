//! What an IOMMU does to each transfer (`Documentation/ABI/testing/sysfs-kernel-iommu_groups`).

use super::{finding, Effect, Fix, Symptom};
use crate::findings::{matters, Severity};
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
    let lazy = "Let mappings be taken back in batches (iommu.strict=0 on the kernel's command line does it for all), or \
                pass the IOMMU by where no virtual machine gets a device (iommu.passthrough=1).";
    let (severity, rule, what, remedy, fix) = match kind.as_str() {
        "DMA" => (
            Severity::Warning,
            "iommu-strict",
            "The IOMMU takes every mapping back as soon as its transfer ends: small requests wait for it.",
            lazy,
            Fix {
                commands: vec![format!("echo DMA-FQ > {file}")],
                // The kernel lets nobody go back while a driver is bound.
                undo: Vec::new(),
            },
        ),
        "DMA-FQ" => (
            Severity::Note,
            "iommu-translates",
            "The IOMMU translates every transfer.",
            "Pass it by where no virtual machine gets a device: iommu.passthrough=1 on the kernel's command line.",
            Fix::none(),
        ),
        _ => return None,
    };
    Some(Symptom {
        finding: finding(
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
            "numaio bench, of the device, before and after, shows it; copies do not".to_owned(),
        ),
        fix,
    })
}
