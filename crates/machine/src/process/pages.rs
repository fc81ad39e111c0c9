//! Parser of `/proc/PID/numa_maps` (Documentation/filesystems/proc.rst, 3.7 and numa(7)).

use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of a process on each node, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "ProcessPages"))]
pub struct Pages {
    /// Anonymous memory, private or shared: heaps, stacks, buffers.
    pub anonymous: BTreeMap<NodeId, u64>,
    /// Mapped files: programs, libraries, data.
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
    for mapping in text.lines().filter_map(NumaMapping::parse) {
        let is_file = mapping.file.is_some_and(|path| !is_memory(path)) && !mapping.is_written();
        let sums = if is_file { &mut pages.file_backed } else { &mut pages.anonymous };
        for (node, bytes) in mapping.bytes_on() {
            let sum = sums.entry(node).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    pages
}

/// Bytes of a page without a stated size.
const PAGE_BYTES: u64 = 4096;

/// A mapping of `numa_maps`.
pub(crate) struct NumaMapping<'t> {
    /// Address of its start.
    pub address: u64,
    /// Memory policy: `default`, `bind:0`.
    pub policy: &'t str,
    /// Path of the mapped file.
    pub file: Option<&'t str>,
    /// Whether it consists of reserved huge pages.
    pub is_huge: bool,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Number of anonymous pages.
    anonymous_pages: u64,
    /// Number of pages on each node.
    pages_on: Vec<(NodeId, u64)>,
}

impl<'t> NumaMapping<'t> {
    /// Parses a line; `None` without address and policy.
    pub fn parse(line: &'t str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        let policy = fields.next()?;
        let (file, is_huge, page_bytes) = (None, false, PAGE_BYTES);
        let mut mapping =
            Self { address, policy, file, is_huge, page_bytes, anonymous_pages: 0, pages_on: Vec::new() };
        for field in fields {
            if field == "huge" {
                mapping.is_huge = true;
            } else if let Some(path) = field.strip_prefix("file=") {
                mapping.file = Some(path);
            } else if let Some(count) = field.strip_prefix("anon=") {
                mapping.anonymous_pages = count.parse().unwrap_or(0);
            } else if let Some(kilobytes) = field.strip_prefix("kernelpagesize_kB=") {
                mapping.page_bytes =
                    kilobytes.parse::<u64>().map_or(PAGE_BYTES, |size| size.saturating_mul(1024));
            } else {
                mapping.pages_on.extend(of_node(field));
            }
        }
        Some(mapping)
    }

    /// Returns the bytes on each node.
    pub fn bytes_on(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.pages_on.iter().map(|(node, count)| (*node, count.saturating_mul(self.page_bytes)))
    }

    /// Returns whether all pages are anonymous: a private mapping of a file has such pages where it
    /// was written.
    pub fn is_written(&self) -> bool {
        let all = self.pages_on.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        all > 0 && self.anonymous_pages >= all
    }
}

/// Parses a field such as `N3=17`: 17 pages on node 3.
fn of_node(word: &str) -> Option<(NodeId, u64)> {
    let (node, count) = word.strip_prefix('N')?.split_once('=')?;
    Some((NodeId(node.parse().ok()?), count.parse().ok()?))
}

/// Parses the addresses of a mapping in `maps` and `smaps`, such as `7f00-7f80`.
pub(crate) fn address_range(word: &str) -> Option<Range<u64>> {
    let (start, end) = word.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// Iterates over the values of a field of `/proc/PID/smaps`, such as `VmFlags:`, each with the
/// addresses of its mapping.
pub fn smaps_values<'t>(smaps: &'t str, field: &'t str) -> impl Iterator<Item = (Range<u64>, &'t str)> {
    let mut mapping = None;
    smaps.lines().filter_map(move |line| {
        if let Some(value) = line.strip_prefix(field) {
            return Some((mapping.clone()?, value));
        }
        if let Some(range) = line.split_ascii_whitespace().next().and_then(address_range) {
            mapping = Some(range);
        }
        None
    })
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
