//! Free memory of the nodes.

use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::NodeSet;
use numaio_machine::sysfs::{Sysfs, SysfsExt};

/// Maximum alignment for transparent huge pages; larger ones (512 MiB on aarch64 with 64 KiB pages)
/// are not aligned to.
const MAX_ALIGNMENT: u64 = 32 << 20;

/// Free memory of the nodes of a machine.
pub struct FreeMemory<'a> {
    root: &'a dyn Sysfs,
    nodes: NodeSet,
    limit_bytes: Option<u64>,
}

impl<'a> FreeMemory<'a> {
    /// Reads the online nodes (`Documentation/ABI/stable/sysfs-devices-node`); a kernel without
    /// NUMA has node 0. `limit_bytes` are the bytes that the control group of this process still
    /// allows.
    pub fn new(root: &'a dyn Sysfs, limit_bytes: Option<u64>) -> Self {
        let online = root.optional("/sys/devices/system/node/online");
        let nodes = online.and_then(|text| NodeSet::parse_list(&text).ok()).filter(|nodes| !nodes.is_empty());
        Self { root, nodes: nodes.unwrap_or_else(|| NodeSet::one(NodeId(0))), limit_bytes }
    }

    /// Whether the machine has a single node.
    pub(crate) fn has_one_node(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Whether the node is online.
    pub(crate) fn has_node(&self, node: NodeId) -> bool {
        self.nodes.contains(node)
    }

    /// Checks that a node has enough memory in base pages. With a strict binding the OOM killer
    /// would run instead of a fallback to other nodes.
    pub(crate) fn check(&self, node: NodeId, needed_bytes: u64) -> Result<(), ProbeError> {
        let per_node = self.root.optional(&format!("/sys/devices/system/node/node{node}/meminfo"));
        let text =
            per_node.or_else(|| self.has_one_node().then(|| self.root.optional("/proc/meminfo")).flatten());
        let free_bytes = text.as_deref().map_or(0, available_bytes);
        require_available(node, needed_bytes, free_bytes)
    }

    /// Checks that the control group allows `needed_bytes` more on all nodes together; beyond its
    /// limit the group's OOM killer runs. `node` only appears in the error.
    pub(crate) fn check_limit(&self, node: NodeId, needed_bytes: u64) -> Result<(), ProbeError> {
        // A reserve for this process itself.
        self.limit_bytes.map_or(Ok(()), |limit| require_available(node, needed_bytes, limit - limit / 64))
    }

    /// Checks that a node's pool of reserved huge pages holds `needed_bytes`.
    pub(crate) fn check_huge(&self, node: NodeId, needed_bytes: u64, page: u64) -> Result<(), ProbeError> {
        let pool = format!("hugepages/hugepages-{}kB/free_hugepages", page >> 10);
        let per_node = self.root.value::<u64>(&format!("/sys/devices/system/node/node{node}/{pool}")).ok();
        let whole = || self.root.value::<u64>(&format!("/sys/kernel/mm/{pool}")).ok();
        let free = per_node.or_else(|| self.has_one_node().then(whole).flatten()).unwrap_or(0);
        let needed = needed_bytes.div_ceil(page);
        if needed > free {
            return Err(ProbeError::Refused {
                call: format!("{needed} reserved huge pages of {} KiB on node {node}", page >> 10),
                reason: format!("{free} are free there"),
            });
        }
        Ok(())
    }

    /// Returns the page size of MAP_HUGETLB (`Documentation/admin-guide/mm/hugetlbpage.rst`).
    pub(crate) fn huge_page_bytes(&self) -> Result<u64, ProbeError> {
        let text = self.root.optional("/proc/meminfo").unwrap_or_default();
        let size = bytes_of(&text, "Hugepagesize").filter(|size| size.is_power_of_two());
        size.ok_or_else(|| ProbeError::Refused {
            call: "reserved huge pages".to_owned(),
            reason: "not supported by this kernel (hugetlb)".to_owned(),
        })
    }

    /// Returns the alignment for transparent huge pages
    /// (`Documentation/admin-guide/mm/transhuge.rst`, `hpage_pmd_size`).
    pub(crate) fn transparent_page_bytes(&self) -> u64 {
        let size = self.root.value("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok();
        size.filter(|size: &u64| size.is_power_of_two() && *size <= MAX_ALIGNMENT).unwrap_or(2 << 20)
    }
}

fn require_available(node: NodeId, needed_bytes: u64, free_bytes: u64) -> Result<(), ProbeError> {
    if needed_bytes > free_bytes {
        return Err(ProbeError::NoMemory { node, needed_bytes, free_bytes });
    }
    Ok(())
}

/// Returns the bytes available on a node without swapping: free memory, page cache and reclaimable
/// slabs, less the kernel's reserve. Nodes lack `MemAvailable`
/// (`Documentation/filesystems/proc.rst`); 1/64 of the memory replaces the zones' low watermarks.
fn available_bytes(meminfo: &str) -> u64 {
    let of = |name| bytes_of(meminfo, name).unwrap_or(0);
    let kept = (of("MemTotal") / 64).min(512 << 20);
    let cache = of("Active(file)") + of("Inactive(file)");
    let slabs = of("SReclaimable");
    let given_back = (cache - (cache / 2).min(kept)) + (slabs - (slabs / 2).min(kept));
    (of("MemFree") + given_back).saturating_sub(kept).min(of("MemTotal"))
}

/// Returns a value of meminfo in bytes: `MemFree:  12 kB`, or `Node 0 MemFree:  12 kB` of a node.
fn bytes_of(meminfo: &str, name: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| {
        let (left, right) = line.split_once(':')?;
        let named = left.split_ascii_whitespace().next_back()? == name;
        let kib: u64 = right.split_ascii_whitespace().next().filter(|_| named)?.parse().ok()?;
        kib.checked_mul(1024)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::tree::Tree;

    fn machine() -> Tree {
        let mut tree = Tree::new();
        tree.file("/sys/devices/system/node/online", "0,2\n");
        let memory = "Node 0 MemTotal:    1048576 kB\nNode 0 MemFree:      524288 kB\n\
            Node 0 Active(file):   65536 kB\nNode 0 Inactive(file): 65536 kB\nNode 0 SReclaimable:  0 kB\n";
        tree.file("/sys/devices/system/node/node0/meminfo", memory);
        tree.file("/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 0 kB\nNode 2 MemFree: 0 kB\n");
        tree.file("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "3\n");
        tree.file("/proc/meminfo", "MemTotal: 4194304 kB\nMemFree: 4194304 kB\nHugepagesize:    2048 kB\n");
        tree
    }

    #[test]
    fn counts_free_and_reclaimable_memory_less_the_reserve() {
        let tree = machine();
        let free_memory = FreeMemory::new(&tree, None);
        // 512 MiB free, 128 MiB of page cache less a reserve of 16 MiB, and another 16 MiB reserve.
        let most = (512 + 128 - 16 - 16) << 20;
        assert_eq!(free_memory.check(NodeId(0), most), Ok(()));
        let node = NodeId(0);
        let error = ProbeError::NoMemory { node, needed_bytes: most + 1, free_bytes: most };
        assert_eq!(free_memory.check(node, most + 1), Err(error));
    }

    #[test]
    fn rejects_a_node_without_memory() {
        let tree = machine();
        let free_memory = FreeMemory::new(&tree, None);
        assert!(
            !free_memory.has_one_node()
                && free_memory.has_node(NodeId(2))
                && !free_memory.has_node(NodeId(1))
        );
        for node in [NodeId(1), NodeId(2)] {
            assert_eq!(
                free_memory.check(node, 1),
                Err(ProbeError::NoMemory { node, needed_bytes: 1, free_bytes: 0 })
            );
        }
    }

    #[test]
    fn a_kernel_without_numa_has_node_0_with_all_memory() {
        let mut tree = machine();
        tree.remove("/sys/devices/system/node");
        let free_memory = FreeMemory::new(&tree, None);
        assert!(free_memory.has_one_node() && free_memory.has_node(NodeId(0)));
        assert_eq!(free_memory.check(NodeId(0), 1 << 30), Ok(()));
    }

    #[test]
    fn respects_the_control_group_limit() {
        let tree = machine();
        let free_memory = FreeMemory::new(&tree, Some(64 << 20));
        assert_eq!(free_memory.check_limit(NodeId(0), 63 << 20), Ok(()));
        assert!(matches!(free_memory.check_limit(NodeId(0), 64 << 20), Err(ProbeError::NoMemory { .. })));
        assert_eq!(FreeMemory::new(&tree, None).check_limit(NodeId(0), u64::MAX), Ok(()));
    }

    #[test]
    fn checks_huge_page_pools_per_node() {
        let tree = machine();
        let free_memory = FreeMemory::new(&tree, None);
        let page = free_memory.huge_page_bytes().expect("a size");
        assert_eq!(page, 2 << 20);
        assert_eq!(free_memory.check_huge(NodeId(0), 3 * page, page), Ok(()));
        let short = free_memory.check_huge(NodeId(0), 4 * page, page).expect_err("one too many").to_string();
        assert_eq!(short, "4 reserved huge pages of 2048 KiB on node 0: 3 are free there");
        assert!(matches!(free_memory.check_huge(NodeId(2), page, page), Err(ProbeError::Refused { .. })));
        assert!(matches!(
            FreeMemory::new(&Tree::new(), None).huge_page_bytes(),
            Err(ProbeError::Refused { .. })
        ));
    }
}
