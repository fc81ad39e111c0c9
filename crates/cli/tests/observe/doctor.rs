//! `numaio doctor`, as a user types it.

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

/// The paper's machine with other files.
fn tape(home: &Home, change: impl FnOnce(&mut Tree)) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/amd-dl585-g7.tape");
    let mut tape = Tape::parse(&fs::read_to_string(path).expect("a tape")).expect("a tape");
    change(&mut tape.files);
    home.file("changed.tape", &tape.to_text())
}

/// The same, ill: interrupts of eth0 on node 4, a node that spills, and settings.
fn ill(files: &mut Tree) {
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

/// Numbers of a device's interrupts.
fn irqs_of(files: &Tree, name: &str) -> Vec<u32> {
    let device =
        discover(files).devices.into_iter().find(|device| device.has_name(name)).expect("the device");
    device.irqs.iter().map(|irq| irq.number).collect()
}

fn diagnosis(home: &Home, args: &[&str], code: i32) -> Diagnosis {
    let said = home.run(&[&["doctor", "--json"], args].concat());
    assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
    Diagnosis::from_json(&said.out).expect("a diagnosis")
}

fn of_rule<'d>(diagnosis: &'d Diagnosis, rule: &str) -> &'d DiagnosedFinding {
    let found = diagnosis.findings.iter().find(|found| found.finding.rule == rule);
    found.unwrap_or_else(|| panic!("no {rule} in {:?}", diagnosis.findings))
}

#[test]
fn an_ill_machine_is_told_what_it_costs_and_what_mends_it() {
    let home = Home::new();
    let tape = tape(&home, ill);
    let said = home.run(&["doctor", "--machine", &tape]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    expect("doctor-ill.txt", &said.out);
    let diagnosis = diagnosis(&home, &["--machine", &tape], 1);
    let irqs = of_rule(&diagnosis, "irq-foreign-node");
    match &irqs.cost {
        // Node 4 is the worst to receive on: 0.056 of 0.104 GB/s.
        Cost::Known { losses, .. } => {
            assert_eq!((losses.len(), losses[0].direction), (1, Some(Direction::Read)));
            assert!((losses[0].most - 0.46).abs() < 0.01, "{losses:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(irqs.mend.commands, ["numaio irq apply eth0"]);
    assert_eq!(diagnosis.findings[0], *irqs, "the dearest stands first");
    assert!(matches!(of_rule(&diagnosis, "zone-reclaim").cost, Cost::Unknown { .. }));
}

#[test]
fn a_sound_machine_has_notes_alone() {
    let home = Home::new();
    let found = diagnosis(&home, &["--machine", TAPE], 0);
    assert!(!found.has_faults() && !found.unseen.is_empty());
    let file = home.path("diagnosis.json");
    home.run(&["doctor", "--machine", TAPE, "--json", "-o", &file]).ok();
    assert_eq!(Diagnosis::from_json(&fs::read_to_string(file).expect("a file")).expect("a diagnosis"), found);
}

#[test]
fn what_spans_sockets_is_told_of_a_tape_too() {
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
    let spans = |named: [&str; 2]| {
        let found = Diagnosis::from_json(&home.run(&["doctor", "--json", named[0], named[1]]).out);
        let found = found.expect("a diagnosis");
        found.findings.into_iter().find(|it| it.finding.rule == "spans-sockets").expect("it spans").finding
    };
    let seen = spans(["--sysroot", &root]);
    assert_eq!(seen.subject, "bond0");
    home.run(&["record", "--sysroot", &root, "--no-measure", "-o", &tape]).ok();
    assert_eq!(spans(["--machine", &tape]), seen);
}

#[test]
fn of_one_device_others_are_left_out() {
    let home = Home::new();
    let tape = tape(&home, ill);
    let rules = |device: &str| -> Vec<String> {
        let found = diagnosis(&home, &["--machine", &tape, "--device", device], 1);
        assert_eq!(found.devices, [device]);
        found.findings.into_iter().map(|found| found.finding.rule).collect()
    };
    assert!(rules("eth0").contains(&"irq-foreign-node".to_owned()));
    let of_drive = rules("nvme0n1");
    assert!(!of_drive.contains(&"irq-foreign-node".to_owned()), "{of_drive:?}");
    assert!(of_drive.contains(&"node-spills".to_owned()) && of_drive.contains(&"zone-reclaim".to_owned()));
    home.run(&["doctor", "--machine", TAPE, "--device", "nvme0n9"]).failed(2, &["nvme0n9", "nvme0n1"]);
    home.run(&["doctor", "--machine", TAPE, "--model", &tape]).failed(1, &["found a tape"]);
    home.run(&["doctor", "nvme0n1"]).failed(2, &["nvme0n1"]);
}

#[test]
fn without_a_model_the_cost_is_unknown_and_not_invented() {
    let home = Home::new();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/amd-dl585-g7.tape");
    let mut tape = Tape::parse(&fs::read_to_string(shipped).expect("a tape")).expect("a tape");
    ill(&mut tape.files);
    tape.runs.clear();
    let path = home.file("unmeasured.tape", &tape.to_text());
    let found = diagnosis(&home, &["--machine", &path], 1);
    for diagnosed in &found.findings {
        assert!(!matches!(diagnosed.cost, Cost::Known { .. }), "{diagnosed:?}");
    }
    let irqs = of_rule(&found, "irq-foreign-node");
    assert_eq!(irqs.cost, Cost::Unknown { find_out: "run numaio model".into() });
    assert!(found.unseen.iter().any(|unseen| unseen.contains("no model")), "{:?}", found.unseen);
}

/// This machine, whatever it is, and as many others as are at hand.
#[test]
fn every_machine_can_be_looked_at() {
    let home = Home::new();
    let looked_at = |args: &[&str]| {
        let said = home.run(&[&["doctor", "--json", "--quiet"], args].concat());
        assert!(matches!(said.code, Some(0 | 1)) && said.err.is_empty(), "{args:?}: {}", said.err);
        let found = Diagnosis::from_json(&said.out).expect("a diagnosis");
        assert_eq!(said.code == Some(1), found.has_faults(), "{args:?}");
        found
    };
    looked_at(&[]);
    for (name, root) in recorded::machines() {
        let found = looked_at(&["--sysroot", &root.to_string_lossy()]);
        let text = home.run(&["doctor", "--sysroot", &root.to_string_lossy()]).out;
        assert!(text.contains("I/O bandwidth check of"), "{name}");
        // Nothing was measured there, and registers of links are all that can tell.
        for diagnosed in &found.findings {
            let by_link = diagnosed.finding.rule == "pcie-link-degraded";
            assert!(by_link || !matches!(diagnosed.cost, Cost::Known { .. }), "{name}: {diagnosed:?}");
            assert!(!diagnosed.finding.evidence.trim().is_empty(), "{name}: {diagnosed:?}");
        }
    }
}
