//! Resolution of names and PCI addresses, and suggestions for unknown names.

use super::block;
use super::resolved::RULE_UNKNOWN;
use super::walk::{Position, Resource, Walk};
use crate::devices::{Device, PciAddress};
use crate::storage;
use crate::sysfs::SysfsExt;
use std::collections::BTreeSet;

/// Maximum number of suggestions for an unknown name.
const OFFERED: usize = 8;
/// Maximum edit distance of a suggestion.
const MAX_EDITS: usize = 2;

/// Follows a PCI function.
pub(super) fn pci(walk: &mut Walk, address: PciAddress) {
    let at = walk.start_named(&address.to_string());
    let devices = &walk.ground.topology.devices;
    match devices.iter().position(|device| device.pci == Some(address) && device.moves_data()) {
        Some(index) => walk.reach_here(at, index),
        None if devices.iter().any(|device| device.pci == Some(address)) => walk.dead_end(
            at,
            "near-bridge",
            &address.to_string(),
            "It is a bridge and moves no data itself.",
            "Name a device below it.",
        ),
        None => unknown(walk, at, &address.to_string()),
    }
}

/// Follows a name of any kind.
pub(super) fn name(walk: &mut Walk, name: &str) {
    let exists = |directory: &str| walk.root().exists(&format!("{directory}/{name}"));
    if exists("/sys/class/net") {
        return walk.start(Resource::Net(name.to_owned()));
    }
    if walk.block_path(name).is_some() {
        return walk.start(Resource::Block(name.to_owned()));
    }
    if exists("/sys/class/infiniband") {
        return walk.start(Resource::Rdma(name.to_owned()));
    }
    if exists("/sys/class/nvme") {
        return walk.start(Resource::Nvme(name.to_owned()));
    }
    let devices = walk.devices_named(name);
    let mapped = block::by_mapper_name(walk, name);
    let at = walk.start_named(name);
    match (devices.as_slice(), mapped) {
        ([], Some((disk, value))) => walk.follow(at, Resource::Block(disk), &value, name),
        ([], None) => unknown(walk, at, name),
        (found, _) => walk.reach_all(at, found, "names of devices"),
    }
}

/// Reports that the name is unknown, with similar names.
pub(super) fn unknown(walk: &mut Walk, at: Position, name: &str) {
    let known = Known::of(walk);
    // Device files have the names of their devices.
    let offered = known.nearest(name.rsplit('/').next().unwrap_or(name));
    let others =
        known.devices.iter().filter(|names| !names.iter().any(|name| offered.contains(name))).count();
    let remedy = match (offered.join(", "), others) {
        (names, _) if names.is_empty() => "No devices were found.".to_owned(),
        (names, 0) => format!("Known devices: {names}."),
        (names, 1) => format!("Known devices: {names}, and another listed by numaio topology."),
        (names, others) => format!("Known devices: {names}, and {others} others listed by numaio topology."),
    };
    walk.dead_end(at, RULE_UNKNOWN, name, &format!("There is no device {name:?}."), &remedy);
}

/// Known names.
struct Known {
    /// Names of each device in the topology, the most common first.
    devices: Vec<Vec<String>>,
    /// Names without a PCI device: loop devices, RAM disks, partitions, bonds and other virtual
    /// interfaces.
    software: BTreeSet<String>,
}

impl Known {
    fn of(walk: &Walk) -> Self {
        let devices = walk.ground.topology.devices.iter().filter(|device| device.moves_data());
        // Devices with other names than their address come first.
        let (unnamed, named): (Vec<_>, Vec<_>) = devices.partition(|device| device.names.is_empty());
        let names = |device: &Device| -> Vec<String> {
            device.names.iter().cloned().chain(device.pci.map(|pci| pci.to_string())).collect()
        };
        let devices = named.into_iter().chain(unnamed).map(names).filter(|names| !names.is_empty());
        let devices: Vec<Vec<String>> = devices.collect();
        let directories = ["/sys/class/net", "/sys/class/infiniband"];
        let listed = directories.iter().flat_map(|directory| walk.root().names(directory));
        let listed = listed.chain(storage::block_names(walk.root()));
        let software = listed.filter(|name| !devices.iter().flatten().any(|known| known == name)).collect();
        Self { devices, software }
    }

    /// Returns the names most similar to `name`, devices first; without similar names, devices.
    fn nearest(&self, name: &str) -> Vec<String> {
        let devices = self.devices.iter().flatten().map(|known| (false, known));
        let all = devices.chain(self.software.iter().map(|known| (true, known)));
        let near = all.filter_map(|(software, known)| Some((edits_if_few(name, known)?, software, known)));
        let mut near: Vec<_> = near.collect();
        near.sort();
        // Several controllers of a multipath drive share its name.
        near.dedup();
        if !near.is_empty() {
            return near.into_iter().map(|(_, _, known)| known.clone()).take(OFFERED).collect();
        }
        let mut offered: Vec<String> = Vec::new();
        for first in self.devices.iter().filter_map(|names| names.first()) {
            if offered.len() < OFFERED && !offered.contains(first) {
                offered.push(first.clone());
            }
        }
        if offered.is_empty() {
            offered.extend(self.software.iter().take(OFFERED).cloned());
        }
        offered
    }
}

/// Returns the edit distance of similar names.
///
/// Names are similar if the distance is small and more of the longer name stays than changes, or if
/// both share the same leading letters.
fn edits_if_few(name: &str, known: &str) -> Option<usize> {
    let word = |name: &str| name.chars().take_while(|c| c.is_alphabetic()).collect::<String>();
    let edits = edits(name, known);
    let longer = name.chars().count().max(known.chars().count());
    let is_near = edits <= MAX_EDITS && 2 * edits <= longer;
    let is_of_its_kind = word(name).len() > 1 && word(name) == word(known);
    (is_near || is_of_its_kind).then_some(edits)
}

/// Returns the Levenshtein distance of two names: inserted, removed or replaced characters.
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
    fn suggests_similar_names_first() {
        assert_eq!(
            (edits("eth0", "eth0"), edits("eth0", "etho"), edits("", "abc"), edits("nvme0", "nvme0n1")),
            (0, 1, 3, 2)
        );
        let known = |devices: &[&[&str]], software: &[&str]| Known {
            devices: devices.iter().map(|names| names.iter().map(|name| (*name).into()).collect()).collect(),
            software: software.iter().map(|name| (*name).into()).collect(),
        };
        let few = known(
            &[&["nvme0n1", "nvme0", "0000:91:00.0"], &["eth0", "0000:92:00.0"], &["eth1", "0000:93:00.0"]],
            &["lo", "loop0", "loop1", "ram0", "nvme0n1p1"],
        );
        assert_eq!(few.nearest("eht1"), ["eth1"]);
        assert_eq!(few.nearest("eth9"), ["eth0", "eth1"]);
        assert_eq!(few.nearest("nvme7"), ["nvme0", "nvme0n1", "nvme0n1p1"]);
        assert_eq!(few.nearest("loop7"), ["loop0", "loop1"]);
        assert_eq!(few.nearest("0000:94:00.0"), ["0000:91:00.0", "0000:92:00.0", "0000:93:00.0"]);
        // No name is similar, not even a short one.
        for name in ["foo", "ens17f0np0", "x", ""] {
            assert_eq!(few.nearest(name), ["nvme0n1", "eth0", "eth1"], "{name}");
        }
        assert_eq!(known(&[], &["lo", "loop0"]).nearest("foo"), ["lo", "loop0"]);
        let paths = known(&[&["nvme0n1", "0000:91:00.0"], &["nvme0n1", "0000:92:00.0"]], &[]);
        assert_eq!(
            (paths.nearest("foo"), paths.nearest("nvme7")),
            (vec!["nvme0n1".into()], vec!["nvme0n1".into()])
        );
    }
}
