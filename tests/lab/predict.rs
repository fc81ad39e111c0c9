//! Reproduces the paper on an emulated machine (Li et al., ICPP 2013).
//!
//! The test models the machine, measures I/O with numaio's engine and with fio, validates the model
//! and predicts mixes. The disk of `amd-dl585-g7-disk` has the rates of the paper's SSDs by node of
//! the buffer; lab/README.md describes how streams share them.

use numaio_lab::{measure, note_value, skip, Folder, Lab};
use numaio_machine::workload::Direction;
use numaio_schema::{IoPrediction, IoRecord, Validation};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Mixes of 2 to 8 streams, each in both directions.
const MIXES: [&str; 6] = ["2:1,7:1", "2:1,3:1", "0:2,2:2", "4:2,6:2", "1:1,3:2,5:3", "0:1,2:1,4:3,7:3"];
const WRITES: &str = "--i-know-this-destroys vda";

/// Returns the script for the machine. Each command saves its results for the next one.
fn script(with_fio: bool) -> String {
    let bench =
        format!("numaio bench disk -q --device vda {WRITES} --exhaustive --streams 1 --seconds 60 --engine");
    let mut script = "set -e\n\
        echo 0 >/proc/sys/kernel/numa_balancing\n\
        numaio model -q --node 7 --classes paper >/out/model.txt\n"
        .to_owned();
    if with_fio {
        script += &format!("{bench} fio >/out/fio.txt\n");
    }
    script += &format!("{bench} disk >/out/disk.txt\n");
    for form in ["-o /out/validation.txt", "--json -o /out/validation.json"] {
        script += &format!("numaio validate --device vda {form}\n");
    }
    for (direction, destroys) in [("write", WRITES), ("read", "")] {
        for (index, mix) in MIXES.iter().enumerate() {
            // The first prediction of a direction also measures the suggested mixes.
            let suggested = if index == 0 { "" } else { "--mix-only" };
            script += &format!(
                "numaio predict -q --engine disk --device vda --direction {direction} --mix {mix} \
                 --measure {suggested} {destroys} --json -o /out/{direction}-{index}.json\n"
            );
        }
    }
    script
}

/// Returns the path of a static fio for the guest, building it first; none if that fails.
fn fio(root: &Path) -> Option<String> {
    let built = Command::new(root.join("tools/fio-static")).output().expect("tools/fio-static");
    if !built.status.success() {
        let stderr = String::from_utf8_lossy(&built.stderr);
        skip("fio on the lab's disk", stderr.lines().last().unwrap_or("tools/fio-static failed"));
        return None;
    }
    Some(root.join(String::from_utf8_lossy(&built.stdout).trim()).to_string_lossy().into_owned())
}

#[test]
#[ignore = "make test-all: a campaign of 6 minutes"]
fn models_validation_and_predictions_match_the_paper() {
    measure("models_validation_and_predictions_match_the_paper", |lab| {
        let folder = Folder::new("predict");
        let fio = fio(&lab.root);
        let (machine, script) = ("amd-dl585-g7-disk", script(fio.is_some()));
        let command = ["sh", "-c", &script];
        let output = match &fio {
            Some(fio) => lab.run_with_options(&["--add", fio], machine, &folder.0, &command),
            None => lab.run(machine, &folder.0, &command),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text =
            |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_else(|_| panic!("no {name}"));
        println!("{}", text("validation.txt"));
        let validation = Validation::from_json(&text("validation.json")).expect("a validation");
        check_validation(&validation, 1 + usize::from(fio.is_some()));
        let (mut errors, mut missed) = (Vec::new(), Vec::new());
        for direction in ["write", "read"] {
            for (index, mix) in MIXES.iter().enumerate() {
                let found = IoPrediction::from_json(&text(&format!("{direction}-{index}.json")))
                    .expect("a prediction");
                let predicted = found.mix.expect("a mix");
                let measured = predicted.measured.expect("a measured mix");
                let (limits, equation_1) = (measured.limits_error, measured.equation_1_error);
                println!(
                    "{direction} {mix}: limits {:+.2} %, Equation 1 {:+.2} %",
                    limits * 100.0,
                    equation_1 * 100.0
                );
                errors.push(limits.abs());
                // A prediction is uncertain until enough mixes are measured, and states that.
                let value = measured.estimate.bytes_per_s;
                let is_held = predicted.limits.low <= value && value <= predicted.limits.high;
                if limits.abs() > 0.06 && !is_held {
                    missed.push((direction, mix, predicted.limits, value));
                }
            }
        }
        errors.sort_by(f64::total_cmp);
        let median = errors[errors.len() / 2];
        note_value("median error", median);
        assert!(median <= 0.03, "median {median:.4}: {errors:?}");
        // Intervals of 95 % hold at least 90 % of twelve values.
        assert!(missed.len() <= 1, "{missed:?}");
    });
}

#[test]
fn measurements_before_a_disk_vanishes_are_kept() {
    let Some(lab) = Lab::open("measurements_before_a_disk_vanishes_are_kept") else { return };
    let folder = Folder::new("vanish");
    // Enough for one visit of each node, but not for two.
    let options = ["--disk", "vanish_after_bytes=70000000"];
    let bench =
        "bench disk -q --device vda --direction read --streams 1 --seconds 60 --precision 0.01 --no-save";
    let command =
        [&["numaio"], bench.split(' ').collect::<Vec<_>>().as_slice(), &["-o", "/out/io.json"]].concat();
    let output = lab.run_with_options(&options, "uniform-2n-disk", &folder.0, &command);
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        words.contains("INCOMPLETE") && words.contains("[failed]") && words.contains("I/O error"),
        "{words}"
    );
    let json = fs::read_to_string(folder.0.join("io.json")).expect("a record");
    let record = IoRecord::from_json(&json).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{words}");
}

/// Asserts the classes of the paper, and that every engine confirms their order.
fn check_validation(validation: &Validation, engines: usize) {
    let classes = |direction: Direction| -> Vec<String> {
        let found = validation.directions.iter().find(|found| found.direction == direction);
        found.expect("the direction").classes.iter().map(|class| class.nodes.to_string()).collect()
    };
    assert_eq!(classes(Direction::Write), ["6-7", "0-1,4-5", "2-3"]);
    assert_eq!(classes(Direction::Read), ["6-7", "2-3", "0-1,5", "4"]);
    for direction in &validation.directions {
        assert_eq!(direction.verdicts.len(), engines);
        for verdict in &direction.verdicts {
            assert_eq!(verdict.rank_agreement(), Some(1.0), "{verdict:?}");
            assert!(verdict.splits.is_empty() && !verdict.device_bound, "{verdict:?}");
        }
    }
}
