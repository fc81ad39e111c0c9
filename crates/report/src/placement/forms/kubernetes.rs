//! What Kubernetes can be told of places: a pod, and how kubelet must be set for it (kubernetes.io, "Control CPU
//! Management Policies", "Control Memory Management Policies" and "Control Topology Management Policies on a Node").

use super::comment;
use super::memory::{PolicySupport, NUMACTL_IN_CONTAINER};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlace};
use std::fmt::Write;

/// A pod with a container for each task, which asks for as many CPUs of its own as planned. Which CPUs, kubelet
/// chooses; comments say how to leave it no other choice.
pub fn kubernetes(plan: &PlacementPlan, topology: &Topology) -> String {
    let several = plan.tasks.iter().any(|task| task.cpu_nodes.len() > 1);
    let bound = plan.tasks.iter().all(|task| task.memory.policy == MemoryPolicy::Bind);
    // Memory Manager takes as few nodes as have room, whatever nodes the CPUs are on.
    let binds = bound && !several;
    let speaker = PolicySupport {
        name: "Kubernetes",
        binds,
        prefers: false,
        interleaves: false,
        remedy: NUMACTL_IN_CONTAINER,
    };
    let mut notes = vec![
        "a pod asks for a number of CPUs, and cannot name CPUs or nodes: kubelet chooses them".to_owned(),
        "kubelet knows the node of a device only from its device plugin or driver: ask for it in limits too"
            .to_owned(),
    ];
    notes.extend(speaker.translate_all(plan).1);
    let mut lines = comment::lines(plan, notes);
    lines.extend(kubelet(plan, topology, several, binds));
    lines.push("Planned, to be compared with Cpus_allowed_list in the containers:".to_owned());
    for (index, task) in plan.tasks.iter().enumerate() {
        let (name, memory) = (comment::task_name(plan, index, task), &task.memory);
        lines.push(format!("  {name}: CPUs {}, memory {} {}", task.cpus, memory.policy.name(), memory.nodes));
    }
    lines.push("To be filled in: the image, and how much memory each task needs".to_owned());
    comment::hashed(&lines) + &pod(plan)
}

/// How kubelet must be set, in lines of its configuration.
fn kubelet(plan: &PlacementPlan, topology: &Topology, several: bool, binds: bool) -> Vec<String> {
    let mut lines = vec![
        "Kubelet's configuration that this takes:".to_owned(),
        "  cpuManagerPolicy: static".to_owned(),
        "  topologyManagerScope: container".to_owned(),
    ];
    lines.extend(match several {
        // Stricter policies refuse a container whose CPUs need more nodes than its memory.
        true => vec![
            "  topologyManagerPolicy: best-effort".to_owned(),
            "  cpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}".to_owned(),
        ],
        false => vec!["  topologyManagerPolicy: single-numa-node".to_owned()],
    });
    lines.push(match binds {
        true => "  memoryManagerPolicy: Static  # and reservedMemory of each node".to_owned(),
        false => "  memoryManagerPolicy: None".to_owned(),
    });
    let planned = plan.tasks.iter().fold(CpuSet::new(), |all, task| all.union(&task.cpus));
    let online: CpuSet = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let others = online.difference(&planned);
    if !others.is_empty() {
        lines.push(format!(
            "  reservedSystemCPUs: \"{others}\"  # so that only the planned CPUs can be given away"
        ));
    }
    lines
}

fn pod(plan: &PlacementPlan) -> String {
    let mut text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: numaio-place\nspec:\n".to_owned();
    let host = &plan.machine.hostname;
    if is_label(host) {
        let _ = writeln!(text, "  nodeSelector:\n    kubernetes.io/hostname: \"{host}\"");
    }
    text += "  containers:\n";
    for (index, task) in plan.tasks.iter().enumerate() {
        text += &container(index, task);
    }
    text
}

/// Requests that equal limits, with whole CPUs: only such a container gets CPUs of its own.
fn container(index: usize, task: &TaskPlace) -> String {
    let amounts = format!("{{cpu: \"{}\", memory: 1Gi}}", task.cpus.len());
    format!(
        "    - name: task-{index}\n      image: IMAGE\n      resources:\n        requests: {amounts}\n        \
         limits: {amounts}\n"
    )
}

/// Whether a host's name may be the value of a label (kubernetes.io, "Labels and Selectors").
fn is_label(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(inside)
}
