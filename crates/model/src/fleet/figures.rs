//! Figures of a host: the values of all views of a document.

use crate::views::{
    completed, copy_views, counter_views, io_views, latency_views, mmio_views, ping_views, stream_views,
    sweep_views, ViewSubject,
};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{Document, FigureKey, NodeValue, Provenance, Quantity, StreamRecord, StreamScope, View};
use std::collections::BTreeMap;

/// Share by which members of a class may be lower than its best, the default of `model`.
const LEVEL: f64 = 0.1;

/// A figure: the quantity, the time of measurement in seconds since 1970, the value and its 95 %
/// interval.
pub type Figure = (FigureKey, u64, f64, (f64, f64));

/// Returns the figures of a document: each value of each of its views, once.
///
/// Two views share a pair of nodes if each of them is seen from the other's target: CPU-centric and
/// memory-centric views of STREAM and latency. The pair is one figure.
pub fn figures(document: &Document) -> Vec<Figure> {
    let mut found: BTreeMap<FigureKey, (u64, f64, (f64, f64))> = BTreeMap::new();
    let (device, unit) = match document {
        Document::Io(record) => (record.device.name.as_str(), ""),
        Document::Ping(record) => (record.device.name.as_str(), ""),
        Document::Mmio(record) => (record.device.name.as_str(), ""),
        Document::Sweep(record) => ("", record.method.unit.as_str()),
        _ => ("", ""),
    };
    for view in views(document) {
        let measured_at = view.measured_at.or_else(|| measured_at(document)).unwrap_or(0);
        for value in view.nodes.iter().filter(|value| value.value.is_finite()) {
            let interval = value.interval.unwrap_or((value.value, value.value));
            found.entry(key(&view, value, device, unit)).or_insert((measured_at, value.value, interval));
        }
    }
    found
        .into_iter()
        .map(|(key, (measured_at, value, interval))| (key, measured_at, value, interval))
        .collect()
}

/// Returns the measured views of a document, of all its targets.
pub(super) fn views(document: &Document) -> Vec<View> {
    let subject = |machine, target| ViewSubject { machine, target, level: LEVEL };
    match document {
        Document::Model(model) => {
            let machine = model.record.provenance.machine.fingerprint.as_str();
            let targets = model.targets.iter().map(|model| model.target);
            targets.flat_map(|target| copy_views(model, &subject(machine, target))).collect()
        }
        Document::Record(record) => {
            let model = crate::fit((**record).clone(), &Topology::default(), Default::default());
            views(&Document::Model(Box::new(model)))
        }
        Document::Stream(record) => {
            let machine = record.provenance.machine.fingerprint.as_str();
            let targets = targets(record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node)));
            let views =
                targets.into_iter().flat_map(|target| stream_views(record, &subject(machine, target)));
            views.map(|view| View { name: format!("{}{}", view.name, threads(record)), ..view }).collect()
        }
        Document::Latency(record) => {
            let machine = record.provenance.machine.fingerprint.as_str();
            let targets = targets(record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node)));
            targets.into_iter().flat_map(|target| latency_views(record, &subject(machine, target))).collect()
        }
        Document::Io(record) => {
            let machine = record.provenance.machine.fingerprint.as_str();
            record.device.node.map_or_else(Vec::new, |node| io_views(record, &subject(machine, node)))
        }
        Document::Ping(record) => {
            let machine = record.provenance.machine.fingerprint.as_str();
            record.device.node.map_or_else(Vec::new, |node| ping_views(record, &subject(machine, node)))
        }
        Document::Mmio(record) => {
            let machine = record.provenance.machine.fingerprint.as_str();
            record.device.node.map_or_else(Vec::new, |node| mmio_views(record, &subject(machine, node)))
        }
        Document::Sweep(record) => {
            let machine = record.provenance.machine.fingerprint.as_str();
            let targets = targets(record.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node)));
            targets.into_iter().flat_map(|target| sweep_views(record, &subject(machine, target))).collect()
        }
        Document::Counters(record) => {
            let machine = record.provenance.machine.fingerprint.as_str();
            let pairs = record.factors.pairs.iter();
            let targets = targets(pairs.map(|pair| (pair.cpu_node, pair.memory_node)));
            targets.into_iter().flat_map(|target| counter_views(record, &subject(machine, target))).collect()
        }
        Document::View(view) => vec![completed((**view).clone(), None)],
        Document::Comparison(comparison) => comparison.views.clone(),
        _ => Vec::new(),
    }
}

/// Returns the end of the name of a STREAM view whose number of threads was requested: its values
/// are not comparable with those of other numbers.
fn threads(record: &StreamRecord) -> String {
    match record.method.scope {
        StreamScope::Node { threads: Some(threads) } => format!("-{threads}-threads"),
        StreamScope::HardwareThreads => "-hardware-threads".to_owned(),
        StreamScope::Node { threads: None } | StreamScope::Core => String::new(),
    }
}

fn targets(pairs: impl Iterator<Item = (NodeId, NodeId)>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = pairs.flat_map(|(cpu_node, memory_node)| [cpu_node, memory_node]).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}

fn measured_at(document: &Document) -> Option<u64> {
    let of = |provenance: &Provenance| Some(provenance.measured_at);
    match document {
        Document::Io(record) => of(&record.provenance),
        Document::Ping(record) => of(&record.provenance),
        Document::Mmio(record) => of(&record.provenance),
        Document::Comparison(comparison) => Some(comparison.measured_at),
        _ => None,
    }
}

/// Returns the key of a view's value. Views of pairs of CPUs and memory lose the name of their
/// center, because the pair states it. `unit` is that of a program's own figure.
fn key(view: &View, value: &NodeValue, device: &str, unit: &str) -> FigureKey {
    let (target, node) = (Some(view.target), Some(value.node));
    let (name, from, to) = if let Some(start) = view.name.find("-cpu-centric") {
        (without(&view.name, start, "-cpu-centric"), node, target)
    } else if let Some(start) = view.name.find("-memory-centric") {
        (without(&view.name, start, "-memory-centric"), target, node)
    } else if !device.is_empty() {
        let name = view.name.replacen(&format!("-{device}"), "", 1);
        match view.direction {
            Some(Direction::Read) => (name, None, node),
            _ => (name, node, None),
        }
    } else {
        match view.direction {
            Some(Direction::Write) => (view.name.clone(), node, target),
            _ => (view.name.clone(), target, node),
        }
    };
    let unit = match view.quantity {
        Quantity::BytesPerS => "B/s",
        Quantity::NsPerLoad | Quantity::Nanoseconds => "ns",
        Quantity::Distance => "",
        Quantity::Score | Quantity::Cost => unit,
    };
    FigureKey {
        quantity: name,
        from,
        to,
        device: device.to_owned(),
        unit: unit.to_owned(),
        more_is_better: view.quantity.more_is_better(),
    }
}

fn without(name: &str, start: usize, part: &str) -> String {
    format!("{}{}", &name[..start], &name[start + part.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, record};
    use numaio_schema::Model;

    fn figures_of(document: Document) -> Vec<(String, f64)> {
        let name = |key: &FigureKey| {
            let node = |node: Option<NodeId>| node.map_or("-".to_owned(), |node| node.to_string());
            format!("{} {} {} {}", key.quantity, node(key.from), node(key.to), key.device)
        };
        figures(&document).iter().map(|(key, _, value, _)| (name(key), *value)).collect()
    }

    #[test]
    fn every_value_of_the_copy_model_is_a_figure_once() {
        let model = Model::from_json(include_str!("../../../schema/tests/fixtures/model-1.json"));
        let model = model.expect("a model");
        let values: usize =
            model.targets.iter().flat_map(|target| &target.directions).map(|of| of.nodes.len()).sum();
        let found = figures_of(Document::Model(Box::new(model.clone())));
        assert_eq!(found.len(), values);
        let first = &model.targets[0].directions[0].nodes[0];
        assert!(found.iter().any(|(_, value)| *value == first.bytes_copied_per_s), "{found:?}");
        assert!(found.iter().all(|(name, _)| name.starts_with("copy-")), "{found:?}");
        let times = figures(&Document::Model(Box::new(model.clone())));
        assert!(times.iter().all(|figure| figure.1 == model.record.provenance.measured_at));
    }

    #[test]
    fn figures_of_a_device_have_its_name_and_the_node_of_the_buffers() {
        let cells = vec![cell(Direction::Read, &[(1, 1)], 10.0), cell(Direction::Write, &[(0, 1)], 8.0)];
        let names: Vec<String> =
            figures_of(Document::Io(Box::new(record(0, cells)))).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["io-disk-read - 1 nvme0n1", "io-disk-write 0 - nvme0n1"]);
    }

    #[test]
    fn a_pair_of_a_sweep_is_one_figure_in_its_own_unit() {
        let mut sweep = crate::testing::sweep(Quantity::Cost, &[&[1.0, 2.0], &[3.0, 1.5]]);
        sweep.method.unit = "s".to_owned();
        let found = figures(&Document::Sweep(Box::new(sweep)));
        let pair = |figure: &Figure| (figure.0.from, figure.0.to, figure.2);
        let far = found.iter().find(|figure| figure.2 == 2.0).expect("the pair of CPU node 0, memory node 1");
        assert_eq!((found.len(), pair(far)), (4, (Some(NodeId(1)), Some(NodeId(0)), 2.0)));
        assert_eq!((far.0.unit.as_str(), far.0.more_is_better), ("s", false));
    }

    #[test]
    fn names_lose_the_center_of_pairs() {
        let view = |name: &str| View { name: name.to_owned(), ..sample() };
        let value = sample().nodes[0].clone();
        let cpu = key(&view("stream-triad-cpu-centric-4-threads"), &value, "", "");
        let memory = key(&view("latency-memory-centric"), &value, "", "");
        assert_eq!(
            (cpu.quantity.as_str(), cpu.from, cpu.to),
            ("stream-triad-4-threads", Some(value.node), Some(sample().target))
        );
        assert_eq!((memory.quantity.as_str(), memory.from), ("latency", Some(sample().target)));
    }

    fn sample() -> View {
        View::from_json(include_str!("../../../schema/tests/fixtures/view-1.json")).expect("a view")
    }
}
