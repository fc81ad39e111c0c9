//! Compares the tables of a report with its documents, in any format.

use crate::report_documents::{shows, ReportDocuments};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::*;
use std::collections::BTreeMap;

/// A table of a report: rows of cell texts, the header first.
#[derive(Debug, Clone)]
pub struct Table {
    pub title: String,
    pub rows: Vec<Vec<String>>,
}

/// Returns the cells of a matrix by row and column title. Joins its parts, and rejects duplicates.
fn matrix(tables: &[Table], title: &str) -> BTreeMap<(String, String), String> {
    let mut texts = BTreeMap::new();
    let continued = format!("{title} continued");
    for table in tables.iter().filter(|table| table.title == title || table.title == continued) {
        let (header, rows) = table.rows.split_first().expect("a header row");
        for row in rows {
            assert_eq!(row.len(), header.len(), "{row:?}");
            for (column, text) in header.iter().zip(row).skip(1) {
                let previous = texts.insert((row[0].clone(), column.clone()), text.clone());
                assert!(previous.is_none(), "{title}: {} {column} is a duplicate", row[0]);
            }
        }
    }
    texts
}

/// Asserts that a matrix contains exactly these values, and `–` for missing ones.
fn assert_matrix(tables: &[Table], title: &str, expected: BTreeMap<(String, String), Option<f64>>) {
    let texts = matrix(tables, title);
    assert!(texts.keys().eq(expected.keys()), "{title}: {:?}\n{:?}", texts.keys(), expected.keys());
    for (key, text) in texts {
        match expected[&key] {
            Some(value) => assert!(shows(&text, value), "{title} {key:?}: {text} is not {value}"),
            None => assert_eq!(text, "–", "{title} {key:?}"),
        }
    }
}

fn key(row: NodeId, column: NodeId) -> (String, String) {
    (row.to_string(), column.to_string())
}

/// Asserts that all tables contain the values of the documents.
pub fn assert_tables(tables: &[Table], documents: &ReportDocuments) {
    for stream in &documents.streams {
        for (op, _) in &stream.method.loops {
            let cells = stream.cells.iter().filter(|cell| cell.op == *op);
            let expected = cells.map(|cell| {
                (key(cell.cpu_node, cell.memory_node), cell.bytes_per_s.median().map(|value| value / 1e9))
            });
            let title = format!("STREAM {op}: medians per CPU and memory node (GB/s)");
            assert_matrix(tables, &title, expected.collect());
        }
        stream.classes.iter().for_each(|classes| assert_pairs(tables, classes));
    }
    for latency in &documents.latencies {
        let cells = latency.cells.iter();
        let expected = cells.map(|cell| (key(cell.cpu_node, cell.memory_node), cell.ns_per_load.median()));
        assert_matrix(tables, "Idle latency: medians per CPU and memory node (ns)", expected.collect());
        latency.curves.iter().for_each(|curve| assert_curve(tables, curve));
    }
    for model in &documents.models {
        assert_copies(tables, model);
        for target in &model.targets {
            target.directions.iter().for_each(|direction| assert_classes(tables, target.target, direction));
        }
    }
    documents.comparisons.iter().for_each(|comparison| assert_views(tables, comparison));
}

/// Returns the table with this title, of which there must be exactly one.
pub fn find<'t>(tables: &'t [Table], title: &str) -> &'t Table {
    let mut matches = tables.iter().filter(|table| table.title == title);
    let table = matches.next().unwrap_or_else(|| panic!("no table {title:?}"));
    assert!(matches.next().is_none(), "{title} is a duplicate");
    table
}

/// Asserts that a text is a range such as `0.1–0.2`, or a single value.
pub fn assert_range(text: &str, min: f64, max: f64) {
    let (first, last) = text.split_once('–').unwrap_or((text, text));
    assert!(shows(first, min) && shows(last, max), "{text} is not {min} to {max}");
}

fn assert_copies(tables: &[Table], model: &Model) {
    for direction in [Direction::Write, Direction::Read] {
        let mut expected = BTreeMap::new();
        for cell in &model.record.cells {
            let value = cell.bytes_copied_per_s.as_ref().map(|summary| summary.median / 1e9);
            let node = if direction == Direction::Write { cell.flow.source } else { cell.flow.sink };
            if Flow::of(direction, cell.target, node) == cell.flow {
                expected.insert(key(cell.target, node), value);
            }
        }
        assert_matrix(tables, &format!("Copies for {}, all targets (GB/s)", direction.name()), expected);
    }
}

/// Checks tables IV and V of Li et al., whose columns are classes.
fn assert_classes(tables: &[Table], target: NodeId, model: &DirectionModel) {
    let title = format!("I/O model of node {target}, {} (GB/s)", model.direction.name());
    let table = find(tables, &title);
    let row = |name: &str| table.rows.iter().find(|row| row[0] == name).expect("a row");
    assert_eq!(row("Nodes").len(), model.classes.len() + 1, "{title}");
    for (index, class) in model.classes.iter().enumerate() {
        let column = index + 1;
        assert_eq!(table.rows[0][column], format!("Class {}", class.rank));
        assert_eq!(row("Nodes")[column], class.nodes.to_string());
        let [min, max, mean] =
            [class.min_bytes_copied_per_s, class.max_bytes_copied_per_s, class.mean_bytes_copied_per_s];
        assert_range(&row("Copies, range")[column], min / 1e9, max / 1e9);
        assert!(shows(&row("Copies, mean")[column], mean / 1e9));
    }
}

/// Checks the class table of Cbench, which has every pair in its class.
fn assert_pairs(tables: &[Table], classes: &PairClasses) {
    let title =
        format!("STREAM {}: bandwidth classes of all pairs, rule {} (GB/s)", classes.op, classes.rule);
    let parts = tables.iter().filter(|table| table.title.trim_end_matches(" continued") == title);
    let rows: Vec<&Vec<String>> = parts.flat_map(|table| table.rows.iter().skip(1)).collect();
    let mut rank = 0;
    let mut found: Vec<Vec<(NodeId, NodeId)>> = vec![Vec::new(); classes.classes.len()];
    for row in rows {
        if !row[0].is_empty() {
            rank = row[0].parse().expect("a rank");
            let class = &classes.classes[rank - 1];
            assert_range(&row[1], class.min_bytes_per_s / 1e9, class.max_bytes_per_s / 1e9);
            assert!(shows(&row[2], class.mean_bytes_per_s / 1e9));
            assert_eq!(row[3], class.pairs.len().to_string());
        }
        for member in row[4].split("; ") {
            let (cpus, memory) = member.split_once(": ").expect("a CPU node and its memory");
            let cpus = NodeId(cpus.parse().expect("a node"));
            let memory = NodeSet::parse_list(memory).expect("nodes");
            found[rank - 1].extend(memory.iter().map(|memory| (cpus, memory)));
        }
    }
    for (class, mut found) in classes.classes.iter().zip(found) {
        let mut expected = class.pairs.clone();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "class {} of {title}", class.rank);
    }
}

fn assert_curve(tables: &[Table], curve: &LoadedCurve) {
    let (cpu, node, memory) = (curve.cpu, curve.cpu_node, curve.memory_node);
    let cpus = &curve.placement.cpus;
    let title = format!(
        "Latency under load: CPU {cpu} (node {node}) to memory of node {memory}, while CPUs {cpus} read the same memory"
    );
    let table = find(tables, &title);
    assert_eq!(table.rows.len(), curve.points.len() + 1);
    for (row, point) in table.rows.iter().skip(1).zip(&curve.points) {
        let load = point.load_bytes_read_per_s.as_ref().expect("a load").median / 1e9;
        assert_eq!(row[0], point.gap_ns.to_string());
        assert!(shows(&row[1], load) && shows(&row[2], point.ns_per_load.median().expect("ns")), "{row:?}");
    }
}

fn assert_views(tables: &[Table], comparison: &Comparison) {
    let target = comparison.target;
    let values = find(tables, &format!("Views of target node {target}: value and [class]"));
    for (index, view) in comparison.views.iter().enumerate() {
        let factor = if view.quantity == Quantity::BytesPerS { 1e9 } else { 1.0 };
        for row in values.rows.iter().skip(1) {
            let node = NodeId(row[0].parse().expect("a node"));
            let Some(value) = view.node(node) else {
                assert_eq!(row[index + 1], "–");
                continue;
            };
            let (text, class) = row[index + 1].split_once(' ').expect("a value and a class");
            assert!(shows(text, value.value / factor), "{} of {node}: {text}", view.name);
            let rank = view.classes.iter().find(|class| class.nodes.contains(node)).expect("a class").rank;
            assert_eq!(class, format!("[{rank}]"));
        }
    }
    let title = format!("Rank agreement of the views of node {target} (Kendall's tau-b)");
    let shown = find(tables, &title);
    for it in &comparison.agreements {
        let index_of =
            |name: &str| comparison.views.iter().position(|view| view.name == name).expect("a view");
        let text = &shown.rows[index_of(&it.first) + 1][index_of(&it.second)];
        let tau = text.split(' ').next().expect("a number");
        match it.tau_b {
            Some(expected) => {
                assert!((tau.parse::<f64>().expect("tau") - expected).abs() < 0.00501, "{text}")
            }
            None => assert_eq!(tau, "–"),
        }
        assert_eq!(text.ends_with('='), it.same_classes);
    }
}
