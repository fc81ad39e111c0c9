//! Parsers of a program's memory: `/proc/PID/numa_maps` by kind of memory, and the ranges in
//! `/proc/PID/maps` that can be moved (Documentation/filesystems/proc.rst, 1.1 and 3.7).

use super::status_file::kilobytes;
use crate::ids::NodeId;
use crate::process::{address_range, is_memory, smaps_values, NumaMapping};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum number of distinct policies to keep.
const MAX_POLICIES: usize = 8;

/// Memory of a program by kind and node, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramMemory {
    /// Private anonymous memory without an explicit policy: heaps, stacks, buffers.
    pub private: BTreeMap<NodeId, u64>,
    /// Private anonymous memory that the program bound to nodes itself.
    pub bound: BTreeMap<NodeId, u64>,
    /// Shared memory: shm, memfd, System V.
    pub shared: BTreeMap<NodeId, u64>,
    /// Reserved huge pages (hugetlbfs).
    pub huge: BTreeMap<NodeId, u64>,
    /// Mapped files: programs, libraries, page cache.
    pub file_backed: BTreeMap<NodeId, u64>,
    /// Explicit policies of the bound memory, such as `bind:1`.
    pub policies: BTreeSet<String>,
}

/// Kind of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MappingKind {
    Anonymous,
    Shared,
    Huge,
    File,
}

/// Sums up the mappings by kind, skipping lines of unknown format.
pub fn parse_program_memory(numa_maps: &str) -> ProgramMemory {
    let mut memory = ProgramMemory::default();
    for mapping in numa_maps.lines().filter_map(NumaMapping::parse) {
        let (kind, is_explicit) = (MappingKind::of(&mapping), is_explicit(&mapping));
        let sums = match kind {
            MappingKind::Anonymous if is_explicit => &mut memory.bound,
            MappingKind::Anonymous => &mut memory.private,
            MappingKind::Shared => &mut memory.shared,
            MappingKind::Huge => &mut memory.huge,
            MappingKind::File => &mut memory.file_backed,
        };
        for (node, bytes) in mapping.bytes_on() {
            let sum = sums.entry(node).or_default();
            *sum = sum.saturating_add(bytes);
        }
        let has_pages = kind == MappingKind::Anonymous && mapping.bytes_on().next().is_some();
        if is_explicit && has_pages && memory.policies.len() < MAX_POLICIES {
            memory.policies.insert(mapping.policy.to_owned());
        }
    }
    memory
}

/// Returns whether the program chose nodes; `local` follows the thread.
fn is_explicit(mapping: &NumaMapping<'_>) -> bool {
    !matches!(mapping.policy, "default" | "local")
}

impl MappingKind {
    fn of(mapping: &NumaMapping<'_>) -> Self {
        match mapping.file {
            _ if mapping.is_huge => Self::Huge,
            Some(path) if is_memory(path) => Self::Shared,
            Some(_) if !mapping.is_written() => Self::File,
            _ => Self::Anonymous,
        }
    }
}

/// Returns the address ranges of private anonymous memory that may be moved: without an explicit
/// policy, and not locked.
///
/// `maps` is `/proc/PID/maps`, `numa_maps` has the policies. With `override_policies`, memory that
/// the program bound itself is included.
pub fn movable_ranges(
    maps: &str,
    numa_maps: &str,
    locked: &BTreeSet<u64>,
    override_policies: bool,
) -> Vec<Range<u64>> {
    let mappings = numa_maps.lines().filter_map(NumaMapping::parse);
    let movable: BTreeSet<u64> = mappings
        .filter(|mapping| MappingKind::of(mapping) == MappingKind::Anonymous)
        .filter(|mapping| mapping.bytes_on().next().is_some())
        .filter(|mapping| override_policies || !is_explicit(mapping))
        .map(|mapping| mapping.address)
        .collect();
    let ranges = maps.lines().filter_map(private_range);
    ranges.filter(|range| movable.contains(&range.start) && !locked.contains(&range.start)).collect()
}

/// Parses a line of `maps`; `None` unless it is private and anonymous.
fn private_range(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_ascii_whitespace();
    let range = address_range(words.next()?)?;
    let is_private = words.next()?.ends_with('p');
    let is_special = words
        .nth(3)
        .is_some_and(|name| matches!(name, "[vdso]" | "[vvar]" | "[vsyscall]") || name.starts_with("[vvar"));
    (is_private && !is_special && range.start < range.end).then_some(range)
}

/// Returns the start addresses of locked mappings: those with flag `lo` in `/proc/PID/smaps`.
pub fn locked_mappings(smaps: &str) -> BTreeSet<u64> {
    let locked = smaps_values(smaps, "VmFlags:")
        .filter(|(_, flags)| flags.split_ascii_whitespace().any(|flag| flag == "lo"));
    locked.map(|(mapping, _)| mapping.start).collect()
}

/// Returns the mappings that have transparent huge pages: those with `AnonHugePages` in
/// `/proc/PID/smaps`.
pub fn huge_mappings(smaps: &str) -> Vec<Range<u64>> {
    let huge = smaps_values(smaps, "AnonHugePages:").filter(|(_, size)| kilobytes(size) > 0);
    huge.map(|(mapping, _)| mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NUMA_MAPS: &str = "\
5581c0000000 default file=/usr/bin/dd mapped=8 N0=8 kernelpagesize_kB=4
5581c0100000 default heap anon=20 dirty=20 N0=2 N1=18 kernelpagesize_kB=4
5581c0200000 bind:1 anon=3 dirty=3 N1=3 kernelpagesize_kB=4
7f0000000000 default file=/dev/hugepages/x huge dirty=1 N2=1 kernelpagesize_kB=2048
7f1000000000 default file=/memfd:ring\\040(deleted) dirty=4 N2=4 kernelpagesize_kB=4
7f2000000000 default file=/usr/lib/libc.so.6 anon=2 dirty=2 N0=2 kernelpagesize_kB=4
7f3000000000 default anon=5 dirty=5 N3=5 kernelpagesize_kB=4
7ffd00000000 default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
7ffd00100000 default
";

    const MAPS: &str = "\
5581c0000000-5581c0010000 r-xp 00000000 08:01 11 /usr/bin/dd
5581c0100000-5581c0121000 rw-p 00000000 00:00 0 [heap]
5581c0200000-5581c0203000 rw-p 00000000 00:00 0
7f1000000000-7f1000004000 rw-s 00000000 00:01 5 /memfd:ring (deleted)
7f2000000000-7f2000002000 rw-p 00000000 08:01 12 /usr/lib/libc.so.6
7f3000000000-7f3000005000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
7ffd00100000-7ffd00102000 r-xp 00000000 00:00 0 [vdso]
";

    fn kb(list: &[(u32, u64)]) -> BTreeMap<NodeId, u64> {
        list.iter().map(|(node, kb)| (NodeId(*node), kb << 10)).collect()
    }

    #[test]
    fn sums_memory_by_kind() {
        let memory = parse_program_memory(NUMA_MAPS);
        assert_eq!(memory.private, kb(&[(0, (2 + 2 + 3) * 4), (1, 18 * 4), (3, 5 * 4)]));
        assert_eq!(memory.bound, kb(&[(1, 3 * 4)]));
        assert_eq!((memory.huge, memory.shared), (kb(&[(2, 2048)]), kb(&[(2, 16)])));
        assert_eq!(memory.file_backed, kb(&[(0, 32)]));
        assert_eq!(memory.policies, BTreeSet::from(["bind:1".to_owned()]));
    }

    #[test]
    fn movable_ranges_exclude_bound_shared_and_locked_memory() {
        let starts = |locked: &BTreeSet<u64>, all: bool| -> Vec<u64> {
            movable_ranges(MAPS, NUMA_MAPS, locked, all).into_iter().map(|range| range.start).collect()
        };
        let smaps = "7f3000000000-7f3000005000 rw-p 00000000 00:00 0\nSize: 20 kB\nVmFlags: rd wr lo\n\
                     7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\nVmFlags: rd wr gd\n";
        let locked = locked_mappings(smaps);
        assert_eq!(locked, BTreeSet::from([0x7f30_0000_0000]));
        assert_eq!(starts(&locked, false), [0x5581_c010_0000, 0x7f20_0000_0000, 0x7ffd_0000_0000]);
        assert_eq!(starts(&BTreeSet::new(), true).len(), 5);
    }

    #[test]
    fn finds_mappings_with_huge_pages() {
        let smaps = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages:         0 kB\n\
                     7f0000400000-7f0000800000 rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\nVmFlags: rd\n";
        let found: Vec<(u64, u64)> =
            huge_mappings(smaps).into_iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(found, [(0x7f00_0040_0000, 0x7f00_0080_0000)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parsers_never_panic(text in ".*", cut in 0..NUMA_MAPS.len(), number: u64) {
            let _ = parse_program_memory(&text);
            let _ = parse_program_memory(&NUMA_MAPS[..cut]);
            let line = format!("7f default anon={number} N{number}={number} N0={number} kernelpagesize_kB={number}");
            let _ = parse_program_memory(&line);
            let _ = huge_mappings(&text);
            let _ = movable_ranges(&text, &line, &locked_mappings(&text), false);
            let _ = movable_ranges(&format!("{number:x}-0 rw-p"), &line, &BTreeSet::new(), true);
        }
    }
}
