//! Memory of a guest: the mappings of its hypervisor that hold it (numa(7), proc_pid_maps(5)).

use super::configuration::GuestConfiguration;
use crate::ids::NodeId;
use crate::process::{address_range, smaps_values, NumaMapping};
use crate::programs::{kilobytes, parse_status};
use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Smallest mapping that can hold guest memory.
const LEAST_BYTES: u64 = 1 << 20;
/// Bytes of an ordinary page.
const PAGE_BYTES: u64 = 4096;

/// Memory of a guest on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestMemory {
    /// Its mappings, by address.
    pub regions: Vec<RamRegion>,
    /// Bytes in reserved or transparent huge pages.
    pub huge_bytes: u64,
    /// Bytes that the kernel may not move, as those of VFIO (`VmPin`).
    pub pinned_bytes: u64,
    /// Bytes locked into memory, which can still be moved (`VmLck`).
    pub locked_bytes: u64,
}

/// A mapping that holds guest memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RamRegion {
    /// Address in the hypervisor.
    pub address: u64,
    /// Length in bytes; allocated pages may be fewer.
    pub bytes: u64,
    /// Memory policy, as the kernel writes it: `default`, `bind:0`.
    pub policy: String,
    /// File that holds it; `None` for anonymous memory.
    pub file: Option<String>,
    /// Bytes of its pages.
    pub page_bytes: u64,
    /// Allocated bytes by node.
    pub bytes_on: BTreeMap<NodeId, u64>,
}

impl GuestMemory {
    /// Returns the allocated bytes by node.
    pub fn bytes_on(&self) -> BTreeMap<NodeId, u64> {
        let mut all: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (node, bytes) in self.regions.iter().flat_map(|region| &region.bytes_on) {
            let sum = all.entry(*node).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        all
    }
}

/// Reads the memory of a guest; `None` without permission.
pub(super) fn read(root: &dyn Sysfs, pid: u32, configuration: &GuestConfiguration) -> Option<GuestMemory> {
    let numa_maps = root.optional(&format!("/proc/{pid}/numa_maps"))?;
    let maps = root.optional(&format!("/proc/{pid}/maps")).unwrap_or_default();
    let regions = guest_regions(parse_regions(&numa_maps, &maps), configuration);
    let status = parse_status(&root.optional(&format!("/proc/{pid}/status")).unwrap_or_default());
    let smaps = root.optional(&format!("/proc/{pid}/smaps")).unwrap_or_default();
    let transparent = transparent_bytes(&smaps, &regions);
    let of_huge_pages = regions.iter().filter(|region| region.page_bytes > PAGE_BYTES);
    let reserved = of_huge_pages.flat_map(|region| region.bytes_on.values());
    let reserved = reserved.fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    Some(GuestMemory {
        huge_bytes: reserved.saturating_add(transparent),
        pinned_bytes: status.pinned_bytes,
        locked_bytes: status.locked_bytes,
        regions,
    })
}

/// Returns the bytes of mappings in transparent huge pages (`AnonHugePages` in `smaps`).
fn transparent_bytes(smaps: &str, regions: &[RamRegion]) -> u64 {
    let of_region = |(mapping, size): (Range<u64>, &str)| {
        let region = regions.iter().find(|region| region.address == mapping.start)?;
        // The pages may have been allocated since numa_maps was read.
        Some(kilobytes(size).min(region.bytes_on.values().copied().fold(0, u64::saturating_add)))
    };
    smaps_values(smaps, "AnonHugePages:").filter_map(of_region).fold(0, u64::saturating_add)
}

/// Parses the mappings of a process that hold data, with their lengths from `maps`; of a mapping
/// without length, its allocated bytes count.
pub fn parse_regions(numa_maps: &str, maps: &str) -> Vec<RamRegion> {
    let extents: BTreeMap<u64, Extent> = maps.lines().filter_map(extent).collect();
    let regions = numa_maps.lines().filter_map(region).filter_map(|mut region| {
        let allocated = region.bytes_on.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        region.bytes = match extents.get(&region.address) {
            Some(Extent { is_code: true, .. }) => return None,
            Some(Extent { bytes, .. }) => *bytes,
            None => allocated,
        };
        Some(region)
    });
    regions.collect()
}

/// A writable mapping.
struct Extent {
    bytes: u64,
    /// Whether it holds code, such as the translated code of an emulated CPU.
    is_code: bool,
}

/// Parses the writable mapping of a line such as `7f00-7f80 rw-p 00000000 00:00 0`.
fn extent(line: &str) -> Option<(u64, Extent)> {
    let mut words = line.split_ascii_whitespace();
    let range = address_range(words.next()?)?;
    let rights = words.next()?;
    let extent = Extent { bytes: range.end.saturating_sub(range.start), is_code: rights.starts_with("rwx") };
    rights.starts_with("rw").then_some((range.start, extent))
}

fn region(line: &str) -> Option<RamRegion> {
    let mapping = NumaMapping::parse(line)?;
    Some(RamRegion {
        address: mapping.address,
        bytes: 0,
        policy: mapping.policy.to_owned(),
        file: mapping.file.map(|path| path.replace("\\040", " ")),
        page_bytes: mapping.page_bytes,
        bytes_on: mapping.bytes_on().collect(),
    })
}

/// Selects the mappings that hold guest memory: those of its backing files, and adjacent anonymous
/// mappings together as long as a configured size, which a memory policy can divide. Without
/// either, the shortest mapping that can hold it, to which the kernel may have added others; or the
/// longest one.
fn guest_regions(all: Vec<RamRegion>, configuration: &GuestConfiguration) -> Vec<RamRegion> {
    let all: Vec<RamRegion> = all.into_iter().filter(|region| region.bytes >= LEAST_BYTES).collect();
    let is_backing =
        |region: &&RamRegion| region.file.as_deref().is_some_and(|file| is_backing_file(file, configuration));
    let mut found: Vec<RamRegion> = all.iter().filter(is_backing).cloned().collect();
    let sizes: Vec<u64> = match configuration.backends.iter().any(|backend| backend.bytes > 0) {
        true => configuration.backends.iter().map(|backend| backend.bytes).filter(|size| *size > 0).collect(),
        false => configuration.memory_bytes.into_iter().collect(),
    };
    let anonymous: Vec<&RamRegion> = all.iter().filter(|region| region.file.is_none()).collect();
    for group in adjacent(&anonymous) {
        let runs = sizes.iter().flat_map(|size| runs_of_length(&group, *size));
        found.extend(runs.flatten().map(|region| (*region).clone()));
    }
    if found.is_empty() {
        let is_plain = |region: &&RamRegion| region.file.as_deref().is_none_or(is_memory_file);
        let plain = || all.iter().filter(is_plain);
        let can_hold = |region: &&RamRegion| sizes.iter().max().is_some_and(|size| region.bytes >= *size);
        let shortest = plain().filter(can_hold).min_by_key(|region| region.bytes);
        found.extend(shortest.or_else(|| plain().max_by_key(|region| region.bytes)).cloned());
    }
    found.sort_by_key(|region| region.address);
    found.dedup_by_key(|region| region.address);
    found
}

/// Returns the runs of adjacent mappings that are together as long as a size, or little longer.
fn runs_of_length<'g, 'a>(group: &'g [&'a RamRegion], size: u64) -> Vec<&'g [&'a RamRegion]> {
    let mut runs = Vec::new();
    let (mut start, mut length) = (0, 0u64);
    for end in 0..group.len() {
        length = length.saturating_add(group[end].bytes);
        while start < end && length - group[start].bytes >= size {
            length -= group[start].bytes;
            start += 1;
        }
        if length >= size && length - size <= LEAST_BYTES {
            runs.push(&group[start..=end]);
            (start, length) = (end + 1, 0);
        }
    }
    runs
}

/// Groups mappings that follow each other without a gap, in the order of addresses.
fn adjacent<'a>(regions: &[&'a RamRegion]) -> Vec<Vec<&'a RamRegion>> {
    let mut groups: Vec<Vec<&RamRegion>> = Vec::new();
    for region in regions {
        match groups.last_mut() {
            Some(group)
                if group
                    .last()
                    .is_some_and(|last| last.address.saturating_add(last.bytes) == region.address) =>
            {
                group.push(region);
            }
            _ => groups.push(vec![region]),
        }
    }
    groups
}

/// Returns whether a file holds guest memory: a configured path, or a name of the hypervisors.
fn is_backing_file(file: &str, configuration: &GuestConfiguration) -> bool {
    const NAMES: [&str; 5] =
        ["/memfd:memory-backend-memfd", "/memfd:ch_ram", "/memfd:guest_mem", "/dev/hugepages/", "/memfd:ram"];
    let is_configured = |path: &String| !path.is_empty() && file.starts_with(path.as_str());
    NAMES.iter().any(|name| file.starts_with(name))
        || configuration.backends.iter().filter_map(|backend| backend.path.as_ref()).any(is_configured)
}

/// Returns whether a file is memory without a file system that stores it.
fn is_memory_file(file: &str) -> bool {
    ["/memfd:", "/dev/shm/", "/dev/hugepages", "/anon_hugepage", "/dev/zero"]
        .iter()
        .any(|prefix| file.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guests::configuration::{GuestConfiguration, Hypervisor, MemoryBackend};
    use proptest::prelude::*;

    fn configuration(memory: u64) -> GuestConfiguration {
        GuestConfiguration { memory_bytes: Some(memory), ..GuestConfiguration::new(Hypervisor::Qemu) }
    }

    const MAPS: &str = "\
55d000000000-55d000400000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0002000000 rw-p 00000000 00:00 0
7f0002000000-7f0004000000 rw-p 00000000 00:00 0
7f0004000000-7f0004001000 ---p 00000000 00:00 0
7f1000000000-7f1008000000 rw-p 00000000 00:00 0
";
    const NUMA_MAPS: &str = "\
55d000000000 default heap anon=1024 dirty=1024 N0=1024 kernelpagesize_kB=4
7f0000000000 bind:0 anon=8192 dirty=8192 N0=8192 kernelpagesize_kB=4
7f0002000000 bind:1 anon=4096 dirty=4096 N0=96 N1=4000 kernelpagesize_kB=4
7f0004000000 default
7f1000000000 default anon=3 dirty=3 N1=3 kernelpagesize_kB=4
";

    #[test]
    fn finds_memory_that_a_policy_divides() {
        let found = guest_regions(parse_regions(NUMA_MAPS, MAPS), &configuration(64 << 20));
        let addresses: Vec<u64> = found.iter().map(|region| region.address).collect();
        assert_eq!(addresses, [0x7f00_0000_0000, 0x7f00_0200_0000], "not the longer thread stack");
        let memory = GuestMemory { regions: found, ..GuestMemory::default() };
        assert_eq!(
            memory.bytes_on(),
            [(NodeId(0), (8192 + 96) * 4096), (NodeId(1), 4000 * 4096)].into_iter().collect()
        );
    }

    fn neighbors(lengths_mib: &[u64]) -> Vec<RamRegion> {
        let mut address = 0x7f00_0000_0000;
        let region = |mib: &u64| {
            let bytes = mib << 20;
            address += bytes;
            RamRegion { address: address - bytes, bytes, page_bytes: 4096, ..RamRegion::default() }
        };
        lengths_mib.iter().map(region).collect()
    }

    fn found_mib(regions: Vec<RamRegion>, memory_mib: u64) -> Vec<u64> {
        let found = guest_regions(regions, &configuration(memory_mib << 20));
        found.iter().map(|region| region.bytes >> 20).collect()
    }

    #[test]
    fn neighbors_of_guest_memory_are_not_part_of_it() {
        assert_eq!(found_mib(neighbors(&[8, 64, 2, 128]), 64), [64]);
        assert_eq!(found_mib(neighbors(&[8, 24, 40, 2]), 64), [24, 40], "divided by a policy");
        assert_eq!(found_mib(neighbors(&[64, 64]), 64), [64, 64], "equal guest nodes");
        assert_eq!(found_mib(neighbors(&[8, 72, 1024]), 64), [72], "the kernel joins equal neighbors");
        assert_eq!(found_mib(neighbors(&[8, 4]), 64), [8], "the size is not that of a mapping");
    }

    #[test]
    fn translated_code_is_no_guest_memory() {
        let maps =
            "7f0000000000-7f0040000000 rwxp 00000000 00:00 0\n7f0050000000-7f0058000000 rw-p 0 0:0 0\n";
        let numa = "7f0000000000 default anon=9 N0=9\n7f0050000000 default anon=7 N0=7\n";
        let found = guest_regions(parse_regions(numa, maps), &configuration(1 << 30));
        assert_eq!(found.iter().map(|region| region.bytes).collect::<Vec<_>>(), [128 << 20]);
    }

    #[test]
    fn finds_huge_pages_by_their_file() {
        let maps = "7f2000000000-7f2040000000 rw-s 0 00:20 5 /dev/hugepages/libvirt/qemu/1-web/ram-node0\n";
        let numa =
            "7f2000000000 bind:1 file=/dev/hugepages/libvirt/qemu/1-web/ram\\040node0 huge anon=2 dirty=2 \
                    N1=512 kernelpagesize_kB=2048\n";
        let path = Some("/dev/hugepages/libvirt/qemu/1-web".to_owned());
        let backends = vec![MemoryBackend { bytes: 1 << 30, path, ..MemoryBackend::default() }];
        let configuration = GuestConfiguration { backends, ..configuration(1 << 30) };
        let found = guest_regions(parse_regions(numa, maps), &configuration);
        assert_eq!((found.len(), found[0].page_bytes), (1, 2 << 20));
        assert_eq!(found[0].bytes_on[&NodeId(1)], 1 << 30);
        assert!(found[0].file.as_deref().is_some_and(|file| file.ends_with("ram node0")));
    }

    #[test]
    fn takes_the_longest_mapping_if_no_size_is_known() {
        let unknown = GuestConfiguration { memory_bytes: None, ..configuration(0) };
        let found = guest_regions(parse_regions(NUMA_MAPS, MAPS), &unknown);
        assert_eq!(found.iter().map(|region| region.address).collect::<Vec<_>>(), [0x7f10_0000_0000]);
        assert!(guest_regions(parse_regions("", ""), &unknown).is_empty());
    }

    #[test]
    fn counts_transparent_huge_pages_of_guest_memory_alone() {
        let smaps = "55d000000000-55d000400000 rw-p 00000000 00:00 0 [heap]\nAnonHugePages:      4096 kB\n\
            7f0000000000-7f0002000000 rw-p 00000000 00:00 0\nRss: 32768 kB\nAnonHugePages:     30720 kB\n\
            7f0002000000-7f0004000000 rw-p 00000000 00:00 0\nAnonHugePages:    999999 kB\n";
        let found = guest_regions(parse_regions(NUMA_MAPS, MAPS), &configuration(64 << 20));
        let in_second = (96 + 4000) * 4096;
        assert_eq!(transparent_bytes(smaps, &found), (30 << 20) + in_second, "at most what is allocated");
        assert_eq!(transparent_bytes("AnonHugePages: 4 kB\nx-y\n", &found), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn regions_of_any_text_do_not_panic(numa in ".*", maps in ".*", cut in 0..NUMA_MAPS.len(), count: u64) {
            let _ = guest_regions(parse_regions(&numa, &maps), &configuration(count));
            let _ = transparent_bytes(&maps, &parse_regions(&numa, &maps));
            let huge = format!("0 bind:0 N0={count} N1={count} kernelpagesize_kB={count}\n");
            let _ = guest_regions(parse_regions(&huge, "0-ffffffffffffffff rw-p\n"), &configuration(count));
            let _ = parse_regions(&NUMA_MAPS[..cut], MAPS);
        }
    }
}
