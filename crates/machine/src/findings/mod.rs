//! What looks wrong on a machine: a partial truth is a value plus findings, not an error.

mod irqs;
mod links;
mod nodes;
mod settings;

pub(crate) use links::loss as link_loss;

use crate::conditions::Conditions;
use crate::devices::{Device, DeviceKind};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};

/// How much a finding matters for I/O bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; costs nothing by itself.
    Note,
    /// Probably costs bandwidth, or makes measurements doubtful.
    Warning,
    /// Certainly costs bandwidth, or the machine's description is broken.
    Problem,
}

/// One thing that looks wrong, with what shows it and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Which rule found it, stable across versions, as in `pcie-link-degraded`.
    pub rule: String,
    /// What it is about: `node 3`, `eth0`, `0000:3b:00.0`, `machine`.
    pub subject: String,
    /// One sentence for people.
    pub what: String,
    /// The files and values that show it.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
}

/// Finds what looks wrong with the devices and settings of a machine. What is wrong with its nodes themselves
/// stands among the findings of [`crate::topology::read`].
pub fn find(topology: &Topology, conditions: &Conditions) -> Vec<Finding> {
    let mut found = Vec::new();
    // Behind a hypervisor the ports above a device are made up, and its slot cannot be seen.
    if !conditions.virtual_machine {
        found.extend(links::degraded(&topology.devices));
        found.extend(links::shared(&topology.devices));
    }
    found.extend(nodes::unknown(topology));
    found.extend(nodes::incomplete(topology));
    found.extend(nodes::one_package(topology));
    found.extend(irqs::foreign(topology));
    found.extend(settings::balancing(topology, conditions));
    found.extend(settings::low_memory(topology));
    found
}

/// Vendors of display adapters that move no data: of management controllers (ASPEED, Matrox) and of virtual
/// machines (Cirrus, Bochs, Red Hat, VMware, virtio).
const PLAIN_DISPLAYS: [u16; 7] = [0x1a03, 0x102b, 0x1013, 0x1234, 0x1b36, 0x15ad, 0x1af4];

/// Whether it matters where a device hangs: that it moves data, and is neither a display of the firmware's nor a
/// controller without disks.
pub(crate) fn matters(device: &Device) -> bool {
    let vendor = device.ids.map(|(vendor, _)| vendor);
    match device.kind {
        DeviceKind::Bridge => false,
        DeviceKind::Gpu => !vendor.is_some_and(|vendor| PLAIN_DISPLAYS.contains(&vendor)),
        DeviceKind::StorageController => !device.names.is_empty(),
        _ => true,
    }
}
