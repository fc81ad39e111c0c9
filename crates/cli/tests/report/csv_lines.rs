//! A report as CSV against the documents it was made of.

use crate::told::Told;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::*;
use std::collections::BTreeMap;

/// What a line is about: all its columns but the figures.
type Key = Vec<String>;
/// Median, low, high, n, least, greatest, drift.
type Figures = [Option<f64>; 7];

const KEY: [&str; 9] =
    ["measured_at", "what", "series", "target", "cpu_node", "cpus", "memory_node", "gap_ns", "unit"];
const FIGURES: [&str; 7] = ["median", "low", "high", "n", "min", "max", "drift"];

/// Lines of a file, each a map from title to text.
pub fn read(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    reader.deserialize().map(|line| line.expect("a line with as many fields as the head")).collect()
}

/// Every figure of the documents stands there once, to the last digit, and nothing else.
pub fn assert_lines(csv: &str, told: &Told) -> usize {
    let mut found: BTreeMap<Key, Figures> = BTreeMap::new();
    for line in read(csv) {
        let key: Key = KEY.map(|title| line[title].clone()).to_vec();
        let figures = FIGURES.map(|title| match line[title].as_str() {
            "" => None,
            text => Some(text.parse().expect("a number")),
        });
        let known = found.insert(key.clone(), figures);
        assert!(known.is_none(), "{key:?} stands there twice");
    }
    let wanted = wanted(told);
    for (key, figures) in &wanted {
        assert_eq!(found.get(key), Some(figures), "{key:?}");
    }
    assert_eq!(found.len(), wanted.len(), "lines that no document has");
    wanted.len()
}

fn wanted(told: &Told) -> BTreeMap<Key, Figures> {
    let mut wanted = BTreeMap::new();
    let mut put = |key: Key, figures: Figures| assert!(wanted.insert(key, figures).is_none());
    for model in &told.models {
        of_model(model, &mut put);
    }
    for stream in &told.streams {
        for cell in &stream.cells {
            let cpus = cell.placement.cpus.to_string();
            let (from, to) = (cell.cpu_node.to_string(), cell.memory_node.to_string());
            let at = stream.provenance.measured_at.to_string();
            let op = cell.op.to_string();
            let key = [&at, "stream", &op, "", &from, &cpus, &to, "", "bytes_per_s"];
            put(key.map(str::to_owned).to_vec(), of_summary(cell.bytes_per_s.summary.as_ref()));
        }
    }
    for latency in &told.latencies {
        of_latency(latency, &mut put);
    }
    for comparison in &told.comparisons {
        for view in &comparison.views {
            of_view(view, &comparison.measured_at.to_string(), &mut put);
        }
    }
    told.views.iter().for_each(|view| of_view(view, "", &mut put));
    wanted
}

fn of_summary(summary: Option<&Summary>) -> Figures {
    let Some(it) = summary else { return [None; 7] };
    [it.median, it.low, it.high, f64::from(it.n), it.min, it.max, it.drift].map(Some)
}

fn of_model(model: &Model, put: &mut dyn FnMut(Key, Figures)) {
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
                put(key.map(str::to_owned).to_vec(), of_summary(cell.bytes_copied_per_s.as_ref()));
            }
        }
    }
}

fn of_latency(latency: &LatencyRecord, put: &mut dyn FnMut(Key, Figures)) {
    let at = latency.provenance.measured_at.to_string();
    for cell in &latency.cells {
        let (from, cpu, to) = (cell.cpu_node.to_string(), cell.cpu.to_string(), cell.memory_node.to_string());
        let key = [&at, "latency", "idle", "", &from, &cpu, &to, "", "ns_per_load"];
        put(key.map(str::to_owned).to_vec(), of_summary(cell.ns_per_load.summary.as_ref()));
    }
    for curve in &latency.curves {
        let (from, to) = (curve.cpu_node.to_string(), curve.memory_node.to_string());
        let (cpu, cpus) = (curve.cpu.to_string(), curve.placement.cpus.to_string());
        for point in &curve.points {
            let gap = point.gap_ns.to_string();
            let key = [&at, "load", "under-load", "", &from, &cpus, &to, &gap, "bytes_read_per_s"];
            put(key.map(str::to_owned).to_vec(), of_summary(point.load_bytes_read_per_s.as_ref()));
            let key = [&at, "loaded-latency", "under-load", "", &from, &cpu, &to, &gap, "ns_per_load"];
            put(key.map(str::to_owned).to_vec(), of_summary(point.ns_per_load.summary.as_ref()));
        }
    }
}

fn of_view(view: &View, at: &str, put: &mut dyn FnMut(Key, Figures)) {
    let unit = match view.quantity {
        Quantity::Distance => "distance",
        Quantity::NsPerLoad => "ns_per_load",
        Quantity::BytesPerS => "bytes_per_s",
    };
    for value in &view.nodes {
        let (target, node) = (view.target.to_string(), value.node.to_string());
        let key = [at, "view", &view.name, &target, "", "", &node, "", unit];
        let (low, high) = value.interval.unzip();
        let figures = [Some(value.value), low, high, Some(f64::from(value.n)), None, None, Some(value.drift)];
        put(key.map(str::to_owned).to_vec(), figures);
    }
}
