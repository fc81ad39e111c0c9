use super::*;
use numaio_machine::ids::CpuId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Access, Distances, Node, Topology};
use numaio_machine::workload::{CopyLoop, Direction, Flow, Pages, Placement, StreamOp};
use numaio_schema::{
    Cell, ClassRule, LatencyCell, LatencyMethod, LatencyRecord, MachineSource, Method, NodeValue, Provenance,
    Quantity, Reading, ReadingVisit, Record, Rounds, StreamCell, StreamMethod, StreamRecord, StreamScope,
    Summary, Visit, LATENCY_SCHEMA, RECORD_SCHEMA, STREAM_SCHEMA,
};
use std::cmp::Ordering;

fn subject(target: u32) -> ViewSubject<'static> {
    ViewSubject { machine: "0123456789abcdef", target: NodeId(target), level: 0.1 }
}

fn values(view: &View) -> Vec<(u32, f64)> {
    view.nodes.iter().map(|value| (value.node.0, value.value)).collect()
}

fn classes(view: &View) -> Vec<String> {
    view.classes.iter().map(|class| class.nodes.to_string()).collect()
}

fn names(views: &[View]) -> Vec<&str> {
    views.iter().map(|view| view.name.as_str()).collect()
}

fn provenance(complete: bool) -> Provenance {
    Provenance {
        numaio: "0".to_owned(),
        measured_at: 0,
        machine: Default::default(),
        source: MachineSource::Simulated,
        conditions: Default::default(),
        warnings: Vec::new(),
        complete,
        load: Vec::new(),
    }
}

fn rounds() -> Rounds {
    Rounds { precision: 0.02, time_limit_s: 1.0, elapsed_s: 1.0, seed: 1, rounds: 6 }
}

fn reading(medians: &[f64]) -> Reading {
    let visit = |(round, median): (u32, &f64)| ReadingVisit {
        round,
        median: *median,
        min: median * 0.9,
        max: median * 1.1,
        samples: 10,
        start_skew_ns: 0,
        residency: Default::default(),
        excluded: None,
    };
    let summary = Summary::of(medians, None);
    Reading {
        visits: (0..).zip(medians).map(visit).collect(),
        settled: summary.as_ref().is_some_and(|summary| summary.settled(0.02)),
        summary,
        failure: None,
    }
}

fn distances(rows: &[&[u32]]) -> Topology {
    let nodes = (0..rows.len() as u32).map(NodeId).collect();
    let rows = rows.iter().map(|row| row.to_vec()).collect();
    Topology { distances: Some(Distances { nodes, rows }), ..Topology::default() }
}

#[test]
fn symmetric_slit_is_one_view_and_asymmetric_slit_two() {
    let symmetric = slit_views(&distances(&[&[10, 11, 21], &[11, 10, 21], &[21, 21, 10]]), &subject(1));
    assert_eq!(names(&symmetric), ["slit"]);
    assert_eq!(values(&symmetric[0]), [(0, 11.0), (1, 10.0), (2, 21.0)]);
    // 11 is within 10 % of 10, but a different distance.
    assert_eq!(classes(&symmetric[0]), ["1", "0", "2"]);
    assert_eq!(symmetric[0].nodes[2].factor, Some(2.1));
    let odd = slit_views(&distances(&[&[10, 16, 22], &[16, 10, 22], &[20, 16, 10]]), &subject(0));
    assert_eq!(names(&odd), ["slit", "slit-memory-centric"]);
    assert_eq!((values(&odd[0])[2], values(&odd[1])[2]), ((2, 22.0), (2, 20.0)));
    assert!(slit_views(&Topology::default(), &subject(0)).is_empty());
    assert!(slit_views(&distances(&[&[10, 16], &[16, 10]]), &subject(5)).is_empty());
}

fn access(class: u32, initiators: &str, read_bytes_per_s: f64) -> Access {
    Access {
        class,
        initiators: NodeSet::parse_list(initiators).expect("a list"),
        read_bytes_per_s: Some(read_bytes_per_s),
        write_bytes_per_s: None,
        read_latency_ns: Some(100),
        write_latency_ns: None,
    }
}

fn memory_node(id: u32, access: Vec<Access>) -> Node {
    Node {
        id: NodeId(id),
        cpus: CpuSet::one(CpuId(id)),
        memory: None,
        huge_pages: Vec::new(),
        packages: Vec::new(),
        access,
        memory_side_caches: Vec::new(),
        memory_allowed: true,
        memory_kind: None,
        memory_kind_source: None,
        memory_unknown: false,
    }
}

#[test]
fn hmat_values_count_for_the_initiating_target() {
    let nodes = vec![
        memory_node(0, vec![access(0, "0", 9e9), access(1, "0", 8e9)]),
        memory_node(1, vec![access(1, "1", 7e9)]),
        memory_node(2, vec![access(0, "0-1", 3e9), access(1, "1", 2e9)]),
    ];
    let topology = Topology { nodes, ..Topology::default() };
    let views = hmat_views(&topology, &subject(0));
    assert_eq!(names(&views), ["hmat-read-latency", "hmat-read-bandwidth"]);
    assert_eq!(values(&views[1]), [(0, 8e9), (2, 3e9)], "class 1 before class 0, own initiators only");
    assert_eq!((views[1].nodes[1].n, views[1].nodes[1].interval), (0, None));
    assert_eq!(values(&hmat_views(&topology, &subject(1))[1]), [(1, 7e9), (2, 2e9)]);
    assert!(hmat_views(&topology, &subject(7)).is_empty());
    let alone = Topology { nodes: topology.nodes[..2].to_vec(), ..Topology::default() };
    assert!(hmat_views(&alone, &subject(0)).is_empty(), "the local node alone makes no view");
}

fn latency(cells: &[(u32, u32, &[f64])], complete: bool) -> LatencyRecord {
    let cell = |(cpu_node, memory_node, medians): &(u32, u32, &[f64])| LatencyCell {
        cpu_node: NodeId(*cpu_node),
        cpu: CpuId(*cpu_node),
        memory_node: NodeId(*memory_node),
        ns_per_load: reading(medians),
    };
    let pages = Pages::Transparent;
    let method = LatencyMethod { bytes: Vec::new(), stride_bytes: 128, pages, rounds: rounds() };
    LatencyRecord {
        schema: LATENCY_SCHEMA.to_owned(),
        provenance: provenance(complete),
        method,
        cells: cells.iter().map(cell).collect(),
        curves: Vec::new(),
    }
}

#[test]
fn latency_has_cpu_centric_and_memory_centric_views() {
    let six = |ns: f64| -> [f64; 6] { [ns; 6] };
    let cells: [(u32, u32, &[f64]); 5] = [
        (0, 0, &six(100.0)),
        (0, 1, &six(150.0)),
        (1, 0, &six(160.0)),
        (1, 1, &six(90.0)),
        (0, 2, &six(300.0)),
    ];
    let views = latency_views(&latency(&cells, true), &subject(0));
    assert_eq!(names(&views), ["latency-cpu-centric", "latency-memory-centric"]);
    assert_eq!(values(&views[0]), [(0, 100.0), (1, 150.0), (2, 300.0)]);
    assert_eq!(values(&views[1]), [(0, 100.0), (1, 160.0)]);
    assert_eq!(classes(&views[0]), ["0", "1", "2"], "the least latency is the best class");
    assert_eq!((views[0].nodes[2].factor, views[0].nodes[2].n), (Some(3.0), 6));
    let class = &views[0].classes[2];
    assert_eq!((class.min, class.max, class.mean), (300.0, 300.0, 300.0));
    assert!(latency_views(&latency(&cells, true), &subject(9)).is_empty());
}

/// A record of pairs around node 0 contains two pairs of node 1, but no view of it.
#[test]
fn record_of_other_nodes_yields_no_view() {
    let cells: [(u32, u32, &[f64]); 4] =
        [(0, 0, &[1.0; 6]), (0, 1, &[2.0; 6]), (1, 0, &[3.0; 6]), (0, 2, &[4.0; 6])];
    let record = latency(&cells, true);
    assert_eq!(latency_views(&record, &subject(0)).len(), 2);
    assert!(latency_views(&record, &subject(1)).is_empty());
    let without_cpus = latency_views(&record, &subject(2));
    assert_eq!(
        (names(&without_cpus), values(&without_cpus[0])),
        (vec!["latency-memory-centric"], vec![(0, 4.0)])
    );
}

#[test]
fn noise_joins_overlapping_latencies() {
    let wide = [99.0, 95.0, 125.0, 115.0, 98.0, 118.0];
    let views = latency_views(&latency(&[(0, 0, &[100.0; 6]), (0, 1, &wide)], true), &subject(0));
    assert_eq!(views[0].nodes[1].interval, Some((95.0, 125.0)));
    assert_eq!(classes(&views[0]), ["0-1"]);
    let narrow = latency_views(&latency(&[(0, 0, &[100.0; 6]), (0, 1, &[115.0; 6])], true), &subject(0));
    assert_eq!(classes(&narrow[0]), ["0", "1"]);
    let touching_zero = NodeValue { interval: Some((0.0, 200.0)), ..views[0].nodes[1].clone() };
    assert_eq!(point(Quantity::NsPerLoad, &touching_zero).high, f64::INFINITY);
}

#[test]
fn value_measured_once_is_as_wide_as_its_samples() {
    let views = latency_views(&latency(&[(0, 0, &[100.0]), (0, 1, &[105.0])], false), &subject(0));
    assert_eq!((views[0].nodes[0].n, views[0].nodes[0].interval), (1, Some((90.0, 100.0 * 1.1))));
    assert_eq!(compare_nodes(Quantity::NsPerLoad, &views[0].nodes[0], &views[0].nodes[1]), Ordering::Equal);
}

#[test]
fn several_cells_of_a_node_are_summarized() {
    let cells: [(u32, u32, &[f64]); 2] = [(0, 0, &[100.0, 104.0, 102.0]), (0, 0, &[101.0, 105.0, 103.0])];
    let views = latency_views(&latency(&cells, true), &subject(0));
    assert_eq!((views[0].nodes.len(), views[0].nodes[0].n), (1, 6));
    assert_eq!(views[0].nodes[0].interval, Some((100.0, 105.0)));
}

#[test]
fn view_is_incomplete_only_for_its_own_values() {
    let incomplete = |views: &[View]| views.iter().map(|view| view.incomplete).collect::<Vec<_>>();
    let cells: [(u32, u32, &[f64]); 3] = [(0, 0, &[100.0; 6]), (0, 1, &[150.0; 6]), (1, 0, &[])];
    let stopped = latency_views(&latency(&cells, false), &subject(0));
    assert_eq!(incomplete(&stopped), [false, true], "the column lacks a figure, the row does not");
    assert_eq!(values(&stopped[1]), [(0, 100.0)]);
    assert_eq!(incomplete(&latency_views(&latency(&cells, true), &subject(0))), [false, false]);
}

fn stream(scope: StreamScope, cells: &[(StreamOp, u32, u32, f64)]) -> StreamRecord {
    let cell = |(op, cpu_node, memory_node, value): &(StreamOp, u32, u32, f64)| StreamCell {
        op: *op,
        cpu_node: NodeId(*cpu_node),
        memory_node: NodeId(*memory_node),
        placement: Placement { cpus: CpuSet::one(CpuId(*cpu_node)) },
        bytes_per_s: reading(&[*value; 6]),
    };
    StreamRecord {
        schema: STREAM_SCHEMA.to_owned(),
        provenance: provenance(true),
        method: StreamMethod {
            loops: Vec::new(),
            trials: Vec::new(),
            scope,
            bytes_per_array: Vec::new(),
            pages: Pages::Transparent,
            rounds: rounds(),
        },
        cells: cells.iter().map(cell).collect(),
        classes: Vec::new(),
    }
}

#[test]
fn stream_has_two_views_per_operation() {
    let cells = [
        (StreamOp::Triad, 0, 0, 9e9),
        (StreamOp::Copy, 0, 0, 8e9),
        (StreamOp::Copy, 0, 1, 5e9),
        (StreamOp::Copy, 1, 0, 4e9),
        (StreamOp::Copy, 1, 1, 7e9),
    ];
    let views = stream_views(&stream(StreamScope::Node { threads: None }, &cells), &subject(0));
    let wanted = ["copy-cpu-centric", "copy-memory-centric", "triad-cpu-centric", "triad-memory-centric"];
    assert_eq!(names(&views), wanted.map(|name| format!("stream-{name}")));
    assert_eq!(values(&views[0]), [(0, 8e9), (1, 5e9)]);
    assert_eq!(values(&views[1]), [(0, 8e9), (1, 4e9)]);
    assert_eq!((views[1].nodes[1].factor, views[0].title.as_str()), (Some(2.0), "STREAM copy, CPU-centric"));
    let one = stream_views(&stream(StreamScope::Node { threads: Some(2) }, &cells), &subject(0));
    assert_eq!(one[0].title, "STREAM copy (2 threads), CPU-centric");
    let all = stream_views(&stream(StreamScope::HardwareThreads, &cells), &subject(0));
    assert_eq!(all[0].title, "STREAM copy (all hardware threads), CPU-centric");
    assert!(stream_views(&stream(StreamScope::Core, &cells), &subject(0)).is_empty());
}

fn copies(cells: &[(u32, u32, Option<f64>)]) -> numaio_schema::Model {
    let visit = |median: f64| Visit {
        round: 0,
        bytes_copied_per_s: median,
        min_bytes_copied_per_s: median,
        max_bytes_copied_per_s: median,
        samples: 1,
        start_skew_ns: 0,
        residency: Default::default(),
        excluded: None,
    };
    let cell = |(source, sink, value): &(u32, u32, Option<f64>)| Cell {
        target: NodeId(1),
        flow: Flow { source: NodeId(*source), sink: NodeId(*sink) },
        placement: Placement { cpus: Default::default() },
        visits: value.iter().map(|value| visit(*value)).collect(),
        bytes_copied_per_s: value.and_then(|value| Summary::of(&[value; 6], None)),
        settled: value.is_some(),
        failure: None,
    };
    let method = Method {
        copy_loop: CopyLoop::Memcpy,
        trials: Vec::new(),
        c_library: None,
        bus_bytes_per_byte: 3,
        bytes_per_thread: Vec::new(),
        pages: Pages::Base,
        repetitions: None,
        precision: 0.02,
        time_limit_s: 1.0,
        elapsed_s: 1.0,
        seed: 1,
        rounds: 1,
    };
    let cells = cells.iter().map(cell).collect();
    let record = Record { schema: RECORD_SCHEMA.to_owned(), provenance: provenance(false), method, cells };
    let rule = crate::ClassOptions { classes: ClassRule::Paper, level: 0.5 };
    crate::fit(record, &Topology::default(), rule)
}

#[test]
fn copy_model_has_a_view_per_direction() {
    let model = copies(&[(1, 1, Some(10.0)), (0, 1, Some(6.0)), (1, 0, Some(8.0)), (1, 2, None)]);
    let views = copy_views(&model, &subject(1));
    assert_eq!(names(&views), ["copy-write", "copy-read"]);
    assert_eq!(views[1].direction, Some(Direction::Read));
    assert_eq!(
        (values(&views[0]), values(&views[1])),
        (vec![(0, 6.0), (1, 10.0)], vec![(0, 8.0), (1, 10.0)])
    );
    assert_eq!(classes(&views[0]), ["1", "0"], "by its own level and rule, not the model's");
    assert_eq!((views[0].nodes[0].n, views[0].incomplete, views[1].incomplete), (6, false, true));
    assert!(copy_views(&model, &subject(0)).is_empty());
}

#[test]
fn view_of_another_subject_is_rejected_by_field() {
    let good = latency_views(&latency(&[(0, 0, &[100.0; 6]), (0, 1, &[150.0; 6])], true), &subject(0));
    let good = &good[0];
    assert_eq!(check(good, &subject(0)), Ok(()));
    assert!(matches!(check(good, &subject(1)), Err(ViewMismatch::OtherTarget { .. })));
    let other = ViewSubject { machine: "fedcba9876543210", ..subject(0) };
    assert!(matches!(check(good, &other), Err(ViewMismatch::OtherMachine { .. })));
    let wrong = |change: &dyn Fn(&mut View)| {
        let mut view = good.clone();
        change(&mut view);
        match check(&view, &subject(0)) {
            Err(ViewMismatch::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wrong(&|view| view.nodes[1].value = 0.0), "nodes[1].value");
    assert_eq!(wrong(&|view| view.nodes[1].value = f64::NAN), "nodes[1].value");
    assert_eq!(wrong(&|view| view.nodes[0].interval = Some((110.0, 90.0))), "nodes[0].interval");
    assert_eq!(wrong(&|view| view.nodes[1].node = NodeId(0)), "nodes[1].node");
    assert_eq!(wrong(&|view| view.level = 1.0), "level");
    assert_eq!(wrong(&|view| view.nodes.clear()), "nodes");
    assert_eq!(wrong(&|view| view.name.clear()), "name");
}

/// A hand-written document may have any order, factors and classes.
#[test]
fn derived_fields_are_recomputed() {
    let good = latency_views(&latency(&[(0, 0, &[100.0; 6]), (0, 1, &[150.0; 6])], true), &subject(0));
    let mut odd = good[0].clone();
    odd.nodes.reverse();
    odd.nodes[0].factor = Some(99.0);
    odd.classes.clear();
    assert_eq!(derived(odd), good[0]);
}

#[test]
fn sweep_has_a_view_for_each_center_in_its_own_unit() {
    let record =
        crate::testing::sweep(Quantity::Cost, &[&[1.0, 2.0, 4.0], &[2.0, 1.0, 3.0], &[4.0, 3.0, 0.0]]);
    let subject = ViewSubject { machine: "m", target: NodeId(0), level: 0.1 };
    let views = sweep_views(&record, &subject);
    let names: Vec<(&str, &str)> =
        views.iter().map(|view| (view.name.as_str(), view.title.as_str())).collect();
    assert_eq!(
        names,
        [
            ("sweep-prog-2-cpu-centric", "Prog 2 (s), CPU-centric"),
            ("sweep-prog-2-memory-centric", "Prog 2 (s), memory-centric")
        ]
    );
    let classes: Vec<String> = views[0].classes.iter().map(|class| class.nodes.to_string()).collect();
    assert_eq!(
        (classes, views[0].node(NodeId(2)).and_then(|node| node.factor)),
        (vec!["0".into(), "1".into(), "2".into()], Some(4.0))
    );
    // The pair of node 2 with itself failed.
    let two = sweep_views(&record, &ViewSubject { target: NodeId(2), ..subject });
    assert!(two[0].node(NodeId(2)).is_none() && two[0].nodes.len() == 2);
}
