//! The whole of the paper on an emulated machine: model, I/O by our own engine and by fio, validation, and mixes foretold
//! (Li et al., ICPP 2013).
//!
//! The disk of `amd-dl585-g7-disk` has the rates of the paper's SSDs by node of the buffer, and shares them as
//! lab/README.md says, of which numaio knows nothing.

use crate::support::{measured, skip, Folder, Lab};
use numaio_machine::workload::Direction;
use numaio_schema::{IoPrediction, IoRecord, Validation};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Mixes of 2 to 8 streams, each in both directions.
const MIXES: [&str; 6] = ["2:1,7:1", "2:1,3:1", "0:2,2:2", "4:2,6:2", "1:1,3:2,5:3", "0:1,2:1,4:3,7:3"];
const WRITES: &str = "--i-know-this-destroys vda";

/// What runs on the machine. Everything is saved there, as on any machine, and taken up by the next command.
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
            script += &format!(
                "numaio predict -q --engine disk --device vda --direction {direction} --mix {mix} --measure {destroys} \
                 --json -o /out/{direction}-{index}.json\n"
            );
        }
    }
    script
}

/// A static fio for the guest, built at first; none where that cannot be.
fn fio(root: &Path) -> Option<String> {
    let built = Command::new(root.join("tools/fio-static")).output().expect("tools/fio-static");
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr);
        skip("fio on the lab's disk", said.lines().last().unwrap_or("tools/fio-static failed"));
        return None;
    }
    Some(root.join(String::from_utf8_lossy(&built.stdout).trim()).to_string_lossy().into_owned())
}

#[test]
fn the_paper_is_played_through() {
    measured("the_paper_is_played_through", |lab| {
        let folder = Folder::new("foretell");
        let fio = fio(&lab.root);
        let (machine, script) = ("amd-dl585-g7-disk", script(fio.is_some()));
        let command = ["sh", "-c", &script];
        let output = match &fio {
            Some(fio) => lab.run_by(&["--add", fio], machine, &folder.0, &command),
            None => lab.run(machine, &folder.0, &command),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text =
            |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_else(|_| panic!("no {name}"));
        println!("{}", text("validation.txt"));
        let validation = Validation::from_json(&text("validation.json")).expect("a validation");
        check_validation(&validation, 1 + usize::from(fio.is_some()));
        let mut errors = Vec::new();
        for direction in ["write", "read"] {
            for (index, mix) in MIXES.iter().enumerate() {
                let found = IoPrediction::from_json(&text(&format!("{direction}-{index}.json")))
                    .expect("a prediction");
                let measured = found.mix.and_then(|mix| mix.measured).expect("it was measured");
                let (limits, equation_1) = (measured.limits_error, measured.equation_1_error);
                println!(
                    "{direction} {mix}: limits {:+.2} %, Equation 1 {:+.2} %",
                    limits * 100.0,
                    equation_1 * 100.0
                );
                errors.push(limits.abs());
            }
        }
        errors.sort_by(f64::total_cmp);
        let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
        assert!(median <= 0.03 && worst <= 0.06, "median {median:.4}, worst {worst:.4}");
    });
}

#[test]
fn what_was_measured_before_a_disk_vanished_is_kept() {
    let Some(lab) = Lab::open("what_was_measured_before_a_disk_vanished_is_kept") else { return };
    let folder = Folder::new("vanish");
    // More than a visit of each node, and less than two.
    let options = ["--disk", "vanish_after_bytes=70000000"];
    let bench =
        "bench disk -q --device vda --direction read --streams 1 --seconds 60 --precision 0.01 --no-save";
    let command =
        [&["numaio"], bench.split(' ').collect::<Vec<_>>().as_slice(), &["-o", "/out/io.json"]].concat();
    let output = lab.run_by(&options, "uniform-2n-disk", &folder.0, &command);
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("INCOMPLETE") && said.contains("[failed]") && said.contains("I/O error"), "{said}");
    let json = fs::read_to_string(folder.0.join("io.json")).expect("a record");
    let record = IoRecord::from_json(&json).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{said}");
}

/// Classes as in the paper, and every engine agrees with their order.
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
