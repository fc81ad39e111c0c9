//! Findings about settings and memory that distort measurements.

use crate::conditions::Conditions;
use crate::finding::{Finding, Severity};
use crate::topology::{Node, Topology};
use crate::units::format_size;

/// Share of available memory below which buffers likely move to other nodes or wait for reclaim.
const LOW_MEMORY: f64 = 0.05;

/// Reports automatic NUMA balancing, which moves pages and threads during a measurement
pub(super) fn balancing(topology: &Topology, conditions: &Conditions) -> Option<Finding> {
    let mode = conditions.numa_balancing.filter(|mode| *mode != 0)?;
    (topology.memory_nodes().len() > 1).then(|| Finding {
        severity: Severity::Warning,
        rule: "numa-balancing".into(),
        subject: "machine".into(),
        what: "Automatic NUMA balancing is on: it moves pages between nodes during measurements.".into(),
        evidence: format!("/proc/sys/kernel/numa_balancing: {mode}"),
        remedy: "Turn it off while measuring: sysctl kernel.numa_balancing=0".into(),
    })
}

/// Reports nodes with little memory available for buffers.
pub(super) fn low_memory(topology: &Topology) -> Vec<Finding> {
    topology.nodes.iter().filter_map(low_memory_of).collect()
}

fn low_memory_of(node: &Node) -> Option<Finding> {
    let memory = node.memory?;
    let available = memory.free_bytes.saturating_add(memory.reclaimable_bytes);
    if available as f64 >= memory.total_bytes as f64 * LOW_MEMORY {
        return None;
    }
    let [total, free, reclaimable] =
        [memory.total_bytes, memory.free_bytes, memory.reclaimable_bytes].map(format_size);
    Some(Finding {
        severity: Severity::Warning,
        rule: "node-memory-low".into(),
        subject: format!("node {}", node.id),
        what: format!(
            "Node {} has {} of {total} left: buffers may be placed on other nodes.",
            node.id,
            format_size(available)
        ),
        evidence: format!(
            "/sys/devices/system/node/node{}/meminfo: total {total}, free {free}, reclaimable {reclaimable}",
            node.id
        ),
        remedy: "Free memory on this node, or choose smaller buffers.".into(),
    })
}
