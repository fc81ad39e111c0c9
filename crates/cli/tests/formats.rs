//! Reports as LaTeX, CSV and Markdown: what other programs make of them, and that they say what the documents say.

mod support;

#[allow(dead_code)] // tests/report.rs needs more of it
#[path = "report_support/documents.rs"]
mod documents;
#[path = "support/hostile.rs"]
mod hostile;
#[path = "support/tex.rs"]
mod tex;
#[path = "support/told.rs"]
mod told;

use documents::THEN;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::{Direction, Flow, StreamOp};
use numaio_schema::*;
use std::collections::BTreeMap;
use support::Home;
use tex::Table;
use told::{report, shows, told, Told};

/// The figures of a matrix are these, no more and no fewer; `–` where there is none.
fn assert_matrix(tables: &[Table], title: &str, wanted: BTreeMap<(String, String), Option<f64>>) {
    let texts = tex::matrix(tables, title);
    assert!(texts.keys().eq(wanted.keys()), "{title}: {:?}\n{:?}", texts.keys(), wanted.keys());
    for (key, text) in texts {
        match wanted[&key] {
            Some(value) => assert!(shows(&text, value), "{title} {key:?}: {text} is not {value}"),
            None => assert_eq!(text, "–", "{title} {key:?}"),
        }
    }
}

fn key(row: NodeId, column: NodeId) -> (String, String) {
    (row.to_string(), column.to_string())
}

/// Every table of figures in a LaTeX report says what the documents say.
fn assert_tables(tex: &str, told: &Told) -> usize {
    let tables = tex::tables(tex);
    for stream in &told.streams {
        for (op, _) in &stream.method.loops {
            let cells = stream.cells.iter().filter(|cell| cell.op == *op);
            let wanted = cells.map(|cell| {
                (key(cell.cpu_node, cell.memory_node), cell.bytes_per_s.median().map(|value| value / 1e9))
            });
            let title = format!("STREAM {op}: medians per CPU and memory node (GB/s)");
            assert_matrix(&tables, &title, wanted.collect());
        }
        stream.classes.iter().for_each(|classes| assert_pairs(&tables, classes));
    }
    for latency in &told.latencies {
        let cells = latency.cells.iter();
        let wanted = cells.map(|cell| (key(cell.cpu_node, cell.memory_node), cell.ns_per_load.median()));
        assert_matrix(&tables, "Idle latency: medians per CPU and memory node (ns)", wanted.collect());
        latency.curves.iter().for_each(|curve| assert_curve(&tables, curve));
    }
    for model in &told.models {
        assert_copies(&tables, model);
        for target in &model.targets {
            target.directions.iter().for_each(|direction| assert_classes(&tables, target.target, direction));
        }
    }
    told.comparisons.iter().for_each(|comparison| assert_views(&tables, comparison));
    tables.len()
}

fn find<'t>(tables: &'t [Table], title: &str) -> &'t Table {
    let mut found = tables.iter().filter(|table| table.title == title);
    let table = found.next().unwrap_or_else(|| panic!("no table {title:?}"));
    assert!(found.next().is_none(), "{title} twice");
    table
}

/// `0.1–0.2`, or one figure.
fn assert_range(text: &str, min: f64, max: f64) {
    let (first, last) = text.split_once('–').unwrap_or((text, text));
    assert!(shows(first, min) && shows(last, max), "{text} is not {min} to {max}");
}

fn assert_copies(tables: &[Table], model: &Model) {
    for direction in [Direction::Write, Direction::Read] {
        let mut wanted = BTreeMap::new();
        for cell in &model.record.cells {
            let value = cell.bytes_copied_per_s.as_ref().map(|summary| summary.median / 1e9);
            let node = if direction == Direction::Write { cell.flow.source } else { cell.flow.sink };
            if Flow::of(direction, cell.target, node) == cell.flow {
                wanted.insert(key(cell.target, node), value);
            }
        }
        assert_matrix(tables, &format!("Copies for {}, all targets (GB/s)", direction.name()), wanted);
    }
}

/// Tables IV and V of Li et al.: columns are classes.
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

/// Cbench's table of classes: all pairs are in it, each in its class.
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
        let mut wanted = class.pairs.clone();
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "class {} of {title}", class.rank);
    }
}

fn assert_curve(tables: &[Table], curve: &LoadedCurve) {
    let (cpu, node, memory) = (curve.cpu, curve.cpu_node, curve.memory_node);
    let cpus = &curve.placement.cpus;
    let title = format!(
        "Latency under load: CPU {cpu} of node {node} to memory of node {memory}, while CPUs {cpus} read it"
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
    let values = find(tables, &format!("Views of target node {target}: value and, in brackets, class"));
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
        let place = |name: &str| comparison.views.iter().position(|view| view.name == name).expect("a view");
        let text = &shown.rows[place(&it.first) + 1][place(&it.second)];
        let tau = text.split(' ').next().expect("a figure");
        match it.tau_b {
            Some(wanted) => assert!((tau.parse::<f64>().expect("tau") - wanted).abs() < 0.00501, "{text}"),
            None => assert_eq!(tau, "–"),
        }
        assert_eq!(text.ends_with('='), it.same_classes);
    }
}

#[test]
fn latex_of_every_shipped_tape_compiles_and_says_what_was_measured() {
    for machine in ["amd-2p", "amd-dl585-g7", "intel-r820"] {
        let home = Home::new();
        let args = ["--machine", machine];
        let tex = report(&home, "latex", &args);
        let told = told(&home, &args);
        assert!(!told.models.is_empty() && !told.streams.is_empty() && !told.latencies.is_empty());
        assert!(!told.comparisons.is_empty(), "{machine}");
        assert_tables(&tex, &told);
        let Some(pages) = tex::compile(&home, "latex_of_every_shipped_tape", &tex) else { return };
        assert!((2..=8).contains(&pages), "{machine}: {pages} pages");
    }
}

#[test]
fn latex_of_64_nodes_fits_on_its_pages() {
    let home = Home::new();
    let machine = documents::machine("large");
    let model = documents::model(&machine, THEN);
    let mut stream = documents::stream(&machine, &StreamOp::ALL, THEN);
    stream.classes = numaio_model::pair_classes(&stream, numaio_model::Rule::default());
    let comparison = documents::comparison(&machine, &model, NodeId(7));
    let files = [
        home.document("model.json", &model),
        home.document("stream.json", &stream),
        home.document("latency.json", &documents::latency(&machine, THEN)),
        home.document("comparison.json", &comparison),
        home.document("topology.json", &TopologyDocument::new(machine)),
    ];
    let files = files.each_ref().map(String::as_str);
    let tex = report(&home, "latex", &files);
    let told = told(&home, &files);
    assert_eq!((told.streams[0].classes.len(), told.latencies[0].curves.len()), (4, 3));
    assert!(assert_tables(&tex, &told) > 128 + 7 * 4);
    let Some(pages) = tex::compile(&home, "latex_of_64_nodes_fits_on_its_pages", &tex) else { return };
    assert!(pages < 120, "{pages} pages");
}

#[test]
fn hostile_names_stay_text_in_latex() {
    let home = Home::new();
    let files = hostile::files(&home);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let tex = report(&home, "latex", &files);
    assert!(tex.contains("\\textbf{Incomplete: "));
    assert!(!tex.contains("\\input") && !tex.contains("\\write"));
    assert!(!tex.contains(|c: char| c.is_control() && c != '\n'));
    let Some(pages) = tex::compile(&home, "hostile_names_stay_text_in_latex", &tex) else { return };
    assert!(pages > 4, "{pages} pages");
    assert!(tex.ends_with("\\end{document}\n") && tex.matches("\\end{document}").count() == 1);
}

/// What a later version of numaio, or another tool, will measure: I/O by a device.
fn measured_io(machine: &str, direction: Direction, gbit: [f64; 8]) -> View {
    let node = |(node, value): (usize, f64)| NodeValue {
        node: NodeId(node as u32),
        value: value * 1e9 / 8.0,
        interval: Some((value * 0.99e9 / 8.0, value * 1.01e9 / 8.0)),
        n: 6,
        drift: 0.0,
        factor: None,
    };
    View {
        schema: VIEW_SCHEMA.into(),
        name: format!("tcp-{}", direction.name()),
        title: "TCP by eth0".into(),
        machine: machine.into(),
        target: NodeId(7),
        direction: Some(direction),
        quantity: Quantity::BytesPerS,
        nodes: gbit.into_iter().enumerate().map(node).collect(),
        level: 0.1,
        classes: Vec::new(),
        incomplete: false,
    }
}

#[test]
fn measured_io_becomes_rows_of_the_paper_s_tables() {
    let home = Home::new();
    let machine = documents::machine("dl585");
    let fingerprint = machine.identity.fingerprint.clone();
    let model = documents::model(&machine, THEN);
    let send = measured_io(&fingerprint, Direction::Write, [20.9, 20.8, 17.0, 17.1, 20.7, 20.6, 20.9, 20.5]);
    let files = [home.document("model.json", &model), home.document("send.json", &send)];
    let args = files.each_ref().map(String::as_str);
    let tables = tex::tables(&report(&home, "latex", &args));
    let of = &model.targets.iter().find(|target| target.target == NodeId(7)).expect("node 7").directions[0];
    assert_eq!(of.direction, Direction::Write);
    let table = find(&tables, "I/O model of node 7, device write (GB/s)");
    let row = |name: &str| table.rows.iter().find(|row| row[0] == name).expect("a row");
    for (index, class) in of.classes.iter().enumerate() {
        let values: Vec<f64> =
            class.nodes.iter().map(|node| send.node(node).expect("a value").value / 1e9).collect();
        let (min, max) = values.iter().fold((f64::MAX, 0f64), |(min, max), it| (min.min(*it), max.max(*it)));
        assert_range(&row("TCP by eth0, range")[index + 1], min, max);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!(shows(&row("TCP by eth0, mean")[index + 1], mean));
    }
    let read = find(&tables, "I/O model of node 7, device read (GB/s)");
    assert!(read.rows.iter().all(|row| !row[0].contains("TCP")), "it was not measured reading");
    let others = tables.iter().filter(|table| table.title.starts_with("I/O model of node 6"));
    assert!(others.flat_map(|table| &table.rows).all(|row| !row[0].contains("TCP")));
    assert!(report(&home, "markdown", &args).contains("| TCP by eth0, mean |"));
}
