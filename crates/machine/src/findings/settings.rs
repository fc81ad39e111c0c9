//! Findings about settings and memory that distort measurements.

use crate::conditions::Conditions;
use crate::finding::{Finding, Severity};
use crate::topology::{Node, Topology};
use crate::units::{format_cpus, format_size};

/// Share of available memory below which buffers likely move to other nodes or wait for reclaim.
const LOW_MEMORY: f64 = 0.05;

/// Share of periods in which processes were stopped from which a quota is a finding.
const THROTTLED: f64 = 0.01;

/// Bit of `numa_balancing` for moving pages to the CPUs that use them
/// (`Documentation/admin-guide/sysctl/kernel.rst`, `numa_balancing`).
const BALANCING: u32 = 1;
/// Bit of `numa_balancing` for promoting hot pages of slow memory.
const TIERING: u32 = 2;

/// Reports automatic NUMA balancing, which moves pages and threads during a measurement, and memory
/// tiering, which does not.
pub(super) fn balancing(topology: &Topology, conditions: &Conditions) -> Option<Finding> {
    const FILE: &str = "/proc/sys/kernel/numa_balancing";
    let mode = conditions.numa_balancing.filter(|mode| *mode != 0)?;
    let several = topology.memory_nodes().len() > 1;
    if mode & BALANCING == 0 {
        return several.then(|| {
            Finding::new(
                Severity::Note,
                "memory-tiering",
                "machine",
                "The kernel promotes hot pages of slow memory to faster nodes; it moves no page between nodes of one tier.",
                format!("{FILE}: {mode}"),
                "Keep it on a machine with slow memory, such as CXL.",
            )
        });
    }
    let remedy = match mode & TIERING {
        0 => "Turn it off while measuring: sysctl kernel.numa_balancing=0",
        _ => "Turn off balancing and keep memory tiering while measuring: sysctl kernel.numa_balancing=2",
    };
    several.then(|| {
        // The kernel's default on every machine with several nodes.
        Finding::new(
            Severity::Note,
            "numa-balancing",
            "machine",
            "Automatic NUMA balancing is on: it moves pages between nodes during measurements.",
            format!("{FILE}: {mode}"),
            remedy,
        )
    })
}

/// Reports a CPU quota that stopped this process's group.
pub(super) fn throttled(topology: &Topology, conditions: &Conditions) -> Option<Finding> {
    let quota = topology.confinement.cpu_quota.as_ref()?;
    let throttling = conditions.cpu_throttling?;
    let share = throttling.throttled_periods as f64 / throttling.periods.max(1) as f64;
    (share >= THROTTLED).then(|| {
        Finding::new(
            Severity::Warning,
            "cpu-throttled",
            "this process",
            format!(
                "Its quota of {} stopped its control group in {:.0} % of all periods.",
                format_cpus(quota.cpus()),
                share * 100.0
            ),
            format!(
                "{}: {} of {} us; cpu.stat: {} of {} periods throttled",
                quota.file, quota.quota_us, quota.period_us, throttling.throttled_periods, throttling.periods
            ),
            match topology.surroundings.container.as_deref() {
                Some("kubernetes") => "Raise limits.cpu of the container, or run fewer threads.",
                Some("docker" | "podman") => "Raise --cpus of the container, or run fewer threads.",
                Some("lxc") => "Raise limits.cpu.allowance of the container, or run fewer threads.",
                _ => "Raise CPUQuota= of its service or slice, or run fewer threads.",
            },
        )
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
        message: format!(
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
