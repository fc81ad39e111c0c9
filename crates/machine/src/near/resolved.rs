//! The result of a resolution.

use crate::devices::{DeviceKind, PciAddress};
use crate::finding::Finding;
use crate::ids::NodeId;
use crate::set::NodeSet;
use serde::{Deserialize, Serialize};

/// Rule of the finding for a name that does not exist on the machine.
pub const RULE_UNKNOWN: &str = "near-unknown";

/// Rule of the finding for missing permission.
pub const RULE_DENIED: &str = "near-denied";

/// The devices and nodes of a handle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Resolved {
    /// The handle, as text.
    pub handle: String,
    /// The steps of the resolution: a tree, each step after its parent.
    pub chain: Vec<Step>,
    /// The devices of the handle, each once, in the order of resolution.
    pub devices: Vec<NearDevice>,
    /// Their nodes, ascending.
    pub nodes: Vec<NearNode>,
    /// Unresolvable parts and other remarks.
    pub findings: Vec<Finding>,
}

/// A step of the resolution from a handle to devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Index of the parent step; `None` for the first.
    pub from: Option<usize>,
    /// Name of the step: `dm-3`, `xfs on /dev/mapper/vg-data`, `0000:3b:00.0`, `node 1`.
    pub name: String,
    /// Source of the step: a file, or a query to the kernel.
    pub source: String,
    /// Value that the source contained.
    pub value: String,
}

/// A device to which a handle resolves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NearDevice {
    /// Its index in [`Topology::devices`](crate::topology::Topology::devices).
    pub index: usize,
    /// Index of its step in the chain, on the first path to the device.
    pub step: usize,
    /// Display name.
    pub name: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Its PCI address.
    pub pci: Option<PciAddress>,
    /// Share of the handle's I/O, from 0 to 1.
    ///
    /// Members of a RAID or a bond have equal shares, or shares by link speed for network
    /// interfaces. 0 for a standby device. The shares sum to less than 1 if some I/O reaches no
    /// device.
    pub share: f64,
    /// Nearest nodes, usually one; empty if the kernel does not report them.
    pub nodes: NodeSet,
}

/// A node of the devices of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NearNode {
    /// The node.
    pub node: NodeId,
    /// Sum of the shares of its devices.
    pub share: f64,
}

impl Resolved {
    /// Returns whether the machine has nothing with the handle's name.
    pub fn is_unknown(&self) -> bool {
        self.chain.len() <= 1 && self.findings.iter().any(|finding| finding.rule == RULE_UNKNOWN)
    }
}
