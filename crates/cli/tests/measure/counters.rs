//! `numaio counters` on a tape of a simulated machine, and on this one.

use crate::simulated_tape::{recording, setting};
use crate::support::{CommandOutput, Home};
use numaio_machine::counters::Counter;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{CopyLoop, StreamLoop, StreamOp};
use numaio_measure::{counters, latency, stream, CounterOptions, LatencyOptions, Rule, StreamOptions};
use numaio_schema::{Comparison, CountedSubject, CounterRecord};
use numaio_sim::{shapes, Simulated};
use std::sync::OnceLock;

/// Returns a tape of a simulated machine with counted STREAM copies and copies, STREAM and latency.
fn tape() -> &'static str {
    static TAPE: OnceLock<String> = OnceLock::new();
    TAPE.get_or_init(|| {
        let machine = Simulated::new(shapes::uniform(4, 4)).expect("a machine");
        let recording = recording(machine);
        let topology = discover(&recording);
        let rule = Rule { least_visits: 6, time_limit_s: 1e4, ..Rule::default() };
        let setting = setting(&recording, &topology);
        let stream_copy = CountedSubject::Stream { op: StreamOp::Copy, stream_loop: StreamLoop::Ordinary };
        for (subject, threads) in [
            (stream_copy.clone(), vec![]),
            (stream_copy, vec![1, 2]),
            (CountedSubject::Copy { copy_loop: CopyLoop::Memcpy }, vec![]),
        ] {
            let options = CounterOptions { subject, threads, rule, ..CounterOptions::default() };
            counters::run(&setting, &options, &mut |_| {}).expect("counts");
        }
        stream::run(&setting, &StreamOptions { rule, ..StreamOptions::default() }, &mut |_| {})
            .expect("STREAM");
        latency::run(&setting, &LatencyOptions { rule, ..LatencyOptions::default() }, &mut |_| {})
            .expect("latency");
        recording.tape().to_text()
    })
}

fn run_on_tape(args: &[&str]) -> CommandOutput {
    let home = Home::new();
    let tape = home.file("sim.tape", tape());
    home.run(&[&["counters"], args, &["--machine", &tape]].concat())
}

fn record(args: &[&str]) -> CounterRecord {
    let text = run_on_tape(&[args, &["--json"]].concat()).ok();
    CounterRecord::from_json(&text).expect("a record")
}

#[test]
fn replays_the_counts_of_a_tape() {
    let record = record(&["--stream"]);
    assert_eq!((record.cells.len(), record.provenance.complete), (16, true));
    let of = |cpu: u32, memory: u32| {
        let pair = (Some(NodeId(cpu)), Some(NodeId(memory)));
        let found = record.cells.iter().find(|cell| (cell.cpu_node, cell.memory_node) == pair);
        found.expect("a pair")
    };
    assert_eq!(of(1, 1).normalized_time, Some(1.0));
    assert!(of(1, 2).normalized_time.is_some_and(|time| time > 1.2), "{:?}", of(1, 2).normalized_time);
    let misses = |cell: &numaio_schema::CounterCell| cell.value(Counter::NodeLoadMisses).expect("counted");
    assert!(misses(of(1, 2)) > 100.0 * misses(of(1, 1)));
    let snoops = record.missing.iter().find(|missing| missing.counter == Counter::SnoopResponses);
    assert!(snoops.is_some_and(|snoops| snoops.reason.contains("does not model")), "{:?}", record.missing);
}

#[test]
fn text_shows_pairs_factors_and_what_is_missing() {
    let text = run_on_tape(&["--stream", "copy", "--threads", "1,2"]).ok();
    for part in ["STREAM copy", "REMOTE/", "THREADS", "NUMA scheduling factor", "node-load-misses per KB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let missing = "snoop-responses, tsc-ticks (simulated): the simulated machine does not model it";
    assert!(text.contains("Not counted") && text.contains(missing), "{text}");
    let all = run_on_tape(&["--copy", "--counts"]).ok();
    assert!(all.contains("memory-read-bytes") && all.contains("numa-hit"), "{all}");
}

/// Equation 3.2 ranks the nodes as the bandwidth factor does, where all remote nodes are equal.
#[test]
fn scheduling_factor_agrees_with_the_bandwidth_factor() {
    let home = Home::new();
    let tape = home.file("sim.tape", tape());
    let machine = ["--machine", tape.as_str()];
    let save = |command: &[&str], name: &str| {
        home.file(name, &home.run(&[command, &["--json"], &machine].concat()).ok())
    };
    let counted = save(&["counters"], "counters.json");
    let stream = save(&["stream"], "stream.json");
    let text = home.run(&["compare", "--from", &counted, &stream, "--node", "2", "--json", "--no-save"]).ok();
    let comparison = Comparison::from_json(&text).expect("a comparison");
    for center in ["cpu-centric", "memory-centric"] {
        let pair = (format!("scheduling-factor-{center}"), format!("stream-copy-{center}"));
        let of = |agreement: &&numaio_schema::Agreement| {
            (&agreement.first, &agreement.second) == (&pair.0, &pair.1)
        };
        let agreement = comparison.agreements.iter().find(of).expect("an agreement");
        assert_eq!((agreement.tau_b, agreement.inversions.len()), (Some(1.0), 0), "{agreement:?}");
    }
    let shown = home.run(&["compare", "--from", &counted, &stream, "--node", "2", "--no-save"]).ok();
    assert!(shown.contains("Scheduling factor, CPU-centric"), "{shown}");
}

#[test]
fn factors_without_latency_state_the_reason() {
    let home = Home::new();
    let text = tape().lines().filter(|line| !line.contains("\"kind\":\"latency\""));
    let tape = home.file("sim.tape", &text.map(|line| format!("{line}\n")).collect::<String>());
    let text = home.run(&["counters", "--machine", &tape]).ok();
    assert!(
        text.contains("Missing: the latency of the pairs is unknown: numaio latency measures it"),
        "{text}"
    );
}

#[test]
fn counts_a_program_on_this_machine() {
    let home = Home::new();
    let text = home.run(&["counters", "--json", "--", "sh", "-c", "echo x"]).ok();
    let record = CounterRecord::from_json(&text).expect("a record");
    let [cell] = record.cells.as_slice() else { panic!("{text}") };
    assert_eq!((cell.cpu_node, cell.threads, cell.runs), (None, 0, 1));
    let is_known = |counter: Counter| {
        let is_missing = record.missing.iter().any(|missing| missing.counter == counter);
        is_missing != cell.value(counter).is_some()
    };
    assert!(Counter::ALL.into_iter().all(is_known), "{text}");
    let saved = home.run(&["counters", "--", "sh", "-c", "echo x"]);
    assert!(saved.ok().contains("Counts of the complete time"));
    home.run(&["counters", "--", "no-such-program-of-ours"]).failed(127, &["no such program"]);
    home.run(&["counters", "--", "sh", "-c", "exit 3"]).failed(1, &["exit status 3"]);
}

#[test]
fn counts_beside_load() {
    let home = Home::new();
    let args = ["counters", "--load", "0:1", "--json", "--", "sh", "-c", "sleep 0.1"];
    let record = CounterRecord::from_json(&home.run(&args).ok()).expect("a record");
    let [measured] = record.provenance.load.as_slice() else { panic!("{:?}", record.provenance.load) };
    assert!(measured.bytes_per_s.as_ref().is_some_and(|rate| rate.median > 0.0), "{measured:?}");
    home.run(&["counters", "--load", "0:1", "--load", "0:2", "--", "true"])
        .failed(2, &["--load is repeated"]);
}

#[test]
fn rejects_wrong_input() {
    let home = Home::new();
    let fails = |args: &[&str], code, parts: &[&str]| {
        home.run(&[&["counters"], args].concat()).failed(code, parts);
    };
    fails(&["--stream", "quad"], 2, &["expected one of copy"]);
    fails(&["--stream", "--copy"], 2, &["cannot be used with"]);
    fails(&["--copy", "-p", "1"], 2, &["cannot be used with"]);
    fails(&["-p", "1", "--pairs"], 2, &["cannot be used with"]);
    fails(&["-p", "x"], 2, &["invalid value"]);
    fails(&["-p", "4194304"], 1, &["cannot count process 4194304: no such process"]);
    fails(&["--threads", "0"], 2, &["expected an integer from 1"]);
    fails(&["--seconds", "-1", "-p", "1"], 2, &["seconds"]);
    fails(&["--prefetchers", "maybe"], 2, &["off", "on"]);
    fails(&["--threads", "1", "--", "true"], 2, &["requires --pairs"]);
    fails(&["--node", "999"], 2, &["there is no node 999"]);
    run_on_tape(&["--stream", "triad"]).failed(1, &["not on the tape", "hint"]);
    run_on_tape(&["--prefetchers", "off"]).failed(2, &["--prefetchers"]);
    run_on_tape(&["--with", "/no/such/file"]).failed(1, &["no/such/file"]);
}
