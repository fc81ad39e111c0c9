//! Events of `numaio balance`: what was observed, decided and done.

use crate::{DeviceTraffic, UnknownTraffic};
use numaio_machine::control::PageRefusal;
use numaio_machine::hot_pages::AccessMonitorKind;
use numaio_machine::ids::NodeId;
use numaio_machine::programs::{NodeLoad, Pressure};
use numaio_machine::set::{CpuSet, NodeSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An event of a balancer; a stream of events has one per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BalanceEvent {
    /// [`BALANCE_EVENT_SCHEMA`](crate::BALANCE_EVENT_SCHEMA).
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Time in seconds since 1970.
    pub at: u64,
    /// Number of the round, from 1; 0 before the first.
    pub round: u64,
    /// The event.
    pub event: BalanceEventKind,
}

/// A kind of event with its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BalanceEventKind {
    /// The balancer started.
    Started(BalanceStart),
    /// A round of observation ended.
    Round(BalanceRound),
    /// A decision about a group that is new, or differs from the last one.
    Decision(BalanceDecision),
    /// A group was moved.
    Moved(BalanceMove),
    /// A group could not be moved; nothing was changed.
    MoveFailed {
        /// The group.
        group: String,
        /// The reason.
        reason: String,
    },
    /// The balancer ended.
    Ended {
        /// Number of moved groups.
        moves: u64,
        /// Moved bytes of memory.
        moved_bytes: u64,
        /// Groups of the last round by the reason of their decision.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        reasons: BTreeMap<String, u64>,
    },
}

/// Settings of a balancer, and other programs that move tasks or memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BalanceStart {
    /// Seconds between rounds.
    pub every_s: f64,
    /// Whether nothing is moved.
    pub dry_run: bool,
    /// Automatic NUMA balancing of the kernel: 0 off, 1 on, 2 memory tiering, 3 both.
    pub numa_balancing: Option<u32>,
    /// Running daemons that move tasks, memory or interrupts, such as `irqbalance` and `numad`.
    pub daemons: Vec<String>,
    /// Nodes whose devices have a model or measured I/O.
    pub modeled_nodes: NodeSet,
    /// Why the TCP traffic of programs is unknown; `None` if the kernel lists sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_sockets: Option<String>,
}

/// One round of observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BalanceRound {
    /// Observed programs.
    pub programs: u32,
    /// Groups that use devices or CPUs.
    pub groups: u32,
    /// CPU time of the observation in seconds.
    pub cpu_s: f64,
    /// Load of each node.
    pub nodes: Vec<NodeLoad>,
    /// Pressure of the machine.
    pub pressure: Pressure,
}

/// A decision about a group: threads that share memory, or a control group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BalanceDecision {
    /// The group: `pid:4711`, or the path of its control group.
    pub group: String,
    /// Name of its program, or of the one that moves most.
    pub name: String,
    /// Its processes.
    pub pids: Vec<u32>,
    /// Devices that it uses.
    pub devices: Vec<String>,
    /// Traffic with each of these devices, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traffic: BTreeMap<String, DeviceTraffic>,
    /// Why the traffic of its sockets is unknown, of one of its programs at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_traffic: Option<UnknownTraffic>,
    /// Bytes per second exchanged with devices.
    pub bytes_per_s: f64,
    /// CPUs in use on each node.
    pub cpus_on: BTreeMap<NodeId, f64>,
    /// Private memory on each node; `None` if not permitted.
    pub bytes_on: Option<BTreeMap<NodeId, u64>>,
    /// The part that is in use; `None` if it was not to be monitored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<HotMemory>,
    /// The node to move to; `None` to stay.
    pub to: Option<NodeId>,
    /// Predicted rate after a move, in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_bytes_per_s: Option<f64>,
    /// Why.
    pub reason: BalanceReason,
}

/// Memory of a group that is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HotMemory {
    /// A monitor observed accesses.
    Monitored(MonitoredMemory),
    /// All memory that was ever touched counts, because accesses could not be monitored, with the
    /// reason.
    NotMonitored(String),
}

/// Memory of a group that was in use while a monitor observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MonitoredMemory {
    /// The monitor.
    pub monitor: AccessMonitorKind,
    /// Addresses in use, in bytes.
    pub hot_bytes: u64,
    /// Monitored addresses in bytes.
    pub monitored_bytes: u64,
}

/// The reason for a move, or for none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BalanceReason {
    /// The gain exceeds the cost by the margin.
    Gain {
        /// Predicted gain of all groups in bytes per second.
        gain_bytes_per_s: f64,
        /// Memory to move.
        move_bytes: u64,
        /// Time of the move and its aftermath in seconds.
        cost_s: f64,
    },
    /// No other node promises more.
    BestNode,
    /// It uses no device with a known node.
    NoDevice,
    /// It exchanges too few bytes.
    LowRate {
        /// The least rate in bytes per second.
        min_bytes_per_s: f64,
    },
    /// The device has time left: the program limits itself.
    NotLimited {
        /// Share of time in which the device is busy.
        device_busy: f64,
    },
    /// Neither a model nor measured I/O exists for the device's node.
    NoModel {
        /// The node.
        node: NodeId,
    },
    /// The gain is below the margin.
    SmallGain {
        /// Predicted gain as a share of the group's rate.
        gain: f64,
        /// The least gain.
        min_gain: f64,
    },
    /// The move costs more than it gains within the horizon.
    HighCost {
        /// Time of the move and its aftermath in seconds.
        cost_s: f64,
        /// The horizon in seconds.
        horizon_s: f64,
    },
    /// Another group would lose too much.
    HarmsOther {
        /// The group.
        other: String,
        /// Its loss as a share of its rate.
        loss: f64,
    },
    /// The gain is new, and must persist.
    Unconfirmed {
        /// Rounds so far.
        rounds: u32,
        /// Rounds needed.
        needed: u32,
    },
    /// Its accesses are monitored first, so that only memory in use is moved.
    Monitoring {
        /// Memory to move without a monitor.
        move_bytes: u64,
    },
    /// It was moved a short time ago.
    CoolDown {
        /// Seconds that remain.
        remaining_s: f64,
    },
    /// Rates change, because a group with the same device was just moved.
    Settling,
    /// An earlier move did not have the predicted effect.
    Ineffective {
        /// Measured gain as a share of the predicted one.
        realized: f64,
        /// Seconds until the next attempt.
        remaining_s: f64,
    },
    /// The limit of moved bytes per second is used up.
    ByteLimit {
        /// Memory to move.
        move_bytes: u64,
    },
    /// It has more memory than a single move may take.
    TooMuchMemory {
        /// Memory to move.
        move_bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// The target node has too little free memory.
    TargetFull {
        /// The node.
        node: NodeId,
        /// Free and reclaimable bytes.
        free_bytes: u64,
    },
    /// Its cpuset allows no CPU or no memory of a better node.
    OutsideCpuset,
    /// Its own CPU affinity excludes the better nodes.
    OutsideAffinity {
        /// CPUs of the affinity.
        cpus: CpuSet,
    },
    /// It chose the nodes of its memory itself.
    ExplicitPolicy {
        /// The policy, such as `bind:1`.
        policy: String,
    },
    /// Some of its threads have real-time priorities.
    RealTime,
    /// Devices access its memory directly, and pinned pages cannot be moved.
    Pinned {
        /// Pinned bytes; 0 if only known from its open files.
        bytes: u64,
    },
    /// It belongs to another user, and permission is missing.
    OtherUser {
        /// The user id.
        uid: Option<u32>,
    },
    /// The configuration excludes it.
    Excluded {
        /// The entry of the configuration.
        entry: String,
    },
}

/// A completed move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BalanceMove {
    /// The group.
    pub group: String,
    /// ID of the receipt, for `numaio undo`.
    pub receipt: String,
    /// The node.
    pub to: NodeId,
    /// Threads whose affinity was set.
    pub threads: u32,
    /// Threads that are bound to the node now.
    pub threads_in_place: u32,
    /// Memory to move.
    pub wanted_bytes: u64,
    /// The part that is in use; `None` if it was not to be monitored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<HotMemory>,
    /// Memory that was moved.
    pub moved_bytes: u64,
    /// Memory that stayed, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_bytes: BTreeMap<PageRefusal, u64>,
    /// Memory that is never moved, by kind: shared, huge, bound, locked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_bytes: BTreeMap<String, u64>,
    /// Processes that ended during the move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<u32>,
    /// Time of the move in seconds.
    pub seconds: f64,
}

impl BalanceReason {
    /// Returns the name in documents, such as `cool-down`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gain { .. } => "gain",
            Self::BestNode => "best-node",
            Self::NoDevice => "no-device",
            Self::LowRate { .. } => "low-rate",
            Self::NotLimited { .. } => "not-limited",
            Self::NoModel { .. } => "no-model",
            Self::SmallGain { .. } => "small-gain",
            Self::HighCost { .. } => "high-cost",
            Self::HarmsOther { .. } => "harms-other",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Monitoring { .. } => "monitoring",
            Self::CoolDown { .. } => "cool-down",
            Self::Settling => "settling",
            Self::Ineffective { .. } => "ineffective",
            Self::ByteLimit { .. } => "byte-limit",
            Self::TooMuchMemory { .. } => "too-much-memory",
            Self::TargetFull { .. } => "target-full",
            Self::OutsideCpuset => "outside-cpuset",
            Self::OutsideAffinity { .. } => "outside-affinity",
            Self::ExplicitPolicy { .. } => "explicit-policy",
            Self::RealTime => "real-time",
            Self::Pinned { .. } => "pinned",
            Self::OtherUser { .. } => "other-user",
            Self::Excluded { .. } => "excluded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrafficSource;

    /// A decision and a move with all optional fields.
    const EVENTS: &str = r#"
{"schema": "numaio/balance-event/1", "machine": "a", "at": 1, "round": 0, "event": {"started": {"every_s": 2.0, "dry_run": false, "numa_balancing": null, "daemons": [], "modeled_nodes": "7", "missing_sockets": "module tcp_diag is missing"}}}
{"schema": "numaio/balance-event/1", "machine": "a", "at": 1, "round": 3, "event": {"decision": {"group": "pid:72:500", "name": "db", "pids": [72], "devices": ["eth0"], "traffic": {"eth0": {"read_bytes_per_s": 117.0, "write_bytes_per_s": 2.0, "source": "sockets"}}, "unknown_traffic": "other-namespace", "bytes_per_s": 119.0, "cpus_on": {}, "bytes_on": {"4": 352321536}, "hot": {"not_monitored": "DAMON: missing"}, "to": null, "reason": {"reason": "monitoring", "move_bytes": 352321536}}}}
{"schema": "numaio/balance-event/1", "machine": "a", "at": 1, "round": 4, "event": {"moved": {"group": "pid:72:500", "receipt": "balance-2", "to": 7, "threads": 3, "threads_in_place": 3, "wanted_bytes": 37748736, "hot": {"monitored": {"monitor": "idle-pages", "hot_bytes": 37748736, "monitored_bytes": 356515840}}, "moved_bytes": 37748736, "seconds": 0.6}}}
"#;

    #[test]
    fn traffic_and_memory_in_use_round_trip() {
        let lines = EVENTS.lines().filter(|line| !line.is_empty());
        let events: Vec<BalanceEvent> =
            lines.map(|line| BalanceEvent::from_json(line).expect("an event")).collect();
        for event in &events {
            let json = serde_json::to_string(event).expect("JSON");
            assert_eq!(BalanceEvent::from_json(&json).expect("the same event"), *event);
        }
        let BalanceEventKind::Decision(decision) = &events[1].event else { panic!("{events:?}") };
        assert_eq!(decision.traffic["eth0"].source, TrafficSource::Sockets);
        assert_eq!(decision.unknown_traffic, Some(UnknownTraffic::OtherNamespace));
        let BalanceEventKind::Moved(moved) = &events[2].event else { panic!("{events:?}") };
        assert_eq!(decision.hot, Some(HotMemory::NotMonitored("DAMON: missing".to_owned())));
        let Some(HotMemory::Monitored(hot)) = &moved.hot else { panic!("{moved:?}") };
        assert_eq!(hot.monitor, AccessMonitorKind::IdlePages);
    }
}
