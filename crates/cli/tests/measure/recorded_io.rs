//! Measured I/O on a tape: `numaio record --bench`, and commands that use the tape.

use crate::support::{Home, Limited};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::tape::Tape;
use numaio_machine::workload::Workload;
use numaio_schema::{IoPrediction, IoRecord, Validation};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Options for as few and short copies as possible.
const QUICK: [&str; 6] = ["--precision", "95", "--time-limit", "20", "--no-baselines", "--quiet"];

fn has_fio() -> bool {
    Command::new("fio").arg("--version").limited_output().is_ok_and(|output| output.status.success())
}

/// Records this machine with a benchmark of a file; returns the tape's name and the output.
fn record(home: &Home, bench: &str) -> (String, String) {
    let tape = home.path("my.tape");
    let bench =
        format!("disk --file . --area 8M --streams 1,2 --precision 95 --window 50 --json --no-save {bench}");
    let output = home.run(&[&["record", "-o", &tape, "--bench", &bench], &QUICK[..]].concat()).ok();
    (tape, output)
}

fn records(json: &str) -> Vec<IoRecord> {
    match IoRecord::from_json(json) {
        Ok(record) => vec![record],
        Err(_) => {
            let all: Vec<serde_json::Value> = serde_json::from_str(json).expect("records");
            all.iter().map(|record| IoRecord::from_json(&record.to_string()).expect("a record")).collect()
        }
    }
}

#[test]
fn bench_replays_from_the_runs_of_a_tape() {
    let home = Home::new();
    let fio = has_fio();
    let engine = if fio { "--engine all" } else { "--engine disk" };
    let (tape, output) = record(&home, engine);
    let text = fs::read_to_string(&tape).expect("a tape");
    if fio {
        assert!(text.contains("fio-") && text.contains("io_bytes"), "fio's own JSON is on the tape");
    }
    let engine_args: Vec<&str> = engine.split(' ').collect();
    let replay =
        [&["bench", "disk", "--machine", &tape, "--file", ".", "--json"], engine_args.as_slice()].concat();
    let replayed = records(&home.run(&replay).ok());
    let first = records(&output);
    assert_eq!(replayed.len(), first.len());
    for (replayed, first) in replayed.iter().zip(&first) {
        assert_eq!((&replayed.cells, &replayed.device), (&first.cells, &first.device));
        assert_eq!(replayed.method.version, first.method.version);
    }
    // Only raw runs count: without the failed ones, there are no results.
    let mut changed = Tape::parse(&text).expect("a tape");
    for (workload, outcome) in &mut changed.runs {
        if matches!(workload, Workload::Io(io) if io.streams() == 2) {
            *outcome = Err(ProbeError::Unsupported { feature: "it".to_owned() });
        }
    }
    fs::write(&tape, changed.to_text()).expect("a tape");
    let fewer = records(&home.run(&replay[..7]).ok());
    for cell in &fewer[0].cells {
        assert_eq!(cell.bytes_per_s.median().is_some(), cell.groups[0].streams == 1);
    }
    home.run(&["bench", "disk", "--machine", &tape, "--device", "no-such"]).failed(1, &["not on the tape"]);
}

#[test]
fn validate_and_predict_use_a_tape() {
    let home = Home::new();
    let (tape, output) = record(&home, "--engine disk");
    let first = records(&output).remove(0);
    let json = home.run(&["validate", "--machine", &tape, "--node", "0", "--json"]).ok();
    let validation = Validation::from_json(&json).expect("a validation");
    assert_eq!(
        (validation.target, validation.devices.as_slice()),
        (NodeId(0), &[first.device.name.clone()][..])
    );
    let json = home
        .run(&["predict", "--machine", &tape, "--device", &first.device.name, "--mix", "0:2", "--json"])
        .ok();
    let prediction = IoPrediction::from_json(&json).expect("a prediction").mix.expect("the mix");
    let two = first.cells.iter().find(|cell| {
        cell.groups[0].streams == 2 && cell.groups[0].direction == numaio_machine::workload::Direction::Read
    });
    assert_eq!(Some(prediction.limits.bytes_per_s), two.and_then(|cell| cell.bytes_per_s.median()));
}

#[test]
fn impossible_bench_is_wrong_usage() {
    let home = Home::new();
    let record = |bench: &str| home.run(&["record", "-o", "my.tape", "--bench", bench]);
    record("").failed(2, &["--bench"]);
    record("disk --no-such").failed(2, &["--no-such"]);
    record("net --serve").failed(2, &["--serve is not a measurement"]);
    assert!(!Path::new(&home.path("my.tape")).exists());
}
