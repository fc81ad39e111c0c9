//! Reports as LaTeX, CSV and Markdown: other programs read them, and their values match the
//! documents.

use crate::csv_lines;
use crate::documents::{self, MEASURED_AT};
use crate::hostile_names;
use crate::markdown;
use crate::report_documents::{read_documents, report, shows, ReportDocuments};
use crate::support::Home;
use crate::tables::{assert_range, assert_tables, find};
use crate::tex;

use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, StreamOp};
use numaio_schema::*;

#[test]
fn latex_of_every_shipped_tape_compiles_and_contains_the_measurements() {
    for machine in ["amd-2p", "amd-dl585-g7", "intel-r820"] {
        let home = Home::new();
        let args = ["--machine", machine];
        let tex = report(&home, "latex", &args);
        let documents = read_documents(&home, &args);
        assert!(!documents.models.is_empty() && !documents.streams.is_empty());
        assert!(!documents.latencies.is_empty() && !documents.comparisons.is_empty(), "{machine}");
        assert_tables(&tex::tables(&tex), &documents);
        let Some(pages) =
            tex::compile(&home, "latex_of_every_shipped_tape_compiles_and_contains_the_measurements", &tex)
        else {
            return;
        };
        assert!((2..=8).contains(&pages), "{machine}: {pages} pages");
    }
}

/// Writes every kind of document of a machine with 64 nodes.
fn large_machine_files(home: &Home) -> Vec<String> {
    let machine = documents::machine("large");
    let model = documents::model(&machine, MEASURED_AT);
    let mut stream = documents::stream(&machine, &StreamOp::STREAM, MEASURED_AT);
    stream.classes = numaio_model::pair_classes(&stream, numaio_model::ClassOptions::default());
    let comparison = documents::comparison(&machine, &model, NodeId(7));
    vec![
        home.document("model.json", &model),
        home.document("stream.json", &stream),
        home.document("latency.json", &documents::latency(&machine, MEASURED_AT)),
        home.document("comparison.json", &comparison),
        home.document("topology.json", &TopologyDocument::new(machine)),
    ]
}

/// One test for all formats, since generating the documents takes longest.
#[test]
fn reports_of_64_nodes_contain_the_values_of_the_documents() {
    let home = Home::new();
    let files = large_machine_files(&home);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let documents = read_documents(&home, &files);
    assert_eq!((documents.streams[0].classes.len(), documents.latencies[0].curves.len()), (4, 3));
    assert_markdown(&report(&home, "markdown", &files), &documents);
    // Cells of two directions, four operations and latency; 8 points of three curves; three views.
    let expected_lines = 64 * 64 * (2 + 4 + 1) + 3 * 8 * 2 + 3 * 64;
    assert_eq!(csv_lines::assert_lines(&report(&home, "csv", &files), &documents), expected_lines);
    let topology_only = report(&home, "csv", &[files[4]]);
    assert!(
        topology_only.starts_with("machine,host,measured_at,what,series,target,")
            && topology_only.lines().count() == 1
    );
    let tex = report(&home, "latex", &files);
    let tables = tex::tables(&tex);
    assert!(tables.len() > 128 + 7 * 4, "{} tables", tables.len());
    assert_tables(&tables, &documents);
    let Some(pages) = tex::compile(&home, "reports_of_64_nodes_contain_the_values_of_the_documents", &tex)
    else {
        return;
    };
    assert!(pages < 120, "{pages} pages");
}

#[test]
fn latex_escapes_hostile_names() {
    let home = Home::new();
    let files = hostile_names::files(&home);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let tex = report(&home, "latex", &files);
    assert!(tex.contains("\\textbf{Incomplete: "));
    assert!(!tex.contains("\\input") && !tex.contains("\\write"));
    assert!(!tex.contains(|c: char| c.is_control() && c != '\n'));
    let Some(pages) = tex::compile(&home, "latex_escapes_hostile_names", &tex) else { return };
    assert!(pages > 4, "{pages} pages");
    assert!(tex.ends_with("\\end{document}\n") && tex.matches("\\end{document}").count() == 1);
}

/// Returns a view of device I/O, as measured by another tool.
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
        measured_at: None,
    }
}

#[test]
fn measured_io_is_added_to_the_class_tables() {
    let home = Home::new();
    let machine = documents::machine("dl585");
    let fingerprint = machine.identity.fingerprint.clone();
    let model = documents::model(&machine, MEASURED_AT);
    let send = measured_io(&fingerprint, Direction::Write, [20.9, 20.8, 17.0, 17.1, 20.7, 20.6, 20.9, 20.5]);
    let files = [home.document("model.json", &model), home.document("send.json", &send)];
    let args = files.each_ref().map(String::as_str);
    let tables = tex::tables(&report(&home, "latex", &args));
    let write_model =
        &model.targets.iter().find(|target| target.target == NodeId(7)).expect("node 7").directions[0];
    assert_eq!(write_model.direction, Direction::Write);
    let table = find(&tables, "I/O model of node 7, device write (GB/s)");
    let row = |name: &str| table.rows.iter().find(|row| row[0] == name).expect("a row");
    for (index, class) in write_model.classes.iter().enumerate() {
        let values: Vec<f64> =
            class.nodes.iter().map(|node| send.node(node).expect("a value").value / 1e9).collect();
        let (min, max) = values.iter().fold((f64::MAX, 0f64), |(min, max), it| (min.min(*it), max.max(*it)));
        assert_range(&row("TCP by eth0, range")[index + 1], min, max);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!(shows(&row("TCP by eth0, mean")[index + 1], mean));
    }
    let read = find(&tables, "I/O model of node 7, device read (GB/s)");
    assert!(read.rows.iter().all(|row| !row[0].contains("TCP")), "reads were not measured");
    let others = tables.iter().filter(|table| table.title.starts_with("I/O model of node 6"));
    assert!(others.flat_map(|table| &table.rows).all(|row| !row[0].contains("TCP")));
    assert!(report(&home, "markdown", &args).contains("| TCP by eth0, mean |"));
}

#[test]
fn csv_has_a_line_per_value_with_all_digits() {
    let home = Home::new();
    for machine in ["amd-2p", "amd-dl585-g7"] {
        let args = ["--machine", machine];
        assert!(csv_lines::assert_lines(&report(&home, "csv", &args), &read_documents(&home, &args)) > 100);
    }
}

#[test]
fn csv_quotes_names_that_are_formulas() {
    let home = Home::new();
    let files = hostile_names::files(&home);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let csv = report(&home, "csv", &files);
    assert!(!csv.contains(|c: char| c.is_control() && c != '\n'));
    let lines = csv_lines::read(&csv);
    let mut quoted = 0;
    for (title, text) in lines.iter().flatten() {
        let number = text.parse::<f64>().is_ok();
        assert!(number || !text.trim_start().starts_with(['=', '+', '-', '@']), "{title}: {text}");
        quoted += usize::from(text.starts_with("'"));
    }
    assert!(quoted > 0);
    assert!(lines.iter().any(|line| line["series"] == "'=HYPERLINK(\"http://x.example\";\"y\")"));
    assert_eq!(lines.iter().filter(|line| !line["failure"].is_empty()).count(), 2);
}

#[test]
fn markdown_contains_the_values_of_the_documents() {
    let home = Home::new();
    let args = ["--machine", "amd-dl585-g7"];
    assert_markdown(&report(&home, "markdown", &args), &read_documents(&home, &args));
}

fn assert_markdown(markdown: &str, documents: &ReportDocuments) {
    let content = markdown::read(markdown);
    assert_tables(&content.tables, documents);
    for table in &content.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.rows[0].len()), "{}", table.title);
    }
}

#[test]
fn markdown_escapes_hostile_names() {
    let home = Home::new();
    let files = hostile_names::files(&home);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let content = markdown::read(&report(&home, "markdown", &files));
    for name in hostile_names::NAMES.iter().filter(|name| !name.contains('\u{1b}')) {
        assert!(content.text.contains(name), "{name} is not shown unchanged");
    }
    assert!(!content.text.contains(|c: char| c.is_control()));
}

/// A measurement under load is of something else: neither replaces the other, whichever is newer.
#[test]
fn measurements_under_load_and_idle_ones_are_both_reported() {
    let home = Home::new();
    let machine = documents::machine("dl585");
    for loaded_at in [MEASURED_AT - 1, MEASURED_AT, MEASURED_AT + 1] {
        let mut model = documents::model(&machine, loaded_at);
        let mut stream = documents::stream(&machine, &StreamOp::STREAM, loaded_at);
        let mut latency = documents::latency(&machine, loaded_at);
        let load = Load::Command { command: "stress".to_owned() };
        let load = vec![MeasuredLoad { load, bytes_per_s: None }];
        for provenance in [&mut model.record.provenance, &mut stream.provenance, &mut latency.provenance] {
            provenance.load.clone_from(&load);
        }
        let idle = &documents::stream(&machine, &StreamOp::STREAM, MEASURED_AT);
        let files = [
            home.document("model.json", &documents::model(&machine, MEASURED_AT)),
            home.document("stream.json", idle),
            home.document("latency.json", &documents::latency(&machine, MEASURED_AT)),
            home.document("loaded-model.json", &model),
            home.document("loaded-stream.json", &stream),
            home.document("loaded-latency.json", &latency),
        ];
        let paths: Vec<&str> = files.iter().map(String::as_str).collect();
        let csv = report(&home, "csv", &paths);
        let count = |what: &str, has_load: bool| {
            let of_kind = |line: &&str| line.split(',').nth(3) == Some(what);
            csv.lines().filter(of_kind).filter(|line| line.contains(", load 'stress'") == has_load).count()
        };
        for what in ["copy", "stream", "latency", "loaded-latency"] {
            assert!(count(what, false) > 0 && count(what, false) == count(what, true), "{what}: {csv}");
        }
        let markdown = report(&home, "markdown", &paths);
        let titles: Vec<&str> = markdown.lines().filter(|line| line.starts_with("#### STREAM")).collect();
        let loaded = titles.iter().filter(|title| title.ends_with(" beside 'stress'")).count();
        assert!(loaded > 0 && titles.len() == 2 * loaded, "{titles:?}");
        let page = report(&home, "html", &paths);
        // The summary, the model, STREAM and latency.
        assert_eq!(page.matches(" UTC beside 'stress'").count(), 4, "{page}");
    }
}

#[test]
fn reports_use_the_newest_topology_and_view_with_a_time() {
    let home = Home::new();
    let machine = documents::machine("dl585");
    let fingerprint = machine.identity.fingerprint.clone();
    let topology = |observed_at: Option<u64>, product: &str| {
        let mut machine = machine.clone();
        machine.identity.product = product.into();
        home.document(&format!("{product}.json"), &TopologyDocument::with_time(machine, observed_at))
    };
    let measured = |measured_at: u64, gbit: f64| View {
        measured_at: Some(measured_at),
        ..measured_io(&fingerprint, Direction::Write, [gbit; 8])
    };
    let files = [
        topology(Some(MEASURED_AT + 60), "later"),
        topology(Some(MEASURED_AT), "earlier"),
        topology(None, "undated"),
        home.document("new.json", &measured(MEASURED_AT + 60, 21.0)),
        home.document("old.json", &measured(MEASURED_AT, 11.0)),
    ];
    let args = files.each_ref().map(String::as_str);
    let mut reversed = args;
    reversed.reverse();
    for args in [args, reversed] {
        let page = report(&home, "markdown", args.as_slice());
        assert!(page.contains("later") && !page.contains("earlier") && !page.contains("undated"), "{page}");
        assert!(page.lines().any(|line| line == "| Discovered | 2026-11-18 11:07 UTC |"), "{page}");
        let lines = report(&home, "csv", args.as_slice());
        assert!(lines.contains("2625000000") && !lines.contains("1375000000"), "{lines}");
        let html = report(&home, "html", args.as_slice());
        assert!(html.contains("as of ") && html.contains("Measured TCP by eth0: "), "{html}");
    }
}
