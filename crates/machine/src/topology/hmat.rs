//! Firmware-reported performance of a node's memory, and its memory-side caches
//! (`Documentation/admin-guide/mm/numaperf.rst`).

use super::files::NODES;
use super::parts::{Access, MemorySideCache};
use crate::ids::NodeId;
use crate::set::NodeSet;
use crate::sysfs::{Sysfs, SysfsExt};

/// Unit of bandwidths: numaperf.rst specifies MB/s, which HMAT defines as 10^6 bytes.
const BYTES_PER_MB: f64 = 1e6;

/// Reads the access classes 0 and 1 of a node, except those without initiators.
pub(super) fn access(root: &dyn Sysfs, node: NodeId) -> Vec<Access> {
    (0..=1).filter_map(|class| access_class(root, node, class)).collect()
}

fn access_class(root: &dyn Sysfs, node: NodeId, class: u32) -> Option<Access> {
    let directory = format!("{NODES}/node{node}/access{class}/initiators");
    let names = root.names(&directory);
    let initiators: NodeSet =
        names.iter().filter_map(|name| super::files::numbered(name, "node")).map(NodeId).collect();
    if initiators.is_empty() {
        return None;
    }
    // The kernel reports 0 for values that the firmware omits.
    let value =
        |name: &str| root.value::<u64>(&format!("{directory}/{name}")).ok().filter(|value| *value > 0);
    let bandwidth = |name: &str| value(name).map(|megabytes| megabytes as f64 * BYTES_PER_MB);
    Some(Access {
        class,
        initiators,
        read_bytes_per_s: bandwidth("read_bandwidth"),
        write_bytes_per_s: bandwidth("write_bandwidth"),
        read_latency_ns: value("read_latency"),
        write_latency_ns: value("write_latency"),
    })
}

/// Reads the memory-side caches of a node, by level.
pub(super) fn memory_side_caches(root: &dyn Sysfs, node: NodeId) -> Vec<MemorySideCache> {
    let directory = format!("{NODES}/node{node}/memory_side_cache");
    let cache = |name: String| {
        let level = super::files::numbered(&name, "index")?;
        let bytes = root.value(&format!("{directory}/{name}/size")).ok().filter(|bytes| *bytes > 0)?;
        Some(MemorySideCache { level, bytes })
    };
    let mut caches: Vec<MemorySideCache> = root.names(&directory).into_iter().filter_map(cache).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn scales_hmat_values_and_ignores_zeros() {
        let mut tree = Tree::new();
        let initiators = format!("{NODES}/node2/access1/initiators");
        tree.link(&format!("{initiators}/node0"), "../../../node0")
            .file(&format!("{initiators}/read_bandwidth"), "12000\n")
            .file(&format!("{initiators}/write_bandwidth"), "0\n")
            .file(&format!("{initiators}/read_latency"), "150\n")
            .dir(&format!("{NODES}/node2/access0/initiators"));
        let access = access(&tree, NodeId(2));
        let expected = Access {
            class: 1,
            initiators: NodeSet::one(NodeId(0)),
            read_bytes_per_s: Some(12e9),
            write_bytes_per_s: None,
            read_latency_ns: Some(150),
            write_latency_ns: None,
        };
        assert_eq!(access, [expected]);
    }

    #[test]
    fn reads_memory_side_caches_by_level() {
        let mut tree = Tree::new();
        tree.file(&format!("{NODES}/node0/memory_side_cache/index2/size"), "64\n")
            .file(&format!("{NODES}/node0/memory_side_cache/index1/size"), "103079215104\n");
        let caches = memory_side_caches(&tree, NodeId(0));
        assert_eq!(
            caches,
            [MemorySideCache { level: 1, bytes: 103079215104 }, MemorySideCache { level: 2, bytes: 64 }]
        );
    }
}
