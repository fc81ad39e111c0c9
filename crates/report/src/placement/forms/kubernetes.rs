//! Formats placements for Kubernetes: a pod, and the required kubelet configuration (kubernetes.io,
//! "Control CPU Management Policies", "Control Memory Management Policies", "Control Topology
//! Management Policies on a Node").

use super::comment;
use super::memory::{PolicySupport, NUMACTL_IN_CONTAINER};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlacement};
use std::fmt::Write;

/// Formats a pod with a container for each task that requests the planned number of exclusive CPUs.
///
/// Kubelet chooses the CPUs; comments state the configuration that leaves only the planned ones.
pub fn kubernetes(plan: &PlacementPlan, topology: &Topology) -> String {
    let several = plan.tasks.iter().any(|task| task.cpu_nodes.len() > 1);
    let bound = plan.tasks.iter().all(|task| task.memory.policy == MemoryPolicy::Bind);
    // Memory Manager chooses the fewest nodes with enough memory, whatever nodes the CPUs are on.
    let binds = bound && !several;
    let support = PolicySupport {
        name: "Kubernetes",
        binds,
        prefers: false,
        interleaves: false,
        remedy: NUMACTL_IN_CONTAINER,
    };
    let mut notes = vec![
        "a pod requests a number of CPUs and cannot name CPUs or nodes; kubelet chooses them".to_owned(),
        "kubelet knows a device's node only from its device plugin or driver: list the device in limits too"
            .to_owned(),
    ];
    notes.extend(support.translate_all(plan).1);
    let mut lines = comment::lines(plan, notes);
    lines.extend(kubelet(plan, topology, several, binds));
    lines.push("Planned (compare with Cpus_allowed_list in the containers):".to_owned());
    for (index, task) in plan.tasks.iter().enumerate() {
        let (name, memory) = (comment::task_name(plan, index, task), &task.memory);
        lines.push(format!("  {name}: CPUs {}, memory {} {}", task.cpus, memory.policy.name(), memory.nodes));
    }
    lines.push("Fill in the image and the memory of each task".to_owned());
    comment::hashed(&lines) + &pod(plan)
}

/// Maximum number of nodes of kubelet's topology manager, unless configured
/// (`defaultMaxAllowableNUMANodes` in `pkg/kubelet/cm/topologymanager`).
const MAX_NODES: usize = 8;

/// Returns the lines of the required kubelet configuration.
fn kubelet(plan: &PlacementPlan, topology: &Topology, several: bool, binds: bool) -> Vec<String> {
    let mut lines = vec![
        "Required kubelet configuration:".to_owned(),
        "  cpuManagerPolicy: static".to_owned(),
        "  topologyManagerScope: container".to_owned(),
    ];
    lines.extend(match several {
        // Stricter policies reject a container whose CPUs need more nodes than its memory.
        true => vec![
            "  topologyManagerPolicy: best-effort".to_owned(),
            "  cpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}".to_owned(),
        ],
        false => vec!["  topologyManagerPolicy: single-numa-node".to_owned()],
    });
    let nodes = topology.nodes.len();
    if nodes > MAX_NODES {
        lines.push(format!(
            "  topologyManagerPolicyOptions: {{max-allowable-numa-nodes: \"{nodes}\"}}  # from Kubernetes 1.31; older \
             ones do not start their topology manager with more than {MAX_NODES} nodes"
        ));
    }
    lines.push(match binds {
        true => "  memoryManagerPolicy: Static  # requires reservedMemory for each node".to_owned(),
        false => "  memoryManagerPolicy: None".to_owned(),
    });
    let planned = plan.tasks.iter().fold(CpuSet::new(), |all, task| all.union(&task.cpus));
    let online: CpuSet = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let others = online.difference(&planned);
    lines.push(match others.is_empty() {
        false => format!("  reservedSystemCPUs: \"{others}\"  # leaves only the planned CPUs for pods"),
        true => "  reservedSystemCPUs: the plan uses all CPUs, but the static policy requires a reserved one: plan fewer cores"
            .to_owned(),
    });
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

/// Formats a container with requests equal to limits and integer CPUs, which kubelet requires for
/// exclusive CPUs.
fn container(index: usize, task: &TaskPlacement) -> String {
    let amounts = format!("{{cpu: \"{}\", memory: 1Gi}}", task.cpus.len());
    format!(
        "    - name: task-{index}\n      image: IMAGE\n      resources:\n        requests: {amounts}\n        \
         limits: {amounts}\n"
    )
}

/// Returns whether a host name is a valid label value (kubernetes.io, "Labels and Selectors").
fn is_label(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(inside)
}
