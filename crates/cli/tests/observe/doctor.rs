//! `numaio doctor` at the command line.

use crate::recorded;
use crate::stacks;
use crate::support::{expect, Home};
use numaio_machine::discover::discover;
use numaio_machine::tape::Tape;
use numaio_machine::tree::Tree;
use numaio_machine::workload::Direction;
use numaio_schema::{Cost, DiagnosedFinding, Diagnosis};
use std::fs;

const TAPE: &str = "amd-dl585-g7";

/// Writes the tape of the paper's machine with modified files.
pub fn modified_tape(home: &Home, change: impl FnOnce(&mut Tree)) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/amd-dl585-g7.tape");
    let mut tape = Tape::parse(&fs::read_to_string(path).expect("a tape")).expect("a tape");
    change(&mut tape.files);
    home.file("changed.tape", &tape.to_text())
}

/// Misconfigures the machine: interrupts of eth0 on node 4, a node that allocates on others, and
/// kernel settings.
fn misconfigure(files: &mut Tree) {
    for irq in irqs_of(files, "eth0") {
        files.file(&format!("/proc/irq/{irq}/smp_affinity_list"), "8-9\n");
        files.file(&format!("/proc/irq/{irq}/effective_affinity_list"), "8\n");
    }
    files.file("/proc/sys/vm/zone_reclaim_mode", "1\n");
    files.file("/proc/sys/kernel/numa_balancing", "1\n");
    files.file(
        "/sys/devices/system/node/node7/numastat",
        "numa_hit 750000\nnuma_miss 0\nnuma_foreign 250000\n",
    );
}

/// Returns the interrupt numbers of a device.
pub fn irqs_of(files: &Tree, name: &str) -> Vec<u32> {
    let device =
        discover(files).devices.into_iter().find(|device| device.has_name(name)).expect("the device");
    device.irqs.iter().map(|irq| irq.number).collect()
}

fn diagnosis(home: &Home, args: &[&str], code: i32) -> Diagnosis {
    let output = home.run(&[&["doctor", "--json"], args].concat());
    assert_eq!(output.code, Some(code), "{args:?}: {}", output.err);
    Diagnosis::from_json(&output.out).expect("a diagnosis")
}

fn of_rule<'d>(diagnosis: &'d Diagnosis, rule: &str) -> &'d DiagnosedFinding {
    let found = diagnosis.findings.iter().find(|found| found.finding.rule == rule);
    found.unwrap_or_else(|| panic!("no {rule} in {:?}", diagnosis.findings))
}

#[test]
fn misconfigured_machine_gets_costs_and_fixes() {
    let home = Home::new();
    let tape = modified_tape(&home, misconfigure);
    let output = home.run(&["doctor", "--machine", &tape]);
    assert_eq!(output.code, Some(1), "{}", output.err);
    expect("doctor-ill.txt", &output.out);
    let diagnosis = diagnosis(&home, &["--machine", &tape], 1);
    let irqs = of_rule(&diagnosis, "irq-foreign-node");
    match &irqs.cost {
        // Node 4 is the worst to receive on: 0.056 of 0.104 GB/s.
        Cost::Known { losses, .. } => {
            assert_eq!((losses.len(), losses[0].direction), (1, Some(Direction::Read)));
            assert!((losses[0].high - 0.46).abs() < 0.01, "{losses:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(irqs.fix.commands, ["numaio irq apply eth0"]);
    assert_eq!(diagnosis.findings[0], *irqs, "the most costly finding is first");
    assert!(matches!(of_rule(&diagnosis, "zone-reclaim").cost, Cost::Unknown { .. }));
}

#[test]
fn correctly_configured_machine_has_notes_only() {
    let home = Home::new();
    let found = diagnosis(&home, &["--machine", TAPE], 0);
    assert!(!found.has_faults() && !found.not_checked.is_empty());
    let file = home.path("diagnosis.json");
    home.run(&["doctor", "--machine", TAPE, "--json", "-o", &file]).ok();
    assert_eq!(Diagnosis::from_json(&fs::read_to_string(file).expect("a file")).expect("a diagnosis"), found);
}

#[test]
fn bond_across_sockets_is_found_on_a_tape_too() {
    let home = Home::new();
    let mut machine = stacks::Machine::new();
    for (address, name, node) in [("0000:00:01.0", "eth0", 0), ("0000:00:02.0", "eth1", 1)] {
        machine.nic(address, name, node);
    }
    machine.virtual_interface("bond0");
    for (file, content) in
        [("uevent", "DEVTYPE=bond"), ("bonding/mode", "balance-rr 0"), ("bonding/slaves", "eth0 eth1")]
    {
        machine.net("bond0", file, content);
    }
    machine.enslave("bond0", "eth0");
    machine.enslave("bond0", "eth1");
    for cpu in 0..4 {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        machine.tree.file(&file, format!("{}\n", cpu / 2));
    }
    let (root, tape) = (home.path("root"), home.path("bond.tape"));
    numaio_sim::write_tree(&machine.tree, std::path::Path::new(&root)).expect("a tree");
    let finding = |machine: [&str; 2]| {
        let found = Diagnosis::from_json(&home.run(&["doctor", "--json", machine[0], machine[1]]).out);
        let found = found.expect("a diagnosis");
        found.findings.into_iter().find(|it| it.finding.rule == "spans-sockets").expect("a finding").finding
    };
    let seen = finding(["--sysroot", &root]);
    assert_eq!(seen.subject, "bond0");
    home.run(&["record", "--sysroot", &root, "--no-measure", "-o", &tape]).ok();
    assert_eq!(finding(["--machine", &tape]), seen);
}

#[test]
fn device_option_excludes_other_devices() {
    let home = Home::new();
    let tape = modified_tape(&home, misconfigure);
    let rules = |device: &str| -> Vec<String> {
        let found = diagnosis(&home, &["--machine", &tape, "--device", device], 1);
        assert_eq!(found.devices, [device]);
        found.findings.into_iter().map(|found| found.finding.rule).collect()
    };
    assert!(rules("eth0").contains(&"irq-foreign-node".to_owned()));
    let drive_rules = rules("nvme0n1");
    assert!(!drive_rules.contains(&"irq-foreign-node".to_owned()), "{drive_rules:?}");
    assert!(
        drive_rules.contains(&"node-spills".to_owned()) && drive_rules.contains(&"zone-reclaim".to_owned())
    );
    home.run(&["doctor", "--machine", TAPE, "--device", "nvme0n9"]).failed(2, &["nvme0n9", "nvme0n1"]);
    home.run(&["doctor", "--machine", TAPE, "--model", &tape]).failed(1, &["found a tape"]);
    home.run(&["doctor", "nvme0n1"]).failed(2, &["nvme0n1"]);
}

#[test]
fn cost_is_unknown_without_a_model() {
    let home = Home::new();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/amd-dl585-g7.tape");
    let mut tape = Tape::parse(&fs::read_to_string(shipped).expect("a tape")).expect("a tape");
    misconfigure(&mut tape.files);
    tape.runs.clear();
    let path = home.file("unmeasured.tape", &tape.to_text());
    let found = diagnosis(&home, &["--machine", &path], 1);
    for diagnosed in &found.findings {
        assert!(!matches!(diagnosed.cost, Cost::Known { .. }), "{diagnosed:?}");
    }
    let irqs = of_rule(&found, "irq-foreign-node");
    assert_eq!(irqs.cost, Cost::Unknown { measure: "run numaio model".into() });
    assert!(
        found.not_checked.iter().any(|unseen| unseen.contains("no saved model")),
        "{:?}",
        found.not_checked
    );
}

/// Diagnoses this machine and all available recorded ones.
#[test]
fn diagnoses_every_machine() {
    let home = Home::new();
    let diagnose = |args: &[&str]| {
        let output = home.run(&[&["doctor", "--json", "--quiet"], args].concat());
        assert!(matches!(output.code, Some(0 | 1)) && output.err.is_empty(), "{args:?}: {}", output.err);
        let found = Diagnosis::from_json(&output.out).expect("a diagnosis");
        assert_eq!(output.code == Some(1), found.has_faults(), "{args:?}");
        found
    };
    diagnose(&[]);
    for (name, root) in recorded::machines() {
        let found = diagnose(&["--sysroot", &root.to_string_lossy()]);
        let text = home.run(&["doctor", "--sysroot", &root.to_string_lossy()]).out;
        assert!(text.contains("I/O bandwidth check of"), "{name}");
        // Without measurements, only the registers of links provide a cost.
        for diagnosed in &found.findings {
            let is_link = diagnosed.finding.rule == "pcie-link-degraded";
            assert!(is_link || !matches!(diagnosed.cost, Cost::Known { .. }), "{name}: {diagnosed:?}");
            assert!(!diagnosed.finding.evidence.trim().is_empty(), "{name}: {diagnosed:?}");
        }
    }
}
