//! Load of nodes: busy CPUs, free memory and pressure
//! (Documentation/filesystems/proc.rst, 1.7, and Documentation/accounting/psi.rst).

use crate::ids::{CpuId, NodeId};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters of the load of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadSample {
    /// Ticks of each CPU, busy and in total.
    ticks: BTreeMap<CpuId, (u64, u64)>,
    /// Free memory of each node, and page cache that it could drop.
    memory: BTreeMap<NodeId, (u64, u64)>,
    /// Pressure of the machine.
    pressure: Pressure,
}

/// Shares of time in which at least one task waited for a resource, over the last 10 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// For a CPU; `None` if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// For memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// For I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<f64>,
}

/// Load of a node between two samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeLoad {
    /// The node.
    pub node: NodeId,
    /// Number of online CPUs.
    pub cpus: u32,
    /// CPUs in use, from 0 to `cpus`.
    pub busy_cpus: f64,
    /// Free memory in bytes.
    pub free_bytes: u64,
    /// Page cache that can be dropped for other memory, in bytes.
    pub reclaimable_bytes: u64,
}

impl LoadSample {
    /// Reads the counters; unreadable ones are absent.
    pub fn read(root: &dyn Sysfs, nodes: impl Iterator<Item = NodeId>) -> Self {
        let memory = nodes.filter_map(|node| {
            let text = root.optional(&format!("/sys/devices/system/node/node{node}/meminfo"))?;
            Some((node, parse_free_memory(&text)))
        });
        let pressure =
            |of: &str| root.optional(&format!("/proc/pressure/{of}")).and_then(|text| parse_pressure(&text));
        Self {
            ticks: root.optional("/proc/stat").map(|text| parse_cpu_ticks(&text)).unwrap_or_default(),
            memory: memory.collect(),
            pressure: Pressure { cpu: pressure("cpu"), memory: pressure("memory"), io: pressure("io") },
        }
    }

    /// Returns the pressure at the time of the sample.
    pub fn pressure(&self) -> Pressure {
        self.pressure
    }

    /// Returns the load of each node with CPUs or memory since an earlier sample.
    pub fn since(&self, before: &Self, topology: &Topology) -> Vec<NodeLoad> {
        let busy = |cpu: CpuId| -> f64 {
            let (Some((busy, all)), Some((busy_before, all_before))) =
                (self.ticks.get(&cpu), before.ticks.get(&cpu))
            else {
                return 0.0;
            };
            let all = all.saturating_sub(*all_before).max(1);
            (busy.saturating_sub(*busy_before) as f64 / all as f64).min(1.0)
        };
        // CPUs may have been taken offline since the topology was read; `/proc/stat` omits them.
        let is_online = |cpu: &CpuId| self.ticks.is_empty() || self.ticks.contains_key(cpu);
        let load = |node: &crate::topology::Node| {
            let (free_bytes, reclaimable_bytes) = self.memory.get(&node.id).copied().unwrap_or_default();
            NodeLoad {
                node: node.id,
                cpus: u32::try_from(node.cpus.iter().filter(is_online).count()).unwrap_or(u32::MAX),
                busy_cpus: node.cpus.iter().map(busy).sum(),
                free_bytes,
                reclaimable_bytes,
            }
        };
        topology.nodes.iter().map(load).collect()
    }
}

/// Parses the lines of single CPUs in `/proc/stat`: busy and all ticks.
fn parse_cpu_ticks(text: &str) -> BTreeMap<CpuId, (u64, u64)> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = CpuId(words.next()?.parse().ok()?);
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
        let all = ticks.iter().fold(0u64, |sum, ticks| sum.saturating_add(*ticks));
        // Idle and waiting for I/O.
        let idle = ticks.get(3)?.saturating_add(*ticks.get(4).unwrap_or(&0));
        Some((cpu, (all.saturating_sub(idle), all)))
    };
    // The line of all CPUs has no number, and fails to parse.
    text.lines().take_while(|line| !line.starts_with("intr")).filter_map(line).collect()
}

/// Parses free and reclaimable bytes of a node's `meminfo`: lines of `Node 0 MemFree:  12 kB`.
fn parse_free_memory(text: &str) -> (u64, u64) {
    let field = |name: &str| -> u64 {
        let value = text.lines().find_map(|line| {
            let rest = line.trim_start().strip_prefix("Node ")?.split_once(' ')?.1;
            rest.strip_prefix(name)?.split_ascii_whitespace().next()?.parse::<u64>().ok()
        });
        value.unwrap_or(0).saturating_mul(1024)
    };
    let files = field("Active(file):").saturating_add(field("Inactive(file):"));
    (field("MemFree:"), files.saturating_sub(field("Dirty:")))
}

/// Parses the share of `some avg10=1.50` as 0.015.
fn parse_pressure(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value: f64 =
        some.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()?;
    value.is_finite().then_some((value / 100.0).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::CpuSet;
    use crate::topology::Node;
    use crate::tree::Tree;
    use proptest::prelude::*;

    fn tree(busy: u64) -> Tree {
        let mut tree = Tree::new();
        let stat =
            format!("cpu 9 9 9 9\ncpu0 {busy} 0 0 100 0 0 0 0\ncpu2 0 0 0 {} 0 0 0\nintr 1\n", 100 + busy);
        tree.file("/proc/stat", stat);
        let meminfo = "Node 1 MemTotal: 100 kB\nNode 1 MemFree: 40 kB\nNode 1 Dirty: 5 kB\n\
                       Node 1 Active(file): 10 kB\nNode 1 Inactive(file): 20 kB\n";
        tree.file("/sys/devices/system/node/node1/meminfo", meminfo);
        tree.file("/proc/pressure/io", "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\n");
        tree
    }

    #[test]
    fn computes_busy_cpus_and_free_memory_of_a_node() {
        let node = Node {
            id: NodeId(1),
            cpus: [CpuId(0), CpuId(2)].into_iter().collect::<CpuSet>(),
            memory: None,
            huge_pages: Vec::new(),
            packages: Vec::new(),
            access: Vec::new(),
            memory_side_caches: Vec::new(),
            memory_allowed: true,
            memory_kind: None,
            memory_kind_source: None,
            memory_unknown: false,
        };
        let topology = Topology { nodes: vec![node], ..Topology::default() };
        let sample = |busy| LoadSample::read(&tree(busy), std::iter::once(NodeId(1)));
        let load = sample(150).since(&sample(50), &topology);
        let expected = NodeLoad {
            node: NodeId(1),
            cpus: 2,
            busy_cpus: 1.0,
            free_bytes: 40 << 10,
            reclaimable_bytes: 25 << 10,
        };
        assert_eq!(load, [expected]);
        let mut offline = tree(150);
        offline.file("/proc/stat", "cpu 9 9 9 9\ncpu0 150 0 0 100 0 0 0 0\nintr 1\n");
        let offline = LoadSample::read(&offline, std::iter::once(NodeId(1)));
        assert_eq!(offline.since(&sample(50), &topology)[0].cpus, 1, "an offline CPU does not count");
        let pressure = sample(0).pressure();
        assert_eq!((pressure.io, pressure.cpu), (Some(0.125), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parsers_never_panic(text in "(\\PC|[a-z0-9:= \n]){0,200}") {
            let _ = (parse_cpu_ticks(&text), parse_free_memory(&text), parse_pressure(&text));
            let _ = parse_cpu_ticks(&format!("cpu1 {text}"));
        }
    }
}
