//! Bonds, RAIDs and volumes with members on several sockets.

use super::shell::option;
use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::ids::PackageId;
use crate::near::{Handle, Resolved};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;
use std::collections::BTreeSet;

/// Maximum number of stacked devices to resolve.
const MAX_STACKS: usize = 256;

/// Returns handles of stacked devices: bonds and teams (`Documentation/networking/bonding.rst`),
/// RAIDs and volumes (`/sys/block/md*`, `dm-*`).
pub fn stacks(root: &dyn Sysfs) -> Vec<Handle> {
    let is_bond = |name: &String| root.exists(&format!("/sys/class/net/{name}/bonding"));
    let bonds = root.names("/sys/class/net").into_iter().filter(is_bond);
    let is_volume = |name: &String| {
        let digits = name.strip_prefix("md").or_else(|| name.strip_prefix("dm-"));
        digits.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
    };
    let volumes = root.names("/sys/block").into_iter().filter(is_volume);
    bonds.chain(volumes).take(MAX_STACKS).map(Handle::Name).collect()
}

/// Reports a stack that spans sockets: part of its data always crosses between them.
pub fn split_stack(topology: &Topology, stack: &Resolved) -> Option<Symptom> {
    let carrying: Vec<_> = stack.devices.iter().filter(|device| device.carries()).collect();
    let mut packages: BTreeSet<PackageId> = BTreeSet::new();
    for device in &carrying {
        let node = topology.node(device.nodes.first()?)?;
        packages.extend(node.packages.first());
    }
    if packages.len() < 2 {
        return None;
    }
    let name = &stack.handle;
    let near = option("--near", name);
    let parts: Vec<String> =
        carrying.iter().map(|device| format!("{} on node {}", device.name, device.nodes)).collect();
    let looked = stack.chain.iter().find(|step| !step.source.is_empty());
    Some(Symptom {
        finding: Finding::new(
            Severity::Note,
            "spans-sockets",
            name,
            format!("Its members are on {} sockets: {}.", packages.len(), parts.join(", ")),
            looked.map(|step| format!("{}: {}", step.source, step.value)).unwrap_or_default(),
            format!("Build it from devices of one socket, or divide tasks by device: numaio place {near} --tasks N."),
        ),
        device: None,
        target: None,
        effect: Effect::Unquantified(format!("run numaio plan or numaio place {near} --explain with a model of each node")),
        fix: Fix::none(),
    })
}
