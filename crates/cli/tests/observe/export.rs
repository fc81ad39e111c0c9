//! Exports, as read by other programs. The tests need hwloc's tools and are skipped without them.

use crate::support::{CommandOutput, Home, Limited};
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Pages, Placement, StreamLoop, StreamOp};
use numaio_schema::{
    MachineSource, Provenance, Reading, Rounds, StreamCell, StreamMethod, StreamRecord, StreamScope, Summary,
    TopologyDocument, STREAM_SCHEMA,
};
use std::io::Write;

/// Returns whether hwloc's tools are installed.
fn has_hwloc(home: &Home) -> bool {
    let found = home.command("lstopo-no-graphics", &["--version"]).limited_output().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: no lstopo (hwloc) to read what is exported");
    }
    found
}

fn lstopo(home: &Home, args: &[&str]) -> String {
    let output =
        CommandOutput::of(home.command("lstopo-no-graphics", args).limited_output().expect("lstopo"));
    assert_eq!(output.err, "", "lstopo reports an error");
    output.ok()
}

/// Returns a STREAM record: `gib[i][j]` GiB/s from CPUs of node i to memory of node j.
fn stream(topology: &TopologyDocument, gib: &[&[f64]]) -> StreamRecord {
    let topology = &topology.topology;
    let reading = |gib: f64| Reading {
        visits: Vec::new(),
        summary: Summary::of(&[gib * f64::from(1 << 30); 6], None),
        settled: true,
        failure: None,
    };
    let cell = |cpus: usize, memory: usize, gib: f64| StreamCell {
        op: StreamOp::Triad,
        cpu_node: NodeId(cpus as u32),
        memory_node: NodeId(memory as u32),
        placement: Placement { cpus: CpuSet::new() },
        bytes_per_s: reading(gib),
    };
    let rows = gib.iter().enumerate();
    let cells = rows.flat_map(|(i, row)| row.iter().enumerate().map(move |(j, gib)| cell(i, j, *gib)));
    StreamRecord {
        schema: STREAM_SCHEMA.into(),
        provenance: Provenance {
            numaio: "0".into(),
            measured_at: 1,
            machine: topology.identity.clone(),
            source: MachineSource::Simulated,
            conditions: Default::default(),
            warnings: Vec::new(),
            complete: true,
            load: Vec::new(),
        },
        method: StreamMethod {
            loops: vec![(StreamOp::Triad, StreamLoop::Avx2)],
            trials: Vec::new(),
            scope: StreamScope::Node { threads: None },
            bytes_per_array: Vec::new(),
            pages: Pages::Base,
            rounds: Rounds { precision: 0.02, time_limit_s: 1.0, elapsed_s: 1.0, seed: 1, rounds: 1 },
        },
        cells: cells.collect(),
        classes: Vec::new(),
    }
}

fn stream_record(path: &str) -> StreamRecord {
    let text = std::fs::read_to_string(path).expect("a file");
    StreamRecord::from_json(&text).expect("a record")
}

/// Writes the topology of a machine with four nodes and a STREAM record of it.
fn write_topology_and_stream(home: &Home) -> [String; 2] {
    let topology = home.run(&["topology", "--machine", "amd-2p", "--json"]).ok();
    let document = TopologyDocument::from_json(&topology).expect("a topology");
    let rows: [&[f64]; 4] =
        [&[6.0, 4.0, 2.0, 2.0], &[4.0, 6.0, 2.0, 2.0], &[2.0, 2.0, 6.0, 4.0], &[2.0, 2.0, 4.0, 3.0]];
    let record = serde_json::to_string(&stream(&document, &rows)).expect("JSON");
    [home.file("topology.json", &topology), home.file("stream.json", &record)]
}

#[test]
fn lstopo_reads_a_recorded_machine_with_its_devices() {
    let home = Home::new();
    let xml = home.run(&["export", "--machine", "amd-dl585-g7", "-q"]).ok();
    if !has_hwloc(&home) {
        return;
    }
    let shown = lstopo(&home, &["-i", &home.file("dl585.xml", &xml)]);
    let count = |what: &str| shown.matches(what).count();
    assert_eq!((count("Package L#"), count("NUMANode L#"), count("PU L#")), (4, 8, 16), "{shown}");
    for device in ["Block \"nvme0n1\"", "Net \"eth0\"", "Net \"eth1\"", "PCIBridge"] {
        let below_node_7 = shown.split("NUMANode L#7").nth(1).expect("node 7");
        assert!(below_node_7.contains(device), "{device} is not on node 7: {shown}");
    }
    let distances = lstopo(&home, &["-i", &home.path("dl585.xml"), "--distances"]);
    assert!(distances.contains("NUMALatency") && distances.contains("22"), "{distances}");
}

#[test]
fn exports_bandwidths_as_memory_attributes_in_xml_and_commands() {
    let home = Home::new();
    let [topology, stream] = write_topology_and_stream(&home);
    let xml = home.file("measured.xml", &home.run(&["export", &topology, &stream]).ok());
    let bare = home.file("bare.xml", &home.run(&["export", "-q", &topology]).ok());
    let script = home.run(&["export", "--format", "hwloc-annotate", &topology, &stream]).ok();
    assert_eq!(script.matches("\nset_value Bandwidth ").count(), 16, "{script}");
    if !has_hwloc(&home) {
        return;
    }
    let attributes = |xml: &str| {
        let text = lstopo(&home, &["-i", xml, "--memattrs"]);
        let pairs: Vec<&str> =
            text.split("Memory attribute #").filter(|part| part.contains("from")).collect();
        let named =
            pairs.iter().filter(|part| part.contains("`Bandwidth'") || part.contains("`numaio-stream"));
        let mut lines: Vec<String> = named.flat_map(|part| part.lines().map(str::to_owned)).collect();
        lines.sort();
        lines
    };
    let exported = attributes(&xml);
    let values = exported.iter().filter(|line| line.contains("from")).count();
    assert_eq!(values, 32, "16 pairs as Bandwidth and as STREAM triad: {exported:?}");
    assert!(exported.iter().any(|line| line.contains("NUMANode L#3 = 3072 from")), "{exported:?}");
    assert!(
        exported.iter().any(|line| line.contains("NUMANode L#1 = 4096 from cpuset 0x00000003")),
        "{exported:?}"
    );
    let (script, out) = (home.file("annotate.sh", &script), home.path("annotated.xml"));
    let output = home.command("sh", &[&script, &bare, &out]).limited_output().expect("sh");
    assert_eq!(CommandOutput::of(output).err, "");
    let strip = |lines: Vec<String>| -> Vec<String> {
        lines.into_iter().filter(|line| line.contains("from")).collect()
    };
    assert_eq!(strip(attributes(&out)), strip(exported.clone()), "the commands and the XML agree");
    // Again, on a file that already has the attributes.
    let again = home.path("again.xml");
    let output = home.command("sh", &[&script, &out, &again]).limited_output().expect("sh");
    assert_eq!((output.status.code(), CommandOutput::of(output).err.as_str()), (Some(0), ""));
    assert_eq!(strip(attributes(&again)), strip(exported));
    // If hwloc fails, no partial file remains.
    let text = std::fs::read_to_string(&out).expect("the XML");
    let name = "<memattr name=\"numaio-stream-triad\" flags=\"";
    assert!(text.contains(name), "{text}");
    let other = home.file("other.xml", &text.replace(&format!("{name}5"), &format!("{name}6")));
    let rejected = home.path("rejected.xml");
    let output = home.command("sh", &[&script, &other, &rejected]).limited_output().expect("sh");
    assert!(!output.status.success());
    let left = std::fs::read_dir(home.path(".")).expect("a folder").flatten();
    assert!(!left.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("rejected")));
}

#[test]
fn exports_other_documents_if_a_saved_one_is_unreadable() {
    let home = Home::new();
    let text = home.run(&["topology", "--json"]).ok();
    let topology = TopologyDocument::from_json(&text).expect("a topology");
    let saved = format!("state/numaio/streams/{}", topology.topology.identity.fingerprint);
    std::fs::create_dir_all(home.path(&saved)).expect("a folder");
    home.document(&format!("{saved}/000000000001.json"), &stream(&topology, &[&[6.0]]));
    home.file(&format!("{saved}/000000000002.json"), "{");
    let args = ["export", "--format", "weights", "--json"];
    let output = home.numaio(&args).env("XDG_STATE_HOME", home.path("state")).limited_output();
    let output = CommandOutput::of(output.expect("numaio"));
    assert!(output.err.contains("skipped") && output.err.contains("000000000002.json"), "{}", output.err);
    assert!(output.ok().contains("weight"));
}

#[test]
fn rejects_ids_above_the_limit() {
    let home = Home::new();
    let topology = home.run(&["topology", "--machine", "amd-2p", "--json"]).ok();
    let mut document: serde_json::Value = serde_json::from_str(&topology).expect("JSON");
    for (list, index) in [("nodes", 1), ("cpus", 0)] {
        let id = std::mem::replace(&mut document[list][index]["id"], 4294967295u32.into());
        let huge = home.file("huge.json", &document.to_string());
        home.run(&["export", &huge]).failed(1, &["huge.json", "4294967295 is above the largest id"]);
        document[list][index]["id"] = id;
    }
}

#[test]
fn weights_are_proportional_to_bandwidth() {
    let home = Home::new();
    let [topology, stream] = write_topology_and_stream(&home);
    let weights = |args: &[&str]| {
        let text =
            home.run(&[&["export", "--format", "weights", "--json", &topology, &stream], args].concat()).ok();
        let weights: numaio_schema::InterleaveWeights = serde_json::from_str(&text).expect("weights");
        weights.nodes.iter().map(|node| node.weight).collect::<Vec<u32>>()
    };
    assert_eq!(weights(&[]), [3, 3, 3, 2], "node 3 gets at most 4, the others 6");
    assert_eq!(weights(&["--node", "0"]), [3, 2, 1, 1]);
    let text = home.run(&["export", "--format", "weights", &topology, &stream]).ok();
    assert!(text.contains("27.3 %") && text.contains("18.2 %"), "{text}");
    let mut older = stream_record(&stream);
    older.provenance.measured_at = 0;
    older.cells.truncate(4);
    let older = home.file("older.json", &serde_json::to_string(&older).expect("JSON"));
    assert_eq!(weights(&[&older]), [3, 3, 3, 2], "the newer of two measurements counts");
    home.run(&["export", "--format", "weights", &topology, &stream, "--node", "9"]).failed(2, &["node 9"]);
    home.run(&["export", "--format", "weights", &topology, &stream, "--apply"])
        .failed(1, &["this is machine"]);
    home.run(&["export", "--format", "weights", "--undo"]).failed(1, &["has not set any weights"]);
}

#[test]
fn errors_name_unsuitable_documents() {
    let home = Home::new();
    let [topology, stream] = write_topology_and_stream(&home);
    let other = home.run(&["topology", "--machine", "intel-r820", "--json"]).ok();
    let other = home.file("other.json", &other);
    home.run(&["export", &topology, &stream, &other]).failed(1, &["other.json", "it describes machine"]);
    home.run(&["export", &stream]).failed(1, &["another machine", "numaio topology --json"]);
    home.run(&["export", &home.path("absent.json")]).failed(1, &["absent.json"]);
    let truncated = std::fs::read_to_string(&stream).expect("a file");
    let truncated = home.file("cut.json", &truncated[..truncated.len() - 9]);
    home.run(&["export", &topology, &truncated]).failed(1, &["cut.json", "incomplete JSON"]);
    home.run(&["export", "--apply"]).failed(2, &["--format weights"]);
}
