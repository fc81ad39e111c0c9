//! Reports as LaTeX, CSV and Markdown: what other programs make of them, and that they say what the documents say.

use crate::csv_lines;
#[allow(dead_code)] // tests/report.rs needs more of it
use crate::documents::{self, THEN};
use crate::hostile_names;
use crate::markdown;
use crate::support::Home;
use crate::tables::{assert_range, assert_tables, find};
use crate::tex;
use crate::told::{report, shows, told, Told};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Direction, StreamOp};
use numaio_schema::*;

#[test]
fn latex_of_every_shipped_tape_compiles_and_says_what_was_measured() {
    for machine in ["amd-2p", "amd-dl585-g7", "intel-r820"] {
        let home = Home::new();
        let args = ["--machine", machine];
        let tex = report(&home, "latex", &args);
        let told = told(&home, &args);
        assert!(!told.models.is_empty() && !told.streams.is_empty() && !told.latencies.is_empty());
        assert!(!told.comparisons.is_empty(), "{machine}");
        assert_tables(&tex::tables(&tex), &told);
        let Some(pages) = tex::compile(&home, "latex_of_every_shipped_tape", &tex) else { return };
        assert!((2..=8).contains(&pages), "{machine}: {pages} pages");
    }
}

/// Files of a machine of 64 nodes with every kind of document.
fn large(home: &Home) -> Vec<String> {
    let machine = documents::machine("large");
    let model = documents::model(&machine, THEN);
    let mut stream = documents::stream(&machine, &StreamOp::ALL, THEN);
    stream.classes = numaio_model::pair_classes(&stream, numaio_model::ClassOptions::default());
    let comparison = documents::comparison(&machine, &model, NodeId(7));
    vec![
        home.document("model.json", &model),
        home.document("stream.json", &stream),
        home.document("latency.json", &documents::latency(&machine, THEN)),
        home.document("comparison.json", &comparison),
        home.document("topology.json", &TopologyDocument::new(machine)),
    ]
}

/// All formats at once: what is told takes longer than each of them.
#[test]
fn reports_of_64_nodes_say_what_the_documents_say() {
    let home = Home::new();
    let files = large(&home);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let told = told(&home, &files);
    assert_eq!((told.streams[0].classes.len(), told.latencies[0].curves.len()), (4, 3));
    assert_markdown(&report(&home, "markdown", &files), &told);
    // A model: 64 targets, 64 nodes, two directions; four operations, latency, 8 loads of three curves; views.
    let wanted = 64 * 64 * (2 + 4 + 1) + 3 * 8 * 2 + 3 * 64;
    assert_eq!(csv_lines::assert_lines(&report(&home, "csv", &files), &told), wanted);
    let bare = report(&home, "csv", &[files[4]]);
    assert!(bare.starts_with("machine,host,measured_at,what,series,target,") && bare.lines().count() == 1);
    let tex = report(&home, "latex", &files);
    let tables = tex::tables(&tex);
    assert!(tables.len() > 128 + 7 * 4, "{} tables", tables.len());
    assert_tables(&tables, &told);
    let Some(pages) = tex::compile(&home, "reports_of_64_nodes", &tex) else { return };
    assert!(pages < 120, "{pages} pages");
}

#[test]
fn hostile_names_stay_text_in_latex() {
    let home = Home::new();
    let files = hostile_names::files(&home);
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
        measured_at: None,
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

#[test]
fn csv_has_a_line_for_each_figure_to_the_last_digit() {
    let home = Home::new();
    for machine in ["amd-2p", "amd-dl585-g7"] {
        let args = ["--machine", machine];
        assert!(csv_lines::assert_lines(&report(&home, "csv", &args), &told(&home, &args)) > 100);
    }
}

#[test]
fn no_name_in_csv_is_a_formula() {
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
fn markdown_says_what_the_documents_say() {
    let home = Home::new();
    let args = ["--machine", "amd-dl585-g7"];
    assert_markdown(&report(&home, "markdown", &args), &told(&home, &args));
}

fn assert_markdown(markdown: &str, told: &Told) {
    let seen = markdown::read(markdown);
    assert_tables(&seen.tables, told);
    for table in &seen.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.rows[0].len()), "{}", table.title);
    }
}

#[test]
fn hostile_names_stay_text_in_markdown() {
    let home = Home::new();
    let files = hostile_names::files(&home);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let seen = markdown::read(&report(&home, "markdown", &files));
    for name in hostile_names::NAMES.iter().filter(|name| !name.contains('\u{1b}')) {
        assert!(seen.text.contains(name), "{name} is not shown as it is");
    }
    assert!(!seen.text.contains(|c: char| c.is_control()));
}

#[test]
fn of_machines_and_views_that_tell_their_time_the_newest_counts() {
    let home = Home::new();
    let machine = documents::machine("dl585");
    let fingerprint = machine.identity.fingerprint.clone();
    let seen = |seen_at: Option<u64>, product: &str| {
        let mut machine = machine.clone();
        machine.identity.product = product.into();
        home.document(&format!("{product}.json"), &TopologyDocument::with_time(machine, seen_at))
    };
    let measured = |measured_at: u64, gbit: f64| View {
        measured_at: Some(measured_at),
        ..measured_io(&fingerprint, Direction::Write, [gbit; 8])
    };
    let files = [
        seen(Some(THEN + 60), "later"),
        seen(Some(THEN), "earlier"),
        seen(None, "untold"),
        home.document("new.json", &measured(THEN + 60, 21.0)),
        home.document("old.json", &measured(THEN, 11.0)),
    ];
    let (mut there, mut back) = (files.each_ref().map(String::as_str), files.each_ref().map(String::as_str));
    back.reverse();
    for args in [&mut there, &mut back] {
        let page = report(&home, "markdown", args.as_slice());
        assert!(page.contains("later") && !page.contains("earlier") && !page.contains("untold"), "{page}");
        assert!(page.lines().any(|line| line == "| Discovered | 2026-11-18 11:07 UTC |"), "{page}");
        let lines = report(&home, "csv", args.as_slice());
        assert!(lines.contains("2625000000") && !lines.contains("1375000000"), "{lines}");
        let html = report(&home, "html", args.as_slice());
        assert!(html.contains("as of ") && html.contains("Measured TCP by eth0: "), "{html}");
    }
}
