//! The whole of the paper on an emulated machine: model, I/O, validation, and mixes foretold (Li et al., ICPP 2013).
//!
//! The disk of `amd-dl585-g7-disk` has the rates of the paper's SSDs by node of the buffer, and shares them as
//! lab/README.md says, of which numaio knows nothing.

#[path = "support/lab.rs"]
mod support;

use numaio_machine::workload::Direction;
use numaio_schema::{IoPrediction, Validation};
use std::fs;
use support::{Folder, Lab};

/// Mixes of 2 to 8 streams, six in each direction.
const MIXES: [&str; 6] = ["2:1,7:1", "2:1,3:1", "0:2,2:2", "4:2,6:2", "1:1,3:2,5:3", "0:1,2:1,4:3,7:3"];

/// What runs on the machine. Everything is saved there, as on any machine, and taken up by the next command.
fn script() -> String {
    let mut script = "set -e\n\
        numaio model -q --node 7 --classes paper --pause-balancing >/out/model.txt\n\
        numaio bench disk -q --device vda --i-know-this-destroys vda --exhaustive --streams 1 >/out/bench.txt\n\
        numaio validate --device vda -o /out/validation.txt\n\
        numaio validate --device vda --json -o /out/validation.json\n"
        .to_owned();
    for (direction, destroys) in [("write", "--i-know-this-destroys vda"), ("read", "")] {
        for (index, mix) in MIXES.iter().enumerate() {
            script += &format!(
                "numaio predict -q --device vda --direction {direction} --mix {mix} --measure {destroys} --json \
                 -o /out/{direction}-{index}.json\n"
            );
        }
    }
    script
}

#[test]
fn the_paper_is_played_through() {
    let Some(lab) = Lab::open("the_paper_is_played_through") else { return };
    let folder = Folder::new("foretell");
    let output = lab.run("amd-dl585-g7-disk", &folder.0, &["sh", "-c", &script()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_else(|_| panic!("no {name}"));
    let validation = Validation::from_json(&text("validation.json")).expect("a validation");
    println!("{}", text("validation.txt"));
    let classes = |direction: Direction| -> Vec<String> {
        let found = validation.directions.iter().find(|found| found.direction == direction);
        found.expect("the direction").classes.iter().map(|class| class.nodes.to_string()).collect()
    };
    assert_eq!(classes(Direction::Write), ["6-7", "0-1,4-5", "2-3"]);
    assert_eq!(classes(Direction::Read), ["6-7", "2-3", "0-1,5", "4"]);
    for direction in &validation.directions {
        for verdict in &direction.verdicts {
            assert_eq!(verdict.rank_agreement(), Some(1.0), "{verdict:?}");
            assert!(verdict.splits.is_empty() && !verdict.device_bound, "{verdict:?}");
        }
    }
    let mut errors = Vec::new();
    for direction in ["write", "read"] {
        for (index, mix) in MIXES.iter().enumerate() {
            let found = IoPrediction::from_json(&text(&format!("{direction}-{index}.json"))).expect("a prediction");
            let measured = found.mix.and_then(|mix| mix.measured).expect("it was measured");
            let (limits, equation_1) = (measured.limits_error, measured.equation_1_error);
            println!("{direction} {mix}: limits {:+.2} %, Equation 1 {:+.2} %", limits * 100.0, equation_1 * 100.0);
            errors.push(limits.abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    assert!(median <= 0.03 && worst <= 0.06, "median {median:.4}, worst {worst:.4}");
}
