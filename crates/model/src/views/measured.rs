//! Views of measurements: latency, STREAM and the copy model.

use super::view::{view, Kind, ViewSubject};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::{
    Cell, CounterRecord, IntervalKind, LatencyRecord, Model, NodeValue, Provenance, Quantity, Reading,
    SchedulingFactor, StreamRecord, StreamScope, Summary, SweepRecord, SweepScope, View,
};

/// Fixed side of the measured pairs.
#[derive(Clone, Copy)]
enum Center {
    /// CPUs of the target, memory anywhere.
    Cpu,
    /// Memory of the target, CPUs anywhere.
    Memory,
}

impl Center {
    const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu-centric",
            Self::Memory => "memory-centric",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU-centric",
            Self::Memory => "memory-centric",
        }
    }

    /// Whether pairs were measured around the target, not only around other nodes. They include the
    /// target's own pair, unless it lacks CPUs or memory.
    fn is_around(self, target: NodeId, pairs: impl Iterator<Item = (NodeId, NodeId)> + Clone) -> bool {
        let far = |(cpu_node, memory_node)| match self {
            Self::Cpu => memory_node,
            Self::Memory => cpu_node,
        };
        pairs.clone().any(|pair| pair == (target, target)) || !pairs.map(far).any(|node| node == target)
    }

    /// Returns the node of a pair opposite to the target, or `None` if the target is not in the
    /// pair.
    fn other(self, target: NodeId, cpu_node: NodeId, memory_node: NodeId) -> Option<NodeId> {
        let (own, other) = match self {
            Self::Cpu => (cpu_node, memory_node),
            Self::Memory => (memory_node, cpu_node),
        };
        (own == target).then_some(other)
    }

    /// Returns the readings of cells around the target, each with the opposite node. A cell is a
    /// CPU node, a memory node and its reading.
    fn readings<'a>(
        self,
        target: NodeId,
        cells: impl Iterator<Item = (NodeId, NodeId, &'a Reading)>,
    ) -> Vec<(NodeId, NodeReadings<'a>)> {
        let around = cells.filter_map(|(cpu_node, memory_node, reading)| {
            Some((self.other(target, cpu_node, memory_node)?, NodeReadings::of_reading(reading)))
        });
        around.collect()
    }
}

/// Sets the time of measurement of views, and adds the load to their names.
pub(super) fn measured(views: impl Iterator<Item = View>, provenance: &Provenance) -> Vec<View> {
    let views = views.map(|view| View { measured_at: Some(provenance.measured_at), ..view });
    views.map(|view| with_load(view, provenance)).collect()
}

/// Adds the load beside the measurement to the name and the title of a view, so that it is compared
/// with the view of an idle machine and does not replace it.
pub(super) fn with_load(mut view: View, provenance: &Provenance) -> View {
    if let Some(label) = provenance.load_label() {
        let names: Vec<String> = provenance.load.iter().map(|load| load.load.stable_name()).collect();
        view.name = format!("{}-load-{}", view.name, names.join("-"));
        view.title = format!("{}, load {label}", view.title);
    }
    view
}

/// Returns the idle latency from the target's CPUs to every memory node (CPU-centric), and from
/// every CPU node to the target's memory (memory-centric).
pub fn latency_views(record: &LatencyRecord, subject: &ViewSubject) -> Vec<View> {
    let complete = record.provenance.complete;
    let pairs = record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node));
    let around = |center: &&Center| center.is_around(subject.target, pairs.clone());
    let views = Center::ALL.iter().filter(around).filter_map(|center| {
        let cells = record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node, &cell.ns_per_load));
        let readings = center.readings(subject.target, cells);
        let kind = Kind {
            name: format!("latency-{}", center.name()),
            title: format!("Latency, {}", center.title()),
            direction: None,
            quantity: Quantity::NsPerLoad,
        };
        measured_view(subject, kind, &readings, complete)
    });
    measured(views, &record.provenance)
}

/// Returns the bandwidth of each measured operation: by threads on the target with arrays on every
/// node (CPU-centric), and by threads of every node with arrays on the target (memory-centric).
///
/// Records of single cores yield no view: one core does not saturate a path between nodes, so its
/// bandwidth reflects the core's loads in flight.
pub fn stream_views(record: &StreamRecord, subject: &ViewSubject) -> Vec<View> {
    let threads = match record.method.scope {
        StreamScope::Core => return Vec::new(),
        StreamScope::Node { threads: None } => String::new(),
        StreamScope::Node { threads: Some(threads) } => format!(" ({threads} threads)"),
        StreamScope::HardwareThreads => " (all hardware threads)".to_owned(),
    };
    let complete = record.provenance.complete;
    let kinds = StreamOp::ALL.iter().flat_map(|op| Center::ALL.map(|center| (*op, center)));
    let pairs = record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node));
    let around = |(_, center): &(StreamOp, Center)| center.is_around(subject.target, pairs.clone());
    let views = kinds.filter(around).filter_map(|(op, center)| {
        let cells = record.cells.iter().filter(|cell| cell.op == op);
        let cells = cells.map(|cell| (cell.cpu_node, cell.memory_node, &cell.bytes_per_s));
        let readings = center.readings(subject.target, cells);
        let kind = Kind {
            name: format!("stream-{op}-{}", center.name()),
            title: format!("{}{threads}, {}", op.title(), center.title()),
            direction: None,
            quantity: Quantity::BytesPerS,
        };
        measured_view(subject, kind, &readings, complete)
    });
    measured(views, &record.provenance)
}

/// Returns the figures of a sweep: by CPUs of the target with memory of every node (CPU-centric),
/// and by CPUs of every node with memory of the target (memory-centric). Figures of single cores
/// are summarized by node.
pub fn sweep_views(record: &SweepRecord, subject: &ViewSubject) -> Vec<View> {
    let method = &record.method;
    // Displays convert bandwidths, and have no unit for other figures.
    let unit = match method.quantity {
        Quantity::BytesPerS => String::new(),
        _ if method.unit.is_empty() => String::new(),
        _ => format!(" ({})", method.unit),
    };
    let cores = if method.scope == SweepScope::Cores { ", one core" } else { "" };
    let pairs = record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node));
    let around = |center: &&Center| center.is_around(subject.target, pairs.clone());
    let views = Center::ALL.iter().filter(around).filter_map(|center| {
        let cells = record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node, &cell.figure));
        let readings = center.readings(subject.target, cells);
        let kind = Kind {
            name: format!("sweep-{}-{}", stable_name(&method.name), center.name()),
            title: format!("{}{unit}{cores}, {}", method.name, center.title()),
            direction: None,
            quantity: method.quantity,
        };
        measured_view(subject, kind, &readings, record.provenance.complete)
    });
    measured(views, &record.provenance)
}

/// Returns the NUMA scheduling factors of the pairs around the target, CPU-centric and
/// memory-centric.
pub fn counter_views(record: &CounterRecord, subject: &ViewSubject) -> Vec<View> {
    let pairs = || record.factors.pairs.iter();
    let nodes = pairs().map(|pair| (pair.cpu_node, pair.memory_node));
    let around = |center: &&Center| center.is_around(subject.target, nodes.clone());
    let views = Center::ALL.iter().filter(around).filter_map(|center| {
        let value = |pair: &SchedulingFactor| {
            let node = center.other(subject.target, pair.cpu_node, pair.memory_node)?;
            let interval = Some(pair.interval);
            Some(NodeValue { node, value: pair.factor, interval, n: pair.n, drift: 0.0, factor: None })
        };
        let kind = Kind {
            name: format!("scheduling-factor-{}", center.name()),
            title: format!("Scheduling factor, {}", center.title()),
            direction: None,
            quantity: Quantity::Cost,
        };
        view(subject, kind, pairs().filter_map(value).collect(), !record.provenance.complete)
    });
    measured(views, &record.provenance)
}

/// Returns a name of lower-case letters, digits and hyphens.
fn stable_name(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

/// Returns the copy model's device write and device read, regardless of the rule of its classes.
pub fn copy_views(model: &Model, subject: &ViewSubject) -> Vec<View> {
    let complete = model.record.provenance.complete;
    let target = subject.target;
    let Some(of_target) = model.targets.iter().find(|model| model.target == target) else {
        return Vec::new();
    };
    let views = of_target.directions.iter().filter_map(|of_direction| {
        let direction = of_direction.direction;
        let known = of_direction.nodes.iter().map(|value| value.node).chain(of_direction.missing.iter());
        let readings: Vec<(NodeId, NodeReadings)> = known
            .filter_map(|node| {
                let cell = model.record.cell(target, Flow::of(direction, target, node))?;
                Some((node, NodeReadings::of_cell(cell)))
            })
            .collect();
        let name = match direction {
            Direction::Write => "copy-write",
            Direction::Read => "copy-read",
        };
        let kind = Kind {
            name: name.to_owned(),
            title: format!("Copy model, {}", direction.name()),
            direction: Some(direction),
            quantity: Quantity::BytesPerS,
        };
        measured_view(subject, kind, &readings, complete)
    });
    measured(views, &model.record.provenance)
}

/// Repeated measurements of one pair of nodes, from any document.
pub(super) struct NodeReadings<'a> {
    summary: Option<&'a Summary>,
    /// Median, least and greatest sample of each visit that counts.
    visits: Vec<(f64, f64, f64)>,
    settled: bool,
}

impl<'a> NodeReadings<'a> {
    pub(super) fn of_reading(reading: &'a Reading) -> Self {
        let counted = reading.visits.iter().filter(|visit| visit.excluded.is_none());
        Self {
            summary: reading.summary.as_ref(),
            visits: counted.map(|visit| (visit.median, visit.min, visit.max)).collect(),
            settled: reading.settled,
        }
    }

    fn of_cell(cell: &'a Cell) -> Self {
        let counted = cell.visits.iter().filter(|visit| visit.excluded.is_none());
        let samples = |visit: &numaio_schema::Visit| {
            (visit.bytes_copied_per_s, visit.min_bytes_copied_per_s, visit.max_bytes_copied_per_s)
        };
        Self {
            summary: cell.bytes_copied_per_s.as_ref(),
            visits: counted.map(samples).collect(),
            settled: cell.settled,
        }
    }
}

/// Builds a view of the readings of each node. It is incomplete if its measurement is, and one of
/// its own values is missing or not settled.
pub(super) fn measured_view(
    subject: &ViewSubject,
    kind: Kind,
    readings: &[(NodeId, NodeReadings)],
    complete: bool,
) -> Option<View> {
    let mut nodes: Vec<NodeId> = readings.iter().map(|(node, _)| *node).collect();
    nodes.sort();
    nodes.dedup();
    let values: Vec<NodeValue> = nodes
        .iter()
        .filter_map(|node| {
            let of_node: Vec<&NodeReadings> =
                readings.iter().filter(|(other, _)| other == node).map(|(_, seen)| seen).collect();
            value(*node, &of_node)
        })
        .collect();
    let settled = values.len() == nodes.len() && readings.iter().all(|(_, seen)| seen.settled);
    view(subject, kind, values, !complete && !settled)
}

/// Summarizes the cells of one node, such as those of several CPUs, in one value.
fn value(node: NodeId, seen: &[&NodeReadings]) -> Option<NodeValue> {
    let together;
    let summary = match seen {
        [one] => one.summary?,
        many => {
            let medians: Vec<f64> = many.iter().flat_map(|seen| &seen.visits).map(|visit| visit.0).collect();
            together = Summary::of(&medians, None)?;
            &together
        }
    };
    let value = summary.median;
    if !(value.is_finite() && value > 0.0) {
        return None;
    }
    let (mut low, mut high) = (summary.low.min(value), summary.high.max(value));
    if summary.interval == IntervalKind::Range {
        // The range of a few medians, least of all of one, does not reflect noise: the samples
        // inside the visits show at least some of it.
        let visits = || seen.iter().flat_map(|seen| &seen.visits);
        low = visits().map(|visit| visit.1).fold(low, f64::min);
        high = visits().map(|visit| visit.2).fold(high, f64::max);
    }
    let drift = if summary.drift.is_finite() { summary.drift } else { 0.0 };
    Some(NodeValue { node, value, interval: Some((low, high)), n: summary.n, drift, factor: None })
}
