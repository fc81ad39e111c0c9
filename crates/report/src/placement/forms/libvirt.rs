//! Places as elements of a domain of libvirt (formatdomain: "CPU Tuning", "NUMA Node Tuning", "Guest NUMA topology").

use super::comment;
use super::memory::{PolicySupport, ToolPolicy};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::{Node, Topology};
use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlace};
use std::fmt::Write;

/// One preferred node: several take libvirt 9.3.
const LIBVIRT: PolicySupport =
    PolicySupport { name: "libvirt", binds: true, prefers: true, interleaves: true, remedy: "" };

/// Elements for the `<domain>` of each task, which is a virtual machine with a virtual CPU on each of its CPUs. One
/// on several nodes gets a node of its own for each of them.
pub fn libvirt(plan: &PlacementPlan, topology: &Topology) -> String {
    let mut notes = Vec::new();
    let mut domains = String::new();
    for (index, task) in plan.tasks.iter().enumerate() {
        let _ = writeln!(
            domains,
            "\n<!-- {}: into its <domain> -->",
            safe(&comment::task_name(plan, index, task))
        );
        domains += &vcpus(task);
        let cells = cells(task, topology);
        if cells.len() > 1 {
            notes.push(
                "each guest node has 1 GiB here, which no plan tells: give each its part of the domain's memory, and \
                 put these elements into a <cpu> that the domain has already"
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

/// Text that may stand in a comment of XML, which two hyphens would end.
fn safe(text: &str) -> String {
    text.replace("--", "- -").replace("--", "- -")
}

fn vcpus(task: &TaskPlace) -> String {
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
        // What libvirt does without.
        ToolPolicy::Local => return String::new(),
    };
    format!("<numatune>\n  <memory mode='{mode}' nodeset='{nodes}'/>\n</numatune>\n")
}

/// Nodes of a virtual machine: the node below each, and its virtual CPUs. None if one node is enough, or if memory
/// is not to lie beside the CPUs.
fn cells(task: &TaskPlace, topology: &Topology) -> Vec<(NodeId, CpuSet)> {
    let beside = matches!(task.memory.policy, MemoryPolicy::Bind | MemoryPolicy::Preferred);
    if !beside || task.memory.nodes != task.cpu_nodes {
        return Vec::new();
    }
    let vcpus_on = |node: &Node| -> CpuSet {
        let vcpus = (0..).zip(task.cpus.iter()).filter(|(_, cpu)| node.cpus.contains(*cpu));
        vcpus.map(|(vcpu, _)| CpuId(vcpu)).collect()
    };
    let nodes = topology.nodes.iter().filter(|node| task.cpu_nodes.contains(node.id));
    nodes.map(|node| (node.id, vcpus_on(node))).filter(|(_, vcpus)| !vcpus.is_empty()).collect()
}

fn guest_nodes(task: &TaskPlace, cells: &[(NodeId, CpuSet)]) -> String {
    let mode = if task.memory.policy == MemoryPolicy::Bind { "strict" } else { "preferred" };
    let (mut below, mut guest) = (String::new(), String::new());
    for (cell, (node, vcpus)) in cells.iter().enumerate() {
        let _ = writeln!(below, "  <memnode cellid='{cell}' mode='{mode}' nodeset='{node}'/>");
        let _ = writeln!(guest, "    <cell id='{cell}' cpus='{vcpus}' memory='1' unit='GiB'/>");
    }
    format!("<numatune>\n{below}</numatune>\n<cpu>\n  <numa>\n{guest}  </numa>\n</cpu>\n")
}
