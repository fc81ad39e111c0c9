//! Bandwidth of a device with buffers on each node.

use crate::{DeviceBandwidth, ValueSource};
use numaio_machine::calendar::{Day, SECONDS_PER_DAY};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::units::format_significant;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Shares of a bandwidth below this are too small to measure.
pub const NEGLIGIBLE_LOSS: f64 = 0.01;

/// The bandwidth of a device in one direction with buffers on each node: measured with the device,
/// or expected as min(limit of the device, path / sharers), which is an upper bound.
///
/// Every byte is counted once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceExpectation {
    /// The device.
    pub device: String,
    /// Its node; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Device write or device read.
    pub direction: Direction,
    /// The limit of the device itself.
    pub limit: DeviceBandwidth,
    /// Other devices that use the same paths at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Whether the nodes differ.
    pub difference: BandwidthDifference,
    /// The nodes, by ID: without a limit by their paths, and empty if no path is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ExpectedBandwidth>,
}

/// What the devices of a machine can transfer with buffers on each node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MachineExpectation {
    /// The devices that carry data and whose nodes are known, each alone, by direction.
    pub devices: Vec<DeviceExpectation>,
    /// Devices of a node that exceed a path together, though each alone does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_once: Vec<DifferenceAtOnce>,
}

/// From how many devices of a node at once on the nodes differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DifferenceAtOnce {
    /// The node of the devices.
    pub node: NodeId,
    /// Device write or device read.
    pub direction: Direction,
    /// The devices of the node whose limits are known, the fastest first.
    pub devices: Vec<String>,
    /// The number of devices at once from which on a node is slower.
    pub count: u32,
    /// The node that is slowest if all transfer at once.
    pub slowest: NodeId,
    /// Its loss then, as a share of the best node's bandwidth, from 0 to 1.
    pub loss: f64,
}

/// Whether nodes differ in the bandwidth of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum BandwidthDifference {
    /// No node is slower than the best one by more than the level of the classes.
    None,
    /// Some nodes are slower.
    Some,
    /// Measurements do not show it.
    Unknown {
        /// The missing information.
        reason: UnknownDifference,
    },
}

/// Why a difference is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum UnknownDifference {
    /// No copies between the nodes and the node of the device were measured.
    PathsNotMeasured,
    /// Neither a link, a port nor a measurement limits the device.
    LimitUnknown,
    /// The copies were slower than the device, than another device of its node, or than copies by
    /// more threads: the paths carry at least that, perhaps more.
    PathsNotSaturated {
        /// The fastest copy, in bytes per second.
        fastest_bytes_copied_per_s: f64,
    },
    /// One request at a time, or small packets that a driver polls for: latency decides.
    LatencyBound,
    /// CPUs or kernels of a GPU load and store, and latency limits them below the paths.
    LoadsAndStores {
        /// The least and the most that the slowest node can have of the best node's bandwidth: the
        /// ratio of latencies, and that of the upper bounds. `None` if latencies are unknown.
        slowest_of_best: Option<(f64, f64)>,
    },
    /// The other end is a device: its bytes need not use the paths between memories.
    PeerToPeer,
    /// The buffers fit the caches, which may carry more than the path to memory.
    WithinCaches,
}

/// The bandwidth of a device with buffers on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ExpectedBandwidth {
    /// The node.
    pub node: NodeId,
    /// The class of the device's bandwidth; 1 is best.
    pub class: u32,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Where the value comes from.
    pub source: ExpectationSource,
    /// Bytes per second that copies moved on the path; `None` if they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes_copied_per_s: Option<f64>,
}

/// The source of a device's bandwidth with buffers on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum ExpectationSource {
    /// I/O of the device with buffers on this node.
    Measured {
        /// Seconds since 1970.
        measured_at: u64,
    },
    /// I/O of the device with buffers on another node of the same class of paths.
    Represented {
        /// The measured node.
        by: NodeId,
        /// Seconds since 1970.
        measured_at: u64,
    },
    /// The device's limit: an upper bound, since the path carries more.
    Device,
    /// The path, or the device's share of it: an upper bound.
    Path,
}

impl MachineExpectation {
    /// Returns the expectations of a device, by direction; `name` is the one that it is shown by.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a DeviceExpectation> {
        self.devices.iter().filter(move |of| of.device == name)
    }

    /// Returns the share of its bandwidth that a device loses in its worse direction with `shares`
    /// of its buffers on nodes; `None` if it is unknown.
    ///
    /// With an unknown limit only buffers on the best paths are known to lose nothing.
    pub fn loss(&self, name: &str, shares: &BTreeMap<NodeId, f64>) -> Option<f64> {
        let of_direction = |of: &DeviceExpectation| {
            let loss = of.loss(shares)?;
            let is_known = !matches!(of.difference, BandwidthDifference::Unknown { .. });
            (is_known || loss < NEGLIGIBLE_LOSS).then_some(loss)
        };
        let losses: Option<Vec<f64>> = self.of(name).map(of_direction).collect();
        losses?.into_iter().reduce(f64::max)
    }
}

impl DifferenceAtOnce {
    /// Returns the difference as a clause: `all 4 at once: at most 24 % less on node 1`.
    pub fn clause(&self) -> String {
        let Self { devices, count, slowest, loss, .. } = self;
        let all = devices.len();
        let first = if *count as usize == all {
            String::new()
        } else {
            format!("from {count} at once on nodes differ, ")
        };
        format!("{first}all {all} at once: {:.0} % less on node {slowest}", loss * 100.0)
    }
}

impl DeviceExpectation {
    /// Returns the bandwidth of the best node; `None` without nodes.
    pub fn best_bytes_per_s(&self) -> Option<f64> {
        self.nodes.iter().map(|node| node.bytes_per_s).max_by(f64::total_cmp)
    }

    /// Returns the value of a node.
    pub fn of(&self, node: NodeId) -> Option<&ExpectedBandwidth> {
        self.nodes.iter().find(|value| value.node == node)
    }

    /// Returns a node's share of the best node's bandwidth, from 0 to 1.
    pub fn of_best(&self, node: NodeId) -> Option<f64> {
        Some(self.of(node)?.bytes_per_s / self.best_bytes_per_s()?)
    }

    /// Returns the share of the best node's bandwidth that buffers on a node lose, from 0 to 1: 0
    /// if the nodes do not differ, and `None` if the node has no value.
    pub fn lost_share(&self, node: NodeId) -> Option<f64> {
        let of_best = self.of_best(node)?;
        Some(if self.difference == BandwidthDifference::None { 0.0 } else { 1.0 - of_best })
    }

    /// Returns the loss with `shares` of the buffers on nodes, whose bandwidths add up (Li et al.,
    /// Equation 1); `None` if a node with a share has no value.
    pub fn loss(&self, shares: &BTreeMap<NodeId, f64>) -> Option<f64> {
        let used = shares.iter().filter(|(_, share)| **share > 0.0);
        used.map(|(node, share)| Some(share * self.lost_share(*node)?)).sum()
    }

    /// Returns the nodes of a class.
    pub fn class(&self, class: u32) -> NodeSet {
        self.nodes.iter().filter(|value| value.class == class).map(|value| value.node).collect()
    }

    /// Returns the slowest node, with its share of the best node's bandwidth.
    pub fn slowest(&self) -> Option<(NodeId, f64)> {
        let slowest = self.nodes.iter().min_by(|one, other| one.bytes_per_s.total_cmp(&other.bytes_per_s))?;
        Some((slowest.node, self.of_best(slowest.node)?))
    }

    /// Returns the node with the slowest path, and the bytes per second that copies moved on it.
    pub fn slowest_path(&self) -> Option<(NodeId, f64)> {
        let paths = self.nodes.iter().filter_map(|value| Some((value.node, value.path_bytes_copied_per_s?)));
        paths.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Returns why nodes are equal or differ, or what is missing, as a clause without the device.
    pub fn clause(&self) -> String {
        let direction = self.direction.name();
        let together = match self.beside.len() {
            0 => String::new(),
            others => format!(" with {others} more at once"),
        };
        match self.difference {
            BandwidthDifference::None if self.is_measured() => {
                format!("{direction}: no difference in bandwidth (measured with it{})", self.day())
            }
            BandwidthDifference::None => {
                let path = self.slowest_path().map(|(node, rate)| {
                    format!(", and the slowest path {} (node {node}): every node can saturate it", gb(rate))
                });
                format!(
                    "{direction}: no difference in bandwidth expected{together}: it carries at most {}{}",
                    self.limit_clause(),
                    path.unwrap_or_default()
                )
            }
            BandwidthDifference::Some => format!("{direction}{together}: {}", self.class_clause()),
            // A limit is unknown in both directions.
            BandwidthDifference::Unknown { reason: reason @ UnknownDifference::LimitUnknown } => {
                reason.clause(&self.limit)
            }
            BandwidthDifference::Unknown { reason } => format!("{direction}: {}", reason.clause(&self.limit)),
        }
    }

    /// Whether its values are measured, with the device alone.
    fn is_measured(&self) -> bool {
        self.beside.is_empty() && self.measured_at().is_some()
    }

    /// Returns the day of the oldest measurement: ` on 2026-11-30`; empty without a known time.
    fn day(&self) -> String {
        let measured_at = self.measured_at().filter(|at| *at > 0);
        measured_at.map(|at| format!(" on {}", Day(at / SECONDS_PER_DAY))).unwrap_or_default()
    }

    /// Returns the limit with its source.
    fn limit_clause(&self) -> String {
        match &self.limit {
            DeviceBandwidth::Known { bytes_per_s, source } => {
                let by = match source {
                    ValueSource::Link { link } => link.as_str(),
                    ValueSource::Configuration { .. } => "configured",
                    _ => "measured",
                };
                format!("{} ({by})", gb(*bytes_per_s))
            }
            DeviceBandwidth::Unknown { .. } => "an unknown rate".to_owned(),
        }
    }

    /// Returns the classes with their rates: measured ones, or upper bounds.
    fn class_clause(&self) -> String {
        let bound = if self.is_measured() { "" } else { "at most " };
        let of = |nodes: &NodeSet| {
            let rates = nodes.iter().filter_map(|node| Some(self.of(node)?.bytes_per_s));
            format!("{bound}{} from {}", gb(rates.fold(0.0, f64::max)), format_nodes(nodes))
        };
        let classes = self.classes().iter().map(of).collect::<Vec<_>>().join(", ");
        match self.is_measured() {
            true => format!("{classes} (measured with it{})", self.day()),
            false => classes,
        }
    }

    /// Returns the classes, best first.
    pub fn classes(&self) -> Vec<NodeSet> {
        (1..).map(|class| self.class(class)).take_while(|nodes| !nodes.is_empty()).collect()
    }

    /// Returns the time of the oldest measurement with the device itself; `None` if all values are
    /// upper bounds.
    pub fn measured_at(&self) -> Option<u64> {
        let times = self.nodes.iter().filter_map(|value| match value.source {
            ExpectationSource::Measured { measured_at }
            | ExpectationSource::Represented { measured_at, .. } => Some(measured_at),
            ExpectationSource::Device | ExpectationSource::Path => None,
        });
        times.min()
    }
}

impl UnknownDifference {
    fn clause(self, limit: &DeviceBandwidth) -> String {
        match (self, limit) {
            (Self::PathsNotMeasured, _) => {
                "the paths were not measured (numaio model measures them)".to_owned()
            }
            (Self::PathsNotSaturated { fastest_bytes_copied_per_s }, _) => format!(
                "copies moved at most {}, so the paths carry at least that, perhaps more (numaio model \
                 --hyper-threads copies with more threads)",
                gb(fastest_bytes_copied_per_s)
            ),
            (Self::LatencyBound, _) => {
                "one request or packet at a time: latency decides, not the paths".to_owned()
            }
            (Self::LoadsAndStores { slowest_of_best: Some((least, most)) }, _) => format!(
                "CPUs or kernels load and store, which latency limits: the slowest node has {least:.2} to \
                 {most:.2} of the best node's bandwidth"
            ),
            (Self::LoadsAndStores { slowest_of_best: None }, _) => {
                "CPUs or kernels load and store, which latency limits: the paths are only upper bounds"
                    .to_owned()
            }
            (Self::PeerToPeer, _) => {
                "another device is the other end: copies between nodes do not show its path".to_owned()
            }
            (Self::WithinCaches, _) => {
                "the buffers fit the caches, which may carry more than the paths".to_owned()
            }
            (Self::LimitUnknown, DeviceBandwidth::Unknown { measure }) => {
                format!("its limit is unknown: only the paths are compared ({measure} measures it)")
            }
            (Self::LimitUnknown, DeviceBandwidth::Known { .. }) => {
                "the limit of a device beside it is unknown: only the paths are compared".to_owned()
            }
        }
    }
}

fn gb(bytes_per_s: f64) -> String {
    format!("{} GB/s", format_significant(bytes_per_s / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_listed_best_first() {
        let node = |node, class, bytes_per_s| ExpectedBandwidth {
            node: NodeId(node),
            class,
            bytes_per_s,
            source: ExpectationSource::Path,
            path_bytes_copied_per_s: None,
        };
        let found = DeviceExpectation {
            device: "eth0".to_owned(),
            node: Some(NodeId(1)),
            direction: Direction::Write,
            limit: DeviceBandwidth::Known {
                bytes_per_s: 10.0,
                source: ValueSource::Link { link: String::new() },
            },
            beside: Vec::new(),
            difference: BandwidthDifference::Some,
            nodes: vec![node(0, 2, 5.0), node(1, 1, 10.0), node(2, 1, 9.5)],
        };
        let classes: Vec<String> = found.classes().iter().map(NodeSet::to_string).collect();
        assert_eq!(classes, ["1-2", "0"]);
        assert_eq!(found.of_best(NodeId(0)), Some(0.5));
        assert_eq!(found.of_best(NodeId(3)), None);
        let shares = |list: &[(u32, f64)]| list.iter().map(|(node, share)| (NodeId(*node), *share)).collect();
        assert_eq!(found.loss(&shares(&[(0, 0.5), (1, 0.5)])), Some(0.25));
        assert_eq!(found.loss(&shares(&[(3, 0.5), (1, 0.5)])), None, "node 3 has no value");
        let machine = |difference| MachineExpectation {
            devices: vec![DeviceExpectation { difference, ..found.clone() }],
            at_once: Vec::new(),
        };
        let lost = |difference, node| machine(difference).loss("eth0", &shares(&[(node, 1.0)]));
        assert_eq!(lost(BandwidthDifference::Some, 0), Some(0.5));
        assert_eq!(lost(BandwidthDifference::None, 0), Some(0.0));
        let unknown = BandwidthDifference::Unknown { reason: UnknownDifference::LimitUnknown };
        assert_eq!((lost(unknown, 0), lost(unknown, 1)), (None, Some(0.0)));
        assert_eq!(machine(unknown).loss("eth1", &shares(&[(1, 1.0)])), None);
        assert_eq!(found.measured_at(), None);
    }
}
