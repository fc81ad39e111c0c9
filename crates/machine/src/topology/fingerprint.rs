//! Fingerprint of a machine's composition.

use super::parts::Topology;
use crate::devices::{Device, PciAddress};
use std::collections::BTreeSet;

/// Returns 16 hexadecimal digits that identify the machine's composition;
/// see [`super::parts::Identity::fingerprint`].
///
/// The hash is 64-bit FNV-1a (Fowler, Noll, Vo) over a line for each node (CPUs, whether it has
/// memory), each row of distances and each PCI device (address, ids). It excludes the memory size,
/// which changes in running virtual machines, and SR-IOV virtual functions, which can be created at
/// run time. It also excludes USB controllers and system peripherals with the bridges that lead
/// only to them: they count as data-moving devices only while something is plugged in or a driver
/// is bound.
pub fn fingerprint(topology: &Topology) -> String {
    format!("{:016x}", fnv1a(text(topology).as_bytes()))
}

fn text(topology: &Topology) -> String {
    let nodes = topology
        .nodes
        .iter()
        .map(|node| format!("node {} cpus {} memory {}\n", node.id, node.cpus, node.has_memory()));
    let rows =
        topology.distances.iter().flat_map(|distances| &distances.rows).map(|row| format!("row {row:?}\n"));
    let only_above = bridges_above_what_comes_and_goes(topology);
    let mut devices: Vec<String> = topology
        .devices
        .iter()
        .filter(|device| !device.is_virtual_function())
        .filter(|device| !comes_and_goes(device) && device.pci.is_none_or(|pci| !only_above.contains(&pci)))
        .filter_map(|device| {
            let (vendor, id) = device.ids.unwrap_or_default();
            Some(format!("pci {} {vendor:04x}:{id:04x}\n", device.pci?))
        })
        .collect();
    // Several devices can share a PCI function (the ports of a card), which counts once.
    devices.sort();
    devices.dedup();
    nodes.chain(rows).chain(devices).collect()
}

/// Returns whether a function is a device only because of its children or driver: class 0c03 (USB)
/// and 0880 (other system peripherals, such as DMA engines).
fn comes_and_goes(device: &Device) -> bool {
    device.class.is_some_and(|class| matches!(class >> 8, 0x0c03 | 0x0880))
}

/// Returns the bridges that lead only to such functions.
fn bridges_above_what_comes_and_goes(topology: &Topology) -> BTreeSet<PciAddress> {
    let devices = topology.devices.iter().filter(|device| device.moves_data());
    let (going, staying): (Vec<&Device>, Vec<&Device>) = devices.partition(|device| comes_and_goes(device));
    let above = |devices: Vec<&Device>| -> BTreeSet<PciAddress> {
        devices.into_iter().flat_map(|device| device.upstream.iter().copied()).collect()
    };
    above(going).difference(&above(staying)).copied().collect()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // Test vectors published by the authors of FNV.
        assert_eq!(fnv1a(b""), 0xcbf29ce484222325);
        assert_eq!(fnv1a(b"foobar"), 0x85944171f73967e8);
    }
}
