//! `numaio stream` and `numaio latency`: what a user types and sees, on tapes of simulated machines.

use crate::support::{expect, Home, Said};
use numaio_machine::discover::discover;
use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::tape::{Recording, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::Topology;
use numaio_machine::tree::Tree;
use numaio_machine::workload::{StreamOp, Workload};
use numaio_measure::{campaign, latency, stream, LatencyOptions, Options, Rule, Setting, StreamOptions};
use numaio_schema::{LatencyRecord, MachineSource, StreamRecord, StreamScope};
use numaio_sim::{shapes, Simulated};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A simulated machine that can be seen by several threads.
struct Shared(Tree, Mutex<Simulated>);

impl Sysfs for Shared {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.0.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.0.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.0.resolve(path)
    }
}

impl Probe for Shared {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).run(workload)
    }
}

/// The DL585 simulated, with everything on the tape that these commands measure.
fn tape() -> &'static str {
    static TAPE: OnceLock<String> = OnceLock::new();
    TAPE.get_or_init(|| {
        let mut spec = shapes::dl585();
        (spec.noise.sample, spec.noise.run) = (0.01, 0.003);
        let machine = Simulated::new(spec).expect("a machine");
        let header = TapeHeader {
            tape: TAPE_SCHEMA.into(),
            numaio: "test".into(),
            name: "simulated".into(),
            note: "of no real machine".into(),
            recorded_at: 1_800_000_000,
        };
        let recording = Recording::new(Shared(machine.tree(), Mutex::new(machine)), header);
        let topology = discover(&recording);
        let targets = topology.cpu_nodes();
        let copies = Options { targets, least_visits: 6, time_limit_s: 1e4, ..Options::default() };
        campaign::run(&setting(&recording, &topology), &copies, &mut |_| {}).expect("copies");
        let rule = Rule { least_visits: 6, time_limit_s: 1e4, ..Rule::default() };
        let whole = StreamOptions { ops: StreamOp::ALL.to_vec(), rule, ..StreamOptions::default() };
        stream::run(&setting(&recording, &topology), &whole, &mut |_| {}).expect("STREAM");
        let cores = StreamOptions { scope: StreamScope::Core, rule, ..StreamOptions::default() };
        stream::run(&setting(&recording, &topology), &cores, &mut |_| {}).expect("STREAM by cores");
        let loaded = topology.device_nodes();
        let asked = LatencyOptions { loaded, rule, ..LatencyOptions::default() };
        latency::run(&setting(&recording, &topology), &asked, &mut |_| {}).expect("latency");
        recording.tape().to_text()
    })
}

fn setting<'a>(machine: &'a Recording<Shared>, topology: &'a Topology) -> Setting<'a> {
    Setting {
        root: machine,
        probe: machine,
        topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    }
}

/// Runs a command on the tape.
fn on_tape(args: &[&str]) -> Said {
    let home = Home::new();
    let tape = home.file("sim.tape", tape());
    home.run(&[args, &["--machine", &tape]].concat())
}

fn stream_record(args: &[&str]) -> StreamRecord {
    let text = on_tape(&[&["stream", "--json"], args].concat()).ok();
    StreamRecord::from_json(&text).expect("a record")
}

fn latency_record(args: &[&str]) -> LatencyRecord {
    let text = on_tape(&[&["latency", "--json"], args].concat()).ok();
    LatencyRecord::from_json(&text).expect("a record")
}

#[test]
fn stream_shows_the_matrix_and_the_views_of_nodes_with_devices() {
    let text = on_tape(&["stream"]).ok();
    expect("stream-simulated.txt", &text);
    assert!(text.contains("Target node 7") && !text.contains("Target node 3"), "{text}");
    let all = on_tape(&["stream", "--all"]).ok();
    assert!((0..8).all(|node| all.contains(&format!("Target node {node}"))));
}

#[test]
fn stream_keeps_the_classes_of_its_pairs() {
    let record = stream_record(&[]);
    assert_eq!((record.cells.len(), record.provenance.complete), (64, true));
    let [copy] = record.classes.as_slice() else { panic!("{:?}", record.classes) };
    assert_eq!(copy.classes.iter().map(|class| class.pairs.len()).sum::<usize>(), 64);
}

#[test]
fn a_node_or_a_device_restricts_the_matrix_to_its_row_and_column() {
    for args in [["--node", "7"], ["--device", "eth0"]] {
        let record = stream_record(&args);
        assert_eq!(record.cells.len(), 15, "{args:?}");
        assert!(record.cells.iter().all(|cell| cell.cpu_node.0 == 7 || cell.memory_node.0 == 7));
        assert_eq!(latency_record(&args).cells.len(), 15);
    }
    on_tape(&["stream", "--node", "9"]).failed(2, &["there is no node 9"]);
    on_tape(&["latency", "--device", "sda"]).failed(2, &["no device 'sda'"]);
}

#[test]
fn operations_and_loops_are_chosen() {
    let all = stream_record(&["--op", "all"]);
    let ops: Vec<StreamOp> = all.method.loops.iter().map(|(op, _)| *op).collect();
    assert_eq!((ops, all.cells.len(), all.classes.len()), (StreamOp::ALL.to_vec(), 256, 4));
    let triad = on_tape(&["stream", "--op", "triad", "--unit", "Gbit/s"]).ok();
    assert!(triad.contains("Median of STREAM triad in Gbit/s") && !triad.contains("STREAM copy"), "{triad}");
    on_tape(&["stream", "--op", "quad"]).failed(2, &["no operation of STREAM", "triad"]);
    on_tape(&["stream", "--stream-loop", "sse"]).failed(2, &["no loop of STREAM", "ordinary"]);
    on_tape(&["stream", "--threads", "2"]).failed(1, &["not on the tape", "hint"]);
    // This machine's cores have one hardware thread each, so that the same was measured.
    let text = on_tape(&["stream", "--hyper-threads"]).ok();
    assert!(text.contains("one thread per hardware thread of the CPU"), "{text}");
    assert_eq!(stream_record(&["--hyper-threads"]).method.scope, StreamScope::HardwareThreads);
    for other in [&["--threads", "2"][..], &["--per-core"]] {
        on_tape(&[&["stream", "--hyper-threads"], other].concat()).failed(2, &["cannot be used with"]);
    }
}

#[test]
fn cores_alone_say_whether_they_agree() {
    let text = on_tape(&["stream", "--per-core", "--node", "7"]).ok();
    assert!(text.contains("The 4 cores of node 7 agree: not distinguishable."), "{text}");
    assert!(text.contains("7, CPU 28"), "{text}");
    on_tape(&["stream", "--per-core", "--threads", "2"]).failed(2, &["cannot be used with"]);
}

#[test]
fn latency_shows_matrix_factors_and_curves() {
    let text = on_tape(&["latency", "--loaded", "--time-limit", "10000"]).ok();
    expect("latency-simulated.txt", &text);
    let record = latency_record(&["--loaded", "--time-limit", "10000"]);
    assert_eq!((record.curves.len(), record.provenance.complete), (8, true));
    assert_eq!(latency_record(&[]).curves.len(), 0);
    on_tape(&["latency", "--stride", "100"]).failed(2, &["no multiple of 64"]);
}

#[test]
fn every_figure_can_be_asked_for_its_statistics() {
    let text = on_tape(&["stream", "--node", "7", "--stats"]).ok();
    let rows = text.lines().filter(|line| line.trim_start().starts_with("copy by node")).count();
    assert!(rows == 15 && text.contains("DRIFT") && text.contains("95 % INTERVAL"), "{text}");
    let text = on_tape(&["latency", "--loaded", "--stats"]).ok();
    assert!(text.contains("node 7 to 0, gap 12800 ns") && text.contains("All loads"), "{text}");
    let text = Home::new().run(&["model", "--machine", "amd-2p", "--stats", "--node", "2"]).ok();
    let rows = text.lines().filter(|line| line.contains("by node 2 ")).count();
    assert!(rows == 7 && text.contains("DRIFT"), "{text}");
}

#[test]
fn colours_are_those_of_classes_and_none_without_a_terminal() {
    let coloured = on_tape(&["stream", "--color", "always", "--node", "7"]).ok();
    let matrix = coloured.lines().take_while(|line| !line.contains("Target node"));
    assert!(matrix.filter(|line| line.contains("\x1b[3")).count() >= 16, "{coloured}");
    assert!(!on_tape(&["stream"]).ok().contains('\x1b'));
}

#[test]
fn a_time_limit_leaves_an_incomplete_matrix_that_says_so() {
    let text = on_tape(&["stream", "--time-limit", "3"]).ok();
    let incomplete = text.lines().position(|line| line.starts_with("INCOMPLETE"));
    assert!(incomplete.is_some_and(|line| line < 15), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("others: time limit reached before its first visit"), "{text}");
}

#[test]
fn every_command_works_on_a_tape_that_was_recorded() {
    let home = Home::new();
    let (source, whole) = (home.file("sim.tape", tape()), home.path("whole.tape"));
    let said = home.run(&["record", "--machine", &source, "-o", &whole, "--time-limit", "10000"]);
    assert!(!said.err.contains("no STREAM") && !said.err.contains("no latency"), "{}", said.err);
    said.ok();
    let same = |args: &[&str]| {
        let of = |machine: &str| home.run(&[args, &["--machine", machine]].concat()).ok();
        let (found, wanted) = (of(&whole), of(&source));
        assert!(!found.contains("INCOMPLETE"), "{found}");
        // The name of the tape and its date differ.
        let figures = |text: &str| {
            text.lines().skip_while(|line| !line.starts_with("Method")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(figures(&found), figures(&wanted));
    };
    same(&["model", "--seed", "3"]);
    same(&["stream", "--seed", "3"]);
    same(&["latency", "--seed", "3"]);
}

#[test]
fn a_recording_without_baselines_holds_copies_alone() {
    let home = Home::new();
    let copies = home.path("copies.tape");
    let source = home.file("sim.tape", tape());
    home.run(&["record", "--machine", &source, "-o", &copies, "--no-baselines"]).ok();
    home.run(&["model", "--machine", &copies]).ok();
    home.run(&["stream", "--machine", &copies]).failed(1, &["not on the tape"]);
    let old = home.run(&["record", "--machine", &copies, "-o", &home.path("again.tape")]);
    for kind in ["STREAM", "latency"] {
        assert!(old.err.contains(&format!("the tape contains no {kind} measurement")), "{}", old.err);
    }
    old.ok();
}
