//! Measurements on emulated machines with a real kernel, real pages and specified bandwidths.
//!
//! The tests need QEMU and the static binary, whose path `tools/test` sets in `NUMAIO_STATIC`.
//! Otherwise they report the reason and are counted as skipped.

use numaio_lab::{measure, note_value, Folder, Lab};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use numaio_model::ClassOptions;
use numaio_schema::{
    Agreement, ClassRule, Comparison, Inversion, LatencyRecord, Model, StreamRecord, TargetModel,
};
use std::fs;

/// Measures a machine, and returns the model.
pub fn model_of(lab: &Lab, machine: &str, options: &[&str]) -> Model {
    let folder = Folder::new(machine);
    let command = [&["numaio", "model", "--json", "--pause-balancing"], options].concat();
    let output = lab.run(machine, &folder.0, &command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{machine}: {stderr}");
    Model::from_json(&String::from_utf8_lossy(&output.stdout)).expect("a model")
}

/// Returns the classes of a target and direction as lists of nodes, best first.
pub fn classes(target: &TargetModel, direction: Direction) -> Vec<String> {
    let model = target.directions.iter().find(|model| model.direction == direction).expect("a direction");
    let classes: Vec<String> = model.classes.iter().map(|class| class.nodes.to_string()).collect();
    note_value("classes", classes.join(" | "));
    classes
}

pub fn target(model: &Model, node: u32) -> &TargetModel {
    model.targets.iter().find(|target| target.target == NodeId(node)).expect("a target")
}

/// Asserts that every visit checked its pages, and found all of them on the bound node.
pub fn assert_pages_in_place(model: &Model) {
    for visit in model.record.cells.iter().flat_map(|cell| &cell.visits) {
        assert!(visit.residency.pages_checked.is_some_and(|pages| pages >= 1000), "{:?}", visit.residency);
        assert_eq!(visit.residency.pages_misplaced, 0, "{:?}", visit.residency);
    }
}

pub fn factors(target: &TargetModel, direction: Direction) -> Vec<f64> {
    let model = target.directions.iter().find(|model| model.direction == direction).expect("a direction");
    model.nodes.iter().map(|node| node.numa_factor.expect("the local cell was measured")).collect()
}

/// Asserts that values differ from the expected ones by at most a share.
pub fn assert_near(found: &[f64], expected: &[f64], share: f64) {
    note_value("values", format_args!("{found:.2?}"));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found / expected - 1.0).abs() <= share, "{found}, expected {expected}");
    }
}

/// Li et al., ICPP 2013, Tables IV and V.
#[test]
fn dl585_has_the_classes_of_the_paper() {
    measure("dl585_has_the_classes_of_the_paper", |lab| {
        let measured = model_of(lab, "amd-dl585-g7", &[]);
        assert_pages_in_place(&measured);
        let seven = target(&measured, 7);
        assert_eq!(seven.neighbors.to_string(), "6");
        assert!(["nvme0n1", "eth0", "eth1"].iter().all(|name| seven.devices.contains(&(*name).to_owned())));
        assert_eq!(classes(seven, Direction::Write), ["7", "0-1,4-6", "2-3"]);
        assert_eq!(classes(seven, Direction::Read), ["2-3,6-7", "0-1,5", "4"]);
        let paper = numaio_model::refit(measured, ClassOptions { classes: ClassRule::Paper, level: 0.1 });
        let seven = target(&paper, 7);
        assert_eq!(classes(seven, Direction::Write), ["6-7", "0-1,4-5", "2-3"]);
        assert_eq!(classes(seven, Direction::Read), ["6-7", "2-3", "0-1,5", "4"]);
    });
}

/// STREAM predicts device write but not device read (Li et al., ICPP 2013, section III).
///
/// The machine's description has a separate table of STREAM rates, because remote loads and stores
/// to one node differ in bandwidth from copies between two.
#[test]
fn stream_agrees_with_device_write_and_not_with_device_read() {
    measure("stream_agrees_with_device_write_and_not_with_device_read", |lab| {
        let folder = Folder::new("compare");
        let script = "numaio compare --measure --node 7 --json >/out/comparison.json &&
        numaio report --format csv -o /out/report.csv";
        let output = lab.run("amd-dl585-g7", &folder.0, &["sh", "-c", script]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(folder.0.join("comparison.json")).expect("a comparison");
        let comparison = Comparison::from_json(&text).expect("a comparison");
        let classes = |name: &str| {
            let view = comparison.views.iter().find(|view| view.name == name).expect(name);
            view.classes.iter().map(|class| class.nodes.to_string()).collect::<Vec<String>>()
        };
        for stream in ["stream-copy-cpu-centric", "stream-copy-memory-centric"] {
            assert_eq!(classes(stream), ["7", "0-1,4-6", "2-3"], "{stream}");
            let with = |other: &str| {
                let both = |pair: &&Agreement| pair.first == stream && pair.second == other;
                comparison.agreements.iter().find(both).expect("an agreement of the pair")
            };
            let (write, read) = (with("copy-write"), with("copy-read"));
            assert!(write.same_classes && write.tau_b.is_some_and(|tau| tau > 0.6), "{write:?}");
            assert!(!read.same_classes && read.tau_b.is_some_and(|tau| tau < 0.4), "{read:?}");
            let misled = |pair: &Inversion| {
                [0, 1, 4, 5].contains(&pair.better_in_first.0) && [2, 3].contains(&pair.better_in_second.0)
            };
            assert!(read.inversions.iter().filter(|pair| misled(pair)).count() >= 6, "{read:?}");
        }
        // The comparison saved its measurements, and the report includes them.
        let csv = fs::read_to_string(folder.0.join("report.csv")).expect("a report");
        assert!(
            ["copy", "stream", "latency", "view"].iter().all(|what| csv.contains(&format!(",{what},"))),
            "{csv}"
        );
    });
}

/// Latencies match the specified ones, load raises them, and loads and stores limit STREAM's triad.
#[test]
fn r820_has_its_latencies_and_triads() {
    measure("r820_has_its_latencies_and_triads", |lab| {
        let folder = Folder::new("latency");
        // A precision of 5 % distinguishes 800, 1200 and 1700 ns.
        let script = "numaio latency --loaded --node 1 --precision 5 --json --no-save >/out/latency.json &&
        numaio stream --op triad --node 1 --json --no-save >/out/stream.json";
        let output = lab.run("intel-r820", &folder.0, &["sh", "-c", script]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |name: &str| fs::read_to_string(folder.0.join(name)).expect(name);
        let latency = LatencyRecord::from_json(&read("latency.json")).expect("a record");
        let stream = StreamRecord::from_json(&read("stream.json")).expect("a record");
        let machine: serde_json::Value = {
            let path = lab.root.join("lab/machines/intel-r820.json");
            serde_json::from_str(&fs::read_to_string(path).expect("a machine")).expect("JSON")
        };
        let specified = |table: &str, row: NodeId, column: NodeId, scale: &str| {
            let value = machine[table][row.0 as usize][column.0 as usize].as_f64().expect("a number");
            value * machine[scale].as_f64().expect("a scale")
        };
        assert_eq!(latency.cells.len(), 7, "a row and a column of a 4 x 4 matrix");
        for cell in &latency.cells {
            let expected = specified("latency_ns", cell.cpu_node, cell.memory_node, "ns_scale");
            // The lab's error is up to 5 % (lab/README.md); a busy host adds at least as much.
            assert_near(&[cell.ns_per_load.median().expect("a value")], &[expected], 0.15);
        }
        for cell in &stream.cells {
            let [load, store] = ["load", "store"]
                .map(|table| specified(table, cell.cpu_node, cell.memory_node, "mb_per_s_per_unit"));
            let expected = (1.5 * load).min(3.0 * store) * 1e6;
            assert_near(&[cell.bytes_per_s.median().expect("a value")], &[expected], 0.05);
        }
        // Even the smallest load may saturate a node that the host slows down.
        let local = latency.curves.iter().find(|curve| curve.memory_node == curve.cpu_node).expect("a curve");
        let full = local.points.last().and_then(|point| point.ns_per_load.median()).expect("a value");
        let idle = specified("latency_ns", local.cpu_node, local.memory_node, "ns_scale");
        assert!(full > 1.5 * idle, "full load does not raise latency: {local:?}");
    });
}

#[test]
fn r820_has_its_numa_factors() {
    measure("r820_has_its_numa_factors", |lab| {
        let model = model_of(lab, "intel-r820", &[]);
        assert_pages_in_place(&model);
        for direction in [Direction::Write, Direction::Read] {
            assert_near(&factors(target(&model, 1), direction), &[1.8, 1.0, 1.81, 2.37], 0.05);
        }
    });
}

/// Devices on two nodes yield two targets; the machine is symmetric.
#[test]
fn both_packages_of_the_amd_2p_have_the_same_classes() {
    measure("both_packages_of_the_amd_2p_have_the_same_classes", |lab| {
        let model = model_of(lab, "amd-2p", &[]);
        assert_pages_in_place(&model);
        for direction in [Direction::Write, Direction::Read] {
            assert_eq!(classes(target(&model, 0), direction), ["0", "1", "2-3"]);
            assert_eq!(classes(target(&model, 2), direction), ["2", "3", "0-1"]);
            assert_near(&factors(target(&model, 0), direction), &[1.0, 1.64, 2.96, 2.98], 0.05);
        }
    });
}

#[test]
fn memory_only_nodes_are_measured_but_are_not_targets() {
    let Some(lab) = Lab::open("memory_only_nodes_are_measured_but_are_not_targets") else { return };
    let model = model_of(&lab, "cxl-like", &["--all"]);
    assert_pages_in_place(&model);
    let targets: Vec<u32> = model.targets.iter().map(|target| target.target.0).collect();
    assert_eq!(targets, [0, 1]);
    let measured_nodes = |direction: Direction| factors(target(&model, 0), direction).len();
    assert_eq!((measured_nodes(Direction::Write), measured_nodes(Direction::Read)), (3, 3));
}

/// As on a host whose GPU has its memory in nodes of its own.
#[test]
fn nodes_of_a_grace_like_machine_form_one_class_behind_the_local_one() {
    measure("nodes_of_a_grace_like_machine_form_one_class_behind_the_local_one", |lab| {
        let model = model_of(lab, "grace-like", &["--all"]);
        assert_pages_in_place(&model);
        assert_eq!(model.targets.len(), 1);
        for direction in [Direction::Write, Direction::Read] {
            assert_eq!(classes(target(&model, 0), direction), ["0", "1-3"]);
        }
    });
}

#[test]
fn model_reports_a_uniform_machine() {
    measure("model_reports_a_uniform_machine", |lab| {
        let folder = Folder::new("uniform");
        let output = lab.run("uniform-2n", &folder.0, &["numaio", "model", "--all", "--no-save"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("have the same bandwidth"), "{text}");
    });
}

/// numa_maps of a running campaign: every bound mapping has its pages on its node.
#[test]
fn numa_maps_shows_pages_on_the_bound_nodes() {
    let Some(lab) = Lab::open("numa_maps_shows_pages_on_the_bound_nodes") else { return };
    let folder = Folder::new("numa-maps");
    let script = "numaio model --node 1 --quiet --no-save >/dev/null & pid=$!
        while kill -0 $pid 2>/dev/null; do grep bind /proc/$pid/numa_maps; done >/out/maps; wait $pid";
    let output = lab.run("uniform-2n", &folder.0, &["sh", "-c", script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let maps = fs::read_to_string(folder.0.join("maps")).expect("numa_maps");
    let mut pages_of = [0u64; 2];
    for line in maps.lines() {
        // The second word is the policy, such as `bind=static:0`.
        let policy = line.split(' ').nth(1).and_then(|policy| policy.rsplit_once(':'));
        let bound: usize = policy
            .and_then(|(_, nodes)| nodes.parse().ok())
            .unwrap_or_else(|| panic!("expected a mapping that is bound to one node: {line}"));
        for (node, pages) in line.split(' ').filter_map(|word| word.strip_prefix('N')?.split_once('=')) {
            assert_eq!(node.parse(), Ok(bound), "{line}");
            pages_of[bound] += pages.parse::<u64>().expect("a count");
        }
    }
    assert!(pages_of.iter().all(|pages| *pages > 0), "a node without pages: {pages_of:?}");
}

/// With a cpuset of one node the output lists the excluded CPUs and nodes.
#[test]
fn a_cpuset_of_one_node_is_respected_and_reported() {
    let Some(lab) = Lab::open("a_cpuset_of_one_node_is_respected_and_reported") else { return };
    let folder = Folder::new("cpuset");
    let script = "mkdir -p /tmp/cg && mount -t cgroup2 none /tmp/cg && echo +cpuset >/tmp/cg/cgroup.subtree_control &&
        mkdir /tmp/cg/one && echo 1 >/tmp/cg/one/cpuset.mems && cat /sys/devices/system/node/node1/cpulist >/tmp/cg/one/cpuset.cpus &&
        echo $$ >/tmp/cg/one/cgroup.procs && numaio topology && numaio model --all --no-save";
    let output = lab.run("uniform-2n", &folder.0, &["sh", "-c", script]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Excluded: CPUs 0-1; memory of nodes 0"), "{text}");
    assert!(text.contains("Target node 1") && !text.contains("Target node 0"), "{text}");
}
