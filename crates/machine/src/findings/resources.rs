//! Findings about nodes, CPUs and the part of them that this process may use.

use crate::finding::{Finding, Severity};
use crate::set::CpuSet;
use crate::topology::{Confinement, Topology, NODES};

/// Reports nodes without memory, nodes without CPUs, and CPUs without node.
pub(super) fn incomplete_nodes(topology: &Topology) -> Vec<Finding> {
    let mut findings = Vec::new();
    for node in &topology.nodes {
        let subject = format!("node {}", node.id);
        if node.memory.is_none() {
            let severity = if node.cpus.is_empty() { Severity::Note } else { Severity::Warning };
            findings.push(Finding::new(
                severity,
                "node-without-memory",
                subject.as_str(),
                "The node has no memory: its programs use memory of other nodes.",
                format!("meminfo of node {}: total missing or 0", node.id),
                "Fit memory modules to this node, or run I/O on nodes with memory.",
            ));
        }
        if node.cpus.is_empty() {
            findings.push(Finding::new(
                Severity::Note,
                "node-without-cpus",
                subject.as_str(),
                "The node has no online CPUs: it is memory only, or an initiator other than a CPU.",
                format!("{NODES}/node{}/cpulist contains no online CPU", node.id),
                "None; threads on other nodes use its memory.",
            ));
        }
    }
    let owned: CpuSet = topology.nodes.iter().flat_map(|node| node.cpus.iter()).collect();
    let online: CpuSet = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let orphans = online.difference(&owned);
    if !orphans.is_empty() {
        findings.push(Finding::new(
            Severity::Warning,
            "cpus-without-node",
            "machine",
            "Some online CPUs belong to no online node; placements exclude them.",
            format!("CPUs {orphans} are in no {NODES}/node*/cpulist"),
            "Set their node online, or update the firmware.",
        ));
    }
    findings
}

/// Reports excluded CPUs and memory.
pub(super) fn confined(confinement: &Confinement) -> Option<Finding> {
    if confinement.by.is_empty() {
        return None;
    }
    let mut excluded = Vec::new();
    if !confinement.excluded_cpus.is_empty() {
        excluded.push(format!("CPUs {}", confinement.excluded_cpus));
    }
    if !confinement.excluded_nodes.is_empty() {
        excluded.push(format!("memory of nodes {}", confinement.excluded_nodes));
    }
    let what = if excluded.is_empty() {
        "This process may not use all memory.".to_owned()
    } else {
        format!("This process may not use {}.", excluded.join(" and "))
    };
    Some(Finding::new(
        Severity::Note,
        "confined",
        "machine",
        what,
        confinement.by.join("; "),
        "Run outside the container, job or cpuset to access and measure the complete machine.",
    ))
}
