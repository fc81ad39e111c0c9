//! `numaio doctor` on an emulated machine: programs on remote and on near nodes of a disk.

use numaio_lab::{Folder, Lab};
use numaio_schema::{Cost, Diagnosis};
use std::fs;

/// Reads the disk of node 7 with direct I/O.
const READ: &str = "dd if=/dev/vda of=/dev/null bs=1M iflag=direct";

#[test]
fn doctor_finds_a_program_on_a_remote_node_but_not_one_on_a_near_node() {
    let Some(lab) = Lab::open("doctor_finds_a_program_on_a_remote_node_but_not_one_on_a_near_node") else {
        return;
    };
    let folder = Folder::new("doctor");
    // CPUs 8 and 9 belong to node 4.
    let line = format!(
        "taskset 300 {READ} & sleep 2; numaio doctor --json --device vda -o /out/far.json; far=$?; kill $!; \
         numaio run --near vda -- {READ} & sleep 2; numaio doctor --json --device vda -o /out/near.json; kill $!; \
         exit $far"
    );
    let output = lab.run("amd-dl585-g7-disk", &folder.0, &["sh", "-c", &line]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let diagnosis = |name: &str| {
        let text = fs::read_to_string(folder.0.join(name)).expect("a file of results");
        Diagnosis::from_json(&text).expect("a diagnosis")
    };
    let remote = |found: &Diagnosis| {
        let programs = found.findings.iter().filter(|item| item.finding.rule == "program-remote");
        programs.cloned().collect::<Vec<_>>()
    };
    let findings = remote(&diagnosis("far.json"));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].finding.evidence.contains("threads on node 4: 1"), "{:?}", findings[0].finding);
    assert!(findings[0].fix.commands[0].starts_with("taskset -a -p -c 14-15 "), "{:?}", findings[0].fix);
    // The machine has no model, so the cost is unknown.
    assert_eq!(findings[0].cost, Cost::Unknown { measure: "run numaio model".to_owned() });
    assert!(remote(&diagnosis("near.json")).is_empty());
}
