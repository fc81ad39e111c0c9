//! `numaio doctor` on an emulated machine: a program far from its disk is found out, and one in its place is not.

use crate::support::{Folder, Lab};
use numaio_schema::{Cost, Diagnosis};
use std::fs;

/// Reads the disk of node 7 for a while, past the page cache.
const READ: &str = "dd if=/dev/vda of=/dev/null bs=1M iflag=direct";

#[test]
fn a_program_far_from_its_disk_is_found_and_one_in_its_place_is_not() {
    let Some(lab) = Lab::open("a_program_far_from_its_disk_is_found_and_one_in_its_place_is_not") else {
        return;
    };
    let folder = Folder::new("doctor");
    // CPUs 8 and 9 are those of node 4.
    let line = format!(
        "taskset 300 {READ} & sleep 2; numaio doctor --json --device vda -o /out/far.json; far=$?; kill $!; \
         numaio run --near vda -- {READ} & sleep 2; numaio doctor --json --device vda -o /out/near.json; kill $!; \
         exit $far"
    );
    let output = lab.run("amd-dl585-g7-disk", &folder.0, &["sh", "-c", &line]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let diagnosis = |name: &str| {
        let text = fs::read_to_string(folder.0.join(name)).expect("a file that came back");
        Diagnosis::from_json(&text).expect("a diagnosis")
    };
    let remote = |found: &Diagnosis| {
        let programs = found.findings.iter().filter(|it| it.finding.rule == "program-remote");
        programs.cloned().collect::<Vec<_>>()
    };
    let far = remote(&diagnosis("far.json"));
    assert_eq!(far.len(), 1, "{far:?}");
    assert!(far[0].finding.evidence.contains("threads on node 4: 1"), "{:?}", far[0].finding);
    assert!(far[0].mend.commands[0].starts_with("taskset -a -p -c 14-15 "), "{:?}", far[0].mend);
    // Nothing was measured on that machine.
    assert_eq!(far[0].cost, Cost::Unknown { find_out: "run numaio model".to_owned() });
    assert!(remote(&diagnosis("near.json")).is_empty());
}
