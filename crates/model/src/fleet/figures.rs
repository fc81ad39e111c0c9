//! Figures of a host: the values of all views of a document.

use crate::views::{document_views, DocumentViews, ViewSubject};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use numaio_schema::{Document, FigureKey, NodeValue, Quantity, View};
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
    let Some(views) = document_views(document) else { return Vec::new() };
    let (device, unit, origin) = (views.device, views.unit, document.origin());
    for view in of_all_targets(&views, origin.fingerprint) {
        let measured_at = view.measured_at.or(origin.time).unwrap_or(0);
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
    let views = document_views(document);
    views.map_or_else(Vec::new, |views| of_all_targets(&views, document.origin().fingerprint))
}

fn of_all_targets(views: &DocumentViews, machine: &str) -> Vec<View> {
    let of_target = |target: &NodeId| views.of(&ViewSubject { machine, target: *target, level: LEVEL });
    let named = |view: View| View { name: format!("{}{}", view.name, views.variant), ..view };
    views.targets.iter().flat_map(of_target).map(named).collect()
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
