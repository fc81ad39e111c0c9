//! Measured I/O on a tape: `numaio record --bench`, and what works on the tape.

use crate::support::{Home, Limited};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::tape::Tape;
use numaio_machine::workload::Workload;
use numaio_schema::{IoPrediction, IoRecord, Validation};
use std::fs;
use std::path::Path;
use std::process::Command;

/// As few and short copies as there may be.
const QUICK: [&str; 6] = ["--precision", "95", "--time-limit", "20", "--no-baselines", "--quiet"];

fn has_fio() -> bool {
    Command::new("fio").arg("--version").limited_output().is_ok_and(|output| output.status.success())
}

/// Records this machine with a bench of a file; gives the tape's name and what the bench printed.
fn record(home: &Home, bench: &str) -> (String, String) {
    let tape = home.path("my.tape");
    let bench =
        format!("disk --file . --area 8M --streams 1,2 --precision 95 --window 50 --json --no-save {bench}");
    let said = home.run(&[&["record", "-o", &tape, "--bench", &bench], &QUICK[..]].concat()).ok();
    (tape, said)
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
fn what_a_tape_holds_is_made_again_from_its_runs() {
    let home = Home::new();
    let fio = has_fio();
    let engine = if fio { "--engine all" } else { "--engine disk" };
    let (tape, said) = record(&home, engine);
    let text = fs::read_to_string(&tape).expect("a tape");
    if fio {
        assert!(text.contains("fio-") && text.contains("io_bytes"), "fio's own JSON is on the tape");
    }
    let words: Vec<&str> = engine.split(' ').collect();
    let replay = [&["bench", "disk", "--machine", &tape, "--file", ".", "--json"], words.as_slice()].concat();
    let again = records(&home.run(&replay).ok());
    let first = records(&said);
    assert_eq!(again.len(), first.len());
    for (again, first) in again.iter().zip(&first) {
        assert_eq!((&again.cells, &again.device), (&first.cells, &first.device));
        assert_eq!(again.method.version, first.method.version);
    }
    // Raw runs are what counts: where these failed, there are no figures.
    let mut changed = Tape::parse(&text).expect("a tape");
    for (workload, outcome) in &mut changed.runs {
        if matches!(workload, Workload::Io(io) if io.streams() == 2) {
            *outcome = Err(ProbeError::Unsupported { what: "it".to_owned() });
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
fn a_tape_is_validated_and_predicted_from() {
    let home = Home::new();
    let (tape, said) = record(&home, "--engine disk");
    let first = records(&said).remove(0);
    let json = home.run(&["validate", "--machine", &tape, "--node", "0", "--json"]).ok();
    let found = Validation::from_json(&json).expect("a validation");
    assert_eq!((found.target, found.devices.as_slice()), (NodeId(0), &[first.device.name.clone()][..]));
    let json = home
        .run(&["predict", "--machine", &tape, "--device", &first.device.name, "--mix", "0:2", "--json"])
        .ok();
    let found = IoPrediction::from_json(&json).expect("a prediction").mix.expect("of the mix");
    let two = first.cells.iter().find(|cell| {
        cell.groups[0].streams == 2 && cell.groups[0].direction == numaio_machine::workload::Direction::Read
    });
    assert_eq!(Some(found.limits.bytes_per_s), two.and_then(|cell| cell.bytes_per_s.median()));
}

#[test]
fn a_bench_that_cannot_be_is_wrong_usage() {
    let home = Home::new();
    let of = |bench: &str| home.run(&["record", "-o", "my.tape", "--bench", bench]);
    of("").failed(2, &["--bench"]);
    of("disk --no-such").failed(2, &["--no-such"]);
    of("net --serve").failed(2, &["--serve is not a measurement"]);
    assert!(!Path::new(&home.path("my.tape")).exists());
}
