//! A memory policy in the words that a program has for it.

use numaio_machine::set::NodeSet;
use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlace};

/// What a program can say of memory. None has words for weighted interleave.
pub(super) struct PolicySupport {
    /// Its name.
    pub(super) name: &'static str,
    /// These nodes and no others.
    pub(super) binds: bool,
    /// One node first, others where it is full.
    pub(super) prefers: bool,
    /// Page by page.
    pub(super) interleaves: bool,
    /// What has words for the rest; empty if nothing has.
    pub(super) remedy: &'static str,
}

/// Where a command can be put behind numactl.
pub(super) const NUMACTL: &str = "; where that is not enough, begin the command with the memory option of \
                                  numaio place --format numactl";

/// The same in a container, whose system calls are filtered.
pub(super) const NUMACTL_IN_CONTAINER: &str =
    "; where that is not enough, begin the container's command with the memory option of \
     numaio place --format numactl, which takes the capability SYS_NICE";

/// What is said of a task's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolPolicy {
    /// These nodes and no others.
    Bind(NodeSet),
    /// This node first; a set of one.
    Prefer(NodeSet),
    /// Page by page over these nodes.
    Interleave(NodeSet),
    /// The node on which a thread runs first, then the nearest: the kernel's own way.
    Local,
}

impl PolicySupport {
    /// What is said for each task, and a note for each where that is not what the plan wants.
    pub(super) fn translate_all(&self, plan: &PlacementPlan) -> (Vec<ToolPolicy>, Vec<String>) {
        let (policies, notes): (Vec<_>, Vec<_>) = plan.tasks.iter().map(|task| self.translate(task)).unzip();
        (policies, notes.into_iter().flatten().collect())
    }

    /// What comes closest to the plan, and never confines memory that may lie elsewhere if there is another way.
    pub(super) fn translate(&self, task: &TaskPlace) -> (ToolPolicy, Option<String>) {
        use MemoryPolicy::{Bind, Interleave, Preferred, WeightedInterleave};
        let nodes = &task.memory.nodes;
        match task.memory.policy {
            Bind if self.binds => (ToolPolicy::Bind(nodes.clone()), None),
            Interleave if self.interleaves => (ToolPolicy::Interleave(nodes.clone()), None),
            Preferred if self.prefers && nodes.len() == 1 => (ToolPolicy::Prefer(nodes.clone()), None),
            WeightedInterleave if self.interleaves => {
                (ToolPolicy::Interleave(nodes.clone()), self.note(task, "pages go evenly over its nodes"))
            }
            Preferred if task.cpu_nodes.is_subset(nodes) => (ToolPolicy::Local, self.note(task, LOCAL)),
            Preferred if self.prefers => (
                ToolPolicy::Prefer(nodes.first().into_iter().collect()),
                self.note(task, "its first node is preferred"),
            ),
            _ if self.binds => (ToolPolicy::Bind(nodes.clone()), self.note(task, CONFINED)),
            _ => (ToolPolicy::Local, self.note(task, LOCAL)),
        }
    }

    fn note(&self, task: &TaskPlace, instead: &str) -> Option<String> {
        let policy = match (task.memory.policy, task.memory.nodes.len()) {
            (MemoryPolicy::Preferred, 2..) => "several preferred nodes",
            (MemoryPolicy::Preferred, _) => "a preferred node",
            (MemoryPolicy::Bind, _) => "memory that is bound to nodes",
            (MemoryPolicy::Interleave, _) => "interleaved memory",
            (MemoryPolicy::WeightedInterleave, _) => "weighted interleave",
        };
        Some(format!("{} has no words for {policy}; here {instead}{}", self.name, self.remedy))
    }
}

const LOCAL: &str =
    "memory lies on the node of the CPU that first touches it, and elsewhere where that is full";
const CONFINED: &str =
    "memory is confined to its nodes, in no order, and what needs more than they have is killed";
