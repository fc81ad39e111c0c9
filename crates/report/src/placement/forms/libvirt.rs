//! Formats placements as elements of a libvirt domain (formatdomain: "CPU Tuning", "NUMA Node
//! Tuning", "Guest NUMA topology").

use super::comment;
use super::memory::{PolicySupport, ToolPolicy};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::{Node, Topology};
use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlacement};
use std::fmt::Write;

/// Only one preferred node: several require libvirt 9.3.
const LIBVIRT: PolicySupport =
    PolicySupport { name: "libvirt", binds: true, prefers: true, interleaves: true, remedy: "" };

/// Formats elements for the `<domain>` of each task, with a virtual CPU on each of its CPUs.
///
/// A task on several nodes gets a guest node for each of them.
pub fn libvirt(plan: &PlacementPlan, topology: &Topology) -> String {
    let mut notes = Vec::new();
    let mut domains = String::new();
    for (index, task) in plan.tasks.iter().enumerate() {
        let _ = writeln!(
            domains,
            "\n<!-- {}: insert into its <domain> -->",
            safe(&comment::task_name(plan, index, task))
        );
        domains += &vcpus(task);
        let cells = cells(task, topology);
        if cells.len() > 1 {
            notes.push(
                "each guest node has 1 GiB as a placeholder, since the plan has no sizes: set its part of the domain's \
                 memory, and merge these elements into the domain's existing <cpu>"
                    .to_owned(),
            );
            domains += &guest_nodes(task, &cells);
        } else {
            let (policies, note) = LIBVIRT.translate(task);
            notes.extend(note);
            domains += &one_memory(&policies);
        }
    }
    let lines = comment::lines(plan, notes);
    lines.iter().map(|line| format!("<!-- {} -->\n", safe(line))).collect::<String>() + &domains
}

/// Replaces double hyphens, which would end an XML comment.
fn safe(text: &str) -> String {
    text.replace("--", "- -").replace("--", "- -")
}

fn vcpus(task: &TaskPlacement) -> String {
    let mut text = format!("<vcpu placement='static'>{}</vcpu>\n<cputune>\n", task.cpus.len());
    for (vcpu, cpu) in task.cpus.iter().enumerate() {
        let _ = writeln!(text, "  <vcpupin vcpu='{vcpu}' cpuset='{cpu}'/>");
    }
    let _ = writeln!(text, "  <emulatorpin cpuset='{}'/>\n</cputune>", task.cpus);
    text
}

fn one_memory(policies: &ToolPolicy) -> String {
    let (mode, nodes) = match policies {
        ToolPolicy::Bind(nodes) => ("strict", nodes),
        ToolPolicy::Prefer(nodes) => ("preferred", nodes),
        ToolPolicy::Interleave(nodes) => ("interleave", nodes),
        // The default of libvirt.
        ToolPolicy::Local => return String::new(),
    };
    format!("<numatune>\n  <memory mode='{mode}' nodeset='{nodes}'/>\n</numatune>\n")
}

/// Returns the guest nodes: host node and virtual CPUs of each.
///
/// Returns none if one node is enough, or if the memory is not on the nodes of the CPUs.
fn cells(task: &TaskPlacement, topology: &Topology) -> Vec<(NodeId, CpuSet)> {
    let local_memory = matches!(task.memory.policy, MemoryPolicy::Bind | MemoryPolicy::Preferred);
    if !local_memory || task.memory.nodes != task.cpu_nodes {
        return Vec::new();
    }
    let vcpus_on = |node: &Node| -> CpuSet {
        let vcpus = (0..).zip(task.cpus.iter()).filter(|(_, cpu)| node.cpus.contains(*cpu));
        vcpus.map(|(vcpu, _)| CpuId(vcpu)).collect()
    };
    let nodes = topology.nodes.iter().filter(|node| task.cpu_nodes.contains(node.id));
    nodes.map(|node| (node.id, vcpus_on(node))).filter(|(_, vcpus)| !vcpus.is_empty()).collect()
}

fn guest_nodes(task: &TaskPlacement, cells: &[(NodeId, CpuSet)]) -> String {
    let mode = if task.memory.policy == MemoryPolicy::Bind { "strict" } else { "preferred" };
    let (mut host, mut guest) = (String::new(), String::new());
    for (cell, (node, vcpus)) in cells.iter().enumerate() {
        let _ = writeln!(host, "  <memnode cellid='{cell}' mode='{mode}' nodeset='{node}'/>");
        let _ = writeln!(guest, "    <cell id='{cell}' cpus='{vcpus}' memory='1' unit='GiB'/>");
    }
    format!("<numatune>\n{host}</numatune>\n<cpu>\n  <numa>\n{guest}  </numa>\n</cpu>\n")
}
