//! Near what? Handles that people hold, resolved to devices and their nodes.
//!
//! A [`Handle`] is what was typed. [`resolve`] follows it, through bonds and bridges, volumes and RAID, mounts and
//! routes, down to devices, and keeps every step with what was looked at and what that said. Where it leads no
//! further is a finding, never an error.

mod block;
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

pub use handle::{BadHandle, Handle};

use crate::devices::{DeviceKind, PciAddress};
use crate::findings::Finding;
use crate::ids::NodeId;
use crate::locate::Locate;
use crate::set::NodeSet;
use crate::sysfs::Sysfs;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::iter::successors;

/// Rule of the finding that nothing has the name that was typed.
pub const UNKNOWN: &str = "near-unknown";

/// The machine on which handles are resolved.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
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
    pub looked_at: String,
    /// What that said.
    pub said: String,
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
    /// The chain as one line, what lies side by side joined by commas:
    /// `/data -> xfs on /dev/sda1 -> sda1 -> sda -> 0000:3b:00.0 -> node 1`.
    pub fn line(&self) -> String {
        let mut levels: Vec<Vec<&str>> = Vec::new();
        let mut depths: Vec<usize> = Vec::with_capacity(self.chain.len());
        for step in &self.chain {
            let depth = step.from.and_then(|from| depths.get(from)).map_or(0, |depth| depth + 1);
            depths.push(depth);
            levels.resize_with(levels.len().max(depth + 1), Vec::new);
            let level = &mut levels[depth];
            if !level.contains(&step.what.as_str()) {
                level.push(&step.what);
            }
        }
        levels.iter().map(|level| level.join(", ")).collect::<Vec<String>>().join(" -> ")
    }

    /// The steps from the handle to one of its devices.
    pub fn way_to(&self, device: &NearDevice) -> Vec<&Step> {
        let next = |step: &&Step| step.from.and_then(|from| self.chain.get(from));
        let mut way: Vec<&Step> =
            successors(self.chain.get(device.step), next).take(self.chain.len()).collect();
        way.reverse();
        way
    }

    /// Whether nothing on the machine has the name that was typed.
    pub fn is_unknown(&self) -> bool {
        self.chain.len() <= 1 && self.findings.iter().any(|finding| finding.rule == UNKNOWN)
    }
}

/// Resolves a handle. Never fails: what leads nowhere stands among the findings.
pub fn resolve(ground: Ground<'_>, handle: &Handle) -> Resolved {
    let mut walk = walk::Walk::new(ground);
    match handle {
        Handle::Pci(address) => names::pci(&mut walk, *address),
        Handle::Name(name) => names::name(&mut walk, name),
        Handle::Path(path) => walk.begin(walk::Thing::Path(path.clone())),
        Handle::Host { name, .. } => walk.begin(walk::Thing::Host(name.clone())),
        Handle::Cuda(number) => gpu::cuda(&mut walk, *number),
        Handle::Gpu(uuid) => gpu::uuid(&mut walk, uuid),
        Handle::Process(pid) => walk.begin(walk::Thing::Process(*pid)),
    }
    walk.finish(handle)
}
