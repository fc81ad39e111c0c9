//! One number for what a machine is made of.

use super::Topology;
use crate::devices::Sriov;

/// 16 hexadecimal digits over what the machine is made of; see [`super::Identity::fingerprint`].
///
/// FNV-1a (Fowler, Noll, Vo) with 64 bits over one line for each node (CPUs, whether it has memory), each row of
/// distances and each PCI device (address, ids). How much memory there is does not count: virtual machines get and
/// lose memory while they run. SR-IOV virtual functions are left out, as they come and go while the machine stays
/// the same.
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
    let mut devices: Vec<String> = topology
        .devices
        .iter()
        .filter(|device| !matches!(device.sriov, Some(Sriov::Virtual { .. })))
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
