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
    /// Share of the handle's I/O, from 0 to 1; `None` if the kernel does not promise it.
    ///
    /// 0 for a member that carries nothing now, such as a spare or a standby. The shares sum to
    /// less than 1 if some I/O reaches no device. Of a process: the share of its open files and
    /// connections.
    pub share: Option<f64>,
    /// Nearest nodes, usually one; empty if the kernel does not report them.
    pub nodes: NodeSet,
}

/// A node of the devices that carry a handle's I/O.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NearNode {
    /// The node.
    pub node: NodeId,
    /// Sum of the shares of its devices; `None` if unknown. It can be known without those of the
    /// devices: if all are on this node.
    pub share: Option<f64>,
}

impl NearDevice {
    /// Returns whether it carries I/O now, as far as the kernel reports it.
    pub fn carries(&self) -> bool {
        self.share.is_none_or(|share| share > 0.0)
    }
}

impl Resolved {
    /// Returns the devices that carry I/O; a single device always counts.
    pub fn carrying(&self) -> impl Iterator<Item = &NearDevice> {
        self.devices.iter().filter(|device| device.carries() || self.devices.len() == 1)
    }

    /// Divides the handle's I/O among the devices that carry it, as an estimate: by their shares,
    /// and evenly what devices without a known share get. Pairs of device index and part; the parts
    /// sum to 1 unless there are none.
    pub fn estimated_parts(&self) -> Vec<(usize, f64)> {
        let carrying: Vec<&NearDevice> = self.carrying().collect();
        let known: f64 = carrying.iter().filter_map(|device| device.share).sum();
        let unknown = carrying.iter().filter(|device| device.share.is_none()).count();
        let rest = (1.0 - known).max(0.0) / unknown.max(1) as f64;
        let part = |device: &&NearDevice| device.share.unwrap_or(rest).max(f64::MIN_POSITIVE);
        let sum: f64 = carrying.iter().map(part).sum();
        carrying.iter().map(|device| (device.index, part(device) / sum)).collect()
    }

    /// Returns whether the machine has nothing with the handle's name.
    pub fn is_unknown(&self) -> bool {
        self.chain.len() <= 1 && self.findings.iter().any(|finding| finding.rule == RULE_UNKNOWN)
    }
}
