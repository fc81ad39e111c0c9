//! Near what? Handles that people hold, resolved to devices and their nodes.
//!
//! A [`Handle`] is what was typed. [`resolve`] follows it, through bonds and bridges, volumes and RAID, mounts and
//! routes, down to devices, and keeps every step with what was looked at and what that said. Where it leads no
//! further is a finding, never an error.

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

/// Rule of the finding that nothing has the name that was typed.
pub const RULE_UNKNOWN: &str = "near-unknown";

/// Rule of the finding that we have no right to look.
pub const RULE_DENIED: &str = "near-denied";

/// The machine on which handles are resolved.
#[derive(Clone, Copy)]
pub struct ResolveContext<'a> {
    /// Its files.
    pub root: &'a dyn Sysfs,
    /// Who answers what no file tells.
    pub locate: &'a dyn Locate,
    /// Its devices and nodes.
    pub topology: &'a Topology,
}

/// What a handle stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// The handle, as text.
    pub handle: String,
    /// How it was resolved: a tree, each step after the one it comes from.
    pub chain: Vec<Step>,
    /// The devices it leads to, each once, in the order in which they were reached.
    pub devices: Vec<NearDevice>,
    /// Their nodes, ascending.
    pub nodes: Vec<NearNode>,
    /// Where it led no further, and what else must be known.
    pub findings: Vec<Finding>,
}

/// One step on the way from a handle to devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Index of the step it comes from; none for the first.
    pub from: Option<usize>,
    /// What was reached: `dm-3`, `xfs on /dev/mapper/vg-data`, `0000:3b:00.0`, `node 1`.
    pub what: String,
    /// What was looked at to get here: a file, or a question to the kernel.
    #[serde(rename = "looked_at")]
    pub source: String,
    /// What that said.
    #[serde(rename = "said")]
    pub value: String,
}

/// A device near which a handle is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearDevice {
    /// Its index in [`Topology::devices`].
    pub index: usize,
    /// Index of its step in the chain, by the first of the ways that lead to it.
    pub step: usize,
    /// Its name for people.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its PCI address.
    pub pci: Option<PciAddress>,
    /// Share of the handle's I/O, from 0 to 1, if that divides evenly where the way divides (by speed where several
    /// network interfaces carry it): a RAID's members, a bond's. 0 for one that stands by. The shares of all devices
    /// sum to less than 1 where some I/O leads to no device.
    pub share: f64,
    /// Nodes it is nearest to, mostly one; none if the kernel does not tell.
    pub nodes: NodeSet,
}

/// A node that devices of a handle hang on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NearNode {
    /// The node.
    pub node: NodeId,
    /// Sum of its devices' shares.
    pub share: f64,
}

impl Resolved {
    /// Whether nothing on the machine has the name that was typed.
    pub fn is_unknown(&self) -> bool {
        self.chain.len() <= 1 && self.findings.iter().any(|finding| finding.rule == RULE_UNKNOWN)
    }
}

/// Resolves a handle. Never fails: what leads nowhere stands among the findings.
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
