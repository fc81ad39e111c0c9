//! The bandwidth of a device with buffers on each node.

use super::fair_share::{below_bridges, fair_shares};
use super::limits::{device_limit, highest_rate, of_device};
use super::method::TransferMethod;
use crate::classes::{classify, Point};
use crate::model_selection::{of_target, select_model};
use crate::{capacities, CapacityInputs, ClassOptions};
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{
    BandwidthDifference, Class, DeviceBandwidth, DeviceExpectation, DirectionModel, ExpectationSource,
    ExpectedBandwidth, IoRecord, Model, NodeBandwidth, NodeCapacity, UnknownDifference,
};
use std::collections::BTreeMap;
use std::iter;

/// Knowledge of a machine's paths and devices.
#[derive(Debug, Clone, Copy)]
pub struct BandwidthEvidence<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// Copy models.
    pub models: &'a [&'a Model],
    /// Measured I/O, newest first.
    pub records: &'a [&'a IoRecord],
}

/// A device whose bandwidth is asked for.
#[derive(Debug, Clone, Copy)]
pub struct BandwidthSubject<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its node, if known.
    pub node: Option<NodeId>,
    /// The device of the topology; `None` for what is not in it, whose limit is unknown.
    pub device: Option<&'a Device>,
    /// How its bytes move.
    pub method: TransferMethod<'a>,
}

impl<'a> BandwidthSubject<'a> {
    /// Returns a subject that is transferred as its device usually is.
    pub fn new(name: &'a str, node: Option<NodeId>, device: Option<&'a Device>) -> Self {
        Self { name, node, device, method: device.map(TransferMethod::of).unwrap_or_default() }
    }

    /// Returns a device of a topology as a subject; `name` is the one to show.
    pub fn of(device: &'a Device, name: &'a str) -> Self {
        Self::new(name, device.locality.node, Some(device))
    }
}

/// A value of a node before it is classified.
struct Value {
    source: ExpectationSource,
    point: Point,
    path: Option<f64>,
}

/// Returns the bandwidth of a device in a direction with buffers on each node.
///
/// `beside` are devices that transfer at the same time. Those on its node share its paths; those
/// below one bridge, the link of the bridge. A node that neither copies nor the device reached has
/// no value.
pub fn expect_bandwidth(
    evidence: BandwidthEvidence<'_>,
    subject: BandwidthSubject<'_>,
    direction: Direction,
    beside: &[&Device],
) -> DeviceExpectation {
    let path = subject.device.map(|device| device.path.as_str());
    let shares = |other: &&&Device| other.locality.node == subject.node && Some(other.path.as_str()) != path;
    let sharers: Vec<&Device> = beside.iter().filter(shares).copied().collect();
    let paths = Paths::new(evidence, subject, direction, &sharers);
    let (mut values, mut unknown) = match subject.method.is_bounded_by_paths() {
        true => paths.values(),
        false => Default::default(),
    };
    let mut measured =
        subject.device.map_or_else(Vec::new, |device| measured_nodes(evidence, device, direction));
    // A node that another one represents rests on the paths as well.
    let is_own = |value: &&Value| matches!(value.source, ExpectationSource::Measured { .. });
    let is_measured = measured.iter().filter(is_own).count() > 1;
    if is_measured {
        // What was measured alone is the most that the device has beside others.
        measured.retain(|value| {
            let bound = values.get(&value.point.node).filter(|_| !sharers.is_empty());
            bound.is_none_or(|bound| bound.point.value >= value.point.value)
        });
        values.extend(measured.into_iter().map(|value| (value.point.node, value)));
    }
    let nodes = paths.classified(values);
    unknown = match is_measured && sharers.is_empty() {
        true => None,
        false => subject.method.unknown_difference(&nodes, paths.class_rule().level).or(unknown),
    };
    let difference = match unknown {
        Some(reason) => BandwidthDifference::Unknown { reason },
        None if nodes.iter().any(|node| node.class > 1) => BandwidthDifference::Some,
        None => BandwidthDifference::None,
    };
    DeviceExpectation {
        device: subject.name.to_owned(),
        node: subject.node,
        direction,
        limit: paths.limit,
        beside: sharers.iter().map(|other| other.name()).collect(),
        difference,
        nodes,
    }
}

/// The paths between a device and the nodes, from the copies between them, and what uses them.
struct Paths<'a> {
    target: Option<NodeId>,
    model: Option<&'a DirectionModel>,
    /// The target and its neighbors, for the rule `paper`.
    first: NodeSet,
    limit: DeviceBandwidth,
    /// Limits of the device and of those beside it; `None` if one is unknown.
    demands: Option<Vec<f64>>,
    /// The most that a device of the target was measured to carry, in any direction, and that
    /// copies by more threads of the target moved.
    fastest_seen: f64,
}

impl<'a> Paths<'a> {
    fn new(
        evidence: BandwidthEvidence<'a>,
        subject: BandwidthSubject<'_>,
        direction: Direction,
        sharers: &[&Device],
    ) -> Self {
        let topology = evidence.topology;
        let chosen = subject.node.and_then(|target| {
            Some((target, select_model(evidence.models.iter().copied(), target, &[direction])?))
        });
        let model = chosen
            .and_then(|(target, model)| of_target(model, target).find(|one| one.direction == direction));
        let by_more_threads = chosen.map_or(0.0, |(target, model)| {
            fastest_by_more_threads(evidence.models, model, target, direction)
        });
        let first = subject.node.map(|node| topology.neighbors(node).union(&NodeSet::one(node)));
        let limit_of = |device| device_limit(topology, device, evidence.records, direction);
        let unknown = || DeviceBandwidth::Unknown { measure: "numaio bench".to_owned() };
        let limit = subject.device.map_or_else(unknown, limit_of);
        let demands = subject.device.and_then(|device| {
            let all: Vec<&Device> = iter::once(device).chain(sharers.iter().copied()).collect();
            let beside = sharers.iter().map(|sharer| limit_of(sharer).bytes_per_s());
            let limits: Option<Vec<f64>> = iter::once(limit.bytes_per_s()).chain(beside).collect();
            Some(below_bridges(topology, &all, limits?))
        });
        let of_target = evidence.records.iter().filter(|record| record.device.node == subject.node);
        let fastest_seen =
            of_target.filter_map(|record| highest_rate(record)).fold(by_more_threads, f64::max);
        let first = first.unwrap_or_default();
        Self { target: subject.node, model, first, limit, demands, fastest_seen }
    }

    /// Returns the rule by which nodes are classified.
    fn class_rule(&self) -> ClassOptions {
        self.model.map_or_else(ClassOptions::default, |model| ClassOptions {
            classes: model.rule,
            level: model.level,
        })
    }

    /// Returns the upper bound of each node, and why they do not show whether the nodes differ.
    ///
    /// Without a limit the paths are the bounds. If no copy was as fast as the device, threads did
    /// not saturate the paths, and the copies bound nothing. If another device of the target or
    /// copies by more threads were faster than all copies, the paths carry at least the copies: no
    /// difference is certain, a difference is not.
    fn values(&self) -> (BTreeMap<NodeId, Value>, Option<UnknownDifference>) {
        let Some(model) = self.model else {
            return (BTreeMap::new(), Some(UnknownDifference::PathsNotMeasured));
        };
        let fastest = fastest_copy(model);
        let Some(demands) = &self.demands else {
            let of = |node: &NodeBandwidth| (node.node, self.value(node, &[f64::INFINITY], 0.0));
            return (model.nodes.iter().map(of).collect(), Some(UnknownDifference::LimitUnknown));
        };
        let enough = 1.0 - model.level;
        let values: BTreeMap<NodeId, Value> =
            model.nodes.iter().map(|node| (node.node, self.value(node, demands, fastest))).collect();
        let rates = || values.values().map(|value| value.point.value);
        let best = rates().fold(0.0, f64::max);
        let differ = rates().any(|rate| rate < best * enough);
        match fastest < demands[0] * enough || (differ && fastest < self.fastest_seen * enough) {
            true => (
                BTreeMap::new(),
                Some(UnknownDifference::PathsNotSaturated { fastest_bytes_copied_per_s: fastest }),
            ),
            false => (values, None),
        }
    }

    /// Returns the bound of a node. A copy within the device's node moves each byte twice through
    /// its memory, so that the path of a device carries at least as much as the `fastest` copy.
    fn value(&self, node: &NodeBandwidth, demands: &[f64], fastest: f64) -> Value {
        let bound = |path: f64| {
            let path = if Some(node.node) == self.target { path.max(fastest) } else { path };
            fair_shares(path, demands)[0]
        };
        let (low, high) = node.interval_bytes_copied_per_s;
        let value = bound(node.bytes_copied_per_s);
        let is_path = value < demands[0];
        Value {
            point: Point { node: node.node, value, low: bound(low), high: bound(high) },
            source: if is_path { ExpectationSource::Path } else { ExpectationSource::Device },
            path: Some(node.bytes_copied_per_s),
        }
    }

    /// Classifies the nodes by the bandwidth of the device, by the rule of the model.
    ///
    /// The rule `paper` puts the target's package first regardless of its values; here the classes
    /// are sorted by their means.
    fn classified(&self, values: BTreeMap<NodeId, Value>) -> Vec<ExpectedBandwidth> {
        let points: Vec<Point> = values.values().map(|value| value.point).collect();
        let ClassOptions { classes: rule, level } = self.class_rule();
        let best = points.iter().map(|point| point.value).fold(0.0, f64::max);
        let differ = points.iter().any(|point| point.value < best * (1.0 - level));
        let classes = if differ { classify(&points, rule, level, &self.first) } else { Vec::new() };
        let mean = |class: &Class| class.mean_bytes_copied_per_s;
        // The device limits several classes of paths to one bandwidth.
        let mut means: Vec<f64> = classes.iter().map(mean).collect();
        means.sort_by(|one, other| other.total_cmp(one));
        means.dedup();
        let class = |node| {
            let own = classes.iter().find(|class| class.nodes.contains(node)).map_or(best, mean);
            1 + means.iter().filter(|mean| **mean > own).count() as u32
        };
        let of = |value: Value| ExpectedBandwidth {
            node: value.point.node,
            class: class(value.point.node),
            bytes_per_s: value.point.value,
            source: value.source,
            path_bytes_copied_per_s: value.path,
        };
        values.into_values().map(of).collect()
    }
}

/// Returns the fastest copy of a target's model in bytes per second.
fn fastest_copy(model: &DirectionModel) -> f64 {
    model.nodes.iter().map(|node| node.bytes_copied_per_s).fold(0.0, f64::max)
}

/// Returns the fastest copy, in bytes per second, of the models whose copies used more threads of
/// the target than the chosen one: rates that rise with the threads show no path's bandwidth.
fn fastest_by_more_threads(models: &[&Model], chosen: &Model, target: NodeId, direction: Direction) -> f64 {
    let threads = |model: &Model| {
        let cells = model.record.cells.iter().filter(|cell| cell.target == target);
        cells.map(|cell| cell.placement.cpus.len()).max()
    };
    let others = models
        .iter()
        .filter(|model| model.record.provenance.is_fit_for_placement() && threads(model) > threads(chosen));
    let directions = others.flat_map(|model| of_target(model, target));
    directions.filter(|one| one.direction == direction).map(fastest_copy).fold(0.0, f64::max)
}

/// Returns the nodes on which I/O of the device was measured, and those that they represent: by the
/// engine of its newest record, with the most bandwidth of any number of streams.
fn measured_nodes(evidence: BandwidthEvidence<'_>, device: &Device, direction: Direction) -> Vec<Value> {
    let of_device = of_device(device, evidence.records);
    let has_direction = |record: &&&IoRecord| {
        record.cells.iter().any(|cell| cell.placement().is_some_and(|(_, _, of)| of == direction))
    };
    let Some(newest) = of_device.iter().find(has_direction).copied() else { return Vec::new() };
    let same: Vec<&IoRecord> =
        of_device.into_iter().filter(|record| record.method.engine == newest.method.engine).collect();
    let model = device
        .locality
        .node
        .and_then(|target| select_model(evidence.models.iter().copied(), target, &[direction]));
    let inputs = CapacityInputs {
        records: &same,
        model,
        link_bytes_per_s: None,
        direction,
        operation: None,
        memory_only: &evidence.topology.memory_only_nodes(),
    };
    let measured_at = newest.provenance.measured_at;
    let Ok(fit) = capacities(&inputs, &[]) else { return Vec::new() };
    fit.capacities.nodes.iter().filter_map(|node| measured_value(node, measured_at)).collect()
}

fn measured_value(node: &NodeCapacity, measured_at: u64) -> Option<Value> {
    let rates = node.streams.iter().map(|streams| streams.estimate);
    let best = rates.max_by(|one, other| one.bytes_per_s.total_cmp(&other.bytes_per_s))?;
    let source = match node.measured == node.node {
        true => ExpectationSource::Measured { measured_at },
        false => ExpectationSource::Represented { by: node.measured, measured_at },
    };
    let point = Point { node: node.node, value: best.bytes_per_s, low: best.low, high: best.high };
    Some(Value { point, source, path: None })
}
