//! The part of a run on one host.

use crate::support::{skipped, CommandOutput, Home, Limited};
use numaio_fleet::launch::frame;
use numaio_schema::{HostReport, TopologyDocument};

const REPORT: [&str; 6] = ["fleet", "host-report", "--run", "r1", "--host", "h1"];

fn report(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&REPORT, args].concat())
}

#[test]
fn report_has_facts_and_documents_and_no_raw_machine_id() {
    let home = Home::new();
    let output = report(&home, &["--output", "-", "--", "topology"]).ok();
    let found = HostReport::from_json(frame::decode(output.as_bytes()).expect("a frame")).expect("a report");
    assert_eq!((found.host.as_str(), found.run.as_str(), found.command.len()), ("h1", "r1", 1));
    assert_eq!(found.documents[0]["schema"], "numaio/topology/1");
    let printed = TopologyDocument::from_json(&found.documents[0].to_string()).expect("a topology");
    assert_eq!(printed.topology.identity, found.topology.topology.identity);
    assert!(found.diagnosis.is_some() && found.finished_at >= found.started_at && found.failure.is_none());
    if let Ok(id) = std::fs::read_to_string("/etc/machine-id") {
        assert!(found.machine_id.is_some() && !output.contains(id.trim()));
    }
    let again = report(&home, &["--output", "file"]).ok();
    assert_eq!(again, "");
    let text = std::fs::read_to_string(home.path("file")).expect("a report");
    let again = HostReport::from_json(&text).expect("a report");
    assert_eq!((again.machine_id, again.documents.len()), (found.machine_id, 0));
}

#[test]
fn failed_command_is_part_of_the_report() {
    let home = Home::new();
    let output = report(&home, &["--output", "file", "--", "model", "--node", "99"]);
    assert_eq!(output.code, Some(1));
    let text = std::fs::read_to_string(home.path("file")).expect("a report");
    let failure = HostReport::from_json(&text).expect("a report").failure.expect("a failure");
    assert!(failure.starts_with("numaio model exited with status 2: numaio: "), "{failure}");
    assert!(output.err.contains("99"), "the log has the message of the command: {}", output.err);
}

#[test]
fn closed_connection_ends_the_measurement_without_a_report() {
    let home = Home::new();
    // The tests' standard input is empty, as that of a lost connection.
    let args = ["--output", "file", "--attached", "--", "model", "--repetitions", "10000"];
    report(&home, &args).failed(130, &["interrupted"]);
    assert!(!home.0.join("file").exists());
}

#[test]
fn full_disk_is_an_error_without_a_half_file() {
    let home = Home::new();
    let script = "mkdir small && mount -t tmpfs -o size=4k none small || exit 99\n\
                  printf x >small/used\n\
                  \"$NUMAIO\" fleet host-report --run r --host h --output small/h.json -- topology\n\
                  status=$?; ls small; exit $status";
    let Some(output) = home.run_unshared("-m", &[script]) else {
        return skipped("fleet: no private mounts here");
    };
    assert_eq!(output.out, "used\n", "no half report");
    output.failed(1, &["small/h.json", "No space left on device"]);
}

#[test]
fn missing_directory_fails_before_the_measurement() {
    let home = Home::new();
    report(&home, &["--output", "absent/h.json", "--", "topology"]).failed(1, &["absent/h.json"]);
    let mut command = home.numaio(&[&REPORT, &["--output", "x", "--time-limit", "0"][..]].concat());
    CommandOutput::of(command.limited_output().expect("numaio")).failed(2, &["--time-limit"]);
}
