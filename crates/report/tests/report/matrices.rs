//! Text of STREAM, sweeps and latency, and tables of sweeps.

use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Identity;
use numaio_machine::workload::{Pages, Placement, StreamLoop, StreamOp};
use numaio_report::{csv, latency_text, latex, stream_text, sweep_text, Bundle, TextStyle};
use numaio_schema::{
    Document, LatencyCell, LatencyMethod, LatencyRecord, LoadPoint, LoadedCurve, MachineSource, Provenance,
    Quantity, Reading, ReadingVisit, Rounds, StreamCell, StreamMethod, StreamRecord, StreamScope, Summary,
    SweepRecord, SweepScope, Warning, LATENCY_SCHEMA, STREAM_SCHEMA,
};

fn provenance(complete: bool) -> Provenance {
    Provenance {
        numaio: "0".into(),
        measured_at: 0,
        machine: Identity { product: "Box \u{1b}[2J".into(), ..Identity::default() },
        source: MachineSource::Live,
        conditions: Default::default(),
        warnings: vec![Warning { rule: "drift".into(), message: "one thing drifted".into() }],
        complete,
        load: Vec::new(),
    }
}

fn rounds() -> Rounds {
    Rounds { precision: 0.02, time_limit_s: 300.0, elapsed_s: 9.0, seed: 1, rounds: 7 }
}

/// Builds a reading with values around `middle`; `None` makes a reading without a value.
fn reading(middle: Option<f64>) -> Reading {
    let values: Vec<f64> =
        middle.iter().flat_map(|middle| [0.995, 1.0, 1.005].map(|it| it * middle)).collect();
    let values = [&values[..], &values].concat();
    let visit = |value: &f64| ReadingVisit {
        round: 1,
        median: *value,
        min: value * 0.9,
        max: value * 1.1,
        samples: 5,
        start_skew_ns: 0,
        residency: Default::default(),
        excluded: None,
    };
    Reading {
        visits: values.iter().map(visit).collect(),
        summary: Summary::of(&values, None),
        settled: middle.is_some(),
        failure: middle.is_none().then(|| "mbind: not permitted".into()),
    }
}

fn stream(scope: StreamScope, cells: &[(u32, u32, u32, Option<f64>)], complete: bool) -> StreamRecord {
    let cell = |(cpu_node, cpu, memory_node, gb): &(u32, u32, u32, Option<f64>)| StreamCell {
        op: StreamOp::Copy,
        cpu_node: NodeId(*cpu_node),
        memory_node: NodeId(*memory_node),
        placement: Placement { cpus: CpuSet::one(CpuId(*cpu)) },
        bytes_per_s: reading(gb.map(|gb| gb * 1e9)),
    };
    StreamRecord {
        schema: STREAM_SCHEMA.into(),
        provenance: provenance(complete),
        method: StreamMethod {
            loops: vec![(StreamOp::Copy, StreamLoop::Ordinary)],
            trials: Vec::new(),
            scope,
            bytes_per_array: vec![(NodeId(0), 32 << 20)],
            pages: Pages::Transparent,
            rounds: rounds(),
        },
        cells: cells.iter().map(cell).collect(),
        classes: Vec::new(),
    }
}

fn text_of(record: &StreamRecord, style: &TextStyle) -> String {
    stream_text(record, &[], &NodeSet::new(), style)
}

/// Joins the lines of a text.
fn joined_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn cores_differ_beyond_intervals_and_precision() {
    let text_with = |values: [Option<f64>; 3]| {
        let cells: Vec<_> = (0..3).map(|cpu| (0, cpu, 0, values[cpu as usize])).collect();
        joined_lines(&text_of(&stream(StreamScope::Core, &cells, true), &TextStyle::default()))
    };
    assert!(
        text_with([Some(10.0), Some(10.05), Some(9.95)]).contains("The 3 cores of node 0 agree: not disting")
    );
    // The intervals of 10 and 10.15 do not overlap but are within the precision.
    assert!(text_with([Some(10.0), Some(10.15), Some(10.0)]).contains("agree: not distinguishable"));
    let different = text_with([Some(10.0), Some(11.0), Some(12.0)]);
    let wanted = "The 3 cores of node 0 differ: memory of node 0: CPU 0 10.00, CPU 2 12.00 GB/s.";
    assert!(different.contains(wanted), "{different}");
    assert!(
        text_with([Some(10.0), Some(10.0), None]).contains("agree: not distinguishable (1 without a value).")
    );
}

#[test]
fn missing_values_are_marked_and_listed() {
    let node = StreamScope::Node { threads: None };
    let mut record = stream(node, &[(0, 0, 0, Some(10.0)), (0, 0, 1, None)], false);
    record.cells[0].bytes_per_s.settled = false;
    let text = text_of(&record, &TextStyle::default());
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines[..8].iter().any(|line| line.starts_with("INCOMPLETE")), "{text}");
    assert!(lines.contains(&"0         *10.00  -") && lines.contains(&"0         *11.05  -"), "{text}");
    assert!(text.contains("* less precise than requested"), "{text}");
    assert!(text.contains("No value for copy by node 0 on 1: mbind: not permitted"), "{text}");
    assert!(!text.contains('\u{1b}'));
    assert!(
        !text_of(&stream(node, &[(0, 0, 0, Some(10.0))], true), &TextStyle::default()).contains("INCOMPLETE")
    );
}

#[test]
fn respects_units_and_widths() {
    let cells: Vec<_> =
        (0..40).flat_map(|cpu| (0..40).map(move |memory| (cpu, cpu, memory, Some(10.0)))).collect();
    let record = stream(StreamScope::Node { threads: Some(2) }, &cells, true);
    for width in [76, 100, 160] {
        let style =
            TextStyle { width, unit: "Gbit/s".parse().expect("a unit"), stats: true, ..TextStyle::default() };
        let text = text_of(&record, &style);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}");
        assert_eq!(text.split_whitespace().filter(|word| *word == "80.00").count(), 1600);
    }
}

#[test]
fn latency_has_factors_and_curves_start_without_load() {
    let cell = |cpu_node: u32, memory_node: u32, ns: Option<f64>| LatencyCell {
        cpu_node: NodeId(cpu_node),
        cpu: CpuId(cpu_node),
        memory_node: NodeId(memory_node),
        ns_per_load: reading(ns),
    };
    let point = |gap_ns: u32, gb: f64, ns: Option<f64>| LoadPoint {
        gap_ns,
        load_bytes_read_per_s: ns.and_then(|_| Summary::of(&[gb * 1e9], None)),
        ns_per_load: reading(ns),
    };
    let record = LatencyRecord {
        schema: LATENCY_SCHEMA.into(),
        provenance: provenance(false),
        method: LatencyMethod {
            bytes: vec![(NodeId(0), 64 << 20)],
            stride_bytes: 256,
            pages: Pages::Transparent,
            rounds: rounds(),
        },
        cells: vec![cell(0, 0, Some(80.0)), cell(0, 1, Some(120.0)), cell(1, 0, Some(130.0))],
        curves: vec![LoadedCurve {
            cpu_node: NodeId(0),
            cpu: CpuId(0),
            placement: Placement { cpus: CpuSet::one(CpuId(1)) },
            memory_node: NodeId(0),
            points: vec![point(800, 2.0, Some(95.0)), point(0, 20.0, None)],
        }],
    };
    let text = latency_text(&record, &[], &NodeSet::new(), &TextStyle::default());
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines.contains(&"0          80.0  120.0") && lines.contains(&"1         130.0      -"), "{text}");
    assert!(lines.contains(&"0         1.00  1.50"), "NUMA factors: {text}");
    assert!(lines.contains(&"1            -     -"), "no factor without local latency: {text}");
    let idle =
        lines.iter().position(|line| line.starts_with("no load       0.00        80.0")).expect("idle");
    assert!(lines[idle + 1].starts_with("800       2.00        95.0  ±0.5 %"), "{text}");
    assert!(lines[idle + 2].ends_with("mbind: not permitted"), "{text}");
}

/// Returns the stored sweep of two builds on two nodes; a build and a pair failed.
fn sweep() -> SweepRecord {
    let text = include_str!("../../../schema/tests/fixtures/sweep-1.json");
    SweepRecord::from_json(text).expect("a sweep")
}

#[test]
fn sweep_shows_figures_classes_best_builds_and_failures() {
    let text = sweep_text(&sweep(), &[], &NodeSet::new(), &TextStyle::default());
    for part in [
        "Median of stream in GB/s: CPUs of the row's node, memory of the column's node",
        "0         21.20   9.15",
        "1             -  21.00",
        "No value for node 1 on 0: ./stream.gcc: it exited with status 1: no memory",
        "1: ./stream.gcc -t 4",
        "Classes of all pairs, best first: k-means",
        "best of 2 builds",
        "INCOMPLETE",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    let classes: Vec<&str> = text.lines().skip_while(|line| !line.contains("CLASS")).collect();
    assert!(classes[1].contains("0: 0; 1: 1") && classes[2].contains("0: 1"), "{text}");
}

#[test]
fn sweep_of_cores_lists_cpus_with_the_same_memory_nodes_together() {
    let mut sweep = sweep();
    sweep.method.scope = SweepScope::Cores;
    for (cell, cpu) in sweep.cells.iter_mut().zip([0, 0, 4, 5]) {
        cell.placement.cpus = CpuSet::one(CpuId(cpu));
    }
    sweep.cells[2].memory_node = NodeId(1);
    sweep.classes.classes[0].cells = vec![1, 2, 3];
    let text = sweep_text(&sweep, &[], &NodeSet::new(), &TextStyle::default());
    assert!(text.contains("CPUS: MEMORY") && text.contains("0,4-5: 1"), "{text}");
    assert!(text.contains("1, CPU 5"), "{text}");
}

#[test]
fn costs_have_their_own_unit_and_hostile_names_are_cleaned() {
    let mut sweep = sweep();
    sweep.method.quantity = Quantity::Cost;
    sweep.method.unit = "m\u{1b}s".to_owned();
    sweep.method.name = "=x\u{202e}\u{1b}[2J".to_owned();
    sweep.method.builds[0][0] = "\u{1b}]0;a".to_owned();
    let text = sweep_text(&sweep, &[], &NodeSet::new(), &TextStyle::default());
    assert!(text.contains("lower is better") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
    let mut bundle = Bundle::default();
    bundle.add(Document::Sweep(Box::new(sweep))).expect("added");
    let rows = csv(&bundle).expect("rows");
    assert!(rows.contains(",sweep,'=x") && !rows.contains('\u{1b}'), "{rows}");
    assert_eq!(rows.lines().count(), 1 + 8, "a row for each build of each pair");
    let tables = latex(&bundle, Default::default());
    assert!(tables.contains("best build") && !tables.contains('\u{1b}'), "{tables}");
    let page = numaio_report::html(&bundle, Default::default());
    assert!(page.contains("k-means") && !page.contains(['\u{1b}', '\u{202e}']), "{page}");
}
