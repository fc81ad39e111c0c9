//! Translates memory policies to what each tool supports.

use numaio_machine::set::NodeSet;
use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlacement};

/// The memory policies that a tool supports. None supports weighted interleave.
pub(super) struct PolicySupport {
    /// Name of the tool.
    pub(super) name: &'static str,
    /// Whether it can bind memory to nodes.
    pub(super) binds: bool,
    /// Whether it can prefer a node.
    pub(super) prefers: bool,
    /// Whether it can interleave pages over nodes.
    pub(super) interleaves: bool,
    /// Advice for unsupported policies, appended to a note; may be empty.
    pub(super) remedy: &'static str,
}

/// Advice for tools whose command can be run by numactl.
pub(super) const NUMACTL: &str =
    "; if that is not sufficient, prefix the command with the memory option from 'numaio place --format numactl'";

/// The same advice for containers, whose system calls are filtered.
pub(super) const NUMACTL_IN_CONTAINER: &str =
    "; if that is not sufficient, prefix the container's command with the memory option from \
     'numaio place --format numactl', which requires the capability SYS_NICE";

/// The memory policy of a task, as far as the tool supports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolPolicy {
    /// Only these nodes.
    Bind(NodeSet),
    /// This node first (a set of one).
    Prefer(NodeSet),
    /// Page by page on these nodes.
    Interleave(NodeSet),
    /// The kernel's default: the node of the thread that first touches a page, else the nearest.
    Local,
}

impl PolicySupport {
    /// Translates the policies of all tasks, with a note for each policy that is not supported
    /// exactly.
    pub(super) fn translate_all(&self, plan: &PlacementPlan) -> (Vec<ToolPolicy>, Vec<String>) {
        let (policies, notes): (Vec<_>, Vec<_>) = plan.tasks.iter().map(|task| self.translate(task)).unzip();
        (policies, notes.into_iter().flatten().collect())
    }

    /// Translates the policy of a task to the closest supported one; confines memory only as a
    /// last resort.
    pub(super) fn translate(&self, task: &TaskPlacement) -> (ToolPolicy, Option<String>) {
        use MemoryPolicy::{Bind, Interleave, Preferred, WeightedInterleave};
        let nodes = &task.memory.nodes;
        match task.memory.policy {
            Bind if self.binds => (ToolPolicy::Bind(nodes.clone()), None),
            Interleave if self.interleaves => (ToolPolicy::Interleave(nodes.clone()), None),
            Preferred if self.prefers && nodes.len() == 1 => (ToolPolicy::Prefer(nodes.clone()), None),
            WeightedInterleave if self.interleaves => (
                ToolPolicy::Interleave(nodes.clone()),
                self.note(task, "pages are interleaved evenly over its nodes"),
            ),
            Preferred if task.cpu_nodes.is_subset(nodes) => (ToolPolicy::Local, self.note(task, LOCAL)),
            Preferred if self.prefers => (
                ToolPolicy::Prefer(nodes.first().into_iter().collect()),
                self.note(task, "its first node is preferred"),
            ),
            _ if self.binds => (ToolPolicy::Bind(nodes.clone()), self.note(task, CONFINED)),
            _ => (ToolPolicy::Local, self.note(task, LOCAL)),
        }
    }

    fn note(&self, task: &TaskPlacement, instead: &str) -> Option<String> {
        let policy = match (task.memory.policy, task.memory.nodes.len()) {
            (MemoryPolicy::Preferred, 2..) => "several preferred nodes",
            (MemoryPolicy::Preferred, _) => "a preferred node",
            (MemoryPolicy::Bind, _) => "binding memory to nodes",
            (MemoryPolicy::Interleave, _) => "interleaved memory",
            (MemoryPolicy::WeightedInterleave, _) => "weighted interleave",
        };
        Some(format!("{} does not support {policy}; instead, {instead}{}", self.name, self.remedy))
    }
}

const LOCAL: &str =
    "memory is on the node of the CPU that first touches it, or on other nodes if that is full";
const CONFINED: &str = "memory is confined to its nodes, in no order, and tasks that exceed them are killed";
