//! Bare names and PCI addresses, and the names nearest to one that nothing has.

use super::walk::{At, Thing, Walk};
use super::{block, UNKNOWN};
use crate::devices::PciAddress;
use crate::sysfs::SysfsExt;
use std::collections::BTreeSet;

/// Most names that are offered for an unknown one.
const OFFERED: usize = 8;
/// Edits by which an offered name may differ.
const MOST_EDITS: usize = 2;

/// A PCI function.
pub(super) fn pci(walk: &mut Walk, address: PciAddress) {
    let at = walk.begin_named(&address.to_string());
    let devices = &walk.ground.topology.devices;
    match devices.iter().position(|device| device.pci == Some(address) && device.moves_data()) {
        Some(index) => walk.reach_here(at, index),
        None if devices.iter().any(|device| device.pci == Some(address)) => walk.dead_end(
            at,
            "near-bridge",
            &address.to_string(),
            "It is a bridge and moves nothing of its own.",
            "Name a device below it.",
        ),
        None => unknown(walk, at, &address.to_string()),
    }
}

/// A name, of whatever kind has it.
pub(super) fn name(walk: &mut Walk, name: &str) {
    let exists = |directory: &str| walk.root().exists(&format!("{directory}/{name}"));
    if exists("/sys/class/net") {
        return walk.begin(Thing::Net(name.to_owned()));
    }
    if walk.block_path(name).is_some() {
        return walk.begin(Thing::Block(name.to_owned()));
    }
    if exists("/sys/class/infiniband") {
        return walk.begin(Thing::Rdma(name.to_owned()));
    }
    if exists("/sys/class/nvme") {
        return walk.begin(Thing::Nvme(name.to_owned()));
    }
    let devices = walk.devices_named(name);
    let mapped = block::by_mapper_name(walk, name);
    let at = walk.begin_named(name);
    match (devices.as_slice(), mapped) {
        ([], Some((disk, said))) => walk.go(at, Thing::Block(disk), &said, name),
        ([], None) => unknown(walk, at, name),
        (found, _) => walk.reach_all(at, found, "names of devices"),
    }
}

/// Says that nothing has this name, and which names are near to it.
pub(super) fn unknown(walk: &mut Walk, at: At, name: &str) {
    // Device files are known by the names that their devices have.
    let offered = nearest(name.rsplit('/').next().unwrap_or(name), &known(walk));
    let remedy = match offered.as_slice() {
        [] => "No device was found here at all.".to_owned(),
        names => format!("There are {}.", names.join(", ")),
    };
    walk.dead_end(at, UNKNOWN, name, &format!("There is no device {name:?}."), &remedy);
}

fn known(walk: &Walk) -> BTreeSet<String> {
    let topology = walk.ground.topology;
    let devices = topology.devices.iter().filter(|device| device.moves_data());
    let devices =
        devices.flat_map(|device| device.names.iter().cloned().chain(device.pci.map(|pci| pci.to_string())));
    let directories = ["/sys/class/net", "/sys/class/block", "/sys/class/infiniband"];
    let listed = directories.iter().flat_map(|directory| walk.root().names(directory));
    devices.chain(listed).collect()
}

/// The names that differ least from `name`; if none is near, the first ones.
fn nearest(name: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut near: Vec<(usize, &String)> = names
        .iter()
        .map(|known| (edits(name, known), known))
        .filter(|(edits, _)| *edits <= MOST_EDITS)
        .collect();
    near.sort();
    let near = near.into_iter().map(|(_, known)| known);
    let chosen: Vec<String> = near.take(OFFERED).cloned().collect();
    if chosen.is_empty() {
        names.iter().take(OFFERED).cloned().collect()
    } else {
        chosen
    }
}

/// Edits (of one character inserted, taken out or replaced) between two names, by Levenshtein's table.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(80).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, c) in from.chars().take(80).enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_little_are_offered_first() {
        assert_eq!(
            (edits("eth0", "eth0"), edits("eth0", "etho"), edits("", "abc"), edits("nvme0", "nvme0n1")),
            (0, 1, 3, 2)
        );
        let names: BTreeSet<String> = ["eth0", "eth1", "nvme0n1", "sda"].map(str::to_owned).into();
        assert_eq!(nearest("eht1", &names), ["eth1"]);
        assert_eq!(nearest("ens17f0np0", &names).len(), 4);
    }
}
