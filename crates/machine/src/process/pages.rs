//! Parser of `/proc/PID/numa_maps` (Documentation/filesystems/proc.rst, 3.7 and numa(7)).

use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pages of a process on each node, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "ProcessPages"))]
pub struct Pages {
    /// Anonymous memory, private or shared: heaps, stacks, buffers.
    pub anonymous: BTreeMap<NodeId, u64>,
    /// Mapped files: programs, libraries, data.
    #[serde(rename = "of_files")]
    pub file_backed: BTreeMap<NodeId, u64>,
}

impl Pages {
    /// Adds the pages of another process.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in
            [(&mut self.anonymous, &other.anonymous), (&mut self.file_backed, &other.file_backed)]
        {
            for (node, bytes) in more {
                let sum = sum.entry(*node).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
    }
}

/// Sums up the mappings, skipping lines of unknown format.
pub fn parse_numa_maps(text: &str) -> Pages {
    let mut pages = Pages::default();
    for line in text.lines() {
        let words = || line.split_ascii_whitespace();
        let page_bytes = words()
            .find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok())
            .map_or(4096, |kb| kb.saturating_mul(1024));
        let is_file = words().any(|word| word.strip_prefix("file=").is_some_and(|path| !is_memory(path)));
        let mapped: Vec<(NodeId, u64)> = words().filter_map(of_node).collect();
        // A private file mapping has anonymous pages where it was written.
        let own = words().find_map(|word| word.strip_prefix("anon=")?.parse::<u64>().ok()).unwrap_or(0);
        let all: u64 = mapped.iter().map(|(_, count)| *count).fold(0, u64::saturating_add);
        let sums = match is_file && own < all {
            true => &mut pages.file_backed,
            false => &mut pages.anonymous,
        };
        for (node, count) in mapped {
            let sum = sums.entry(node).or_default();
            *sum = sum.saturating_add(count.saturating_mul(page_bytes));
        }
    }
    pages
}

/// Parses a field such as `N3=17`: 17 pages on node 3.
pub(crate) fn of_node(word: &str) -> Option<(NodeId, u64)> {
    let (node, count) = word.strip_prefix('N')?.split_once('=')?;
    Some((NodeId(node.parse().ok()?), count.parse().ok()?))
}

/// Returns whether a path is memory without a file, such as memfd and shared memory.
pub(crate) fn is_memory(path: &str) -> bool {
    ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero", "/anon_hugepage"]
        .iter()
        .any(|memory| path.starts_with(memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
5581c0000000 default file=/usr/bin/cat mapped=8 mapmax=2 active=6 N0=8 kernelpagesize_kB=4
5581c0100000 bind:1 heap anon=20 dirty=20 N0=2 N1=18 kernelpagesize_kB=4
7f0000000000 prefer:1 anon=3 dirty=3 N1=3 kernelpagesize_kB=2048
7f1000000000 default file=/memfd:ring\\040(deleted) dirty=4 N2=4 kernelpagesize_kB=4
7f2000000000 default file=/usr/lib/libc.so.6 anon=2 dirty=2 mapped=9 N0=9 kernelpagesize_kB=4
7ffd00000000 default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
7ffd00100000 default
";

    #[test]
    fn sums_pages_by_node() {
        let pages = parse_numa_maps(MAPS);
        let kb = |list: &[(u32, u64)]| list.iter().map(|(node, kb)| (NodeId(*node), kb << 10)).collect();
        assert_eq!(pages.file_backed, kb(&[(0, (8 + 9) * 4)]));
        assert_eq!(pages.anonymous, kb(&[(0, 5 * 4), (1, 18 * 4 + 3 * 2048), (2, 4 * 4)]));
        let mut twice = pages.clone();
        twice.add(&pages);
        assert_eq!(twice.anonymous[&NodeId(2)], 32 << 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parse_never_panics(text in ".*", cut in 0..MAPS.len(), node: u64, count: u64) {
            let _ = parse_numa_maps(&text);
            let _ = parse_numa_maps(&MAPS[..cut]);
            let _ = parse_numa_maps(&format!("0 anon={count} N{node}={count} N0={count} kernelpagesize_kB={node}"));
        }
    }
}
