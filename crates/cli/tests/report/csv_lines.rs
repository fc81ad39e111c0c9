//! Compares a CSV report with its documents.

use crate::report_documents::ReportDocuments;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::*;
use std::collections::BTreeMap;

/// The columns of a line that identify its values.
type Key = Vec<String>;
/// Median, low, high, n, minimum, maximum, drift.
type Values = [Option<f64>; 7];

const KEY: [&str; 9] =
    ["measured_at", "what", "series", "target", "cpu_node", "cpus", "memory_node", "gap_ns", "unit"];
const VALUES: [&str; 7] = ["median", "low", "high", "n", "min", "max", "drift"];

/// Parses the lines of a file, each as a map from column title to text.
pub fn read(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    reader.deserialize().map(|line| line.expect("a line with a field per column")).collect()
}

/// Asserts that the lines are exactly the values of the documents, with all digits, each once.
pub fn assert_lines(csv: &str, documents: &ReportDocuments) -> usize {
    let mut found: BTreeMap<Key, Values> = BTreeMap::new();
    for line in read(csv) {
        let key: Key = KEY.map(|title| line[title].clone()).to_vec();
        let values = VALUES.map(|title| match line[title].as_str() {
            "" => None,
            text => Some(text.parse().expect("a number")),
        });
        let previous = found.insert(key.clone(), values);
        assert!(previous.is_none(), "{key:?} is a duplicate");
    }
    let expected = expected_values(documents);
    for (key, values) in &expected {
        assert_eq!(found.get(key), Some(values), "{key:?}");
    }
    assert_eq!(found.len(), expected.len(), "lines that are in no document");
    expected.len()
}

fn expected_values(documents: &ReportDocuments) -> BTreeMap<Key, Values> {
    let mut expected = BTreeMap::new();
    let mut add = |key: Key, values: Values| assert!(expected.insert(key, values).is_none());
    for model in &documents.models {
        add_model(model, &mut add);
    }
    for stream in &documents.streams {
        for cell in &stream.cells {
            let cpus = cell.placement.cpus.to_string();
            let (from, to) = (cell.cpu_node.to_string(), cell.memory_node.to_string());
            let at = stream.provenance.measured_at.to_string();
            let op = cell.op.to_string();
            let key = [&at, "stream", &op, "", &from, &cpus, &to, "", "bytes_per_s"];
            add(key.map(str::to_owned).to_vec(), summary_values(cell.bytes_per_s.summary.as_ref()));
        }
    }
    for latency in &documents.latencies {
        add_latency(latency, &mut add);
    }
    for comparison in &documents.comparisons {
        for view in &comparison.views {
            add_view(view, &comparison.measured_at.to_string(), &mut add);
        }
    }
    documents.views.iter().for_each(|view| add_view(view, "", &mut add));
    expected
}

fn summary_values(summary: Option<&Summary>) -> Values {
    let Some(it) = summary else { return [None; 7] };
    [it.median, it.low, it.high, f64::from(it.n), it.min, it.max, it.drift].map(Some)
}

fn add_model(model: &Model, add: &mut dyn FnMut(Key, Values)) {
    let at = model.record.provenance.measured_at.to_string();
    for target in &model.targets {
        for direction in &target.directions {
            let name = if direction.direction == Direction::Write { "write" } else { "read" };
            let nodes = direction.nodes.iter().map(|node| node.node).chain(direction.missing.iter());
            for node in nodes {
                let flow = Flow::of(direction.direction, target.target, node);
                let cell = model.record.cell(target.target, flow).expect("a cell");
                let (id, cpus, node) =
                    (target.target.to_string(), cell.placement.cpus.to_string(), node.to_string());
                let key = [&at, "copy", name, &id, &id, &cpus, &node, "", "bytes_copied_per_s"];
                add(key.map(str::to_owned).to_vec(), summary_values(cell.bytes_copied_per_s.as_ref()));
            }
        }
    }
}

fn add_latency(latency: &LatencyRecord, add: &mut dyn FnMut(Key, Values)) {
    let at = latency.provenance.measured_at.to_string();
    for cell in &latency.cells {
        let (from, cpu, to) = (cell.cpu_node.to_string(), cell.cpu.to_string(), cell.memory_node.to_string());
        let key = [&at, "latency", "idle", "", &from, &cpu, &to, "", "ns_per_load"];
        add(key.map(str::to_owned).to_vec(), summary_values(cell.ns_per_load.summary.as_ref()));
    }
    for curve in &latency.curves {
        let (from, to) = (curve.cpu_node.to_string(), curve.memory_node.to_string());
        let (cpu, cpus) = (curve.cpu.to_string(), curve.placement.cpus.to_string());
        for point in &curve.points {
            let gap = point.gap_ns.to_string();
            let key = [&at, "load", "under-load", "", &from, &cpus, &to, &gap, "bytes_read_per_s"];
            add(key.map(str::to_owned).to_vec(), summary_values(point.load_bytes_read_per_s.as_ref()));
            let key = [&at, "loaded-latency", "under-load", "", &from, &cpu, &to, &gap, "ns_per_load"];
            add(key.map(str::to_owned).to_vec(), summary_values(point.ns_per_load.summary.as_ref()));
        }
    }
}

fn add_view(view: &View, at: &str, add: &mut dyn FnMut(Key, Values)) {
    let unit = match view.quantity {
        Quantity::Distance => "distance",
        Quantity::NsPerLoad => "ns_per_load",
        Quantity::Nanoseconds => "ns",
        Quantity::BytesPerS => "bytes_per_s",
        Quantity::Score => "score",
        Quantity::Cost => "cost",
    };
    for value in &view.nodes {
        let (target, node) = (view.target.to_string(), value.node.to_string());
        let key = [at, "view", &view.name, &target, "", "", &node, "", unit];
        let (low, high) = value.interval.unzip();
        let values = [Some(value.value), low, high, Some(f64::from(value.n)), None, None, Some(value.drift)];
        add(key.map(str::to_owned).to_vec(), values);
    }
}
