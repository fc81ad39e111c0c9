//! Tests of `numaio compare`.

use crate::support::Home;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::tape::{Recording, Tape, TapeHeader, TAPE_SCHEMA};
use numaio_measure::{campaign, latency, stream, LatencyOptions, Options, Rule, Setting, StreamOptions};
use numaio_schema::{Comparison, Model, NodeValue, Quantity, View, VIEW_SCHEMA};

const DL585: &str = "amd-dl585-g7";

fn comparison(home: &Home, args: &[&str]) -> Comparison {
    let text = home.run(&[&["compare", "--json"], args].concat()).ok();
    Comparison::from_json(&text).expect("a comparison")
}

fn names(comparison: &Comparison) -> Vec<&str> {
    comparison.views.iter().map(|view| view.name.as_str()).collect()
}

/// Returns a view as written by another tool: unordered nodes, no factors, no classes.
fn measured_io(machine: &str, target: u32) -> View {
    let value = |(node, gb): (u32, f64)| NodeValue {
        node: NodeId(node),
        value: gb * 1e9,
        interval: Some((gb * 0.99e9, gb * 1.01e9)),
        n: 10,
        drift: 0.0,
        factor: None,
    };
    View {
        schema: VIEW_SCHEMA.into(),
        name: "nvme-read".into(),
        title: "NVMe, measured".into(),
        machine: machine.into(),
        target: NodeId(target),
        direction: Some(numaio_machine::workload::Direction::Read),
        quantity: Quantity::BytesPerS,
        nodes: [(7, 3.2), (2, 3.1), (0, 2.5), (4, 1.7)].map(value).into(),
        level: 0.1,
        classes: Vec::new(),
        incomplete: false,
        measured_at: None,
    }
}

/// Returns a tape of a simulated machine with all measurements of a comparison around one node.
fn complete_tape(shape: &str, target: NodeId) -> String {
    let spec = numaio_sim::shapes::named(shape).expect("a shape");
    let header = TapeHeader {
        tape: TAPE_SCHEMA.into(),
        numaio: "0".into(),
        name: shape.into(),
        note: "simulated".into(),
        recorded_at: 1,
    };
    let machine = numaio_sim::Simulated::new(spec).expect("a machine");
    // Discovery reads files in several threads, but a simulation is limited to one.
    let files = Recording::new(machine.tree(), header.clone());
    let probes = Recording::new(machine, header);
    let topology = discover(&files);
    let source = numaio_schema::MachineSource::Simulated;
    let setting = Setting {
        root: &files,
        probe: &probes,
        load: None,
        topology: &topology,
        source,
        now: 1,
        stop: &|| false,
    };
    let (around, rule) = (NodeSet::one(target), Rule { least_visits: 6, ..Rule::default() });
    let options = LatencyOptions { around: around.clone(), rule, ..Default::default() };
    latency::run(&setting, &options, &mut |_| {}).expect("latency");
    let options = StreamOptions { around: around.clone(), rule, ..Default::default() };
    stream::run(&setting, &options, &mut |_| {}).expect("STREAM");
    let options = Options { targets: around, least_visits: 6, ..Default::default() };
    campaign::run(&setting, &options, &mut |_| {}).expect("copies");
    Tape { runs: probes.tape().runs, ..files.tape() }.to_text()
}

fn to_json(view: &View) -> String {
    serde_json::to_string(view).expect("a document")
}

#[test]
fn hop_distance_misorders_the_nodes_of_the_dl585() {
    let home = Home::new();
    let found = comparison(&home, &["--machine", DL585]);
    assert_eq!((found.target, found.devices.len()), (NodeId(7), 3));
    let slit_with = |name: &str| {
        let pair = found.agreements.iter().find(|pair| pair.first == "slit" && pair.second == name);
        pair.expect("the pair")
    };
    for name in ["copy-write", "copy-read"] {
        assert!(!slit_with(name).inversions.is_empty() && !slit_with(name).same_classes, "{name}");
    }
    let page = home.run(&["compare", "--machine", DL585]).ok();
    assert!(page.contains("Device read: agreement of each view with the copy model"), "{page}");
    assert!(page.contains("Ranks node 5 above node 2"), "{page}");
    let all = home.run(&["compare", "--machine", DL585, "--all-pairs"]).ok();
    assert!(all.lines().count() > page.lines().count() && !all.contains("--all-pairs"), "{all}");
}

#[test]
fn compares_every_view_of_a_complete_tape() {
    let home = Home::new();
    let tape = home.file("dl585.tape", &complete_tape("dl585", NodeId(7)));
    let found = comparison(&home, &["--machine", &tape]);
    let expected = [
        "slit",
        "latency-cpu-centric",
        "latency-memory-centric",
        "stream-copy-cpu-centric",
        "stream-copy-memory-centric",
        "copy-write",
        "copy-read",
    ];
    assert_eq!(names(&found), expected);
    assert!(found.warnings.is_empty() && found.views.iter().all(|view| !view.incomplete), "{found:?}");
    assert!(found.views.iter().all(|view| view.nodes.len() == 8));
    assert_eq!((found.agreements.len(), found.measured_at), (21, 1));
    // Hop distance predicts neither direction, and the two directions differ.
    for (first, second) in [("slit", "copy-write"), ("slit", "copy-read"), ("copy-write", "copy-read")] {
        let pair = found.agreements.iter().find(|pair| pair.first == first && pair.second == second);
        assert!(!pair.expect("the pair").inversions.is_empty(), "{first} {second}");
    }
    let output = home.run(&["compare", "--machine", &tape, "--node", "3"]);
    assert!(
        output.out.contains("not on the tape") || output.err.contains("not on the tape"),
        "{}",
        output.out
    );
}

#[test]
fn adds_a_view_of_another_tool() {
    let home = Home::new();
    let machine = comparison(&home, &["--machine", DL585]).machine.fingerprint;
    let file = home.file("nvme.json", &to_json(&measured_io(&machine, 7)));
    let found = comparison(&home, &["--machine", DL585, "--with", &file]);
    let last = found.views.last().expect("views");
    assert_eq!((last.name.as_str(), last.nodes[0].node, last.classes.len()), ("nvme-read", NodeId(0), 3));
    let with_copy =
        found.agreements.iter().find(|pair| pair.first == "copy-read" && pair.second == "nvme-read");
    let with_copy = with_copy.expect("the pair");
    assert!(with_copy.same_classes && with_copy.inversions.is_empty() && with_copy.nodes.len() == 4);
    let page = home.run(&["compare", "--machine", DL585, "--with", &file]).ok();
    let (write, read) = page.split_once("Device read:").expect("both directions");
    let agrees = |part: &str| part.contains("NVMe, measured: agrees");
    assert_eq!((agrees(write), agrees(read)), (false, true), "{page}");
}

/// A view keeps its level and its classes, unless --level states another one.
#[test]
fn a_level_applies_to_views_of_files_too() {
    let home = Home::new();
    let machine = comparison(&home, &["--machine", DL585]).machine.fingerprint;
    let mut view = View { level: 0.3, ..measured_io(&machine, 7) };
    let classes = |view: &View, args: &[&str]| -> (f64, Vec<String>) {
        let file = home.file("own.json", &to_json(view));
        let found = comparison(&home, &[&["--machine", DL585, "--with", &file], args].concat());
        let last = found.views.last().expect("views");
        (last.level, last.classes.iter().map(|class| class.nodes.to_string()).collect())
    };
    let strings = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(classes(&view, &[]), (0.3, strings(&["0,2,7", "4"])));
    assert_eq!(classes(&view, &["--level", "10"]), (0.1, strings(&["2,7", "0", "4"])));
    assert_eq!(classes(&view, &["--level", "60"]), (0.6, strings(&["0,2,4,7"])));
    let class = |rank: u32, nodes: &str| numaio_schema::ViewClass {
        rank,
        nodes: NodeSet::parse_list(nodes).expect("nodes"),
        min: 0.0,
        max: 0.0,
        mean: 0.0,
    };
    view.classes = vec![class(2, "4"), class(1, "0,2,7")];
    view.level = 0.1;
    assert_eq!(classes(&view, &[]), (0.1, strings(&["0,2,7", "4"])));
    assert_eq!(classes(&view, &["--level", "10"]).1, strings(&["2,7", "0", "4"]));
    // Classes without node 4 are no classification of the view.
    view.classes = vec![class(1, "0,2,7")];
    assert_eq!(classes(&view, &[]).1, strings(&["2,7", "0", "4"]));
}

#[test]
fn reads_a_view_with_only_the_required_fields() {
    let home = Home::new();
    let machine = comparison(&home, &["--machine", DL585]).machine.fingerprint;
    let text = format!(
        r#"{{"schema": "numaio/view/1", "name": "ours", "title": "Our tool", "machine": "{machine}", "target": 7,
            "quantity": "bytes-per-s", "nodes": [{{"node": 7, "value": 3.2e9}}, {{"node": 0, "value": 2.5e9}}]}}"#
    );
    let found = comparison(&home, &["--machine", DL585, "--with", &home.file("ours.json", &text)]);
    let last = found.views.last().expect("views");
    assert_eq!((last.level, last.classes.len(), last.nodes[0].factor), (0.1, 2, Some(1.28)));
}

#[test]
fn rejects_invalid_views_with_file_and_field() {
    let home = Home::new();
    let machine = comparison(&home, &["--machine", DL585]).machine.fingerprint;
    let rejects = |text: &str, parts: &[&str]| {
        let file = home.file("invalid.json", text);
        let output = home.run(&["compare", "--machine", DL585, "--with", &file]);
        output.failed(1, &[&["invalid.json"], parts].concat());
    };
    rejects(&to_json(&measured_io("0000000000000000", 7)), &["of machine 0000000000000000", &machine]);
    rejects(&to_json(&measured_io(&machine, 3)), &["field `target`", "3", "7"]);
    let mut negative = measured_io(&machine, 7);
    negative.nodes[1].value = -1.0;
    rejects(&to_json(&negative), &["nodes[1].value"]);
    let good = to_json(&measured_io(&machine, 7));
    rejects(&good.replace("view/1", "view/2"), &["numaio/view/2", "newer"]);
    rejects(&good[..good.len() / 2], &["incomplete JSON"]);
    rejects(&good.replace("\"n\":10", "\"n\":\"ten\""), &["field `nodes[0].n`"]);
    rejects(&good.replace("bytes-per-s", "furlongs"), &["field `quantity`", "furlongs"]);
    let topology = home.run(&["topology", "--machine", DL585, "--json"]).ok();
    rejects(&topology, &["no view of node 7"]);
}

/// The documents are from another machine, with and without its topology.
#[test]
fn compares_documents_of_another_machine() {
    let home = Home::new();
    let model = home.run(&["model", "--machine", DL585, "--json"]).ok();
    let topology = home.run(&["topology", "--machine", DL585, "--json"]).ok();
    let [model, topology] = [home.file("m.json", &model), home.file("t.json", &topology)];
    let model_only = comparison(&home, &["--from", &model]);
    assert_eq!(names(&model_only), ["copy-write", "copy-read"]);
    assert_eq!((model_only.target, model_only.devices.len()), (NodeId(7), 3));
    let both = comparison(&home, &["--from", &model, &topology]);
    assert_eq!(names(&both), ["slit", "copy-write", "copy-read"]);
    assert_eq!(names(&comparison(&home, &["--from", &model, "--machine", DL585])), names(&both));
    let rules: Vec<&str> = both.warnings.iter().map(|warning| warning.rule.as_str()).collect();
    assert_eq!(rules, ["missing-latency", "missing-stream"]);
    home.run(&["compare", "--from", &model, "--machine", "amd-2p"]).failed(1, &["m.json", "of machine"]);
    home.run(&["compare", "--from", &model, "--node", "3"]).failed(1, &["m.json", "no view of node 3"]);
    home.run(&["compare", "--from", &topology]).failed(1, &["nothing to compare", "only SLIT"]);
    let device = home.run(&["compare", "--from", &model, "--device", "nvme0n1"]).ok();
    assert!(device.starts_with("Views of node 7"), "{device}");
}

#[test]
fn compares_only_the_newest_documents_unless_all_are_requested() {
    let home = Home::new();
    let model = home.run(&["model", "--machine", DL585, "--json"]).ok();
    let mut older = Model::from_json(&model).expect("a model");
    let newest = older.record.provenance.measured_at;
    older.record.provenance.measured_at -= 100;
    for cell in &mut older.record.cells {
        let summary = cell.bytes_copied_per_s.as_mut().expect("a value");
        (summary.median, summary.low, summary.high) = (1.0, 1.0, 1.0);
    }
    let older = serde_json::to_string(&older).expect("a document");
    let [newer, older] = [home.file("newer.json", &model), home.file("older.json", &older)];
    let merged = comparison(&home, &["--from", &older, &newer]);
    assert_eq!(names(&merged), ["copy-write", "copy-read"]);
    assert!(merged.views[0].nodes[0].value > 1.0 && merged.measured_at == newest);
    let all = comparison(&home, &["--all", "--from", &older, &newer]);
    assert_eq!(names(&all), ["copy-write", "copy-read", "copy-write-2", "copy-read-2"]);
    assert_eq!(all.views[2].title, "Copy model, device write, older.json");
    assert_eq!(all.views[2].nodes[0].value, 1.0);
}

#[test]
fn errors_name_missing_measurements_nodes_and_devices() {
    let home = Home::new();
    let unmeasured = home.path("unmeasured.tape");
    home.run(&["record", "--machine", "amd-2p", "-o", &unmeasured, "--no-measure"]).ok();
    home.run(&["compare", "--machine", &unmeasured])
        .failed(1, &["nothing to compare", "copy model", "not on the tape"]);
    let output = home.run(&["compare", "--machine", "amd-2p"]);
    assert!(output.err.contains("--node chooses node"), "{}", output.err);
    assert!(output.out.starts_with("Views of node 0"), "{}", output.out);
    home.run(&["compare", "--machine", "amd-2p", "--node", "9"]).failed(2, &["no node 9", "0-3"]);
    home.run(&["compare", "--machine", "amd-2p", "--device", "eth9"]).failed(2, &["no device 'eth9'"]);
    home.run(&["compare", "--node", "1", "--device", "eth0"]).failed(2, &["--device"]);
}

#[test]
fn compares_saved_documents_of_this_machine_and_saves_the_comparison() {
    let home = Home::new();
    let topology = home.run(&["topology", "--json"]).ok();
    let topology = numaio_schema::TopologyDocument::from_json(&topology).expect("a topology").topology;
    let fingerprint = topology.identity.fingerprint.clone();
    let node = topology.cpu_nodes().first().expect("a node with CPUs");
    let model = home.run(&["model", "--machine", DL585, "--json"]).ok();
    let mut model = Model::from_json(&model).expect("a model");
    model.record.provenance.machine = topology.identity;
    let renumber = |id: &mut NodeId| *id = if *id == NodeId(7) { node } else { NodeId(id.0 + 100) };
    model.targets[0].target = node;
    for cell in &mut model.record.cells {
        cell.target = node;
        renumber(&mut cell.flow.source);
        renumber(&mut cell.flow.sink);
    }
    for direction in &mut model.targets[0].directions {
        direction.nodes.iter_mut().for_each(|value| renumber(&mut value.node));
    }
    let state_dir = format!("{}/state/numaio", home.path(""));
    std::fs::create_dir_all(format!("{state_dir}/models/{fingerprint}")).expect("a directory");
    let saved = format!("{state_dir}/models/{fingerprint}/000000000001.json");
    std::fs::write(&saved, serde_json::to_string(&model).expect("a document")).expect("a saved model");
    let args = ["--node", &node.to_string()];
    let found = comparison(&home, &args);
    assert!(names(&found).ends_with(&["copy-write", "copy-read"]), "{:?}", names(&found));
    comparison(&home, &args);
    let other = comparison(&home, &[&args[..], &["--level", "1"]].concat());
    assert!(other.views.last().expect("views").classes.len() > 3);
    let comparisons = std::fs::read_dir(format!("{state_dir}/comparisons/{fingerprint}")).expect("saved");
    assert_eq!(comparisons.count(), 2, "two different comparisons, one of which ran twice");
    std::fs::write(&saved, "{}").expect("an invalid document");
    home.run(&[&["compare"], &args[..]].concat()).failed(1, &["000000000001.json", "schema"]);
}
