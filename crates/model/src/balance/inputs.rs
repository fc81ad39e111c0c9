//! Inputs of a balancer: groups, nodes, devices and options; and its decisions.

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_schema::BalanceReason;
use std::collections::BTreeMap;

/// Least memory for which a monitor costs less than it may save, in bytes.
const LEAST_MONITORED: u64 = 32 << 20;

/// The observed state of a machine in one round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BalanceProblem {
    /// Groups, by ascending id.
    pub groups: Vec<BalanceGroup>,
    /// Nodes with CPUs and memory.
    pub nodes: Vec<BalanceNode>,
    /// Devices that groups use.
    pub devices: Vec<BalanceDevice>,
}

/// Threads that are moved together, with their memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BalanceGroup {
    /// Name that is unique for the group's lifetime.
    pub id: String,
    /// Shares of its memory by node, which sum to 1; of its CPU time if memory is unknown.
    pub position: BTreeMap<NodeId, f64>,
    /// Private memory by node, in bytes.
    pub bytes_on: BTreeMap<NodeId, u64>,
    /// The part of it that is in use, by node; `None` if it was not monitored. Only this is moved.
    pub hot_on: Option<BTreeMap<NodeId, u64>>,
    /// CPUs in use.
    pub cpus: f64,
    /// Number of threads.
    pub threads: u32,
    /// Bytes per second exchanged with devices.
    pub bytes_per_s: f64,
    /// Share of these bytes by index of the device; they sum to 1.
    pub devices: BTreeMap<usize, f64>,
    /// Nodes to which it may be moved.
    pub allowed: NodeSet,
    /// Why it must not be moved.
    pub obstacle: Option<BalanceReason>,
}

/// A node with CPUs and memory.
#[derive(Debug, Clone, PartialEq)]
pub struct BalanceNode {
    /// The node.
    pub node: NodeId,
    /// Number of CPUs.
    pub cpus: u32,
    /// CPUs in use by programs outside all groups.
    pub other_cpus: f64,
    /// Free and reclaimable memory in bytes.
    pub free_bytes: u64,
}

/// A device, and how fast it is with buffers on each node.
#[derive(Debug, Clone, PartialEq)]
pub struct BalanceDevice {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: NodeId,
    /// Bytes per second with all buffers on one node. Copies only give the proportions.
    pub by_node: BTreeMap<NodeId, f64>,
    /// Most bytes per second of all nodes together; `None` if the device shares its time.
    pub cap_bytes_per_s: Option<f64>,
    /// Whether the rates are measured I/O of the device, not copies.
    pub is_measured: bool,
    /// Share of time in which it is busy, if the kernel counts it.
    pub busy: Option<f64>,
}

impl BalanceDevice {
    /// Returns the rate of a node; that of the slowest node if it was not measured.
    pub fn rate(&self, node: NodeId) -> f64 {
        let slowest = || self.by_node.values().copied().fold(f64::INFINITY, f64::min);
        let rate = self.by_node.get(&node).copied().unwrap_or_else(slowest);
        if rate.is_finite() && rate > 0.0 {
            rate
        } else {
            f64::MIN_POSITIVE
        }
    }
}

impl BalanceGroup {
    /// Returns the node with most of the group's memory.
    pub fn home(&self) -> Option<NodeId> {
        let largest =
            self.position.iter().max_by(|one, other| one.1.total_cmp(other.1).then(other.0.cmp(one.0)));
        largest.map(|(node, _)| *node)
    }

    /// Returns the bytes that a move to a node takes.
    pub fn bytes_to_move(&self, to: NodeId) -> u64 {
        let bytes_on = self.hot_on.as_ref().unwrap_or(&self.bytes_on);
        let elsewhere = bytes_on.iter().filter(|(node, _)| **node != to);
        elsewhere.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// A decision about a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupDecision {
    /// Index of the group in the problem.
    pub group: usize,
    /// The node to move to now; `None` to stay.
    pub to: Option<NodeId>,
    /// The best node so far, even if the group stays.
    pub best: Option<NodeId>,
    /// Predicted rate on the best node, in bytes per second.
    pub predicted_bytes_per_s: Option<f64>,
    /// Why.
    pub reason: BalanceReason,
}

impl GroupDecision {
    /// Returns whether monitoring the group's accesses would reduce the cost of a move that is
    /// worthwhile, or that only costs too much; `None` or the bytes that would be moved.
    pub fn monitored_bytes(&self, problem: &BalanceProblem) -> Option<u64> {
        let group = problem.groups.get(self.group).filter(|group| group.hot_on.is_none())?;
        let depends_on_bytes = matches!(
            self.reason,
            BalanceReason::Gain { .. }
                | BalanceReason::Unconfirmed { .. }
                | BalanceReason::HighCost { .. }
                | BalanceReason::TooMuchMemory { .. }
                | BalanceReason::TargetFull { .. }
                | BalanceReason::ByteLimit { .. }
        );
        let bytes = group.bytes_to_move(self.to.or(self.best)?);
        (depends_on_bytes && bytes >= LEAST_MONITORED).then_some(bytes)
    }
}

/// Options of decisions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BalanceOptions {
    /// Time within which a move must pay off, in seconds.
    pub horizon_s: f64,
    /// Least gain, as a share of the group's rate.
    pub margin: f64,
    /// Most that another group may lose, as a share of its rate.
    pub harm: f64,
    /// Least time after a move in which a group stays, in seconds. A costly move extends it.
    pub cool_down_s: f64,
    /// Rounds in which a gain must be predicted before the move.
    pub confirm_rounds: u32,
    /// Rounds after a move in which groups with the same device stay.
    pub settle_rounds: u64,
    /// Least rate of a group in bytes per second.
    pub min_bytes_per_s: f64,
    /// Rate at which the kernel moves pages, in bytes per second.
    pub move_bytes_per_s: f64,
    /// Limit of moved bytes per second, on average.
    pub limit_bytes_per_s: f64,
    /// Most bytes of a single move.
    pub most_move_bytes: u64,
    /// Most moves in one round.
    pub moves_per_round: usize,
}

impl Default for BalanceOptions {
    fn default() -> Self {
        Self {
            horizon_s: 60.0,
            margin: 0.05,
            harm: 0.25,
            cool_down_s: 15.0,
            confirm_rounds: 2,
            settle_rounds: 1,
            min_bytes_per_s: 1e6,
            move_bytes_per_s: 1e9,
            limit_bytes_per_s: 256e6,
            most_move_bytes: 16 << 30,
            moves_per_round: 2,
        }
    }
}
