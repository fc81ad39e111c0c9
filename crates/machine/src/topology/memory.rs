//! Memory of a node: meminfo and huge page pools.

use super::parts::{HugePages, Memory};
use crate::sysfs::{Sysfs, SysfsExt};

/// Parses /proc/meminfo (`Documentation/filesystems/proc.rst`) or a node's `meminfo`, whose lines
/// start with `Node 3 `.
///
/// Returns `None` without a total; a total of zero is returned as such.
pub(super) fn parse_meminfo(text: &str) -> Option<Memory> {
    let bytes = |wanted: &str| {
        text.lines().find_map(|line| field(line).filter(|(key, _)| *key == wanted)).map(|(_, bytes)| bytes)
    };
    let or_none = |key: &str| bytes(key).unwrap_or(0);
    let total_bytes = bytes("MemTotal")?;
    // Kernels before 2.6.28 do not separate file pages from anonymous pages.
    let file = match (bytes("Active(file)"), bytes("Inactive(file)")) {
        (Some(active), Some(inactive)) => active.saturating_add(inactive),
        _ => bytes("FilePages").or_else(|| bytes("Cached")).unwrap_or(0).saturating_sub(or_none("Shmem")),
    };
    let clean = file.saturating_sub(or_none("Dirty")).saturating_sub(or_none("Writeback"));
    let slabs = bytes("KReclaimable").unwrap_or_else(|| or_none("SReclaimable"));
    Some(Memory {
        total_bytes,
        free_bytes: or_none("MemFree").min(total_bytes),
        reclaimable_bytes: clean.saturating_add(slabs).min(total_bytes),
    })
}

/// Parses a line: its key without the node, and its value in bytes.
fn field(line: &str) -> Option<(&str, u64)> {
    let (key, value) = line.split_once(':')?;
    let key = key.split_whitespace().last()?;
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = if words.next() == Some("kB") { 1024 } else { 1 };
    Some((key, number.checked_mul(unit)?))
}

/// Reads the pools in a directory, such as `hugepages-2048kB`, by ascending page size
/// (`Documentation/admin-guide/mm/hugetlbpage.rst`).
pub(super) fn huge_pages(root: &dyn Sysfs, directory: &str) -> Vec<HugePages> {
    let pool = |name: String| {
        let page_bytes = page_bytes(&name)?;
        let total = root.value(&format!("{directory}/{name}/nr_hugepages")).ok()?;
        let free = root.value(&format!("{directory}/{name}/free_hugepages")).unwrap_or(0);
        Some(HugePages { page_bytes, total, free })
    };
    let mut pools: Vec<HugePages> = root.names(directory).into_iter().filter_map(pool).collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

fn page_bytes(name: &str) -> Option<u64> {
    let kilobytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    kilobytes.checked_mul(1024).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn parses_total_free_and_reclaimable_memory() {
        let text = "Node 3 MemTotal:  1000 kB\nNode 3 MemFree:  400 kB\nNode 3 Active(file): 100 kB\n\
            Node 3 Inactive(file):  50 kB\nNode 3 Dirty: 20 kB\nNode 3 Writeback: 5 kB\nNode 3 FilePages: 999 kB\n\
            Node 3 SReclaimable: 30 kB\nNode 3 HugePages_Total: 7\n";
        let memory =
            Memory { total_bytes: 1024000, free_bytes: 409600, reclaimable_bytes: (125 + 30) * 1024 };
        assert_eq!(parse_meminfo(text), Some(memory));
    }

    #[test]
    fn parses_old_and_broken_meminfo() {
        let old = parse_meminfo("MemTotal: 100 kB\nMemFree: 200 kB\nCached: 50 kB\nShmem: 60 kB\n");
        assert_eq!(old, Some(Memory { total_bytes: 102400, free_bytes: 102400, reclaimable_bytes: 0 }));
        assert_eq!(parse_meminfo("Node 0 MemTotal: 0 kB\n").map(|memory| memory.total_bytes), Some(0));
        assert_eq!(parse_meminfo("MemTotal: 18446744073709551615 kB\n"), None);
        assert_eq!(parse_meminfo(":\n: 5\nMemTotal\n"), None);
    }

    #[test]
    fn reads_huge_page_pools_by_page_size() {
        let mut tree = Tree::new();
        for (pool, total, free) in
            [("hugepages-1048576kB", "2", "1"), ("hugepages-2048kB", "64", "60"), ("x", "1", "1")]
        {
            tree.file(&format!("/n/{pool}/nr_hugepages"), total)
                .file(&format!("/n/{pool}/free_hugepages"), free);
        }
        let pools = huge_pages(&tree, "/n");
        assert_eq!(pools[0], HugePages { page_bytes: 2 << 20, total: 64, free: 60 });
        assert_eq!(pools[1], HugePages { page_bytes: 1 << 30, total: 2, free: 1 });
        assert_eq!(pools.len(), 2);
    }
}
