//! `numaio stream` and `numaio latency` on tapes of simulated machines.

use crate::simulated_tape::{recording, setting};
use crate::support::{expect, CommandOutput, Home};
use numaio_machine::discover::discover;
use numaio_machine::workload::StreamOp;
use numaio_measure::{campaign, latency, stream, LatencyOptions, Options, Rule, StreamOptions};
use numaio_schema::{LatencyRecord, StreamRecord, StreamScope};
use numaio_sim::{shapes, Simulated};
use std::sync::OnceLock;

/// Returns a tape of the simulated DL585 with all measurements of these commands.
fn tape() -> &'static str {
    static TAPE: OnceLock<String> = OnceLock::new();
    TAPE.get_or_init(|| {
        let mut spec = shapes::dl585();
        (spec.noise.sample, spec.noise.run) = (0.01, 0.003);
        let machine = Simulated::new(spec).expect("a machine");
        let recording = recording(machine);
        let topology = discover(&recording);
        let targets = topology.cpu_nodes();
        let copies = Options { targets, least_visits: 6, time_limit_s: 1e4, ..Options::default() };
        campaign::run(&setting(&recording, &topology), &copies, &mut |_| {}).expect("copies");
        let rule = Rule { least_visits: 6, time_limit_s: 1e4, ..Rule::default() };
        let all = StreamOptions { ops: StreamOp::STREAM.to_vec(), rule, ..StreamOptions::default() };
        stream::run(&setting(&recording, &topology), &all, &mut |_| {}).expect("STREAM");
        let cores = StreamOptions { scope: StreamScope::Core, rule, ..StreamOptions::default() };
        stream::run(&setting(&recording, &topology), &cores, &mut |_| {}).expect("STREAM by cores");
        let loaded = topology.device_nodes();
        let options = LatencyOptions { loaded, rule, ..LatencyOptions::default() };
        latency::run(&setting(&recording, &topology), &options, &mut |_| {}).expect("latency");
        recording.tape().to_text()
    })
}

/// Runs a command on the tape.
fn run_on_tape(args: &[&str]) -> CommandOutput {
    let home = Home::new();
    let tape = home.file("sim.tape", tape());
    home.run(&[args, &["--machine", &tape]].concat())
}

fn stream_record(args: &[&str]) -> StreamRecord {
    let text = run_on_tape(&[&["stream", "--json"], args].concat()).ok();
    StreamRecord::from_json(&text).expect("a record")
}

fn latency_record(args: &[&str]) -> LatencyRecord {
    let text = run_on_tape(&[&["latency", "--json"], args].concat()).ok();
    LatencyRecord::from_json(&text).expect("a record")
}

#[test]
fn stream_prints_the_matrix_and_the_views_of_nodes_with_devices() {
    let text = run_on_tape(&["stream"]).ok();
    expect("stream-simulated.txt", &text);
    assert!(text.contains("Target node 7") && !text.contains("Target node 3"), "{text}");
    let all = run_on_tape(&["stream", "--all"]).ok();
    assert!((0..8).all(|node| all.contains(&format!("Target node {node}"))));
}

#[test]
fn stream_record_has_the_classes_of_pairs() {
    let record = stream_record(&[]);
    assert_eq!((record.cells.len(), record.provenance.complete), (64, true));
    let [copy] = record.classes.as_slice() else { panic!("{:?}", record.classes) };
    assert_eq!(copy.classes.iter().map(|class| class.pairs.len()).sum::<usize>(), 64);
}

#[test]
fn node_or_device_limits_the_matrix_to_its_row_and_column() {
    for args in [["--node", "7"], ["--device", "eth0"]] {
        let record = stream_record(&args);
        assert_eq!(record.cells.len(), 15, "{args:?}");
        assert!(record.cells.iter().all(|cell| cell.cpu_node.0 == 7 || cell.memory_node.0 == 7));
        assert_eq!(latency_record(&args).cells.len(), 15);
    }
    run_on_tape(&["stream", "--node", "9"]).failed(2, &["there is no node 9"]);
    run_on_tape(&["latency", "--device", "sda"]).failed(2, &["no device 'sda'"]);
}

#[test]
fn options_select_operations_and_loops() {
    let all = stream_record(&["--op", "all"]);
    let ops: Vec<StreamOp> = all.method.loops.iter().map(|(op, _)| *op).collect();
    assert_eq!((ops, all.cells.len(), all.classes.len()), (StreamOp::STREAM.to_vec(), 256, 4));
    let triad = run_on_tape(&["stream", "--op", "triad", "--unit", "Gbit/s"]).ok();
    assert!(triad.contains("Median of STREAM triad in Gbit/s") && !triad.contains("STREAM copy"), "{triad}");
    run_on_tape(&["stream", "--op", "quad"]).failed(2, &["expected one of copy", "triad"]);
    run_on_tape(&["stream", "--stream-loop", "sse"]).failed(2, &["expected one of", "ordinary"]);
    run_on_tape(&["stream", "--threads", "2"]).failed(1, &["not on the tape", "hint"]);
    // The cores of this machine have one hardware thread each, so the workload is the same.
    let text = run_on_tape(&["stream", "--hyper-threads"]).ok();
    assert!(text.contains("one thread per hardware thread of the CPU"), "{text}");
    assert_eq!(stream_record(&["--hyper-threads"]).method.scope, StreamScope::HardwareThreads);
    for other in [&["--threads", "2"][..], &["--per-core"]] {
        run_on_tape(&[&["stream", "--hyper-threads"], other].concat()).failed(2, &["cannot be used with"]);
    }
}

#[test]
fn per_core_reports_whether_cores_agree() {
    let text = run_on_tape(&["stream", "--per-core", "--node", "7"]).ok();
    assert!(text.contains("The 4 cores of node 7 agree: not distinguishable."), "{text}");
    assert!(text.contains("7, CPU 28"), "{text}");
    run_on_tape(&["stream", "--per-core", "--threads", "2"]).failed(2, &["cannot be used with"]);
}

#[test]
fn latency_prints_matrix_factors_and_curves() {
    let text = run_on_tape(&["latency", "--loaded", "--time-limit", "10000"]).ok();
    expect("latency-simulated.txt", &text);
    let record = latency_record(&["--loaded", "--time-limit", "10000"]);
    assert_eq!((record.curves.len(), record.provenance.complete), (8, true));
    assert_eq!(latency_record(&[]).curves.len(), 0);
    run_on_tape(&["latency", "--stride", "100"]).failed(2, &["expected a multiple of 64"]);
}

#[test]
fn stats_prints_statistics_of_every_value() {
    let text = run_on_tape(&["stream", "--node", "7", "--stats"]).ok();
    let rows = text.lines().filter(|line| line.trim_start().starts_with("copy by node")).count();
    assert!(rows == 15 && text.contains("DRIFT") && text.contains("95 % INTERVAL"), "{text}");
    let text = run_on_tape(&["latency", "--loaded", "--stats"]).ok();
    assert!(text.contains("node 7 to 0, gap 12800 ns") && text.contains("All loads"), "{text}");
    let text = Home::new().run(&["model", "--machine", "amd-2p", "--stats", "--node", "2"]).ok();
    let rows = text.lines().filter(|line| line.contains("by node 2 ")).count();
    assert!(rows == 7 && text.contains("DRIFT"), "{text}");
}

#[test]
fn colors_follow_classes_and_need_a_terminal() {
    let colored = run_on_tape(&["stream", "--color", "always", "--node", "7"]).ok();
    let matrix = colored.lines().take_while(|line| !line.contains("Target node"));
    assert!(matrix.filter(|line| line.contains("\x1b[3")).count() >= 16, "{colored}");
    assert!(!run_on_tape(&["stream"]).ok().contains('\x1b'));
}

#[test]
fn time_limit_marks_the_matrix_incomplete() {
    let text = run_on_tape(&["stream", "--time-limit", "3"]).ok();
    let incomplete = text.lines().position(|line| line.starts_with("INCOMPLETE"));
    assert!(incomplete.is_some_and(|line| line < 15), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("others: time limit reached before its first visit"), "{text}");
}

#[test]
fn commands_give_the_same_results_on_a_recorded_tape() {
    let home = Home::new();
    let (source, copy) = (home.file("sim.tape", tape()), home.path("copy.tape"));
    let output = home.run(&["record", "--machine", &source, "-o", &copy, "--time-limit", "10000"]);
    assert!(!output.err.contains("no STREAM") && !output.err.contains("no latency"), "{}", output.err);
    output.ok();
    let compare = |args: &[&str]| {
        let run = |machine: &str| home.run(&[args, &["--machine", machine]].concat()).ok();
        let (found, expected) = (run(&copy), run(&source));
        assert!(!found.contains("INCOMPLETE"), "{found}");
        // The name of the tape and its date differ.
        let figures = |text: &str| {
            text.lines().skip_while(|line| !line.starts_with("Method")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(figures(&found), figures(&expected));
    };
    compare(&["model", "--seed", "3"]);
    compare(&["stream", "--seed", "3"]);
    compare(&["latency", "--seed", "3"]);
}

#[test]
fn recording_without_baselines_has_copies_only() {
    let home = Home::new();
    let copies = home.path("copies.tape");
    let source = home.file("sim.tape", tape());
    home.run(&["record", "--machine", &source, "-o", &copies, "--no-baselines"]).ok();
    home.run(&["model", "--machine", &copies]).ok();
    home.run(&["stream", "--machine", &copies]).failed(1, &["not on the tape"]);
    let output = home.run(&["record", "--machine", &copies, "-o", &home.path("again.tape")]);
    for kind in ["STREAM", "latency"] {
        assert!(output.err.contains(&format!("the tape contains no {kind} measurement")), "{}", output.err);
    }
    output.ok();
}
