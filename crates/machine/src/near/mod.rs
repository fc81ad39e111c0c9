//! Resolution of user-supplied handles to devices and their nodes.
//!
//! [`resolve`] follows a [`Handle`] through bonds and bridges, volumes and RAID, mounts and routes
//! down to devices. It records every step with its source and value. An unresolvable part is a
//! finding, never an error.

mod block;
mod chain;
mod fabric;
mod file;
mod gpu;
mod handle;
mod host;
mod mounts;
mod names;
mod net;
mod process;
mod servers;
mod sockets;
mod walk;

pub use handle::{Handle, InvalidHandle};

use crate::devices::{DeviceKind, PciAddress};
use crate::findings::Finding;
use crate::ids::NodeId;
use crate::locate::Locate;
use crate::set::NodeSet;
use crate::sysfs::Sysfs;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};

/// Rule of the finding for a name that does not exist on the machine.
pub const RULE_UNKNOWN: &str = "near-unknown";

/// Rule of the finding for missing permission.
pub const RULE_DENIED: &str = "near-denied";

/// The machine on which handles are resolved.
#[derive(Clone, Copy)]
pub struct ResolveContext<'a> {
    /// Its files.
    pub root: &'a dyn Sysfs,
    /// Answers for what no file contains.
    pub locate: &'a dyn Locate,
    /// Its devices and nodes.
    pub topology: &'a Topology,
}

/// The devices and nodes of a handle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
pub struct Step {
    /// Index of the parent step; `None` for the first.
    pub from: Option<usize>,
    /// Name of the step: `dm-3`, `xfs on /dev/mapper/vg-data`, `0000:3b:00.0`, `node 1`.
    pub what: String,
    /// Source of the step: a file, or a query to the kernel.
    #[serde(rename = "looked_at")]
    pub source: String,
    /// Value that the source contained.
    #[serde(rename = "said")]
    pub value: String,
}

/// A device to which a handle resolves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearDevice {
    /// Its index in [`Topology::devices`].
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

/// Resolves a handle; never fails, because unresolvable parts become findings.
pub fn resolve(ground: ResolveContext<'_>, handle: &Handle) -> Resolved {
    let mut walk = walk::Walk::new(ground);
    match handle {
        Handle::Pci(address) => names::pci(&mut walk, *address),
        Handle::Name(name) => names::name(&mut walk, name),
        Handle::Path(path) => walk.start(walk::Resource::Path(path.clone())),
        Handle::Host { name, .. } => walk.start(walk::Resource::Host(name.clone())),
        Handle::Cuda(number) => gpu::cuda(&mut walk, *number),
        Handle::Gpu(uuid) => gpu::uuid(&mut walk, uuid),
        Handle::Process(pid) => walk.start(walk::Resource::Process(*pid)),
    }
    walk.finish(handle)
}
