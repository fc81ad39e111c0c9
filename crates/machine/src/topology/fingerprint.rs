//! One number for what a machine is made of.

use super::Topology;
use crate::devices::{Device, PciAddress, Sriov};
use std::collections::BTreeSet;

/// 16 hexadecimal digits over what the machine is made of; see [`super::Identity::fingerprint`].
///
/// FNV-1a (Fowler, Noll, Vo) with 64 bits over one line for each node (CPUs, whether it has memory), each row of
/// distances and each PCI device (address, ids). How much memory there is does not count: virtual machines get and
/// lose memory while they run. SR-IOV virtual functions are left out, as they come and go while the machine stays
/// the same, and so are USB controllers and system peripherals with the bridges above them alone: they move data only
/// while something is plugged in or a driver is bound.
pub fn fingerprint(topology: &Topology) -> String {
    format!("{:016x}", fnv1a(text(topology).as_bytes()))
}

fn text(topology: &Topology) -> String {
    let nodes = topology
        .nodes
        .iter()
        .map(|node| format!("node {} cpus {} memory {}\n", node.id, node.cpus, node.memory.is_some()));
    let rows =
        topology.distances.iter().flat_map(|distances| &distances.rows).map(|row| format!("row {row:?}\n"));
    let only_above = bridges_above_what_comes_and_goes(topology);
    let mut devices: Vec<String> = topology
        .devices
        .iter()
        .filter(|device| !matches!(device.sriov, Some(Sriov::Virtual { .. })))
        .filter(|device| !comes_and_goes(device) && device.pci.is_none_or(|pci| !only_above.contains(&pci)))
        .filter_map(|device| {
            let (vendor, id) = device.ids.unwrap_or_default();
            Some(format!("pci {} {vendor:04x}:{id:04x}\n", device.pci?))
        })
        .collect();
    // Two devices may hang on one function (the ports of a card): they are one piece of the machine.
    devices.sort();
    devices.dedup();
    nodes.chain(rows).chain(devices).collect()
}

/// Whether a function is among the devices only for what is named below it or drives it: class 0c03 (USB) and 0880
/// (other system peripherals, as DMA engines are).
fn comes_and_goes(device: &Device) -> bool {
    device.class.is_some_and(|class| matches!(class >> 8, 0x0c03 | 0x0880))
}

/// Bridges that are among the devices only for such a function below them.
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
        // Test vectors of the authors of FNV.
        assert_eq!(fnv1a(b""), 0xcbf29ce484222325);
        assert_eq!(fnv1a(b"foobar"), 0x85944171f73967e8);
    }
}
