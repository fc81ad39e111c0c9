//! Findings: suspicious conditions of a machine, reported in addition to the values that could be
//! read.

mod irqs;
mod links;
mod nodes;
mod settings;

pub(crate) use links::loss as link_loss;

use crate::conditions::Conditions;
use crate::devices::{Device, DeviceKind};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};

/// Importance of a finding for I/O bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Informative; no cost by itself.
    Note,
    /// Likely costs bandwidth, or makes measurements unreliable.
    Warning,
    /// Certainly costs bandwidth, or the machine's description is inconsistent.
    Problem,
}

/// A suspicious condition with its evidence and remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Importance.
    pub severity: Severity,
    /// Rule that produced it, stable across versions: `pcie-link-degraded`.
    pub rule: String,
    /// Affected object: `node 3`, `eth0`, `0000:3b:00.0`, `machine`.
    pub subject: String,
    /// One sentence that describes it.
    pub what: String,
    /// Files and values that show it.
    pub evidence: String,
    /// Suggested action.
    pub remedy: String,
}

/// Returns the findings about devices and settings.
///
/// [`crate::topology::read`] produces those about the nodes themselves.
pub fn find(topology: &Topology, conditions: &Conditions) -> Vec<Finding> {
    let mut found = Vec::new();
    // A hypervisor emulates the ports above a device and hides its slot.
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

/// Vendors of display adapters without data transfers: management controllers (ASPEED, Matrox) and
/// virtual machines (Cirrus, Bochs, Red Hat, VMware, virtio).
const PLAIN_DISPLAYS: [u16; 7] = [0x1a03, 0x102b, 0x1013, 0x1234, 0x1b36, 0x15ad, 0x1af4];

/// Returns whether the location of a device matters: it moves data, and is neither a firmware
/// display nor a controller without disks.
pub(crate) fn matters(device: &Device) -> bool {
    let vendor = device.ids.map(|(vendor, _)| vendor);
    match device.kind {
        DeviceKind::Bridge => false,
        DeviceKind::Gpu => !vendor.is_some_and(|vendor| PLAIN_DISPLAYS.contains(&vendor)),
        DeviceKind::StorageController => !device.names.is_empty(),
        _ => true,
    }
}
