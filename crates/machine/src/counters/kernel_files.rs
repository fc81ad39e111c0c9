//! Counts that the kernel shows as files: numastat, vmstat and resctrl.

use super::counter::{Counter, CounterSource, MissingCounter};
use crate::ids::{CpuId, NodeId};
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::BTreeMap;

const NODES: &str = "/sys/devices/system/node";
const CPUS: &str = "/sys/devices/system/cpu";
const VMSTAT: &str = "/proc/vmstat";
/// Documentation/filesystems/resctrl.rst, "Monitoring".
const RESCTRL: &str = "/sys/fs/resctrl";
const MONITORED: &str = "/sys/fs/resctrl/mon_data";

/// Largest number of monitoring domains to read; each is a last-level cache.
const MAX_DOMAINS: usize = 1024;

/// The CPUs of each node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCpus(pub BTreeMap<NodeId, CpuSet>);

impl NodeCpus {
    /// Reads the CPUs of the online nodes.
    pub fn read(root: &dyn Sysfs) -> Self {
        let ids = root.names(NODES).into_iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
        let cpus = |id: u32| CpuSet::parse_list(&root.optional(&format!("{NODES}/node{id}/cpulist"))?).ok();
        Self(ids.filter_map(|id| Some((NodeId(id), cpus(id)?))).collect())
    }

    /// Returns the node of a CPU.
    pub fn node_of(&self, cpu: CpuId) -> Option<NodeId> {
        self.0.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(node, _)| *node)
    }
}

/// A count in a file, since boot or since the file system was mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCount {
    /// The source.
    pub source: CounterSource,
    /// The file or the line, as in `node0/numastat` or `numa_hint_faults`.
    pub event: String,
    /// The count.
    pub value: u64,
}

/// Counts of all files at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Counts by counter and node.
    pub counts: BTreeMap<(Counter, Option<NodeId>), FileCount>,
    /// Counters whose files are missing.
    pub missing: Vec<MissingCounter>,
}

impl KernelCounts {
    /// Reads numastat, vmstat and resctrl.
    pub fn read(root: &dyn Sysfs, nodes: &NodeCpus) -> Self {
        let mut all = Self::default();
        all.read_numastat(root, nodes);
        all.read_vmstat(root);
        all.read_resctrl(root, nodes);
        all
    }

    fn add(&mut self, counter: Counter, node: Option<NodeId>, count: FileCount) {
        let sum = &mut self.counts.entry((counter, node)).or_insert(FileCount { value: 0, ..count.clone() });
        sum.value = sum.value.saturating_add(count.value);
    }

    fn miss(&mut self, source: CounterSource, counters: &[Counter], reason: &str) {
        let missing =
            |counter: &Counter| MissingCounter { counter: *counter, source, reason: reason.to_owned() };
        self.missing.extend(counters.iter().map(missing));
    }

    fn read_numastat(&mut self, root: &dyn Sysfs, nodes: &NodeCpus) {
        let source = CounterSource::Numastat;
        for node in nodes.0.keys() {
            let file = format!("{NODES}/node{node}/numastat");
            for (counter, value) in parse_numastat(&root.optional(&file).unwrap_or_default()) {
                self.add(
                    counter,
                    Some(*node),
                    FileCount { source, event: format!("node{node}/numastat"), value },
                );
            }
        }
        if !self.counts.keys().any(|(counter, _)| *counter == Counter::NumaHit) {
            let counters: Vec<Counter> = NUMASTAT.iter().map(|(_, counter)| *counter).collect();
            self.miss(source, &counters, "the kernel has no numastat files");
        }
    }

    fn read_vmstat(&mut self, root: &dyn Sysfs) {
        let source = CounterSource::Vmstat;
        let found = parse_vmstat_numa(&root.optional(VMSTAT).unwrap_or_default());
        for (name, counter) in VMSTAT_NUMA {
            match found.get(&counter) {
                Some(value) => {
                    let event = name.to_owned();
                    self.add(counter, None, FileCount { source, event, value: *value });
                }
                None => self.miss(source, &[counter], "the kernel has no automatic NUMA balancing"),
            }
        }
    }

    fn read_resctrl(&mut self, root: &dyn Sysfs, nodes: &NodeCpus) {
        let (source, counters) = (CounterSource::Resctrl, [Counter::MbmLocalBytes, Counter::MbmTotalBytes]);
        let domains = root.names(MONITORED);
        if domains.is_empty() {
            let reason = match root.exists(RESCTRL) {
                true => "resctrl is not mounted at /sys/fs/resctrl, or has no monitoring",
                false => "the kernel or the CPUs have no resctrl",
            };
            return self.miss(source, &counters, reason);
        }
        let caches = last_level_caches(root, nodes);
        let files = counters.into_iter().zip(["mbm_local_bytes", "mbm_total_bytes"]);
        for (counter, file) in files {
            let mut is_found = false;
            for domain in domains.iter().take(MAX_DOMAINS) {
                let id = domain.strip_prefix("mon_L3_").and_then(|id| id.parse::<u32>().ok());
                let Some(node) = id.and_then(|id| caches.get(&id)) else { continue };
                let path = format!("{MONITORED}/{domain}/{file}");
                let Some(value) = parse_mbm_bytes(&root.optional(&path).unwrap_or_default()) else {
                    continue;
                };
                is_found = true;
                self.add(
                    counter,
                    Some(*node),
                    FileCount { source, event: format!("{domain}/{file}"), value },
                );
            }
            if !is_found {
                self.miss(source, &[counter], "resctrl does not monitor memory bandwidth on these CPUs");
            }
        }
    }

    /// Returns how much each count grew since an earlier reading.
    ///
    /// A count that decreased was reset, and is left out.
    pub fn since(&self, earlier: &Self) -> Vec<(Counter, Option<NodeId>, FileCount)> {
        let grown = self.counts.iter().filter_map(|((counter, node), count)| {
            let before = earlier.counts.get(&(*counter, *node))?.value;
            let value = count.value.checked_sub(before)?;
            Some((*counter, *node, FileCount { value, ..count.clone() }))
        });
        grown.collect()
    }
}

/// Returns the node of each last-level cache by its id (Documentation/filesystems/resctrl.rst,
/// "Cache IDs"). A cache of several nodes belongs to the node of its first CPU.
fn last_level_caches(root: &dyn Sysfs, nodes: &NodeCpus) -> BTreeMap<u32, NodeId> {
    let mut found = BTreeMap::new();
    for (node, cpus) in &nodes.0 {
        for cpu in cpus.iter() {
            if let Ok(id) = root.value(&format!("{CPUS}/cpu{cpu}/cache/index3/id")) {
                found.entry(id).or_insert(*node);
            }
        }
    }
    found
}

/// Lines of numastat (Documentation/admin-guide/numastat.rst).
const NUMASTAT: [(&str, Counter); 5] = [
    ("numa_hit", Counter::NumaHit),
    ("numa_miss", Counter::NumaMiss),
    ("numa_foreign", Counter::NumaForeign),
    ("local_node", Counter::NumaLocal),
    ("other_node", Counter::NumaOther),
];

/// Lines of /proc/vmstat about automatic NUMA balancing (mm/vmstat.c).
const VMSTAT_NUMA: [(&str, Counter); 2] =
    [("numa_hint_faults", Counter::HintFaults), ("numa_pages_migrated", Counter::PagesMigrated)];

/// Parses `numastat` of a node, in pages; unknown lines are skipped.
pub fn parse_numastat(text: &str) -> BTreeMap<Counter, u64> {
    named_values(text, &NUMASTAT)
}

/// Parses the lines of /proc/vmstat about automatic NUMA balancing.
pub fn parse_vmstat_numa(text: &str) -> BTreeMap<Counter, u64> {
    named_values(text, &VMSTAT_NUMA)
}

/// Parses lines of a name and a number.
fn named_values(text: &str, names: &[(&str, Counter)]) -> BTreeMap<Counter, u64> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let (_, counter) = names.iter().find(|(known, _)| *known == name)?;
        Some((*counter, value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Parses `mbm_local_bytes` or `mbm_total_bytes`; `None` for `Unavailable`, `Error` and
/// `Unassigned`.
pub fn parse_mbm_bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn machine() -> Tree {
        let mut root = Tree::new();
        for node in 0..2u32 {
            root.file(&format!("{NODES}/node{node}/cpulist"), format!("{}-{}\n", node * 2, node * 2 + 1));
            root.file(
                &format!("{NODES}/node{node}/numastat"),
                format!(
                    "numa_hit {}\nnuma_miss 1\nnuma_foreign 2\ninterleave_hit 3\nlocal_node 4\nother_node 5\n",
                    100 * (node + 1)
                ),
            );
        }
        for cpu in 0..4u32 {
            root.file(&format!("{CPUS}/cpu{cpu}/cache/index3/id"), format!("{}\n", cpu / 2));
        }
        root.file(VMSTAT, "nr_free_pages 7\nnuma_hint_faults 11\nnuma_pages_migrated 12\n");
        root
    }

    #[test]
    fn growth_by_node() {
        let mut root = machine();
        let nodes = NodeCpus::read(&root);
        assert_eq!(nodes.node_of(CpuId(3)), Some(NodeId(1)));
        let before = KernelCounts::read(&root, &nodes);
        root.file(&format!("{NODES}/node1/numastat"), "numa_hit 250\nlocal_node 3\n");
        let after = KernelCounts::read(&root, &nodes);
        let grown = after.since(&before);
        let value = |counter, node| {
            let of = |(of, at, _): &&(Counter, Option<NodeId>, FileCount)| (*of, *at) == (counter, node);
            grown.iter().find(of).map(|(_, _, count)| count.value)
        };
        assert_eq!(value(Counter::NumaHit, Some(NodeId(1))), Some(50));
        assert_eq!(value(Counter::NumaHit, Some(NodeId(0))), Some(0));
        assert_eq!(value(Counter::NumaLocal, Some(NodeId(1))), None, "it decreased: a reset");
        assert_eq!(value(Counter::HintFaults, None), Some(0));
        let why: Vec<&str> = after.missing.iter().map(|missing| missing.reason.as_str()).collect();
        assert_eq!(why, ["the kernel or the CPUs have no resctrl"; 2]);
    }

    #[test]
    fn bandwidth_monitoring_by_cache() {
        let mut root = machine();
        root.file(&format!("{MONITORED}/mon_L3_00/mbm_local_bytes"), "1000\n")
            .file(&format!("{MONITORED}/mon_L3_01/mbm_local_bytes"), "2000\n")
            .file(&format!("{MONITORED}/mon_L3_00/mbm_total_bytes"), "Unavailable\n")
            .file(&format!("{MONITORED}/mon_L3_01/mbm_total_bytes"), "Error\n")
            .file(&format!("{MONITORED}/mon_L3_77/mbm_local_bytes"), "3\n");
        let counts = KernelCounts::read(&root, &NodeCpus::read(&root));
        let local = |node| counts.counts.get(&(Counter::MbmLocalBytes, Some(NodeId(node))));
        assert_eq!(local(1).map(|count| count.value), Some(2000));
        assert_eq!(local(0).map(|count| count.value), Some(1000));
        let missing: Vec<Counter> = counts.missing.iter().map(|missing| missing.counter).collect();
        assert_eq!(missing, [Counter::MbmTotalBytes]);
        assert!(KernelCounts::read(&Tree::new(), &NodeCpus::default()).counts.is_empty());
    }

    #[test]
    fn malformed_lines_are_skipped() {
        let found = parse_numastat("numa_hit\nnuma_miss x\nnuma_foreign 3\nother_node -1\n\u{0}");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(Counter::NumaForeign, 3)]);
        assert_eq!(parse_mbm_bytes("18446744073709551616"), None);
    }
}
